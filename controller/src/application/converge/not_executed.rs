//! What steps would have made that a run did not come to, because they were skipped or something before them failed: it is
//! in the newest spec, though the tracker of the run does not hold it.

use std::collections::{BTreeSet, HashMap};

use serde_json::Value;
use vela_api::application::ApplicationComponent;
use vela_api::{AppStatus, RawExtension};
use vela_apply::object::{LOCAL_CLUSTER, cluster_of};
use vela_apply::tracker::Record;
use vela_workflow::generate::{BUILTIN_APPLY_COMPONENT, policy_name};
use vela_workflow::{Phase, Step, convert};

use crate::application::placement::Placement;
use crate::application::session::Session;
use crate::application::workflow::placement::{self, Named};
use crate::application::workflow::run::Run;

/// A component, and where it is deployed.
struct PlacedComponent {
    component: String,
    placement: Placement,
}

impl PlacedComponent {
    fn contains(&self, record: &Record, own: &str) -> bool {
        let Placement { cluster, namespace, .. } = &self.placement;
        let namespace = if namespace.is_empty() { own } else { namespace };
        self.component == record.component
            && cluster_of(cluster) == cluster_of(&record.cluster)
            && namespace == record.namespace
    }
}

/// What a step creates, as far as its properties say.
enum Creates {
    Components(Vec<PlacedComponent>),
    /// Components, but it cannot be known which.
    Unknown,
    /// Whatever its template says.
    Anything,
}

/// Objects that earlier runs rendered from components whose step was skipped in this one: at the placements of that step, and wherever their
/// objects say themselves where they belong.
pub(super) fn skipped(session: &Session<'_>, run: &Run<'_>, status: &AppStatus) -> Vec<Record> {
    let known = status.workflow.as_ref().map(convert::from_api).unwrap_or_default();
    // The usual case: nothing was skipped.
    if known.all().all(|step| step.phase != Phase::Skipped) {
        return Vec::new();
    }
    let (mut left, mut done) = (Vec::new(), Vec::new());
    let mut components = Vec::new();
    let phases = known.by_name();
    let is_skipped = |step: &Step| {
        phases.get(step.name.as_str()).is_some_and(|status| status.phase == Phase::Skipped)
    };
    for (step, group) in run.workflow.with_groups() {
        let is_left = is_skipped(step) || group.is_some_and(is_skipped);
        // What is placed by a step that ran is in its tracker already.
        match creates(run, step) {
            Creates::Components(components_at) if is_left => left.extend(components_at),
            Creates::Components(components_at) => done.extend(components_at),
            Creates::Unknown if is_left => components.extend(recorded(session)),
            Creates::Unknown | Creates::Anything => {}
        }
    }
    components.extend(left.iter().map(|component_at| component_at.component.clone()));
    let own = &session.owner.namespace;
    let (left, done) = (by_component(&left), by_component(&done));
    let is_at = |placed: &HashMap<&str, Vec<&PlacedComponent>>, record: &Record| {
        let places = placed.get(record.component.as_str());
        places.into_iter().flatten().any(|component_at| component_at.contains(record, own))
    };
    let mut records =
        session.trackers.left_of(&session.trackers.current(session.run()), &components);
    // What a step that ran has placed is judged by that step, unless a skipped step places it, too.
    records.retain(|record| is_at(&left, record) || !is_at(&done, record));
    records
}

fn by_component(placed: &[PlacedComponent]) -> HashMap<&str, Vec<&PlacedComponent>> {
    let mut components: HashMap<&str, Vec<&PlacedComponent>> = HashMap::new();
    for one in placed {
        components.entry(&one.component).or_default().push(one);
    }
    components
}

/// The components of which nothing may be collected after a failed run: those of the newest spec, with what `deploy` steps
/// add to them, and all there are while nobody can say what a step makes that was not reached. Objects of no component have
/// an empty name.
pub(super) fn protected_components(
    session: &Session<'_>,
    run: &Run<'_>,
    status: &AppStatus,
) -> Vec<String> {
    let known = status.workflow.as_ref().map(convert::from_api).unwrap_or_default();
    let phases = known.by_name();
    let is_done = |step: &Step| {
        phases.get(step.name.as_str()).is_some_and(|status| status.phase == Phase::Succeeded)
    };
    let mut protected: Vec<String> = session.components.iter().cloned().collect();
    for step in run.workflow.all().filter(|step| !is_done(step)) {
        match creates(run, step) {
            Creates::Components(components_at) => {
                protected.extend(components_at.into_iter().map(|s| s.component));
            }
            // The template of such a step could make anything: nothing may be collected.
            Creates::Unknown | Creates::Anything => return recorded(session),
        }
    }
    protected
}

/// The components of everything that is recorded.
fn recorded(session: &Session<'_>) -> Vec<String> {
    let records = session.trackers.views().into_iter().flat_map(|tracker| tracker.records);
    let names: BTreeSet<String> = records.map(|record| record.component).collect();
    names.into_iter().collect()
}

fn creates(run: &Run<'_>, step: &Step) -> Creates {
    let text = |key: &str| text(step.properties.get(key));
    let found = match step.kind.as_str() {
        "suspend" | "step-group" => Some(Vec::new()),
        BUILTIN_APPLY_COMPONENT => {
            let name = step.properties.get("value").and_then(|value| value.get("name"));
            // The step's properties are the component itself.
            let placement = Placement::new(&text("cluster"), &text("namespace"));
            Some(vec![PlacedComponent { component: self::text(name), placement }])
        }
        // What inputs make of its properties is not known.
        "deploy" | "deploy2env" if !step.inputs.is_empty() => None,
        "deploy" => deployed(run, step),
        "deploy2env" => in_environment(run, &text("policy"), &text("env")),
        "apply-application"
        | "apply-application-in-parallel"
        | "apply-remaining"
        | "deploy2runtime"
            // Which clusters it went to is not known afterwards.
            if run.clusters.is_none() =>
        {
            Some(placed(&run.app.spec.components, &Placement::new(LOCAL_CLUSTER, "")))
        }
        _ => return Creates::Anything,
    };
    found.map_or(Creates::Unknown, Creates::Components)
}

fn text(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn placed<'c>(
    components: impl IntoIterator<Item = &'c ApplicationComponent>,
    placement: &Placement,
) -> Vec<PlacedComponent> {
    let at = |component: &ApplicationComponent| PlacedComponent {
        component: component.name.clone(),
        placement: placement.clone(),
    };
    components.into_iter().map(at).collect()
}

/// What the policies make of the components, and where.
fn deployed(run: &Run<'_>, step: &Step) -> Option<Vec<PlacedComponent>> {
    let names = step.properties.get("policies").cloned().unwrap_or_else(|| Value::Array(vec![]));
    // Policies that cannot be read may place anything.
    let names: Vec<String> = serde_json::from_value(names).ok()?;
    let named = Named {
        app: run.app,
        external: run.policies,
        inline: &[],
        crosses_namespaces: true,
        clusters: run.clusters.as_deref(),
    };
    let resolved = placement::resolve(&named, &names).ok()?;
    let components = || resolved.components.iter().map(|(component, _)| component);
    let placements = resolved.placements.iter();
    Some(placements.flat_map(|placement| placed(components(), placement)).collect())
}

/// What the `env-binding` policies, or that of a name, make of the components for an environment.
fn in_environment(run: &Run<'_>, policy: &str, environment: &str) -> Option<Vec<PlacedComponent>> {
    let mut found = None;
    for (index, one) in run.app.spec.policies.iter().enumerate() {
        let is_meant = policy.is_empty() || policy_name(one, index) == policy;
        let properties = one.properties.as_ref().filter(|_| one.type_ == "env-binding" && is_meant);
        let Some(properties) = properties.map(RawExtension::to_value) else { continue };
        let all = properties.get("envs").and_then(Value::as_array).into_iter().flatten();
        for config in all.filter(|config| text(config.get("name")) == environment) {
            let (patch, selector) = (config.get("patch"), config.get("selector"));
            let components =
                placement::of_environment(run.app, environment, patch, selector).ok()?;
            let namespace = text(config.pointer("/placement/namespaceSelector/name"));
            let cluster = text(config.pointer("/placement/clusterSelector/name"));
            let components_at =
                placed(&components, &Placement::new(cluster_of(&cluster), &namespace));
            found.get_or_insert_with(Vec::new).extend(components_at);
        }
    }
    found
}
