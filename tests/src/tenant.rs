//! Tenants: users with every right in one namespace and none elsewhere.

use anyhow::Result;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::json;

use crate::cluster::Cluster;
use crate::deploy::apply_all;

/// A user with every right in a namespace of the same name.
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
    /// Creates the namespace and the rights in it.
    ///
    /// # Errors
    /// The API server's.
    pub async fn new(cluster: &Cluster, name: &str) -> Result<Self> {
        let objects = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
                "metadata": {"name": "tenant", "namespace": name},
                "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}],
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
                "metadata": {"name": "tenant", "namespace": name},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
                "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
            }),
        ];
        apply_all(&cluster.client().await?, objects).await?;
        let client = cluster.client_as(name, &["system:authenticated"]).await?;
        Ok(Self { client, name: name.to_owned() })
    }

    /// The user's name and the namespace.
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
