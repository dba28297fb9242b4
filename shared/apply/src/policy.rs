//! The resource policies of an Application: apply-once, garbage-collect, read-only, take-over, shared-resource and
//! resource-update, and which of their rules matches an object.
//!
//! Answers for `apis/core.oam.dev/v1alpha1/*_policy_types.go`, `resource_policy_types.go` and `pkg/policy/common.go`.
//! Parsing is lenient about unknown keys and collects every wrong type instead of stopping: admission refuses them, while
//! the deletion of an Application must go on with what could be read.

use serde_json::{Map, Value};
pub use vela_api::Drift;
use vela_api::builtin::{
    APPLY_ONCE, GARBAGE_COLLECT, READ_ONLY, RESOURCE_UPDATE, SHARED_RESOURCE, TAKE_OVER,
};
use vela_api::names;

use crate::object::{kind, label, name};

/// A wrong value in the properties of a resource policy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{policy}: {path}: expected {expected}, got {got}")]
pub struct PolicyError {
    /// The policy type.
    pub policy: String,
    /// Path inside the properties, like `rules[0].selector.componentNames`.
    pub path: String,
    /// What is allowed there.
    pub expected: &'static str,
    /// What was found.
    pub got: String,
}

/// Which objects a rule is about. Every non-empty list must contain the object's value; all empty matches nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Selector {
    /// The rule names no selector where that means every object.
    pub everything: bool,
    /// Label `app.oam.dev/component`.
    pub component_names: Vec<String>,
    /// Label `workload.oam.dev/type`.
    pub component_types: Vec<String>,
    /// Label `app.oam.dev/resourceType` (`WORKLOAD` or `TRAIT`).
    pub oam_types: Vec<String>,
    /// Label `trait.oam.dev/type`.
    pub trait_types: Vec<String>,
    /// Kind.
    pub resource_types: Vec<String>,
    /// Name.
    pub resource_names: Vec<String>,
}

impl Selector {
    /// Whether the object is meant.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        if self.everything {
            return true;
        }
        let lists = [
            (&self.component_names, label(object, names::label::APP_COMPONENT)),
            (&self.component_types, label(object, names::label::WORKLOAD_TYPE)),
            (&self.oam_types, label(object, names::label::RESOURCE_TYPE)),
            (&self.trait_types, label(object, names::label::TRAIT_TYPE)),
            (&self.resource_types, Some(kind(object))),
            (&self.resource_names, Some(name(object))),
        ];
        let mut any = false;
        for (list, value) in lists {
            if list.is_empty() {
                continue;
            }
            any = true;
            if !list.iter().any(|wanted| wanted == value.unwrap_or_default()) {
                return false;
            }
        }
        any
    }
}

/// When an apply-once rule takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Affect {
    /// Only when the workflow dispatches.
    OnUpdate,
    /// Only when drift is repaired.
    OnStateKeep,
    /// Both (`""` and `always`).
    Always,
    /// An unknown word: the rule never takes effect, as in the reference.
    Never,
}

/// The moments apply-once distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The workflow dispatches objects.
    Update,
    /// Drift is repaired.
    StateKeep,
    /// A step of the workflow waits for what it dispatched, and drift is repaired in the meantime. This belongs to both of the other
    /// moments: what either of them leaves to others is left to them.
    Wait,
}

impl Stage {
    /// Whether objects are put back to what was dispatched; nothing new is.
    #[must_use]
    pub fn repairs(self) -> bool {
        matches!(self, Self::StateKeep | Self::Wait)
    }
}

/// One rule of an apply-once policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ApplyOnceRule {
    /// Objects meant.
    pub selector: Selector,
    /// Field paths whose live value wins; `*` means the whole object.
    pub paths: Vec<String>,
    /// When.
    pub affect: Affect,
    /// What happens to drift in all other fields, if the rule says so.
    pub drift: Option<Drift>,
}

/// `apply-once`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ApplyOnce {
    /// Off means no effect at all, rules or not.
    pub enable: bool,
    /// Without rules: only metadata is recorded and drift is never repaired.
    pub rules: Vec<ApplyOnceRule>,
}

/// When an object of a component that left the spec is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GcStrategy {
    /// Together with the version that made it (the default).
    OnAppUpdate,
    /// With the Application.
    OnAppDelete,
    /// Not at all: it stays in the cluster when the Application is gone.
    Never,
}

/// How a deletion treats dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Propagation {
    /// The object is kept and only loses its owner labels.
    Orphan,
    /// Background deletion.
    Cascading,
}

/// One rule of a garbage-collect policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GcRule {
    /// Objects meant.
    pub selector: Selector,
    /// When to delete; `None` if the rule is only about propagation (or the word is unknown).
    pub strategy: Option<GcStrategy>,
    /// How to delete.
    pub propagation: Option<Propagation>,
}

/// `garbage-collect`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct GarbageCollect {
    /// Number of ApplicationRevisions kept in addition to the current one.
    pub application_revision_limit: Option<i64>,
    /// Old trackers stay until somebody deletes them.
    pub keep_legacy_resource: bool,
    /// Collect old objects even while the workflow is failed.
    pub continue_on_failure: bool,
    /// Delete dependents before what they depend on.
    pub order_dependency: bool,
    /// Rules; the first match wins.
    pub rules: Vec<GcRule>,
}

/// One rule of a resource-update policy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UpdateRule {
    /// Objects meant.
    pub selector: Selector,
    /// PUT or patch; `None` if the rule does not say.
    pub replace: Option<bool>,
    /// A change in one of these paths deletes and creates the object.
    pub recreate_fields: Vec<String>,
}

/// All resource policies of one Application, merged per type.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ResourcePolicies {
    /// `apply-once`, if given.
    pub apply_once: Option<ApplyOnce>,
    /// `garbage-collect`.
    pub garbage_collect: GarbageCollect,
    /// `shared-resource` selectors.
    pub shared: Vec<Selector>,
    /// `take-over` selectors.
    pub take_over: Vec<Selector>,
    /// `read-only` selectors.
    pub read_only: Vec<Selector>,
    /// `resource-update` rules.
    pub update: Vec<UpdateRule>,
    /// What happens to drift where no rule says so.
    pub drift: Drift,
}

impl ResourcePolicies {
    /// Reads the policies of a spec, given as (type, properties). Several policies of one type are merged first.
    #[must_use]
    pub fn parse<'a>(
        policies: impl Iterator<Item = (&'a str, Option<&'a Value>)>,
    ) -> (Self, Vec<PolicyError>) {
        let mut merged: Vec<(&str, Value)> = Vec::new();
        for (ty, properties) in policies {
            let Some(properties) = properties else { continue };
            match merged.iter_mut().find(|(other, _)| *other == ty) {
                Some((_, value)) => merge(value, properties),
                None => merged.push((ty, properties.clone())),
            }
        }
        let mut out = Self::default();
        let mut errors = Vec::new();
        for (ty, value) in &merged {
            let mut reader = Reader { policy: ty, errors: &mut errors };
            match *ty {
                APPLY_ONCE => out.apply_once = Some(reader.apply_once(value)),
                GARBAGE_COLLECT => out.garbage_collect = reader.garbage_collect(value),
                SHARED_RESOURCE => out.shared = reader.selectors(value),
                TAKE_OVER => out.take_over = reader.selectors(value),
                READ_ONLY => out.read_only = reader.selectors(value),
                RESOURCE_UPDATE => out.update = reader.update(value),
                _ => {}
            }
        }
        (out, errors)
    }

    /// Whether only metadata is recorded and drift is left alone.
    #[must_use]
    pub fn is_metadata_only(&self) -> bool {
        self.apply_once.as_ref().is_some_and(|policy| policy.enable && policy.rules.is_empty())
    }

    /// The paths whose live value wins for this object at this moment.
    #[must_use]
    pub fn apply_once_paths(&self, object: &Value, stage: Stage) -> Option<&[String]> {
        let policy = self.apply_once.as_ref().filter(|policy| policy.enable)?;
        let rule = policy.rules.iter().find(|rule| rule.selector.matches(object))?;
        let applies = match rule.affect {
            Affect::Always => true,
            Affect::OnUpdate => stage != Stage::StateKeep,
            Affect::OnStateKeep => stage.repairs(),
            Affect::Never => false,
        };
        applies.then_some(rule.paths.as_slice())
    }

    /// What happens to an object that somebody else changed: the first rule that says so decides.
    #[must_use]
    pub fn drift(&self, object: &Value) -> Drift {
        let policy = self.apply_once.as_ref().filter(|policy| policy.enable);
        let mut rules = policy.map(|policy| policy.rules.as_slice()).unwrap_or_default().iter();
        let of_rule = rules.find_map(|rule| rule.drift.filter(|_| rule.selector.matches(object)));
        of_rule.unwrap_or(self.drift)
    }

    /// The deletion strategy of an object.
    #[must_use]
    pub fn gc_strategy(&self, object: &Value) -> GcStrategy {
        self.garbage_collect
            .rules
            .iter()
            .filter(|rule| rule.strategy.is_some())
            .find(|rule| rule.selector.matches(object))
            .and_then(|rule| rule.strategy)
            .unwrap_or_else(|| {
                let is_kept = crate::release::is_kept(object);
                if is_kept { GcStrategy::Never } else { GcStrategy::OnAppUpdate }
            })
    }

    /// The propagation of an object's deletion.
    #[must_use]
    pub fn gc_propagation(&self, object: &Value) -> Option<Propagation> {
        self.garbage_collect
            .rules
            .iter()
            .filter(|rule| rule.propagation.is_some())
            .find(|rule| rule.selector.matches(object))
            .and_then(|rule| rule.propagation)
    }

    /// Whether several Applications may claim the object.
    #[must_use]
    pub fn is_shared(&self, object: &Value) -> bool {
        self.shared.iter().any(|selector| selector.matches(object))
    }

    /// Whether an object of nobody may be adopted.
    #[must_use]
    pub fn takes_over(&self, object: &Value) -> bool {
        self.take_over.iter().any(|selector| selector.matches(object))
    }

    /// Whether the object is read-only.
    #[must_use]
    pub fn is_read_only(&self, object: &Value) -> bool {
        self.read_only.iter().any(|selector| selector.matches(object))
    }

    /// The update rule of an object.
    #[must_use]
    pub fn update_rule(&self, object: &Value) -> Option<&UpdateRule> {
        self.update.iter().find(|rule| rule.selector.matches(object))
    }
}

/// Merges two property values: lists are joined, objects merged, booleans or-ed, else the first one wins.
fn merge(into: &mut Value, other: &Value) {
    match (into, other) {
        (Value::Object(into), Value::Object(other)) => {
            for (key, value) in other {
                match into.get_mut(key) {
                    Some(slot) => merge(slot, value),
                    None => {
                        into.insert(key.clone(), value.clone());
                    }
                }
            }
        }
        (Value::Array(into), Value::Array(other)) => into.extend(other.iter().cloned()),
        (Value::Bool(into), Value::Bool(other)) => *into |= other,
        _ => {}
    }
}

/// Reads properties field by field and notes what has the wrong type.
struct Reader<'a> {
    policy: &'a str,
    errors: &'a mut Vec<PolicyError>,
}

impl Reader<'_> {
    fn wrong(&mut self, path: &str, expected: &'static str, value: &Value) {
        let got = match value {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        self.errors.push(PolicyError {
            policy: self.policy.to_owned(),
            path: path.to_owned(),
            expected,
            got: got.to_owned(),
        });
    }

    fn map<'v>(&mut self, value: &'v Value, path: &str) -> Option<&'v Map<String, Value>> {
        if value.is_null() {
            return None;
        }
        let map = value.as_object();
        if map.is_none() {
            self.wrong(if path.is_empty() { "properties" } else { path }, "object", value);
        }
        map
    }

    fn bool(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> bool {
        match map.get(key) {
            None | Some(Value::Null) => false,
            Some(Value::Bool(value)) => *value,
            Some(other) => {
                self.wrong(&join(path, key), "bool", other);
                false
            }
        }
    }

    fn string<'v>(&mut self, map: &'v Map<String, Value>, key: &str, path: &str) -> &'v str {
        match map.get(key) {
            None | Some(Value::Null) => "",
            Some(Value::String(value)) => value,
            Some(other) => {
                self.wrong(&join(path, key), "string", other);
                ""
            }
        }
    }

    fn strings(&mut self, map: &Map<String, Value>, key: &str, path: &str) -> Vec<String> {
        let path = join(path, key);
        self.items(map, key, &path)
            .iter()
            .enumerate()
            .filter_map(|(index, item)| {
                if item.is_string() {
                    item.as_str().map(str::to_owned)
                } else {
                    self.wrong(&format!("{path}[{index}]"), "string", item);
                    None
                }
            })
            .collect()
    }

    fn items<'v>(&mut self, map: &'v Map<String, Value>, key: &str, path: &str) -> &'v [Value] {
        match map.get(key) {
            None | Some(Value::Null) => &[],
            Some(Value::Array(items)) => items,
            Some(other) => {
                self.wrong(path, "list", other);
                &[]
            }
        }
    }

    /// The rules of a policy: each element's map, its path and its selector.
    fn rules<'v>(&mut self, value: &'v Value) -> Vec<(&'v Map<String, Value>, String, Selector)> {
        let Some(map) = self.map(value, "") else { return Vec::new() };
        let mut out = Vec::new();
        for (index, rule) in self.items(map, "rules", "rules").iter().enumerate() {
            let path = format!("rules[{index}]");
            let Some(rule) = self.map(rule, &path) else { continue };
            let selector = rule.get("selector").map(|s| self.selector(s, &join(&path, "selector")));
            out.push((rule, path, selector.unwrap_or_default()));
        }
        out
    }

    fn selector(&mut self, value: &Value, path: &str) -> Selector {
        let Some(map) = self.map(value, path) else { return Selector::default() };
        Selector {
            everything: false,
            component_names: self.strings(map, "componentNames", path),
            component_types: self.strings(map, "componentTypes", path),
            oam_types: self.strings(map, "oamTypes", path),
            trait_types: self.strings(map, "traitTypes", path),
            resource_types: self.strings(map, "resourceTypes", path),
            resource_names: self.strings(map, "resourceNames", path),
        }
    }

    fn selectors(&mut self, value: &Value) -> Vec<Selector> {
        self.rules(value).into_iter().map(|(_, _, selector)| selector).collect()
    }

    fn apply_once(&mut self, value: &Value) -> ApplyOnce {
        let Some(map) = self.map(value, "") else { return ApplyOnce::default() };
        let enable = self.bool(map, "enable", "");
        let mut rules = Vec::new();
        for (rule, path, mut selector) in self.rules(value) {
            // Who applies once and names no objects means all of them: doing nothing instead would undo
            // what the policy was written to allow.
            selector.everything = !rule.contains_key("selector");
            let strategy_path = join(&path, "strategy");
            // A rule without strategy matches but has nothing to keep.
            let (mut paths, mut affect) = (Vec::new(), Affect::Never);
            let strategy = rule.get("strategy").and_then(|s| self.map(s, &strategy_path));
            if let Some(strategy) = strategy {
                paths = self.strings(strategy, "path", &strategy_path);
                affect = match self.string(strategy, "affect", &strategy_path) {
                    "" | "always" => Affect::Always,
                    "onUpdate" => Affect::OnUpdate,
                    "onStateKeep" => Affect::OnStateKeep,
                    _ => Affect::Never,
                };
            }
            let drift = match self.string(rule, "drift", &path) {
                "" => None,
                word => {
                    let drift = Drift::parse(word);
                    if drift.is_none() {
                        let word = Value::from(word);
                        self.wrong(&join(&path, "drift"), "heal, warn or off", &word);
                    }
                    drift
                }
            };
            rules.push(ApplyOnceRule { selector, paths, affect, drift });
        }
        ApplyOnce { enable, rules }
    }

    fn garbage_collect(&mut self, value: &Value) -> GarbageCollect {
        let Some(map) = self.map(value, "") else { return GarbageCollect::default() };
        let limit = match map.get("applicationRevisionLimit") {
            None | Some(Value::Null) => None,
            Some(limit) if limit.as_i64().is_some() => limit.as_i64(),
            Some(other) => {
                self.wrong("applicationRevisionLimit", "integer", other);
                None
            }
        };
        let rules = self
            .rules(value)
            .into_iter()
            .map(|(rule, path, selector)| GcRule {
                selector,
                strategy: match self.string(rule, "strategy", &path) {
                    "onAppUpdate" => Some(GcStrategy::OnAppUpdate),
                    "onAppDelete" => Some(GcStrategy::OnAppDelete),
                    "never" => Some(GcStrategy::Never),
                    _ => None,
                },
                propagation: match self.string(rule, "propagation", &path) {
                    "orphan" => Some(Propagation::Orphan),
                    "cascading" => Some(Propagation::Cascading),
                    _ => None,
                },
            })
            .collect();
        GarbageCollect {
            application_revision_limit: limit,
            keep_legacy_resource: self.bool(map, "keepLegacyResource", ""),
            continue_on_failure: self.bool(map, "continueOnFailure", ""),
            order_dependency: self.string(map, "order", "") == "dependency",
            rules,
        }
    }

    fn update(&mut self, value: &Value) -> Vec<UpdateRule> {
        let mut out = Vec::new();
        for (rule, path, selector) in self.rules(value) {
            let path = join(&path, "strategy");
            let (mut replace, mut recreate_fields) = (None, Vec::new());
            if let Some(strategy) = rule.get("strategy").and_then(|s| self.map(s, &path)) {
                let op = self.string(strategy, "op", &path);
                replace = (!op.is_empty()).then_some(op == "replace");
                recreate_fields = self.strings(strategy, "recreateFields", &path);
            }
            out.push(UpdateRule { selector, replace, recreate_fields });
        }
        out
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parse(policies: &[(&str, Value)]) -> (ResourcePolicies, Vec<PolicyError>) {
        ResourcePolicies::parse(policies.iter().map(|(ty, value)| (*ty, Some(value))))
    }

    fn object(component: &str, kind: &str) -> Value {
        json!({"kind": kind, "metadata": {"name": "n", "labels": {"app.oam.dev/component": component}}})
    }

    #[test]
    fn selectors_are_a_conjunction_and_empty_matches_nothing() {
        let selector = Selector {
            component_names: vec!["a".into()],
            resource_types: vec!["Deployment".into()],
            ..Selector::default()
        };
        assert!(selector.matches(&object("a", "Deployment")));
        assert!(!selector.matches(&object("a", "Service")));
        assert!(!selector.matches(&object("b", "Deployment")));
        assert!(!Selector::default().matches(&object("a", "Deployment")));
    }

    #[test]
    fn first_matching_rule_wins_and_policies_of_a_type_merge() {
        let rule = |component: &str, strategy: &str| json!({"rules": [{"selector": {"componentNames": [component]}, "strategy": strategy}]});
        let mut second = rule("a", "onAppDelete");
        second["keepLegacyResource"] = json!(true);
        let (policies, errors) =
            parse(&[("garbage-collect", rule("a", "never")), ("garbage-collect", second)]);
        assert_eq!(errors, []);
        assert!(policies.garbage_collect.keep_legacy_resource);
        assert_eq!(policies.gc_strategy(&object("a", "X")), GcStrategy::Never);
        assert_eq!(policies.gc_strategy(&object("b", "X")), GcStrategy::OnAppUpdate);
    }

    #[test]
    fn wrong_types_are_reported_and_the_rest_is_kept() {
        let (policies, errors) = parse(&[(
            "garbage-collect",
            json!({"keepLegacyResource": "x", "applicationRevisionLimit": 3, "other": 1,
                "rules": [{"selector": {"componentNames": "a"}, "strategy": "never"},
                          {"selector": {"componentNames": ["b"]}, "propagation": "orphan"}]}),
        )]);
        let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "garbage-collect: rules[0].selector.componentNames: expected list, got string",
                "garbage-collect: keepLegacyResource: expected bool, got string",
            ]
        );
        assert_eq!(policies.garbage_collect.application_revision_limit, Some(3));
        assert_eq!(policies.gc_propagation(&object("b", "X")), Some(Propagation::Orphan));
    }

    #[test]
    fn the_first_rule_that_says_so_decides_about_drift() {
        let rules = json!({"enable": true, "rules": [
            {"selector": {"componentNames": ["a"]}, "strategy": {"path": ["spec.replicas"]}},
            {"selector": {"componentNames": ["a"]}, "drift": "warn"},
            {"drift": "off"}]});
        let (mut policies, errors) = parse(&[("apply-once", rules)]);
        assert!(errors.is_empty());
        let (a, b) = (object("a", "X"), object("b", "X"));
        assert_eq!((policies.drift(&a), policies.drift(&b)), (Drift::Warn, Drift::Off));
        assert!(policies.apply_once_paths(&a, Stage::StateKeep).is_some());
        policies.apply_once = None;
        assert_eq!(policies.drift(&a), Drift::Heal);
        policies.drift = Drift::Warn;
        assert_eq!(policies.drift(&a), Drift::Warn);
        let (_, errors) =
            parse(&[("apply-once", json!({"enable": true, "rules": [{"drift": "hael"}]}))]);
        assert!(errors[0].to_string().contains("rules[0].drift"), "{errors:?}");
        for word in Drift::WORDS {
            assert!(Drift::parse(word).is_some());
        }
    }

    #[test]
    fn apply_once_moments() {
        let policy = |affect: &str| {
            json!({"enable": true, "rules": [{"selector": {"componentNames": ["a"]},
                "strategy": {"path": ["spec.replicas"], "affect": affect}}]})
        };
        let a = object("a", "X");
        for (affect, update, keep) in [
            ("", true, true),
            ("always", true, true),
            ("onUpdate", true, false),
            ("onStateKeep", false, true),
            ("bogus", false, false),
        ] {
            let wait = update || keep;
            let (policies, _) = parse(&[("apply-once", policy(affect))]);
            assert_eq!(policies.apply_once_paths(&a, Stage::Update).is_some(), update, "{affect}");
            assert_eq!(policies.apply_once_paths(&a, Stage::StateKeep).is_some(), keep, "{affect}");
            assert_eq!(policies.apply_once_paths(&a, Stage::Wait).is_some(), wait, "{affect}");
            assert!(!policies.is_metadata_only());
        }
        let star = json!({"enable": true, "rules": [{"strategy": {"path": ["*"], "affect": "onStateKeep"}}]});
        let (policies, _) = parse(&[("apply-once", star)]);
        assert!(policies.apply_once_paths(&a, Stage::StateKeep).is_some());
        let (policies, _) = parse(&[("apply-once", json!({"enable": true}))]);
        assert!(policies.is_metadata_only());
        let (policies, _) = parse(&[("apply-once", json!({"enable": false}))]);
        assert!(!policies.is_metadata_only());
    }
}
