//! Stamps of the objects other than Applications that decide what it deploys: definitions, Workflows, Policies and revisions; and of
//! WorkflowRuns, which act by themselves.
//!
//! Whoever writes one is its author, in the same form as the author of an Application. What is in the system namespace is the
//! administrators' and needs no stamp, a WorkflowRun aside; what the controller writes it stamps itself.

use json_patch::{Patch, PatchOperation};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use vela_api::names::annotation;
use vela_api::{
    ApplicationRevision, ComponentDefinition, Policy, PolicyDefinition, TraitDefinition, Workflow,
    WorkflowRun, WorkflowStepDefinition, WorkloadDefinition,
};
use vela_seal::{Content, Stamp, Subject};

use crate::admit::Admit;
use crate::application::map_operations;
use crate::application::subject::parse;
use crate::decision::Decision;
use crate::definition;
use crate::field::Problem;
use crate::messages;
use crate::review::Request;
use crate::stamp;
use crate::workflow_run;
use crate::world::World;

/// A kind whose objects are stamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StampedKind {
    Component,
    Trait,
    Policy,
    Step,
    Workload,
    Workflow,
    ExternalPolicy,
    Revision,
    Run,
}

impl StampedKind {
    const fn kind(self) -> &'static str {
        match self {
            Self::Component => ComponentDefinition::KIND,
            Self::Trait => TraitDefinition::KIND,
            Self::Policy => PolicyDefinition::KIND,
            Self::Step => WorkflowStepDefinition::KIND,
            Self::Workload => WorkloadDefinition::KIND,
            Self::Workflow => Workflow::KIND,
            Self::ExternalPolicy => Policy::KIND,
            Self::Revision => ApplicationRevision::KIND,
            Self::Run => WorkflowRun::KIND,
        }
    }

    /// What of an object is sealed: what the controller reads of it.
    fn content(self, object: &Value) -> Result<[u8; 32], serde_json::Error> {
        fn of<T: Content + DeserializeOwned>(
            object: &Value,
        ) -> Result<[u8; 32], serde_json::Error> {
            T::deserialize(object)?.content()
        }
        match self {
            Self::Component => of::<ComponentDefinition>(object),
            Self::Trait => of::<TraitDefinition>(object),
            Self::Policy => of::<PolicyDefinition>(object),
            Self::Step => of::<WorkflowStepDefinition>(object),
            Self::Workload => of::<WorkloadDefinition>(object),
            Self::Workflow => of::<Workflow>(object),
            Self::ExternalPolicy => of::<Policy>(object),
            Self::Revision => of::<ApplicationRevision>(object),
            Self::Run => of::<WorkflowRun>(object),
        }
    }
}

impl Admit for StampedKind {
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision {
        let mut object = match parse(request.object.as_deref()) {
            Ok(object) => object,
            Err(error) => return Decision::errored(400, error.to_string()),
        };
        let mut decision = match self {
            Self::Component => definition::Mutate.admit(request, world),
            Self::Run => workflow_run::Mutate.admit(request, world),
            _ => Decision::allowed(),
        };
        if !decision.allowed {
            return decision;
        }
        // What is sealed is what will be stored.
        let mut operations = decision.patch.take().map(|patch| patch.0).unwrap_or_default();
        if let Err(error) = json_patch::patch(&mut object, &operations) {
            return Decision::errored(400, error.to_string());
        }
        let mut warnings = std::mem::take(&mut decision.warnings);
        match stamped(*self, &object, request, world, &mut warnings) {
            Ok(stamp) => operations.extend(stamp),
            Err(Refusal::Unreadable(error)) => {
                return Decision::errored(400, messages::failed_to_decode(&error));
            }
            Err(Refusal::Problem(problem)) => {
                return Decision::of(vec![problem], warnings, &request.uid);
            }
        }
        decision.patch = (!operations.is_empty()).then_some(Patch(operations));
        decision.warn(warnings)
    }
}

/// Why an object gets no stamp.
enum Refusal {
    Unreadable(String),
    Problem(Problem),
}

impl From<serde_json::Error> for Refusal {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

/// The change of the identity annotations.
fn stamped(
    kind: StampedKind,
    object: &Value,
    request: &Request,
    world: &World<'_>,
    warnings: &mut Vec<String>,
) -> Result<Vec<PatchOperation>, Refusal> {
    let settings = world.settings;
    let user = &request.user_info;
    if !settings.gates.authenticate_application
        || (request.namespace == settings.system_namespace && kind != StampedKind::Run)
        || settings.exempt_users.contains(&user.username)
    {
        return Ok(Vec::new());
    }
    let old = request.old_object.as_deref().map(|raw| serde_json::from_str::<Value>(raw.get()));
    let old = old.transpose()?.filter(Value::is_object);
    let content = kind.content(object)?;
    let subject = Subject {
        kind: kind.kind(),
        namespace: &request.namespace,
        name: object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default(),
        content,
    };
    let present = noted(Some(object), annotation::STAMP);
    let decides = match &old {
        // What an administrator restores keeps its author.
        None => {
            let keys = settings.keys.get();
            let carried = keys
                .and_then(|keys| Stamp::verified(|key| noted(Some(object), key), &keys, &subject));
            if carried.is_some() && stamp::is_administrator(user, world) {
                return Ok(Vec::new());
            }
            true
        }
        // What could not be read was not deployed either.
        Some(old) => {
            kind.content(old).ok() != Some(content)
                || (present == stamp::RENEW && noted(Some(old), annotation::STAMP) != present)
        }
    };
    let mut annotations = object
        .pointer("/metadata/annotations")
        .and_then(Value::as_object)
        .cloned()
        .unwrap_or_else(Map::new);
    let wanted = if decides {
        let (author, warning) = stamp::author(user, world);
        warnings.extend(warning);
        stamp::annotations(settings, &author, &subject).map_err(Refusal::Problem)?
    } else {
        let kept = |key: &'static str| {
            Some(noted(old.as_ref(), key)).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        annotation::IDENTITY.map(|key| (key, kept(key)))
    };
    for (key, value) in wanted {
        match value {
            Some(value) => annotations.insert(key.to_owned(), value.into()),
            None => annotations.remove(key),
        };
    }
    let mut operations = Vec::new();
    map_operations(object, "annotations", &annotations, &mut operations);
    Ok(operations)
}

fn noted<'o>(object: Option<&'o Value>, key: &str) -> &'o str {
    object
        .and_then(|object| object.pointer("/metadata/annotations")?.get(key)?.as_str())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_seal::{KeyHolder, Keys};

    use super::*;
    use crate::config::Settings;
    use crate::engine::{Engine, endpoints};
    use crate::snapshot::Snapshot;
    use crate::world::{Fact, Need};

    const KEY: [u8; 32] = [1; 32];

    fn settings(authenticate: bool) -> Settings {
        let keys = KeyHolder::default();
        keys.set(Keys::new(&KEY, None).unwrap());
        let mut settings = Settings {
            with_user: true,
            exempt_users: vec!["controller".to_owned()],
            keys,
            ..Settings::default()
        };
        settings.gates.authenticate_application = authenticate;
        settings
    }

    /// What is stored of an object that somebody writes.
    fn written(
        settings: &Settings,
        path: &str,
        (user, namespace): (&str, &str),
        object: &Value,
        old: Option<&Value>,
    ) -> Value {
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "namespace": namespace,
                "operation": if old.is_some() { "UPDATE" } else { "CREATE" },
                "userInfo": {"username": user}, "object": object, "oldObject": old},
        });
        let endpoint = endpoints().find(|endpoint| endpoint.path.ends_with(path)).unwrap();
        let engine = Engine::new(settings.clone(), true);
        let (body, snapshot) = (review.to_string(), Snapshot::default());
        let know = |_: &Need| Fact::Allowed(false);
        let json = Some("application/json");
        let (_, decision) = engine.review(endpoint, json, body.as_bytes(), &snapshot, know);
        assert!(decision.allowed, "{decision:?}");
        let mut stored = object.clone();
        if let Some(patch) = decision.patch {
            json_patch::patch(&mut stored, &patch.0).unwrap();
        }
        stored
    }

    fn author<T: Content + DeserializeOwned>(stored: &Value) -> Option<String> {
        let object: T = serde_json::from_value(stored.clone()).unwrap();
        object.author(&Keys::new(&KEY, None).unwrap()).map(|stamp| stamp.user)
    }

    const TRAITS: &str = "/mutating-core-oam-dev-v1beta1-traitdefinitions";

    fn definition(template: &str) -> Value {
        json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "TraitDefinition",
            "metadata": {"name": "t", "namespace": "team"},
            "spec": {"appliesToWorkloads": ["*"], "schematic": {"cue": {"template": template}}},
        })
    }

    #[test]
    fn whoever_decides_what_a_definition_says_is_its_author() {
        let on = settings(true);
        let write = |user: &str, object: &Value, old: Option<&Value>| {
            written(&on, TRAITS, (user, "team"), object, old)
        };
        let of = author::<TraitDefinition>;
        let first = write("alice", &definition("a: 1"), None);
        assert_eq!(of(&first).as_deref(), Some("alice"));
        // Metadata says nothing about what is rendered.
        let mut described = first.clone();
        described["metadata"]["annotations"]["definition.oam.dev/description"] = json!("x");
        described["metadata"]["annotations"][annotation::USERNAME] = json!("bob");
        let described = write("bob", &described, Some(&first));
        assert_eq!(of(&described).as_deref(), Some("alice"));
        let mut edited = described.clone();
        edited["spec"]["schematic"]["cue"]["template"] = json!("a: 2");
        assert_eq!(of(&edited), None, "a stamp is of its content");
        let edited = write("bob", &edited, Some(&described));
        assert_eq!(of(&edited).as_deref(), Some("bob"));
        let mut renewed = edited.clone();
        renewed["metadata"]["annotations"][annotation::STAMP] = json!(stamp::RENEW);
        let renewed = write("carol", &renewed, Some(&edited));
        assert_eq!(of(&renewed).as_deref(), Some("carol"));
        // A stamp is brought along by administrators only.
        assert_eq!(of(&write("eve", &renewed, None)).as_deref(), Some("eve"));
    }

    #[test]
    fn who_is_not_stamped() {
        let object = definition("a: 1");
        for (authenticate, user, namespace) in
            [(false, "alice", "team"), (true, "controller", "team"), (true, "alice", "vela-system")]
        {
            let stored = written(&settings(authenticate), TRAITS, (user, namespace), &object, None);
            assert_eq!(stored, object, "{user} {namespace}");
        }
    }

    #[test]
    fn what_is_stamped_is_what_is_stored() {
        let on = settings(true);
        let component = json!({
            "apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
            "metadata": {"name": "c", "namespace": "team"},
            "spec": {"schematic": {"cue": {"template": "output: {}"}}},
        });
        let path = "/mutating-core-oam-dev-v1beta1-componentdefinitions";
        let stored = written(&on, path, ("alice", "team"), &component, None);
        assert_eq!(stored["spec"]["workload"]["type"], "autodetects.core.oam.dev");
        assert_eq!(author::<ComponentDefinition>(&stored).as_deref(), Some("alice"));
        let workflow = json!({
            "apiVersion": "core.oam.dev/v1alpha1", "kind": "Workflow",
            "metadata": {"name": "w", "namespace": "team"},
            "steps": [{"name": "s", "type": "suspend"}],
        });
        let path = "/mutating-core-oam-dev-v1alpha1-workflows";
        let stored = written(&on, path, ("alice", "team"), &workflow, None);
        assert_eq!(author::<Workflow>(&stored).as_deref(), Some("alice"));
        let mut edited = stored;
        edited["steps"] = json!([]);
        assert_eq!(author::<Workflow>(&edited), None);
    }
}
