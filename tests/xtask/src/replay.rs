//! `cargo xtask replay controller|definitions [DIR]`: recorded cases of the reference against our
//! programs on a real control plane, compared with what the reference did.
//!
//! Recorder and scorer are tools of the conformance material (Python 3 with PyYAML, and zstd).
//! Differences that are wanted stand in `tests/replay-differences.txt`, each with its reason.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use vela_tests::material;

use crate::exec::{self, Setup};

/// The version that the recorded controller wrote on every object.
const RECORDED_VERSION: &str = "v1.11.0-ref";

/// `$1` recorder, `$2` scorer, `$3` cases, `$4` output, `$5` differences, `$6` jobs, then cases.
const SCRIPT: &str = r#"
set -eu
recorder=$1 scorer=$2 cases=$3 out=$4 differences=$5 jobs=$6
shift 6
rm -rf "$out" "$out.cases"
mkdir -p "$out"
# The scorer counts a case without a snapshot as failed: show it only those that were asked for.
if [ $# -gt 0 ]; then
    mkdir -p "$out.cases"
    for id; do ln -s "$cases/$id" "$out.cases/$id"; done
    cases=$out.cases
fi
python3 "$recorder" --kubeconfig "$KUBECONFIG" --audit "$AUDIT_LOG" \
    --user-agents vela-controller/,vela-webhook/ --cases "$cases" --out "$out" -j "$jobs" "$@"
# What the reference has no condition for: where a rollout is, and why it gets no further (compatibility controller-80).
python3 - "$out" <<'END'
import glob, json, sys
for name in glob.glob(sys.argv[1] + "/*/snap-*.json"):
    snapshot = json.load(open(name))
    for app in snapshot.get("applications") or []:
        status = app.get("status") or {}
        if status.get("conditions"):
            status["conditions"] = [c for c in status["conditions"]
                if c["type"] not in ("Reconciling", "Stalled")
                and c["reason"] not in ("Progressing", "Suspended", "Failed", "Terminated")]
    json.dump(snapshot, open(name, "w"))
END
if [ -f "$differences" ]; then set -- --except "$differences"; else set --; fi
python3 "$scorer" -v "$@" "$cases" "$out"
"#;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// controller or definitions
    kind: String,
    /// Where the snapshots go [default: target/replay/KIND]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Cases at once
    #[arg(short, default_value_t = 8)]
    jobs: usize,
    #[command(flatten)]
    setup: Setup,
    /// Folder of the recorded cases, if it is not that of the conformance material, and the names of those to replay, if
    /// not all
    #[arg(value_name = "DIR|NAME")]
    cases: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(material) = material::conformance() else {
        bail!("the conformance material is not calls the workspace; set VELA_CONFORMANCE");
    };
    if !["controller", "definitions"].contains(&args.kind.as_str()) {
        bail!("there are no cases of kind {:?}: choose controller or definitions", args.kind);
    }
    let (cases, names) = match args.cases.split_first() {
        Some((first, rest)) if Path::new(first).is_dir() => (PathBuf::from(first), rest),
        _ => (material.join("recordings").join(&args.kind).join("dev"), &*args.cases),
    };
    if let Some(name) = names.iter().find(|name| !cases.join(name).is_dir()) {
        bail!("there is no case {} in {}", name.display(), cases.display());
    }
    let out =
        args.out.clone().unwrap_or_else(|| material::target().join("replay").join(&args.kind));
    let mut setup = args.setup.clone();
    // The cases were recorded with the reference's own definitions.
    if setup.definitions.is_none() {
        setup.definitions = Some(material.join("recordings/definitions/builtin/definitions.jsonl"));
    }
    // And by the reference's version, which the hashes of rendered objects cover.
    setup.controller_flag.insert(0, format!("--advertised-version={RECORDED_VERSION}"));
    let mut command: Vec<OsString> = ["sh", "-c", SCRIPT, "replay"].map(OsString::from).to_vec();
    command.push(material.join("tools/record.py").into());
    command.push(material.join("tools/snap_score.py").into());
    command.push(cases.canonicalize().with_context(|| cases.display().to_string())?.into());
    command.push(out.into());
    command.push(material::workspace().join("tests/replay-differences.txt").into());
    command.push(args.jobs.to_string().into());
    command.extend(names.iter().cloned());
    exec::under(&setup, &command)
}
