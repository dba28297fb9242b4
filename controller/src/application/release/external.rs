//! Values that are not in the Application: what they say is part of which run of the workflow is meant, so that an edit of a
//! ConfigMap or Secret rolls out.

use serde_json::Value;
use sha2::{Digest, Sha256};
use vela_api::Application;
use vela_helm::yaml;

use crate::charts::auth::hex;

use super::values::{self, ValuesError};
use crate::application::facts::properties;
use crate::application::session::Session;
use vela_helm::request::ValuesFrom;

/// The type of such components.
const TYPE: &str = "helmchart";
/// What separates the revision from the hash.
const SEPARATOR: &str = "-vf-";
/// Hex digits of the hash.
const DIGITS: usize = 32;

/// The revision that a run of the workflow is of.
#[must_use]
pub fn revision_of(run: &str) -> &str {
    run.split(SEPARATOR).next().unwrap_or(run)
}

/// Whether an Application depends on values that are elsewhere.
#[must_use]
pub fn has_values(app: &Application) -> bool {
    !sources(app).is_empty()
}

/// The sources of the components, each with the namespace of its release.
fn sources(app: &Application) -> Vec<(String, ValuesFrom)> {
    let own = app.metadata.namespace.as_deref().unwrap_or_default();
    let mut out = Vec::new();
    for component in
        app.spec.components.iter().filter(|it| it.type_.split('@').next() == Some(TYPE))
    {
        let Some(value) = properties(component.properties.as_ref()) else { continue };
        let given = value.pointer("/release/namespace").and_then(Value::as_str);
        let release = given.filter(|it| !it.is_empty()).unwrap_or(own);
        let all = value.get("valuesFrom").cloned();
        let all: Vec<ValuesFrom> =
            all.and_then(|all| serde_json::from_value(all).ok()).unwrap_or_default();
        out.extend(all.into_iter().map(|source| (release.to_owned(), source)));
    }
    out
}

/// The name of the run that is meant: the revision's, with a hash of the values that are elsewhere. What cannot be read now
/// counts as unchanged.
pub async fn run_of(
    session: &Session<'_>,
    app: &Application,
    revision: &str,
    stored: &str,
) -> String {
    let sources = sources(app);
    if sources.is_empty() {
        return revision.to_owned();
    }
    let mut lines = Vec::with_capacity(sources.len());
    for (release, source) in &sources {
        match line(session, release, source).await {
            Ok(line) => lines.push(line),
            // A source that cannot be read for a moment must not start a new run.
            Err(_) if revision_of(stored) == revision => return stored.to_owned(),
            Err(_) => return revision.to_owned(),
        }
    }
    format!("{revision}{SEPARATOR}{}", hash(lines))
}

async fn line(
    session: &Session<'_>,
    release: &str,
    source: &ValuesFrom,
) -> Result<String, ValuesError> {
    let text = values::text(session, release, source).await?;
    let said = match text {
        None => "<missing>".to_owned(),
        Some(text) => {
            let wrong = |_| ValuesError::Yaml(source.name.clone(), source.key.clone());
            let value = Value::Object(yaml::read_values(&text).map_err(wrong)?);
            // Hashed as values, not as text: a comment in a ConfigMap rolls nothing out.
            hex(&Sha256::digest(value.to_string()))
        }
    };
    let namespace = values::namespace(session, source);
    let ValuesFrom { kind, name, key, .. } = source;
    Ok(format!("{kind}:{namespace}/{name}/{key}={said}"))
}

fn hash(mut lines: Vec<String>) -> String {
    // Sorted, since the order of the sources does not change which texts they are.
    lines.sort_unstable();
    let mut digits = hex(&Sha256::digest(lines.join("\n")));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn runs_and_revisions() {
        assert_eq!(revision_of("app-v3"), "app-v3");
        assert_eq!(revision_of(&format!("app-v3-vf-{}", hash(vec!["a".into()]))), "app-v3");
        assert_eq!(hash(vec!["a".into(), "b".into()]), hash(vec!["b".into(), "a".into()]));
        assert_ne!(hash(vec!["a".into()]), hash(vec!["b".into()]));
    }

    #[test]
    fn which_applications_depend_on_values_elsewhere() {
        let app = |type_: &str, from: Value| -> Application {
            serde_json::from_value(json!({"apiVersion": "core.oam.dev/v1beta1", "kind": "Application",
                "metadata": {"name": "a", "namespace": "n"},
                "spec": {"components": [{"name": "c", "type": type_, "properties": {"valuesFrom": from}}]}}))
            .unwrap()
        };
        let from = json!([{"kind": "ConfigMap", "name": "m"}]);
        assert!(has_values(&app("helmchart", from.clone())));
        assert!(has_values(&app("helmchart@v2", from.clone())));
        assert!(!has_values(&app("webservice", from)));
        assert!(!has_values(&app("helmchart", json!([]))));
        let found = sources(&app("helmchart", json!([{"kind": "ConfigMap", "name": "m"}])));
        assert_eq!((found[0].0.as_str(), found[0].1.key.as_str()), ("n", "values.yaml"));
    }
}
