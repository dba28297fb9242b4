//! One member: its connection, its watches, its state, and the probe that finds out about it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use http::Request;
use k8s_openapi::apimachinery::pkg::version::Info;
use k8s_openapi::jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::futures::Notified;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use vela_apply::Owner;

use super::connect::{gated, member_client};
use super::gate::{Changed, Gate, Reachable};
use super::layer::Probe;
use super::proof::{self, Proof};
use super::secret::{Access, Cluster};
use super::state::{Health, Heard, State};
use crate::budget::Budget;
use crate::client::ClientOptions;
use crate::share::Share;
use crate::{Discovery, Error, LiveObjects, ObjectClient};

/// How long a probe waits for an answer.
const PROBE: Duration = Duration::from_secs(5);
/// How long a member's identity is believed before it is read anew.
const IDENTITY: Duration = Duration::from_secs(3600);

/// Which cluster a member is.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Identified {
    /// The uid of its namespace `kube-system`; `None` if it may not be read.
    pub uid: Option<String>,
    /// What its API server says at `/version`; `None` until it was asked.
    pub version: Option<Info>,
}

/// What is needed to connect to members.
#[derive(Clone)]
pub struct Connecting {
    /// Limits, time limits, user agent and fence of their clients.
    pub options: ClientOptions,
    /// Which addresses may be connected to, and whether certificates must be checked.
    pub rules: super::SecretRules,
    /// Hears of changes of objects that Applications own: the name of the member, and the Application that the object names.
    pub notify: MemberNotify,
    /// How much of their objects is kept.
    pub budget: Arc<Budget>,
    /// Whose objects are kept as they are.
    pub share: Arc<Share>,
    /// What vouches for the control plane's own API server ([`super::own_authority`]).
    pub authority: String,
    /// What runs beside.
    pub tasks: TaskTracker,
    /// Ends it.
    pub stop: CancellationToken,
}

impl std::fmt::Debug for Connecting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connecting").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// What is reported when an object changed in a member that says that it is an Application's.
pub type MemberNotify = Arc<dyn Fn(&str, &Owner) + Send + Sync>;

/// A cluster that joined, and the connection to it.
#[derive(Debug)]
pub struct Member {
    /// What its Secret says.
    pub cluster: Arc<Cluster>,
    link: Arc<Link>,
}

/// What stays of a member while only its labels change.
#[derive(Debug)]
struct Link {
    gate: Arc<Gate>,
    connection: Option<Connection>,
    identified: Mutex<Identified>,
    /// The uid of the cluster that the name means.
    meant: Mutex<Option<String>>,
    _ends_on_drop: DropGuard,
}

#[derive(Debug)]
struct Connection {
    io: Arc<ObjectClient>,
    live: LiveObjects,
}

impl Member {
    /// Connects to a cluster and probes it from now on. `meant` is the uid that the name had before.
    pub(super) fn connect(
        cluster: Cluster,
        meant: Option<String>,
        connecting: &Connecting,
        changed: &Changed,
    ) -> Arc<Self> {
        let gate = Arc::new(Gate::new(&cluster.name, Arc::clone(changed)));
        let stop = connecting.stop.child_token();
        let connected = match &cluster.access {
            Ok(access) => connection(access, &gate, connecting, &stop).map_err(|e| e.to_string()),
            Err(unusable) => Err(unusable.to_string()),
        };
        let connection = match connected {
            Ok(connection) => Some(connection),
            Err(why) => {
                gate.stop(State::Invalid, why, Timestamp::now());
                None
            }
        };
        let (identified, meant) = (Mutex::default(), Mutex::new(meant));
        let guard = stop.clone().drop_guard();
        let link = Arc::new(Link { gate, connection, identified, meant, _ends_on_drop: guard });
        if let Some(client) = link.connection.as_ref().map(|c| c.io.client().clone()) {
            let weak = Arc::downgrade(&link);
            let gate = Arc::clone(&link.gate);
            connecting.tasks.spawn(async move {
                let probing = async {
                    let mut read = None::<tokio::time::Instant>;
                    loop {
                        let pause =
                            gate.health.lock().next_probe(Timestamp::now(), fastrand::f64());
                        let Some(pause) = pause else { return };
                        // A change of the state comes before its time.
                        let _ = tokio::time::timeout(pause, gate.poke.notified()).await;
                        let Some(link) = weak.upgrade() else { return };
                        let (state, is_due) = {
                            let health = gate.health.lock();
                            (health.state(), health.is_due(Timestamp::now()))
                        };
                        let is_due = gate.doubted.swap(false, Ordering::AcqRel) || is_due;
                        // Of another cluster only who it is matters.
                        if is_due && state != State::Replaced {
                            probe(&client, &gate).await;
                        }
                        let state = gate.health.lock().state();
                        let stale = !gate.identified.load(Ordering::Acquire)
                            || read.is_none_or(|read| read.elapsed() > IDENTITY);
                        let asks = state == State::Replaced || (state.is_open() && stale);
                        if asks && link.identify(&client).await {
                            read = Some(tokio::time::Instant::now());
                        }
                    }
                };
                tokio::select! {
                    () = probing => {}
                    () = stop.cancelled() => {}
                }
            });
        }
        Arc::new(Self { cluster: cluster.into(), link })
    }

    /// The same connection under other labels.
    pub(super) fn relabelled(&self, cluster: Cluster) -> Arc<Self> {
        Arc::new(Self { cluster: cluster.into(), link: Arc::clone(&self.link) })
    }

    /// Over an existing client, known to work: of tests.
    #[must_use]
    pub fn over(
        cluster: Cluster,
        client: Client,
        uid: &str,
        connecting: &Connecting,
        changed: &Changed,
    ) -> Arc<Self> {
        let identified = Identified { uid: Some(uid.to_owned()), version: None };
        Self::identified_as(identified, Arc::new(cluster), client, connecting, changed)
    }

    /// The same cluster over another client, made of its own. What cannot be reached now stays so: whoever puts something in front of
    /// clusters must never get to them directly.
    pub(super) fn through(
        &self,
        client_of: impl FnOnce(Client) -> Client,
        connecting: &Connecting,
        changed: &Changed,
    ) -> Arc<Self> {
        let cluster = Arc::clone(&self.cluster);
        if let Ok((io, _)) = self.reach() {
            let client = client_of(io.client().clone());
            return Self::identified_as(self.identified(), cluster, client, connecting, changed);
        }
        let gate = Arc::new(Gate::new(&cluster.name, Arc::clone(changed)));
        *gate.health.lock() = self.health();
        let (identified, meant) = (Mutex::new(self.identified()), Mutex::new(self.meant()));
        let guard = connecting.stop.child_token().drop_guard();
        let link = Link { gate, connection: None, identified, meant, _ends_on_drop: guard };
        Arc::new(Self { cluster, link: Arc::new(link) })
    }

    fn identified_as(
        identified: Identified,
        cluster: Arc<Cluster>,
        client: Client,
        connecting: &Connecting,
        changed: &Changed,
    ) -> Arc<Self> {
        let gate = Arc::new(Gate::new(&cluster.name, Arc::clone(changed)));
        let stop = connecting.stop.child_token();
        let client = gated(client, &gate);
        let connection = connected(&cluster.name, client, connecting, &stop);
        gate.hear(Heard::Answer(200, Duration::ZERO));
        gate.identified.store(true, Ordering::Release);
        let meant = Mutex::new(identified.uid.clone());
        let identified = Mutex::new(identified);
        let guard = stop.drop_guard();
        let link =
            Link { gate, connection: Some(connection), identified, meant, _ends_on_drop: guard };
        Arc::new(Self { cluster, link: Arc::new(link) })
    }

    /// Ends when its state changes, from now on.
    pub(super) fn turned(&self) -> Notified<'_> {
        self.link.gate.turned.notified()
    }

    /// A newer credential is refused, so this connection is still used; `None`: there is no newer one.
    pub(super) fn newer_refused(&self, why: Option<String>) {
        self.link.gate.newer_refused(why);
    }

    /// The connection and the watches of a member that can be reached.
    ///
    /// # Errors
    /// [`Error::Unreachable`] with the reason.
    pub fn reach(&self) -> Result<(&Arc<ObjectClient>, &LiveObjects), Error> {
        self.link.gate.open()?;
        match &self.link.connection {
            Some(Connection { io, live }) => Ok((io, live)),
            None => Err(Error::Unreachable {
                cluster: self.cluster.name.clone(),
                since: String::new(),
                why: "its Secret cannot be used".to_owned(),
            }),
        }
    }

    /// Whether requests of Applications go out to it.
    pub(super) fn reachable(&self) -> Reachable {
        self.link.gate.reachable()
    }

    /// Whether it may be used, at the last probe.
    #[must_use]
    pub fn state(&self) -> State {
        self.link.gate.health.lock().state()
    }

    /// Since when, and why.
    #[must_use]
    pub fn health(&self) -> Health {
        self.link.gate.health.lock().clone()
    }

    /// Which cluster it is, as far as that is known.
    #[must_use]
    pub fn identified(&self) -> Identified {
        self.link.identified.lock().clone()
    }

    /// The uid of the cluster that the name means, as far as that is known.
    #[must_use]
    pub fn meant(&self) -> Option<String> {
        self.link.meant.lock().clone()
    }

    /// The same, and what vouches for it.
    pub(super) fn proof(&self) -> Proof {
        let uid = self.link.identified.lock().uid.clone().unwrap_or_default();
        Proof { uid, authority: self.cluster.authority.clone() }
    }

    /// The name means the cluster that answers, if that is another one than before. Nothing may be recorded of the one before.
    pub fn accept(&self) {
        if self.state() == State::Replaced {
            let uid = self.link.identified.lock().uid.clone();
            *self.link.meant.lock() = uid;
            self.link.gate.resume();
        }
    }

    /// A cluster of a uid answers since a moment: of tests.
    pub fn answers_as(&self, uid: &str, since: Timestamp) {
        let identified = Identified { uid: Some(uid.to_owned()), version: None };
        self.link.found(identified, since);
    }

    /// Requests that have no answer yet.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.link.gate.in_flight.load(Ordering::Relaxed)
    }

    /// Requests that wait until fewer are in flight.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.link.gate.waiting.load(Ordering::Relaxed)
    }

    /// Bytes that the objects of its watches take, about.
    #[must_use]
    pub fn cached(&self) -> usize {
        self.link.connection.as_ref().map_or(0, |connection| connection.live.bytes())
    }

    /// Whether two are one connection.
    #[must_use]
    pub fn is_same_connection(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// What becomes of requests, as tests have it.
    pub fn hear(&self, heard: Heard) {
        let is_answer = matches!(heard, Heard::Answer(..));
        self.link.gate.hear(heard);
        if is_answer && self.link.connection.is_some() {
            self.link.gate.identify();
        }
    }
}

impl Link {
    /// Finds out which cluster answers. Returns whether that is known now.
    async fn identify(&self, client: &Client) -> bool {
        let uid = match self.ask(client, "/api/v1/namespaces/kube-system").await {
            Ok(namespace) => {
                let uid = namespace.pointer("/metadata/uid").and_then(Value::as_str);
                match uid.filter(|uid| proof::is_uid(uid)) {
                    Some(uid) => Some(uid.to_owned()),
                    None => return false,
                }
            }
            // It is known by its name alone then.
            Err(Error::Api { code: 403, .. }) => None,
            Err(_) => return false,
        };
        let version = self.ask(client, "/version").await.ok();
        let version = version.and_then(|version| serde_json::from_value(version).ok());
        let version = version.filter(|it: &Info| {
            [&it.git_version, &it.major, &it.minor, &it.platform]
                .iter()
                .all(|it| proof::is_version(it))
        });
        self.found(Identified { uid, version }, Timestamp::now());
        true
    }

    /// The same as [`ask`], for as long as a probe: while it is waited for nothing else is asked.
    async fn ask(&self, client: &Client, path: &str) -> Result<Value, Error> {
        within_probe(&self.gate, ask(client, path)).await
    }

    /// It is known which cluster answers.
    fn found(&self, identified: Identified, now: Timestamp) {
        let uid = identified.uid.clone();
        *self.identified.lock() = identified;
        let before = {
            let mut meant = self.meant.lock();
            if meant.is_none() {
                meant.clone_from(&uid);
            }
            meant.clone()
        };
        match (before, uid) {
            (Some(before), Some(uid)) if before != uid => {
                let why = format!(
                    "the cluster behind this name is another one: its uid was {before} and is {uid}"
                );
                self.gate.stop(State::Replaced, why, now);
            }
            (_, Some(_)) => {
                self.gate.resume();
                self.gate.identify();
            }
            // Who does not say who he is is not who was meant, if somebody else was there before.
            (_, None) if self.gate.health.lock().state() == State::Replaced => {}
            (_, None) => self.gate.identify(),
        }
    }
}

fn connection(
    access: &Access,
    gate: &Arc<Gate>,
    connecting: &Connecting,
    stop: &CancellationToken,
) -> Result<Connection, Error> {
    let client = member_client(access, connecting.rules.addresses, gate, &connecting.options)?;
    Ok(connected(gate.cluster(), client, connecting, stop))
}

fn connected(
    name: &str,
    client: Client,
    connecting: &Connecting,
    stop: &CancellationToken,
) -> Connection {
    let discovery = Discovery::of_member(client.clone());
    let io = Arc::new(ObjectClient::with_discovery(client, discovery));
    let (notify, cluster) = (Arc::clone(&connecting.notify), name.to_owned());
    let live = LiveObjects::of_member(
        Arc::clone(&io),
        Arc::new(move |owner: &Owner| notify(&cluster, owner)),
        (connecting.tasks.clone(), stop.clone()),
        (Arc::clone(&connecting.budget), Arc::clone(&connecting.share)),
    );
    Connection { io, live }
}

async fn probe(client: &Client, gate: &Gate) {
    // What is answered the layer hears.
    let _ = within_probe(gate, ask(client, "/version")).await;
}

async fn within_probe(
    gate: &Gate,
    asking: impl Future<Output = Result<Value, Error>>,
) -> Result<Value, Error> {
    match tokio::time::timeout(PROBE, asking).await {
        Ok(answer) => answer,
        Err(_) => {
            gate.hear(Heard::silence());
            Err(Error::Transport(format!("no answer within {}s", PROBE.as_secs())))
        }
    }
}

async fn ask(client: &Client, path: &str) -> Result<Value, Error> {
    let mut request =
        Request::get(path).body(Vec::new()).map_err(|error| Error::Transport(error.to_string()))?;
    request.extensions_mut().insert(Probe);
    let text = client.request_text(request).await.map_err(Error::from)?;
    serde_json::from_str(&text).map_err(|error| Error::Transport(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{cluster, registry};
    use super::*;
    use crate::fake::fake;

    const UID: &str = "0f8b2f1e-1111-4222-8333-444455556666";

    #[tokio::test]
    async fn who_does_not_show_his_identity_is_known_by_his_name_unless_somebody_else_has_it() {
        let (members, _) = registry();
        let shown = |uid: &str| (200, json!({"metadata": {"name": "kube-system", "uid": uid}}));
        let refused = |code: u16| {
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                "reason": "no", "message": "no", "code": code});
            (code, status)
        };
        let answer = Arc::new(Mutex::new(refused(403)));
        let said = Arc::clone(&answer);
        let (client, _) = fake(move |_, path, _| match path {
            "/version" => (200, json!({})),
            _ => said.lock().clone(),
        });
        let one = cluster("edge", "2026-01-01T00:00:00Z");
        let changed = &members.registry.changed;
        let member = Member::over(one, client.clone(), UID, members.connecting(), changed);
        let other = UID.replace('0', "1");
        for (says, is_answer, uid, state) in [
            (shown(UID), true, Some(UID), State::Connected),
            (refused(403), true, None, State::Connected),
            // Nothing of that says who answers.
            (refused(404), false, None, State::Connected),
            (shown("no\nuid"), false, None, State::Connected),
            (shown(&other), true, Some(&*other), State::Replaced),
            (refused(403), true, None, State::Replaced),
            (shown(UID), true, Some(UID), State::Connected),
        ] {
            *answer.lock() = says.clone();
            assert_eq!(member.link.identify(&client).await, is_answer, "{says:?}");
            assert_eq!((member.identified().uid.as_deref(), member.state()), (uid, state));
            assert_eq!(member.reach().is_ok(), state == State::Connected, "{says:?}");
            assert_eq!(member.meant().as_deref(), Some(UID));
        }
    }

    /// Nothing else is asked while that is waited for.
    #[tokio::test(start_paused = true)]
    async fn who_does_not_say_who_it_is_is_waited_for_as_long_as_at_a_probe() {
        let (members, _) = registry();
        let silent = tower::service_fn(|_: Request<kube::client::Body>| {
            std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
        });
        let client = Client::new(silent, "default");
        let one = cluster("edge", "2026-01-01T00:00:00Z");
        let changed = &members.registry.changed;
        let member = Member::over(one, client.clone(), UID, members.connecting(), changed);
        let since = tokio::time::Instant::now();
        assert!(!member.link.identify(&client).await);
        assert_eq!(since.elapsed(), PROBE);
        // It is asked again soon.
        let next = member.health().next_probe(Timestamp::now(), 1.0);
        assert_eq!(next, Some(Duration::from_secs(1)));
    }
}
