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
use vela_cluster::members::{Cluster, ExchangeRules, Exchanged};
use vela_cluster::{ApiError, Identity};

use super::exchange::NoRules;

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
    /// Rules about identities in all clusters, or why they cannot be followed: then nobody gets anywhere.
    exchange: Mutex<Result<ExchangeRules, NoRules>>,
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
            exchange: Mutex::new(Ok(ExchangeRules::default())),
        }
    }

    /// From now on these rules about identities hold in all clusters; or why none can be followed.
    pub fn exchange(&self, rules: Result<ExchangeRules, NoRules>) {
        *self.exchange.lock() = rules;
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
        let everywhere = self.exchange.lock().clone().map_err(|error| ApiError::Unreachable {
            cluster: member.name.clone(),
            since: "the last change of the rules".to_owned(),
            why: error.to_string(),
        })?;
        let mut rules = [&member.exchange, &everywhere].into_iter();
        match rules.find_map(|rules| rules.exchange(identity, &member.name)) {
            Some(Exchanged::Credential) => return Ok(Identity::default()),
            Some(Exchanged::As(other)) => return Ok(other),
            None => {}
        }
        if !self.administrators.is_empty() && identity.groups.contains(&self.administrators) {
            return Ok(Identity::default());
        }
        const ACCOUNT: &str = "system:serviceaccount:";
        if identity.user.starts_with("system:") && !identity.user.starts_with(ACCOUNT) {
            let user = &identity.user;
            return Err(forbidden(format!("user {user:?} is not impersonated in other clusters")));
        }
        let account = identity.user.strip_prefix(ACCOUNT);
        let of_account =
            account.and_then(|account| account.split_once(':')).map(|(namespace, _)| {
                ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")]
            });
        let is_forwarded = |group: &&String| {
            !group.starts_with("system:")
                || *group == "system:authenticated"
                || of_account.as_ref().is_some_and(|own| own.contains(group))
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
    use serde_json::json;
    use tower::service_fn;
    use vela_cluster::members::SecretRules;

    use super::super::exchange::missing;
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

    const PRIVILEGED: &str = "type: PrivilegedIdentityExchanger";
    const ROBOT: &str = "type: StaticMappingIdentityExchanger, target: {user: robot}";

    #[tokio::test]
    async fn rules_of_the_cluster_come_before_those_of_all_and_wrong_ones_let_nobody_through() {
        let access = access(&Arc::default());
        let there = |user: &str, groups: &[&str], member: &Cluster| {
            access.identity_there(&identity(user, groups), member)
        };
        access.exchange(Ok(ExchangeRules::read(&rules("alice", PRIVILEGED)).unwrap()));
        assert_eq!(there("alice", &[], &edge("")).unwrap(), Identity::default());
        assert_eq!(there("bob", &[], &edge("")).unwrap(), identity("bob", &[]));
        let own = edge(&rules("alice", ROBOT));
        assert_eq!(there("alice", &["admins"], &own).unwrap(), identity("robot", &[]));
        assert_eq!(there("bob", &["admins"], &own).unwrap(), Identity::default());
        access.exchange(Err(missing("n/rules")));
        for user in ["alice", "bob"] {
            let error = there(user, &["admins"], &own).unwrap_err();
            assert!(error.to_string().contains("n/rules: there is no such"), "{error}");
            assert!(matches!(error.class(), vela_cluster::Class::Retry(_)));
        }
        // The controller's own requests are nobody's.
        assert_eq!(access.identity_there(&Identity::default(), &own).unwrap(), Identity::default());
    }

    #[tokio::test]
    async fn administrators_act_as_the_credential_and_groups_of_the_system_stay_at_home() {
        let access = access(&Arc::default());
        let member = edge("");
        let there =
            |user: &str, groups: &[&str]| access.identity_there(&identity(user, groups), &member);
        assert_eq!(there("alice", &["admins", "dev"]).unwrap(), Identity::default());
        let groups = &["dev", "system:masters", "system:authenticated"];
        assert_eq!(there("alice", groups).unwrap().groups, ["dev", "system:authenticated"]);
        let account = "system:serviceaccount:n:a";
        let own = ["system:serviceaccounts", "system:serviceaccounts:n"];
        let others = ["system:nodes", "system:serviceaccounts:m", "system:serviceaccountsx"];
        assert_eq!(there(account, &[own, ["a", "b"]].concat()).unwrap().groups.len(), 4);
        assert_eq!(there(account, &[&own[..], &others].concat()).unwrap().groups, own);
        assert!(there("system:admin", &[]).is_err());
        let nobody = Identity::default();
        assert_eq!(access.identity_there(&nobody, &member).unwrap(), nobody);
    }
}
