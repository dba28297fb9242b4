//! Evaluation of users' CUE: on the threads of the pool only, and within the budget of one reconcile.
//!
//! The renderer and the limits of an evaluation are lent to a job that runs on such a thread and can be had nowhere else, so
//! nothing is evaluated on the threads that answer probes and renew the Lease. All jobs of a reconcile share one budget; an
//! Application that spent it, or got no thread, is checked again after a pause that grows each time in a row. Threads are shared fairly between
//! namespaces.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use vela_cluster::postponed;
use vela_render::Renderer;
use vela_serve::pool::{Group, Pool, PoolError, Terms};
use vela_workflow::Limits;

use crate::messages;
use crate::queue::Next;

/// What one reconcile may evaluate in all: as long as one evaluation may take.
pub const BUDGET: Duration = Duration::from_secs(10);
/// How long a job waits for a thread. Who waits holds a worker: it comes back later, rather than others having none.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(3);
/// First pause of an Application that spent its budget.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause of one that spends it each time.
const MAX_PAUSE: Duration = Duration::from_secs(60);

tokio::task_local! {
    static ACCOUNT: Arc<Account>;
}

/// Why something was not evaluated. None of these says anything about the template.
#[derive(Debug, thiserror::Error)]
pub enum NotEvaluated {
    /// The reconcile has spent its budget.
    #[error("{}", messages::budget_spent(*.0))]
    Spent(Duration),
    /// No thread was free in time.
    #[error("{}", messages::no_thread(*.0))]
    Busy(Duration),
    /// The evaluator failed.
    #[error("panic: {0}")]
    Panicked(String),
    /// The process ends.
    #[error("shutting down")]
    Closed,
}

impl NotEvaluated {
    /// Whether it helps to wait.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        !matches!(self, Self::Panicked(_))
    }
}

/// What an Application has left, and how it did before.
#[derive(Debug)]
pub struct Account {
    group: Group,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Left in this reconcile.
    left: Duration,
    /// Something was not evaluated for want of budget or thread.
    wants_more: bool,
    /// Reconciles in a row that wanted more.
    times: u32,
    /// Until when it pauses, and at which generation.
    pause: Option<(Instant, i64)>,
}

impl Account {
    /// The account of something in a namespace.
    #[must_use]
    pub fn of(namespace: &str) -> Arc<Self> {
        let state = State { left: BUDGET, wants_more: false, times: 0, pause: None };
        Arc::new(Self { group: namespace.into(), state: Mutex::new(state) })
    }

    /// How long it still pauses; an edit ends that.
    pub(crate) fn pauses(&self, generation: i64) -> Option<Duration> {
        let (until, of) = self.state.lock().pause?;
        let left = until.saturating_duration_since(Instant::now());
        (of == generation && !left.is_zero()).then_some(left)
    }

    fn left(&self) -> Option<Duration> {
        Some(self.state.lock().left).filter(|left| !left.is_zero())
    }

    fn charge(&self, took: Duration) {
        let mut state = self.state.lock();
        state.left = state.left.saturating_sub(took);
    }

    fn renew(&self) {
        let mut state = self.state.lock();
        (state.left, state.wants_more) = (BUDGET, false);
    }

    /// Ends a reconcile: the pause after one that spent its budget, or got no thread.
    fn end(&self, generation: i64) -> Option<Duration> {
        let mut state = self.state.lock();
        if !state.left.is_zero() && !state.wants_more {
            (state.times, state.pause) = (0, None);
            return None;
        }
        let pause = pause(state.times);
        state.times = state.times.saturating_add(1);
        state.pause = Some((Instant::now() + pause, generation));
        Some(pause)
    }
}

fn pause(times: u32) -> Duration {
    let factor = 1_u32.checked_shl(times).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(factor).min(MAX_PAUSE)
}

/// Carries out a reconcile on an account. A pause that follows it is noted as something that was postponed, so that a reconcile
/// that failed only for want of time has not failed ([`guard`](crate::guard)).
///
/// # Errors
/// Those of the reconcile.
pub(crate) async fn within<E>(
    account: Arc<Account>,
    generation: i64,
    work: impl Future<Output = Result<Next, E>>,
) -> Result<Next, E> {
    account.renew();
    let done = ACCOUNT.scope(Arc::clone(&account), work).await;
    let Some(pause) = account.end(generation) else { return done };
    postponed::had_no_time(Some(pause));
    done.map(|next| match next {
        Next::Done => Next::After(pause),
        Next::After(delay) => Next::After(delay.max(pause)),
        Next::Postponed(delay) => Next::Postponed(delay.max(pause)),
        Next::Resync(period) => Next::Resync(period.max(pause)),
        Next::Failed => Next::Failed,
    })
}

/// What a job evaluates with.
#[derive(Debug)]
pub struct EvaluationScope {
    /// The renderer.
    pub renderer: Renderer,
    /// For evaluations that are not its own.
    pub limits: Limits,
}

/// The way to the pool.
#[derive(Debug, Clone)]
pub struct Evaluator {
    pool: Arc<Pool>,
    renderer: Arc<Renderer>,
}

impl Evaluator {
    /// Evaluates with this renderer, in its limits, on this pool.
    #[must_use]
    pub const fn new(pool: Arc<Pool>, renderer: Arc<Renderer>) -> Self {
        Self { pool, renderer }
    }

    /// Runs a job on the pool, at the expense of the reconcile that asks.
    ///
    /// # Errors
    /// There was no time or no thread for it, or it panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&EvaluationScope) -> T + Send + 'static,
    ) -> Result<T, NotEvaluated> {
        let account = ACCOUNT.try_with(Arc::clone).unwrap_or_else(|_| Account::of(""));
        let result = self.run_for(&account, job).await;
        if result.as_ref().is_err_and(NotEvaluated::is_temporary) {
            account.state.lock().wants_more = true;
            postponed::had_no_time(None);
        }
        result
    }

    async fn run_for<T: Send + 'static>(
        &self,
        account: &Arc<Account>,
        job: impl FnOnce(&EvaluationScope) -> T + Send + 'static,
    ) -> Result<T, NotEvaluated> {
        let Some(limit) = account.left() else { return Err(NotEvaluated::Spent(BUDGET)) };
        let (renderer, pays) = (Arc::clone(&self.renderer), Arc::clone(account));
        let terms =
            Terms { group: Arc::clone(&account.group), queue_timeout: QUEUE_TIMEOUT, limit };
        let ran = self.pool.run_for(terms, move |budget| {
            // Others of the same reconcile may have run while this one waited.
            let left = pays.left()?;
            let started = Instant::now();
            let limits = Limits {
                time: Some(left),
                cancel: Some(budget.cancelled()),
                ..renderer.limits().clone()
            };
            let result =
                job(&EvaluationScope { renderer: renderer.within(limits.clone()), limits });
            let took = started.elapsed();
            pays.charge(took);
            // What ended because its time did is no result.
            (took < left && !budget.is_spent()).then_some(result)
        });
        match ran.await {
            Ok(Some(result)) => Ok(result),
            Ok(None) => Err(NotEvaluated::Spent(BUDGET)),
            Err(PoolError::Deadline) => {
                account.charge(limit);
                Err(NotEvaluated::Spent(BUDGET))
            }
            Err(PoolError::Busy) => Err(NotEvaluated::Busy(QUEUE_TIMEOUT)),
            Err(PoolError::Panic(text)) => Err(NotEvaluated::Panicked(text)),
            Err(PoolError::Closed) => Err(NotEvaluated::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use vela_cluster::postponed::Postponed;

    use super::*;

    fn evaluator() -> Evaluator {
        let pool = Pool::new("test", 2, 4).unwrap();
        Evaluator::new(Arc::new(pool), Arc::default())
    }

    /// A job that takes all the time it gets.
    async fn spend(evaluator: &Evaluator) -> Result<(), NotEvaluated> {
        evaluator.run(|scope| std::thread::sleep(scope.limits.time.unwrap_or_default())).await
    }

    #[tokio::test]
    async fn a_reconcile_has_one_budget_and_pauses_when_it_is_spent() {
        let evaluator = evaluator();
        let account = Account::of("team");
        let work = async {
            account.charge(BUDGET.saturating_sub(Duration::from_millis(50)));
            assert!(evaluator.run(|_| ()).await.is_ok());
            let (spent, noted) = postponed::noting(spend(&evaluator)).await;
            assert!(matches!(spent, Err(NotEvaluated::Spent(_))), "{spent:?}");
            assert_eq!(noted, Some(Postponed { after: None, by_server: false, is_away: false }));
            // Nothing more, be it ever so small.
            let more = evaluator.run(|_| ()).await;
            assert!(matches!(more, Err(NotEvaluated::Spent(_))));
            Ok::<_, ()>(Next::Done)
        };
        let next = within(Arc::clone(&account), 1, work).await;
        assert_eq!(next, Ok(Next::After(FIRST_PAUSE)));
        assert!(account.pauses(1).is_some());
        assert_eq!(account.pauses(2), None, "an edit is not held up");
        // The next one has a budget of its own, and forgives.
        let work = async { evaluator.run(|_| Next::Done).await };
        assert!(matches!(within(Arc::clone(&account), 1, work).await, Ok(Next::Done)));
        assert_eq!(account.pauses(1), None);
    }

    #[tokio::test]
    async fn a_panic_is_no_want_of_time() {
        let evaluator = evaluator();
        let work = async {
            let result = evaluator
                .run(|_| {
                    if true {
                        panic!("boom")
                    }
                })
                .await;
            assert!(matches!(result, Err(NotEvaluated::Panicked(text)) if text == "boom"));
            Ok::<_, ()>(Next::Failed)
        };
        let ended = postponed::noting(within(Account::of("team"), 1, work)).await;
        assert_eq!(ended, (Ok(Next::Failed), None));
    }

    #[tokio::test]
    async fn who_got_no_thread_pauses_and_is_forgiven() {
        let account = Account::of("team");
        let end = async |wants_more: bool, next: Result<Next, ()>| {
            let asking = Arc::clone(&account);
            let work = async move {
                asking.state.lock().wants_more = wants_more;
                next
            };
            postponed::noting(within(Arc::clone(&account), 1, work)).await
        };
        let noted =
            |after| Some(Postponed { after: Some(after), by_server: false, is_away: false });
        let times = |n: u32| FIRST_PAUSE * n;
        // One that failed has not failed then: who guards it is asked to wait as long.
        assert_eq!(end(true, Ok(Next::Failed)).await, (Ok(Next::Failed), noted(times(1))));
        assert_eq!(end(true, Err(())).await, (Err(()), noted(times(2))));
        assert_eq!(end(true, Ok(Next::Done)).await.0, Ok(Next::After(times(4))));
        let long = Next::After(Duration::from_secs(300));
        assert_eq!(end(true, Ok(long)).await.0, Ok(long), "what is later anyway stays");
        assert_eq!(end(false, Ok(Next::Failed)).await, (Ok(Next::Failed), None));
        assert_eq!(account.pauses(1), None);
    }

    #[test]
    fn pauses_grow_up_to_a_minute() {
        let account = Account::of("team");
        let mut pauses = Vec::new();
        for _ in 0..8 {
            account.renew();
            account.charge(BUDGET);
            pauses.push(account.end(1).map(|pause| pause.as_secs()));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60].map(Some));
    }
}
