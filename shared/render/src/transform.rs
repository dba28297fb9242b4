//! Application-scoped policies: they change an Application before it is parsed.
//!
//! Pure: the template of a policy is evaluated with its parameters and a view of the Application,
//! and what it puts into `output` changes that view. Which policies there are, whether a result is
//! used again and where it is recorded is the caller's business.

use crate::cache::Flavour;
use crate::context::revision_number;
use crate::definition::Definition;
use crate::host::RenderHost;
use crate::input::Input;
use crate::messages::{self, Subject};
use crate::render::{Engine, properties};
use crate::{Renderer, json};
use cue::{Evaluation, Node, Value};
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use vela_api::names::{SETTABLE, annotation, is_reserved};

/// The Application as policies see and change it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Name of the Application; policies cannot change it.
    pub name: String,
    /// Namespace of the Application; policies cannot change it.
    pub namespace: String,
    /// The name of its revision, empty before the first one.
    pub revision: String,
    /// Labels of the Application.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Application.
    pub annotations: BTreeMap<String, String>,
    /// `spec.components`, a list.
    pub components: Json,
    /// `spec.workflow`, `null` without one.
    pub workflow: Json,
    /// `spec.policies`, a list.
    pub policies: Json,
    /// What policies hand to templates as `context.custom`.
    pub custom: Map<String, Json>,
}

/// An application-scoped policy.
#[derive(Clone, Debug)]
pub struct Policy<'a> {
    /// Its name; a global one has that of its definition.
    pub name: &'a str,
    /// What its type was resolved to.
    pub definition: &'a Definition,
    /// Its properties; global ones have none.
    pub properties: Option<&'a Json>,
    /// Whether it applies to every Application instead of being listed in this one.
    pub global: bool,
    /// Smaller ones run first.
    pub priority: i32,
    /// The name of the DefinitionRevision, for the template.
    pub revision: &'a str,
    /// The hash of the DefinitionRevision, for the template.
    pub revision_hash: &'a str,
}

/// What became of a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The policy's name.
    pub name: String,
    /// Whether it is a global one.
    pub global: bool,
    /// Whether it took part: not if it is disabled or failed.
    pub applied: bool,
    /// Why a global policy failed; an explicit one that fails ends it all.
    pub error: Option<String>,
    /// What components, workflow and policies were, and what they are now, if it changed any of them.
    pub modified: Option<Modified>,
    /// The labels it sets.
    pub labels: BTreeMap<String, String>,
    /// The annotations it sets.
    pub annotations: BTreeMap<String, String>,
    /// What it adds to `context.custom`.
    pub custom: Map<String, Json>,
}

/// A policy's result for components, workflow and policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Modified {
    /// As it found them.
    pub before: Json,
    /// As it left them.
    pub after: Json,
}

/// Why a policy fails.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// A policy that every Application has is listed in this one: its name and its type.
    #[error("{}", messages::explicit_global(.0, .1))]
    ListedGlobal(String, String),
    /// A policy that the Application lists fails.
    #[error("{}", messages::explicit_policy(.0, .1))]
    Explicit(String, PolicyFailure),
}

/// What is wrong with a policy, or with what it puts into `output`.
#[derive(Debug, thiserror::Error)]
pub enum PolicyFailure {
    /// Its properties are no object, or its template fails.
    #[error("{0}")]
    Template(String),
    /// What it gives cannot be evaluated.
    #[error(transparent)]
    Cue(#[from] cue::Errors),
    /// `enabled` is no boolean.
    #[error("{}", messages::enabled_no_bool())]
    Enabled,
    /// A field that no policy may set.
    #[error("{}", messages::output_not_allowed(.0, &PERMITTED))]
    Field(String),
    /// A field, and what it must be.
    #[error("{}", messages::output_of_policy(.0, .1))]
    Kind(String, &'static str),
    /// A field, and a key that belongs to the control plane.
    #[error("{}", messages::key_not_allowed(.0, .1, &SETTABLE))]
    Key(&'static str, String),
}

/// The fields `output` may have.
const PERMITTED: [&str; 6] = ["components", "workflow", "policies", "labels", "annotations", "ctx"];

/// Puts policies into the order they run in: by priority; of one priority the global ones first, by
/// name, then the others as the Application lists them.
pub fn order(policies: &mut [Policy<'_>]) {
    policies.sort_by(|a, b| {
        let names = if a.global { a.name.cmp(b.name) } else { std::cmp::Ordering::Equal };
        a.priority.cmp(&b.priority).then(b.global.cmp(&a.global)).then(names)
    });
}

impl View {
    /// What a policy may change of the spec.
    fn spec(&self) -> Json {
        serde_json::json!({
            "components": self.components, "workflow": self.workflow, "policies": self.policies,
        })
    }
}

/// What a policy changes.
#[derive(Debug, Default)]
struct Change {
    components: Option<Json>,
    workflow: Option<Json>,
    policies: Option<Json>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
    custom: Map<String, Json>,
}

impl Renderer {
    /// Runs policies in their [`order`], each on what those before it have made, and says what
    /// became of each. Components, workflow and policies are replaced; labels, annotations and
    /// `context.custom` are merged key by key, the later value wins.
    ///
    /// # Errors
    /// An explicit policy that fails, or one that is global.
    pub fn transform(
        &self,
        view: &mut View,
        mut policies: Vec<Policy<'_>>,
        host: &mut dyn RenderHost,
    ) -> Result<Vec<Applied>, PolicyError> {
        let of_global = |one: &Policy<'_>| {
            let mut globals = policies.iter().filter(|other| other.global);
            !one.global && globals.any(|global| global.definition.name == one.definition.name)
        };
        if let Some(policy) = policies.iter().find(|policy| of_global(policy)) {
            let kind = policy.definition.name.clone();
            return Err(PolicyError::ListedGlobal(policy.name.to_owned(), kind));
        }
        if view.annotations.get(annotation::POLICY_SKIP_GLOBAL).is_some_and(|value| value == "true")
        {
            policies.retain(|policy| !policy.global);
        }
        order(&mut policies);
        let mut applied_policies = Vec::with_capacity(policies.len());
        for policy in &policies {
            let change = self.change(view, policy, host);
            let mut applied = Applied {
                name: policy.name.to_owned(),
                global: policy.global,
                applied: matches!(change, Ok(Some(_))),
                ..Applied::default()
            };
            match change {
                Ok(Some(change)) => change.apply(view, &mut applied),
                Ok(None) => {}
                Err(why) if policy.global => applied.error = Some(why.to_string()),
                Err(why) => return Err(PolicyError::Explicit(policy.name.to_owned(), why)),
            }
            applied_policies.push(applied);
        }
        Ok(applied_policies)
    }

    /// What a policy changes; `None` if it is disabled.
    fn change(
        &self,
        view: &View,
        policy: &Policy<'_>,
        host: &mut dyn RenderHost,
    ) -> Result<Option<Change>, PolicyFailure> {
        let parameter = properties(policy.properties)
            .map_err(|error| PolicyFailure::Template(error.to_string()))?
            .map_or(Input::Struct(&[]), Input::Json);
        let (labels, annotations) = (shown(&view.labels), shown(&view.annotations));
        let custom = Json::Object(view.custom.clone());
        let mut fields = vec![
            ("appAnnotations", Input::Strings(&annotations)),
            ("appComponents", Input::Json(&view.components)),
            ("appLabels", Input::Strings(&labels)),
            ("appName", Input::Text(&view.name)),
            ("appPolicies", Input::Json(&view.policies)),
            ("appRevision", Input::Text(&view.revision)),
            ("appRevisionNum", Input::Int(revision_number(&view.revision))),
            ("appWorkflow", Input::Json(&view.workflow)),
            ("custom", Input::Json(&custom)),
            ("name", Input::Text(policy.name)),
            ("namespace", Input::Text(&view.namespace)),
            ("policyName", Input::Text(policy.name)),
            ("policyRevision", Input::Int(revision_number(policy.revision))),
            ("policyRevisionHash", Input::Text(policy.revision_hash)),
            ("policyRevisionName", Input::Text(policy.revision)),
            ("policyType", Input::Text(&policy.definition.name)),
        ];
        if view.custom.is_empty() {
            fields.retain(|(name, _)| *name != "custom");
        }
        let inputs = [("parameter", parameter), ("context", Input::Struct(&fields))];
        let mut evaluation = Engine { programs: &self.programs, limits: &self.limits, host }
            .evaluate(
                policy.definition,
                Flavour::Component,
                &inputs,
                Subject::Policy(policy.name),
                &mut Vec::new(),
            )
            .map_err(|failure| PolicyFailure::Template(failure.message))?;
        let root = evaluation.root();
        if !enabled(&mut evaluation, root)? {
            return Ok(None);
        }
        let Some(output) = evaluation.field(root, "output") else {
            return Ok(Some(Change::default()));
        };
        let output = evaluation.export(output)?;
        Change::of(&output).map(Some)
    }
}

/// `enabled` or `config.enabled`; a policy that says neither is enabled.
fn enabled(evaluation: &mut Evaluation, root: Node) -> Result<bool, PolicyFailure> {
    for path in ["enabled", "config.enabled"] {
        let Some(node) = evaluation.lookup(root, path) else { continue };
        match evaluation.export(node)? {
            Value::Bool(true) => {}
            Value::Bool(false) => return Ok(false),
            _ => return Err(PolicyFailure::Enabled),
        }
    }
    Ok(true)
}

fn shown(all: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let internal =
        |key: &str| annotation::INTERNAL_PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    all.iter()
        .filter(|(key, _)| !internal(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

impl Change {
    fn of(output: &Value) -> Result<Self, PolicyFailure> {
        let Value::Struct(fields) = output else {
            return Err(PolicyFailure::Kind("output".to_owned(), "object"));
        };
        let mut change = Self::default();
        for (key, value) in fields {
            let value = json::from_cue(value);
            let key = key.as_str();
            match (key, value) {
                ("components", list @ Json::Array(_)) => change.components = Some(list),
                ("policies", list @ Json::Array(_)) => change.policies = Some(list),
                ("workflow", workflow @ (Json::Object(_) | Json::Null)) => {
                    change.workflow = Some(workflow);
                }
                ("labels", labels) => {
                    change.labels = texts("output.labels", labels)?;
                    settable("output.labels", &change.labels)?;
                }
                ("annotations", annotations) => {
                    change.annotations = texts("output.annotations", annotations)?;
                    settable("output.annotations", &change.annotations)?;
                }
                ("ctx", Json::Object(custom)) => change.custom = custom,
                (key, _) if !PERMITTED.contains(&key) => {
                    return Err(PolicyFailure::Field(key.to_owned()));
                }
                (key, _) => {
                    let expected =
                        if matches!(key, "workflow" | "ctx") { "object" } else { "list" };
                    return Err(PolicyFailure::Kind(format!("output.{key}"), expected));
                }
            }
        }
        Ok(change)
    }

    fn apply(self, view: &mut View, applied_policies: &mut Applied) {
        let before = view.spec();
        let mut modified = false;
        for (part, new) in [
            (&mut view.components, self.components),
            (&mut view.workflow, self.workflow),
            (&mut view.policies, self.policies),
        ] {
            if let Some(new) = new.filter(|new| new != part) {
                modified = true;
                *part = new;
            }
        }
        applied_policies.modified = modified.then(|| Modified { before, after: view.spec() });
        view.labels.extend(self.labels.clone());
        view.annotations.extend(self.annotations.clone());
        view.custom.extend(self.custom.clone());
        (applied_policies.labels, applied_policies.annotations, applied_policies.custom) =
            (self.labels, self.annotations, self.custom);
    }
}

/// The control plane's own keys decide who acts for an Application and what is deployed: they are for people to set.
fn settable(path: &'static str, all: &BTreeMap<String, String>) -> Result<(), PolicyFailure> {
    match all.keys().find(|key| is_reserved(key)) {
        Some(key) => Err(PolicyFailure::Key(path, key.clone())),
        None => Ok(()),
    }
}

/// A map of texts.
fn texts(path: &str, value: Json) -> Result<BTreeMap<String, String>, PolicyFailure> {
    let Json::Object(fields) = value else {
        return Err(PolicyFailure::Kind(path.to_owned(), "object"));
    };
    let text = |(key, value): (String, Json)| match value {
        Json::String(text) => Ok((key, text)),
        _ => Err(PolicyFailure::Kind(format!("{path}.{key}"), "string")),
    };
    fields.into_iter().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::{Applied, Policy, View, order};
    use crate::{Definition, DefinitionKind, NoHost, Renderer};
    use serde_json::{Value, json};

    fn definition(name: &str, template: &str) -> Definition {
        let spec = json!({"scope": "Application", "schematic": {"cue": {"template": template}}});
        Definition::from_spec(DefinitionKind::Policy, name, &spec)
    }

    fn policy<'a>(name: &'a str, definition: &'a Definition) -> Policy<'a> {
        Policy {
            name,
            definition,
            properties: None,
            global: false,
            priority: 0,
            revision: "p-v3",
            revision_hash: "0123",
        }
    }

    fn view() -> View {
        View {
            name: "shop".into(),
            namespace: "prod".into(),
            revision: "shop-v2".into(),
            labels: [("team", "blue"), ("app.oam.dev/x", "hidden")]
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .into(),
            components: json!([{"name": "web", "type": "webservice", "properties": {"image": "a"}}]),
            policies: json!([]),
            ..View::default()
        }
    }

    #[test]
    fn keys_of_the_control_plane_are_for_people_to_set() {
        for key in [
            "app.oam.dev/username",
            "app.oam.dev/group",
            "app.oam.dev/stamp",
            "app.oam.dev/administrator",
            "app.oam.dev/service-account-name",
            "app.oam.dev/publishVersion",
            "app.oam.dev/autoUpdate",
            "oam.dev/kubevela-version",
            "controller.core.oam.dev/pause",
            "addons.oam.dev/name",
            "policy.oam.dev/skip-global",
        ] {
            for part in ["annotations", "labels"] {
                let template = format!("parameter: {{}}\noutput: {part}: \"{key}\": \"x\"");
                let error = run(&template, None).unwrap_err();
                let wanted = format!("output.{part} must not have the key {key}");
                assert!(error.contains(&wanted), "{error}");
            }
        }
        let copies = "parameter: key: string\noutput: annotations: \"\\(parameter.key)\": \"x\"";
        let key = json!({"key": "app.oam.dev/username"});
        assert!(run(copies, Some(&key)).is_err());
        for key in [
            "example.com/tier",
            "tier",
            "oam.dev.example.com/a",
            "myoam.dev/a",
            "core.oam.dev/project",
        ] {
            let template = format!("parameter: {{}}\noutput: labels: \"{key}\": \"x\"");
            assert!(run(&template, None).unwrap().labels.contains_key(key), "{key}");
        }
    }

    fn run(template: &str, properties: Option<&Value>) -> Result<View, String> {
        let definition = definition("t", template);
        let mut view = view();
        let policies = vec![Policy { properties, ..policy("p", &definition) }];
        let applied = Renderer::default().transform(&mut view, policies, &mut NoHost);
        applied.map(|_| view).map_err(|error| error.to_string())
    }

    #[test]
    fn components_labels_and_context_are_changed() {
        let template = r#"
            parameter: registry: string
            output: {
                components: [for c in context.appComponents {
                    name: c.name
                    type: c.type
                    properties: image: "\(parameter.registry)/\(c.properties.image)"
                }]
                labels: seen:  "\(len(context.appLabels))"
                annotations: by: "\(context.policyName) \(context.policyType) \(context.policyRevision)"
                ctx: tier: "gold"
            }
        "#;
        let view = run(template, Some(&json!({"registry": "r.example.com"}))).unwrap();
        assert_eq!(view.components[0]["properties"]["image"], "r.example.com/a");
        assert_eq!(view.labels["seen"], "1");
        assert_eq!(view.labels["app.oam.dev/x"], "hidden");
        assert_eq!(view.annotations["by"], "p t 3");
        assert_eq!(view.custom["tier"], "gold");
        assert_eq!(view.workflow, Value::Null);
    }

    #[test]
    fn a_policy_that_is_disabled_changes_nothing() {
        for switch in ["enabled: false", "config: enabled: len(context.appComponents) > 1"] {
            let text = format!("output: labels: a: \"b\"\n{switch}");
            assert_eq!(run(&text, None).unwrap(), view(), "{switch}");
        }
        assert!(
            run("config: enabled: \"no\"", None).unwrap_err().contains("neither true nor false")
        );
    }

    #[test]
    fn what_an_output_may_hold() {
        for (template, applied_policies) in [
            ("output: spec: {}", "output.spec is not allowed; permitted fields: components, "),
            ("output: components: {}", "output.components must be a list"),
            ("output: labels: a: 1", "output.labels.a must be a string"),
            ("output: ctx: 1", "output.ctx must be an object"),
            ("output: components: [context.none]", "undefined field"),
            ("output: components: [nowhere]", "reference \"nowhere\" not found"),
        ] {
            let error = run(template, None).unwrap_err();
            assert!(error.starts_with("failed to render explicit policy \"p\": "), "{error}");
            assert!(error.contains(applied_policies), "{template}: {error}");
        }
    }

    #[test]
    fn by_priority_then_globals_by_name_then_as_listed() {
        let definition = definition("t", "");
        let all = [
            ("e2", false, 0),
            ("e1", false, 0),
            ("g2", true, 0),
            ("g1", true, 0),
            ("first", false, -1),
        ];
        let mut policies: Vec<Policy<'_>> = all
            .into_iter()
            .map(|(name, global, priority)| Policy {
                global,
                priority,
                ..policy(name, &definition)
            })
            .collect();
        order(&mut policies);
        let names: Vec<&str> = policies.iter().map(|policy| policy.name).collect();
        assert_eq!(names, ["first", "g1", "g2", "e2", "e1"]);
    }

    #[test]
    fn each_sees_what_those_before_have_made_and_a_global_failure_is_soft() {
        let base = definition("base", "output: {labels: n: \"1\", ctx: {a: 1, b: 1}}");
        let broken = definition("broken", "output: nowhere");
        let last = definition(
            "last",
            "output: {labels: n: \"\\(context.appLabels.n)2\", ctx: b: context.custom.b + 1}",
        );
        let global = |definition| Policy { global: true, ..policy("", definition) };
        let policies = || {
            vec![
                Policy { name: "z", ..policy("z", &last) },
                Policy { name: "base", ..global(&base) },
                Policy { name: "broken", ..global(&broken) },
            ]
        };
        let mut view = view();
        let applied_policies =
            Renderer::default().transform(&mut view, policies(), &mut NoHost).unwrap();
        assert_eq!(view.labels["n"], "12");
        assert_eq!(json!(view.custom), json!({"a": 1, "b": 2}));
        assert_eq!(applied_policies[0].labels.len() + applied_policies[0].custom.len(), 3);
        assert!(applied_policies[0].modified.is_none());
        let names: Vec<_> =
            applied_policies.iter().map(|one| (one.name.as_str(), one.applied)).collect();
        assert_eq!(names, [("base", true), ("broken", false), ("z", true)]);
        let error = applied_policies[1].error.as_deref().unwrap();
        assert!(error.contains("nowhere"), "{error}");

        // Without globals the last one lacks what they would have set, and it is an explicit one.
        let mut view = View {
            annotations: [("policy.oam.dev/skip-global".to_owned(), "true".to_owned())].into(),
            ..super::tests::view()
        };
        let error = Renderer::default().transform(&mut view, policies(), &mut NoHost).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("failed to render explicit policy \"z\""), "{error}");
    }

    #[test]
    fn a_global_policy_cannot_be_listed() {
        let base = definition("base", "output: {}");
        let listed = policy("mine", &base);
        let global = Policy { global: true, ..policy("base", &base) };
        let error = Renderer::default()
            .transform(&mut view(), vec![listed, global.clone()], &mut NoHost)
            .unwrap_err()
            .to_string();
        assert!(error.contains("mine") && error.contains("global"), "{error}");
        let applied_policies =
            Renderer::default().transform(&mut view(), vec![global], &mut NoHost).unwrap();
        let applied =
            Applied { name: "base".into(), global: true, applied: true, ..Applied::default() };
        assert_eq!(applied_policies, [applied]);
    }
}
