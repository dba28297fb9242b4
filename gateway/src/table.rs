//! How answers are written: as objects, or as the tables that `kubectl get` prints.

use http::HeaderMap;
use http::header::ACCEPT;
use serde_json::{Value, json};

use crate::names::{GATEWAYS, GROUP_VERSION};
use crate::path::values_of;
use crate::status::Failure;
use crate::view::View;

/// One of the two resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resource {
    Gateways,
    Virtual,
}

impl Resource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateways => GATEWAYS,
            Self::Virtual => crate::names::VIRTUAL,
        }
    }

    pub(crate) fn kind(self) -> &'static str {
        match self {
            Self::Gateways => "ClusterGateway",
            Self::Virtual => "VirtualCluster",
        }
    }

    /// A cluster as an object of this resource.
    pub(crate) fn object(self, view: &View) -> Option<&Value> {
        match self {
            Self::Gateways => view.gateway.as_ref(),
            Self::Virtual => Some(&view.virtual_cluster),
        }
    }

    /// Name, type, format, description, priority of each column.
    fn columns(self) -> Vec<Value> {
        let columns: &[(&str, &str, &str, &str, i32)] = match self {
            Self::Gateways => &[
                ("Name", "string", "name", "Name of the cluster", 0),
                ("Provider", "string", "", "Provider of the cluster", 0),
                ("Credential-Type", "string", "", "Type of the credential", 0),
                ("Endpoint-Type", "string", "", "How the cluster is reached", 0),
                ("Healthy", "string", "", "What a health check found last", 0),
            ],
            Self::Virtual => &[
                ("Name", "string", "name", "Name of the cluster", 0),
                ("Alias", "string", "", "A name for people", 0),
                ("Credential_Type", "string", "", "Type of the credential", 0),
                ("Endpoint", "string", "", "Address of the API server", 0),
                ("Accepted", "boolean", "", "Whether the control plane accepts it", 0),
                ("Labels", "string", "", "What selectors see", 0),
                ("Creation_Timestamp", "dateTime", "", "When it joined", 10),
            ],
        };
        let column = |(name, kind, format, description, priority): &(
            &str,
            &str,
            &str,
            &str,
            i32,
        )| {
            json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
        };
        columns.iter().map(column).collect()
    }

    fn cells(self, object: &Value) -> Value {
        let at =
            |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match self {
            Self::Gateways => {
                let healthy = object.pointer("/status/healthy") == Some(&Value::Bool(true));
                json!([
                    at("/metadata/name"),
                    at("/spec/provider"),
                    at("/spec/access/credential/type"),
                    at("/spec/access/endpoint/type"),
                    if healthy { "true" } else { "false" },
                ])
            }
            Self::Virtual => {
                let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
                let labels = labels.into_iter().flatten();
                let labels = labels
                    .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
                json!([
                    at("/metadata/name"),
                    at("/spec/alias"),
                    at("/spec/credential-type"),
                    at("/spec/endpoint"),
                    object.pointer("/spec/accepted"),
                    labels.collect::<Vec<_>>().join(","),
                    object.pointer("/metadata/creationTimestamp"),
                ])
            }
        }
    }
}

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Objects,
    /// In a version of `meta.k8s.io`.
    Table(&'static str),
}

impl Form {
    /// The first that the client accepts and that there is.
    pub(crate) fn accepted(headers: &HeaderMap) -> Result<Self, Failure> {
        let mut is_any = true;
        for value in headers.get_all(ACCEPT) {
            for range in value.to_str().unwrap_or_default().split(',') {
                let mut parts = range.split(';').map(str::trim);
                let media = parts.next().unwrap_or_default();
                is_any &= media.is_empty();
                if !matches!(media, "application/json" | "application/*" | "*/*") {
                    continue;
                }
                let (mut form, mut version) = ("", "");
                for parameter in parts {
                    match parameter.split_once('=') {
                        Some(("as", value)) => form = value,
                        Some(("v", value)) => version = value,
                        _ => {}
                    }
                }
                match (form, version) {
                    ("", _) => return Ok(Self::Objects),
                    ("Table", "v1") => return Ok(Self::Table("meta.k8s.io/v1")),
                    ("Table", "v1beta1") => return Ok(Self::Table("meta.k8s.io/v1beta1")),
                    _ => {}
                }
            }
        }
        if is_any { Ok(Self::Objects) } else { Err(Failure::not_acceptable()) }
    }

    /// A list of objects. `version` says as of when.
    pub(crate) fn list(
        self,
        resource: Resource,
        objects: &[&Value],
        version: &str,
        query: Option<&str>,
    ) -> Value {
        match self {
            Self::Objects => json!({
                "apiVersion": GROUP_VERSION, "kind": format!("{}List", resource.kind()),
                "metadata": {"resourceVersion": version}, "items": objects,
            }),
            Self::Table(form) => table(form, resource, objects, version, query),
        }
    }

    /// One object.
    pub(crate) fn one(self, resource: Resource, object: &Value, query: Option<&str>) -> Value {
        match self {
            Self::Objects => object.clone(),
            Self::Table(form) => {
                let version = object.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                table(form, resource, &[object], version.unwrap_or_default(), query)
            }
        }
    }
}

fn table(
    form: &str,
    resource: Resource,
    objects: &[&Value],
    version: &str,
    query: Option<&str>,
) -> Value {
    let included = values_of(query, "includeObject").next();
    let row = |object: &&Value| {
        let shown = match included.as_deref() {
            Some("None") => Value::Null,
            Some("Object") => (*object).clone(),
            _ => {
                json!({"apiVersion": form, "kind": "PartialObjectMetadata", "metadata": object["metadata"]})
            }
        };
        json!({"cells": resource.cells(object), "object": shown})
    };
    json!({
        "apiVersion": form, "kind": "Table", "metadata": {"resourceVersion": version},
        "columnDefinitions": resource.columns(), "rows": objects.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::{secret, view};

    fn accept(text: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, text.parse().unwrap());
        headers
    }

    #[test]
    fn the_first_form_that_there_is_is_taken() {
        for (text, form) in [
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                Some(Form::Table("meta.k8s.io/v1")),
            ),
            (
                "application/json;as=Table;v=v1beta1;g=meta.k8s.io",
                Some(Form::Table("meta.k8s.io/v1beta1")),
            ),
            (
                "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Some(Form::Objects),
            ),
            ("application/vnd.kubernetes.protobuf,application/json", Some(Form::Objects)),
            ("application/vnd.kubernetes.protobuf", None),
            ("application/yaml", None),
            ("*/*", Some(Form::Objects)),
            ("application/json, */*", Some(Form::Objects)),
            ("", Some(Form::Objects)),
        ] {
            assert_eq!(Form::accepted(&accept(text)).ok(), form, "{text}");
        }
        assert_eq!(Form::accepted(&HeaderMap::new()), Ok(Form::Objects));
    }

    #[test]
    fn tables_have_the_columns_of_the_original() {
        let data = [("endpoint", "https://10.0.0.1:6443"), ("token", "t0ken")];
        let east = view(&secret("east", "ServiceAccountToken", &data));
        let (local, form) = (View::local(), Form::Table("meta.k8s.io/v1"));
        let names = |table: &Value| -> Vec<String> {
            let columns = table["columnDefinitions"].as_array().unwrap();
            columns.iter().map(|column| column["name"].as_str().unwrap().to_owned()).collect()
        };
        let gateway = east.gateway.as_ref().unwrap();
        let table = form.list(Resource::Gateways, &[gateway], "7", None);
        assert_eq!(
            names(&table),
            ["Name", "Provider", "Credential-Type", "Endpoint-Type", "Healthy"]
        );
        assert_eq!(
            table["rows"][0]["cells"],
            json!(["east", "", "ServiceAccountToken", "Const", "false"])
        );
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
        let both = [&local.virtual_cluster, &east.virtual_cluster];
        let table = form.list(Resource::Virtual, &both, "7", Some("includeObject=None"));
        assert_eq!(
            names(&table),
            [
                "Name",
                "Alias",
                "Credential_Type",
                "Endpoint",
                "Accepted",
                "Labels",
                "Creation_Timestamp"
            ]
        );
        let cells = &table["rows"][0]["cells"];
        assert_eq!(
            *cells,
            json!([
                "local",
                "",
                "Internal",
                "-",
                true,
                "cluster.core.oam.dev/control-plane=true",
                null
            ])
        );
        assert_eq!(
            table["rows"][1]["cells"][5],
            "cluster.core.oam.dev/control-plane=false,region=eu"
        );
        assert_eq!(table["rows"][1]["object"], Value::Null);
        let list = Form::Objects.list(Resource::Virtual, &both, "7", None);
        assert_eq!(
            (list["kind"].as_str(), list["items"].as_array().map(Vec::len)),
            (Some("VirtualClusterList"), Some(2))
        );
        assert!(!table.to_string().contains("t0ken"));
    }
}
