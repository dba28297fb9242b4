//! What the nodes of a cluster have and use, for the metrics `cluster_*`.

use http::Request;
use kube::Client;
use serde_json::Value;
use vela_apply::quantity::nanos;
use vela_cluster::ApiError;

/// Nodes in one answer to a list: a page is in memory as a tree.
const PAGE: usize = 100;
/// Pages that are read: beyond it a cluster is not counted to its end.
const PAGES: usize = 100;

/// The sums over the nodes of a cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nodes {
    /// Nodes of the control plane.
    pub masters: i64,
    /// The others.
    pub workers: i64,
    /// What they have.
    pub capacity: Amounts,
    /// What of it Pods may have.
    pub allocatable: Amounts,
    /// What is used; `None` if nobody measures it.
    pub usage: Option<Amounts>,
}

/// Amounts of resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Thousandths of a core.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Pods.
    pub pods: i64,
}

impl Amounts {
    fn add(&mut self, of: Option<&Value>) {
        let amount = |name: &str, unit: i128| -> i64 {
            let nanos = of.and_then(|of| of.get(name)).and_then(nanos).unwrap_or(0);
            i64::try_from(nanos / unit).unwrap_or(0)
        };
        self.cpu = self.cpu.saturating_add(amount("cpu", 1_000_000));
        self.memory = self.memory.saturating_add(amount("memory", 1_000_000_000));
        self.pods = self.pods.saturating_add(amount("pods", 1_000_000_000));
    }
}

/// The labels of nodes of the control plane, of older and of newer Kubernetes.
const MASTER: [&str; 2] =
    ["node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane"];

impl Nodes {
    fn add(&mut self, node: &Value) {
        let labels = node.pointer("/metadata/labels").and_then(Value::as_object);
        let is_master =
            labels.is_some_and(|labels| MASTER.iter().any(|key| labels.contains_key(*key)));
        let count = if is_master { &mut self.masters } else { &mut self.workers };
        *count = count.saturating_add(1);
        self.capacity.add(node.pointer("/status/capacity"));
        self.allocatable.add(node.pointer("/status/allocatable"));
    }

    /// Reads them.
    ///
    /// # Errors
    /// The nodes cannot be read. Without their use there is none.
    pub(super) async fn read(client: &Client) -> Result<Self, ApiError> {
        let mut all = Self::default();
        each(client, "/api/v1/nodes", |node| all.add(node)).await?;
        let mut usage = Amounts::default();
        let used = each(client, "/apis/metrics.k8s.io/v1beta1/nodes", |node| {
            usage.add(node.get("usage"));
        });
        all.usage = used.await.is_ok().then_some(usage);
        Ok(all)
    }
}

/// Calls a function for every item of a list.
async fn each(client: &Client, path: &str, mut of: impl FnMut(&Value)) -> Result<(), ApiError> {
    let mut next = String::new();
    for _ in 0..PAGES {
        let more = if next.is_empty() { String::new() } else { format!("&continue={next}") };
        let request = Request::get(format!("{path}?limit={PAGE}{more}")).body(Vec::new());
        let request = request.map_err(|error| ApiError::Transport(error.to_string()))?;
        let text = client.request_text(request).await.map_err(ApiError::from)?;
        let list: Value =
            serde_json::from_str(&text).map_err(|error| ApiError::Transport(error.to_string()))?;
        list.get("items").and_then(Value::as_array).into_iter().flatten().for_each(&mut of);
        let token = list.pointer("/metadata/continue").and_then(Value::as_str).unwrap_or_default();
        if token.is_empty() || !token.bytes().all(is_token) {
            break;
        }
        token.clone_into(&mut next);
    }
    Ok(())
}

/// What may stand in a query as it is.
fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test]
    async fn nodes_are_added_up_over_pages_and_their_use_may_be_unknown() {
        for measured in [true, false] {
            let service =
                tower::service_fn(move |request: Request<kube::client::Body>| async move {
                    let uri = request.uri().to_string();
                    let node = |label: &str| {
                        json!({"metadata": {"labels": {label: ""}}, "status": {
                        "capacity": {"cpu": "4", "memory": "1Ki", "pods": "110"},
                        "allocatable": {"cpu": "3500m", "memory": "1000", "pods": "100"}}})
                    };
                    let answer = match uri.as_str() {
                        "/api/v1/nodes?limit=100" => {
                            json!({"metadata": {"continue": "abc"}, "items": [node(MASTER[0])]})
                        }
                        "/api/v1/nodes?limit=100&continue=abc" => {
                            json!({"items": [node(MASTER[1]), node("other")]})
                        }
                        _ if measured => {
                            json!({"items": [{"usage": {"cpu": "250000000n", "memory": "5Ki"}}]})
                        }
                        _ => json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
                    };
                    let code = if answer["code"] == 404 { 404 } else { 200 };
                    let body = kube::client::Body::from(answer.to_string().into_bytes());
                    let answer = http::Response::builder().status(code).body(body);
                    answer.map_err(tower::BoxError::from)
                });
            let nodes = Nodes::read(&Client::new(service, "default")).await.unwrap();
            assert_eq!((nodes.masters, nodes.workers), (2, 1));
            assert_eq!(nodes.capacity, Amounts { cpu: 12_000, memory: 3072, pods: 330 });
            assert_eq!(nodes.allocatable, Amounts { cpu: 10_500, memory: 3000, pods: 300 });
            let usage = Amounts { cpu: 250, memory: 5120, pods: 0 };
            assert_eq!(nodes.usage, measured.then_some(usage));
        }
    }
}
