//! Who may use which member: whoever may not use `clustergateways/proxy` of a cluster in the hub makes no request to it over us
//! either. And as whom a request arrives there.

use std::num::NonZeroUsize;
use std::time::Duration;

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;
use vela_cluster::{ApiError, Identity};

/// Answers kept.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(4096) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long a yes holds, and how long a no.
const YES: Duration = Duration::from_secs(60);
const NO: Duration = Duration::from_secs(10);

/// User, groups, cluster, verb.
type Question = (String, Vec<String>, String, &'static str);

/// Asks the hub, and remembers its answers for a while.
pub struct Access {
    api: Api<SubjectAccessReview>,
    remembered: Mutex<LruCache<Question, (Instant, bool)>>,
    /// Members of this group act as the credential itself: who administers the hub can read the Secrets.
    administrators: String,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Asks over a connection that needs `create` of `subjectaccessreviews`.
    #[must_use]
    pub fn new(client: Client, administrators: &str) -> Self {
        Self {
            api: Api::all(client),
            remembered: Mutex::new(LruCache::new(REMEMBERED)),
            administrators: administrators.to_owned(),
        }
    }

    /// Whether an identity may make requests of a verb to a cluster.
    ///
    /// # Errors
    /// It may not: in the words of the API server; or that does not answer.
    pub async fn check(
        &self,
        identity: &Identity,
        cluster: &str,
        verb: &'static str,
    ) -> Result<(), ApiError> {
        let question = (identity.user.clone(), identity.groups.clone(), cluster.to_owned(), verb);
        let known = self.remembered.lock().get(&question).copied();
        let allowed = match known.filter(|(until, _)| Instant::now() < *until) {
            Some((_, allowed)) => allowed,
            None => {
                let review = review(identity, cluster, verb);
                let answer = self.api.create(&PostParams::default(), &review).await?;
                let allowed = answer.status.is_some_and(|status| status.allowed);
                let until = Instant::now() + if allowed { YES } else { NO };
                self.remembered.lock().put(question, (until, allowed));
                allowed
            }
        };
        if allowed {
            return Ok(());
        }
        Err(forbidden(format!(
            "clustergateways.cluster.core.oam.dev {cluster:?} is forbidden: User {:?} cannot {verb} \
             resource \"clustergateways/proxy\" in API group \"cluster.core.oam.dev\" at the cluster scope",
            identity.user
        )))
    }

    /// As whom a request arrives at a member.
    ///
    /// # Errors
    /// A user of the system, who is somebody else there.
    pub fn identity_there(&self, identity: &Identity) -> Result<Identity, ApiError> {
        if !identity.is_other() {
            return Ok(identity.clone());
        }
        if !self.administrators.is_empty() && identity.groups.contains(&self.administrators) {
            return Ok(Identity::default());
        }
        const ACCOUNT: &str = "system:serviceaccount:";
        if identity.user.starts_with("system:") && !identity.user.starts_with(ACCOUNT) {
            let user = &identity.user;
            return Err(forbidden(format!("user {user:?} is not impersonated in other clusters")));
        }
        let is_forwarded = |group: &&String| {
            !group.starts_with("system:")
                || *group == "system:authenticated"
                || (identity.user.starts_with(ACCOUNT)
                    && group.starts_with("system:serviceaccounts"))
        };
        let groups = identity.groups.iter().filter(is_forwarded).cloned().collect();
        Ok(Identity { user: identity.user.clone(), groups })
    }
}

fn forbidden(message: String) -> ApiError {
    ApiError::Api { code: 403, reason: "Forbidden".to_owned(), message, retry_after: None }
}

fn review(identity: &Identity, cluster: &str, verb: &str) -> SubjectAccessReview {
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(identity.user.clone()),
            groups: Some(identity.groups.clone()),
            resource_attributes: Some(ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some("cluster.core.oam.dev".to_owned()),
                version: Some("v1alpha1".to_owned()),
                resource: Some("clustergateways".to_owned()),
                subresource: Some("proxy".to_owned()),
                name: Some(cluster.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use kube::client::Body;
    use tower::service_fn;

    use super::*;

    /// Alice may do everything to `edge`.
    fn access(asked: &Arc<AtomicUsize>) -> Access {
        let asked = Arc::clone(asked);
        let service = service_fn(move |request: Request<Body>| {
            let asked = Arc::clone(&asked);
            async move {
                asked.fetch_add(1, Ordering::Relaxed);
                let body = request.into_body().collect_bytes().await?;
                let mut review: serde_json::Value = serde_json::from_slice(&body)?;
                let spec = &review["spec"];
                let allowed = spec["user"] == "alice"
                    && spec["resourceAttributes"]["name"] == "edge"
                    && spec["resourceAttributes"]["subresource"] == "proxy";
                review["status"] = serde_json::json!({ "allowed": allowed });
                Ok::<_, tower::BoxError>(Response::new(Body::from(review.to_string().into_bytes())))
            }
        });
        Access::new(Client::new(service, "default"), "admins")
    }

    fn identity(user: &str, groups: &[&str]) -> Identity {
        Identity { user: user.into(), groups: groups.iter().map(|&g| g.to_owned()).collect() }
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_may_use_the_proxy_of_a_cluster_reaches_it_and_the_answer_is_remembered() {
        let asked = Arc::new(AtomicUsize::new(0));
        let access = access(&asked);
        let (alice, bob) = (identity("alice", &[]), identity("bob", &[]));
        for _ in 0..3 {
            access.check(&alice, "edge", "patch").await.unwrap();
            let error = access.check(&bob, "edge", "patch").await.unwrap_err();
            assert_eq!(error.code(), Some(403));
            assert!(error.to_string().contains("clustergateways/proxy"), "{error}");
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(NO).await;
        assert!(access.check(&bob, "edge", "patch").await.is_err());
        access.check(&alice, "edge", "patch").await.unwrap();
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        assert!(access.check(&alice, "other", "patch").await.is_err());
    }

    #[tokio::test]
    async fn administrators_act_as_the_credential_and_groups_of_the_system_stay_at_home() {
        let access = access(&Arc::default());
        let there = |user: &str, groups: &[&str]| access.identity_there(&identity(user, groups));
        assert_eq!(there("alice", &["admins", "dev"]).unwrap(), Identity::default());
        let groups = &["dev", "system:masters", "system:authenticated"];
        assert_eq!(there("alice", groups).unwrap().groups, ["dev", "system:authenticated"]);
        let account = "system:serviceaccount:n:a";
        let groups = &["system:serviceaccounts", "system:serviceaccounts:n", "system:nodes"];
        assert_eq!(there(account, groups).unwrap().groups.len(), 2);
        assert!(there("system:admin", &[]).is_err());
        assert_eq!(access.identity_there(&Identity::default()).unwrap(), Identity::default());
    }
}
