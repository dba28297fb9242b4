//! A small runtime of its own for what must go on whatever the rest of the process does: probes, metrics, the Lease; and the
//! watchdog that notices when the rest does not get on.
//!
//! No work of users and no reconcile runs here. What hangs the main runtime would otherwise hang the probes that are to report it
//! of it.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Two, so that a scrape of many metrics does not hold up a renewal.
const THREADS: usize = 2;
/// How often the main runtime is expected to give a sign.
const BEAT: Duration = Duration::from_secs(1);
/// Beats that a main runtime may miss. Missed beats count, not time: who was stopped as a whole missed none.
pub const MAX_MISSED: u32 = 20;

/// The runtime. It ends when this is dropped.
#[derive(Debug)]
pub struct Vital {
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Vital {
    /// Starts its threads.
    ///
    /// # Errors
    /// There are no threads to be had.
    pub fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .max_blocking_threads(THREADS)
            .thread_name("vital")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        Ok(Self { runtime: Some(runtime), handle })
    }

    /// Where to spawn on it.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Spawns a task on it.
    pub fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(task)
    }

    /// Watches the runtime that calls this, from a thread of its own, until `end`. Once that runtime has missed
    /// [`MAX_MISSED`] beats, `frozen` is called there.
    ///
    /// # Errors
    /// There is no thread to be had.
    pub fn watch(
        &self,
        end: CancellationToken,
        frozen: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        watch(end, BEAT, frozen)
    }
}

fn watch(
    end: CancellationToken,
    beat: Duration,
    frozen: impl FnOnce() + Send + 'static,
) -> io::Result<()> {
    let beats = Arc::new(AtomicU64::new(0));
    let heart = Arc::clone(&beats);
    let beating = end.clone();
    // Lives until `end`: there is nothing to join.
    tokio::spawn(async move {
        while !beating.is_cancelled() {
            heart.fetch_add(1, Ordering::Relaxed);
            tokio::time::sleep(beat / 2).await;
        }
    });
    let check = move || {
        let mut pulse = Pulse::default();
        while !end.is_cancelled() {
            std::thread::sleep(beat);
            if pulse.is_gone(beats.load(Ordering::Relaxed)) {
                if !end.is_cancelled() {
                    frozen();
                }
                return;
            }
        }
    };
    std::thread::Builder::new().name("watchdog".to_owned()).spawn(check)?;
    Ok(())
}

impl Drop for Vital {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            // Dropping it would wait for its tasks, which is not for async code.
            runtime.shutdown_background();
        }
    }
}

/// Whether beats still come.
#[derive(Debug, Default)]
struct Pulse {
    last: u64,
    missed: u32,
}

impl Pulse {
    fn is_gone(&mut self, beats: u64) -> bool {
        self.missed = if beats == self.last { self.missed.saturating_add(1) } else { 0 };
        self.last = beats;
        self.missed >= MAX_MISSED
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn only_beats_that_are_missed_in_a_row_count() {
        let mut pulse = Pulse::default();
        assert!(!(1..100).any(|beats| pulse.is_gone(beats)));
        assert!(!(1..MAX_MISSED).any(|_| pulse.is_gone(99)));
        assert!(!pulse.is_gone(100));
        let at = (1..).find(|_| pulse.is_gone(100));
        assert_eq!(at, Some(MAX_MISSED));
    }

    #[test]
    fn frozen_threads_are_noticed_and_the_vital_ones_go_on() {
        let vital = Vital::start().unwrap();
        let (notifier, noticed) = mpsc::channel();
        let (release, held) = mpsc::channel::<()>();
        let main = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        main.spawn(async move {
            let frozen = move || notifier.send(()).unwrap();
            watch(CancellationToken::new(), Duration::from_millis(5), frozen).unwrap();
            tokio::task::yield_now().await;
            held.recv().unwrap();
        });
        noticed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!(vital.handle().block_on(vital.spawn(async { 6 * 7 })).unwrap(), 42);
        release.send(()).unwrap();
    }

    #[test]
    fn who_ends_is_not_frozen() {
        let (notifier, noticed) = mpsc::channel();
        let main = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        main.block_on(async {
            let end = CancellationToken::new();
            let frozen = move || notifier.send(()).unwrap();
            watch(end.clone(), Duration::from_millis(5), frozen).unwrap();
            end.cancel();
        });
        // The watchdog drops its end without a word.
        assert!(noticed.recv_timeout(Duration::from_secs(60)).is_err());
    }
}
