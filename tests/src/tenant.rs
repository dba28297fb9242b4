//! Tenants: users with every right in one namespace and none elsewhere.

use anyhow::Result;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::deploy::apply_all;

const RBAC: &str = "rbac.authorization.k8s.io";

/// A user, as a binding names him.
#[must_use]
pub fn user(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "User", "name": name})
}

/// A group, as a binding names it.
#[must_use]
pub fn group(name: &str) -> Value {
    json!({"apiGroup": RBAC, "kind": "Group", "name": name})
}

/// Every right in a namespace, for these subjects.
#[must_use]
pub fn every_right_in(namespace: &str, subjects: &[Value]) -> Vec<Value> {
    let metadata = json!({"name": "tenant", "namespace": namespace});
    vec![
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}),
        json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "tenant"}, "subjects": subjects}),
    ]
}

/// A ClusterRole for a subject, under a name of one's own.
#[must_use]
pub fn bound(name: &str, cluster_role: &str, subject: &Value) -> Value {
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": cluster_role}, "subjects": [subject]})
}

/// A user with every right in a namespace.
#[derive(Clone)]
pub struct Tenant {
    client: Client,
    name: String,
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tenant").field(&self.name).finish()
    }
}

impl Tenant {
    /// Creates a namespace, and the rights in it of a user of the same name.
    ///
    /// # Errors
    /// The API server's.
    pub async fn new(cluster: &Cluster, name: &str) -> Result<Self> {
        Self::called(cluster, name, name).await
    }

    /// The same, for a user of this name.
    ///
    /// # Errors
    /// The API server's.
    pub async fn called(cluster: &Cluster, namespace: &str, name: &str) -> Result<Self> {
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        let mut objects = vec![made];
        objects.extend(every_right_in(namespace, &[user(name)]));
        apply_all(&cluster.client().await?, objects).await?;
        let client = cluster.client_as(name, &["system:authenticated"]).await?;
        Ok(Self { client, name: namespace.to_owned() })
    }

    /// The namespace.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Acts as the user.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Objects of `core.oam.dev/v1beta1` in the namespace, as the user sees them.
    #[must_use]
    pub fn objects(&self, kind: &str) -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("core.oam.dev", "v1beta1", kind);
        Api::namespaced_with(self.client.clone(), &self.name, &ApiResource::from_gvk(&gvk))
    }
}
