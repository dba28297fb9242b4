//! Bodies: a client gets memory for what it has sent, as long as it continues sending.
//!
//! What a client says that it will send counts for nothing. Nobody asks who it is, so one that could
//! reserve memory by a promise, or keep it by sending a byte now and then, would keep everybody else
//! out.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use futures::StreamExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

use crate::decision::Decision;
use crate::messages;
use crate::review::BODY_LIMIT;

/// Memory that bodies in flight may take together, in units: 64 MiB, a quarter of the chart's limit.
const BODY_MEMORY_UNITS: usize = 4096;
/// The smallest piece of it; most reviews take one or two.
const UNIT: usize = 16 << 10;
/// How long a body may wait for memory: those that wait hold some themselves, so in the worst case
/// one has to give up for the others to go on.
const CONTENDED_TIMEOUT: Duration = Duration::from_secs(2);
/// How much of a body that is too large is read only to be dropped.
const DROPPED: usize = 16 << 20;

/// The longest silence, before the first byte and afterwards.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes a second that a client must keep up; what it is ahead of this counts for `READ_TIMEOUT` at most.
const LEAST_RATE: u64 = 64 << 10;

/// The memory for bodies.
#[derive(Debug)]
pub(super) struct BodyMemory(Arc<Semaphore>);

/// A body, and its part of the memory.
#[derive(Debug)]
pub(super) struct BufferedBody {
    bytes: Vec<u8>,
    permit: Option<OwnedSemaphorePermit>,
}

/// When the next bytes are due.
#[derive(Debug)]
struct Pace {
    due: Instant,
}

impl Pace {
    fn new(now: Instant) -> Self {
        Self { due: now + READ_TIMEOUT }
    }

    fn heard(&mut self, bytes: usize, now: Instant) {
        let worth = u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(1_000_000_000);
        self.due = (now + READ_TIMEOUT).min(self.due + Duration::from_nanos(worth / LEAST_RATE));
    }

    /// We could not listen for so long.
    fn excuse(&mut self, time: Duration) {
        self.due += time;
    }
}

impl BufferedBody {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    async fn push(
        &mut self,
        room: &BodyMemory,
        chunk: &[u8],
        whole: usize,
    ) -> Result<(), Decision> {
        let needed = self.bytes.len() + chunk.len();
        if needed > self.bytes.capacity() {
            // Doubled, so that no byte is copied often, but not beyond what is to come.
            let units = needed.max(2 * self.bytes.capacity()).min(whole.max(needed)).div_ceil(UNIT);
            let has = self.permit.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = room.take(units.saturating_sub(has)).await?;
            match &mut self.permit {
                Some(permit) => permit.merge(more),
                none => *none = Some(more),
            }
            self.bytes.reserve_exact((units * UNIT).saturating_sub(self.bytes.len()));
        }
        self.bytes.extend_from_slice(chunk);
        Ok(())
    }

    fn clear(&mut self) {
        self.bytes = Vec::new();
        self.permit = None;
    }
}

impl BodyMemory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(BODY_MEMORY_UNITS)))
    }

    async fn take(&self, units: usize) -> Result<OwnedSemaphorePermit, Decision> {
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let wait = Arc::clone(&self.0).acquire_many_owned(units);
        match tokio::time::timeout(CONTENDED_TIMEOUT, wait).await {
            Ok(Ok(permit)) => Ok(permit),
            Ok(Err(_)) => Err(Decision::errored(503, messages::SHUTTING_DOWN)),
            Err(_) => {
                Err(Decision { rule: "busy", ..Decision::errored(503, messages::BODIES_BUSY) })
            }
        }
    }

    /// Reads a body: up to the limit, within the deadline, at the least rate.
    pub(super) async fn read(
        &self,
        length: Option<usize>,
        body: Body,
        deadline: std::time::Instant,
    ) -> Result<BufferedBody, Decision> {
        match timeout_at(deadline.into(), self.collect(length, body)).await {
            Ok(read) => read,
            Err(_) => Err(Decision::errored(408, messages::BODY_TIMEOUT)),
        }
    }

    async fn collect(&self, length: Option<usize>, body: Body) -> Result<BufferedBody, Decision> {
        let mut held = BufferedBody { bytes: Vec::new(), permit: None };
        let mut is_too_large = length.is_some_and(|length| length > BODY_LIMIT);
        let mut dropped = 0;
        let mut chunks = body.into_data_stream();
        let mut pace = Pace::new(Instant::now());
        loop {
            let chunk = timeout_at(pace.due, chunks.next())
                .await
                .map_err(|_| Decision::errored(408, messages::BODY_TIMEOUT))?;
            let Some(chunk) = chunk else { break };
            let chunk = chunk.map_err(|error| {
                Decision::errored(400, messages::undecodable(&error.to_string()))
            })?;
            let now = Instant::now();
            pace.heard(chunk.len(), now);
            is_too_large |= held.bytes.len() + chunk.len() > BODY_LIMIT;
            if !is_too_large {
                held.push(self, &chunk, length.unwrap_or(BODY_LIMIT)).await?;
                pace.excuse(now.elapsed());
                continue;
            }
            // A client reads the answer when it has written: an end in the middle of its writing
            // is an error to it, and the answer is lost. So the rest is read, within bounds.
            held.clear();
            dropped += chunk.len();
            if dropped > DROPPED {
                break;
            }
        }
        if is_too_large {
            return Err(Decision::errored(413, messages::too_large(BODY_LIMIT)));
        }
        Ok(held)
    }
}

/// The length of the body as the client states it.
pub(super) fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Bytes;
    use futures::stream;

    use super::*;

    impl BodyMemory {
        fn is_free(&self) -> bool {
            self.0.available_permits() == BODY_MEMORY_UNITS
        }
    }

    const MINUTE: Duration = Duration::from_secs(60);

    /// A body of these chunks, each after a pause; `None`: silence for ever.
    fn paced(chunks: Vec<Option<(u64, usize)>>) -> Body {
        let chunks = stream::iter(chunks).then(async |chunk| match chunk {
            Some((pause, size)) => {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                Ok::<_, std::io::Error>(Bytes::from(vec![b' '; size]))
            }
            None => std::future::pending().await,
        });
        Body::from_stream(Box::pin(chunks))
    }

    async fn read(
        room: &BodyMemory,
        length: Option<usize>,
        body: Body,
    ) -> (Result<usize, u16>, Duration) {
        let start = Instant::now();
        let read = room.read(length, body, (start + MINUTE).into_std()).await;
        let read = read.map(|held| held.bytes().len()).map_err(|decision| decision.code);
        (read, start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn slow_bodies_end() {
        let room = BodyMemory::new();
        const KIB: usize = 1 << 10;
        let silent = vec![None];
        let trickle = vec![Some((1000, 1)); 100];
        let steady = vec![Some((1000, 64 * KIB)); 20];
        let too_slow = vec![Some((1000, 32 * KIB)); 20];
        let stalled = vec![Some((0, 1024 * KIB)), Some((0, 1024 * KIB)), None];
        let bursts = vec![Some((1900, 128 * KIB)); 10];
        let cases = [
            ("silent", silent, Err(408), 2_000),
            ("a byte a second", trickle, Err(408), 2_000),
            ("the least rate", steady, Ok(20 * 64 * KIB), 20_000),
            ("half of it", too_slow, Err(408), 3_500),
            ("much, then nothing", stalled, Err(408), 2_000),
            ("in bursts", bursts, Ok(1280 * KIB), 19_000),
        ];
        for (what, chunks, want, within) in cases {
            for length in [None, Some(BODY_LIMIT)] {
                let (got, time) = read(&room, length, paced(chunks.clone())).await;
                assert_eq!(got, want, "{what}");
                assert!(time <= Duration::from_millis(within + 10), "{what}: {time:?}");
                assert!(room.is_free(), "{what}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_promise_takes_no_memory() {
        let room = Arc::new(BodyMemory::new());
        let silent = |_| {
            let room = Arc::clone(&room);
            tokio::spawn(async move {
                read(&room, Some(BODY_LIMIT), paced(vec![Some((0, 1)), None])).await
            })
        };
        let promised: Vec<_> = (0..1000).map(silent).collect();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let (got, time) = read(&room, Some(5), paced(vec![Some((0, 5))])).await;
        assert_eq!((got, time.is_zero()), (Ok(5), true));
        for one in promised {
            assert_eq!(one.await.unwrap().0, Err(408));
        }
        assert!(room.is_free());
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_who_waits_for_it_goes_on() {
        let room = Arc::new(BodyMemory::new());
        let start = |size: usize| {
            let room = Arc::clone(&room);
            let body = paced(vec![Some((0, size / 2)), Some((500, size - size / 2))]);
            tokio::spawn(async move { read(&room, Some(size), body).await })
        };
        // Their halves fill the memory: each waits for the others, until some give up.
        let size = 6 << 20;
        let all: Vec<_> = (0..30).map(|_| start(size)).collect();
        let mut outcomes = Vec::new();
        for one in all {
            outcomes.push(one.await.unwrap().0);
        }
        let done = outcomes.iter().filter(|outcome| **outcome == Ok(size)).count();
        assert!(done >= 10, "{outcomes:?}");
        assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(_) | Err(503))), "{outcomes:?}");
        assert!(room.is_free());
    }

    #[tokio::test(start_paused = true)]
    async fn growth_is_paid_for() {
        let room = BodyMemory::new();
        let body = paced(vec![Some((0, 10_000)); 100]);
        let held = room.read(None, body, (Instant::now() + MINUTE).into_std()).await;
        let held = held.unwrap();
        let paid = (BODY_MEMORY_UNITS - room.0.available_permits()) * UNIT;
        assert_eq!(held.bytes().len(), 1_000_000);
        assert!(held.bytes.capacity() <= paid && paid <= 2 << 20, "{paid}");
    }
}
