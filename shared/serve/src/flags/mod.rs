//! Flags as pflag reads them, on top of clap.
//!
//! Booleans take a value only with `=`, durations are Go's, a repeated flag's last value wins.
//! An unknown flag ends the process with one line that names the nearest known one; a flag that
//! `vela-core` has or had, but this program has not, is accepted with a warning, so that the
//! arguments of an existing Deployment still start (`cmd/core/app/server.go` ignores unknown flags
//! without a word, and a misspelled one silently does nothing).
//!
//! On clap, whose own grammar of values differs from pflag's.

mod groups;
mod vela_core;

use std::collections::BTreeMap;
use std::ffi::OsString;

use clap::builder::ValueParser;
use clap::error::ErrorKind;
use clap::{ArgAction, CommandFactory, FromArgMatches};

pub use groups::{GateFlags, ProcessFlags};
pub use vela_gocompat::duration::parse_limit as duration;

use crate::nearest;
use vela_core::{Fate, Takes, VELA_CORE};

/// The flags of a program, read.
#[derive(Debug)]
pub struct Parsed<T> {
    /// The program's name.
    pub program: String,
    /// The values.
    pub flags: T,
    /// The same as text by the flags' names, defaults included.
    pub effective: BTreeMap<String, Vec<String>>,
    /// What an operator should know: flags that were accepted but do nothing here.
    pub warnings: Vec<String>,
}

/// Why the arguments were not accepted. The text is one line, or the help asked for.
#[derive(Debug, thiserror::Error)]
pub enum FlagError {
    /// `--help` or `--version`: print it to standard output and end with 0.
    #[error("{0}")]
    Shown(String),
    /// Print it to standard error and end with [`FlagError::code`].
    #[error("{0}")]
    Refused(String),
}

impl FlagError {
    /// The exit code of the process.
    pub fn code(&self) -> u8 {
        match self {
            Self::Shown(_) => 0,
            Self::Refused(_) => 2,
        }
    }
}

/// Reads the arguments (without the program's name) of a clap-derived struct.
pub fn parse<T: CommandFactory + FromArgMatches>(
    args: impl IntoIterator<Item = OsString>,
) -> Result<Parsed<T>, FlagError> {
    let command = go_spelling(T::command());
    let program = command.get_name().to_owned();
    let mut own: BTreeMap<String, Takes> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_long()?.to_owned(), takes(arg))))
        .collect();
    own.insert("help".to_owned(), Takes::Nothing);
    own.insert("version".to_owned(), Takes::Nothing);
    let shorts: BTreeMap<char, Takes> =
        command.get_arguments().filter_map(|arg| Some((arg.get_short()?, takes(arg)))).collect();

    let ids: Vec<_> = command
        .get_arguments()
        .filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?.to_owned())))
        .collect();

    let (kept, warnings) = sort_out(&program, &own, &shorts, args)?;
    let mut matches = command
        .try_get_matches_from(std::iter::once(OsString::from(&program)).chain(kept))
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                FlagError::Shown(error.render().to_string())
            }
            _ => FlagError::Refused(one_line(&error.render().to_string())),
        })?;
    let effective = ids.into_iter().filter_map(|(id, name)| {
        let values = matches.get_raw(id.as_str())?.map(|v| v.to_string_lossy().into_owned());
        Some((name, values.collect()))
    });
    let effective = effective.collect();
    let flags = T::from_arg_matches_mut(&mut matches)
        .map_err(|error| FlagError::Refused(one_line(&error.render().to_string())))?;
    Ok(Parsed { program, flags, effective, warnings })
}

/// Gives every boolean pflag's spelling and lets the last of repeated flags win.
fn go_spelling(command: clap::Command) -> clap::Command {
    command.args_override_self(true).mut_args(|arg| {
        if !matches!(arg.get_action(), ArgAction::SetTrue) && !is_bool(&arg) {
            return arg;
        }
        let arg =
            if arg.get_default_values().is_empty() { arg.default_value("false") } else { arg };
        arg.action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("true")
            .value_parser(ValueParser::new(boolean))
    })
}

fn is_bool(arg: &clap::Arg) -> bool {
    arg.get_value_parser().type_id() == std::any::TypeId::of::<bool>()
}

fn takes(arg: &clap::Arg) -> Takes {
    if is_bool(arg) || !arg.get_action().takes_values() { Takes::Nothing } else { Takes::Value }
}

type Kept = (Vec<OsString>, Vec<String>);

/// Keeps what clap is to read, drops what `vela-core` had, refuses the rest.
fn sort_out(
    program: &str,
    own: &BTreeMap<String, Takes>,
    shorts: &BTreeMap<char, Takes>,
    args: impl IntoIterator<Item = OsString>,
) -> Result<Kept, FlagError> {
    let mut kept = Vec::new();
    let mut warnings: Vec<String> = Vec::new();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let text = arg.to_string_lossy().into_owned();
        let Some(body) = text.strip_prefix("--") else {
            let short = text.strip_prefix('-').and_then(|body| body.chars().next());
            let Some(short) = short else {
                return Err(FlagError::Refused(format!("{program}: unexpected argument {text:?}")));
            };
            match shorts.get(&short) {
                Some(takes) => {
                    let wants_value = *takes == Takes::Value && text.chars().count() == 2;
                    kept.push(arg);
                    kept.extend(wants_value.then(|| args.next()).flatten());
                }
                None if short == 'h' && text == "-h" => kept.push("--help".into()),
                None => {
                    return Err(FlagError::Refused(format!("{program}: unknown flag: {text}")));
                }
            }
            continue;
        };
        let (name, has_value) =
            body.split_once('=').map_or((body, false), |(name, _)| (name, true));
        if let Some(takes) = own.get(name) {
            let wants_value = *takes == Takes::Value && !has_value;
            kept.push(arg.clone());
            kept.extend(wants_value.then(|| args.next()).flatten());
            continue;
        }
        let spelling = name.replace('_', "-");
        if let Some((_, takes, fate)) =
            VELA_CORE.iter().find(|(known, ..)| known.replace('_', "-") == spelling)
        {
            if *takes == Takes::Value && !has_value {
                args.next();
            }
            warnings.push(match fate {
                Fate::Retired => format!("flag --{name} is retired and has no effect"),
                Fate::Current => format!("flag --{name} of vela-core has no effect in {program}"),
            });
            continue;
        }
        let known = own.keys().map(String::as_str).chain(VELA_CORE.iter().map(|(name, ..)| *name));
        let hint = nearest(name, known)
            .map_or_else(String::new, |name| format!(", did you mean --{name}?"));
        return Err(FlagError::Refused(format!("{program}: unknown flag: --{name}{hint}")));
    }
    Ok((kept, warnings))
}

/// clap's answers are paragraphs; the first line says what is wrong.
fn one_line(text: &str) -> String {
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.lines().next().unwrap_or(text).trim().to_owned()
}

/// A boolean as Go's `strconv.ParseBool` reads it.
pub fn boolean(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("not a boolean; write true or false"),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "vela-test", version)]
    struct Test {
        #[arg(long)]
        use_webhook: bool,
        #[arg(long, default_value_t = true)]
        optimize_list_op: bool,
        #[arg(long, default_value = "90s", value_parser = duration)]
        wait: Duration,
        #[command(flatten)]
        process: ProcessFlags,
        #[command(flatten)]
        gates: GateFlags,
    }

    fn read(args: &[&str]) -> Result<Parsed<Test>, FlagError> {
        parse(args.iter().map(OsString::from))
    }

    #[test]
    fn booleans_take_a_value_only_with_an_equals_sign() {
        let flags = read(&["--use-webhook", "--optimize-list-op=F"]).unwrap().flags;
        assert!(flags.use_webhook && !flags.optimize_list_op);
        assert!(!read(&["--use-webhook=false"]).unwrap().flags.use_webhook);
        assert!(read(&["--use-webhook=T"]).unwrap().flags.use_webhook);
        let error = read(&["--use-webhook", "false"]).unwrap_err();
        assert_eq!(error.to_string(), "vela-test: unexpected argument \"false\"");
        let error = read(&["--use-webhook=yes"]).unwrap_err().to_string();
        assert!(error.contains("not a boolean") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn defaults_and_the_last_value_wins() {
        let flags = read(&["--wait=1m30s", "--wait", "250ms", "--health-addr=:1"]).unwrap().flags;
        assert_eq!(flags.wait, Duration::from_millis(250));
        assert_eq!(flags.process.health_addr.to_string(), ":1");
        assert_eq!(flags.process.metrics_addr.to_string(), ":8080");
        assert!(!flags.use_webhook && flags.optimize_list_op);
        let all = read(&["--use-webhook", "--feature-gates=A=1", "--wait=1s"]).unwrap().effective;
        assert_eq!(all["use-webhook"], ["true"]);
        assert_eq!(all["optimize-list-op"], ["true"]);
        assert_eq!(all["wait"], ["1s"]);
        assert_eq!(all["health-addr"], [":9440"]);
        assert_eq!(all["feature-gates"], ["A=1"]);
        let gates = read(&["--feature-gates=A=1,B=2", "--feature-gates", "C= true"]).unwrap();
        assert_eq!(gates.flags.gates.feature_gates, ["A=1,B=2", "C= true"]);
    }

    #[test]
    fn unknown_flags_name_the_nearest() {
        for (args, want) in [
            (
                &["--use-webhok"][..],
                "vela-test: unknown flag: --use-webhok, did you mean --use-webhook?",
            ),
            (
                &["--concurent-reconciles=4"],
                "vela-test: unknown flag: --concurent-reconciles, did you mean --concurrent-reconciles?",
            ),
            (&["--zzz"], "vela-test: unknown flag: --zzz"),
            (&["-z"], "vela-test: unknown flag: -z"),
            (&["extra"], "vela-test: unexpected argument \"extra\""),
        ] {
            let error = read(args).unwrap_err();
            assert_eq!(error.to_string(), want);
            assert_eq!(error.code(), 2);
        }
    }

    #[test]
    fn flags_of_vela_core_are_accepted_with_a_warning() {
        let args = ["--disable-caps", "x", "--perf-enabled", "--kube-api-qps=400", "--log_dir=/x"];
        let parsed = read(&args).unwrap();
        assert_eq!(
            parsed.warnings,
            [
                "flag --disable-caps is retired and has no effect",
                "flag --perf-enabled is retired and has no effect",
                "flag --kube-api-qps of vela-core has no effect in vela-test",
                "flag --log_dir is retired and has no effect",
            ]
        );
    }

    #[test]
    fn klog_verbosity() {
        for args in [&["-v=4"][..], &["-v", "4"], &["--v=4"], &["--v", "4"], &["-v4"]] {
            assert_eq!(read(args).unwrap().flags.process.v, 4, "{args:?}");
        }
    }

    #[test]
    fn help_is_not_an_error() {
        let shown = read(&["--help"]).unwrap_err();
        assert_eq!(shown.code(), 0);
        assert!(shown.to_string().contains("--health-addr"));
        assert_eq!(read(&["-h"]).unwrap_err().code(), 0);
    }

    #[test]
    fn durations_are_gos() {
        for (text, want) in [
            ("90s", Some(90_000)),
            ("1h30m", Some(5_400_000)),
            ("1.5s", Some(1_500)),
            ("0", Some(0)),
            ("+2m", Some(120_000)),
            ("1d", None),
            ("5", None),
            ("-5s", None),
            ("", None),
            ("s", None),
            (".s", None),
            ("1e400s", None),
        ] {
            let got = duration(text).ok().map(|d| d.as_millis());
            assert_eq!(got, want, "{text}");
        }
    }
}
