//! What a change of a definition does to the Applications that use it: which render differently, which no longer render, which
//! restart their Pods. Each is rendered twice, with the present definition and with the new one; no request is made for any.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use vela_api::application::ApplicationComponent;
use vela_api::{Application, ComponentDefinition, TraitDefinition};
use vela_render::{
    App, Component, Definition, DefinitionKind, NoHost, RenderError, Rendered, Renderer, Target,
    Trait,
};

use crate::application::facts::properties;
use crate::definitions::Definitions;

use super::changes::{differences, short};

/// Applications that are named of each sort.
const MAX_NAMED: usize = 10;
/// Kinds whose Pods are replaced when their template changes.
const ROLLERS: [&str; 3] = ["Deployment", "StatefulSet", "DaemonSet"];

/// A definition as it would be.
#[derive(Debug, Clone)]
pub(crate) struct NewDefinition {
    pub(crate) namespace: String,
    pub(crate) definition: Arc<Definition>,
}

/// What its change does.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Impact {
    /// `ComponentDefinition webservice`.
    pub(crate) definition: String,
    /// Applications that use it, in whatever version.
    pub(crate) users: usize,
    /// Those of them that name another version.
    pub(crate) pinned: usize,
    pub(crate) same: usize,
    pub(crate) changed: Vec<Affected>,
    /// Those that no longer render, with the reason.
    pub(crate) broken: Vec<Affected>,
    /// Their templates read the cluster, or are charts, or do not render today: nothing is said about them.
    pub(crate) unknown: Vec<String>,
    /// The change that most of them have, and how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) common: Option<(String, usize)>,
}

/// An Application that is affected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Affected {
    /// `namespace/name`.
    pub(crate) app: String,
    /// Pods that are replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) restarts: Option<i64>,
    /// Why it does not render.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) why: String,
}

/// How one component fares.
enum Fate {
    Same,
    Changed(Vec<String>, Option<i64>),
    Broken(String),
    Unknown,
}

/// What the change of a definition of components or traits does; policies and steps are only counted.
pub(crate) fn impact(
    renderer: &Renderer,
    definitions: &Definitions,
    new: &NewDefinition,
    apps: &[Application],
) -> Impact {
    let (kind, name) = (new.definition.kind, new.definition.name.as_str());
    let mut impact = Impact { definition: format!("{} {name}", kind.kind()), ..Impact::default() };
    let mut common: BTreeMap<String, usize> = BTreeMap::new();
    for app in apps {
        let (uses, follows) = used(app, kind, name);
        if !uses || !is_meant(definitions, app, new) {
            continue;
        }
        impact.users += 1;
        let label =
            format!("{}/{}", namespace(app), app.metadata.name.as_deref().unwrap_or_default());
        if !follows {
            impact.pinned += 1;
            continue;
        }
        if !matches!(kind, DefinitionKind::Component | DefinitionKind::Trait) {
            impact.unknown.push(label);
            continue;
        }
        let mut affected = Affected { app: label, ..Affected::default() };
        let (mut is_changed, mut is_unknown) = (false, false);
        let mut paths = std::collections::BTreeSet::new();
        for component in &app.spec.components {
            match fate(renderer, definitions, new, app, component) {
                Fate::Same => {}
                Fate::Changed(changed, restarts) => {
                    is_changed = true;
                    paths.extend(changed);
                    if let Some(pods) = restarts {
                        *affected.restarts.get_or_insert(0) += pods;
                    }
                }
                Fate::Broken(why) => affected.why = format!("{}: {why}", component.name),
                Fate::Unknown => is_unknown = true,
            }
        }
        for path in paths {
            *common.entry(path).or_insert(0) += 1;
        }
        if !affected.why.is_empty() {
            impact.broken.push(affected);
        } else if is_changed {
            impact.changed.push(affected);
        } else if is_unknown {
            impact.unknown.push(affected.app);
        } else {
            impact.same += 1;
        }
    }
    impact.common = common.into_iter().max_by(|(a, x), (b, y)| x.cmp(y).then(b.cmp(a)));
    impact
}

fn namespace(app: &Application) -> &str {
    app.metadata.namespace.as_deref().unwrap_or_default()
}

/// Whether an Application names a definition, and whether it does so without a version.
fn used(app: &Application, kind: DefinitionKind, name: &str) -> (bool, bool) {
    let mut types: Vec<&str> = Vec::new();
    match kind {
        DefinitionKind::Component => {
            types.extend(app.spec.components.iter().map(|one| one.type_.as_str()));
        }
        DefinitionKind::Trait => {
            let traits = app.spec.components.iter().flat_map(|one| &one.traits);
            types.extend(traits.map(|one| one.type_.as_str()));
        }
        DefinitionKind::Policy => {
            types.extend(app.spec.policies.iter().map(|one| one.type_.as_str()));
        }
        DefinitionKind::WorkflowStep => {
            let steps = app.spec.workflow.iter().flat_map(|workflow| &workflow.steps);
            types.extend(steps.map(|step| step.type_.as_str()));
        }
        DefinitionKind::Workload => {}
    }
    let base = |type_: &&&str| type_.split('@').next() == Some(name);
    let uses = types.iter().any(|type_| base(&type_));
    (uses, types.contains(&name))
}

/// Whether that name means this definition in the namespace of an Application: its own namespace comes first.
fn is_meant(definitions: &Definitions, app: &Application, new: &NewDefinition) -> bool {
    let own = namespace(app);
    if own == new.namespace {
        return true;
    }
    let name = &new.definition.name;
    let has = |namespace: &str| match new.definition.kind {
        DefinitionKind::Component => {
            definitions.components.get(&vela_cluster::Key::new(namespace, name)).is_some()
        }
        DefinitionKind::Trait => {
            definitions.traits.get(&vela_cluster::Key::new(namespace, name)).is_some()
        }
        DefinitionKind::Policy => {
            definitions.policies.get(&vela_cluster::Key::new(namespace, name)).is_some()
        }
        DefinitionKind::WorkflowStep => {
            definitions.steps.get(&vela_cluster::Key::new(namespace, name)).is_some()
        }
        DefinitionKind::Workload => false,
    };
    new.namespace == definitions.system_namespace && !has(own)
}

fn fate(
    renderer: &Renderer,
    definitions: &Definitions,
    new: &NewDefinition,
    app: &Application,
    component: &ApplicationComponent,
) -> Fate {
    let name = new.definition.name.as_str();
    let is_used = match new.definition.kind {
        DefinitionKind::Component => component.type_ == name,
        _ => component.traits.iter().any(|one| one.type_ == name),
    };
    if !is_used {
        return Fate::Same;
    }
    let at = namespace(app);
    let present = |kind: DefinitionKind, type_: &str| -> Option<Arc<Definition>> {
        match kind {
            DefinitionKind::Component => {
                let found = definitions.find::<ComponentDefinition>(at, type_)?;
                Some(definitions.to_render(&found))
            }
            _ => {
                let found = definitions.find::<TraitDefinition>(at, type_)?;
                Some(definitions.to_render(&found))
            }
        }
    };
    let planned = |kind: DefinitionKind, type_: &str| {
        if kind == new.definition.kind && type_ == name {
            Some(Arc::clone(&new.definition))
        } else {
            present(kind, type_)
        }
    };
    let before = rendered(renderer, app, component, &present);
    let after = rendered(renderer, app, component, &planned);
    match (before, after) {
        (Some(Ok(before)), Some(Ok(after))) => compare(&before, &after),
        // Who is broken today is no worse off.
        (_, Some(Ok(_))) | (Some(Err(_)) | None, _) => Fate::Unknown,
        (Some(Ok(_)), Some(Err(why))) => Fate::Broken(why.to_string()),
        (Some(Ok(_)), None) => Fate::Unknown,
    }
}

/// What a component renders to; `None` if that depends on the cluster, or a definition is missing.
fn rendered(
    renderer: &Renderer,
    app: &Application,
    component: &ApplicationComponent,
    find: &dyn Fn(DefinitionKind, &str) -> Option<Arc<Definition>>,
) -> Option<Result<Rendered, RenderError>> {
    let definition = find(DefinitionKind::Component, &component.type_)?;
    let traits: Option<Vec<Arc<Definition>>> =
        component.traits.iter().map(|one| find(DefinitionKind::Trait, &one.type_)).collect();
    let traits = traits?;
    if definition.template.text().contains("\"vela/helm\"") {
        return None;
    }
    let values: Vec<Option<Value>> =
        component.traits.iter().map(|one| properties(one.properties.as_ref())).collect();
    let own = properties(component.properties.as_ref());
    let traits =
        component.traits.iter().zip(&traits).zip(&values).map(|((one, definition), value)| Trait {
            kind: &one.type_,
            definition,
            properties: value.as_ref(),
        });
    let part = Component {
        name: &component.name,
        kind: &component.type_,
        definition: &definition,
        properties: own.as_ref(),
        traits: traits.collect(),
        patch: None,
    };
    let owned = |map: &Option<BTreeMap<String, String>>| map.clone().unwrap_or_default();
    let revision = app.status.latest_revision.as_ref().map(|it| it.name.clone());
    let context = App {
        name: app.metadata.name.clone().unwrap_or_default(),
        namespace: namespace(app).to_owned(),
        revision: revision.unwrap_or_default(),
        labels: owned(&app.metadata.labels),
        annotations: owned(&app.metadata.annotations),
        ..App::default()
    };
    let result = renderer.render(&context, &Target::default(), &part, &mut NoHost);
    if result.is_ok() && !renderer.is_self_contained(&part) {
        return None;
    }
    Some(result)
}

fn compare(before: &Rendered, after: &Rendered) -> Fate {
    let object = |rendered: &Rendered| serde_json::to_value(&rendered.workload).unwrap_or_default();
    let (old, new) = (object(before), object(after));
    let text = |value: &Value, pointer: &str| {
        value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let kind = text(&new, "/kind");
    let mut changed: Vec<String> = differences(&old, &new, false)
        .into_iter()
        .map(|field| {
            let (before, after) =
                (short(field.before.as_ref(), 30), short(field.after.as_ref(), 30));
            format!("{kind} {} {before} -> {after}", anonymous(&field.path))
        })
        .collect();
    let rolls = ROLLERS.contains(&kind.as_str())
        && old.pointer("/spec/template") != new.pointer("/spec/template");
    let pods = new.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(1);
    let named = |rendered: &Rendered| -> BTreeMap<String, Value> {
        let all = rendered.auxiliaries.iter();
        all.map(|one| {
            (
                format!("{}/{}", one.kind, one.name),
                serde_json::to_value(&one.object).unwrap_or_default(),
            )
        })
        .collect()
    };
    let (old, new) = (named(before), named(after));
    for (name, object) in &new {
        match old.get(name) {
            None => changed.push(format!("output {name} is new")),
            Some(other) if other != object => changed.push(format!("output {name} changes")),
            Some(_) => {}
        }
    }
    changed.extend(
        old.keys()
            .filter(|name| !new.contains_key(*name))
            .map(|name| format!("output {name} is gone")),
    );
    if changed.is_empty() { Fate::Same } else { Fate::Changed(changed, rolls.then_some(pods)) }
}

/// A path without the names that differ between Applications.
fn anonymous(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in path.chars() {
        match c {
            '[' => {
                inside = true;
                out.push_str("[]");
            }
            ']' => inside = false,
            c if !inside => out.push(c),
            _ => {}
        }
    }
    out
}

impl Impact {
    /// Pods that are replaced, and in how many Applications.
    pub(crate) fn restarts(&self) -> (usize, i64) {
        let all: Vec<i64> = self.changed.iter().filter_map(|one| one.restarts).collect();
        (all.len(), all.iter().sum())
    }

    /// The impact as text.
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{}: {} Applications use it, {} of them another version by name",
            self.definition, self.users, self.pinned
        );
        let _ = writeln!(out, "  {:>5} render the same", self.same);
        let (apps, pods) = self.restarts();
        let _ = writeln!(
            out,
            "  {:>5} change; {apps} of them restart their Pods ({pods})",
            self.changed.len()
        );
        let _ = writeln!(out, "  {:>5} no longer render", self.broken.len());
        for one in self.broken.iter().take(MAX_NAMED) {
            let _ = writeln!(
                out,
                "        {}  {}",
                one.app,
                one.why.lines().next().unwrap_or_default()
            );
        }
        if let Some(more) = self.broken.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
            let _ = writeln!(out, "        and {more} more");
        }
        if let Some((change, count)) = &self.common {
            let _ = writeln!(out, "Most common change: {change}  ({count})");
        }
        if !self.unknown.is_empty() {
            let _ = writeln!(
                out,
                "Not compared: {} Applications, of charts, templates that read the cluster, policies or steps",
                self.unknown.len()
            );
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_cluster::Store;

    use super::*;

    const OLD: &str = r#"
output: {apiVersion: "apps/v1", kind: "Deployment", spec: {
    replicas: parameter.replicas, template: spec: containers: [{name: context.name, image: parameter.image}]}}
parameter: {image: string, replicas: *1 | int, secure: *false | bool}
"#;
    const NEW: &str = r#"
output: {apiVersion: "apps/v1", kind: "Deployment", spec: {
    replicas: parameter.replicas, template: spec: containers: [{name: context.name, image: parameter.image,
        if parameter.secure {securityContext: runAsNonRoot: true}}]}}
parameter: {image: =~":", replicas: *1 | int, secure: *false | bool}
"#;

    fn object(template: &str) -> Value {
        json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "ComponentDefinition",
            "metadata": {"name": "web", "namespace": "vela-system"},
            "spec": {"workload": {"definition": {"apiVersion": "apps/v1", "kind": "Deployment"}},
                "schematic": {"cue": {"template": template}}}})
    }

    fn app(n: usize, type_: &str, properties: &Value) -> Application {
        serde_json::from_value(json!({"metadata": {"name": format!("a{n}"), "namespace": "n"},
            "spec": {"components": [{"name": "c", "type": type_, "properties": properties}]}}))
        .unwrap()
    }

    fn definitions() -> Definitions {
        let all =
            Definitions { system_namespace: "vela-system".to_owned(), ..Definitions::default() };
        let put = |store: &Store<ComponentDefinition>| {
            store.put(serde_json::from_value(object(OLD)).unwrap()).unwrap();
        };
        put(&all.components);
        all
    }

    fn new() -> NewDefinition {
        let definition = Arc::new(Definition::from_object(&object(NEW)).unwrap());
        NewDefinition { namespace: "vela-system".to_owned(), definition }
    }

    #[test]
    fn who_changes_who_breaks_who_restarts() {
        let apps = [
            app(0, "web", &json!({"image": "a:1"})),
            app(1, "web", &json!({"image": "a:1", "secure": true, "replicas": 3})),
            app(2, "web", &json!({"image": "latest"})),
            app(3, "web@v1", &json!({"image": "a:1"})),
            app(4, "other", &json!({})),
        ];
        let impact = impact(&Renderer::default(), &definitions(), &new(), &apps);
        assert_eq!((impact.users, impact.pinned, impact.same), (4, 1, 1), "{impact:#?}");
        assert_eq!(
            impact.changed,
            [Affected { app: "n/a1".into(), restarts: Some(3), why: String::new() }]
        );
        assert_eq!(impact.broken.len(), 1);
        assert!(
            impact.broken[0].app == "n/a2" && impact.broken[0].why.contains("image"),
            "{impact:#?}"
        );
        assert_eq!(impact.restarts(), (1, 3));
        let text = impact.text();
        assert!(
            text.contains(
                "Most common change: Deployment spec.template.spec.containers[].securityContext"
            ),
            "{text}"
        );
    }

    #[test]
    fn the_documentation_shows_what_is_printed() {
        let of =
            |n: i64, restarts| Affected { app: format!("n/a{n}"), restarts, why: String::new() };
        let mut changed: Vec<Affected> =
            (0..58).map(|n| of(n, Some(if n < 37 { 4 } else { 3 }))).collect();
        changed.extend((58..73).map(|n| of(n, None)));
        let impact = Impact {
            definition: "ComponentDefinition webservice".to_owned(),
            users: 412,
            pinned: 31,
            same: 305,
            changed,
            broken: vec![Affected {
                app: "team-a/old".to_owned(),
                restarts: None,
                why: "web: parameter.port: conflicting values int and \"http\"".to_owned(),
            }],
            unknown: vec![String::new(); 2],
            common: Some((
                "Deployment spec.template.spec.containers[].securityContext.runAsNonRoot - -> true"
                    .to_owned(),
                73,
            )),
        };
        let text = impact.text();
        let docs = include_str!("../../../docs/plan.md");
        assert!(docs.contains(&format!("```text\n{text}```\n")), "{text}");
    }

    /// The number is for docs; what is checked is that every one of them is compared.
    #[test]
    fn ten_thousand_applications_are_compared() {
        let count = 10_000 / crate::simulation::depth::stride();
        let apps: Vec<Application> = (0..count)
            .map(|n| app(n, "web", &json!({"image": format!("a:{n}"), "secure": n % 100 == 0})))
            .collect();
        let since = std::time::Instant::now();
        let impact = impact(&Renderer::default(), &definitions(), &new(), &apps);
        println!("{count} Applications in {:?}", since.elapsed());
        let secure = count.div_ceil(100);
        assert_eq!((impact.same, impact.changed.len()), (count - secure, secure));
    }
}
