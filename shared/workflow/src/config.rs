//! Configs: Secrets that hold the properties of a template, and what the template makes of them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value, json};

use crate::messages;

/// Label of a config.
pub const CATALOG: (&str, &str) = ("config.oam.dev/catalog", "velacore-config");
/// Label with the name of the template.
pub const TYPE: &str = "config.oam.dev/type";
const SCOPE: &str = "config.oam.dev/scope";
const SENSITIVE: &str = "config.oam.dev/sensitive";
const ALIAS: &str = "config.oam.dev/alias";
const DESCRIPTION: &str = "config.oam.dev/description";
const TEMPLATE_NAMESPACE: &str = "config.oam.dev/template-namespace";
const PROPERTIES: &str = "input-properties";
/// Key of the list of objects that belong to a config.
pub const OBJECTS: &str = "objects-reference";

/// A template, as its ConfigMap holds it.
#[derive(Debug, Clone, Copy)]
pub struct Template<'a> {
    /// Name of the template; its ConfigMap is `config-template-` and this.
    pub name: &'a str,
    /// Where it is.
    pub namespace: &'a str,
    /// CUE: `template: {parameter, output, outputs}`.
    pub text: &'a str,
    /// `config.oam.dev/scope` of its ConfigMap.
    pub scope: &'a str,
    /// Whether what is made from it must not be read.
    pub sensitive: bool,
}

/// The Secret of a config, and the further objects of its template.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// The manifest of the Secret that holds the config.
    pub secret: Value,
    /// Further objects.
    pub objects: Vec<Value>,
}

/// A config that cannot be made, read or replaced.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A template that is no CUE, or properties that it does not take.
    #[error("{}", messages::config_template(.0.to_string().trim_end()))]
    Template(cue::Errors),
    /// The output of the template is no object.
    #[error("{}", messages::CONFIG_NOT_A_SECRET)]
    NotASecret,
    /// Its properties must not be read.
    #[error("{}", messages::CONFIG_SENSITIVE)]
    Sensitive,
    /// Its properties are no JSON.
    #[error(transparent)]
    Properties(serde_json::Error),
    /// A Secret of its name is no config.
    #[error("{}", messages::CONFIG_NOT_ONE)]
    NotAConfig,
    /// The stored one has another template.
    #[error("{}", messages::CONFIG_TEMPLATE_CHANGED)]
    TemplateChanged,
    /// The stored one is another type of Secret.
    #[error("{}", messages::CONFIG_TYPE_CHANGED)]
    TypeChanged,
}

/// Makes a config from properties.
///
/// # Errors
/// A template that is no CUE, or properties that it does not take.
pub fn make(
    (namespace, name): (&str, &str),
    template: Option<Template<'_>>,
    properties: &Value,
    limits: &cue::Limits,
) -> Result<Config, ConfigError> {
    let (mut secret, objects) = match template {
        Some(template) => render((namespace, name), template.text, properties, limits)?,
        None => (json!({}), Vec::new()),
    };
    let object = secret.as_object_mut().ok_or(ConfigError::NotASecret)?;
    object.insert("apiVersion".into(), json!("v1"));
    object.insert("kind".into(), json!("Secret"));
    object.entry("type").or_insert(json!(""));
    let mut labels = Map::from_iter([
        (CATALOG.0.to_owned(), json!(CATALOG.1)),
        (TYPE.to_owned(), json!(template.map_or("", |t| t.name))),
    ]);
    let mut annotations =
        Map::from_iter([ALIAS, DESCRIPTION].map(|key| (key.to_owned(), json!(""))));
    if let Some(template) = template {
        labels.insert(SCOPE.to_owned(), json!(template.scope));
        annotations.insert(SENSITIVE.to_owned(), json!(template.sensitive.to_string()));
        annotations.insert(TEMPLATE_NAMESPACE.to_owned(), json!(template.namespace));
    }
    let given = object.remove("metadata").unwrap_or_default();
    for (into, from) in [(&mut labels, "labels"), (&mut annotations, "annotations")] {
        for (key, value) in given.get(from).and_then(Value::as_object).into_iter().flatten() {
            into.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
    object.insert(
        "metadata".into(),
        json!({"name": name, "namespace": namespace, "labels": labels, "annotations": annotations}),
    );
    let mut data = object.get("data").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut put = |key: &str, text: String| data.insert(key.to_owned(), json!(BASE64.encode(text)));
    put(PROPERTIES, properties.to_string());
    if !objects.is_empty() {
        let reference = |object: &Value| {
            json!({
                "apiVersion": object.get("apiVersion"), "kind": object.get("kind"),
                "name": object.pointer("/metadata/name"), "namespace": object.pointer("/metadata/namespace"),
            })
        };
        put(OBJECTS, Value::Array(objects.iter().map(reference).collect()).to_string());
    }
    object.insert("data".into(), Value::Object(data));
    if object.get("type").and_then(Value::as_str) == Some("") {
        object.remove("type");
    }
    Ok(Config { secret, objects })
}

fn render(
    (namespace, name): (&str, &str),
    text: &str,
    properties: &Value,
    limits: &cue::Limits,
) -> Result<(Value, Vec<Value>), ConfigError> {
    let files = [("template", text), ("context", "context: _\n")];
    let program = cue::Program::compile_files(&files, &cue::Packages::std())
        .map_err(ConfigError::Template)?;
    let context = json!({"name": name, "namespace": namespace});
    let inputs = [
        ("context", cue::Value::from(&context)),
        ("template", cue::Value::from(&json!({ "parameter": properties }))),
    ];
    let inputs: Vec<(&str, &cue::Value)> = inputs.iter().map(|(n, v)| (*n, v)).collect();
    let mut evaluation = program.evaluate(&inputs, limits);
    let root = evaluation.root();
    if let Some(node) = evaluation.lookup(root, "template.parameter") {
        evaluation.validate(node, true).map_err(ConfigError::Template)?;
    }
    let mut secret = json!({});
    if let Some(node) = evaluation.lookup(root, "template.output") {
        secret = evaluation.export(node).map_err(ConfigError::Template)?.to_json();
    }
    // what the Secret holds as text is stored as bytes, as the API server does it
    if let Some(object) = secret.as_object_mut()
        && let Some(Value::Object(texts)) = object.remove("stringData")
    {
        let data = object.entry("data").or_insert_with(|| json!({}));
        if let Some(data) = data.as_object_mut() {
            for (key, text) in texts {
                let text = text.as_str().map_or_else(|| text.to_string(), str::to_owned);
                data.insert(key, json!(BASE64.encode(text)));
            }
        }
    }
    let mut objects = Vec::new();
    if let Some(node) = evaluation.lookup(root, "template.outputs") {
        let all = evaluation.export(node).map_err(ConfigError::Template)?.to_json();
        objects.extend(all.as_object().into_iter().flatten().map(|(_, object)| object.clone()));
    }
    Ok((secret, objects))
}

/// The properties in the Secret of a config.
///
/// # Errors
/// A sensitive config, or a Secret that is none.
pub fn read(secret: &Value) -> Result<Value, ConfigError> {
    let annotation = |key: &str| secret.pointer("/metadata/annotations").and_then(|a| a.get(key));
    if annotation(SENSITIVE).and_then(Value::as_str) == Some("true") {
        return Err(ConfigError::Sensitive);
    }
    let encoded = secret.get("data").and_then(|d| d.get(PROPERTIES)).and_then(Value::as_str);
    let bytes = BASE64.decode(encoded.unwrap_or_default()).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    serde_json::from_slice(&bytes).map_err(ConfigError::Properties)
}

/// A config in a list.
#[must_use]
pub fn item(secret: &Value) -> Value {
    let annotation = |key: &str| {
        secret
            .pointer("/metadata/annotations")
            .and_then(|a| a.get(key))
            .cloned()
            .unwrap_or(json!(""))
    };
    json!({
        "name": secret.pointer("/metadata/name"), "alias": annotation(ALIAS),
        "description": annotation(DESCRIPTION), "config": read(secret).unwrap_or_else(|_| json!({})),
    })
}

/// The objects that belong to a config, from its Secret.
#[must_use]
pub fn objects(secret: &Value) -> Vec<Value> {
    let encoded = secret.get("data").and_then(|d| d.get(OBJECTS)).and_then(Value::as_str);
    let bytes = BASE64.decode(encoded.unwrap_or_default()).unwrap_or_default();
    serde_json::from_slice(&bytes).unwrap_or_default()
}

/// Whether a stored config may be replaced by a new one.
///
/// # Errors
/// Another template, or another type of Secret.
pub fn may_replace(old: &Value, new: &Value) -> Result<(), ConfigError> {
    let label = |object: &Value, key: &str| {
        object
            .pointer("/metadata/labels")
            .and_then(|l| l.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    if label(old, CATALOG.0) != CATALOG.1 {
        return Err(ConfigError::NotAConfig);
    }
    if label(old, TYPE) != label(new, TYPE) {
        return Err(ConfigError::TemplateChanged);
    }
    let kind = |object: &Value| {
        let kind = object.get("type").and_then(Value::as_str).unwrap_or_default();
        if kind.is_empty() { "Opaque".to_owned() } else { kind.to_owned() }
    };
    if kind(old) != kind(new) {
        return Err(ConfigError::TypeChanged);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        import "encoding/json"
        metadata: {name: "registry", scope: "project", sensitive: false}
        template: {
            output: {
                apiVersion: "v1"
                kind:       "Secret"
                metadata: {name: context.name, namespace: context.namespace, labels: team: "a"}
                type: "example.dev/registry"
                stringData: ".conf": json.Marshal({user: parameter.user})
            }
            outputs: map: {
                apiVersion: "v1"
                kind:       "ConfigMap"
                metadata: {name: context.name, namespace: context.namespace}
                data: user: parameter.user
            }
            parameter: {user: string, port: *80 | int}
        }"#;

    fn template() -> Template<'static> {
        Template {
            name: "registry",
            namespace: "vela-system",
            text: TEXT,
            scope: "project",
            sensitive: false,
        }
    }

    #[test]
    fn a_config_without_a_template_holds_its_properties() {
        let made =
            make(("ns", "c"), None, &json!({"a": "b", "n": 2}), &cue::Limits::default()).unwrap();
        assert_eq!(made.objects, Vec::<Value>::new());
        assert_eq!(made.secret["metadata"]["labels"]["config.oam.dev/catalog"], "velacore-config");
        assert_eq!(read(&made.secret).unwrap(), json!({"a": "b", "n": 2}));
        assert_eq!(item(&made.secret)["name"], "c");
    }

    #[test]
    fn a_template_makes_secret_and_objects() {
        let made =
            make(("ns", "c"), Some(template()), &json!({"user": "u"}), &cue::Limits::default())
                .unwrap();
        let conf = made.secret["data"][".conf"].as_str().unwrap();
        assert_eq!(BASE64.decode(conf).unwrap(), b"{\"user\":\"u\"}");
        assert_eq!(made.secret["type"], "example.dev/registry");
        assert_eq!(made.secret["metadata"]["labels"]["team"], "a");
        assert_eq!(made.secret["metadata"]["labels"][TYPE], "registry");
        assert_eq!(made.objects[0]["data"]["user"], "u");
        assert_eq!(objects(&made.secret)[0]["kind"], "ConfigMap");
        let wrong =
            make(("ns", "c"), Some(template()), &json!({"user": 1}), &cue::Limits::default());
        assert!(wrong.unwrap_err().to_string().contains("user"));
    }

    #[test]
    fn what_may_not_change_and_what_may_not_be_read() {
        let plain = make(("ns", "c"), None, &json!({}), &cue::Limits::default()).unwrap().secret;
        let from =
            make(("ns", "c"), Some(template()), &json!({"user": "u"}), &cue::Limits::default())
                .unwrap()
                .secret;
        assert!(may_replace(&plain, &plain).is_ok());
        assert_eq!(
            may_replace(&plain, &from).unwrap_err().to_string(),
            "a config keeps its template: delete it to create it from another one"
        );
        assert!(may_replace(&json!({"metadata": {}}), &plain).is_err());
        let mut secret = plain;
        secret["metadata"]["annotations"][SENSITIVE] = json!("true");
        assert_eq!(read(&secret).unwrap_err().to_string(), "the config is sensitive");
    }
}
