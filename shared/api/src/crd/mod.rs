//! The CustomResourceDefinitions of all kinds: what `cargo xtask crds` writes into the chart.
//!
//! The schemas are derived from the types (`Described`); `kinds.rs` adds what a type does not say: versions, names, columns.
//! Equal to what the reference installs in everything that decides how objects are validated,
//! pruned, stored and shown. Descriptions are our own. The annotations of the tools that made the
//! reference's files (controller-gen's version, a cert-manager injection that no conversion webhook
//! uses) are left out.

mod kinds;
pub(crate) mod schema;
mod yaml;

use serde_json::{Map, Value, json};

pub(crate) use schema::{Described, Schema};

/// A CustomResourceDefinition as JSON, with the name of its file.
#[derive(Clone, Debug, PartialEq)]
pub struct Crd {
    /// `<plural>.<group>`: the object's name and the stem of its file.
    pub name: String,
    /// The CustomResourceDefinition as `apiextensions.k8s.io/v1` has it.
    pub object: Value,
}

impl Crd {
    /// The file's name in `charts/vela-core/crds`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{}.yaml", self.name)
    }

    /// The file's content.
    #[must_use]
    pub fn to_yaml(&self) -> String {
        format!(
            "# Made by `cargo xtask crds` from shared/api/src/crd.\n{}",
            yaml::document(&self.object)
        )
    }
}

/// All CustomResourceDefinitions, sorted by name.
#[must_use]
pub fn all() -> Vec<Crd> {
    let mut all: Vec<Crd> = kinds::all().into_iter().map(Definition::build).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// What distinguishes one CustomResourceDefinition from the others.
struct Definition {
    group: String,
    kind: String,
    plural: String,
    short_names: &'static [&'static str],
    categories: &'static [&'static str],
    scope: &'static str,
    versions: Vec<Version>,
}

/// One version of a kind.
struct Version {
    name: &'static str,
    storage: bool,
    /// Name, type, JSONPath.
    columns: &'static [(&'static str, &'static str, &'static str)],
    /// The same, shown with `kubectl get -o wide` only, at the end.
    wide_columns: &'static [(&'static str, &'static str, &'static str)],
    status_subresource: bool,
    schema: Schema,
}

impl Definition {
    fn build(self) -> Crd {
        let name = format!("{}.{}", self.plural, self.group);
        let mut names = Map::from_iter([
            ("kind".to_owned(), json!(self.kind)),
            ("listKind".to_owned(), json!(format!("{}List", self.kind))),
            ("plural".to_owned(), json!(self.plural)),
            ("singular".to_owned(), json!(self.kind.to_lowercase())),
        ]);
        if !self.categories.is_empty() {
            names.insert("categories".to_owned(), json!(self.categories));
        }
        if !self.short_names.is_empty() {
            names.insert("shortNames".to_owned(), json!(self.short_names));
        }
        let versions: Vec<Value> = self.versions.into_iter().map(Version::build).collect();
        Crd {
            object: json!({
                "apiVersion": "apiextensions.k8s.io/v1",
                "kind": "CustomResourceDefinition",
                "metadata": { "name": name },
                "spec": {
                    "group": self.group,
                    "names": names,
                    "scope": self.scope,
                    "versions": versions,
                },
            }),
            name,
        }
    }
}

impl Version {
    fn build(self) -> Value {
        let mut version = Map::from_iter([
            ("name".to_owned(), json!(self.name)),
            ("served".to_owned(), json!(true)),
            ("storage".to_owned(), json!(self.storage)),
            ("schema".to_owned(), json!({ "openAPIV3Schema": self.schema.into_value() })),
        ]);
        if !self.columns.is_empty() {
            let shown = self
                .columns
                .iter()
                .map(|(name, type_, path)| json!({"name": name, "type": type_, "jsonPath": path}));
            let wide = self.wide_columns.iter().map(|(name, type_, path)| {
                json!({"name": name, "type": type_, "jsonPath": path, "priority": 1})
            });
            let columns: Vec<Value> = shown.chain(wide).collect();
            version.insert("additionalPrinterColumns".to_owned(), json!(columns));
        }
        if self.status_subresource {
            version.insert("subresources".to_owned(), json!({ "status": {} }));
        }
        Value::Object(version)
    }
}

#[cfg(test)]
mod tests;
