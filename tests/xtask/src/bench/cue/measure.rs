//! The Rust side: the same definitions, inputs, work and clock as `tests/bench/gocue`.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

use cue::{Errors, Evaluation, Limits, Packages, Program, Value};
use serde_json::Value as Json;

/// What a controller reads of a rendered template.
const PATHS: [&str; 3] = ["output", "outputs", "patch"];

/// One definition with one input.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) id: String,
    pub(crate) definition: String,
    source: String,
    properties: String,
    context: String,
}

/// What a case takes and gives.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    pub(crate) warm: Duration,
    pub(crate) cold: Duration,
    pub(crate) objects: BTreeMap<String, String>,
    pub(crate) error: Option<String>,
}

/// All inputs that have a definition.
pub(crate) fn cases(material: &Path, only: Option<&str>) -> std::io::Result<Vec<Case>> {
    let lines = |name: &str| -> std::io::Result<Vec<Json>> {
        let text = std::fs::read_to_string(material.join("corpus/cue/vela").join(name))?;
        Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
    };
    let text = |json: &Json, key: &str| json[key].as_str().unwrap_or_default().to_owned();
    let mut definitions = HashMap::new();
    for definition in lines("vela-definitions.jsonl")? {
        let imports = definition["imports"].as_array().cloned().unwrap_or_default();
        let imports = imports.iter().map(|path| format!("import {path}\n"));
        let source = format!("{}{}", imports.collect::<String>(), text(&definition, "template"));
        definitions.insert((text(&definition, "type"), text(&definition, "name")), source);
    }
    let mut cases = Vec::new();
    for input in lines("vela-inputs.jsonl")? {
        let key = (text(&input, "kind"), text(&input, "definition"));
        let Some(source) = definitions.get(&key) else { continue };
        if only.is_some_and(|only| only != key.1) {
            continue;
        }
        let name = text(&input, "name");
        let context = serde_json::json!({
            "name": name, "namespace": "default", "appName": "app", "appRevision": "app-v1",
            "appRevisionNum": 1, "revision": format!("{name}-v1"), "output": {}, "outputs": {},
            "cluster": "local",
            "clusterVersion": {
                "major": "1", "minor": 30, "gitVersion": "v1.30.0", "platform": "linux/amd64",
            },
        });
        cases.push(Case {
            id: text(&input, "id"),
            definition: format!("{}/{}", key.0, key.1),
            source: format!("{source}\ncontext: _\n"),
            properties: input["properties"].to_string(),
            context: context.to_string(),
        });
    }
    Ok(cases)
}

impl Case {
    fn compile(&self) -> Result<Program, Errors> {
        Program::compile("template.cue", &self.source, &Packages::std())
    }

    fn render(&self, program: &Program) -> Result<BTreeMap<String, String>, String> {
        let data = |text: &str| -> Result<Value, String> {
            let json: Json = serde_json::from_str(text).map_err(|error| error.to_string())?;
            Ok(Value::from(json))
        };
        let (parameter, context) = (data(&self.properties)?, data(&self.context)?);
        let inputs = [("parameter", &parameter), ("context", &context)];
        let mut evaluation = program.evaluate(&inputs, &Limits::default());
        objects(&mut evaluation).map_err(|errors| errors.to_string())
    }

    /// From text to objects.
    pub(crate) fn cold(&self) -> Result<BTreeMap<String, String>, String> {
        let program = self.compile().map_err(|errors| errors.to_string())?;
        self.render(&program)
    }

    /// Renders once for the result, then as often as the budget allows for the best time.
    pub(crate) fn measure(&self, budget: Duration) -> Measured {
        let mut measured = Measured::default();
        let program = match self.compile() {
            Ok(program) => program,
            Err(errors) => {
                measured.error = Some(errors.to_string());
                return measured;
            }
        };
        match self.render(&program) {
            Ok(objects) => measured.objects = objects,
            Err(error) => {
                measured.error = Some(error);
                return measured;
            }
        }
        measured.cold = best(budget, || drop(self.cold()));
        measured.warm = best(budget, || drop(self.render(&program)));
        measured
    }
}

fn objects(evaluation: &mut Evaluation) -> Result<BTreeMap<String, String>, Errors> {
    let root = evaluation.root();
    let mut out = BTreeMap::new();
    for path in PATHS {
        if let Some(node) = evaluation.field(root, path) {
            out.insert(path.to_owned(), evaluation.export(node)?.to_json_text());
        }
    }
    Ok(out)
}

fn best(budget: Duration, mut run: impl FnMut()) -> Duration {
    let mut best = Duration::MAX;
    let end = Instant::now() + budget;
    while Instant::now() < end {
        let start = Instant::now();
        run();
        best = best.min(start.elapsed());
    }
    best
}

/// The most memory this process has had, in kibibytes.
pub(crate) fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
