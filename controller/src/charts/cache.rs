//! Caches of fetched archives by digest, of resolved digests, and of recent failures. All are bounded.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use lru::LruCache;
use tokio::time::Instant;

use super::FetchError;
use super::fetch::Archive;

/// Bytes of all archives: a few hundred usual charts, or three of the largest allowed ones.
const MAX_BYTES: usize = 64 << 20;
/// Sources that are remembered.
const MAX_SOURCES: NonZeroUsize = match NonZeroUsize::new(4096) {
    Some(most) => most,
    None => NonZeroUsize::MIN,
};
/// How long a failure is not tried again.
const FAILED: Duration = Duration::from_secs(30);

/// Everything that decides what a source leads to: source, version, credentials.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) source: String,
    pub(super) version: String,
    pub(super) credentials: String,
}

/// What is known of a source.
#[derive(Debug, Clone)]
enum Known {
    /// Its archive, since when.
    Digest(String, Instant),
    /// It failed.
    Failed(FetchError, Instant),
}

/// What was fetched.
pub(super) struct Cache {
    archives: LruCache<String, Archive>,
    bytes: usize,
    most: usize,
    known: LruCache<Key, Known>,
}

impl Default for Cache {
    fn default() -> Self {
        Self::of(MAX_BYTES)
    }
}

impl Cache {
    fn of(most: usize) -> Self {
        Self { archives: LruCache::unbounded(), bytes: 0, most, known: LruCache::new(MAX_SOURCES) }
    }

    /// What a source led to, if that is not longer ago than `ttl`; or why it failed a moment ago.
    pub(super) fn find(&mut self, key: &Key, ttl: Duration) -> Option<Result<Archive, FetchError>> {
        match self.known.get(key)? {
            Known::Failed(error, since) => (since.elapsed() < FAILED).then(|| Err(error.clone())),
            Known::Digest(digest, since) => {
                let digest = Some(digest.clone()).filter(|_| since.elapsed() < ttl)?;
                self.archives.get(&digest).cloned().map(Ok)
            }
        }
    }

    /// An archive by its digest.
    pub(super) fn archive(&mut self, digest: &str) -> Option<Archive> {
        self.archives.get(digest).cloned()
    }

    /// Keeps what a source led to.
    pub(super) fn keep(&mut self, key: Key, fetched: &Result<Archive, FetchError>) {
        let now = Instant::now();
        match fetched {
            Err(error) => {
                self.known.put(key, Known::Failed(error.clone(), now));
            }
            Ok(archive) => {
                self.known.put(key, Known::Digest(archive.digest.clone(), now));
                self.put(archive);
            }
        }
    }

    fn put(&mut self, archive: &Archive) {
        let size = archive.bytes.len();
        if size > self.most {
            return;
        }
        if let Some(old) = self.archives.put(archive.digest.clone(), archive.clone()) {
            self.bytes = self.bytes.saturating_sub(old.bytes.len());
        }
        self.bytes = self.bytes.saturating_add(size);
        while self.bytes > self.most {
            let Some((_, old)) = self.archives.pop_lru() else { break };
            self.bytes = self.bytes.saturating_sub(old.bytes.len());
        }
    }
}

/// Fetches that are in flight: who wants the same waits for the same.
pub(super) type Flights<T> = HashMap<Key, T>;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn archive(digest: &str, size: usize) -> Archive {
        Archive { digest: digest.into(), version: "1.0.0".into(), bytes: Arc::from(vec![0; size]) }
    }

    fn key(source: &str, credentials: &str) -> Key {
        Key { source: source.into(), version: String::new(), credentials: credentials.into() }
    }

    #[tokio::test(start_paused = true)]
    async fn archives_are_bounded_by_bytes_and_answers_by_time() {
        let mut cache = Cache::of(100);
        let ttl = Duration::from_secs(300);
        for (name, size) in [("a", 40), ("b", 40), ("a", 40), ("c", 40), ("huge", 101)] {
            cache.keep(key(name, ""), &Ok(archive(name, size)));
        }
        assert_eq!(cache.bytes, 80);
        assert!(cache.archive("b").is_none() && cache.archive("huge").is_none());
        assert!(cache.find(&key("a", ""), ttl).is_some());
        assert!(cache.find(&key("a", "other"), ttl).is_none(), "others have their own credentials");
        tokio::time::advance(ttl).await;
        assert!(cache.find(&key("a", ""), ttl).is_none());
        assert!(cache.archive("a").is_some(), "an archive is what its digest says for ever");
    }

    #[tokio::test(start_paused = true)]
    async fn failures_are_remembered_for_a_moment() {
        let mut cache = Cache::default();
        cache.keep(key("a", ""), &Err(FetchError::GivenUp("a".into())));
        assert!(matches!(cache.find(&key("a", ""), Duration::ZERO), Some(Err(_))));
        tokio::time::advance(FAILED).await;
        assert!(cache.find(&key("a", ""), Duration::ZERO).is_none());
    }
}
