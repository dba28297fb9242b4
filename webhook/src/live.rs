//! Facts from the API server: the thin side of [`crate::world`].

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{ApiResource, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::{Api, Client};
use lru::LruCache;
use parking_lot::Mutex;
use serde_json::Value;

use crate::metrics::Metrics;
use crate::world::{Fact, Need, ObjectKind};

/// Requests to the API server at a time, for one review.
const PARALLEL: usize = 8;
/// Answers kept: users times definitions, small.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(4096) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long a permission is remembered. The API server itself remembers them for longer.
const PERMISSION: Duration = Duration::from_secs(10);
/// How long a served kind is remembered, and how soon an unknown one is looked for again.
const SERVED: Duration = Duration::from_secs(300);
const NOT_SERVED: Duration = Duration::from_secs(2);

/// Asks the API server, remembering what does not change with every write.
pub(crate) struct Live {
    client: Client,
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
        Self { client, remembered: Mutex::new(LruCache::new(REMEMBERED)), metrics }
    }

    /// Answers all questions, several at a time.
    pub(crate) async fn know(&self, needs: impl IntoIterator<Item = Need>) -> Vec<(Need, Fact)> {
        futures::stream::iter(needs)
            .map(|need| async move {
                let fact = self.one(&need).await;
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
        let (question, answer) = match need {
            Need::Object { kind, namespace, name } => {
                ("object", self.object(*kind, namespace, name).await)
            }
            Need::Revisions { kind, namespace, name } => {
                let selector = format!("{}={name}", kind.revision_label());
                ("revisions", self.revisions(namespace, &selector).await)
            }
            Need::Permission { user, groups, kind, namespace, name } => {
                let attributes = ResourceAttributes {
                    verb: Some("get".to_owned()),
                    group: Some(vela_api::GROUP.to_owned()),
                    version: Some("v1beta1".to_owned()),
                    resource: Some(kind.resource().to_owned()),
                    namespace: Some(namespace.clone()),
                    name: Some(name.clone()),
                    ..ResourceAttributes::default()
                };
                ("permission", self.allowed(user, groups, attributes).await)
            }
            Need::Administrator { user, groups } => {
                let all = || Some("*".to_owned());
                let attributes = ResourceAttributes {
                    verb: all(),
                    group: all(),
                    version: all(),
                    resource: all(),
                    ..ResourceAttributes::default()
                };
                ("administrator", self.allowed(user, groups, attributes).await)
            }
            Need::Resource { api_version, kind } => {
                ("resource", self.resource(api_version, kind).await)
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
            Fact::Resource(None) => NOT_SERVED,
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

    async fn object(
        &self,
        kind: ObjectKind,
        namespace: &str,
        name: &str,
    ) -> Result<Fact, kube::Error> {
        // a name no object can have would make another request of the path
        if !is_object_name(name) {
            return Ok(Fact::Object(None));
        }
        let found = self.api(kind, namespace).get_opt(name).await?;
        Ok(Fact::Object(found.as_ref().and_then(value)))
    }

    async fn revisions(&self, namespace: &str, selector: &str) -> Result<Fact, kube::Error> {
        let list = self
            .api(ObjectKind::DefinitionRevision, namespace)
            .list(&ListParams::default().labels(selector))
            .await?;
        Ok(Fact::Objects(list.items.iter().filter_map(value).collect()))
    }

    async fn allowed(
        &self,
        user: &str,
        groups: &[String],
        attributes: ResourceAttributes,
    ) -> Result<Fact, kube::Error> {
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(user.to_owned()),
                groups: Some(groups.to_vec()),
                resource_attributes: Some(attributes),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await?;
        Ok(Fact::Allowed(answer.status.is_some_and(|status| status.allowed)))
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Result<Fact, kube::Error> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if let Ok(group) = kube::discovery::group(&self.client, group).await {
            let found = group
                .versioned_resources(version)
                .into_iter()
                .find(|(resource, _)| resource.kind == kind)
                .map(|(resource, _)| resource);
            return Ok(Fact::Resource(found.map(|resource| {
                if resource.group.is_empty() {
                    resource.plural
                } else {
                    format!("{}.{}", resource.plural, resource.group)
                }
            })));
        }
        // A group that is not there is an error of discovery; tell it from one of the connection.
        self.client.apiserver_version().await?;
        Ok(Fact::Resource(None))
    }
}

fn value(object: &DynamicObject) -> Option<Arc<Value>> {
    serde_json::to_value(object).ok().map(Arc::new)
}

fn is_object_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 253
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.'))
}
