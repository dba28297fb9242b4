//! Which cluster had which name, in the ConfigMap `vela-clusters`: a name that means another cluster than it did is noticed even
//! if that happened while nobody was at work.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vela_api::names::CLUSTERS_CONFIG_MAP as NAME;
use vela_apply::plan::PatchKind;

use super::Proof;
use crate::{Error, Identity, ObjectClient, Target};

/// What is remembered of a name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Known {
    /// The uid of the cluster's namespace `kube-system`.
    pub uid: String,
    /// A hash of the authorities that vouched for it; empty: its certificate was not checked.
    pub authority: String,
    /// The uid of the Secret through which it was reached.
    pub secret_uid: String,
    /// The git version of its API server, such as `v1.34.1`.
    pub version: String,
    /// Its labels, if it is registered: for those who may not read Secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub labels: Option<BTreeMap<String, String>>,
}

impl Known {
    pub(super) fn proof(&self) -> Proof {
        Proof { uid: self.uid.clone(), authority: self.authority.clone() }
    }
}

fn target(namespace: &str) -> Target<'_> {
    Target { api_version: "v1", kind: "ConfigMap", namespace, name: NAME }
}

/// Reads it; `None` if there is none yet. An entry that cannot be read is left out.
///
/// # Errors
/// The API server's answer.
pub async fn load(
    io: &ObjectClient,
    namespace: &str,
) -> Result<Option<BTreeMap<String, Known>>, Error> {
    match io.get(&target(namespace), &Identity::default()).await {
        Ok(object) => Ok(Some(read(&object))),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

fn read(object: &Value) -> BTreeMap<String, Known> {
    let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
    let entry = |(name, text): (&String, &Value)| {
        Some((name.clone(), serde_json::from_str(text.as_str()?).ok()?))
    };
    data.filter_map(entry).collect()
}

/// Writes what changed from one state to the other.
///
/// # Errors
/// The API server's answer.
pub async fn store(
    io: &ObjectClient,
    namespace: &str,
    (before, after): (&BTreeMap<String, Known>, &BTreeMap<String, Known>),
) -> Result<(), Error> {
    let own = Identity::default();
    let body = json!({ "data": changes(before, after) });
    match io.patch(&target(namespace), "", (PatchKind::Merge, &body), false, &own).await {
        Err(error) if error.is_not_found() => {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": NAME, "namespace": namespace},
                "data": changes(&BTreeMap::new(), after),
            });
            io.create(&object, false, &own).await.map(|_| ())
        }
        other => other.map(|_| ()),
    }
}

fn changes(
    before: &BTreeMap<String, Known>,
    after: &BTreeMap<String, Known>,
) -> BTreeMap<String, Option<String>> {
    let gone = before.keys().filter(|name| !after.contains_key(*name));
    let news = after.iter().filter(|(name, known)| before.get(*name) != Some(known));
    let text = |known: &Known| serde_json::to_string(known).ok();
    gone.map(|name| (name.clone(), None))
        .chain(news.map(|(name, known)| (name.clone(), text(known))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changed_is_written_and_read_again() {
        let known = |uid: &str| Known { uid: uid.to_owned(), ..Known::default() };
        let of = |all: &[(&str, &str)]| -> BTreeMap<String, Known> {
            all.iter().map(|(name, uid)| ((*name).to_owned(), known(uid))).collect()
        };
        let (before, after) =
            (of(&[("a", "1"), ("b", "2"), ("c", "3")]), of(&[("b", "2"), ("c", "4")]));
        let changes = changes(&before, &after);
        assert_eq!(changes.keys().collect::<Vec<_>>(), ["a", "c"]);
        assert_eq!(changes.get("a"), Some(&None));
        let object = json!({"data": {"c": changes.get("c").cloned().flatten(), "broken": "{"}});
        assert_eq!(read(&object), of(&[("c", "4")]));
        assert!(read(&json!({})).is_empty());
    }
}
