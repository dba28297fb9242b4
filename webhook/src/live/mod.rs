//! Facts from the API server: the thin side of [`crate::world`].

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::Semaphore;
use vela_api::names;
use vela_cluster::{Discovery, Error};

use crate::messages;
use crate::metrics::Metrics;
use crate::world::{Access, Fact, Need, ObjectKind};

/// Requests to the API server at a time, for one review.
const PARALLEL: usize = 8;
/// Requests to the API server at a time, for all reviews.
const AT_ONCE: usize = 64;
/// Answers kept: users times definitions, small.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(4096) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long a permission is remembered. The API server itself remembers them for longer.
const PERMISSION: Duration = Duration::from_secs(10);
/// How long the clusters that joined are remembered: an Application of many policies asks once.
const CLUSTERS: Duration = Duration::from_secs(2);
/// How long a served kind is remembered, and how soon an unknown one is searched for again.
const SERVED: Duration = Duration::from_secs(300);
const NOT_SERVED: Duration = Duration::from_secs(2);

/// Asks the API server, remembering what does not change with every write.
pub(crate) struct Live {
    client: Client,
    discovery: Discovery,
    /// When everything that is served was last asked for because of an unknown name.
    learned: Mutex<Option<Instant>>,
    asking: Semaphore,
    remembered: Mutex<LruCache<Need, (Instant, Fact)>>,
    metrics: Metrics,
}

impl std::fmt::Debug for Live {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

impl Live {
    pub(crate) fn new(client: Client, metrics: Metrics) -> Self {
        Self {
            discovery: Discovery::new(client.clone()),
            client,
            learned: Mutex::new(None),
            asking: Semaphore::new(AT_ONCE),
            remembered: Mutex::new(LruCache::new(REMEMBERED)),
            metrics,
        }
    }

    /// Answers all questions, several at a time. Those that the rules can go on without are given
    /// up when `deadline` is over.
    pub(crate) async fn know(
        &self,
        needs: impl IntoIterator<Item = Need>,
        deadline: Instant,
    ) -> Vec<(Need, Fact)> {
        futures::stream::iter(needs)
            .map(|need| async move {
                let fact = if !need.is_optional() {
                    self.one(&need).await
                } else if tokio::time::Instant::now().into_std() < deadline {
                    tokio::time::timeout_at(deadline.into(), self.one(&need))
                        .await
                        .unwrap_or_else(|_| Fact::Failed(messages::NO_ANSWER_IN_TIME.to_owned()))
                } else {
                    Fact::Failed(messages::NO_ANSWER_IN_TIME.to_owned())
                };
                (need, fact)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await
    }

    async fn one(&self, need: &Need) -> Fact {
        if let Some((until, fact)) = self.remembered.lock().get(need)
            && Instant::now() < *until
        {
            return fact.clone();
        }
        let Ok(_place) = self.asking.acquire().await else {
            return Fact::Failed(messages::SHUTTING_DOWN.to_owned());
        };
        let (question, answer) = match need {
            Need::Object { kind, namespace, name } => {
                ("object", self.object(*kind, namespace, name).await)
            }
            Need::Revisions { kind, namespace, name } => {
                let selector = format!("{}={name}", kind.revision_label());
                ("revisions", self.revisions(namespace, &selector).await)
            }
            Need::Permission { user, groups, access } => {
                ("permission", self.allowed(user, groups, access).await)
            }
            Need::Resource { api_version, kind } => {
                ("resource", self.resource(api_version, kind).await)
            }
            Need::Named { group, name } => ("named", self.named(group, name).await),
            Need::Release { namespace, name } => ("release", self.release(namespace, name).await),
            Need::Clusters { namespace } => ("clusters", self.clusters(namespace).await),
            Need::Exists { api_version, kind, plural, namespace, name } => {
                let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
                let gvk = GroupVersionKind::gvk(group, version, kind);
                let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
                ("exists", self.exists(&resource, namespace, name).await)
            }
        };
        let result = if answer.is_ok() { "ok" } else { "error" };
        self.metrics.live_reads.with_label_values(&[question, result]).inc();
        let fact = match answer {
            Ok(fact) => fact,
            Err(error) => return Fact::Failed(error.to_string()),
        };
        let keep = match &fact {
            Fact::Allowed(_) => PERMISSION,
            Fact::Resource(Some(_)) => SERVED,
            Fact::Resource(None) | Fact::NoResource(_) => NOT_SERVED,
            _ if matches!(need, Need::Clusters { .. }) => CLUSTERS,
            // Objects change, and a create-then-apply must see the new one.
            _ => return fact,
        };
        self.remembered.lock().put(need.clone(), (Instant::now() + keep, fact.clone()));
        fact
    }

    fn api(&self, kind: ObjectKind, namespace: &str) -> Api<DynamicObject> {
        let (version, kind, plural) = kind.resource();
        let gvk = GroupVersionKind::gvk(vela_api::GROUP, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, plural);
        if namespace.is_empty() {
            Api::all_with(self.client.clone(), &resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        }
    }

    async fn object(&self, kind: ObjectKind, namespace: &str, name: &str) -> Result<Fact, Error> {
        // a name no object can have would make another request of the path
        if !is_object_name(name) {
            return Ok(Fact::Object(None));
        }
        let found = self.api(kind, namespace).get_opt(name).await?;
        Ok(Fact::Object(found.as_ref().and_then(value)))
    }

    /// The ConfigMap that the template of a chart's component makes.
    async fn release(&self, namespace: &str, name: &str) -> Result<Fact, Error> {
        let name = vela_helm::preview::config_map(name);
        if !is_object_name(&name) || !is_object_name(namespace) {
            return Ok(Fact::Object(None));
        }
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        // Without it there is one warning less: a review never fails for it.
        let Ok(found) = api.get_opt(&name).await else { return Ok(Fact::Unreadable) };
        Ok(Fact::Object(found.and_then(|map| serde_json::to_value(map).ok()).map(Arc::new)))
    }

    /// What the controller noted of the clusters that joined.
    async fn clusters(&self, namespace: &str) -> Result<Fact, Error> {
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        // A warning only: a review never fails for it.
        let Ok(found) = api.get_opt(names::CLUSTERS_CONFIG_MAP).await else {
            return Ok(Fact::Unreadable);
        };
        Ok(Fact::Object(found.and_then(|map| serde_json::to_value(map).ok()).map(Arc::new)))
    }

    async fn revisions(&self, namespace: &str, selector: &str) -> Result<Fact, Error> {
        let list = self
            .api(ObjectKind::DefinitionRevision, namespace)
            .list(&ListParams::default().labels(selector))
            .await?;
        Ok(Fact::Objects(list.items.iter().filter_map(value).collect()))
    }

    async fn allowed(&self, user: &str, groups: &[String], access: &Access) -> Result<Fact, Error> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(groups.to_vec()),
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(access.verb.to_owned()),
                    group: Some(access.group.clone()),
                    version: Some(access.version.clone()),
                    resource: Some(access.resource.clone()),
                    namespace: Some(access.namespace.clone()),
                    name: Some(access.name.clone()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(Fact::Allowed(answer.status.is_some_and(|status| status.allowed)))
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Result<Fact, Error> {
        let mut found = self.discovery.resolve(api_version, kind).await;
        if matches!(found, Err(Error::NoSuchKind { .. })) {
            // Its CustomResourceDefinition may have come a moment ago.
            self.discovery.forget(api_version);
            found = self.discovery.resolve(api_version, kind).await;
        }
        match found {
            Ok(resource) => Ok(Fact::Resource(Some(resource))),
            Err(Error::NoSuchKind { .. }) => Ok(Fact::Resource(None)),
            Err(error) => Err(error),
        }
    }

    async fn named(&self, group: &str, name: &str) -> Result<Fact, Error> {
        let mut found = self.discovery.named(group, name).await;
        if matches!(found, Err(Error::NoSuchKind { .. })) && self.may_discover_again() {
            self.discovery.forget_all();
            found = self.discovery.named(group, name).await;
        }
        match found {
            Ok(resource) => Ok(Fact::Resource(Some(resource))),
            Err(Error::NoSuchKind { .. }) => {
                let names = self.discovery.plurals(group).await?;
                let nearest = vela_serve::nearest(name, names.iter().map(String::as_str));
                Ok(Fact::NoResource(nearest.map(str::to_owned)))
            }
            Err(error) => Err(error),
        }
    }

    /// Asking for everything that is served takes a request for each group: not for every name
    /// that somebody invents.
    fn may_discover_again(&self) -> bool {
        let mut learned = self.learned.lock();
        let may = learned.is_none_or(|at| at.elapsed() > NOT_SERVED);
        if may {
            *learned = Some(Instant::now());
        }
        may
    }

    /// Asks for the object's metadata only: its content is nobody's business here.
    async fn exists(
        &self,
        resource: &ApiResource,
        namespace: &str,
        name: &str,
    ) -> Result<Fact, Error> {
        if !is_segment(name) || !(namespace.is_empty() || is_segment(namespace)) {
            return Ok(Fact::Exists(false));
        }
        let api: Api<DynamicObject> = if namespace.is_empty() {
            Api::all_with(self.client.clone(), resource)
        } else {
            Api::namespaced_with(self.client.clone(), namespace, resource)
        };
        match api.get_metadata_opt(name).await {
            Ok(found) => Ok(Fact::Exists(found.is_some())),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Fact::Unreadable),
            Err(error) => Err(error.into()),
        }
    }
}

fn value(object: &DynamicObject) -> Option<Arc<Value>> {
    serde_json::to_value(object).ok().map(Arc::new)
}

/// Whether a text can be a segment of a path, and only that: names of roles have colons.
fn is_segment(name: &str) -> bool {
    !matches!(name, "" | "." | "..")
        && name.len() <= 253
        && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_'))
}

fn is_object_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
}

#[cfg(test)]
mod tests;
