//! Whether somebody is a cluster administrator now. A stamp says why its author was one; that is asked again when it counts.

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
use vela_seal::Evidence;

use crate::Error;

/// Answers kept: administrators of one cluster, and their groups.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(256) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long an answer holds: so long does somebody whose rights were taken away keep them here.
const ANSWER_TTL: Duration = Duration::from_secs(60);

/// The question whether somebody may do everything.
#[must_use]
pub fn review(user: &str, groups: &[String]) -> SubjectAccessReview {
    let all = || Some("*".to_owned());
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.to_owned()).filter(|user| !user.is_empty()),
            groups: Some(groups.to_vec()),
            resource_attributes: Some(ResourceAttributes {
                verb: all(),
                group: all(),
                version: all(),
                resource: all(),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// Asks the API server, and remembers its answers for a minute.
pub struct Administrators {
    api: Api<SubjectAccessReview>,
    remembered: Mutex<LruCache<Evidence, (Instant, bool)>>,
}

impl std::fmt::Debug for Administrators {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Administrators").finish_non_exhaustive()
    }
}

impl Administrators {
    /// Asks over this connection, which needs `create` of `subjectaccessreviews`.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { api: Api::all(client), remembered: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// Whether the evidence holds now.
    ///
    /// # Errors
    /// The API server does not answer: nobody knows.
    pub async fn is_one(&self, evidence: &Evidence) -> Result<bool, Error> {
        if let Some((until, answer)) = self.remembered.lock().get(evidence)
            && Instant::now() < *until
        {
            return Ok(*answer);
        }
        let review = match evidence {
            Evidence::User(user) => review(user, &[]),
            Evidence::Group(group) => review("", std::slice::from_ref(group)),
        };
        let answer = self.api.create(&PostParams::default(), &review).await.map_err(Error::from)?;
        let is_one = answer.status.is_some_and(|status| status.allowed);
        self.remembered.lock().put(evidence.clone(), (Instant::now() + ANSWER_TTL, is_one));
        Ok(is_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::fake;
    use serde_json::json;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_a_minute_and_a_failure_is_none() {
        let (alice, up) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let (is_admin, is_up) = (Arc::clone(&alice), Arc::clone(&up));
        let (client, seen) = fake(move |_, _, body| {
            if !is_up.load(Ordering::Relaxed) {
                return (503, json!({"kind": "Status", "status": "Failure", "code": 503}));
            }
            let is_alice = body["spec"]["user"] == "alice" && is_admin.load(Ordering::Relaxed);
            let is_group =
                body["spec"].get("user").is_none() && body["spec"]["groups"] == json!(["platform"]);
            (201, json!({"spec": {}, "status": {"allowed": is_alice || is_group}}))
        });
        let administrators = Administrators::new(client);
        let [user, group, other] = [
            Evidence::User("alice".to_owned()),
            Evidence::Group("platform".to_owned()),
            Evidence::Group("alice".to_owned()),
        ];
        for _ in 0..3 {
            assert!(administrators.is_one(&user).await.unwrap());
            assert!(administrators.is_one(&group).await.unwrap());
            assert!(!administrators.is_one(&other).await.unwrap());
        }
        assert_eq!(seen.lock().len(), 3);
        alice.store(false, Ordering::Relaxed);
        tokio::time::advance(ANSWER_TTL / 2).await;
        assert!(administrators.is_one(&user).await.unwrap());
        tokio::time::advance(ANSWER_TTL).await;
        assert!(!administrators.is_one(&user).await.unwrap());
        up.store(false, Ordering::Relaxed);
        tokio::time::advance(ANSWER_TTL * 2).await;
        assert!(administrators.is_one(&user).await.is_err(), "no answer is no answer");
    }
}
