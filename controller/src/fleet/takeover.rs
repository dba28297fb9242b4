//! The first reconcile of an Application after its bucket was taken over, or after a record of it went out of sight. The caches may be
//! behind the last writes of its previous owner, so before anything is written for it, it is read again: the Application, its
//! revisions, its trackers. What is settled is decided from the caches first: for most of them there is nothing to do, and nothing is
//! read.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use vela_cluster::lease::permit::Assignment;
use vela_cluster::{ApiError, Key};

use crate::application::context::AppContext;
use crate::application::refresh;
use crate::cached::Cached;
use crate::queue::Next;

use super::permit::slot_of;
use super::{Fleet, GONE};

impl Fleet {
    /// Reconciles an Application of this member. `reconcile` may be called twice: what it does the first time sends nothing
    /// if it turns out that the Application must be read first.
    ///
    /// # Errors
    /// Those of `reconcile`, or of reading.
    pub(crate) async fn reconcile<F>(
        &self,
        context: &AppContext,
        key: &Key,
        reconcile: impl Fn() -> F,
    ) -> Result<Next, ApiError>
    where
        F: Future<Output = Result<Next, ApiError>>,
    {
        if let Some(left) = self.unsettled_move(key) {
            return Ok(Next::After(left));
        }
        let assignment = Arc::new(self.assignment(key));
        let out_of_sight = context.out_of_sight(key);
        let is_read = (self.is_read(key, &assignment) && out_of_sight.is_none())
            || context.apps.get(key).is_none_or(|app| is_new(&app));
        // One that another version of the controller handles is left as it is.
        let ours = || context.apps.get(key).filter(|app| context.settings.handles(&app.outline));
        let moves = || ours().and_then(|app| self.next_pool(&app.outline));
        if !is_read
            && moves().is_none()
            && context.apps.get(key).is_some_and(|app| app.is_settled())
        {
            // Other Applications of the bucket may count, too: then one is read without need, which
            // costs little.
            let before = self.unread(&assignment);
            match self.work_as(Arc::clone(&assignment), false, reconcile()).await {
                None => return Ok(GONE),
                Some(done) if self.unread(&assignment) == before => return done,
                // It wanted to write.
                Some(_) => {}
            }
        }
        let work = async {
            if !is_read {
                // Within the attempt: a bucket that is lost while it is read is not marked.
                refresh::read(context, key).await?;
                if self.assignment(key) != *assignment {
                    // It is another member's, or another slot's: what is in flight here counts for neither.
                    return Ok(Next::After(Duration::ZERO));
                }
                self.note_read(key, &assignment);
                context.in_sight(key, out_of_sight);
            }
            match moves() {
                Some(pool) => self.hand_over(context, key, &assignment, &pool).await,
                None => reconcile().await,
            }
        };
        self.work_as(Arc::clone(&assignment), true, work).await.unwrap_or(Ok(GONE))
    }

    fn is_read(&self, key: &Key, assignment: &Assignment) -> bool {
        let state = self.state.lock();
        let slot = state.slots.get(&state.resolve(&slot_of(assignment)));
        slot.is_some_and(|slot| slot.read.contains(key))
    }

    fn unread(&self, assignment: &Assignment) -> u64 {
        let state = self.state.lock();
        let slot = state.slots.get(&state.resolve(&slot_of(assignment)));
        slot.map_or(0, |slot| slot.unread)
    }

    fn note_read(&self, key: &Key, assignment: &Assignment) {
        let mut state = self.state.lock();
        let slot = state.resolve(&slot_of(assignment));
        if let Some(slot) = state.slots.get_mut(&slot) {
            slot.read.insert(key.clone());
        }
    }
}

/// Nobody worked on it yet. Its first write, the finalizer's, is bound to the version that was read.
fn is_new(app: &Cached) -> bool {
    !app.outline.has_finalizers && app.outline.phase.is_empty()
}

/// The Applications that a function calls for.
pub(super) fn chosen(context: &AppContext, choose: impl Fn(&Cached) -> bool) -> Vec<Arc<Cached>> {
    let mut apps = context.apps.all();
    apps.retain(|app| choose(app));
    apps
}
