//! Clusters that join another one, as `vela cluster join` lets them: a Secret with a token.

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::json;

use crate::cluster::Cluster;
use crate::deploy::apply;

/// Where the Secrets of clusters are.
const NAMESPACE: &str = "vela-system";

/// Lets `member` join `hub` under a name, reached at a port of this machine: its own or that of a door before it. The credential
/// may do everything there.
///
/// # Errors
/// When an API server refuses something.
pub async fn join(hub: &Cluster, member: &Cluster, name: &str, port: u16) -> Result<()> {
    let there = member.client().await?;
    for object in [
        json!({"apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": "vela-hub", "namespace": "kube-system"}}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "vela-hub"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "vela-hub", "namespace": "kube-system"}]}),
    ] {
        apply(&there, &object).await?;
    }
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(24 * 3600),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let accounts: Api<ServiceAccount> = Api::namespaced(there, "kube-system");
    let answer =
        accounts.create_token_request("vela-hub", &PostParams::default(), &request).await?;
    let token = answer.status.context("a token request without a token")?.token;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {
            "cluster.core.oam.dev/cluster-credential-type": "ServiceAccountToken"}},
        "stringData": {
            "endpoint": format!("https://127.0.0.1:{port}"),
            "ca.crt": member.authority().certificate(),
            "token": token,
        },
    });
    apply(&hub.client().await?, &secret).await
}

/// The port of a cluster's API server.
///
/// # Errors
/// When its address names none.
pub fn port(cluster: &Cluster) -> Result<u16> {
    let port = cluster.server().rsplit(':').next().unwrap_or_default();
    port.trim_end_matches('/').parse().with_context(|| format!("no port in {}", cluster.server()))
}
