//! A bounded pool of threads with big stacks for CUE evaluation.
//!
//! Evaluation recurses, takes milliseconds to a second of pure CPU, and must not run on the async
//! workers. The pool has a fixed number of threads and a bounded queue; a job has a deadline, and
//! a job whose caller has gone (the client hung up) is dropped from the queue unevaluated, or notified
//! to stop if it already runs. Whose job is next: `fair.rs`.
//!
//! Our own: rayon's and tokio's pools have no bound on their queue, no deadline and no fairness.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

use crate::fair::Fair;
pub use crate::fair::Group;

/// Stack of one thread: deep enough for the evaluator's own depth limit with room to spare. Only
/// touched pages cost memory.
pub const STACK: usize = 16 << 20;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// No thread was free before the deadline: nothing ran.
    #[error("no thread was free in time")]
    Busy,
    /// The deadline passed while the job ran.
    #[error("deadline exceeded")]
    Deadline,
    /// The job panicked; the text is the panic's.
    #[error("panic: {0}")]
    Panic(String),
    /// The pool is being dropped.
    #[error("shutting down")]
    Closed,
}

/// What a job may ask while it runs.
#[derive(Debug, Clone)]
pub struct Budget {
    deadline: Instant,
    gone: Arc<AtomicBool>,
}

impl Budget {
    /// A budget outside any pool, for tests and tools.
    pub fn until(deadline: Instant) -> Self {
        Self { deadline, gone: Arc::new(AtomicBool::new(false)) }
    }

    /// The moment after which nobody waits for the result.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Becomes true when the caller has gone: for work that polls a flag.
    pub fn cancelled(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.gone)
    }

    /// True once the result is of no use: the caller has gone or the deadline has passed.
    pub fn is_spent(&self) -> bool {
        self.gone.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

/// Whose a job is, how long it waits for a thread, and how long it runs.
#[derive(Debug, Clone)]
pub struct Terms {
    /// Who shares the threads fairly with the others.
    pub group: Group,
    /// How long it waits.
    pub queue_timeout: Duration,
    /// How long it runs, from the moment it has a thread.
    pub limit: Duration,
}

/// Called with the moment it began.
type Job = Box<dyn FnOnce(Instant) + Send>;

struct Queue {
    jobs: Fair<Job>,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    work: Condvar,
    running: AtomicUsize,
    waiting: AtomicUsize,
}

/// The pool. Dropping it ends the threads after the jobs they run.
pub struct Pool {
    shared: Arc<Shared>,
    slots: Arc<Semaphore>,
    threads: Vec<JoinHandle<()>>,
}

impl std::fmt::Debug for Pool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pool")
            .field("threads", &self.threads.len())
            .field("running", &self.running())
            .field("waiting", &self.waiting())
            .finish()
    }
}

impl Pool {
    /// Starts `threads` threads named `name-<n>`; at most `queue` jobs are handed to them beyond
    /// those that run, further callers wait outside, without cost, for a place.
    pub fn new(name: &str, threads: usize, queue: usize) -> io::Result<Self> {
        let threads = threads.max(1);
        let shared = Arc::new(Shared {
            queue: Mutex::new(Queue { jobs: Fair::new(threads), closed: false }),
            work: Condvar::new(),
            running: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
        });
        let handles = (0..threads)
            .map(|n| {
                let shared = Arc::clone(&shared);
                std::thread::Builder::new()
                    .name(format!("{name}-{n}"))
                    .stack_size(STACK)
                    .spawn(move || work(&shared))
            })
            .collect::<io::Result<_>>()?;
        Ok(Self { shared, slots: Arc::new(Semaphore::new(threads + queue)), threads: handles })
    }

    /// Jobs that run now.
    pub fn running(&self) -> usize {
        self.shared.running.load(Ordering::Relaxed)
    }

    /// Callers that wait, in the queue or for a place in it.
    pub fn waiting(&self) -> usize {
        self.shared.waiting.load(Ordering::Relaxed)
    }

    /// Runs `job` on the pool until a deadline. Dropping the future withdraws the job.
    ///
    /// # Errors
    /// No thread, no time, a panic, or the end of the pool.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        self.submit(&Group::from(""), deadline, move |_| deadline, job).await
    }

    /// Runs `job` for a group: it waits for its turn, and its time counts from then on.
    ///
    /// # Errors
    /// As [`Pool::run`].
    pub async fn run_for<T: Send + 'static>(
        &self,
        terms: Terms,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let Terms { group, queue_timeout, limit } = terms;
        let begin_by = Instant::now() + queue_timeout;
        self.submit(&group, begin_by, move |start| start + limit, job).await
    }

    async fn submit<T: Send + 'static>(
        &self,
        group: &Group,
        begin_by: Instant,
        ends: impl Fn(Instant) -> Instant + Copy + Send + 'static,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let waiting = Count::up(&self.shared, |shared| &shared.waiting);
        let permit =
            tokio::time::timeout_at(begin_by.into(), Arc::clone(&self.slots).acquire_owned());
        let permit = match permit.await {
            Ok(Ok(permit)) => permit,
            Ok(Err(_)) => return Err(PoolError::Closed),
            Err(_) => return Err(PoolError::Busy),
        };
        let gone = Arc::new(AtomicBool::new(false));
        let _withdraw = Withdraw(Arc::clone(&gone));
        let (answer, mut result) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let began: Arc<OnceLock<Instant>> = Arc::default();
        let begins = Arc::clone(&began);
        let boxed: Job = Box::new(move |start| {
            let _permit = permit;
            drop(waiting);
            if gone.load(Ordering::Relaxed) || start >= begin_by {
                let _ = answer.send(Err(PoolError::Busy));
                return;
            }
            let _ = begins.set(start);
            let budget = Budget { deadline: ends(start), gone };
            let running = Count::up(&shared, |shared| &shared.running);
            let outcome = catch_unwind(AssertUnwindSafe(|| job(&budget)));
            // before the answer: its receiver may read the gauges
            drop(running);
            let _ = answer.send(outcome.map_err(|panic| PoolError::Panic(panic_text(&*panic))));
        });
        {
            let mut queue = self.shared.queue.lock();
            if queue.closed {
                return Err(PoolError::Closed);
            }
            queue.jobs.push(group, boxed, Instant::now());
        }
        self.shared.work.notify_one();
        loop {
            // When it begins is only known then: a waiter polls as often as a job may last.
            let now = Instant::now();
            let until = match began.get() {
                Some(start) => ends(*start),
                None => begin_by.min(ends(now)),
            };
            match tokio::time::timeout_at(until.into(), &mut result).await {
                Ok(Ok(outcome)) => return outcome,
                Ok(Err(_)) => return Err(PoolError::Closed),
                Err(_) => match began.get() {
                    Some(start) if Instant::now() >= ends(*start) => {
                        return Err(PoolError::Deadline);
                    }
                    None if Instant::now() >= begin_by => return Err(PoolError::Busy),
                    _ => {}
                },
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        {
            let mut queue = self.shared.queue.lock();
            queue.closed = true;
            queue.jobs.clear();
        }
        self.slots.close();
        self.shared.work.notify_all();
        // Not joined: a job may run for its whole deadline, and nobody waits for it any more.
    }
}

fn work(shared: &Shared) {
    loop {
        let (group, job, start) = {
            let mut queue = shared.queue.lock();
            loop {
                let now = Instant::now();
                if let Some((group, job)) = queue.jobs.take(now) {
                    break (group, job, now);
                }
                if queue.closed {
                    return;
                }
                shared.work.wait(&mut queue);
            }
        };
        job(start);
        let mut queue = shared.queue.lock();
        queue.jobs.done(&group, start, Instant::now());
        // What had to wait for this one may be for another thread.
        let is_empty = queue.jobs.is_empty();
        drop(queue);
        if !is_empty {
            shared.work.notify_one();
        }
    }
}

/// Notifies the job that its caller has gone.
struct Withdraw(Arc<AtomicBool>);

impl Drop for Withdraw {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A gauge that goes down again whatever happens.
struct Count {
    shared: Arc<Shared>,
    which: fn(&Shared) -> &AtomicUsize,
}

impl Count {
    fn up(shared: &Arc<Shared>, which: fn(&Shared) -> &AtomicUsize) -> Self {
        which(shared).fetch_add(1, Ordering::Relaxed);
        Self { shared: Arc::clone(shared), which }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        (self.which)(&self.shared).fetch_sub(1, Ordering::Relaxed);
    }
}

/// The message of a caught panic.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    #[tokio::test]
    async fn runs_and_reports_panics() {
        let pool = Pool::new("test", 2, 4).unwrap();
        assert_eq!(pool.run(soon(), |_| 6 * 7).await.unwrap(), 42);
        let error = pool.run(soon(), |_| panic!("no {}", "way")).await.unwrap_err();
        assert_eq!(error.to_string(), "panic: no way");
        assert_eq!(pool.run(soon(), |_| "still here").await.unwrap(), "still here");
        assert_eq!((pool.running(), pool.waiting()), (0, 0));
    }

    #[tokio::test]
    async fn a_deadline_ends_the_wait_and_the_job_learns_of_it() {
        let pool = Pool::new("test", 1, 1).unwrap();
        let (sender, learned) = mpsc::channel();
        let deadline = Instant::now() + Duration::from_millis(30);
        let outcome = pool
            .run(deadline, move |budget| {
                while !budget.is_spent() {
                    std::thread::yield_now();
                }
                sender.send(()).unwrap();
            })
            .await;
        assert!(matches!(outcome, Err(PoolError::Deadline) | Ok(())));
        learned.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    #[tokio::test]
    async fn work_for_a_caller_that_left_is_dropped() {
        let pool = Arc::new(Pool::new("test", 1, 8).unwrap());
        let (release, held) = mpsc::channel::<()>();
        let (started, start) = oneshot::channel();
        let first = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move {
                pool.run(soon(), move |_| {
                    let _ = started.send(());
                    held.recv().unwrap();
                })
                .await
            }
        });
        start.await.unwrap();
        let evaluated = Arc::new(AtomicBool::new(false));
        let second = tokio::spawn({
            let (pool, evaluated) = (Arc::clone(&pool), Arc::clone(&evaluated));
            async move { pool.run(soon(), move |_| evaluated.store(true, Ordering::SeqCst)).await }
        });
        while pool.shared.queue.lock().jobs.is_empty() {
            tokio::task::yield_now().await;
        }
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        release.send(()).unwrap();
        first.await.unwrap().unwrap();
        // the thread is free again only after it has taken the second job
        pool.run(soon(), |_| ()).await.unwrap();
        assert!(!evaluated.load(Ordering::SeqCst));
    }

    fn terms(group: &str, queue_timeout: u64, limit: u64) -> Terms {
        let millis = Duration::from_millis;
        Terms { group: group.into(), queue_timeout: millis(queue_timeout), limit: millis(limit) }
    }

    #[tokio::test]
    async fn waiting_for_a_thread_is_told_from_running_too_long() {
        let pool = Arc::new(Pool::new("test", 1, 8).unwrap());
        let (release, held) = mpsc::channel::<()>();
        let (started, start) = oneshot::channel();
        let first = tokio::spawn({
            let pool = Arc::clone(&pool);
            async move {
                let job = move |_: &Budget| {
                    let _ = started.send(());
                    held.recv().unwrap();
                };
                pool.run_for(terms("a", 20_000, 50), job).await
            }
        });
        start.await.unwrap();
        let second = pool.run_for(terms("b", 30, 20_000), |_| ()).await;
        assert!(matches!(second, Err(PoolError::Busy)), "{second:?}");
        // The first one has no time left although its thread is still held; what it leaves is dropped.
        assert!(matches!(first.await.unwrap(), Err(PoolError::Deadline)));
        release.send(()).unwrap();
        // Its own time counts from its begin.
        let third = pool.run_for(terms("b", 20_000, 20_000), |budget| !budget.is_spent()).await;
        assert!(third.unwrap());
    }
}
