//! Releases that Flux manages: taken over only if Flux no longer manages them, or an annotation demands it.

use serde_json::Value;
use vela_api::names;
use vela_apply::Owner;
use vela_apply::object::{label, name, namespace};
use vela_cluster::{Class, Error, Target};

use crate::messages;

use super::entry::Cluster;
use super::error::ReleaseError;
use super::records::Known;
use crate::application::facts;
use vela_helm::request::Params;

const GROUP_VERSION: &str = "helm.toolkit.fluxcd.io/v2";
const KIND: &str = "HelmRelease";
/// Labels that Flux puts on every object of a release.
const LABELS: [&str; 2] = ["helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace"];

/// Whether a release may be taken over, if it is nobody's so far.
///
/// # Errors
/// Flux manages it.
pub(super) async fn check(
    at: Cluster<'_, '_>,
    params: &Params,
    known: &[Known],
) -> Result<(), ReleaseError> {
    // What is ours already needs no asking.
    let Some(newest) = known.last().filter(|newest| Owner::of(&newest.secret).is_none()) else {
        return Ok(());
    };
    let reached = at.session.reach(at.name).map_err(ReleaseError::io(KIND))?;
    let served = match reached.io.discovery().resolve_any(GROUP_VERSION, KIND).await {
        Ok(served) => served.api_version,
        // Without the kind, Flux is not there.
        Err(Error::NoSuchKind { .. }) => return Ok(()),
        Err(error) => return Err(ReleaseError::Io(KIND.to_owned(), error)),
    };
    let origin = newest.read().ok().and_then(|record| origin(&record.documents().ok()?));
    // The labels on the objects name the HelmRelease; else all of the namespace have to be
    // compared.
    let found = match &origin {
        Some((namespace, name)) => {
            let target = Target { api_version: &served, kind: KIND, namespace, name };
            at.get(&target).await.map(|found| vec![found])
        }
        None => at.list((&served, KIND), &params.namespace, "").await.map(items),
    };
    let found = match found {
        Ok(found) => found,
        Err(error) if error.is_not_found() => return Ok(()),
        // Who does not see whether Flux has it may not take what bears its marks.
        Err(error) if error.class() == Class::Refused && origin.is_none() => return Ok(()),
        Err(error) => return Err(ReleaseError::Io(KIND.to_owned(), error)),
    };
    let is_meant = origin.is_some();
    let holder = found.iter().find(|it| is_meant || is_of(it, &params.name, &params.namespace));
    // A suspended HelmRelease has let go.
    let Some(holder) = holder.filter(|it| !is_suspended(it)) else { return Ok(()) };
    let app = at.session.ctx.application(&at.session.key()).await;
    let app = app.map_err(|error| ReleaseError::Io(KIND.to_owned(), error))?;
    let key = names::annotation::RELEASE_ADOPT_FLUX;
    if app.is_some_and(|app| facts::annotation(&app.metadata, key) == "true") {
        return Ok(());
    }
    let object = format!("{}/{}", namespace(holder), name(holder));
    let release = format!("{}/{}", params.namespace, params.name);
    Err(ReleaseError::Flux(messages::release_of_flux(&release, &object, key)))
}

fn items(list: Value) -> Vec<Value> {
    match list {
        Value::Object(mut list) => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The HelmRelease that the objects of a release name: its namespace and name.
fn origin(documents: &[Value]) -> Option<(String, String)> {
    documents.iter().find_map(|object| {
        let [name, namespace] = LABELS.map(|key| label(object, key).map(str::to_owned));
        Some((namespace?, name?))
    })
}

fn text<'v>(object: &'v Value, path: &str) -> &'v str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a HelmRelease makes a release of this name and namespace.
fn is_of(object: &Value, release: &str, release_namespace: &str) -> bool {
    let target = Some(text(object, "/spec/targetNamespace")).filter(|it| !it.is_empty());
    let own = match (text(object, "/spec/releaseName"), target) {
        // The name that Flux gives a release which has none of its own.
        ("", Some(target)) => format!("{target}-{}", name(object)),
        ("", None) => name(object).to_owned(),
        (given, _) => given.to_owned(),
    };
    own == release && target.unwrap_or_else(|| namespace(object)) == release_namespace
}

fn is_suspended(object: &Value) -> bool {
    object.pointer("/spec/suspend").and_then(Value::as_bool).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn which_release_flux_makes() {
        let object =
            |spec: Value| json!({"metadata": {"name": "web", "namespace": "n"}, "spec": spec});
        for (spec, release, namespace, same) in [
            (json!({}), "web", "n", true),
            (json!({}), "web", "other", false),
            (json!({"releaseName": "r"}), "r", "n", true),
            (json!({"releaseName": "r"}), "web", "n", false),
            (json!({"targetNamespace": "t"}), "t-web", "t", true),
            (json!({"targetNamespace": "t", "releaseName": "r"}), "r", "t", true),
        ] {
            assert_eq!(is_of(&object(spec.clone()), release, namespace), same, "{spec}");
        }
        assert!(is_suspended(&object(json!({"suspend": true}))));
        assert!(!is_suspended(&object(json!({}))));
    }

    #[test]
    fn objects_say_who_made_them() {
        let marked = json!({"metadata": {"labels": {(LABELS[0]): "web", (LABELS[1]): "flux"}}});
        let found = origin(&[json!({}), marked]);
        assert_eq!(found, Some(("flux".to_owned(), "web".to_owned())));
        assert_eq!(origin(&[json!({"metadata": {"labels": {"a": "b"}}})]), None);
    }
}
