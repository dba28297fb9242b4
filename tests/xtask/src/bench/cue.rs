//! `cargo xtask bench cue`: our evaluator and both of Go's on the same work, side by side.
//!
//! Each is a program of its own (`tests/bench/rustcue`, `tests/bench/gocue`) that renders every
//! definition of the conformance material with its inputs and prints what came out, CPU time and
//! bytes. Here they are built, run and compared.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, ensure};
use serde_json::Value as Json;
use vela_tests::material;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Milliseconds for each measurement
    #[arg(long, default_value_t = 50)]
    budget: u64,
    /// Only this definition
    #[arg(long)]
    only: Option<String>,
    /// Renders for the comparison of peak memory
    #[arg(long, default_value_t = 10_000)]
    renders: usize,
}

/// Go's evaluators: the name in the table and the setting that selects it.
const EVALUATORS: [(&str, &str); 2] = [("v3", ""), ("v2", "evalv3=0,keepvalidators=0")];

/// What was measured for one input, by its id.
type Results = BTreeMap<String, Json>;

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(material) = material::conformance() else {
        println!("SKIPPED: 0 definitions measured: the conformance material is absent");
        return Ok(ExitCode::SUCCESS);
    };
    let folder = material.join("corpus/cue/vela");
    let go = build_go()?;
    let counting = build_ours("count", &["--features", "count"])?;
    let ours = build_ours("time", &[])?;
    let names = definitions(&folder)?;

    let budget = ["--budget", &args.budget.to_string()].map(str::to_owned);
    let counted = results(ours_on(&counting, &folder, args).args(["--budget", "0"]))?;
    let mut timed = results(ours_on(&ours, &folder, args).args(&budget))?;
    for (id, line) in &mut timed {
        for key in ["warm_bytes", "cold_bytes"] {
            line[key] = counted.get(id).map(|other| other[key].clone()).unwrap_or_default();
        }
    }
    for (name, experiment) in EVALUATORS {
        let mut command = go_on(&go, &folder, args, experiment);
        let theirs = results(command.args(["-budget", &format!("{}ms", args.budget)]))?;
        println!("\n## Go's evaluator {name}\n");
        compare(&names, &timed, &theirs);
    }
    peaks(&ours, &go, &folder, args)?;
    Ok(ExitCode::SUCCESS)
}

fn build_go() -> Result<PathBuf> {
    let program = material::target().join("gocue");
    let mut command = Command::new("go");
    command.args(["build", "-o"]).arg(&program).arg(".");
    let status = command
        .current_dir(material::workspace().join("tests/bench/gocue"))
        .status()
        .context("cannot run go")?;
    ensure!(status.success(), "go build failed");
    Ok(program)
}

/// Both builds are kept, each under a name of its own.
fn build_ours(name: &str, features: &[&str]) -> Result<PathBuf> {
    let status = material::cargo()
        .args(["build", "--quiet", "--release", "--package", "bench-cue"])
        .args(features)
        .status()
        .context("cannot run cargo")?;
    ensure!(status.success(), "cargo build failed");
    let built = material::target().join("release/bench-cue");
    let program = built.with_file_name(format!("bench-cue-{name}"));
    std::fs::copy(&built, &program)?;
    Ok(program)
}

const FILES: [&str; 2] = ["vela-definitions.jsonl", "vela-inputs.jsonl"];

fn ours_on(program: &Path, folder: &Path, args: &Args) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder).args(FILES);
    // As the chart runs the programs.
    command.env("MIMALLOC_ALLOW_THP", "0").env("MIMALLOC_PURGE_DELAY", "0");
    if let Some(only) = &args.only {
        command.args(["--only", only]);
    }
    command
}

fn go_on(program: &Path, folder: &Path, args: &Args, experiment: &str) -> Command {
    let mut command = Command::new("sh");
    // Go's flags come before the files.
    command.args([
        "-c",
        r#"program=$0; exec "$program" "$@" vela-definitions.jsonl vela-inputs.jsonl"#,
    ]);
    command.arg(program).current_dir(folder).env("CUE_EXPERIMENT", experiment);
    if let Some(only) = &args.only {
        command.args(["-only", only]);
    }
    command
}

fn text_of(command: &mut Command) -> Result<String> {
    let output = command.output().context("cannot run the measuring program")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn results(command: &mut Command) -> Result<Results> {
    let mut all = Results::new();
    for line in text_of(command)?.lines() {
        let line: Json = serde_json::from_str(line)?;
        all.insert(line["id"].as_str().unwrap_or_default().to_owned(), line);
    }
    Ok(all)
}

/// The definition of each input.
fn definitions(folder: &Path) -> Result<BTreeMap<String, String>> {
    let text = std::fs::read_to_string(folder.join("vela-inputs.jsonl"))?;
    let mut names = BTreeMap::new();
    for line in text.lines() {
        let input: Json = serde_json::from_str(line)?;
        let part = |key: &str| input[key].as_str().unwrap_or_default().to_owned();
        names.insert(part("id"), format!("{}/{}", part("kind"), part("definition")));
    }
    Ok(names)
}

/// One definition: a number for each of its inputs.
#[derive(Default)]
struct Row {
    ours: Vec<f64>,
    theirs: Vec<f64>,
    warm: Vec<f64>,
    cold: Vec<f64>,
    warm_bytes: Vec<f64>,
    cold_bytes: Vec<f64>,
    differ: usize,
}

fn compare(names: &BTreeMap<String, String>, ours: &Results, theirs: &Results) {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    let (mut both, mut only_ours, mut only_theirs, mut neither) = (0, 0, 0, 0);
    for (id, name) in names {
        let (Some(our), Some(their)) = (ours.get(id), theirs.get(id)) else { continue };
        match (our["error"].is_null(), their["error"].is_null()) {
            (true, true) => both += 1,
            (true, false) => only_ours += 1,
            (false, true) => only_theirs += 1,
            (false, false) => neither += 1,
        }
        if !our["error"].is_null() || !their["error"].is_null() {
            continue;
        }
        let ratio = |key: &str| {
            let of = |line: &Json| line[key].as_f64().unwrap_or(f64::NAN);
            of(their) / of(our)
        };
        let micros = |line: &Json| line["warm_ns"].as_f64().unwrap_or(f64::NAN) / 1e3;
        let row = rows.entry(name).or_default();
        row.ours.push(micros(our));
        row.theirs.push(micros(their));
        row.warm.push(ratio("warm_ns"));
        row.cold.push(ratio("cold_ns"));
        row.warm_bytes.push(ratio("warm_bytes"));
        row.cold_bytes.push(ratio("cold_bytes"));
        row.differ += usize::from(!same(&our["objects"], &their["objects"]));
    }
    println!(
        "{:<42} {:>6} {:>11} {:>11} {:>7} {:>7} {:>10} {:>10} {:>6}",
        "definition",
        "inputs",
        "go warm us",
        "ours us",
        "warm x",
        "cold x",
        "w.bytes x",
        "c.bytes x",
        "differ"
    );
    for (name, row) in &rows {
        println!(
            "{name:<42} {:>6} {:>11.1} {:>11.1} {:>7.1} {:>7.1} {:>10.1} {:>10.1} {:>6}",
            row.warm.len(),
            median(&row.theirs),
            median(&row.ours),
            median(&row.warm),
            median(&row.cold),
            median(&row.warm_bytes),
            median(&row.cold_bytes),
            row.differ
        );
    }
    println!();
    let summary = |what: &str, of: fn(&Row) -> &[f64]| {
        let all: Vec<f64> = rows.values().map(|row| median(of(row))).collect();
        let worst = all.iter().copied().fold(f64::INFINITY, f64::min);
        println!("{what:<12} median {:>6.1}x, worst {worst:>6.1}x", median(&all));
    };
    summary("warm", |row| &row.warm);
    summary("cold", |row| &row.cold);
    summary("warm bytes", |row| &row.warm_bytes);
    summary("cold bytes", |row| &row.cold_bytes);
    println!(
        "inputs: both render {both}, only ours {only_ours}, only Go {only_theirs}, neither {neither}"
    );
}

/// The same objects; the order of fields and the way numbers are written do not count.
fn same(ours: &Json, theirs: &Json) -> bool {
    let parsed = |json: &Json| -> BTreeMap<String, Option<Json>> {
        let objects = json.as_object().into_iter().flatten();
        let parse = |text: &Json| serde_json::from_str(text.as_str()?).ok();
        objects.map(|(path, text)| (path.clone(), parse(text))).collect()
    };
    parsed(ours) == parsed(theirs)
}

fn median(list: &[f64]) -> f64 {
    let mut list = list.to_vec();
    list.sort_by(f64::total_cmp);
    list.get(list.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Peak memory of many renders, each sort in a process of its own.
fn peaks(ours: &Path, go: &Path, folder: &Path, args: &Args) -> Result<()> {
    let renders = args.renders.to_string();
    let one = args.only.as_deref().unwrap_or("webservice");
    let all = args.only.is_none();
    // What is rendered, and the flags of our program and of Go's.
    let sorts = [
        ("all definitions, each compiled once", None, "", ""),
        ("compiled once", Some(one), "", ""),
        // Go's contexts keep everything that was evaluated in them: a long-running process may
        // choose to compile again now and then.
        ("compiled once, by Go anew after every 100", Some(one), "", "-fresh=100"),
        ("from text each time", Some(one), "--cold", "-cold"),
    ];
    println!("\n## Peak memory of {renders} renders, and without the pages of the program\n");
    for (what, only, our_flags, go_flags) in sorts {
        if only.is_none() && !all {
            continue;
        }
        let args = Args { only: only.map(str::to_owned), ..*args };
        let mut command = ours_on(ours, folder, &args);
        let our = mib(command.args(["--renders", &renders]).args(our_flags.split_whitespace()))?;
        println!("{}{what}", only.map(|name| format!("{name}, ")).unwrap_or_default());
        println!("  ours  {:>7.1} MiB          {:>7.1} MiB", our[0], our[1]);
        for (name, experiment) in EVALUATORS {
            let mut command = go_on(go, folder, &args, experiment);
            let their = mib(command.args(["-n", &renders]).args(go_flags.split_whitespace()))?;
            let [whole, own] = [0, 1].map(|of| their[of] / our[of]);
            println!(
                "  Go {name} {:>7.1} MiB {whole:>6.1}x  {:>7.1} MiB {own:>6.1}x",
                their[0], their[1]
            );
        }
    }
    Ok(())
}

/// What a measuring program says of its memory: all, and without the pages of files.
fn mib(command: &mut Command) -> Result<[f64; 2]> {
    let text = text_of(command)?;
    let mut kib = text.split_whitespace().map(str::parse::<f64>);
    let mut next = || Some(kib.next()?.ok()? / 1024.0);
    next().zip(next()).map(<[f64; 2]>::from).context("no peak of memory")
}
