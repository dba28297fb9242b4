//! Objects as a list or a watch sends them, and of their metadata what the watch itself asks for.
//!
//! An object may be unreadable: one bad object must not stop a watch. The client's guard copies every object through a generic
//! tree; here the text is kept, of which only the metadata is read, until the object is known to be needed. One of any kind is read
//! into one tree in one go then: the type that the client has for this reads it in pieces and through a buffer, and its managed
//! fields into types of their own, which are never used.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::de::{DeserializeOwned, DeserializeSeed, Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use tracing::warn;
use vela_api::names::label;
use vela_apply::Owner;
use vela_apply::object::set_type;

use crate::coalesced::Sent;
use crate::share::Whose;
use crate::store::{Key, Stored};

/// An object that was sent.
#[derive(Clone, Debug)]
pub(crate) struct Observed<T> {
    /// No more than names, version and uid.
    metadata: ObjectMeta,
    object: T,
}

/// An object of a kind of ours as it was sent: it is read when it is known to be needed.
#[derive(Clone, Debug)]
pub(crate) struct Unread<K> {
    text: Box<RawValue>,
    /// Only labels of Applications are of interest; a map that is none has none.
    labels: BTreeMap<String, String>,
    kind: PhantomData<fn() -> K>,
}

pub(crate) type Guarded<K> = Observed<Unread<K>>;

/// An object as a tree, without the fields of its managers.
pub(crate) struct Tree(pub(crate) Value);

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        With("metadata", With("managedFields", Managers)).deserialize(deserializer).map(Self)
    }
}

/// An object of any kind as it was sent, likewise.
pub(crate) type Any = Observed<Box<RawValue>>;

impl<'de> Deserialize<'de> for Any {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let object = Box::<RawValue>::deserialize(deserializer)?;
        let names = OnlyNames::of(&object).map_err(D::Error::custom)?;
        Ok(Self { metadata: names.into(), object })
    }
}

/// A map whose one field is read in another way.
#[derive(Clone, Copy)]
struct With<S>(&'static str, S);

impl<'de, S: DeserializeSeed<'de, Value = Value> + Copy> DeserializeSeed<'de> for With<S> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = Value> + Copy> Visitor<'de> for With<S> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = serde_json::Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let value = if key == self.0 {
                fields.next_value_seed(self.1)?
            } else {
                fields.next_value()?
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// Managed fields without the fields, which are half of many an object: who wrote when.
#[derive(Clone, Copy)]
struct Managers;

#[derive(Deserialize, Serialize)]
struct Manager {
    manager: Option<String>,
    time: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<String>,
}

impl<'de> DeserializeSeed<'de> for Managers {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        let managers = Option::<Vec<Manager>>::deserialize(deserializer)?;
        serde_json::to_value(managers).map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
struct OnlyMetadata {
    #[serde(default)]
    metadata: OnlyNames,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OnlyNames {
    name: Option<String>,
    namespace: Option<String>,
    resource_version: Option<String>,
    uid: Option<String>,
    labels: Option<Box<RawValue>>,
}

/// Of an object's metadata what an edit changes.
#[derive(Deserialize)]
struct OnlyMarks {
    metadata: Marks,
}

#[derive(Deserialize)]
struct Marks {
    generation: Option<i64>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl OnlyNames {
    fn of(object: &RawValue) -> serde_json::Result<Self> {
        Ok(serde_json::from_str::<OnlyMetadata>(object.get())?.metadata)
    }
}

impl From<OnlyNames> for ObjectMeta {
    fn from(names: OnlyNames) -> Self {
        let OnlyNames { name, namespace, resource_version, uid, labels: _ } = names;
        Self { name, namespace, resource_version, uid, ..Self::default() }
    }
}

impl<'de, K> Deserialize<'de> for Guarded<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        let mut names = OnlyNames::of(&text).map_err(D::Error::custom)?;
        let labels = names.labels.take().and_then(|text| serde_json::from_str(text.get()).ok());
        let object = Unread { text, labels: labels.unwrap_or_default(), kind: PhantomData };
        Ok(Self { metadata: names.into(), object })
    }
}

/// The Application that labels name as the owner of an object.
pub(crate) fn owner_of(labels: &BTreeMap<String, String>) -> Option<Owner> {
    let of = |key| labels.get(key).filter(|value| !value.is_empty()).cloned();
    Some(Owner { namespace: of(label::APP_NAMESPACE)?, name: of(label::APP_NAME)? })
}

/// Typed or not, the kind is given as a value: one watch serves both.
impl<T> Resource for Observed<T> {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl<K> Sent for Guarded<K> {
    fn key(&self) -> Key {
        Self::key(self)
    }
    fn bytes(&self) -> usize {
        self.object.text.get().len()
    }
}

impl Sent for Any {
    fn key(&self) -> Key {
        Self::key(self)
    }
    fn bytes(&self) -> usize {
        self.object.get().len()
    }
}

impl<T> Observed<T> {
    /// Namespace and name.
    pub(crate) fn key(&self) -> Key {
        Key::new(
            self.metadata.namespace.as_deref().unwrap_or_default(),
            self.metadata.name.as_deref().unwrap_or_default(),
        )
    }

    /// Its resourceVersion.
    pub(crate) fn version(&self) -> &str {
        self.metadata.resource_version.as_deref().unwrap_or_default()
    }

    fn unreadable(&self, resource: &str, error: &serde_json::Error) {
        let Key { namespace, name } = self.key();
        warn!(%resource, namespace, name, %error, "an object cannot be read and is ignored");
    }
}

impl Any {
    /// The Application that its labels name.
    pub(crate) fn owner(&self) -> Option<Owner> {
        let labels = OnlyNames::of(&self.object).ok()?.labels?;
        owner_of(&serde_json::from_str(labels.get()).ok()?)
    }

    /// Its uid.
    pub(crate) fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// The object, or `None` and a warning: it is nested too deeply, for instance. The items of a list do not say what they are;
    /// templates and plans read that.
    pub(crate) fn open(&self, resource: &ApiResource) -> Option<Value> {
        match serde_json::from_str(self.object.get()) {
            Ok(Tree(mut object)) => {
                set_type(&mut object, &resource.api_version, &resource.kind);
                Some(object)
            }
            Err(error) => {
                self.unreadable(&resource.plural, &error);
                None
            }
        }
    }
}

impl<K: DeserializeOwned> Guarded<K> {
    /// The object, or `None` and a warning.
    pub(crate) fn open(&self, resource: &str) -> Option<K> {
        match serde_json::from_str(self.object.text.get()) {
            Ok(object) => Some(object),
            Err(error) => {
                self.unreadable(resource, &error);
                None
            }
        }
    }

    /// Whether no more than the status of what is cached of it changed.
    pub(crate) fn is_unedited(&self, known: &impl Stored) -> bool {
        let marks = serde_json::from_str::<OnlyMarks>(self.object.text.get());
        marks.is_ok_and(|OnlyMarks { metadata: Marks { generation, labels, annotations } }| {
            known.is_unedited(&ObjectMeta {
                generation,
                labels,
                annotations,
                ..ObjectMeta::default()
            })
        })
    }

    /// The Application that it belongs to, as far as that decides whether it is kept.
    pub(crate) fn app(&self, whose: Whose) -> Option<Key> {
        let ObjectMeta { namespace, name, .. } = &self.metadata;
        let [namespace, name] = [namespace, name].map(|it| it.as_deref().unwrap_or_default());
        whose.of_sent((namespace, name), &self.object.labels)
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};

    use serde_json::json;

    use super::*;

    fn resource() -> ApiResource {
        ApiResource {
            group: String::new(),
            version: "v1".to_owned(),
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
        }
    }

    #[test]
    fn items_of_lists_know_what_they_are() {
        let list = json!({"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"resourceVersion": "7"}, "items": [
            {"metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}]});
        let list: ObjectList<Any> = serde_json::from_str(&list.to_string()).expect("a list");
        let items: Vec<_> = list.items.iter().map(|item| item.open(&resource())).collect();
        assert_eq!(
            items,
            [Some(json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}}))]
        );
    }

    #[test]
    fn what_a_watch_sends_is_the_object_with_what_the_watch_needs() {
        let sent = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "8", "labels": {"l": "m"},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z",
                "subresource": "status", "fieldsV1": {"f:data": {".": {}, "f:k": {}}}}]}});
        // The API server names the type first, and a text is only kept if it does.
        let text = format!(r#"{{"type": "MODIFIED", "object": {sent}}}"#);
        let Ok(WatchEvent::Modified(seen)) = serde_json::from_str::<WatchEvent<Any>>(&text) else {
            panic!("not a change: {text}");
        };
        let parts = (seen.meta().name.as_deref(), seen.meta().namespace.as_deref());
        assert_eq!(parts, (Some("a"), Some("n")));
        assert_eq!((seen.version(), seen.uid()), ("8", "u"));
        assert_eq!(seen.meta().resource_version.as_deref(), Some("8"));
        assert_eq!(seen.key(), Key::new("n", "a"));
        // Of managed fields remains who wrote when.
        let mut kept = sent;
        kept["metadata"]["managedFields"] = json!([{"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "subresource": "status"}]);
        assert_eq!(seen.open(&resource()), Some(kept));
    }

    #[test]
    fn an_object_that_is_nested_too_deeply_has_names_and_is_not_read() {
        let deep = format!("{}{}", "[".repeat(1000), "]".repeat(1000));
        let text = format!(
            r#"{{"type": "ADDED", "object": {{"metadata": {{"name": "a", "uid": "u"}}, "spec": {deep}}}}}"#
        );
        let Ok(WatchEvent::Added(seen)) = serde_json::from_str::<WatchEvent<Any>>(&text) else {
            panic!("not an addition");
        };
        assert_eq!((seen.key(), seen.uid()), (Key::new("", "a"), "u"));
        assert_eq!(seen.open(&resource()), None);
    }
}
