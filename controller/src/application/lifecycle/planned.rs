//! Plans of paused Applications: an Application that is paused and has `app.oam.dev/plan: "true"` says what its run would
//! write, once for each generation, in the ConfigMap `<app>-plan` and the condition `Planned`. Nothing else is done while
//! it is paused.

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::names::{annotation, condition as types, reason};
use vela_api::{Application, Condition, condition};
use vela_apply::plan::PatchKind;
use vela_cluster::{ApiError, Identity, ObjectClient, Target};

use crate::application::context::{PlannedRun, Planner};
use crate::application::facts;
use crate::application::write;
use crate::messages;

/// Bytes of a text in the ConfigMap, which holds 1 MiB.
const MAX_BYTES: usize = 400 << 10;

/// Plans the run of a paused Application, if it asks for that. Returns it as it is stored then, if anything was written.
///
/// # Errors
/// The API server's answer.
pub(in crate::application) async fn plan(
    planner: &Planner,
    io: &ObjectClient,
    app: &Application,
) -> Result<Option<Application>, ApiError> {
    let asks = facts::annotation(&app.metadata, annotation::PLAN) == "true";
    let generation = app.metadata.generation.unwrap_or_default();
    // Once for each generation: a plan costs as much as a reconcile.
    if !asks
        || app.metadata.deletion_timestamp.is_some()
        || planned_generation(app) == Some(generation)
    {
        return Ok(None);
    }
    let run = planner(app.clone()).await?;
    // The ConfigMap before the condition: the condition refers to it.
    let planned = match keep(io, app, generation, &run).await? {
        true if run.is_possible => (reason::PLANNED, run.summary),
        true => (reason::NOT_POSSIBLE, run.summary),
        false => (reason::NAME_TAKEN, messages::plan_name_taken(&map_name(app))),
    };
    let (reason, summary) = planned;
    let is_true = if reason == reason::PLANNED { "True" } else { "False" };
    let message = messages::Planned { generation, summary: &summary }.to_string();
    let mut conditions = app.status.conditions.clone();
    let now = Timestamp::now();
    condition::set(
        &mut conditions,
        [Condition::new(types::PLANNED, is_true, reason, message, now)],
    );
    // Nothing but the condition: the generation was planned, not reconciled.
    let body = json!({
        "metadata": {"resourceVersion": app.metadata.resource_version},
        "status": {"conditions": conditions},
    });
    let own = Identity::default();
    match io.patch(&write::target(app), "status", (PatchKind::Merge, &body), false, &own).await {
        Ok(answer) => Ok(Some(answer.read()?)),
        // It is another one by now, and comes again.
        Err(error) if error.is_conflict() || error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// The generation whose plan the status has.
fn planned_generation(app: &Application) -> Option<i64> {
    let condition = condition::get(&app.status.conditions, types::PLANNED)?;
    messages::Planned::read(&condition.message).map(|planned| planned.generation)
}

fn map_name(app: &Application) -> String {
    format!("{}-plan", app.metadata.name.as_deref().unwrap_or_default())
}

/// Writes the plan down, unless somebody else's ConfigMap has the name. Returns whether it did.
async fn keep(
    io: &ObjectClient,
    app: &Application,
    generation: i64,
    run: &PlannedRun,
) -> Result<bool, ApiError> {
    let name = map_name(app);
    let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
    let uid = app.metadata.uid.as_deref().unwrap_or_default();
    let own = Identity::default();
    let target = Target { api_version: "v1", kind: "ConfigMap", namespace, name: &name };
    let data = json!({
        "generation": generation.to_string(),
        "plan.txt": bounded(&run.text),
        "plan.json": if run.json.len() > MAX_BYTES { "" } else { &run.json },
    });
    // Somebody else's ConfigMap is left alone, and the condition says so.
    match io.get(&target, &own).await {
        Ok(found) if !is_of(&found, uid) => return Ok(false),
        Ok(_) => {
            let body = json!({ "data": data });
            io.patch(&target, "", (PatchKind::Merge, &body), false, &own).await?;
        }
        Err(error) if error.is_not_found() => {
            let owner = json!({"apiVersion": vela_api::V1BETA1, "kind": Application::KIND,
                "name": app.metadata.name, "uid": uid, "controller": true});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "ownerReferences": [owner]}, "data": data});
            io.create(&map, false, &own).await?;
        }
        Err(error) => return Err(error),
    }
    Ok(true)
}

fn is_of(map: &Value, uid: &str) -> bool {
    let owners = map.pointer("/metadata/ownerReferences").and_then(Value::as_array);
    owners.into_iter().flatten().any(|owner| owner.get("uid").and_then(Value::as_str) == Some(uid))
}

fn bounded(text: &str) -> String {
    if text.len() <= MAX_BYTES {
        return text.to_owned();
    }
    format!("{}\n...\n", text.get(..text.floor_char_boundary(MAX_BYTES)).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_planned_once() {
        let app = |message: &str| -> Application {
            serde_json::from_value(json!({"metadata": {"name": "a", "generation": 12}, "spec": {"components": []},
                "status": {"conditions": [{"type": "Planned", "status": "True", "reason": "Planned", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
            .unwrap()
        };
        for generation in [1, 12, 120] {
            let planned = messages::Planned { generation, summary: "Nothing to do: all is there" };
            assert_eq!(planned_generation(&app(&planned.to_string())), Some(generation));
        }
        for other in ["", "generation : x", "generation 12", "12: x"] {
            assert_eq!(planned_generation(&app(other)), None, "{other}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = bounded(&"\u{e4}".repeat(MAX_BYTES));
        assert!(text.len() <= MAX_BYTES + 8 && text.ends_with("\n...\n"));
        assert_eq!(bounded("x"), "x");
    }
}
