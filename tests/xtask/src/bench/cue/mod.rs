//! `cargo xtask bench cue`: our evaluator and both of Go's on the same work, side by side.

mod measure;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use vela_tests::material;

use measure::{Case, Measured};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Milliseconds for each measurement
    #[arg(long, default_value_t = 50)]
    budget: u64,
    /// Only this definition
    #[arg(long)]
    only: Option<String>,
    /// Renders for the comparison of memory
    #[arg(long, default_value_t = 10_000)]
    renders: usize,
    /// Only render so many times and print the peak memory (what the command runs itself with)
    #[arg(long, hide = true)]
    memory: bool,
}

/// Go's evaluators: the name in the table and the setting that selects it.
const EVALUATORS: [(&str, &str); 2] = [("v3", ""), ("v2", "evalv3=0,keepvalidators=0")];

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(material) = material::conformance() else {
        println!("SKIPPED: 0 definitions measured: the conformance material is absent");
        return Ok(ExitCode::SUCCESS);
    };
    let cases = measure::cases(&material, args.only.as_deref())?;
    if args.memory {
        for _ in 0..args.renders {
            let _ = cases.first().map(Case::cold);
        }
        println!("{}", measure::peak());
        return Ok(ExitCode::SUCCESS);
    }
    if cfg!(debug_assertions) {
        println!("note: this is a debug build; measure with `cargo xtask --release`");
    }
    let program = build()?;
    let budget = Duration::from_millis(args.budget);
    let ours: HashMap<&str, Measured> =
        cases.iter().map(|case| (case.id.as_str(), case.measure(budget))).collect();
    for (name, experiment) in EVALUATORS {
        let theirs = go(&program, &material, args, experiment)?;
        println!("\n## Go's evaluator {name}\n");
        table(&cases, &ours, &theirs);
    }
    memory(&program, &material, args)?;
    Ok(ExitCode::SUCCESS)
}

fn build() -> Result<PathBuf> {
    let folder = material::workspace().join("tests/bench/gocue");
    let program = material::target().join("gocue");
    let status = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(folder)
        .status()
        .context("cannot run go")?;
    ensure!(status.success(), "go build failed");
    Ok(program)
}

fn command(program: &Path, material: &Path, experiment: &str) -> Command {
    let mut command = Command::new(program);
    command.env("CUE_EXPERIMENT", experiment);
    command.current_dir(material.join("corpus/cue/vela"));
    command
}

fn go(
    program: &Path,
    material: &Path,
    args: &Args,
    experiment: &str,
) -> Result<HashMap<String, Json>> {
    let mut command = command(program, material, experiment);
    command.arg("-budget").arg(format!("{}ms", args.budget));
    if let Some(only) = &args.only {
        command.arg("-only").arg(only);
    }
    let output = command.args(["vela-definitions.jsonl", "vela-inputs.jsonl"]).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    let results = text.lines().filter_map(|line| serde_json::from_str::<Json>(line).ok());
    Ok(results.map(|line| (line["id"].as_str().unwrap_or_default().to_owned(), line)).collect())
}

#[derive(Default)]
struct Row {
    warm: Vec<f64>,
    cold: Vec<f64>,
    ours: Vec<f64>,
    theirs: Vec<f64>,
    differ: usize,
}

fn table(cases: &[Case], ours: &HashMap<&str, Measured>, theirs: &HashMap<String, Json>) {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let (mut both, mut only_ours, mut only_theirs, mut neither) = (0, 0, 0, 0);
    for case in cases {
        let Some(our) = ours.get(case.id.as_str()) else { continue };
        let Some(their) = theirs.get(&case.id) else { continue };
        match (our.error.is_none(), their["error"].as_str().is_none()) {
            (true, true) => both += 1,
            (true, false) => only_ours += 1,
            (false, true) => only_theirs += 1,
            (false, false) => neither += 1,
        }
        let (Some(warm), Some(cold)) = (their["warm_ns"].as_f64(), their["cold_ns"].as_f64())
        else {
            continue;
        };
        if our.error.is_some() || warm <= 0.0 || cold <= 0.0 {
            continue;
        }
        let row = rows.entry(case.definition.as_str()).or_default();
        row.warm.push(warm / nanos(our.warm));
        row.cold.push(cold / nanos(our.cold));
        row.ours.push(nanos(our.warm) / 1e3);
        row.theirs.push(warm / 1e3);
        row.differ += usize::from(!same(our, &their["objects"]));
    }
    println!(
        "{:<42} {:>6} {:>12} {:>12} {:>8} {:>8} {:>7}",
        "definition", "inputs", "go warm us", "our warm us", "warm x", "cold x", "differ"
    );
    let (mut warm, mut cold) = (Vec::new(), Vec::new());
    for (name, row) in &rows {
        println!(
            "{name:<42} {:>6} {:>12.1} {:>12.1} {:>8.1} {:>8.1} {:>7}",
            row.warm.len(),
            median(&row.theirs),
            median(&row.ours),
            median(&row.warm),
            median(&row.cold),
            row.differ
        );
        warm.push(median(&row.warm));
        cold.push(median(&row.cold));
    }
    let worst = |list: &[f64]| list.iter().copied().fold(f64::INFINITY, f64::min);
    println!(
        "\nwarm: median {:.1}x, worst {:.1}x; cold: median {:.1}x, worst {:.1}x",
        median(&warm),
        worst(&warm),
        median(&cold),
        worst(&cold)
    );
    println!(
        "inputs: both render {both}, only ours {only_ours}, only Go {only_theirs}, neither {neither}"
    );
}

#[allow(clippy::cast_precision_loss, reason = "nanoseconds of one render")]
fn nanos(duration: Duration) -> f64 {
    (duration.as_nanos().max(1)) as f64
}

fn same(our: &Measured, their: &Json) -> bool {
    let parsed = |text: &str| serde_json::from_str::<Json>(text).ok();
    let theirs = their.as_object().map_or(0, serde_json::Map::len);
    our.objects.len() == theirs
        && our.objects.iter().all(|(path, text)| {
            their[path].as_str().and_then(parsed).is_some_and(|other| parsed(text) == Some(other))
        })
}

fn median(list: &[f64]) -> f64 {
    let mut list = list.to_vec();
    list.sort_by(f64::total_cmp);
    list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Peak memory of many renders of one definition, each in a process of its own.
fn memory(program: &Path, material: &Path, args: &Args) -> Result<()> {
    let only = args.only.as_deref().unwrap_or("webservice");
    let renders = args.renders.to_string();
    println!("\n## Peak memory of {renders} cold renders of {only}\n");
    let ours = Command::new(std::env::current_exe()?)
        .args(["bench", "cue", "--memory", "--renders", &renders, "--only", only])
        .output()?;
    let ours: f64 = String::from_utf8_lossy(&ours.stdout).trim().parse().unwrap_or(f64::NAN);
    println!("ours: {:.1} MiB", ours / 1024.0);
    for (name, experiment) in EVALUATORS {
        let output = command(program, material, experiment)
            .args(["-n", &renders, "-only", only, "vela-definitions.jsonl", "vela-inputs.jsonl"])
            .output()?;
        let theirs: f64 =
            String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or(f64::NAN);
        println!("Go {name}: {:.1} MiB, {:.1}x ours", theirs / 1024.0, theirs / ours);
    }
    Ok(())
}
