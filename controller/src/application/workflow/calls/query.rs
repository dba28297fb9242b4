//! `vela/query` (and `vela/ql`): what an Application consists of, with the identity of the Application that asks.
//!
//! Objects come from the trackers; what they made in turn (ReplicaSets, Pods) is found by their selectors.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use vela_apply::object::{cluster_of, is_local, str_at};
use vela_apply::tracker::{Record, identity};
use vela_cluster::packed::PackError;
use vela_cluster::{ApiError, Class, Key, Target};

use crate::application::refresh;
use crate::application::workflow::error::StepError;
use crate::messages;

use super::super::selector::selector;
use super::{Calling, kube, names, text};

/// How long a query waits for each cluster but the own one.
const MEMBER_LIMIT: Duration = Duration::from_secs(5);

/// Whether a function of the package is answered.
pub(super) fn answers(function: &str) -> bool {
    matches!(
        function,
        "listResourcesInApp"
            | "listAppliedResources"
            | "collectResources"
            | "collectServiceEndpoints"
            | "searchEvents"
            | "collectLogsInPod"
    )
}

/// Which objects of an Application are meant.
struct Filter {
    cluster: String,
    namespace: String,
    components: Vec<String>,
    kind: String,
    api_version: String,
}

impl Filter {
    fn of(app: &Value) -> Self {
        let filter = app.get("filter").cloned().unwrap_or_default();
        Self {
            cluster: text(&filter, "cluster").to_owned(),
            namespace: text(&filter, "clusterNamespace").to_owned(),
            components: names(&filter, "components"),
            kind: text(&filter, "kind").to_owned(),
            api_version: text(&filter, "apiVersion").to_owned(),
        }
    }

    fn takes(&self, record: &Record) -> bool {
        (self.cluster.is_empty() || self.cluster == cluster_of(&record.cluster))
            && (self.namespace.is_empty() || self.namespace == record.namespace)
            && (self.components.is_empty() || self.components.contains(&record.component))
            && !record.deleted
    }

    fn takes_kind(&self, api_version: &str, kind: &str) -> bool {
        (self.kind.is_empty() || self.kind == kind)
            && (self.api_version.is_empty() || self.api_version == api_version)
    }
}

/// What is to be read of a record's object: itself, or the Pods that it made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Itself,
    Pods,
}

/// What a query found.
#[derive(Default)]
struct Found {
    list: Vec<Value>,
    /// Clusters that did not say what is in them, and why.
    silent: BTreeSet<String>,
}

impl Found {
    fn answer(self) -> Value {
        let Self { list, silent } = self;
        if silent.is_empty() {
            return json!({ "list": list });
        }
        let silent: Vec<String> = silent.into_iter().collect();
        json!({ "list": list, "err": messages::errors(&silent) })
    }
}

/// Objects one by one, each with its record.
fn each_object(found: Vec<(&Record, Vec<Value>)>) -> impl Iterator<Item = (&Record, Value)> {
    found.into_iter().flat_map(|(record, all)| all.into_iter().map(move |object| (record, object)))
}

impl Calling<'_, '_, '_> {
    pub(super) async fn query(
        &mut self,
        function: &str,
        params: &Value,
    ) -> Result<Value, StepError> {
        // These two are not about the objects of an Application.
        if function == "searchEvents" {
            return self.events(params).await;
        }
        if function == "collectLogsInPod" {
            return self.logs(params).await;
        }
        let app = params.get("app").cloned().unwrap_or_default();
        let filter = Filter::of(&app);
        let (namespace, name) = (text(&app, "namespace"), text(&app, "name"));
        let records = match self.may_ask(namespace, name).await {
            Ok(()) => self.records(namespace, name, &filter).await,
            Err(error) => Err(error),
        };
        let records = match records {
            Ok(records) => records,
            Err(error) if function == "collectServiceEndpoints" => return Err(error),
            Err(error) => return Ok(json!({ "err": error.to_string() })),
        };
        let found = match function {
            "listResourcesInApp" => self.resources(&records, &filter).await,
            "listAppliedResources" => {
                let taken = records.iter().filter(|r| filter.takes_kind(&r.api_version, &r.kind));
                Found { list: taken.map(applied).collect(), ..Found::default() }
            }
            "collectResources" => self.collected(&records, &filter).await,
            _ => self.endpoints(&records).await,
        };
        Ok(found.answer())
    }

    /// Whether the author may see an Application: the caches hold those of all namespaces.
    async fn may_ask(&self, namespace: &str, name: &str) -> Result<(), StepError> {
        let session = &*self.session;
        // Its own Application needs no right, and neither does who acts as the controller.
        let is_own = namespace == session.owner.namespace && name == session.owner.name;
        if is_own || !session.actors.author.is_other() {
            return Ok(());
        }
        let (api_version, kind) = (vela_api::V1BETA1, vela_api::Application::KIND);
        let target = Target { api_version, kind, namespace, name };
        // Asked of the API server as the author.
        match session.io().get(&target).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_not_found() => Err(messages::query_app_missing(name).into()),
            Err(error) => Err(error.into()),
        }
    }

    /// What the trackers of an Application say, which may be another replica's.
    async fn records(
        &self,
        namespace: &str,
        name: &str,
        filter: &Filter,
    ) -> Result<Vec<Record>, StepError> {
        let ctx = self.session.ctx;
        let key = Key::new(namespace, name);
        if ctx.apps.get(&key).is_none() {
            return Err(messages::query_app_missing(name).into());
        }
        let mut records: Vec<Record> = Vec::new();
        for tracker in refresh::trackers(ctx, &key).await? {
            let mut tracker = tracker?;
            tracker.expand().map_err(PackError::from)?;
            for record in tracker.spec.managed_resources {
                // Several trackers may record one object.
                let same = |other: &Record| identity(other) == identity(&record);
                if filter.takes(&record) && !records.iter().any(same) {
                    records.push(record);
                }
            }
        }
        Ok(records)
    }

    /// Reads what is wanted of each record: all clusters at once, each within its time. One that does not answer hides nothing of the others.
    async fn read_all<'r>(
        &self,
        wanted: impl Iterator<Item = (&'r Record, Wanted)>,
    ) -> (Vec<(&'r Record, Vec<Value>)>, BTreeSet<String>) {
        let mut by_cluster: BTreeMap<&str, Vec<(usize, &Record, Wanted)>> = BTreeMap::new();
        for (index, (record, what)) in wanted.enumerate() {
            by_cluster.entry(cluster_of(&record.cluster)).or_default().push((index, record, what));
        }
        let each = by_cluster.into_iter().map(|(cluster, all)| self.read_in(cluster, all).boxed());
        let (mut found, mut silent) = (BTreeMap::new(), BTreeSet::new());
        for (objects, why) in join_all(each).await {
            found.extend(objects);
            silent.extend(why);
        }
        (found.into_values().collect(), silent)
    }

    /// The same in one cluster, in the order of the list; what was read until it did not answer, and why.
    async fn read_in<'r>(
        &self,
        cluster: &str,
        wanted: Vec<(usize, &'r Record, Wanted)>,
    ) -> (Vec<(usize, (&'r Record, Vec<Value>))>, Option<String>) {
        let mut found = Vec::with_capacity(wanted.len());
        let deadline = Instant::now() + MEMBER_LIMIT;
        for (index, record, what) in wanted {
            let reading = self.objects(record, what);
            let objects = if is_local(cluster) {
                reading.await
            } else {
                let in_time = timeout_at(deadline, reading).await;
                match in_time {
                    Ok(objects) => objects,
                    Err(_) => return (found, Some(messages::query_timed_out(cluster))),
                }
            };
            match objects {
                Ok(objects) => found.push((index, (record, objects))),
                Err(error) if matches!(error.class(), Class::Retry(_)) => {
                    return (found, Some(error.to_string()));
                }
                // As the author: what he may not read is left out.
                Err(_) => {}
            }
        }
        (found, None)
    }

    async fn objects(&self, record: &Record, wanted: Wanted) -> Result<Vec<Value>, ApiError> {
        let at = self.session.reach_to(&record.cluster, "get").await?;
        let target = Target {
            api_version: &record.api_version,
            kind: &record.kind,
            namespace: &record.namespace,
            name: &record.name,
        };
        let live = at.requests().get(&target).await?;
        if wanted == Wanted::Itself {
            return Ok(vec![live]);
        }
        let selector = selector(live.pointer("/spec/selector/matchLabels"));
        // An empty selector would match every Pod of the namespace.
        if selector.is_empty() {
            return Ok(Vec::new());
        }
        let all = at.requests().list("v1", "Pod", &record.namespace, &selector).await?;
        let items = all.get("items").and_then(Value::as_array).into_iter().flatten();
        Ok(items.map(|pod| kube::named(pod, "Pod")).collect())
    }

    async fn resources(&self, records: &[Record], filter: &Filter) -> Found {
        let taken = records.iter().filter(|r| filter.takes_kind(&r.api_version, &r.kind));
        let (found, silent) = self.read_all(taken.map(|record| (record, Wanted::Itself))).await;
        let one = |(record, object): (&Record, Value)| {
            json!({
                "cluster": record.cluster, "component": record.component,
                "revision": str_at(&object, &["metadata", "labels", "app.oam.dev/appRevision"]),
                "object": object,
            })
        };
        Found { list: each_object(found).map(one).collect(), silent }
    }

    /// Objects of one kind, also those that recorded objects made.
    async fn collected(&self, records: &[Record], filter: &Filter) -> Found {
        let wanted = records.iter().filter_map(|record| {
            let Record { api_version, kind, .. } = record;
            // Pods are recorded nowhere: they are found through what made them.
            let makes_pods = filter.kind == "Pod"
                && matches!(
                    kind.as_str(),
                    "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicaSet" | "Job"
                );
            match filter.takes_kind(api_version, kind) {
                true => Some((record, Wanted::Itself)),
                false => makes_pods.then_some((record, Wanted::Pods)),
            }
        });
        let (found, silent) = self.read_all(wanted).await;
        let one = |(record, object): (&Record, Value)| {
            json!({
                "cluster": record.cluster, "component": record.component, "object": object,
                "publishVersion": "", "deployVersion": "",
                "workload": {
                    "apiVersion": record.api_version, "kind": record.kind,
                    "name": record.name, "namespace": record.namespace,
                },
            })
        };
        Found { list: each_object(found).map(one).collect(), silent }
    }

    async fn endpoints(&self, records: &[Record]) -> Found {
        let is_one = |record: &&Record| matches!(record.kind.as_str(), "Service" | "Ingress");
        let taken = records.iter().filter(is_one);
        let (found, silent) = self.read_all(taken.map(|record| (record, Wanted::Itself))).await;
        let mut list = Vec::new();
        for (record, live) in each_object(found) {
            let node = if str_at(&live, &["spec", "type"]) == "NodePort" {
                self.node_address().await
            } else {
                String::new()
            };
            for endpoint in endpoints_of(&live, &node) {
                list.push(json!({
                    "endpoint": endpoint, "cluster": record.cluster, "component": record.component,
                    "ref": {
                        "apiVersion": record.api_version, "kind": record.kind,
                        "name": record.name, "namespace": record.namespace,
                    },
                }));
            }
        }
        Found { list, silent }
    }

    /// An address of a node: an external one rather than an internal one.
    async fn node_address(&self) -> String {
        // nodes are no secret of the Application's namespace: the controller reads them
        let own = vela_cluster::Identity::default();
        let all = self.session.ctx.io.list("v1", "Node", "", "", &own).await.unwrap_or_default();
        let nodes = all.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
        let of = |kind: &str| {
            nodes.iter().find_map(|node| {
                let all = node.pointer("/status/addresses")?.as_array()?;
                let found = all.iter().find(|address| text(address, "type") == kind)?;
                Some(text(found, "address").to_owned())
            })
        };
        // Users outside of the cluster reach an external address only.
        of("ExternalIP").or_else(|| of("InternalIP")).unwrap_or_default()
    }

    async fn events(&self, params: &Value) -> Result<Value, StepError> {
        let object = params.get("value").filter(|value| value.is_object());
        let object = object.ok_or(messages::EVENTS_OF_NOTHING)?;
        let namespace = str_at(object, &["metadata", "namespace"]);
        let session = &*self.session;
        let all = session.io().list("v1", "Event", namespace, "").await;
        let all = match all {
            Ok(all) => all,
            Err(error) => return Ok(json!({ "err": error.to_string() })),
        };
        let about = |event: &&Value| {
            let involved = &event["involvedObject"];
            let uid = str_at(object, &["metadata", "uid"]);
            text(involved, "name") == str_at(object, &["metadata", "name"])
                && text(involved, "kind") == text(object, "kind")
                // An object that was made again has the name of the old one, and other events.
                && (uid.is_empty() || text(involved, "uid") == uid)
        };
        let items = all.get("items").and_then(Value::as_array).into_iter().flatten();
        Ok(json!({ "list": items.filter(about).collect::<Vec<_>>() }))
    }

    async fn logs(&self, params: &Value) -> Result<Value, StepError> {
        let options = params.get("options").cloned().unwrap_or_default();
        let (pod, container) = (text(params, "pod"), text(&options, "container"));
        if pod.is_empty() {
            return Err(messages::LOGS_OF_NO_POD.into());
        }
        if container.is_empty() {
            return Err(messages::LOGS_OF_NO_CONTAINER.into());
        }
        let session = &*self.session;
        let mut query = vec![("container".to_owned(), container.to_owned())];
        for key in
            ["previous", "timestamps", "sinceSeconds", "tailLines", "limitBytes", "sinceTime"]
        {
            match options.get(key) {
                None | Some(Value::Null | Value::Bool(false)) => {}
                Some(Value::String(text)) => query.push((key.to_owned(), text.clone())),
                Some(other) => query.push((key.to_owned(), other.to_string())),
            }
        }
        // A log may be larger than the memory of the controller.
        if !query.iter().any(|(key, _)| key == "limitBytes") {
            query.push(("limitBytes".to_owned(), crate::egress::http::MAX_BODY.to_string()));
        }
        let target = Target {
            api_version: "v1",
            kind: "Pod",
            namespace: text(params, "namespace"),
            name: pod,
        };
        let fetched = session.io().text(&target, "log", &query).await;
        Ok(match fetched {
            Ok(logs) => {
                use base64::Engine as _;
                let logs = base64::engine::general_purpose::STANDARD.encode(logs);
                json!({"outputs": {"logs": logs, "info": {"fromDate": "", "toDate": ""}}})
            }
            Err(error) => json!({"outputs": {"err": error.to_string()}}),
        })
    }
}

fn applied(record: &Record) -> Value {
    json!({
        "cluster": record.cluster, "component": record.component, "trait": record.trait_,
        "apiVersion": record.api_version, "kind": record.kind, "name": record.name,
        "namespace": record.namespace,
    })
}

fn app_protocol(port: i64) -> &'static str {
    match port {
        80 | 8080 => "http",
        443 => "https",
        3306 => "mysql",
        6379 => "redis",
        _ => "",
    }
}

/// Where an object can be reached. `node` is the address of a node.
fn endpoints_of(object: &Value, node: &str) -> Vec<Value> {
    if text(object, "kind") == "Ingress" { ingress(object) } else { service(object, node) }
}

fn service(service: &Value, node: &str) -> Vec<Value> {
    let ports =
        service.pointer("/spec/ports").and_then(Value::as_array).cloned().unwrap_or_default();
    let kind = str_at(service, &["spec", "type"]);
    let (hosts, inner) = match kind {
        "LoadBalancer" => {
            let all = service.pointer("/status/loadBalancer/ingress").and_then(Value::as_array);
            let both =
                |item: &Value| [text(item, "hostname").to_owned(), text(item, "ip").to_owned()];
            let all = all.into_iter().flatten().flat_map(both);
            (all.filter(|host| !host.is_empty()).collect(), false)
        }
        "NodePort" => (vec![node.to_owned()], false),
        _ => {
            let name = str_at(service, &["metadata", "name"]);
            (vec![format!("{name}.{}", str_at(service, &["metadata", "namespace"]))], true)
        }
    };
    let mut out = Vec::new();
    for port in &ports {
        let own = port.get("port").and_then(Value::as_i64).unwrap_or(0);
        // Every node serves it under a port of its own.
        let number = if kind == "NodePort" {
            port.get("nodePort").and_then(Value::as_i64).unwrap_or(own)
        } else {
            own
        };
        for host in &hosts {
            out.push(json!({
                "protocol": text(port, "protocol"), "appProtocol": app_protocol(own), "host": host,
                "port": number, "portName": text(port, "name"), "path": "", "inner": inner,
            }));
        }
    }
    out
}

fn ingress(ingress: &Value) -> Vec<Value> {
    let tls = ingress.pointer("/spec/tls").and_then(Value::as_array).cloned().unwrap_or_default();
    let annotation = |key: &str| str_at(ingress, &["metadata", "annotations", key]).to_owned();
    let mut out = Vec::new();
    let rules =
        ingress.pointer("/spec/rules").and_then(Value::as_array).cloned().unwrap_or_default();
    for rule in &rules {
        let host = text(rule, "host");
        // An entry without hosts holds for all of them.
        let secure = tls.iter().any(|entry| {
            let hosts = names(entry, "hosts");
            hosts.is_empty() || hosts.iter().any(|known| known == host)
        });
        let (protocol, default_port, key) = if secure {
            ("https", 443, "ingress.controller/https-port")
        } else {
            ("http", 80, "ingress.controller/http-port")
        };
        // Annotations say where an ingress controller listens, if that is not the default.
        let port: i64 = annotation(key).parse().unwrap_or(default_port);
        let host =
            if host.is_empty() { annotation("ingress.controller/host") } else { host.to_owned() };
        for path in rule.pointer("/http/paths").and_then(Value::as_array).into_iter().flatten() {
            out.push(json!({
                "protocol": "TCP", "appProtocol": protocol, "host": host, "port": port,
                "portName": "", "path": text(path, "path"), "inner": false,
            }));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(object: &Value) -> Vec<String> {
        let one = |e: &Value| {
            format!(
                "{}://{}:{}{} {}",
                e["appProtocol"].as_str().unwrap(),
                e["host"].as_str().unwrap(),
                e["port"],
                e["path"].as_str().unwrap(),
                e["inner"]
            )
        };
        endpoints_of(object, "192.0.2.7").iter().map(one).collect()
    }

    #[test]
    fn endpoints() {
        let service = |spec: Value, status: Value| json!({"kind": "Service", "metadata": {"name": "s", "namespace": "n"}, "spec": spec, "status": status});
        let ports = json!([{"name": "web", "port": 80, "nodePort": 30080, "protocol": "TCP"}]);
        let inner = service(json!({"type": "ClusterIP", "ports": ports}), json!({}));
        assert_eq!(shown(&inner), ["http://s.n:80 true"]);
        let node = service(json!({"type": "NodePort", "ports": ports}), json!({}));
        assert_eq!(shown(&node), ["http://192.0.2.7:30080 false"]);
        let balanced =
            json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "h"}]}});
        let balancer = service(json!({"type": "LoadBalancer", "ports": ports}), balanced);
        assert_eq!(shown(&balancer), ["http://192.0.2.1:80 false", "http://h:80 false"]);
        let ingress = json!({"kind": "Ingress", "metadata": {}, "spec": {
            "tls": [{"hosts": ["a.example"]}],
            "rules": [
                {"host": "a.example", "http": {"paths": [{"path": "/x"}, {"path": "/y"}]}},
                {"host": "b.example", "http": {"paths": [{"path": "/"}]}}]}});
        assert_eq!(
            shown(&ingress),
            [
                "https://a.example:443/x false",
                "https://a.example:443/y false",
                "http://b.example:80/ false"
            ]
        );
    }
}
