//! An object of any kind as a list or a watch sends it, read into one tree in one go. The type that the client has for this
//! reads an object in pieces and through a buffer, and its managed fields into types of their own, which nobody looks at.

use std::borrow::Cow;

use kube::Resource;
use kube::api::{ApiResource, ObjectMeta};
use kube::core::DynamicResourceScope;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use vela_apply::object::{name, namespace, set_type, str_at};

use crate::store::Key;

/// An object, and of its metadata what the watch itself asks for.
#[derive(Clone, Debug)]
pub(crate) struct Observed {
    metadata: ObjectMeta,
    value: Value,
}

impl<'de> Deserialize<'de> for Observed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        let text = |key| Some(str_at(&value, &["metadata", key]).to_owned());
        let metadata = ObjectMeta {
            name: text("name"),
            namespace: text("namespace").filter(|namespace| !namespace.is_empty()),
            resource_version: text("resourceVersion"),
            uid: text("uid"),
            ..ObjectMeta::default()
        };
        Ok(Self { metadata, value })
    }
}

impl Resource for Observed {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(of: &ApiResource) -> Cow<'_, str> {
        of.kind.as_str().into()
    }
    fn group(of: &ApiResource) -> Cow<'_, str> {
        of.group.as_str().into()
    }
    fn version(of: &ApiResource) -> Cow<'_, str> {
        of.version.as_str().into()
    }
    fn api_version(of: &ApiResource) -> Cow<'_, str> {
        of.api_version.as_str().into()
    }
    fn plural(of: &ApiResource) -> Cow<'_, str> {
        of.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Observed {
    /// Namespace and name.
    pub(crate) fn key(&self) -> Key {
        Key::new(namespace(&self.value), name(&self.value))
    }

    /// Its uid.
    pub(crate) fn uid(&self) -> &str {
        str_at(&self.value, &["metadata", "uid"])
    }

    /// Its resourceVersion.
    pub(crate) fn version(&self) -> &str {
        str_at(&self.value, &["metadata", "resourceVersion"])
    }

    /// The object. The items of a list do not say what they are; templates and plans look at that.
    pub(crate) fn into_value(mut self, resource: &ApiResource) -> Value {
        set_type(&mut self.value, &resource.api_version, &resource.kind);
        self.value
    }

    /// Its metadata alone, as part of an object.
    pub(crate) fn into_metadata(mut self) -> Value {
        json!({"metadata": self.value.get_mut("metadata").map(Value::take)})
    }
}

#[cfg(test)]
mod tests {
    use kube::api::{ObjectList, WatchEvent};

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
        let list: ObjectList<Observed> = serde_json::from_value(list).expect("a list");
        let items: Vec<Value> =
            list.items.into_iter().map(|item| item.into_value(&resource())).collect();
        assert_eq!(
            items,
            [json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "n"}, "data": {"k": "v"}})]
        );
    }

    #[test]
    fn what_a_watch_sends_is_the_object_with_what_the_watch_needs() {
        let sent = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": "v"}, "metadata": {
            "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "8", "labels": {"l": "m"},
            "managedFields": [{"manager": "kubectl", "operation": "Update", "time": "2026-01-01T00:00:00Z"}]}});
        let text = json!({"type": "MODIFIED", "object": sent}).to_string();
        let Ok(WatchEvent::Modified(seen)) = serde_json::from_str::<WatchEvent<Observed>>(&text)
        else {
            panic!("not a change: {text}");
        };
        let parts = (seen.meta().name.as_deref(), seen.meta().namespace.as_deref());
        assert_eq!(parts, (Some("a"), Some("n")));
        assert_eq!((seen.version(), seen.uid()), ("8", "u"));
        assert_eq!(seen.meta().resource_version.as_deref(), Some("8"));
        assert_eq!(seen.key(), Key::new("n", "a"));
        assert_eq!(seen.clone().into_metadata(), json!({"metadata": sent["metadata"]}));
        assert_eq!(seen.into_value(&resource()), sent);
    }
}
