//! Whether a caller may do what is asked: the hub's API server says so (SubjectAccessReview), and is believed for a moment.

use std::num::NonZeroUsize;
use std::time::Duration;

use http::Method;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use lru::LruCache;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use crate::front::Caller;
use crate::names::{GROUP, VERSION};

/// Answers that are kept, of 100 bytes each.
const REMEMBERED: NonZeroUsize = match NonZeroUsize::new(4096) {
    Some(size) => size,
    None => NonZeroUsize::MIN,
};
/// How long one holds, as in every aggregated API: so long does somebody whose rights were taken away keep them here.
const HOLDS: Duration = Duration::from_secs(10);
/// The group that may do everything without being asked about.
const MASTERS: &str = "system:masters";

/// What somebody wants to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked<'a> {
    pub(crate) verb: &'a str,
    pub(crate) resource: &'a str,
    /// Empty for none.
    pub(crate) subresource: &'a str,
    /// Empty for all.
    pub(crate) name: &'a str,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// With what the API server said.
    Denied(String),
}

/// The verb of a request about one object.
pub(crate) fn verb(method: &Method) -> &'static str {
    match *method {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "",
    }
}

/// Asks and remembers.
pub(crate) struct Access {
    api: Api<SubjectAccessReview>,
    remembered: Mutex<LruCache<[u8; 32], (Instant, Verdict)>>,
}

impl std::fmt::Debug for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl Access {
    pub(crate) fn new(client: Client) -> Self {
        Self { api: Api::all(client), remembered: Mutex::new(LruCache::new(REMEMBERED)) }
    }

    /// Whether a caller may do something.
    pub(crate) async fn of(
        &self,
        caller: &Caller,
        asked: Asked<'_>,
    ) -> Result<Verdict, vela_cluster::Error> {
        if caller.is_in(MASTERS) {
            return Ok(Verdict::Allowed);
        }
        let key = key(caller, asked);
        match self.known(&key) {
            Some(verdict) => Ok(verdict),
            None => self.ask(key, review(caller, asked)).await,
        }
    }

    fn known(&self, key: &[u8; 32]) -> Option<Verdict> {
        let mut remembered = self.remembered.lock();
        let (until, verdict) = remembered.get(key)?;
        (Instant::now() < *until).then(|| verdict.clone())
    }

    async fn ask(
        &self,
        key: [u8; 32],
        review: SubjectAccessReview,
    ) -> Result<Verdict, vela_cluster::Error> {
        let answer = self.api.create(&PostParams::default(), &review).await;
        let status = answer.map_err(vela_cluster::Error::from)?.status.unwrap_or_default();
        let verdict = match status.allowed {
            true => Verdict::Allowed,
            false => Verdict::Denied(status.reason.unwrap_or_default()),
        };
        self.remembered.lock().put(key, (Instant::now() + HOLDS, verdict.clone()));
        Ok(verdict)
    }
}

fn review(caller: &Caller, asked: Asked<'_>) -> SubjectAccessReview {
    let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: some(&caller.user),
            uid: some(&caller.uid),
            groups: Some(caller.groups.clone()),
            extra: Some(caller.extra.clone()).filter(|extra| !extra.is_empty()),
            resource_attributes: Some(ResourceAttributes {
                verb: some(asked.verb),
                group: some(GROUP),
                version: some(VERSION),
                resource: some(asked.resource),
                subresource: some(asked.subresource),
                name: some(asked.name),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    }
}

/// A hash of everything that the answer may depend on. No two questions have the same bytes: each part has its length before it.
fn key(caller: &Caller, asked: Asked<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    for text in [&caller.user, &caller.uid] {
        add(text);
    }
    for text in [asked.verb, asked.resource, asked.subresource, asked.name] {
        add(text);
    }
    add(&caller.groups.len().to_string());
    caller.groups.iter().for_each(|group| add(group));
    for (key, values) in &caller.extra {
        add(key);
        add(&values.len().to_string());
        values.iter().for_each(|value| add(value));
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};

    use super::*;

    type Seen = Arc<Mutex<Vec<Value>>>;

    /// An API server that lets alice get, and is away for mallory.
    fn server() -> (Client, Seen) {
        let seen = Seen::default();
        let heard = Arc::clone(&seen);
        let service = tower::service_fn(move |request: Request<Body>| {
            let heard = Arc::clone(&heard);
            async move {
                let body = request.into_body().collect_bytes().await?;
                let spec = serde_json::from_slice::<Value>(&body)?["spec"].clone();
                heard.lock().push(spec.clone());
                if spec["user"] == "mallory" {
                    return Err(tower::BoxError::from("away"));
                }
                let allowed =
                    spec["user"] == "alice" && spec["resourceAttributes"]["verb"] == "get";
                let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
                    "spec": spec, "status": {"allowed": allowed, "reason": if allowed { "" } else { "no rule" }}});
                Ok(Response::builder()
                    .status(201)
                    .body(Body::from(answer.to_string().into_bytes()))?)
            }
        });
        (Client::new(service, "default"), seen)
    }

    fn caller(user: &str) -> Caller {
        Caller { user: user.to_owned(), groups: vec!["dev".to_owned()], ..Caller::default() }
    }

    const GET: Asked<'static> =
        Asked { verb: "get", resource: "clustergateways", subresource: "proxy", name: "east" };

    #[tokio::test(start_paused = true)]
    async fn an_answer_holds_for_ten_seconds() {
        let (client, seen) = server();
        let access = Access::new(client);
        let (alice, bob) = (caller("alice"), caller("bob"));
        for _ in 0..3 {
            assert_eq!(access.of(&alice, GET).await.unwrap(), Verdict::Allowed);
            assert_eq!(access.of(&bob, GET).await.unwrap(), Verdict::Denied("no rule".to_owned()));
        }
        assert_eq!(seen.lock().len(), 2);
        assert_eq!(
            seen.lock()[0],
            json!({"user": "alice", "groups": ["dev"], "resourceAttributes": {"verb": "get",
                "group": "cluster.core.oam.dev", "version": "v1alpha1", "resource": "clustergateways",
                "subresource": "proxy", "name": "east"}})
        );
        tokio::time::advance(HOLDS + Duration::from_millis(1)).await;
        assert_eq!(access.of(&alice, GET).await.unwrap(), Verdict::Allowed);
        assert_eq!(seen.lock().len(), 3);
        let west = access.of(&alice, Asked { name: "west", ..GET }).await.unwrap();
        let delete = access.of(&alice, Asked { verb: "delete", ..GET }).await.unwrap();
        assert_eq!((west, delete), (Verdict::Allowed, Verdict::Denied("no rule".to_owned())));
        assert_eq!(seen.lock().len(), 5);
    }

    #[tokio::test]
    async fn no_answer_is_no_right_and_masters_need_none() {
        let (client, seen) = server();
        let access = Access::new(client);
        for _ in 0..2 {
            assert!(access.of(&caller("mallory"), GET).await.is_err());
        }
        assert_eq!(seen.lock().len(), 2, "a failure is not remembered");
        let admin = Caller { groups: vec![MASTERS.to_owned()], ..caller("mallory") };
        assert_eq!(access.of(&admin, GET).await.unwrap(), Verdict::Allowed);
    }

    #[test]
    fn no_two_questions_are_remembered_as_one() {
        let alice = caller("alice");
        let with = |change: fn(&mut Caller)| {
            let mut caller = alice.clone();
            change(&mut caller);
            key(&caller, GET)
        };
        let extra = |key: &str, values: &[&str]| {
            (key.to_owned(), values.iter().map(|v| (*v).to_owned()).collect::<Vec<_>>())
        };
        let keys = [
            key(&alice, GET),
            key(&alice, Asked { name: "", subresource: "proxyeast", ..GET }),
            with(|c| c.user = "alic".to_owned()),
            with(|c| c.uid = "e".to_owned()),
            with(|c| c.groups = vec!["de".to_owned(), "v".to_owned()]),
            with(|c| c.groups.clear()),
            {
                let mut caller = alice.clone();
                caller.extra.extend([extra("a", &["b", "c"])]);
                key(&caller, GET)
            },
            {
                let mut caller = alice.clone();
                caller.extra.extend([extra("a", &["b"]), extra("c", &[])]);
                key(&caller, GET)
            },
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn verbs_are_those_of_methods() {
        for (method, expected) in [
            (Method::GET, "get"),
            (Method::HEAD, "get"),
            (Method::POST, "create"),
            (Method::PUT, "update"),
            (Method::PATCH, "patch"),
            (Method::DELETE, "delete"),
            (Method::OPTIONS, ""),
        ] {
            assert_eq!(verb(&method), expected);
        }
    }
}
