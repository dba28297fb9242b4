//! Both programs as processes: bad input at start, an API server that is late, the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use vela_tests::cluster::free_port;
use vela_tests::fixtures::{Space, binaries, until};
use vela_tests::http::request;
use vela_tests::process::{Invocation, Watchdog};

/// Runs a program that shall end by itself.
fn run(program: &Path, args: &[&str], kubeconfig: &Path) -> Output {
    Command::new("timeout")
        .arg("20")
        .arg(program)
        .args(args)
        .env("KUBECONFIG", kubeconfig)
        .env_remove("RUST_BACKTRACE")
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn assert_clear(output: &Output, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    let code = output.status.code();
    assert!(code.is_some_and(|code| code != 0 && code != 124), "{:?}: {text}", output.status);
    for word in words {
        assert!(text.contains(word), "{word:?} is missing in: {text}");
    }
    assert!(!text.contains("panicked"), "{text}");
}

#[test]
fn an_unknown_flag_is_refused_with_the_nearest_one() {
    let nowhere = Path::new("/nonexistent");
    let output = run(&binaries().controller, &["--helth-addr=:1"], nowhere);
    assert_clear(&output, &["helth-addr", "health-addr"]);
    let output = run(&binaries().webhook, &["--webhook-prot=1"], nowhere);
    assert_clear(&output, &["webhook-prot", "webhook-port"]);
}

#[test]
fn an_unreadable_kubeconfig_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("missing.kubeconfig");
    let broken = dir.path().join("broken.kubeconfig");
    fs::write(&broken, "clusters: [").unwrap();
    for program in [binaries().controller, binaries().webhook] {
        for kubeconfig in [&missing, &broken] {
            let flag = format!("--kubeconfig={}", kubeconfig.display());
            let output = run(&program, &[&flag, "--health-addr=127.0.0.1:0"], kubeconfig);
            let name = kubeconfig.file_name().unwrap().to_str().unwrap();
            assert_clear(&output, &[name]);
        }
    }
}

#[tokio::test]
async fn a_certificate_without_its_key_is_named() {
    let space = Space::new("process").await;
    let dir = tempfile::tempdir().unwrap();
    let leaf = space.cluster().authority().server("webhook", &[]).unwrap();
    fs::write(dir.path().join("tls.crt"), leaf.certificate).unwrap();
    let certificates = format!("--webhook-cert-dir={}", dir.path().display());
    let kubeconfig = space.cluster().kubeconfig();
    let program = binaries().webhook;
    let output = tokio::task::spawn_blocking(move || {
        let args = [
            certificates.as_str(),
            "--webhook-cert-wait-timeout=1s",
            "--webhook-cert-wait-interval=100ms",
            "--health-addr=127.0.0.1:0",
            "--metrics-addr=127.0.0.1:0",
        ];
        run(&program, &args, &kubeconfig)
    });
    let output = output.await.unwrap();
    assert_clear(&output, &["tls.key"]);
}

/// The kubeconfig of an API server that is not there, and its port.
fn unreachable(dir: &Path) -> (PathBuf, u16) {
    let kubeconfig = dir.join("kubeconfig");
    let port = free_port().unwrap();
    fs::write(
        &kubeconfig,
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
             clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
             contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers: [{{name: u, user: {{}}}}]\n"
        ),
    )
    .unwrap();
    (kubeconfig, port)
}

/// A running program shows what it was configured with, its memory and where its time goes, and its log follows orders.
#[tokio::test]
async fn a_running_program_can_be_looked_into() {
    let dir = tempfile::tempdir().unwrap();
    let (kubeconfig, _) = unreachable(dir.path());
    let watchdog = Watchdog::start(&[]).unwrap();
    let log = dir.path().join("log");
    let port = free_port().unwrap();
    let invocation = Invocation::new(binaries().controller)
        .args([
            "--health-addr=127.0.0.1:0".to_owned(),
            "--metrics-addr=127.0.0.1:0".to_owned(),
            format!("--profiling-addr=127.0.0.1:{port}"),
            "--feature-gates=ApplyOnce=true".to_owned(),
        ])
        .env("KUBECONFIG", kubeconfig.to_str().unwrap());
    let process = watchdog.spawn("controller", &invocation, &log).unwrap();
    let ask = async |method: &'static str, path: &'static str, body: &'static str| {
        tokio::task::spawn_blocking(move || request(port, method, path, body)).await.unwrap()
    };
    until("an answer", Duration::from_secs(20), async || {
        process.check().unwrap();
        ask("GET", "/configz", "").await.is_ok()
    })
    .await;

    let (code, config) = ask("GET", "/configz", "").await.unwrap();
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let flags = &config["vela-controller"]["flags"];
    assert_eq!(code, 200);
    assert_eq!(flags["concurrent-reconciles"], serde_json::json!(["4"]));
    let gates = flags["feature-gates"].as_array().unwrap();
    assert!(gates.iter().any(|gate| gate == "ApplyOnce=true"), "{gates:?}");
    assert!(gates.iter().any(|gate| gate == "PreDispatchDryRun=true"), "{gates:?}");

    let (_, memory) = ask("GET", "/mem/stat", "").await.unwrap();
    let memory: serde_json::Value = serde_json::from_str(&memory).unwrap();
    assert!(memory["VmRSS"].as_u64().unwrap() > 1 << 20, "{memory}");

    assert_eq!(ask("GET", "/debug/profile?seconds=0", "").await.unwrap().0, 400);
    assert_eq!(ask("GET", "/debug/profile?seconds=1", "").await.unwrap().0, 200);

    let debug = || fs::read_to_string(&log).unwrap().contains(" DEBUG ");
    assert!(!debug());
    assert_eq!(ask("PUT", "/debug/flags/v", "loud").await.unwrap().0, 400);
    assert_eq!(ask("PUT", "/debug/flags/v", "5").await.unwrap().0, 200);
    until("a line of the new level", Duration::from_secs(20), async || debug()).await;

    let ended = tokio::task::spawn_blocking(move || process.stop(Duration::from_secs(10)));
    assert!(ended.await.unwrap().unwrap(), "it ends by itself when asked to");
}

/// The programs wait for an API server that is not there yet, say so, and end when asked to.
#[tokio::test]
async fn a_missing_api_server_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (kubeconfig, port) = unreachable(dir.path());
    let watchdog = Watchdog::start(&[]).unwrap();
    let log = dir.path().join("log");
    let health = free_port().unwrap();
    let invocation = Invocation::new(binaries().controller)
        .args([format!("--health-addr=127.0.0.1:{health}"), "--metrics-addr=127.0.0.1:0".into()])
        .env("KUBECONFIG", kubeconfig.to_str().unwrap());
    let process = watchdog.spawn("controller", &invocation, &log).unwrap();
    until("a word about the API server", Duration::from_secs(20), async || {
        process.check().unwrap();
        fs::read_to_string(&log).is_ok_and(|text| {
            text.contains("API server") || text.contains(&format!("127.0.0.1:{port}"))
        })
    })
    .await;
    let ended = tokio::task::spawn_blocking(move || process.stop(Duration::from_secs(10)));
    assert!(ended.await.unwrap().unwrap(), "it ends by itself when asked to");
}
