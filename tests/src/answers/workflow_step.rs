//! Answers to records of kind `workflow-step`: one step run once, with recorded provider answers.

use std::collections::HashMap;

use cue::Limits;
use serde_json::{Map, Value, json};
use vela_workflow::{Notes, ProviderCall, Providers, Reply, StepRun, Verdict};

/// The answer of the workflow engine to one record.
#[must_use]
pub fn answer(record: &Value) -> Value {
    let text = |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default();
    let id = record.get("id").cloned().unwrap_or(Value::Null);
    if matches!(text("definition"), "step-group") {
        // a group has no template of its own
        return json!({"id": id, "status": {"phase": "succeeded"}, "calls": []});
    }
    let program = match vela_workflow::compile(text("template")) {
        Ok(program) => program,
        Err(errors) => {
            let message = errors.to_string();
            return json!({
                "id": id, "calls": [],
                "status": {"phase": "failed", "reason": "Execute", "message": message.trim_end()},
                "operation": {"waiting": true},
            });
        }
    };
    let context = context(record);
    let parameter = record.get("properties").cloned().unwrap_or_else(|| json!({}));
    let limits = Limits::default();
    let step = StepRun {
        id: text("stepSessionID"),
        previous: None,
        context: &context,
        parameter: &parameter,
        outputs: &[],
        now: jiff::Timestamp::UNIX_EPOCH,
        limits: &limits,
        dump: false,
    };
    let mut stub = Stub::new(record.get("stub"));
    let mut notes = Notes::new();
    let result = vela_workflow::run(&program, &step, &Map::new(), &mut notes, &mut stub);
    let (phase, reason) = match &result.outcome.verdict {
        Verdict::Succeeded => ("succeeded", ""),
        Verdict::Wait | Verdict::Later(_) | Verdict::Away => ("running", "Wait"),
        Verdict::Suspend => ("suspending", "Suspend"),
        Verdict::Break => ("succeeded", "Terminate"),
        Verdict::Fail(reason) => ("failed", reason.as_str()),
        Verdict::Error => ("failed", "Execute"),
    };
    let terminated = matches!(result.outcome.verdict, Verdict::Fail(_) | Verdict::Break);
    let calls: Vec<Value> = result
        .trace
        .into_iter()
        .map(|call| {
            let mut out =
                json!({"provider": call.provider, "do": call.function, "path": call.path});
            if let Value::Object(map) = &mut out {
                if let Some(params) = call.params {
                    map.insert("params".into(), params);
                }
                if call.own {
                    map.insert("real".into(), json!(true));
                }
                if let Some(error) = call.error {
                    map.insert("error".into(), json!(error));
                }
            }
            out
        })
        .collect();
    json!({
        "id": id,
        "calls": calls,
        "status": {"phase": phase, "reason": (!reason.is_empty()).then_some(reason), "message": result.outcome.message},
        "operation": {
            "waiting": result.waiting.then_some(true),
            "terminated": terminated.then_some(true),
            "suspend": (result.outcome.verdict == Verdict::Suspend).then_some(true),
        },
    })
}

/// The context of a step of an Application.
fn context(record: &Value) -> Value {
    let app = record.get("app").cloned().unwrap_or(Value::Null);
    let of = |key: &str| app.get(key).cloned().unwrap_or(Value::Null);
    let revision = of("revision");
    let number = revision.as_str().and_then(|r| r.rsplit("-v").next()?.parse::<i64>().ok());
    json!({
        "name": of("name"), "namespace": of("namespace"), "appName": of("name"),
        "workflowName": "", "publishVersion": "",
        "stepName": record.get("name"), "stepSessionID": record.get("stepSessionID"),
        "spanID": "", "appRevision": revision, "appRevisionNum": number.unwrap_or(0),
        "appLabels": app.get("labels").cloned().unwrap_or_else(|| json!({})),
        "appAnnotations": app.get("annotations").cloned().unwrap_or_else(|| json!({})),
        "revision": "", "replicaKey": "", "cluster": "", "components": null,
        "clusterVersion": {"major": "1", "minor": 28, "gitVersion": "v1.28.0", "platform": "linux/amd64"},
    })
}

/// Recorded answers, used in order; the last one repeats.
struct Stub {
    answers: HashMap<String, Vec<Value>>,
    used: HashMap<String, usize>,
}

impl Stub {
    fn new(stub: Option<&Value>) -> Self {
        let answers = stub
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(name, list)| (name.clone(), list.as_array().cloned().unwrap_or_default()))
            .collect();
        Self { answers, used: HashMap::new() }
    }
}

impl Providers for Stub {
    fn call(&mut self, call: &ProviderCall<'_>) -> Reply {
        let name = format!("{}.{}", call.provider, call.function);
        if let Some(list) = self.answers.get(&name).filter(|list| !list.is_empty()) {
            let used = self.used.entry(name).or_default();
            let value = list.get(*used).or(list.last()).cloned().unwrap_or(Value::Null);
            *used += 1;
            return Reply::Returns(value);
        }
        if matches!(name.as_str(), "kube.apply" | "kube.patch" | "op.apply" | "op.patch") {
            let value = call.params.get("value").cloned().unwrap_or(Value::Null);
            return Reply::Returns(json!({ "value": value }));
        }
        Reply::Returns(Value::Null)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test may fail")]

    use serde_json::{Value, json};

    use crate::material;

    /// The calls of one of our own steps.
    fn calls(step: &str, properties: &Value) -> Value {
        let path = format!("charts/vela-core/definitions/workflow-step/{step}.cue");
        let text = std::fs::read_to_string(material::workspace().join(path)).expect("a definition");
        let object = vela_render::file::load(step, &text).expect("a good definition");
        let record = json!({
            "definition": step, "name": "a-step", "stepSessionID": "id", "properties": properties,
            "template": object.pointer("/spec/schematic/cue/template"),
            "app": {"name": "app", "namespace": "default"},
        });
        super::answer(&record)["calls"].clone()
    }

    #[test]
    fn build_push_image_takes_a_repository_with_and_without_scheme() {
        for (git, branch, context) in [
            ("github.com/o/r", Some("dev"), "git://github.com/o/r#refs/heads/dev"),
            ("git://github.com/o/r", Some("dev"), "git://github.com/o/r#refs/heads/dev"),
            ("git://github.com/o/r", None, "git://github.com/o/r#refs/heads/master"),
        ] {
            let mut repository = json!({"git": git});
            if let Some(branch) = branch {
                repository["branch"] = json!(branch);
            }
            let calls = calls("build-push-image", &json!({"image": "r/i", "context": repository}));
            let arguments = &calls[0]["params"]["value"]["spec"]["containers"][0]["args"];
            assert_eq!(arguments[1], format!("--context={context}"), "{calls}");
        }
        let calls = calls("build-push-image", &json!({"image": "i", "context": "s3://b/c.tgz"}));
        let arguments = &calls[0]["params"]["value"]["spec"]["containers"][0]["args"];
        assert_eq!(arguments[1], "--context=s3://b/c.tgz", "{calls}");
    }
    #[test]
    fn clean_jobs_takes_the_namespace_of_the_application_or_another() {
        for (properties, namespace) in [(json!({}), "default"), (json!({"namespace": "n"}), "n")] {
            let calls = calls("clean-jobs", &properties);
            for (call, kind) in [(&calls[0], "Job"), (&calls[1], "Pod")] {
                let value = &call["params"]["value"];
                assert_eq!(value["kind"], kind, "{calls}");
                assert_eq!(value["metadata"]["namespace"], namespace, "{calls}");
                assert_eq!(call["params"]["filter"]["namespace"], namespace, "{calls}");
            }
        }
    }
}
