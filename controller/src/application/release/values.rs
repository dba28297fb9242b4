//! The values of a release: those that ConfigMaps and Secrets hold, the later over the earlier, and the Application's own over
//! all of them. They are read as the Application.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use vela_cluster::{Error, Target};
use vela_helm::yaml;

use crate::messages;

use crate::application::session::Session;
use vela_helm::request::{Params, ValuesFrom, may_read};

type Table = Map<String, Value>;

/// Values that cannot be had. No text contains any of them.
#[derive(Debug, thiserror::Error)]
pub enum ValuesError {
    /// The kind is another one.
    #[error("valuesFrom: {0:?} is neither ConfigMap nor Secret")]
    Kind(String),
    /// The namespace is somebody else's.
    #[error(
        "{}", messages::foreign_values(.0, .1)
    )]
    Namespace(String, &'static str),
    /// The object is not there.
    #[error("valuesFrom: {0} not found")]
    NotFound(String),
    /// The key is not in it.
    #[error("valuesFrom: key {1:?} of {0} not found")]
    NoKey(String, String),
    /// The key holds bytes.
    #[error("valuesFrom: key {1:?} of {0} is binary, a text in YAML is wanted")]
    Binary(String, String),
    /// The key holds something else.
    #[error("valuesFrom: key {1:?} of {0}: invalid YAML")]
    Yaml(String, String),
    /// The object cannot be read.
    #[error("valuesFrom: {0}: {1}")]
    Unreadable(String, Error),
}

/// All values of a release.
///
/// # Errors
/// What is missing, or must not be read.
pub async fn read(session: &Session<'_>, params: &Params) -> Result<Table, ValuesError> {
    let mut all = Table::new();
    for source in &params.values_from {
        if let Some(text) = text(session, &params.namespace, source).await? {
            let wrong = |_| ValuesError::Yaml(shown(session, source), source.key.clone());
            let found = yaml::read_values(&text).map_err(wrong)?;
            all = merged(all, found);
        }
    }
    // The Application's own values count last.
    Ok(merged(all, params.values.clone()))
}

pub(super) fn namespace<'a>(session: &'a Session<'_>, source: &'a ValuesFrom) -> &'a str {
    let given = source.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    given.unwrap_or(&session.owner.namespace)
}

fn shown(session: &Session<'_>, source: &ValuesFrom) -> String {
    format!("{} {}/{}", source.kind, namespace(session, source), source.name)
}

/// The text of one source; `None`: it may be missing, and is.
pub(super) async fn text(
    session: &Session<'_>,
    release: &str,
    source: &ValuesFrom,
) -> Result<Option<String>, ValuesError> {
    let (namespace, shown) = (namespace(session, source), shown(session, source));
    let is_secret = match source.kind.as_str() {
        "ConfigMap" => false,
        "Secret" => true,
        other => return Err(ValuesError::Kind(other.to_owned())),
    };
    let as_author = session.actors.are_others();
    // A namespace that is neither the Application's nor the release's would be a way to read
    // Secrets of others.
    if !may_read(namespace, &session.owner.namespace, release, as_author) {
        let more = if as_author { " and of the release" } else { "" };
        return Err(ValuesError::Namespace(shown, more));
    }
    let target = Target { api_version: "v1", kind: &source.kind, namespace, name: &source.name };
    let object = match session.io().get(&target).await {
        Ok(object) => object,
        Err(error) if error.is_not_found() && source.optional => return Ok(None),
        Err(error) if error.is_not_found() => return Err(ValuesError::NotFound(shown)),
        Err(error) => return Err(ValuesError::Unreadable(shown, error)),
    };
    of_key(&object, &source.key, is_secret, &shown).or_else(|error| match error {
        ValuesError::NoKey(..) if source.optional => Ok(None),
        error => Err(error),
    })
}

fn of_key(
    object: &Value,
    key: &str,
    is_secret: bool,
    shown: &str,
) -> Result<Option<String>, ValuesError> {
    let field = |map: &str| object.get(map).and_then(|map| map.get(key)).and_then(Value::as_str);
    let binary = || ValuesError::Binary(shown.to_owned(), key.to_owned());
    match field("data") {
        Some(text) if !is_secret => Ok(Some(text.to_owned())),
        Some(text) => {
            let bytes = BASE64.decode(text).map_err(|_| binary())?;
            String::from_utf8(bytes).map(Some).map_err(|_| binary())
        }
        None if field("binaryData").is_some() => Err(binary()),
        None => Err(ValuesError::NoKey(shown.to_owned(), key.to_owned())),
    }
}

/// Newer values over older ones: maps are merged, a null takes an older value away and otherwise stays, to take away the
/// chart's.
fn merged(mut older: Table, newer: Table) -> Table {
    for (key, value) in newer {
        let before = older.remove(&key);
        let value = match (before, value) {
            // A null takes an older value away.
            (Some(_), Value::Null) => continue,
            (Some(Value::Object(before)), Value::Object(value)) => {
                Value::Object(merged(before, value))
            }
            (_, value) => value,
        };
        older.insert(key, value);
    }
    older
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn table(value: Value) -> Table {
        match value {
            Value::Object(table) => table,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn newer_values_win() {
        let older = json!({"a": {"b": 1, "c": [1, 2]}, "d": 1, "e": 2, "f": {"g": 1}});
        let newer = json!({"a": {"c": [3]}, "d": null, "x": null, "f": 1});
        let want = json!({"a": {"b": 1, "c": [3]}, "e": 2, "x": null, "f": 1});
        assert_eq!(merged(table(older), table(newer)), table(want));
    }

    #[test]
    fn which_namespaces() {
        assert!(may_read("own", "own", "release", false));
        assert!(may_read("release", "own", "release", true));
        assert!(!may_read("release", "own", "release", false));
        assert!(!may_read("other", "own", "release", true));
    }

    #[test]
    fn keys() {
        let map = json!({"data": {"a": "x: 1"}, "binaryData": {"b": "AA=="}});
        assert_eq!(of_key(&map, "a", false, "m").unwrap().unwrap(), "x: 1");
        assert!(matches!(of_key(&map, "b", false, "m"), Err(ValuesError::Binary(..))));
        assert!(matches!(of_key(&map, "c", false, "m"), Err(ValuesError::NoKey(..))));
        let secret = json!({"data": {"a": BASE64.encode("x: 1"), "b": BASE64.encode([0xff])}});
        assert_eq!(of_key(&secret, "a", true, "s").unwrap().unwrap(), "x: 1");
        assert!(matches!(of_key(&secret, "b", true, "s"), Err(ValuesError::Binary(..))));
    }
}
