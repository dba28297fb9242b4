//! A bounded pool of threads with big stacks for CUE evaluation.
//!
//! Evaluation recurses, takes milliseconds to a second of pure CPU, and must not run on the async
//! workers. The pool has a fixed number of threads and a bounded queue; a job has a deadline, and
//! a job whose caller has gone (the client hung up) is dropped from the queue unevaluated, or told
//! to stop if it already runs.

use std::any::Any;
use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use tokio::sync::{Semaphore, oneshot};

/// Stack of one thread: deep enough for the evaluator's own depth limit with room to spare. Only
/// touched pages cost memory.
pub const STACK: usize = 16 << 20;

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum PoolError {
    /// The deadline passed, in the queue or while the job ran.
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

    /// True once the result is of no use: the caller has gone or the deadline has passed.
    pub fn is_spent(&self) -> bool {
        self.gone.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
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
            queue: Mutex::default(),
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

    /// Runs `job` on the pool. Dropping the future withdraws the job.
    pub async fn run<T: Send + 'static>(
        &self,
        deadline: Instant,
        job: impl FnOnce(&Budget) -> T + Send + 'static,
    ) -> Result<T, PoolError> {
        let waiting = Count::up(&self.shared, |shared| &shared.waiting);
        let place =
            tokio::time::timeout_at(deadline.into(), Arc::clone(&self.slots).acquire_owned());
        let place = match place.await {
            Ok(Ok(place)) => place,
            Ok(Err(_)) => return Err(PoolError::Closed),
            Err(_) => return Err(PoolError::Deadline),
        };
        let budget = Budget::until(deadline);
        let _withdraw = Withdraw(Arc::clone(&budget.gone));
        let (answer, result) = oneshot::channel();
        let shared = Arc::clone(&self.shared);
        let boxed: Job = Box::new(move || {
            let _place = place;
            drop(waiting);
            if budget.is_spent() {
                let _ = answer.send(Err(PoolError::Deadline));
                return;
            }
            let running = Count::up(&shared, |shared| &shared.running);
            let outcome = catch_unwind(AssertUnwindSafe(|| job(&budget)));
            // before the answer: who has it may look at the gauges
            drop(running);
            let _ = answer.send(outcome.map_err(|panic| PoolError::Panic(panic_text(&*panic))));
        });
        {
            let mut queue = self.shared.queue.lock();
            if queue.closed {
                return Err(PoolError::Closed);
            }
            queue.jobs.push_back(boxed);
        }
        self.shared.work.notify_one();
        match tokio::time::timeout_at(deadline.into(), result).await {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(PoolError::Closed),
            Err(_) => Err(PoolError::Deadline),
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
        let job = {
            let mut queue = shared.queue.lock();
            loop {
                if let Some(job) = queue.jobs.pop_front() {
                    break job;
                }
                if queue.closed {
                    return;
                }
                shared.work.wait(&mut queue);
            }
        };
        job();
    }
}

/// Tells the job that its caller has gone.
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
        let (told, learned) = mpsc::channel();
        let deadline = Instant::now() + Duration::from_millis(30);
        let outcome = pool
            .run(deadline, move |budget| {
                while !budget.is_spent() {
                    std::thread::yield_now();
                }
                told.send(()).unwrap();
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
        // the thread is free again only after it has looked at the second job
        pool.run(soon(), |_| ()).await.unwrap();
        assert!(!evaluated.load(Ordering::SeqCst));
    }
}
