//! Who leads: client-go's leader election over a `coordination.k8s.io/v1` Lease.
//!
//! The protocol must be client-go's own, because Go and Rust replicas exclude each other during an
//! upgrade:
//! - a holder is believed for its lease duration from the moment *we* saw the record change, by our
//!   clock; the times in the record are never compared with a clock;
//! - every write is a PUT with the resourceVersion that was read, so of two writers one gets 409;
//! - a stop empties the holder and sets the duration to 1 s, so that the next one need not wait; what the
//!   cluster says counts then, since a write that was given up may have been committed.
//!
//! [`Leadership`] says yes only until the renew deadline after the *start* of the last successful
//! renewal, which is before anybody else may take over; the [`Fence`] of all clients asks it.
//!
//! Our own: kube has no leader election, and kubert's and others' Leases do not follow client-go's protocol.

mod fence;
mod follow;
pub mod permit;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, PostParams};
use kube::{Client, core::ObjectMeta};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

use crate::Error;

pub(crate) use fence::Departing;
pub use fence::Fence;

/// Which lease, as whom, and how fast.
#[derive(Clone, Debug)]
pub struct LeaseOptions {
    /// Namespace of the Lease.
    pub namespace: String,
    /// Name of the Lease.
    pub name: String,
    /// Who we are: see [`identity`].
    pub identity: String,
    /// How long a holder is believed.
    pub lease_duration: Duration,
    /// How long a holder tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// Pause between tries.
    pub retry_period: Duration,
}

impl LeaseOptions {
    /// The reference's times.
    #[must_use]
    pub fn new(
        namespace: impl Into<String>,
        name: impl Into<String>,
        identity: impl Into<String>,
    ) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            identity: identity.into(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Whether the times can work, as client-go checks them.
    ///
    /// # Errors
    /// [`Error::Config`] with the rule that is broken.
    pub fn validate(&self) -> Result<(), Error> {
        if self.lease_duration <= self.renew_deadline {
            return Err(Error::Config(
                "the lease duration must be greater than the renew deadline".to_owned(),
            ));
        }
        if self.renew_deadline.as_secs_f64() <= self.retry_period.as_secs_f64() * JITTER {
            return Err(Error::Config(
                "the renew deadline must be greater than 1.2 times the retry period".to_owned(),
            ));
        }
        if self.lease_duration < Duration::from_secs(1) || self.retry_period.is_zero() {
            return Err(Error::Config(
                "the lease duration must be at least 1s and the retry period more than 0"
                    .to_owned(),
            ));
        }
        Ok(())
    }
}

/// client-go's factor between the shortest and longest pause.
const JITTER: f64 = 1.2;

/// `<host>_<uuid>`: two processes on one host differ.
#[must_use]
pub fn identity(host: &str) -> String {
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// Name of the lease: `kubevela`, with the version when several versions run side by side, and with
/// the shard for shards other than the master.
#[must_use]
pub fn lease_name(version: Option<&str>, shard: &str) -> String {
    let mut name = "kubevela".to_owned();
    if let Some(version) = version {
        name.push('-');
        name.push_str(&version.to_lowercase().replace('.', "-"));
    }
    if !shard.is_empty() && shard != "master" {
        name.push('-');
        name.push_str(shard);
    }
    name
}

/// What is known about our leadership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Somebody else leads, or nobody yet.
    Following,
    /// We lead; not beyond this moment unless renewed.
    Leading { until: Instant },
    /// We led, and never will again.
    Over,
}

/// Says whether this process leads. Cheap to clone and to ask.
#[derive(Clone, Debug)]
pub struct Leadership(Source);

#[derive(Clone, Debug)]
enum Source {
    Fixed(bool),
    Elected(watch::Receiver<State>),
}

impl Leadership {
    /// For processes that do not elect: may always write.
    #[must_use]
    pub const fn always() -> Self {
        Self(Source::Fixed(true))
    }

    /// May never write.
    #[must_use]
    pub const fn never() -> Self {
        Self(Source::Fixed(false))
    }

    /// Whether this process leads at this moment.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        match &self.0 {
            Source::Fixed(fixed) => *fixed,
            Source::Elected(state) => match *state.borrow() {
                State::Leading { until } => Instant::now() < until,
                State::Following | State::Over => false,
            },
        }
    }

    /// How long it has been for this process to give up without doing so.
    #[must_use]
    pub fn overdue(&self) -> Option<Duration> {
        match &self.0 {
            Source::Elected(state) => match *state.borrow() {
                State::Leading { until } => Instant::now().checked_duration_since(until),
                State::Following | State::Over => None,
            },
            Source::Fixed(_) => None,
        }
    }

    /// Waits until this process leads. `false` if it never will.
    pub async fn acquired(&self) -> bool {
        match &self.0 {
            Source::Fixed(true) => true,
            Source::Fixed(false) => false,
            Source::Elected(state) => {
                let mut state = state.clone();
                let done = |state: &State| !matches!(state, State::Following);
                let reached = state.wait_for(done).await.map(|state| *state);
                matches!(reached, Ok(State::Leading { .. }))
            }
        }
    }
}

/// Why an election ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was stopped; the lease was released if we held it.
    Stopped,
    /// The lease could not be renewed in time: everything must end now.
    Lost,
}

/// Takes part in the election.
pub struct Elector {
    api: Api<Lease>,
    options: LeaseOptions,
    clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    state: watch::Sender<State>,
    observed: Option<Observed>,
    /// A write has started since, and its result is not known.
    in_doubt: bool,
    last_holder: String,
}

impl std::fmt::Debug for Elector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elector").field("options", &self.options).finish_non_exhaustive()
    }
}

/// The lease as last seen, and when it last changed by our clock.
struct Observed {
    lease: Lease,
    changed: Instant,
}

impl Observed {
    fn holder(&self) -> &str {
        holder(&self.lease)
    }

    fn believed_until(&self) -> Instant {
        let spec = self.lease.spec.as_ref();
        let seconds = spec.and_then(|spec| spec.lease_duration_seconds).unwrap_or(0);
        self.changed + Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
    }

    fn is_valid(&self, now: Instant) -> bool {
        now < self.believed_until()
    }
}

fn holder(lease: &Lease) -> &str {
    let spec = lease.spec.as_ref();
    spec.and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

impl Elector {
    /// A participant and the handle that says whether it leads. `clock` gives the times written
    /// into the Lease, for people to read.
    ///
    /// # Errors
    /// [`Error::Config`] if the times cannot work.
    pub fn new(
        client: Client,
        options: LeaseOptions,
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Result<(Self, Leadership), Error> {
        options.validate()?;
        let (state, receiver) = watch::channel(State::Following);
        let elector = Self {
            api: Api::namespaced(client, &options.namespace),
            options,
            clock: Arc::new(clock),
            state,
            observed: None,
            in_doubt: false,
            last_holder: String::new(),
        };
        Ok((elector, Leadership(Source::Elected(receiver))))
    }

    /// Follows until the lease is free, leads until it is lost or `stop` is cancelled. Cancel `stop`
    /// only after the last write of the leader's work: the lease is given away at once.
    pub async fn run(mut self, stop: CancellationToken) -> Outcome {
        let outcome = self.follow_and_lead(&stop).await;
        self.state.send_replace(State::Over);
        if outcome == Outcome::Stopped {
            self.release().await;
        }
        outcome
    }

    async fn follow_and_lead(&mut self, stop: &CancellationToken) -> Outcome {
        info!(lease = self.options.name, identity = self.options.identity, "waiting to lead");
        loop {
            let started = Instant::now();
            if self.attempt(stop).await {
                self.lead_from(started);
                break;
            }
            if self.wait(stop).await {
                return Outcome::Stopped;
            }
        }
        info!(lease = self.options.name, identity = self.options.identity, "leading");
        let mut renewed = Instant::now();
        loop {
            if stopped_after(self.options.retry_period, stop).await {
                return Outcome::Stopped;
            }
            let started = Instant::now();
            let left = self.options.renew_deadline.saturating_sub(renewed.elapsed());
            // A renewal that hangs must not outlive the deadline.
            let success = timeout(left, self.attempt(stop)).await.unwrap_or(false);
            if success {
                self.lead_from(started);
                renewed = started;
            } else if stop.is_cancelled() {
                return Outcome::Stopped;
            } else if renewed.elapsed() >= self.options.renew_deadline || !self.holds() {
                warn!(lease = self.options.name, "lost the lease");
                return Outcome::Lost;
            }
        }
    }

    fn lead_from(&self, started: Instant) {
        let until = started + self.options.renew_deadline;
        self.state.send_replace(State::Leading { until });
    }

    /// Whether the record as last seen names us.
    fn holds(&self) -> bool {
        self.observed.as_ref().is_some_and(|seen| seen.holder() == self.options.identity)
    }

    /// One try to take or renew the lease.
    async fn attempt(&mut self, stop: &CancellationToken) -> bool {
        let result = tokio::select! {
            result = self.try_acquire_or_renew() => result,
            () = stop.cancelled() => return false,
        };
        match result {
            Ok(success) => success,
            Err(error) => {
                warn!(lease = self.options.name, %error, "the lease cannot be taken or renewed");
                false
            }
        }
    }

    async fn try_acquire_or_renew(&mut self) -> Result<bool, Error> {
        // While we hold it and nobody can have taken it, one PUT with the known version is enough.
        if self.holds()
            && let Some(seen) = &self.observed
            && seen.is_valid(Instant::now())
        {
            let lease = seen.lease.clone();
            match self.put(lease, true).await {
                Ok(()) => return Ok(true),
                Err(error) => debug!(%error, "renewal without reading failed, reading first"),
            }
        }
        let lease = match self.api.get(&self.options.name).await.map_err(Error::from) {
            Ok(lease) => lease,
            Err(error) if error.is_not_found() => return self.create().await,
            Err(error) => return Err(error),
        };
        self.observe(lease);
        let Some(seen) = &self.observed else { return Ok(false) };
        let now = Instant::now();
        let (ours, free) = (
            seen.holder() == self.options.identity,
            seen.holder().is_empty() || !seen.is_valid(now),
        );
        if seen.holder() != self.last_holder {
            self.last_holder = seen.holder().to_owned();
            info!(lease = self.options.name, holder = self.last_holder, "current leader");
        }
        if !ours && !free {
            return Ok(false);
        }
        let lease = seen.lease.clone();
        self.put(lease, ours).await?;
        Ok(true)
    }

    async fn create(&mut self) -> Result<bool, Error> {
        let lease = Lease {
            metadata: ObjectMeta {
                name: Some(self.options.name.clone()),
                namespace: Some(self.options.namespace.clone()),
                ..ObjectMeta::default()
            },
            spec: Some(self.record(None, 0)),
        };
        self.in_doubt = true;
        let lease = self.api.create(&PostParams::default(), &lease).await.map_err(Error::from)?;
        self.observe(lease);
        Ok(true)
    }

    /// Writes our record over a lease that was read, in the version that was read.
    async fn put(&mut self, mut lease: Lease, ours: bool) -> Result<(), Error> {
        let spec = lease.spec.take().unwrap_or_default();
        let transitions = spec.lease_transitions.unwrap_or(0);
        lease.spec = Some(if ours {
            self.record(spec.acquire_time, transitions)
        } else {
            self.record(None, transitions.saturating_add(1))
        });
        self.in_doubt = true;
        let lease = self.replace(&lease).await?;
        self.observe(lease);
        Ok(())
    }

    async fn replace(&self, lease: &Lease) -> Result<Lease, Error> {
        let options = PostParams::default();
        self.api.replace(&self.options.name, &options, lease).await.map_err(Error::from)
    }

    fn record(&self, acquired: Option<MicroTime>, transitions: i32) -> LeaseSpec {
        let now = MicroTime((self.clock)());
        let seconds = self.options.lease_duration.as_secs();
        LeaseSpec {
            holder_identity: Some(self.options.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(seconds).unwrap_or(i32::MAX)),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    /// Gives the lease away, if we hold it. Failing to do so only costs the others the wait.
    async fn release(&self) {
        if !self.holds() && !self.in_doubt {
            return;
        }
        match timeout(self.options.renew_deadline, self.empty()).await {
            Ok(Ok(true)) => info!(lease = self.options.name, "released the lease"),
            Ok(Ok(false)) => debug!(lease = self.options.name, "there is nothing to release"),
            Ok(Err(error)) => warn!(lease = self.options.name, %error, "not released"),
            Err(_) => warn!(lease = self.options.name, "not released in time"),
        }
    }

    /// Empties the record if it names us, in the version last seen or, if that is not the last one, in the one there is.
    async fn empty(&self) -> Result<bool, Error> {
        let mut known =
            self.observed.as_ref().filter(|_| !self.in_doubt).map(|seen| seen.lease.clone());
        loop {
            let lease = match known.take() {
                Some(lease) => Some(lease),
                None => self.api.get_opt(&self.options.name).await.map_err(Error::from)?,
            };
            let Some(mut lease) = lease.filter(|lease| holder(lease) == self.options.identity)
            else {
                return Ok(false);
            };
            let now = MicroTime((self.clock)());
            lease.spec = Some(LeaseSpec {
                holder_identity: Some(String::new()),
                lease_duration_seconds: Some(1),
                acquire_time: Some(now.clone()),
                renew_time: Some(now),
                lease_transitions: lease.spec.and_then(|spec| spec.lease_transitions),
                ..LeaseSpec::default()
            });
            match self.replace(&lease).await {
                Err(error) if error.is_conflict() => {}
                done => return done.map(|_| true),
            }
        }
    }
}

/// Waits; `true` if stopped in the meantime.
async fn stopped_after(pause: Duration, stop: &CancellationToken) -> bool {
    tokio::select! {
        () = sleep(pause) => false,
        () = stop.cancelled() => true,
    }
}

#[cfg(test)]
mod tests;
