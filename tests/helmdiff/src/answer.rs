//! What an engine makes of a case, and what ours makes of it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use serde_json::Value;
use vela_helm::{
    Budget, Capabilities, Chart, ChartError, Host, KubeVersion, Limits, Options, Release,
    RenderError, RenderedText, TemplateError, prepare, yaml,
};

use crate::case::{API_VERSIONS, Case, KUBE_VERSION};

/// A manifest, hook or file of `crds/`: source and text, and what else is known of it.
type Documents = Vec<(String, String, String)>;

/// What came of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Rendered(Rendered),
    /// The class of the corpus, and the text.
    Error(&'static str, String),
    /// A budget of ours was crossed.
    OverBudget(String),
    /// The engine panicked, crashed or did not come to an end.
    Failed(&'static str),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rendered {
    pub(crate) texts: BTreeMap<String, String>,
    pub(crate) manifests: Documents,
    pub(crate) hooks: Documents,
    pub(crate) crds: Documents,
    pub(crate) notes: String,
    /// Why the texts cannot be read as manifests.
    pub(crate) unreadable: Option<String>,
}

/// Reads a line of the oracle.
pub(crate) fn of_oracle(line: &str) -> Option<Answer> {
    let json: Value = serde_json::from_str(line).ok()?;
    if json["timeout"] == true {
        return Some(Answer::Failed("timeout"));
    }
    if json["panic"].is_string() {
        return Some(Answer::Failed("panic"));
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let error = text(&json["error"]);
    let stage = json["stage"].as_str().unwrap_or_default();
    if !stage.is_empty() && stage != "manifest" {
        return Some(Answer::Error(class(stage, &error), error));
    }
    let documents = |key: &str| -> Documents {
        let list = json[key].as_array().into_iter().flatten();
        list.map(|one| (text(&one["source"]), text(&one["text"]), hook_facts(one))).collect()
    };
    let texts = json["texts"].as_object().into_iter().flatten();
    Some(Answer::Rendered(Rendered {
        texts: texts.map(|(path, value)| (path.clone(), text(value))).collect(),
        manifests: documents("manifests"),
        hooks: documents("hooks"),
        crds: documents("crds"),
        notes: text(&json["notes"]),
        unreadable: (stage == "manifest").then_some(error),
    }))
}

fn hook_facts(hook: &Value) -> String {
    if hook["events"].is_null() && hook["weight"].is_null() && hook["policies"].is_null() {
        return String::new();
    }
    let list = |key: &str| {
        let words = hook[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        words.collect::<Vec<_>>().join(",")
    };
    facts(&list("events"), hook["weight"].as_i64().unwrap_or_default(), &list("policies"))
}

fn facts(events: &str, weight: i64, policies: &str) -> String {
    format!("{events} {weight} {policies}")
}

/// The class that the corpus gives an error of Helm.
fn class(stage: &str, error: &str) -> &'static str {
    match stage {
        "chart" => "chart",
        "type" => "type",
        "dependency" => "dependency",
        "kubeVersion" => "kubeVersion",
        "values" | "dependencies" if error.starts_with("values don't meet") => "schema",
        "values" | "dependencies" => "values",
        _ if error.starts_with("parse error at (") => "parse",
        _ if error.starts_with("execution error at (") => "fail",
        _ if error.starts_with("rendering template failed") => "panic",
        _ => "exec",
    }
}

/// A host without randomness, whose time is up after a while.
struct Machine(Instant);

impl Host for Machine {
    fn now(&mut self) -> jiff::Timestamp {
        jiff::Timestamp::now()
    }

    fn random(&mut self, bytes: &mut [u8]) {
        bytes.fill_with(|| fastrand::u8(..));
    }

    fn is_over(&mut self) -> bool {
        Instant::now() > self.0
    }
}

/// Our answer to a case; the thread needs the stack of [`STACK_OF_TEMPLATES`] and more.
pub(crate) fn ours(case: &Case) -> Answer {
    catch_unwind(AssertUnwindSafe(|| render(case))).unwrap_or(Answer::Failed("panic"))
}

/// What templates may take of the stack.
pub(crate) const STACK_OF_TEMPLATES: usize = 192 << 20;

fn render(case: &Case) -> Answer {
    let files = case.files.iter().map(|(name, text)| (name.clone(), text.as_bytes().to_vec()));
    let chart = match Chart::from_directory(files, &Limits::default()) {
        Ok(chart) => chart,
        Err(error) => return of_chart(&error),
    };
    let values = match yaml::read_values(&case.values) {
        Ok(values) => values,
        Err(error) => return Answer::Error("values", error.to_string()),
    };
    let Ok(version) = KubeVersion::parse(KUBE_VERSION) else { return Answer::Failed("version") };
    let mut capabilities = Capabilities::without_cluster(version);
    capabilities.api_versions = API_VERSIONS.map(str::to_owned).to_vec();
    let release = Release {
        name: "rel".to_owned(),
        namespace: "ns".to_owned(),
        is_upgrade: case.is_upgrade,
        revision: if case.is_upgrade { 2 } else { 1 },
    };
    let budget = Budget { stack: STACK_OF_TEMPLATES, ..Budget::default() };
    let host = || Box::new(Machine(Instant::now() + Duration::from_secs(10)));
    let prepared = match prepare(&chart, &values, Options::default(), &budget) {
        Ok(prepared) => prepared,
        Err(error) => return of_render(&error),
    };
    match prepared.render(&release, &capabilities, host(), &budget) {
        Ok(rendered) => {
            let hook = |hook: &vela_helm::Hook| {
                let words = |value: Value| {
                    let words = value.as_array().cloned().unwrap_or_default();
                    let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
                    words.join(",")
                };
                let events = words(serde_json::to_value(&hook.events).unwrap_or_default());
                let policies =
                    words(serde_json::to_value(&hook.delete_policies).unwrap_or_default());
                let document = &hook.document;
                (
                    document.source.clone(),
                    document.text.clone(),
                    facts(&events, hook.weight, &policies),
                )
            };
            let manifest = |document: &vela_helm::Document| {
                (document.source.clone(), document.text.clone(), String::new())
            };
            let crd =
                |file: &vela_helm::CrdFile| (file.source.clone(), file.text.clone(), String::new());
            Answer::Rendered(Rendered {
                manifests: rendered.documents.iter().map(manifest).collect(),
                hooks: rendered.hooks.iter().map(hook).collect(),
                crds: rendered.crds.iter().map(crd).collect(),
                notes: rendered.notes.unwrap_or_default(),
                texts: whole(rendered.texts),
                unreadable: None,
            })
        }
        Err(RenderError::Manifest(error)) => {
            // The texts count also where they are no manifests.
            match prepared.texts(&release, &capabilities, host(), &budget) {
                Ok(texts) => Answer::Rendered(Rendered {
                    texts: whole(texts),
                    unreadable: Some(error.to_string()),
                    ..Rendered::default()
                }),
                Err(error) => of_render(&error),
            }
        }
        Err(error) => of_render(&error),
    }
}

fn whole(texts: BTreeMap<String, RenderedText>) -> BTreeMap<String, String> {
    texts.into_iter().map(|(path, text)| (path, text.into_string())).collect()
}

fn of_chart(error: &ChartError) -> Answer {
    Answer::Error("chart", error.to_string())
}

fn of_render(error: &RenderError) -> Answer {
    let class = match error {
        RenderError::Library => "type",
        RenderError::Dependencies(_) => "dependency",
        RenderError::Values(_) => "values",
        RenderError::Schema(_) => "schema",
        RenderError::KubeVersion { .. } => "kubeVersion",
        RenderError::Manifest(_) => "yaml",
        RenderError::OverBudget(_)
        | RenderError::Template(TemplateError::OverBudget { .. } | TemplateError::Stopped { .. }) =>
        {
            return Answer::OverBudget(error.to_string());
        }
        RenderError::Template(TemplateError::Parse(_)) => "parse",
        RenderError::Template(TemplateError::Refused { .. }) => "fail",
        RenderError::Template(TemplateError::Exec(_) | TemplateError::NotDefined(_)) => "exec",
    };
    Answer::Error(class, error.to_string())
}
