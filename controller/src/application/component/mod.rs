//! One component, or policy, rendered to labelled manifests; its health is read in `health.rs`.
//!
//! Answers for `application/{generator,dispatcher}.go` and `assemble/`. Rendering runs on the pool: it is CPU work of unknown
//! length.

mod charts;
mod error;
mod health;
mod rendering;

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vela_api::application::AppPolicy;
use vela_api::hash::GoHash;
use vela_api::names;
use vela_apply::ResourceKey;
use vela_apply::object::{
    LOCAL_CLUSTER, api_version, cluster_of, kind, label, set_label, set_namespace,
};
use vela_cluster::members::Named;
use vela_cluster::packed;
use vela_render::{App, ClusterVersion, Definition, NoHost, RenderError, Stage, Target, contract};

use crate::application::context::AppContext;
use crate::evaluation::EvaluationScope;
use crate::queue::Key;

use super::facts::properties;
use super::placement::Placement;
use crate::application::facts::parse::ParsedComponent;

pub use charts::asked_of_helm;
pub use error::ComponentError;
pub use health::{health, live};
pub use rendering::CachedRendering;

/// What is the same for all components of a revision.
#[derive(Debug, Clone)]
pub struct RenderInput {
    /// The Application as templates see it.
    pub app: Arc<App>,
    /// Hash of the revision.
    pub revision_hash: String,
    /// `context.custom`: what application-scoped policies put there.
    pub custom: Option<Arc<Value>>,
}

/// One object of a component.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Object {
    /// The manifest, labelled and named.
    pub manifest: Value,
    /// Key in `outputs`; `None` for the workload.
    pub output: Option<String>,
    /// Which of the component's traits made it; `None` for the component itself.
    pub trait_index: Option<usize>,
    /// When it is applied.
    pub stage: Stage,
}

impl Object {
    /// The cluster where it belongs, as its label has it: that of its component, unless its template or its definition says another.
    #[must_use]
    pub fn cluster(&self) -> &str {
        label(&self.manifest, names::label::APP_CLUSTER).unwrap_or_default()
    }

    /// Whether it belongs to a cluster.
    #[must_use]
    pub fn is_in(&self, cluster: &str) -> bool {
        cluster_of(self.cluster()) == cluster_of(cluster)
    }
}

/// A rendered component.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Rendered {
    /// Workload first, then the others in order.
    pub objects: Vec<Object>,
    /// Traits that are rendered only once the workload is healthy.
    pub pending: Vec<usize>,
    /// A trait stands for the workload.
    pub without_workload: bool,
}

impl Rendered {
    /// The clusters where its objects belong: first that of the component, then those that objects name themselves.
    #[must_use]
    pub fn clusters(&self, own: &str) -> Vec<String> {
        let mut all = vec![own.to_owned()];
        for object in &self.objects {
            if !all.iter().any(|known| object.is_in(known)) {
                all.push(object.cluster().to_owned());
            }
        }
        all
    }
}

/// Renders a component. `live` is its workload in the cluster; PostDispatch traits are rendered only if
/// `with_post_dispatch`.
///
/// # Errors
/// A message for the step.
pub async fn render(
    ctx: &AppContext,
    common: &RenderInput,
    part: &ParsedComponent,
    placement: &Placement,
    live: Option<Arc<Value>>,
    with_post_dispatch: bool,
) -> Result<Rendered, ComponentError> {
    let memory = ctx.memory(&Key::new(&*common.app.namespace, &*common.app.name));
    // What traits of the last stage see changes with the cluster.
    // A chart's answer is no part of what is compared.
    let is_plain = !with_post_dispatch && part.chart.is_none();
    // Without a fingerprint the rendering is neither kept nor taken from memory.
    let input = if is_plain { fingerprint(common, part, placement) } else { None };
    let slot = (part.component.name.clone(), placement.clone());
    let cached = memory
        .lock()
        .renderings
        .get(&slot)
        .zip(input)
        .and_then(|(cached, input)| cached.get(input, definitions(part)));
    // What cannot be unpacked is rendered again.
    if let Some(Ok(rendered)) = cached.map(|packed| packed::unpack(&packed)) {
        return Ok(rendered);
    }
    let disable_revision = ctx.settings.disable_component_revision;
    let staged = ctx.settings.gates.multi_stage_component_apply;
    let cluster_version = version_of(ctx, &placement.cluster);
    let job = {
        let (common, part, placement) = (common.clone(), part.clone(), placement.clone());
        move |scope: &EvaluationScope| {
            let renderer = &scope.renderer;
            let target = Target {
                revision: part.component.hash_text(),
                cluster: cluster_of(&placement.cluster).to_owned(),
                cluster_version,
                replica_key: placement.replica.clone(),
                live,
                custom: common.custom.as_deref().cloned(),
                ..Target::default()
            };
            let values: Vec<Option<Value>> =
                part.component.traits.iter().map(|t| properties(t.properties.as_ref())).collect();
            let mut pending = Vec::new();
            let mut traits = Vec::new();
            let mut kept = Vec::new();
            let all = part.component.traits.iter().zip(&part.traits).zip(&values);
            for (index, ((written, definition), value)) in all.enumerate() {
                // Rendered once the workload is healthy: such a trait may read its status.
                if definition.stage == Stage::PostDispatch && !with_post_dispatch {
                    pending.push(index);
                    continue;
                }
                // Positions among all traits: outputs of a trait are found by them later.
                kept.push(index);
                traits.push(vela_render::Trait {
                    kind: &written.type_,
                    definition,
                    properties: value.as_ref(),
                });
            }
            let value = properties(part.component.properties.as_ref());
            let component = vela_render::Component {
                name: &part.component.name,
                kind: &part.component.type_,
                definition: &part.definition,
                properties: value.as_ref(),
                traits,
                patch: None,
            };
            let app = namespaced(&common.app, &placement);
            let mut rendered =
                renderer.render(&app, &target, &component, &mut charts::Charts::of(&part))?;
            let finish = if staged { contract::apply_in_stages } else { contract::apply };
            finish(&mut rendered, &common.app, &part.component.name, &part.component.type_);
            let rendered =
                assemble(rendered, &common, &part, &placement, &kept, pending, disable_revision);
            // Traits of a component without a workload may read the one in the cluster.
            let is_self_contained =
                !rendered.objects.is_empty() && renderer.is_self_contained(&component);
            Ok::<_, RenderError>((rendered, is_self_contained))
        }
    };
    let since = Instant::now();
    let ran = ctx.cue.run(job).await;
    ctx.metrics.rendered("component", matches!(ran, Ok(Ok(_))), since.elapsed());
    let (rendered, is_self_contained) = ran.map_err(ComponentError::NotRendered)??;
    // Whatever reads the cluster may render differently next time.
    if is_self_contained
        && let Some(input) = input
        && let Ok(packed) = packed::pack(&rendered)
    {
        let definitions = definitions(part).cloned().collect();
        let cached = CachedRendering { input, definitions, packed: packed.into() };
        memory.lock().renderings.insert(slot, cached);
    }
    Ok(rendered)
}

fn definitions(part: &ParsedComponent) -> impl Iterator<Item = &Arc<Definition>> {
    std::iter::once(&part.definition).chain(&part.traits)
}

/// The version of a cluster: as it last said itself, else the own one's.
#[must_use]
pub fn version_of(ctx: &AppContext, cluster: &str) -> ClusterVersion {
    // A cluster that has not answered yet counts as equal to the own one.
    let member = match ctx.clusters.snapshot().named(cluster) {
        Named::Member(member) => member.identified().version,
        Named::Own | Named::Unregistered(_) | Named::Unclear => None,
    };
    member.map_or_else(
        || ctx.settings.cluster_version.clone(),
        |version| ClusterVersion {
            major: version.major,
            minor: version.minor,
            git_version: version.git_version,
            platform: version.platform,
        },
    )
}

/// A hash of everything a self-contained component is rendered from, but for its definitions.
fn fingerprint(common: &RenderInput, part: &ParsedComponent, placement: &Placement) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let app = &common.app;
    (&app.name, &app.namespace, &app.revision, &app.labels, &app.annotations).hash(&mut hasher);
    common.revision_hash.hash(&mut hasher);
    common.custom.as_ref().map(ToString::to_string).hash(&mut hasher);
    placement.hash(&mut hasher);
    serde_json::to_vec(&part.component).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

/// Renders a policy that has a definition of its own. `artifacts` are what the components render to,
/// if the policy asks for them.
///
/// # Errors
/// A message.
pub async fn render_policy(
    ctx: &AppContext,
    common: &RenderInput,
    policy: &AppPolicy,
    definition: Arc<Definition>,
    artifacts: Option<Value>,
) -> Result<Vec<Value>, ComponentError> {
    let (common, policy) = (common.clone(), policy.clone());
    let cluster_version = ctx.settings.cluster_version.clone();
    let job = move |scope: &EvaluationScope| {
        let renderer = &scope.renderer;
        let value = properties(policy.properties.as_ref());
        let component = vela_render::Component {
            name: &policy.name,
            kind: &policy.type_,
            definition: &definition,
            properties: value.as_ref(),
            traits: Vec::new(),
            patch: None,
        };
        let custom = common.custom.as_deref().cloned();
        let target = Target { cluster_version, artifacts, custom, ..Target::default() };
        let mut rendered = renderer.render(&common.app, &target, &component, &mut NoHost)?;
        contract::label(&mut rendered, &common.app, &policy.name, &policy.type_);
        let mut out = Vec::new();
        let all = std::iter::once(rendered.workload)
            .chain(rendered.auxiliaries.into_iter().map(|auxiliary| auxiliary.object));
        for mut object in all.filter(|object| !kind(object).is_empty()) {
            set_label(&mut object, names::label::APP_NAMESPACE, &common.app.namespace);
            // Labels of components and traits would make the object one of a component.
            for key in [
                names::label::WORKLOAD_TYPE,
                names::label::TRAIT_TYPE,
                names::label::TRAIT_RESOURCE,
            ] {
                vela_apply::object::remove_metadata(&mut object, "labels", key);
            }
            // The own cluster: policies are applied where the Application is.
            set_label(&mut object, names::label::APP_CLUSTER, "");
            if vela_apply::object::name(&object).is_empty() {
                set_name(&mut object, &policy.name);
            }
            if vela_apply::object::namespace(&object).is_empty() && !is_namespace(&object) {
                set_namespace(&mut object, &common.app.namespace);
            }
            out.push(object);
        }
        Ok::<_, RenderError>(out)
    };
    let since = Instant::now();
    let ran = ctx.cue.run(job).await;
    ctx.metrics.rendered("policy", matches!(ran, Ok(Ok(_))), since.elapsed());
    Ok(ran.map_err(ComponentError::NotRendered)??)
}

fn set_name(object: &mut Value, name: &str) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("name".to_owned(), Value::String(name.to_owned()));
    }
}

/// Templates see the namespace the objects go to.
fn namespaced(app: &Arc<App>, placement: &Placement) -> Arc<App> {
    if placement.namespace.is_empty() {
        return Arc::clone(app);
    }
    Arc::new(App { namespace: placement.namespace.clone(), ..App::clone(app) })
}

fn assemble(
    rendered: vela_render::Rendered,
    common: &RenderInput,
    part: &ParsedComponent,
    placement: &Placement,
    kept: &[usize],
    pending: Vec<usize>,
    disable_revision: bool,
) -> Rendered {
    let without_workload = part.is_managed_by_trait();
    let mut out = Rendered { objects: Vec::new(), pending, without_workload };
    let has_kind = |object: &Value| !api_version(object).is_empty() || !kind(object).is_empty();
    if !has_kind(&rendered.workload) {
        // Nothing that could be an object: the component stands for nothing, and so do its traits.
        return out;
    }
    let finish = |mut manifest: Value, definition: Option<&Definition>| {
        set_label(&mut manifest, names::label::APP_REVISION_HASH, &common.revision_hash);
        // The label is part of upstream's objects; the flag takes it away.
        if !disable_revision {
            set_label(&mut manifest, names::label::COMPONENT_REVISION, "");
        }
        if definition.is_some_and(|definition| definition.manage_workload) {
            set_label(&mut manifest, names::label::MANAGE_WORKLOAD, "true");
        }
        // Objects for the hub alone are not placed with their component.
        let stays = definition.is_some_and(|definition| definition.control_plane_only);
        let namespace = if stays { &common.app.namespace } else { &placement.namespace };
        if !namespace.is_empty() && !is_namespace(&manifest) {
            set_namespace(&mut manifest, namespace);
        }
        // A template may have placed an object itself; those of a chart belong to its release.
        let written = label(&manifest, names::label::APP_CLUSTER).unwrap_or_default();
        if stays {
            set_label(&mut manifest, names::label::APP_CLUSTER, LOCAL_CLUSTER);
        } else if written.is_empty() || part.chart.is_some() {
            set_label(&mut manifest, names::label::APP_CLUSTER, &placement.cluster);
        }
        manifest
    };
    if !without_workload {
        out.objects.push(Object {
            manifest: finish(rendered.workload, None),
            output: None,
            trait_index: None,
            stage: Stage::DefaultDispatch,
        });
    }
    for auxiliary in rendered.auxiliaries {
        let trait_index = auxiliary.trait_index.and_then(|index| kept.get(index).copied());
        let definition = trait_index.and_then(|index| part.traits.get(index)).map(AsRef::as_ref);
        let mut manifest = finish(auxiliary.object, definition);
        if let Some(name) = vela_apply::release::resource_label(&manifest) {
            set_label(&mut manifest, names::label::TRAIT_RESOURCE, &name);
        }
        out.objects.push(Object {
            manifest,
            output: Some(auxiliary.name),
            trait_index,
            stage: auxiliary.stage,
        });
    }
    keep_last(&mut out.objects);
    out
}

/// Of several manifests of one object the last one counts: a trait may replace what its component makes.
fn keep_last(objects: &mut Vec<Object>) {
    let mut kept: Vec<Object> = Vec::with_capacity(objects.len());
    let mut known: HashMap<ResourceKey, usize> = HashMap::with_capacity(objects.len());
    for object in std::mem::take(objects) {
        let key = ResourceKey::of(&object.manifest, "");
        // Objects without a name get one later, and cannot be compared.
        let index =
            if key.name.is_empty() { kept.len() } else { *known.entry(key).or_insert(kept.len()) };
        match kept.get_mut(index) {
            // The workload stays the workload, whoever has the last word about it.
            Some(workload) if workload.output.is_none() => workload.manifest = object.manifest,
            Some(other) => *other = object,
            None => kept.push(object),
        }
    }
    *objects = kept;
}

fn is_namespace(manifest: &Value) -> bool {
    api_version(manifest) == "v1" && kind(manifest) == "Namespace"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn of_several_manifests_of_one_object_the_last_one_counts() {
        let object = |kind: &str, name: &str, version: u8, output: Option<&str>| Object {
            manifest: json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name}, "data": version}),
            output: output.map(str::to_owned),
            trait_index: None,
            stage: Stage::DefaultDispatch,
        };
        let mut objects = vec![
            object("ConfigMap", "a", 1, None),
            object("ConfigMap", "", 2, Some("unnamed")),
            object("Secret", "a", 3, Some("secret")),
            object("ConfigMap", "a", 4, Some("again")),
            object("ConfigMap", "", 5, Some("unnamed-too")),
            object("Secret", "a", 6, Some("other")),
        ];
        keep_last(&mut objects);
        let kept: Vec<_> =
            objects.iter().map(|it| (it.output.as_deref(), it.manifest["data"].clone())).collect();
        let wanted = [
            // It stays the workload.
            (None, json!(4)),
            (Some("unnamed"), json!(2)),
            (Some("other"), json!(6)),
            (Some("unnamed-too"), json!(5)),
        ];
        assert_eq!(kept, wanted);
    }
}
