//! An Application moves to the pool that its label names: whoever owns it by its annotation writes another annotation, when nothing
//! of the Application is in flight, and from then on the pool's holder of its bucket works on it. The label itself moves nothing, so
//! it does not matter who sees it when.

use std::time::Duration;

use serde_json::json;
use tracing::info;
use vela_api::names::annotation;
use vela_cluster::lease::permit::Assignment;
use vela_cluster::{ApiError, Class, Key};
use vela_shard::PoolName;

use crate::application::context::AppContext;
use crate::application::lifecycle::conflict;
use crate::application::write;
use crate::cached::Outline;
use crate::queue::Next;

use super::permit::slot_of;
use super::{Fleet, clock};

/// For how long a write without an answer may still be carried out.
const UNSETTLED: Duration = Duration::from_secs(15);

impl Fleet {
    /// The pool that an Application is to move to.
    pub(super) fn next_pool(&self, app: &Outline) -> Option<PoolName> {
        if !self.pools.are_on {
            return None;
        }
        let state = self.state.lock();
        state.member.table()?.moves(&app.shard, &app.pool)
    }

    /// Writes the annotation, within an attempt at the Application: no other one is in flight.
    pub(super) async fn hand_over(
        &self,
        context: &AppContext,
        key: &Key,
        assignment: &Assignment,
        pool: &str,
    ) -> Result<Next, ApiError> {
        if let Some(left) = self.unanswered(assignment) {
            return Ok(Next::After(left));
        }
        let Some(app) = context.application(key).await? else { return Ok(Next::Done) };
        let value = Some(pool).filter(|pool| !pool.is_empty());
        let body = json!({"metadata": {
            "resourceVersion": app.metadata.resource_version,
            "annotations": {annotation::SHARD: value},
        }});
        // Before it is sent: an attempt that is cancelled from here on may have been carried out.
        self.note_move(key, assignment, true);
        let written = write::patch(context, &app, &body).await;
        // What has no effect now has none later, either.
        let is_certain = match &written {
            Ok(_) => true,
            Err(error) => matches!(error, ApiError::NotLeader) || error.class() == Class::Refused,
        };
        if is_certain {
            self.note_move(key, assignment, false);
        }
        match written {
            Ok(_) => {
                info!(key = %key, pool, "the Application moves to another pool");
                context.forget(key);
                self.metrics.moves.inc();
                // If the other slot is this member's, too, it continues there.
                Ok(Next::After(Duration::ZERO))
            }
            Err(error) if error.is_conflict() => conflict::requeue(context, &app).await,
            Err(error) => Err(error),
        }
    }

    /// How long a write for the Application's bucket may still be carried out that had no answer.
    fn unanswered(&self, assignment: &Assignment) -> Option<Duration> {
        let state = self.state.lock();
        let until = state.flights.get(&slot_of(assignment))?.until;
        clock::left(until)
    }

    /// A write of the annotation is about to be sent, or is over. What was read of the Application counts no more.
    fn note_move(&self, key: &Key, assignment: &Assignment, is_sent: bool) {
        let mut state = self.state.lock();
        let slot = state.resolve(&slot_of(assignment));
        if let Some(slot) = state.slots.get_mut(&slot) {
            slot.read.remove(key);
        }
        if is_sent {
            let until = clock::now().saturating_add(clock::millis(UNSETTLED));
            state.moving.insert(key.clone(), until);
        } else {
            state.moving.remove(key);
        }
    }

    /// How long it is not known yet whether an Application moved.
    pub(super) fn unsettled_move(&self, key: &Key) -> Option<Duration> {
        let state = self.state.lock();
        let until = *state.moving.get(key)?;
        clock::left(until)
    }
}
