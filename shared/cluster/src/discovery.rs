//! Which path a kind has: asked once per group version, believed for a while, asked again on a miss.
//!
//! Our own: kube's discovery reads all groups at once, and does not age.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::time::Instant;

use crate::Error;

/// How long a kind that is not served stays unknown before it is asked for again.
const ABSENT_FOR: Duration = Duration::from_secs(5);
/// How long a served group version is believed. A kind that changes scope or plural within this
/// time gives a 404, which the caller retries.
const PRESENT_FOR: Duration = Duration::from_secs(600);

/// How a kind is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Group and version, as in `apiVersion`.
    pub api_version: String,
    /// Kind, as in manifests.
    pub kind: String,
    /// Plural name.
    pub plural: String,
    /// Lives in namespaces.
    pub namespaced: bool,
    /// Verbs it knows.
    pub verbs: Vec<String>,
}

impl Resource {
    /// Path of the collection in a namespace (ignored for cluster-scoped kinds; empty means all).
    #[must_use]
    pub fn collection(&self, namespace: &str) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let version = &self.api_version;
        let plural = &self.plural;
        if self.namespaced && !namespace.is_empty() {
            format!("/{root}/{version}/namespaces/{namespace}/{plural}")
        } else {
            format!("/{root}/{version}/{plural}")
        }
    }

    /// Group, empty for the core group.
    #[must_use]
    pub fn group(&self) -> &str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// `<plural>.<group>`, as WorkloadDefinitions and CustomResourceDefinitions are named.
    #[must_use]
    pub fn full_name(&self) -> String {
        match self.group() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// As kube's dynamic types want it.
    #[must_use]
    pub fn to_api_resource(&self) -> ApiResource {
        let (group, version) =
            self.api_version.split_once('/').unwrap_or(("", self.api_version.as_str()));
        ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            plural: self.plural.clone(),
        }
    }
}

#[derive(Deserialize)]
struct ResourceList {
    resources: Vec<Listed>,
}

#[derive(Deserialize)]
struct Listed {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct GroupList {
    groups: Vec<ListedGroup>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedGroup {
    name: String,
    #[serde(default)]
    versions: Vec<ListedVersion>,
    preferred_version: ListedVersion,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "camelCase")]
struct ListedVersion {
    group_version: String,
}

/// A group and its versions, the preferred one first.
struct Group {
    name: String,
    versions: Vec<String>,
}

impl From<ListedGroup> for Group {
    fn from(listed: ListedGroup) -> Self {
        let preferred = listed.preferred_version;
        let mut others = listed.versions;
        others.retain(|version| *version != preferred);
        let all = std::iter::once(preferred).chain(others);
        Self { name: listed.name, versions: all.map(|version| version.group_version).collect() }
    }
}

#[derive(Clone)]
struct CachedKinds {
    since: Instant,
    kinds: Arc<HashMap<String, Resource>>,
}

/// The kinds an API server serves.
pub struct Discovery {
    client: Client,
    /// That nothing is served at a path is believed only of the list of groups.
    doubts: bool,
    /// By group version. Bounded by what manifests name and the server knows or denies.
    known: Mutex<HashMap<String, CachedKinds>>,
    /// The groups, and since when that is known.
    groups: Mutex<Option<(Instant, Arc<Vec<Group>>)>>,
}

impl std::fmt::Debug for Discovery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Discovery").field("known", &self.known.lock().len()).finish()
    }
}

impl Discovery {
    /// Nothing known yet.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, doubts: false, known: Mutex::default(), groups: Mutex::default() }
    }

    /// Of a member: a group version counts as not served only if the list of groups says so, too.
    #[must_use]
    pub fn of_member(client: Client) -> Self {
        Self { doubts: true, ..Self::new(client) }
    }

    /// How a kind is served.
    ///
    /// # Errors
    /// [`Error::NoSuchKind`], or why the API server did not answer.
    pub async fn resolve(&self, api_version: &str, kind: &str) -> Result<Resource, Error> {
        let absent =
            || Error::NoSuchKind { kind: kind.to_owned(), api_version: api_version.to_owned() };
        if !is_group_version(api_version) {
            return Err(absent());
        }
        let known = self.known.lock().get(api_version).cloned();
        if let Some(known) = known {
            let age = known.since.elapsed();
            match known.kinds.get(kind) {
                Some(resource) if age < PRESENT_FOR => return Ok(resource.clone()),
                None if age < ABSENT_FOR => return Err(absent()),
                _ => {}
            }
        }
        self.learn(api_version).await?.get(kind).cloned().ok_or_else(absent)
    }

    /// How a kind is served: in this version, or in the first of its group that has it. An object outlives the version it
    /// was made in.
    ///
    /// # Errors
    /// [`Error::NoSuchKind`]: in no version; or why the API server did not answer.
    pub async fn resolve_any(&self, api_version: &str, kind: &str) -> Result<Resource, Error> {
        let absent = match self.resolve(api_version, kind).await {
            Err(error @ Error::NoSuchKind { .. }) => error,
            other => return other,
        };
        let Some((group, _)) = api_version.split_once('/') else { return Err(absent) };
        let groups = self.recent_groups().await?;
        let meant = groups.iter().find(|known| known.name == group);
        for version in meant.iter().flat_map(|known| &known.versions) {
            if let Some(resource) = self.kinds(version).await?.get(kind) {
                return Ok(resource.clone());
            }
        }
        Err(absent)
    }

    /// The kind behind a resource's plural or singular name. Without a group, any group that has one; the core group
    /// first.
    ///
    /// # Errors
    /// [`Error::NoSuchKind`], or why the API server did not answer.
    pub async fn named(&self, group: &str, name: &str) -> Result<Resource, Error> {
        for version in self.versions(group).await? {
            let kinds = self.kinds(&version).await?;
            let fits =
                |known: &&Resource| known.plural == name || known.kind.eq_ignore_ascii_case(name);
            if let Some(resource) = kinds.values().filter(fits).min_by_key(|known| &known.kind) {
                return Ok(resource.clone());
            }
        }
        let api_version = if group.is_empty() { "any group" } else { group }.to_owned();
        Err(Error::NoSuchKind { kind: name.to_owned(), api_version })
    }

    /// The plural names of a group; without one, those of all groups.
    ///
    /// # Errors
    /// Why the API server did not answer.
    pub async fn plurals(&self, group: &str) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        for version in self.versions(group).await? {
            let kinds = self.kinds(&version).await?;
            names.extend(kinds.values().map(|known| known.plural.clone()));
        }
        names.sort_unstable();
        names.dedup();
        Ok(names)
    }

    /// Every group version that is served, and every kind in it as `GROUP/VERSION/KIND`. What an aggregated API server does
    /// not answer is left out.
    ///
    /// # Errors
    /// Why the API server did not answer.
    pub async fn served(&self) -> Result<Vec<String>, Error> {
        let groups = self.groups().await?;
        let all = groups.iter().flat_map(|group| group.versions.iter().map(String::as_str));
        let mut out = Vec::new();
        for version in std::iter::once("v1").chain(all) {
            let Ok(kinds) = self.kinds(version).await else { continue };
            let mut kinds: Vec<String> =
                kinds.keys().map(|kind| format!("{version}/{kind}")).collect();
            kinds.sort_unstable();
            out.push(version.to_owned());
            out.append(&mut kinds);
        }
        Ok(out)
    }

    /// The preferred version of a group; without one, those of all groups, the core group first.
    async fn versions(&self, group: &str) -> Result<Vec<String>, Error> {
        let core = group.is_empty().then(|| "v1".to_owned());
        let groups = self.groups().await?;
        let meant = groups.iter().filter(|known| group.is_empty() || known.name == group);
        let preferred = meant.filter_map(|known| known.versions.first().cloned());
        Ok(core.into_iter().chain(preferred).collect())
    }

    /// The groups as they were not long ago: many objects of a kind that is gone are searched for one after the other.
    async fn recent_groups(&self) -> Result<Arc<Vec<Group>>, Error> {
        if let Some((since, groups)) = &*self.groups.lock()
            && since.elapsed() < ABSENT_FOR
        {
            return Ok(Arc::clone(groups));
        }
        self.groups().await
    }

    /// The groups in the server's order.
    async fn groups(&self) -> Result<Arc<Vec<Group>>, Error> {
        let request = http::Request::get("/apis")
            .body(Vec::new())
            .map_err(|error| Error::Transport(error.to_string()))?;
        let list = self.client.request::<GroupList>(request).await.map_err(Error::from)?;
        let groups = Arc::new(list.groups.into_iter().map(Group::from).collect());
        *self.groups.lock() = Some((Instant::now(), Arc::clone(&groups)));
        Ok(groups)
    }

    /// Whether the list of groups has a group version; the core group is always served.
    async fn is_listed(&self, api_version: &str) -> Result<bool, Error> {
        let Some((group, _)) = api_version.split_once('/') else { return Ok(true) };
        let groups = self.groups().await?;
        let versions = groups.iter().filter(|known| known.name == group);
        Ok(versions.flat_map(|known| &known.versions).any(|version| version == api_version))
    }

    /// All kinds of a group version.
    async fn kinds(&self, api_version: &str) -> Result<Arc<HashMap<String, Resource>>, Error> {
        if let Some(known) = self.known.lock().get(api_version)
            && known.since.elapsed() < PRESENT_FOR
        {
            return Ok(Arc::clone(&known.kinds));
        }
        self.learn(api_version).await
    }

    /// Asks for the kinds of a group version and remembers them.
    async fn learn(&self, api_version: &str) -> Result<Arc<HashMap<String, Resource>>, Error> {
        let kinds = Arc::new(self.fetch(api_version).await?);
        let answer = CachedKinds { since: Instant::now(), kinds: Arc::clone(&kinds) };
        let mut known = self.known.lock();
        known.insert(api_version.to_owned(), answer);
        if known.len() > MAX_GROUP_VERSIONS {
            known.retain(|_, known| known.since.elapsed() < ABSENT_FOR || !known.kinds.is_empty());
        }
        Ok(kinds)
    }

    /// Forgets everything, so that the next question is asked at once.
    pub fn forget_all(&self) {
        self.known.lock().clear();
        *self.groups.lock() = None;
    }

    /// Forgets a group version: its CustomResourceDefinition changed.
    pub fn forget(&self, api_version: &str) {
        self.known.lock().remove(api_version);
        *self.groups.lock() = None;
    }

    async fn fetch(&self, api_version: &str) -> Result<HashMap<String, Resource>, Error> {
        let root = if api_version.contains('/') { "apis" } else { "api" };
        let request = http::Request::get(format!("/{root}/{api_version}"))
            .body(Vec::new())
            .map_err(|error| Error::Transport(error.to_string()))?;
        let list = match self.client.request::<ResourceList>(request).await.map_err(Error::from) {
            Ok(list) => list,
            // The group version is not served at all.
            Err(error) if error.is_not_found() => {
                if self.doubts && self.is_listed(api_version).await? {
                    return Err(error.unproven());
                }
                return Ok(HashMap::new());
            }
            Err(error) => return Err(error),
        };
        Ok(list
            .resources
            .into_iter()
            .filter(|listed| !listed.name.contains('/'))
            .map(|listed| {
                let resource = Resource {
                    api_version: api_version.to_owned(),
                    kind: listed.kind.clone(),
                    plural: listed.name,
                    namespaced: listed.namespaced,
                    verbs: listed.verbs,
                };
                (listed.kind, resource)
            })
            .collect())
    }
}

/// Above this many group versions, unserved ones are dropped: manifests can name any.
const MAX_GROUP_VERSIONS: usize = 512;

/// Whether a text can stand in a path: manifests are not trusted.
fn is_group_version(text: &str) -> bool {
    !text.is_empty()
        && text.matches('/').count() <= 1
        && !text.starts_with('/')
        && !text.ends_with('/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '/'))
        && !text.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::fake;

    #[test]
    fn paths() {
        let resource = |api_version: &str, namespaced| Resource {
            api_version: api_version.to_owned(),
            kind: "Thing".to_owned(),
            plural: "things".to_owned(),
            namespaced,
            verbs: Vec::new(),
        };
        assert_eq!(resource("v1", true).collection("a"), "/api/v1/namespaces/a/things");
        assert_eq!(resource("x.io/v1", true).collection(""), "/apis/x.io/v1/things");
        assert_eq!(resource("x.io/v1", false).collection("a"), "/apis/x.io/v1/things");
        assert_eq!(resource("x.io/v1", false).group(), "x.io");
        for bad in ["", "a/b/c", "../v1", "/v1", "v1/", "v1?x=y", "a b"] {
            assert!(!is_group_version(bad), "{bad}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn asks_once_and_again_on_a_miss() {
        let (client, requests) = fake(|_, path, _| match path {
            "/apis/x.io/v1" => (
                200,
                serde_json::json!({"resources": [
                    {"name": "things", "kind": "Thing", "namespaced": true, "verbs": ["get"]},
                    {"name": "things/status", "kind": "Thing", "namespaced": true},
                ]}),
            ),
            _ => (404, serde_json::json!({"kind": "Status", "code": 404, "reason": "NotFound"})),
        });
        let discovery = Discovery::new(client);
        for _ in 0..3 {
            assert_eq!(
                discovery.resolve("x.io/v1", "Thing").await.expect("served").plural,
                "things"
            );
        }
        assert_eq!(requests.lock().len(), 1);
        // Not there: the group is asked again, but not within five seconds.
        tokio::time::advance(Duration::from_secs(6)).await;
        for _ in 0..3 {
            let error = discovery.resolve("x.io/v1", "Other").await.expect_err("unknown");
            assert_eq!(error.to_string(), "no matches for kind \"Other\" in version \"x.io/v1\"");
        }
        assert_eq!(requests.lock().len(), 2);
        assert!(discovery.resolve("y.io/v1", "Thing").await.expect_err("unknown").is_not_found());
        assert!(discovery.resolve("y.io/v1", "Thing").await.expect_err("unknown").is_not_found());
        assert_eq!(requests.lock().len(), 3);
    }

    #[tokio::test]
    async fn a_kind_is_found_in_another_version_of_its_group() {
        let (client, _) = fake(|_, path, _| {
            let kinds = |kind: &str| {
                serde_json::json!({"resources": [
                    {"name": "things", "kind": kind, "namespaced": true}]})
            };
            match path {
                "/apis" => {
                    let versions = ["v1", "v3", "v2"].map(
                        |version| serde_json::json!({"groupVersion": format!("x.io/{version}")}),
                    );
                    let group = serde_json::json!({
                        "name": "x.io", "versions": versions, "preferredVersion": versions[1]});
                    (200, serde_json::json!({ "groups": [group] }))
                }
                "/apis/x.io/v2" => (200, kinds("Thing")),
                "/apis/x.io/v3" => (200, kinds("Other")),
                _ => (404, serde_json::json!({"kind": "Status", "code": 404})),
            }
        });
        let discovery = Discovery::new(client);
        for (asked, kind, found) in [
            ("x.io/v2", "Thing", Some("x.io/v2")),
            ("x.io/v1", "Thing", Some("x.io/v2")),
            ("x.io/v1", "Other", Some("x.io/v3")),
            ("x.io/v1", "Nothing", None),
            ("y.io/v1", "Thing", None),
            ("v1", "Thing", None),
        ] {
            let version = match discovery.resolve_any(asked, kind).await {
                Ok(resource) => Some(resource.api_version),
                Err(error) => {
                    assert!(error.to_string().contains(asked), "{error}");
                    None
                }
            };
            assert_eq!(version.as_deref(), found, "{kind} of {asked}");
        }
    }
}
