//! `ref-objects` components: their objects are read from the cluster once for each revision and kept in it.
//!
//! Answers for `pkg/component/ref_objects.go`. Objects are read under the identity of the Application. An unchanged
//! Application is rendered from its revision, so a reconcile costs no request.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};
use vela_api::{Application, ApplicationComponent, ApplicationRevision, RawExtension};
use vela_apply::object::{api_version, is_local, kind, name, namespace, set_type, str_at};
use vela_cluster::members::{Member, Named};
use vela_cluster::{ApiError, Resource, Target, postponed, request};

use crate::application::context::AppContext;
use crate::messages;

use crate::application::dispatch::error::Verb;
use crate::application::facts;
use crate::application::facts::parse::{ParseError, Referred};
use crate::application::session::Session;

/// The type of such components.
const TYPE: &str = "ref-objects";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Properties {
    objects: Vec<Selector>,
    urls: Vec<String>,
}

/// Which objects; kinds are named by their resource.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Selector {
    resource: String,
    group: String,
    api_version: String,
    kind: String,
    name: String,
    namespace: String,
    cluster: String,
    label_selector: BTreeMap<String, String>,
    /// The old key of the same; without its gate it is ignored.
    deprecated_label_selector: BTreeMap<String, String>,
}

fn is_referring(component: &ApplicationComponent) -> bool {
    component.type_.split('@').next() == Some(TYPE)
}

/// The objects that the Application refers to: those of the latest revision if that was made for the same spec, else as
/// they are in the cluster now.
///
/// # Errors
/// A message: properties that cannot be read, an object that is not there.
pub(in crate::application) async fn collect(
    session: &Session<'_>,
    app: &Application,
    latest: Option<&ApplicationRevision>,
) -> Result<Vec<RawExtension>, ParseError> {
    if !app.spec.components.iter().any(is_referring) {
        return Ok(Vec::new());
    }
    // An unchanged Application keeps what it read: the objects are part of its revision.
    let same = latest.filter(|revision| {
        facts::publish_version(&revision.metadata) == session.publish_version
            && revision.spec.application.spec.components == app.spec.components
    });
    if let Some(revision) = same {
        return Ok(revision.spec.referred_objects.clone());
    }
    // By key, so that two selectors for one object record it once.
    let mut found: BTreeMap<String, Value> = BTreeMap::new();
    for component in app.spec.components.iter().filter(|c| is_referring(c)) {
        let said = |error: ParseError| messages::in_component(&component.name, &error.0);
        for selector in selectors(component, session.ctx).map_err(said)? {
            let resource = resolve(session.ctx, &selector).await.map_err(said)?;
            for object in read(session, component, &selector, &resource).await.map_err(said)? {
                let key = format!(
                    "{} {}|{}/{}",
                    api_version(&object),
                    kind(&object),
                    namespace(&object),
                    name(&object)
                );
                found.insert(key, object);
            }
        }
    }
    Ok(found.values().map(RawExtension::new).collect())
}

/// Hands the objects of a revision to the components that refer to them.
///
/// # Errors
/// A message.
pub(in crate::application) async fn assign(
    ctx: &AppContext,
    app: &Application,
    objects: &[RawExtension],
) -> Result<Referred, ParseError> {
    let mut out = Referred::new();
    if !app.spec.components.iter().any(is_referring) {
        return Ok(out);
    }
    let objects: Vec<Value> = objects.iter().map(RawExtension::to_value).collect();
    let own = app.metadata.namespace.as_deref().unwrap_or_default();
    for component in app.spec.components.iter().filter(|c| is_referring(c)) {
        let said = |error: ParseError| messages::in_component(&component.name, &error.0);
        let mut chosen: Vec<Value> = Vec::new();
        for selector in selectors(component, ctx).map_err(said)? {
            let resource = resolve(ctx, &selector).await.map_err(said)?;
            let wanted = Wanted::of(&selector, component, own);
            let fits = |object: &&Value| {
                // Kinds are compared by what the cluster serves, since selectors name resources.
                kind(object) == resource.kind
                    && vela_apply::object::group_of(api_version(object)) == resource.group()
                    && (!resource.namespaced || namespace(object) == wanted.namespace)
                    && wanted.fits(object)
            };
            for object in objects.iter().filter(fits) {
                if !chosen.contains(object) {
                    chosen.push(object.clone());
                }
            }
        }
        out.insert(component.name.clone(), chosen);
    }
    Ok(out)
}

fn selectors(
    component: &ApplicationComponent,
    ctx: &AppContext,
) -> Result<Vec<Selector>, ParseError> {
    read_selectors(component, ctx.settings.gates.deprecated_object_label_selector)
}

fn read_selectors(
    component: &ApplicationComponent,
    old_key: bool,
) -> Result<Vec<Selector>, ParseError> {
    let Some(properties) = &component.properties else { return Ok(Vec::new()) };
    let mut properties: Properties = properties
        .parse()
        .map_err(|error| messages::bad_reference(&component.name, &error.to_string()))?;
    if !properties.urls.is_empty() {
        return Err(messages::NO_REFERENCE_BY_URL.into());
    }
    for selector in properties.objects.iter_mut().filter(|_| old_key) {
        if selector.label_selector.is_empty() {
            selector.label_selector = std::mem::take(&mut selector.deprecated_label_selector);
        }
    }
    let both = |s: &&Selector| !s.name.is_empty() && !s.label_selector.is_empty();
    // A name and labels could mean different objects.
    if properties.objects.iter().any(|selector| both(&selector)) {
        return Err(messages::AMBIGUOUS_REFERENCE.into());
    }
    Ok(properties.objects)
}

/// What a selector means in its place.
struct Wanted<'a> {
    namespace: &'a str,
    name: &'a str,
    labels: &'a BTreeMap<String, String>,
}

impl<'a> Wanted<'a> {
    fn of(selector: &'a Selector, component: &'a ApplicationComponent, own: &'a str) -> Self {
        let name = match selector.name.as_str() {
            // Without name and labels the component's own name is meant, as upstream has it.
            "" if selector.label_selector.is_empty() => component.name.as_str(),
            name => name,
        };
        let namespace = if selector.namespace.is_empty() { own } else { &selector.namespace };
        Self { namespace, name, labels: &selector.label_selector }
    }

    fn fits(&self, object: &Value) -> bool {
        (self.name.is_empty() || name(object) == self.name)
            && self
                .labels
                .iter()
                .all(|(key, value)| vela_apply::object::label(object, key) == Some(value.as_str()))
    }
}

/// The kind as the cluster of the objects serves it; while that cannot be reached as the own one does, so that a revision can be rendered.
async fn resolve(ctx: &AppContext, selector: &Selector) -> Result<Resource, ParseError> {
    let member = member(ctx, &selector.cluster).map_err(|error| error.to_string())?;
    let reached = member.as_ref().and_then(|member| member.reach().ok());
    let io = reached.map_or(&ctx.io, |(io, _)| io);
    let by_kind = ctx.settings.gates.legacy_object_type_identifier && !selector.kind.is_empty();
    let found = if by_kind {
        io.resolve(&selector.api_version, &selector.kind).await
    } else {
        io.discovery().named(&selector.group, &selector.resource).await
    };
    found.map_err(|error| error.to_string().into())
}

/// The member that a selector names; `None` for the own cluster.
fn member(ctx: &AppContext, cluster: &str) -> Result<Option<Arc<Member>>, ApiError> {
    if is_local(cluster) {
        return Ok(None);
    }
    // Reading other clusters needs a flag: their objects would be copied into the hub's revisions.
    if !ctx.settings.refers_to_clusters {
        return Err(ApiError::Config(messages::REFERENCE_OUTSIDE_CONTROL_PLANE.to_owned()));
    }
    match ctx.clusters.snapshot().named(cluster) {
        Named::Own => Ok(None),
        Named::Member(member) => Ok(Some(member)),
        Named::Unclear if ctx.clusters.is_on() => {
            // Not known yet: the attempt is postponed, not failed.
            postponed::postponed(None);
            Err(ApiError::Config(messages::CLUSTERS_UNKNOWN.to_owned()))
        }
        Named::Unclear | Named::Unregistered(_) => {
            Err(ApiError::Config(messages::no_such_cluster(cluster)))
        }
    }
}

/// The objects as they are now.
async fn read(
    session: &Session<'_>,
    component: &ApplicationComponent,
    selector: &Selector,
    resource: &Resource,
) -> Result<Vec<Value>, ParseError> {
    let own = session.owner.namespace.as_str();
    let wanted = Wanted::of(selector, component, own);
    // With the flag on, a namespace may not read from another one, whatever rights the author has.
    if resource.namespaced && wanted.namespace != own && session.ctx.settings.refers_to_namespace {
        return Err(messages::REFERENCE_OUTSIDE_NAMESPACE.into());
    }
    let said = |error: ApiError| messages::cannot(Verb::Get, &error.to_string());
    let reached;
    let io = if is_local(&selector.cluster) {
        session.io()
    } else {
        reached = session.reach_to(&selector.cluster, "get").await.map_err(said)?;
        reached.requests()
    };
    let (version, kind) = (resource.api_version.as_str(), resource.kind.as_str());
    if !wanted.name.is_empty() {
        let target =
            Target { api_version: version, kind, namespace: wanted.namespace, name: wanted.name };
        let object = io.get(&target).await.map_err(said)?;
        return Ok(vec![cleaned(object)]);
    }
    let selector = request::matching(wanted.labels);
    let list = io.list(version, kind, wanted.namespace, &selector).await.map_err(said)?;
    let items = list.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
    let whole = items.into_iter().map(|mut item| {
        // Items of a list lack their types.
        set_type(&mut item, version, kind);
        cleaned(item)
    });
    Ok(whole.collect())
}

/// An object without what belongs to the one it was read from.
fn cleaned(mut object: Value) -> Value {
    let is_service = api_version(&object) == "v1" && kind(&object) == "Service";
    if let Some(map) = object.as_object_mut() {
        map.remove("status");
        if let Some(metadata) = map.get_mut("metadata").and_then(Value::as_object_mut) {
            for key in [
                "resourceVersion",
                "generation",
                "ownerReferences",
                "managedFields",
                "uid",
                "creationTimestamp",
            ] {
                metadata.remove(key);
            }
        }
    }
    // The address of the original cannot be given to a copy; a headless Service has none to take.
    if is_service && str_at(&object, &["spec", "clusterIP"]) != "None" {
        let spec: Option<&mut Map<String, Value>> =
            object.get_mut("spec").and_then(Value::as_object_mut);
        if let Some(spec) = spec {
            spec.remove("clusterIP");
            spec.remove("clusterIPs");
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn component(properties: &Value) -> ApplicationComponent {
        ApplicationComponent {
            name: "c".to_owned(),
            type_: TYPE.to_owned(),
            properties: Some(RawExtension::new(properties)),
            ..ApplicationComponent::default()
        }
    }

    #[test]
    fn mistakes_are_reported() {
        let bad = |properties: Value| {
            read_selectors(&component(&properties), false).expect_err("refused").0
        };
        assert!(bad(json!({"objects": [{"resource": "a", "nam": "b"}]})).contains("nam"));
        let both =
            json!({"objects": [{"resource": "a", "name": "b", "labelSelector": {"x": "y"}}]});
        assert_eq!(bad(both), messages::AMBIGUOUS_REFERENCE);
        assert_eq!(bad(json!({"urls": ["http://a"]})), messages::NO_REFERENCE_BY_URL);
    }

    #[test]
    fn without_a_name_the_component_names_the_object() {
        let one = component(&json!({"objects": [
            {"resource": "configmap"}, {"resource": "configmap", "labelSelector": {"a": "b"}},
        ]}));
        let all = read_selectors(&one, false).expect("readable");
        let object = |name: &str, labels: Value| {
            json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "n", "labels": labels}})
        };
        let by_name = Wanted::of(&all[0], &one, "n");
        assert!(by_name.fits(&object("c", json!({}))) && !by_name.fits(&object("d", json!({}))));
        let by_label = Wanted::of(&all[1], &one, "n");
        assert!(by_label.fits(&object("d", json!({"a": "b"}))));
        assert!(!by_label.fits(&object("c", json!({"a": "c"}))));
    }

    #[test]
    fn the_old_key_of_labels_counts_with_its_gate() {
        let one = component(&json!({"objects": [
            {"resource": "configmap", "deprecatedLabelSelector": {"a": "b"}}]}));
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "d", "namespace": "n", "labels": {"a": "b"}}});
        for gate in [true, false] {
            let all = read_selectors(&one, gate).expect("readable");
            assert_eq!(Wanted::of(&all[0], &one, "n").fits(&object), gate);
        }
    }

    #[test]
    fn what_belongs_to_the_source_goes() {
        let service = |ip: &str| {
            json!({"apiVersion": "v1", "kind": "Service", "status": {"loadBalancer": {}},
                "metadata": {"name": "s", "uid": "1", "resourceVersion": "2", "labels": {"a": "b"}},
                "spec": {"clusterIP": ip, "clusterIPs": [ip], "ports": []}})
        };
        assert_eq!(
            cleaned(service("10.0.0.1")),
            json!({"apiVersion": "v1", "kind": "Service", "spec": {"ports": []},
                "metadata": {"name": "s", "labels": {"a": "b"}}})
        );
        assert_eq!(cleaned(service("None"))["spec"]["clusterIP"], "None");
    }
}
