//! Gets the archive of a source: resolved, fetched once for concurrent requests, verified, cached.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use http::Uri;
use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use vela_helm::index;

use super::FetchError;
use super::auth::{Credentials, hex};
use super::cache::{Cache, Flights, Key};
use super::download::{self, Get, Rules, join, origin, shown};
use super::oci::Registry;
use vela_helm::request::{Freshness, Source};

/// Bytes of an archive: what the loader takes.
const MAX_ARCHIVE: usize = 20 << 20;
/// Bytes of an index: the largest public ones have 30 MiB.
const MAX_INDEX: usize = 64 << 20;
/// Longest fetch, with everything that leads to it.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Fetches at a time: sockets, and an index each in memory.
const MAX_FETCHES: usize = 4;

/// An archive.
#[derive(Debug, Clone)]
pub struct Archive {
    /// SHA-256 of its bytes, hex digits.
    pub digest: String,
    /// The version under which it was found; empty if it was found by its address.
    pub version: String,
    /// Its bytes.
    pub bytes: Arc<[u8]>,
}

/// What to fetch.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// From where.
    pub source: Source,
    /// Version or constraint; empty: the newest.
    pub version: String,
    /// Whose Secret is used.
    pub credentials: Option<Credentials>,
}

type Outcome = Result<Archive, FetchError>;
type Flight = Shared<BoxFuture<'static, Outcome>>;

/// Fetches charts for all Applications of a process.
pub struct Fetcher {
    rules: Arc<Rules>,
    cache: Arc<Mutex<Cache>>,
    flights: Arc<Mutex<Flights<Flight>>>,
    room: Arc<Semaphore>,
}

impl std::fmt::Debug for Fetcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fetcher").field("under_way", &self.flights.lock().len()).finish()
    }
}

impl Fetcher {
    /// Fetches within these rules.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules: Arc::new(rules),
            cache: Arc::default(),
            flights: Arc::default(),
            room: Arc::new(Semaphore::new(MAX_FETCHES)),
        }
    }

    /// An archive that was fetched before, by its digest.
    #[must_use]
    pub fn cached(&self, digest: &str) -> Option<Archive> {
        self.cache.lock().archive(digest)
    }

    /// Fetches an archive. Who wants what is in flight already waits for that.
    ///
    /// # Errors
    /// There is none, or it cannot be reached; a failure is not tried again for half a minute.
    pub async fn fetch(&self, wanted: &Wanted, freshness: Freshness) -> Outcome {
        let key = Key {
            source: format!("{:?}", wanted.source),
            version: wanted.version.clone(),
            credentials: wanted.credentials.as_ref().map(|it| it.tag.clone()).unwrap_or_default(),
        };
        let ttl = if index::is_exact(&wanted.version) { freshness.exact } else { freshness.moving };
        if let Some(known) = self.cache.lock().find(&key, ttl) {
            return known;
        }
        let flight = {
            let mut flights = self.flights.lock();
            match flights.get(&key) {
                Some(flight) => flight.clone(),
                None => {
                    let flight = self.begin(key.clone(), wanted.clone());
                    flights.insert(key, flight.clone());
                    flight
                }
            }
        };
        flight.await
    }

    /// A fetch on a task of its own: who asked first may be gone before it ends.
    fn begin(&self, key: Key, wanted: Wanted) -> Flight {
        let (rules, room) = (Arc::clone(&self.rules), Arc::clone(&self.room));
        let (cache, flights) = (Arc::clone(&self.cache), Arc::clone(&self.flights));
        let shown = wanted.source.shown();
        let task = tokio::spawn(async move {
            let work = async {
                let _turn = room.acquire().await;
                fetch(&rules, &wanted).await
            };
            let late =
                |_| FetchError::Timeout { url: wanted.source.shown(), seconds: TIMEOUT.as_secs() };
            let work = std::panic::AssertUnwindSafe(tokio::time::timeout(TIMEOUT, work));
            let given_up = |_| FetchError::GivenUp(wanted.source.shown());
            let outcome = work.catch_unwind().await.map_err(given_up);
            let outcome = outcome.and_then(|outcome| outcome.map_err(late)).and_then(|it| it);
            cache.lock().keep(key.clone(), &outcome);
            flights.lock().remove(&key);
            outcome
        });
        task.map(move |joined| joined.unwrap_or(Err(FetchError::GivenUp(shown)))).boxed().shared()
    }
}

async fn fetch(rules: &Rules, wanted: &Wanted) -> Outcome {
    let shown = wanted.source.shown();
    if !rules.allowed.is_empty() && !rules.allowed.iter().any(|it| shown.starts_with(it.as_str())) {
        let reason = "charts may not come from there (--helm-repositories)".to_owned();
        return Err(FetchError::Unreachable { url: shown, reason });
    }
    let credentials = wanted.credentials.as_ref();
    let (version, bytes) = match &wanted.source {
        Source::Archive { url } => {
            let url = read(url)?;
            (String::new(), ok(rules, &Get::new(url, MAX_ARCHIVE).with(credentials)).await?)
        }
        Source::Repository { url, chart } => repository(rules, url, chart, wanted).await?,
        Source::Registry { host, repository, tag, digest } => {
            let mut registry =
                Registry { rules, host, repository, credentials, authorization: None };
            let (tag, digest) = (tag.as_deref(), digest.as_deref());
            registry.pull(tag, digest, &wanted.version, MAX_ARCHIVE).await?
        }
    };
    let digest = hex(&Sha256::digest(&bytes));
    Ok(Archive { digest, version, bytes: bytes.into() })
}

async fn repository(
    rules: &Rules,
    base: &str,
    chart: &str,
    wanted: &Wanted,
) -> Result<(String, Vec<u8>), FetchError> {
    let home = read(&format!("{base}/index.yaml"))?;
    let credentials = wanted.credentials.as_ref();
    let text = ok(rules, &Get::new(home.clone(), MAX_INDEX).with(credentials)).await?;
    let (name, version) = (chart.to_owned(), wanted.version.clone());
    // A large index takes a while to read.
    let found = tokio::task::spawn_blocking(move || {
        index::find(&String::from_utf8_lossy(&text), &name, &version)
    });
    let found = found.await.map_err(|_| FetchError::GivenUp(base.to_owned()))?;
    let entry = found.map_err(|error| FetchError::Index { repository: base.to_owned(), error })?;
    let url = join(&home, &entry.url)?;
    // What was meant for the repository is not told to whomever it names.
    let credentials = credentials.filter(|_| origin(&url) == origin(&home));
    let bytes = ok(rules, &Get::new(url.clone(), MAX_ARCHIVE).with(credentials)).await?;
    let digest = hex(&Sha256::digest(&bytes));
    match entry.digest {
        Some(wanted) if !wanted.eq_ignore_ascii_case(&digest) => {
            Err(FetchError::Digest { url: shown(&url), wanted, found: digest })
        }
        _ => Ok((entry.version, bytes)),
    }
}

fn read(url: &str) -> Result<Uri, FetchError> {
    join(&Uri::default(), url)
}

async fn ok(rules: &Rules, request: &Get<'_>) -> Result<Vec<u8>, FetchError> {
    let got = download::get(rules, request).await?;
    match got.status {
        200 => Ok(got.body),
        status => Err(FetchError::Status { url: shown(&got.url), status }),
    }
}

#[cfg(test)]
mod tests;
