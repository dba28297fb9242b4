//! Parses an Application with its definitions into components that can be rendered.
//!
//! Answers for `pkg/appfile/parser.go`. Pure: definitions come through caches that were read before.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use vela_api::application::{AppPolicy, Application, ApplicationComponent};
use vela_api::names::APPLICATION_SCOPE;
use vela_api::workflow::WorkflowStep;
use vela_api::{
    ApplicationRevision, ComponentDefinition, Policy, PolicyDefinition, TraitDefinition,
    WorkflowStepDefinition, WorkloadDefinition,
};
use vela_render::Definition;

use crate::definitions::{Definitions, Lookup};
use crate::messages;

use crate::application::facts;

/// Whether the engine runs a step itself. `break` is a function of templates; a definition of that name has no meaning.
fn is_built_in_step(kind: &str) -> bool {
    kind == "break" || vela_api::builtin::STEPS.contains(&kind)
}

/// The objects of each component.
pub type Referred = BTreeMap<String, Vec<Value>>;

/// Every definition an Application uses, by the type name it is used under. Two versions of one definition are two
/// entries.
#[derive(Debug, Clone, Default)]
pub struct Used {
    /// ComponentDefinitions.
    pub components: BTreeMap<String, Arc<ComponentDefinition>>,
    /// WorkloadDefinitions that stand in for missing ComponentDefinitions.
    pub workloads: BTreeMap<String, Arc<WorkloadDefinition>>,
    /// TraitDefinitions.
    pub traits: BTreeMap<String, Arc<TraitDefinition>>,
    /// PolicyDefinitions.
    pub policies: BTreeMap<String, Arc<PolicyDefinition>>,
    /// WorkflowStepDefinitions.
    pub steps: BTreeMap<String, Arc<WorkflowStepDefinition>>,
    /// What `ref-objects` components refer to.
    pub referred: Referred,
}

/// A component with its definitions, ready to render.
#[derive(Debug, Clone)]
pub struct ParsedComponent {
    /// As written.
    pub component: ApplicationComponent,
    /// The definition of its type.
    pub definition: Arc<Definition>,
    /// The workload's kind as the definition declares it.
    pub workload: (String, String),
    /// The definitions of its traits, in order.
    pub traits: Vec<Arc<Definition>>,
    /// What its template is answered that asked for a chart.
    pub chart: Option<Arc<Value>>,
}

impl ParsedComponent {
    /// Whether a trait stands for the workload, which then is not applied.
    #[must_use]
    pub fn is_managed_by_trait(&self) -> bool {
        self.traits.iter().any(|definition| definition.manage_workload)
    }
}

/// What cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

impl From<String> for ParseError {
    fn from(sentence: String) -> Self {
        Self(sentence)
    }
}

impl From<&str> for ParseError {
    fn from(sentence: &str) -> Self {
        Self(sentence.to_owned())
    }
}

impl From<ParseError> for String {
    fn from(error: ParseError) -> Self {
        error.0
    }
}

/// Where definitions are taken from.
#[derive(Debug, Clone, Copy)]
pub struct Source<'a> {
    /// The caches.
    pub definitions: &'a Definitions,
    /// The Application's namespace.
    pub namespace: &'a str,
    /// `app.oam.dev/autoUpdate: "true"`.
    pub auto_update: bool,
    /// The latest revision, for definitions that are gone from the cluster.
    pub fallback: Option<&'a ApplicationRevision>,
}

impl<'a> Source<'a> {
    /// What is in the caches now for an Application.
    #[must_use]
    pub fn of(definitions: &'a Definitions, app: &'a Application) -> Self {
        let namespace = app.metadata.namespace.as_deref().unwrap_or_default();
        let auto_update = facts::follows_definitions(app);
        Self { definitions, namespace, auto_update, fallback: None }
    }

    fn component(&self, type_name: &str) -> Option<Arc<ComponentDefinition>> {
        self.find(type_name).or_else(|| self.stored(type_name, |r| &r.spec.component_definitions))
    }

    fn workload(&self, type_name: &str) -> Option<Arc<WorkloadDefinition>> {
        self.find(type_name).or_else(|| self.stored(type_name, |r| &r.spec.workload_definitions))
    }

    fn trait_(&self, type_name: &str) -> Option<Arc<TraitDefinition>> {
        self.find(type_name).or_else(|| self.stored(type_name, |r| &r.spec.trait_definitions))
    }

    fn step(&self, type_name: &str) -> Option<Arc<WorkflowStepDefinition>> {
        self.find(type_name)
            .or_else(|| self.stored(type_name, |r| &r.spec.workflow_step_definitions))
    }

    /// The definition of a policy.
    #[must_use]
    pub fn policy(&self, type_name: &str) -> Option<Arc<PolicyDefinition>> {
        self.find(type_name).or_else(|| self.stored(type_name, |r| &r.spec.policy_definitions))
    }

    fn find<T: Lookup>(&self, type_name: &str) -> Option<Arc<T>> {
        // Following definitions means their newest revision, whatever version the type names.
        if self.auto_update {
            self.definitions.find_newest(self.namespace, type_name)
        } else {
            self.definitions.find(self.namespace, type_name)
        }
    }

    fn stored<T>(
        &self,
        type_name: &str,
        of: impl Fn(&ApplicationRevision) -> &BTreeMap<String, Arc<T>>,
    ) -> Option<Arc<T>> {
        stored(of(self.fallback?), type_name).cloned()
    }
}

/// A definition of a revision by the type name it is used under: by the whole name, as we store further versions, or by
/// the plain one.
#[must_use]
pub fn stored<'r, T>(map: &'r BTreeMap<String, T>, type_name: &str) -> Option<&'r T> {
    map.get(type_name).or_else(|| map.get(type_name.split('@').next().unwrap_or(type_name)))
}

/// Collects every definition the Application uses; `external` are the Policy objects that its steps name.
///
/// # Errors
/// A definition does not exist; two components have one name.
pub fn collect(
    app: &Application,
    steps: &[WorkflowStep],
    external: &BTreeMap<String, Policy>,
    source: Source<'_>,
) -> Result<Used, ParseError> {
    let mut used = Used::default();
    // Errors name the component, since many may use one definition.
    let missing =
        |text: String, component: &str| ParseError(messages::in_component(component, &text));
    let mut names = HashSet::new();
    for component in &app.spec.components {
        let name = component.name.as_str();
        // The second would take over the objects of the first.
        if !names.insert(name) {
            return Err(ParseError(messages::duplicated_component(name)));
        }
        let ty = component.type_.as_str();
        // The order in which upstream resolves a type: a ComponentDefinition counts before a
        // WorkloadDefinition.
        if let Some(found) = source.component(ty) {
            used.components.insert(ty.to_owned(), found);
        } else if let Some(found) = source.workload(ty) {
            used.workloads.insert(ty.to_owned(), found);
        } else {
            let text = source.definitions.missing::<ComponentDefinition>(source.namespace, ty);
            return Err(missing(text, name));
        }
        for ty in component.traits.iter().map(|t| t.type_.as_str()) {
            let found = source.trait_(ty).ok_or_else(|| {
                missing(source.definitions.missing::<TraitDefinition>(source.namespace, ty), name)
            })?;
            used.traits.insert(ty.to_owned(), found);
        }
    }
    collect_overrides(app, external, source, &mut used);
    for policy in rendered_policies(&app.spec.policies) {
        let ty = policy.type_.as_str();
        let found = source.policy(ty).ok_or_else(|| {
            ParseError(source.definitions.missing::<PolicyDefinition>(source.namespace, ty))
        })?;
        // Those that change the Application did so before; they make no objects.
        if found.spec.scope != APPLICATION_SCOPE {
            used.policies.insert(ty.to_owned(), found);
        }
    }
    for step in steps.iter().flat_map(|step| std::iter::once(step).chain(&step.sub_steps)) {
        let ty = step.type_.as_str();
        // A step of an unknown kind fails when it runs, with the name of the kind.
        if let Some(found) = source.step(ty).filter(|_| !is_built_in_step(ty)) {
            used.steps.insert(ty.to_owned(), found);
        }
    }
    Ok(used)
}

/// Override policies may bring component and trait types that no component of the spec has.
fn collect_overrides(
    app: &Application,
    external: &BTreeMap<String, Policy>,
    source: Source<'_>,
    used: &mut Used,
) {
    // An override may be a policy of the Application or a Policy object that a step names.
    let own = app.spec.policies.iter().map(|policy| (&policy.type_, &policy.properties));
    let from_policies = external.values().map(|policy| (&policy.type_, &policy.properties));
    let overrides = own.chain(from_policies).filter(|(type_, _)| *type_ == "override");
    for value in overrides.filter_map(|(_, written)| facts::properties(written.as_ref())) {
        let text = |value: &Value| value.get("type").and_then(Value::as_str).map(str::to_owned);
        let components = value.get("components").and_then(Value::as_array);
        for component in components.into_iter().flatten() {
            // What a component uses already has been resolved.
            if let Some(ty) = text(component).filter(|ty| !used.components.contains_key(ty))
                && let Some(found) = source.component(&ty)
            {
                used.components.insert(ty, found);
            }
            let traits = component.get("traits").and_then(Value::as_array);
            for ty in traits.into_iter().flatten().filter_map(text) {
                if let Some(found) = source.trait_(&ty) {
                    used.traits.insert(ty, found);
                }
            }
        }
    }
}

/// The policies that have a PolicyDefinition.
pub fn rendered_policies(policies: &[AppPolicy]) -> impl Iterator<Item = &AppPolicy> {
    policies.iter().filter(|policy| !facts::is_built_in_policy(&policy.type_))
}

/// One component with its definitions, in the form rendering wants. What is not among `used` is taken from `source`: a step can bring
/// a type that no spec or policy names, as an override in its template.
///
/// # Errors
/// There is no such definition.
pub fn parse_component(
    component: &ApplicationComponent,
    used: &Used,
    source: Source<'_>,
) -> Result<ParsedComponent, ParseError> {
    let definitions = source.definitions;
    let missing = |text: String| ParseError(messages::in_component(&component.name, &text));
    let ty = component.type_.as_str();
    let of_component = |found: &Arc<ComponentDefinition>| {
        let gvk = &found.spec.workload.definition;
        (definitions.to_render(found), (gvk.api_version.clone(), gvk.kind.clone()))
    };
    let of_workload = |found: &Arc<WorkloadDefinition>| {
        (definitions.to_render(found), (String::new(), String::new()))
    };
    let kept = stored(&used.components, ty).map(of_component);
    let (definition, workload) = kept
        .or_else(|| stored(&used.workloads, ty).map(of_workload))
        .or_else(|| source.component(ty).as_ref().map(of_component))
        .or_else(|| source.workload(ty).as_ref().map(of_workload))
        .ok_or_else(|| missing(definitions.missing::<ComponentDefinition>(source.namespace, ty)))?;
    let traits = component
        .traits
        .iter()
        .map(|t| {
            let ty = t.type_.as_str();
            let found = stored(&used.traits, ty).cloned().or_else(|| source.trait_(ty));
            let found = found.ok_or_else(|| {
                missing(definitions.missing::<TraitDefinition>(source.namespace, ty))
            })?;
            // A misspelled stage would let the trait be applied at a moment that nobody chose.
            if vela_render::Stage::named(&found.spec.stage).is_none() {
                return Err(ParseError(messages::unknown_stage(ty, &found.spec.stage)));
            }
            Ok(definitions.to_render(&found))
        })
        .collect::<Result<_, _>>()?;
    let mut component = component.clone();
    // Read once for each revision: the template sees objects, not selectors.
    if let Some(objects) = used.referred.get(&component.name) {
        component.properties = Some(of_objects(objects));
    }
    Ok(ParsedComponent { component, definition, workload, traits, chart: None })
}

/// The properties the template sees: the objects instead of what selects them.
fn of_objects(objects: &[Value]) -> vela_api::RawExtension {
    vela_api::RawExtension::new(&serde_json::json!({ "objects": objects }))
}
