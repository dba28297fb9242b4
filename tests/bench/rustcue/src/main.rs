//! Times our CUE evaluator on KubeVela templates, as `tests/bench/gocue` times Go's.
//!
//! The same definitions, inputs, work and clock; one JSON object a line. A render starts with the
//! JSON text of parameter and context and ends with the JSON text of the objects. Warm means that
//! the program is compiled; cold starts with the template's text.

#![allow(clippy::print_stdout, reason = "a command line tool prints its results")]
#![allow(
    clippy::indexing_slicing,
    reason = "only JSON values are indexed, and those answer null for what is not there"
)]

#[path = "../../allocator.rs"]
mod allocator;

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use cue::{Errors, Limits, Packages, Program};
use serde_json::{Value as Json, json};

/// What the command line says. Read by hand, as Go's program reads its own: a library for this would
/// be a tenth of the program whose memory is measured.
struct Args {
    /// `--budget N`: milliseconds for each measurement.
    budget: u64,
    /// `--only NAME`: only this definition.
    only: Option<String>,
    /// `--renders N`: instead, render this many times and print the most memory the process has had,
    /// in KiB, and that without the pages of files.
    renders: usize,
    /// `--cold`: with `--renders`, from text to objects each time.
    cold: bool,
    definitions: PathBuf,
    inputs: PathBuf,
}

impl Args {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self> {
        let mut files = Vec::new();
        let (mut budget, mut only, mut renders, mut cold) = (50, None, 0, false);
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("{word} needs a value"));
            match word.as_str() {
                "--budget" => budget = value()?.parse()?,
                "--only" => only = Some(value()?),
                "--renders" => renders = value()?.parse()?,
                "--cold" => cold = true,
                _ => files.push(PathBuf::from(word)),
            }
        }
        let Ok([definitions, inputs]) = <[PathBuf; 2]>::try_from(files) else {
            bail!(
                "usage: bench-cue [--budget MS] [--only NAME] [--renders N [--cold]] DEFINITIONS INPUTS"
            );
        };
        Ok(Self { budget, only, renders, cold, definitions, inputs })
    }
}

/// What a controller reads of a rendered template.
const PATHS: [&str; 3] = ["output", "outputs", "patch"];
/// Measured times in one measurement.
const BATCHES: u32 = 5;

type Objects = BTreeMap<&'static str, String>;

fn main() -> Result<()> {
    let args = Args::read(std::env::args().skip(1))?;
    let only = args.only.as_deref();
    let definitions = definitions(&args.definitions, only)?;
    let mut cases = Vec::new();
    for line in lines(&args.inputs)? {
        let input: Json = serde_json::from_str(&line?)?;
        let key = (text(&input, "kind"), text(&input, "definition"));
        let Some(source) = definitions.get(&key) else { continue };
        let case = Case::new(source, &input);
        if args.renders > 0 {
            cases.push(case);
        } else {
            println!("{}", case.measure(&text(&input, "id"), Duration::from_millis(args.budget)));
        }
    }
    if args.renders > 0 {
        many(&cases, &args);
        let (all, own) = peak();
        println!("{all} {own}");
    }
    Ok(())
}

/// Renders all cases in turn, with every template compiled once and kept. What fails is seen by its
/// line in the other mode.
fn many(cases: &[Case<'_>], args: &Args) {
    let mut programs = HashMap::new();
    for case in cases.iter().cycle().take(args.renders) {
        if args.cold {
            drop(case.cold());
            continue;
        }
        let program = programs.entry(case.source.as_ptr()).or_insert_with(|| case.compile());
        if let Ok(program) = program {
            drop(case.warm(program));
        }
    }
}

/// The lines of a file, one at a time: what is measured is not the memory of the material.
fn lines(path: &Path) -> Result<impl Iterator<Item = std::io::Result<String>>> {
    let file = File::open(path).with_context(|| path.display().to_string())?;
    Ok(BufReader::new(file).lines())
}

fn text(json: &Json, key: &str) -> String {
    json[key].as_str().unwrap_or_default().to_owned()
}

/// The source of each definition, or of those with one name, by type and name.
fn definitions(path: &Path, only: Option<&str>) -> Result<HashMap<(String, String), String>> {
    let mut all = HashMap::new();
    for line in lines(path)? {
        let definition: Json = serde_json::from_str(&line?)?;
        if only.is_some_and(|only| definition["name"] != only) {
            continue;
        }
        let imports = definition["imports"].as_array().cloned().unwrap_or_default();
        let imports: String = imports.iter().map(|path| format!("import {path}\n")).collect();
        let source = format!("{imports}{}\ncontext: _\n", text(&definition, "template"));
        all.insert((text(&definition, "type"), text(&definition, "name")), source);
    }
    Ok(all)
}

/// One definition with one input.
struct Case<'a> {
    source: &'a str,
    properties: String,
    context: String,
}

impl<'a> Case<'a> {
    fn new(source: &'a str, input: &Json) -> Self {
        let name = text(input, "name");
        let context = json!({
            "name": name, "namespace": "default", "appName": "app", "appRevision": "app-v1",
            "appRevisionNum": 1, "revision": format!("{name}-v1"), "output": {}, "outputs": {},
            "cluster": "local",
            "clusterVersion": {
                "major": "1", "minor": 30, "gitVersion": "v1.30.0", "platform": "linux/amd64",
            },
        });
        Self { source, properties: input["properties"].to_string(), context: context.to_string() }
    }

    fn compile(&self) -> Result<Program, Errors> {
        Program::compile("template.cue", self.source, &Packages::std())
    }

    fn warm(&self, program: &Program) -> Result<Objects> {
        let mut parameter = serde_json::Deserializer::from_str(&self.properties);
        let mut context = serde_json::Deserializer::from_str(&self.context);
        let inputs = [("parameter", &mut parameter), ("context", &mut context)];
        let mut evaluation = program.evaluate_from(inputs, &Limits::default())?;
        let root = evaluation.root();
        let mut objects = Objects::new();
        for path in PATHS {
            if let Some(node) = evaluation.field(root, path) {
                objects.insert(path, evaluation.export(node)?.to_json_text());
            }
        }
        Ok(objects)
    }

    fn cold(&self) -> Result<Objects> {
        self.warm(&self.compile()?)
    }

    fn measure(&self, id: &str, budget: Duration) -> Json {
        let first = || -> Result<(Program, Objects)> {
            let program = self.compile()?;
            let objects = self.warm(&program)?;
            Ok((program, objects))
        };
        let (program, objects) = match first() {
            Ok(both) => both,
            Err(error) => return json!({ "id": id, "error": error.to_string() }),
        };
        let warm = || drop(self.warm(&program));
        let cold = || drop(self.cold());
        json!({
            "id": id,
            "objects": objects,
            "warm_bytes": allocator::bytes(warm),
            "cold_bytes": allocator::bytes(cold),
            "warm_ns": time(budget, warm),
            "cold_ns": time(budget, cold),
        })
    }
}

/// CPU nanoseconds of one run: the best of several batches.
fn time(budget: Duration, run: impl Fn()) -> f64 {
    let enough = budget.as_secs_f64() * 1e9 / f64::from(BATCHES);
    let end = Instant::now() + 4 * budget;
    let (mut n, mut best, mut batches) = (1_u32, f64::INFINITY, 0);
    while batches < BATCHES {
        let before = cpu();
        for _ in 0..n {
            run();
        }
        let spent = cpu() - before;
        if spent < enough && Instant::now() < end {
            n = n.saturating_mul(2);
            continue;
        }
        best = best.min(spent / f64::from(n));
        batches += 1;
        if Instant::now() > end {
            break;
        }
    }
    best
}

/// Nanoseconds this thread has been running. What others do in the meantime does not count.
fn cpu() -> f64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    spent.tv_sec as f64 * 1e9 + spent.tv_nsec as f64
}

/// The most memory this process has had, in KiB: all that was resident, and that without the pages
/// of files, which are the program's own code and libraries.
fn peak() -> (u64, u64) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let of = |key: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let all = of("VmHWM:");
    (all, all.saturating_sub(of("RssFile:")))
}
