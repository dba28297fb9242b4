//! Credentials that a command hands out (type Dynamic): which command may be run, what it is given, and what it answers.
//!
//! A command is a plain file name in one directory that the operator names. It gets nothing of our environment, little time, and
//! little room for its answer, which is used until shortly before its end.
//!
//! Upstream: `cluster-gateway` `pkg/util/exec`; error texts are those of its users.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::jiff::Timestamp;
use kube::config::AuthInfo;
use serde::Deserialize;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

/// How long a command may run.
const RUNS: Duration = Duration::from_secs(10);
/// The longest answer, in bytes.
const MAX_ANSWER: u64 = 64 << 10;
/// How long before its end a credential is not used any more.
const MARGIN: Duration = Duration::from_secs(60);
/// The pause before it is asked again whether a command has ended that gave its answer.
const MOMENT: Duration = Duration::from_millis(5);
/// How long a credential without an end is used.
const WITHOUT_END: Duration = Duration::from_secs(600);
/// The API of commands.
const VERSIONS: [&str; 2] =
    ["client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"];

/// A command as a Secret names it. Its arguments and environment may hold secrets: it shows nothing of itself.
#[derive(Clone)]
pub(crate) struct Exec {
    api_version: String,
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl std::fmt::Debug for Exec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Exec")
    }
}

/// A credential, and when it is not used any more.
pub(crate) struct Issued {
    pub(crate) auth: AuthInfo,
    pub(crate) lasts: Duration,
}

/// Why a command gives no credential.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ExecError {
    #[error("exec: executable {0} not found")]
    NotFound(String),
    #[error("exec: executable {0} could not be run: {1}")]
    NotRun(String, io::ErrorKind),
    #[error("exec: executable {0} failed with exit code {1}")]
    Failed(String, i32),
    #[error("exec: executable {0} did not end within {1:?}")]
    Late(String, Duration),
    #[error("exec: executable {0} answered more than {MAX_ANSWER} bytes")]
    TooLong(String),
    #[error("decoding stdout: it is no ExecCredential")]
    Unreadable,
    #[error("exec plugin is configured to use API version {0}, plugin returned version {1}")]
    OtherVersion(String, String),
    #[error("exec plugin didn't return a status field")]
    NoStatus,
    #[error("exec plugin didn't return a token or cert/key pair")]
    NoCredential,
    #[error("exec plugin returned only certificate or key, not both")]
    HalfPair,
    #[error("exec plugin returned a credential that has expired")]
    Expired,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    api_version: Option<String>,
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<Vec<Variable>>,
}

#[derive(Deserialize)]
struct Variable {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    api_version: String,
    status: Option<Status>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    expiration_timestamp: Option<Timestamp>,
    token: Option<String>,
    client_certificate_data: Option<String>,
    client_key_data: Option<String>,
}

impl Exec {
    /// Reads the configuration of a Secret.
    ///
    /// # Errors
    /// What is wrong with it, in words that do not repeat it.
    pub(super) fn read(text: &str) -> Result<Self, &'static str> {
        let written: Written = serde_json::from_str(text)
            .map_err(|_| "is no exec credential configuration in JSON")?;
        let api_version = written.api_version.unwrap_or_default();
        if !VERSIONS.contains(&api_version.as_str()) {
            return Err(
                "has an invalid apiVersion, client.authentication.k8s.io/v1 or v1beta1 is needed",
            );
        }
        let command = written.command.unwrap_or_default();
        if command.is_empty() {
            return Err("has no \"command\"");
        }
        // One that leads elsewhere would be run with all that its place makes of it.
        if command.contains(['/', '\\', '\0']) || command.starts_with('.') {
            return Err("has a \"command\" that is no plain file name");
        }
        let env: Vec<_> = written.env.unwrap_or_default();
        let env = env.into_iter().map(|Variable { name, value }| (name, value));
        let is_passed = |(name, _): &(String, String)| {
            !name.is_empty()
                && !name.contains(['=', '\0'])
                && !name.starts_with("LD_")
                && name != "PATH"
        };
        let env: Vec<_> = env.filter(is_passed).collect();
        let args = written.args.unwrap_or_default();
        let has_end = |text: &String| text.contains('\0');
        if args.iter().any(has_end) || env.iter().any(|(_, value)| has_end(value)) {
            return Err("has an argument or a variable with a zero byte");
        }
        Ok(Self { api_version, command, args, env })
    }

    /// Runs the command.
    ///
    /// # Errors
    /// It gives no credential, and why.
    pub(crate) async fn issue(&self, dir: &Path, now: Timestamp) -> Result<Issued, ExecError> {
        let out = self.output(dir).await?;
        self.understood(&out, now)
    }

    async fn output(&self, dir: &Path) -> Result<Vec<u8>, ExecError> {
        let path: PathBuf = dir.join(&self.command);
        let info = json!({"apiVersion": self.api_version, "kind": "ExecCredential",
            "spec": {"interactive": false}});
        let mut command = Command::new(path);
        command
            .args(&self.args)
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .env("PATH", dir)
            .env("KUBERNETES_EXEC_INFO", info.to_string())
            .current_dir(dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let name = || self.command.clone();
        let child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => ExecError::NotFound(name()),
            kind => ExecError::NotRun(name(), kind),
        })?;
        match tokio::time::timeout(RUNS, Running(child).finished()).await {
            Err(_) => Err(ExecError::Late(name(), RUNS)),
            Ok(Err(error)) => Err(ExecError::NotRun(name(), error.kind())),
            Ok(Ok((out, _))) if out.len() as u64 > MAX_ANSWER => Err(ExecError::TooLong(name())),
            Ok(Ok((_, code))) if code != 0 => Err(ExecError::Failed(name(), code)),
            Ok(Ok((out, _))) => Ok(out),
        }
    }

    fn understood(&self, out: &[u8], now: Timestamp) -> Result<Issued, ExecError> {
        let answer: Answer = serde_json::from_slice(out).map_err(|_| ExecError::Unreadable)?;
        if answer.api_version != self.api_version {
            let theirs = answer.api_version.chars().take(80).collect();
            return Err(ExecError::OtherVersion(self.api_version.clone(), theirs));
        }
        let status = answer.status.ok_or(ExecError::NoStatus)?;
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        let token = given(status.token);
        let pair = (given(status.client_certificate_data), given(status.client_key_data));
        let mut auth = AuthInfo { token: token.map(Into::into), ..AuthInfo::default() };
        match pair {
            (Some(certificate), Some(key)) => {
                auth.client_certificate_data = Some(STANDARD.encode(certificate));
                auth.client_key_data = Some(STANDARD.encode(key).into());
            }
            (None, None) if auth.token.is_none() => return Err(ExecError::NoCredential),
            (None, None) => {}
            _ => return Err(ExecError::HalfPair),
        }
        let lasts = match status.expiration_timestamp {
            None => WITHOUT_END,
            Some(end) => {
                let left = Duration::try_from(end.duration_since(now)).unwrap_or_default();
                if left.is_zero() {
                    return Err(ExecError::Expired);
                }
                left.saturating_sub(MARGIN)
            }
        };
        Ok(Issued { auth, lasts })
    }
}

/// A command that runs. It ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended already was waited for.
        if self.0.kill().is_ok() {
            let _ = self.0.wait();
        }
    }
}

impl Running {
    /// What it answers, up to the limit and one byte more, and its exit code.
    async fn finished(mut self) -> io::Result<(Vec<u8>, i32)> {
        let mut out = Vec::new();
        if let Some(stdout) = self.0.stdout.take() {
            let stdout = pipe::Receiver::from_owned_fd(OwnedFd::from(stdout))?;
            stdout.take(MAX_ANSWER + 1).read_to_end(&mut out).await?;
        }
        if out.len() as u64 > MAX_ANSWER {
            return Ok((out, -1));
        }
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok((out, status.code().unwrap_or(-1)));
            }
            tokio::time::sleep(MOMENT).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn now() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    fn exec(command: &str, env: &str) -> Result<Exec, &'static str> {
        Exec::read(&format!(
            r#"{{"apiVersion": "client.authentication.k8s.io/v1", "command": "{command}", "args": ["x"], "env": [{env}]}}"#
        ))
    }

    #[test]
    fn only_plain_commands_of_known_versions_are_taken() {
        for (text, part) in [
            ("{", "JSON"),
            ("{}", "apiVersion"),
            (
                r#"{"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "a"}"#,
                "apiVersion",
            ),
            (r#"{"apiVersion": "client.authentication.k8s.io/v1"}"#, "command"),
        ] {
            assert!(Exec::read(text).unwrap_err().contains(part), "{text}");
        }
        for bad in ["/bin/sh", "../sh", "..", ".hidden", "a/b"] {
            assert!(exec(bad, "").unwrap_err().contains("plain file name"), "{bad}");
        }
        assert!(exec("aws", "").is_ok());
    }

    #[test]
    fn answers_are_understood_or_say_what_is_wrong() {
        let exec = exec("aws", "").unwrap();
        let status = |status: &str| {
            let text = format!(
                r#"{{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {status}}}"#
            );
            exec.understood(text.as_bytes(), now()).map(|issued| {
                (
                    issued.auth.token.is_some(),
                    issued.auth.client_key_data.is_some(),
                    issued.lasts.as_secs(),
                )
            })
        };
        for (given, expected) in [
            (r#"{"token": "t"}"#, Ok((true, false, 600))),
            (
                r#"{"token": "t", "expirationTimestamp": "2026-01-01T00:15:00Z"}"#,
                Ok((true, false, 840)),
            ),
            (
                r#"{"token": "t", "expirationTimestamp": "2026-01-01T00:00:30Z"}"#,
                Ok((true, false, 0)),
            ),
            (r#"{"clientCertificateData": "c", "clientKeyData": "k"}"#, Ok((false, true, 600))),
            (r#"{"clientCertificateData": "c"}"#, Err("only certificate or key")),
            (r#"{"token": ""}"#, Err("token or cert/key pair")),
            ("null", Err("status field")),
            (r#"{"token": "t", "expirationTimestamp": "2025-01-01T00:00:00Z"}"#, Err("expired")),
        ] {
            match (status(given), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{given}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, _) => panic!("{given}: {found:?}"),
            }
        }
        let other =
            br#"{"apiVersion": "client.authentication.k8s.io/v1beta1", "status": {"token": "t"}}"#;
        let error = exec.understood(other, now()).err().unwrap().to_string();
        assert!(error.contains("returned version client.authentication.k8s.io/v1beta1"), "{error}");
        assert!(
            exec.understood(b"hello", now()).err().unwrap().to_string().starts_with("decoding")
        );
    }

    #[tokio::test]
    async fn a_command_gets_its_own_environment_only_and_is_limited() {
        let dir = std::env::temp_dir().join(format!("vela-exec-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let write = |name: &str, script: &str| {
            let path = dir.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        };
        let answer = r#"echo "{\"apiVersion\": \"client.authentication.k8s.io/v1\", \"status\": {\"token\": \"$A-$LD_PRELOAD-$HOME-$PATH-$1\"}}""#;
        write("good", answer);
        write("bad", "exit 7");
        write("long", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done");
        let env = r#"{"name": "A", "value": "a"}, {"name": "LD_PRELOAD", "value": "evil"}, {"name": "PATH", "value": "/evil"}"#;
        let issue = async |name: &str| {
            let issued = exec(name, env).unwrap().issue(&dir, now()).await;
            issued.map(|issued| {
                // Its own type shows a token to nobody.
                let text = serde_json::to_value(&issued.auth).unwrap()["token"].clone();
                text.as_str().unwrap().to_owned()
            })
        };
        assert_eq!(issue("good").await.unwrap(), format!("a---{}-x", dir.display()));
        for (name, part) in [
            ("bad", "failed with exit code 7"),
            ("long", "answered more than 65536 bytes"),
            ("none", "executable none not found"),
        ] {
            let error = issue(name).await.unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
