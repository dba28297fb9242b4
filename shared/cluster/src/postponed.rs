//! Whether something in an attempt was postponed: by an API server that is overloaded or unavailable, or for want of time or
//! threads.
//!
//! Who carries out a step or a reconcile makes many requests through many hands, and their errors become words on the way.
//! That one of them was no refusal is noted here by its type, where it happens, so that the attempt as a whole is
//! distinguished from one that failed. It is noted for the task that asks; what an attempt spawns is not part of it.

use std::cell::Cell;
use std::future::Future;
use std::time::Duration;

use crate::{Class, Error};

tokio::task_local! {
    static NOTED: Cell<Option<Postponed>>;
}

/// Something was postponed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Postponed {
    /// The least time until the next attempt.
    pub after: Option<Duration>,
    /// An API server was a reason.
    pub by_server: bool,
    /// Nothing but members that are out of reach was a reason.
    pub is_away: bool,
}

/// Carries out an attempt; returns in addition to its result whether something in it was postponed.
pub async fn noting<F: Future>(attempt: F) -> (F::Output, Option<Postponed>) {
    let noted = async { (attempt.await, NOTED.with(Cell::take)) };
    NOTED.scope(Cell::new(None), noted).await
}

/// Notes an error of a request, if it says that the request is postponed.
pub fn note(error: &Error) {
    if let Class::Retry(after) = error.class() {
        let is_away = matches!(error, Error::Unreachable { .. });
        add(Postponed { after, by_server: true, is_away });
    }
}

/// Notes that an API server postponed something. The longest time that was asked for counts.
pub fn postponed(after: Option<Duration>) {
    add(Postponed { after, by_server: true, is_away: false });
}

/// Notes that there was no time or no thread for something. The longest time that was asked for counts.
pub fn had_no_time(after: Option<Duration>) {
    add(Postponed { after, by_server: false, is_away: false });
}

/// Whether something in the attempt was postponed so far; the note stays.
#[must_use]
pub fn is_noted() -> bool {
    NOTED.try_with(|noted| noted.get().is_some()).unwrap_or(false)
}

fn add(more: Postponed) {
    let noted = |noted: &Cell<Option<Postponed>>| {
        let before = noted.get().unwrap_or(more);
        noted.set(Some(Postponed {
            after: before.after.max(more.after),
            by_server: before.by_server || more.by_server,
            is_away: before.is_away && more.is_away,
        }));
    };
    // Nobody asks outside of an attempt.
    let _ = NOTED.try_with(noted);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_put_off_is_noted_for_its_attempt_only() {
        let after = |seconds| Some(Duration::from_secs(seconds));
        let busy = |retry_after| Error::Api {
            code: 429,
            reason: String::new(),
            message: String::new(),
            retry_after,
        };
        let postponed_by = |after, by_server| Postponed { after, by_server, is_away: false };
        note(&busy(None));
        assert_eq!(noting(async { 1 }).await, (1, None));
        assert_eq!(noting(async { note(&Error::Config(String::new())) }).await.1, None);
        let outer = noting(async {
            note(&busy(after(2)));
            let inner = noting(async { note(&busy(None)) }).await.1;
            assert_eq!(inner, Some(postponed_by(None, true)));
            note(&busy(after(5)));
            note(&busy(after(1)));
        });
        assert_eq!(outer.await.1, Some(postponed_by(after(5), true)));
        let own = noting(async { had_no_time(after(1)) }).await.1;
        assert_eq!(own, Some(postponed_by(after(1), false)));
        let both = noting(async {
            postponed(None);
            had_no_time(after(1));
        });
        assert_eq!(both.await.1, Some(postponed_by(after(1), true)));
    }

    #[tokio::test]
    async fn a_member_that_is_out_of_reach_is_the_reason_if_there_is_no_other() {
        let (cluster, since, why) = ("edge".to_owned(), String::new(), String::new());
        let away = Error::Unreachable { cluster, since, why };
        let one = noting(async { note(&away) }).await.1;
        assert_eq!(one, Some(Postponed { after: None, by_server: true, is_away: true }));
        for is_first in [true, false] {
            let both = noting(async {
                if is_first {
                    note(&away);
                }
                postponed(None);
                note(&away);
            });
            let both = both.await.1;
            assert_eq!(both, Some(Postponed { after: None, by_server: true, is_away: false }));
        }
    }
}
