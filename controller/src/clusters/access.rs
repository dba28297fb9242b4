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
use vela_cluster::members::{Arrival, Cluster, SharedRules, arrival};
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
    rules: SharedRules,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    /// Asks over a connection that needs `create` of `subjectaccessreviews`.
    #[must_use]
    pub fn new(client: Client, administrators: &str, rules: SharedRules) -> Self {
        Self {
            api: Api::all(client),
            remembered: Mutex::new(LruCache::new(REMEMBERED)),
            administrators: administrators.to_owned(),
            rules,
        }
    }

    /// The rules about identities of all clusters.
    #[must_use]
    pub fn rules(&self) -> &SharedRules {
        &self.rules
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

    /// As whom a request arrives at a member: as its own rules say, else as those of all clusters; else administrators as the
    /// credential, and everybody else as himself.
    ///
    /// # Errors
    /// A user of the system, who is somebody else there; or rules that cannot be followed.
    pub fn identity_there(
        &self,
        identity: &Identity,
        member: &Cluster,
    ) -> Result<Identity, ApiError> {
        if !identity.is_other() {
            return Ok(identity.clone());
        }
        let everywhere = self.rules.now().map_err(|error| ApiError::Unreachable {
            cluster: member.name.clone(),
            since: "the last change of the rules".to_owned(),
            why: error.to_string(),
        })?;
        let is_administrators =
            |group: &str| !self.administrators.is_empty() && group == self.administrators;
        let rules = [&member.exchange, &everywhere];
        match arrival(identity, &member.name, rules, is_administrators) {
            Ok(Arrival::Credential) => Ok(Identity::default()),
            Ok(Arrival::Exchanged(there) | Arrival::Himself(there)) => Ok(there),
            Err(error) => Err(forbidden(error.to_string())),
        }
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
    use serde_json::json;
    use tower::service_fn;
    use vela_cluster::members::SecretRules;

    use super::*;

    /// Alice may do everything to `edge`.
    fn access(asked: &Arc<AtomicUsize>) -> Access {
        with_rules(asked, SharedRules::of(None))
    }

    fn with_rules(asked: &Arc<AtomicUsize>, rules: SharedRules) -> Access {
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
        Access::new(Client::new(service, "default"), "admins", rules)
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

    /// A cluster with rules of its own.
    fn edge(rules: &str) -> Cluster {
        let secret = json!({"metadata": {"name": "edge", "annotations": {
            "cluster.core.oam.dev/cluster-gateway-proxy-configuration": rules}}});
        Cluster::of(&serde_json::from_value(secret).unwrap(), SecretRules::default())
    }

    fn rules(user: &str, target: &str) -> String {
        format!(
            "{{apiVersion: cluster.core.oam.dev/v1alpha1, kind: ClusterGatewayProxyConfiguration,
              spec: {{clientIdentityExchanger: {{rules: [{{name: r, source: {{user: {user}}}, {target}}}]}}}}}}"
        )
    }

    const ROBOT: &str = "type: StaticMappingIdentityExchanger, target: {user: robot}";

    #[tokio::test]
    async fn rules_of_the_cluster_come_before_administrators_and_unread_ones_let_nobody_through() {
        let access = access(&Arc::default());
        let own = edge(&rules("alice", ROBOT));
        let there =
            |access: &Access, user: &str| access.identity_there(&identity(user, &["admins"]), &own);
        assert_eq!(there(&access, "alice").unwrap(), identity("robot", &[]));
        assert_eq!(there(&access, "bob").unwrap(), Identity::default());
        assert!(access.identity_there(&identity("system:admin", &[]), &own).is_err());

        let map = Some("n/rules".parse().unwrap());
        let access = with_rules(&Arc::default(), SharedRules::of(map));
        for user in ["alice", "bob"] {
            let error = there(&access, user).unwrap_err();
            assert!(error.to_string().contains("n/rules: they were not read yet"), "{error}");
            assert!(matches!(error.class(), vela_cluster::Class::Retry(_)));
        }
        // The controller's own requests are nobody's.
        assert_eq!(access.identity_there(&Identity::default(), &own).unwrap(), Identity::default());
    }
}
