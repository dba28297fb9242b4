//! What the probe of liveness asks: whether the workers of each controller get on, and whether a leader noticed that its
//! lease is over. Who does not is restarted.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::AbortHandle;
use vela_cluster::Leadership;
use vela_serve::health::Health;

use crate::queue::Queue;

/// How much longer than its deadline a reconcile may take: it ends by itself, unless it holds its thread.
const GRACE: Duration = Duration::from_secs(60);
/// How long a lease may be over, as in client-go.
const TOLERANCE: Duration = Duration::from_secs(20);

/// What does not get on.
#[derive(Debug, thiserror::Error)]
enum Stuck {
    #[error("a reconcile runs for {} s, its deadline was {} s", .running.as_secs(), .limit.as_secs())]
    Reconcile { running: Duration, limit: Duration },
    #[error("it has ended")]
    Task,
    #[error("the lease expired {} s ago", .0.as_secs())]
    Lease(Duration),
}

/// Asks for the workers of a controller under its name.
pub(crate) fn workers(health: &Health, name: &'static str, queue: &Arc<Queue>, limit: Duration) {
    let queue = Arc::clone(queue);
    health.liveness(name, move || gets_on(queue.load().longest, limit));
}

/// Asks whether a task still runs that is to run as long as the process.
pub(crate) fn task(health: &Health, name: &'static str, task: AbortHandle) {
    health.liveness(name, move || if task.is_finished() { Err(Stuck::Task) } else { Ok(()) });
}

/// Asks for the election.
pub(crate) fn election(health: &Health, leadership: Leadership) {
    health.liveness("leaderElection", move || check_lease(leadership.overdue()));
}

fn gets_on(running: Duration, limit: Duration) -> Result<(), Stuck> {
    if running <= limit + GRACE { Ok(()) } else { Err(Stuck::Reconcile { running, limit }) }
}

fn check_lease(overdue: Option<Duration>) -> Result<(), Stuck> {
    let expired = overdue.filter(|overdue| *overdue > TOLERANCE);
    expired.map_or(Ok(()), |since| Err(Stuck::Lease(since)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_and_leaders_that_hang_are_not_alive() {
        let s = Duration::from_secs;
        let limit = s(180);
        for (longest, alive) in [(s(0), true), (s(240), true), (s(241), false)] {
            assert_eq!(gets_on(longest, limit).is_ok(), alive, "{longest:?}");
        }
        for (overdue, alive) in [(None, true), (Some(s(20)), true), (Some(s(21)), false)] {
            assert_eq!(check_lease(overdue).is_ok(), alive, "{overdue:?}");
        }
    }
}
