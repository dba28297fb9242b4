//! `.Chart`: what Chart.yaml says, under the names of Go.

use std::sync::Arc;

use gotemplate::{List, Map, Object, Str, Type, Underlying, Value};
use serde::Serialize;
use serde_json::Value as Json;

use crate::chart::{Dependency, Maintainer, Metadata};
use crate::json::from_json;

/// `struct { chart.Metadata; IsRoot bool }`
#[derive(Debug)]
pub(crate) struct ChartObject {
    metadata: Arc<Metadata>,
    is_root: bool,
}

impl ChartObject {
    pub(crate) fn new(metadata: &Arc<Metadata>, is_root: bool) -> Self {
        Self { metadata: Arc::clone(metadata), is_root }
    }

    /// The same in the order of the fields.
    fn ordered(&self) -> impl Serialize + use<> {
        #[derive(Serialize)]
        struct Ordered {
            #[serde(flatten)]
            metadata: Metadata,
            #[serde(rename = "IsRoot")]
            is_root: bool,
        }
        Ordered { metadata: Metadata::clone(&self.metadata), is_root: self.is_root }
    }

    /// With the names of Chart.yaml, and one of Go.
    fn json(&self) -> Json {
        let mut json = serde_json::to_value(&*self.metadata).unwrap_or_default();
        if let Json::Object(fields) = &mut json {
            fields.insert("IsRoot".to_owned(), Json::Bool(self.is_root));
        }
        json
    }
}

/// `.Chart` as it is written as JSON.
pub(super) fn ordered(value: &Value) -> Option<impl Serialize + use<>> {
    value.downcast_ref::<ChartObject>().map(ChartObject::ordered)
}

/// The objects of this file as JSON.
pub(super) fn json(value: &Value) -> Option<Json> {
    if let Some(chart) = value.downcast_ref::<ChartObject>() {
        return Some(chart.json());
    }
    if let Some(metadata) = value.downcast_ref::<MetadataObject>() {
        return serde_json::to_value(&*metadata.0).ok();
    }
    if let Some(maintainer) = value.downcast_ref::<MaintainerObject>() {
        return serde_json::to_value(&maintainer.0).ok();
    }
    let dependency = value.downcast_ref::<DependencyObject>()?;
    serde_json::to_value(&dependency.0).ok()
}

/// The fields of a struct under their names of Go, those of an embedded one among them.
pub(super) fn promoted(value: &Value, object: &dyn Object) -> Vec<(Str, Value)> {
    let names = match value.downcast_ref::<ChartObject>() {
        Some(_) => [FIELDS, &["IsRoot"]].concat(),
        None => object.fields().to_vec(),
    };
    let field = |name: &str| (Str::from(name), object.field(name).unwrap_or_default());
    names.into_iter().map(field).collect()
}

/// The fields of a struct under the names that `toYamlPretty` gives them: those of Go in lower case, but for a dependency,
/// whose names are those of Chart.yaml, and whose empty fields go.
pub(super) fn lower_case(value: &Value, object: &dyn Object) -> Vec<(String, Value)> {
    const KEPT: [&str; 2] = ["Name", "Repository"];
    let is_dependency = value.downcast_ref::<DependencyObject>().is_some();
    let mut out = Vec::new();
    for name in object.fields() {
        let value = object.field(name).unwrap_or_default();
        if is_dependency && !KEPT.contains(name) && !value.is_true() {
            continue;
        }
        let name = match *name {
            "ImportValues" => "import-values".to_owned(),
            name => name.to_ascii_lowercase(),
        };
        out.push((name, value));
    }
    out
}

fn strings(texts: &[String]) -> Value {
    match texts {
        [] => List::nil(&Type::String).into(),
        texts => List::strings(texts.iter().map(String::as_str)).into(),
    }
}

impl Object for ChartObject {
    fn type_of(&self) -> Type {
        Type::Named("struct { chart.Metadata; IsRoot bool }")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["Metadata", "IsRoot"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "IsRoot" => Some(self.is_root.into()),
            "Metadata" => Some(Value::object(MetadataObject(Arc::clone(&self.metadata)))),
            name => metadata_field(&self.metadata, name),
        }
    }
}

/// `chart.Metadata`
#[derive(Debug)]
struct MetadataObject(Arc<Metadata>);

const FIELDS: &[&str] = &[
    "Name",
    "Home",
    "Sources",
    "Version",
    "Description",
    "Keywords",
    "Maintainers",
    "Icon",
    "APIVersion",
    "Condition",
    "Tags",
    "AppVersion",
    "Deprecated",
    "Annotations",
    "KubeVersion",
    "Dependencies",
    "Type",
];

impl Object for MetadataObject {
    fn type_of(&self) -> Type {
        Type::Named("chart.Metadata")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        FIELDS
    }

    fn field(&self, name: &str) -> Option<Value> {
        metadata_field(&self.0, name)
    }
}

fn metadata_field(metadata: &Metadata, name: &str) -> Option<Value> {
    let text = |text: &String| Some(Value::from(text.as_str()));
    match name {
        "Name" => text(&metadata.name),
        "Home" => text(&metadata.home),
        "Sources" => Some(strings(&metadata.sources)),
        "Version" => text(&metadata.version),
        "Description" => text(&metadata.description),
        "Keywords" => Some(strings(&metadata.keywords)),
        "Maintainers" => Some(pointers(
            &Type::Named("*chart.Maintainer"),
            metadata.maintainers.iter().cloned().map(MaintainerObject),
        )),
        "Icon" => text(&metadata.icon),
        "APIVersion" => text(&metadata.api_version),
        "Condition" => text(&metadata.condition),
        "Tags" => text(&metadata.tags),
        "AppVersion" => text(&metadata.app_version),
        "Deprecated" => Some(metadata.deprecated.into()),
        "Annotations" => {
            let entry = |(key, value): (&String, &String)| {
                (Str::from(key.as_str()), Value::from(value.as_str()))
            };
            Some(match metadata.annotations.is_empty() {
                true => Map::nil(&Type::String).into(),
                false => {
                    Map::of(&Type::String, metadata.annotations.iter().map(entry).collect()).into()
                }
            })
        }
        "KubeVersion" => text(&metadata.kube_version),
        "Dependencies" => Some(pointers(
            &Type::Named("*chart.Dependency"),
            metadata.dependencies.iter().cloned().map(DependencyObject),
        )),
        "Type" => text(&metadata.kind),
        _ => None,
    }
}

fn pointers<T: Object>(element: &'static Type, objects: impl Iterator<Item = T>) -> Value {
    let objects: Vec<Value> = objects.map(Value::object).collect();
    if objects.is_empty() { List::nil(element).into() } else { List::of(element, objects).into() }
}

/// `*chart.Maintainer`
#[derive(Debug)]
struct MaintainerObject(Maintainer);

impl Object for MaintainerObject {
    fn type_of(&self) -> Type {
        Type::Named("*chart.Maintainer")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn fields(&self) -> &[&str] {
        &["Name", "Email", "URL"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::from(match name {
            "Name" => self.0.name.as_str(),
            "Email" => self.0.email.as_str(),
            "URL" => self.0.url.as_str(),
            _ => return None,
        }))
    }
}

/// `*chart.Dependency`
#[derive(Debug)]
struct DependencyObject(Dependency);

impl Object for DependencyObject {
    fn type_of(&self) -> Type {
        Type::Named("*chart.Dependency")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn fields(&self) -> &[&str] {
        &["Name", "Version", "Repository", "Condition", "Tags", "Enabled", "ImportValues", "Alias"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        let dependency = &self.0;
        let text = |text: &String| Some(Value::from(text.as_str()));
        match name {
            "Name" => text(&dependency.name),
            "Version" => text(&dependency.version),
            "Repository" => text(&dependency.repository),
            "Condition" => text(&dependency.condition),
            "Tags" => Some(strings(&dependency.tags)),
            "Enabled" => Some(dependency.enabled.into()),
            "ImportValues" if dependency.import_values.is_empty() => {
                Some(List::nil(&Type::Any).into())
            }
            "ImportValues" => Some(from_json(&Json::Array(dependency.import_values.clone()))),
            "Alias" => text(&dependency.alias),
            _ => None,
        }
    }
}
