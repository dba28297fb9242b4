//! A credential that changed is tried before it takes the place of one that works: a mistake in a Secret interrupts nothing.
//!
//! The member with the former credential stays in the registry until the new one is let in. It is degraded as long as the new one is
//! refused, and says why. If the former one ends first, there is nothing to keep, and the new one counts as it is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::gate::{Changed, Reachable};
use super::member::{Connecting, Member};
use super::secret::Cluster;
use super::state::State;

/// What is tried, by cluster.
#[derive(Default)]
pub(super) struct Trials(Mutex<BTreeMap<String, Trial>>);

struct Trial {
    member: Arc<Member>,
    /// It is not wanted any more once this is dropped.
    _ends_on_drop: DropGuard,
}

impl Trials {
    /// What is tried for a cluster is not wanted any more.
    pub(super) fn end(&self, name: &str) {
        self.0.lock().remove(name);
    }

    /// Tries the new credential of a member; `take` gets the new connection when it counts. A trial of another credential ends.
    pub(super) fn begin(
        self: &Arc<Self>,
        old: &Arc<Member>,
        cluster: Cluster,
        (connecting, changed): (&Connecting, &Changed),
        take: impl FnOnce(Arc<Member>) + Send + 'static,
    ) {
        let mut trials = self.0.lock();
        if let Some(trial) = trials.get_mut(&cluster.name)
            && trial.member.cluster.is_same_connection(&cluster)
        {
            trial.member = trial.member.relabelled(cluster);
            return;
        }
        let (news, is_over) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let heard: Changed = {
            let (news, is_over) = (Arc::clone(&news), Arc::clone(&is_over));
            let changed = Arc::clone(changed);
            Arc::new(move |name: &str, reachable: Reachable| {
                if is_over.load(Ordering::Acquire) {
                    changed(name, reachable);
                } else {
                    news.notify_one();
                }
            })
        };
        let name = cluster.name.clone();
        let member = Member::connect(cluster, old.meant(), connecting, &heard);
        let end = connecting.stop.child_token();
        trials.insert(
            name,
            Trial { member: Arc::clone(&member), _ends_on_drop: end.clone().drop_guard() },
        );
        drop(trials);
        let (all, old) = (Arc::clone(self), Arc::clone(old));
        connecting.tasks.spawn(async move {
            if end.run_until_cancelled(decided(&old, &member, &news)).await.is_none() {
                return;
            }
            if let Some(member) = all.finish(&member) {
                is_over.store(true, Ordering::Release);
                take(member);
            }
        });
    }

    /// The member that was tried, if it still is what is wanted.
    fn finish(&self, tried: &Member) -> Option<Arc<Member>> {
        let mut trials = self.0.lock();
        let name = &tried.cluster.name;
        trials.get(name).filter(|trial| trial.member.is_same_connection(tried))?;
        trials.remove(name).map(|trial| Arc::clone(&trial.member))
    }
}

/// Whether a member is kept until its new credential is let in.
pub(super) fn is_kept(old: &Member, cluster: &Cluster) -> bool {
    old.state().is_open() && old.cluster.has_another_credential(cluster)
}

/// Ends when the new connection counts: it works, or there is nothing to keep.
async fn decided(old: &Member, new: &Member, news: &Notify) {
    loop {
        let turned = old.turned();
        let is_over = match (new.state(), new.reachable()) {
            _ if !old.state().is_open() => true,
            (_, Reachable::Yes) | (State::Invalid | State::Replaced, _) => true,
            (State::CredentialRefused, _) => {
                let why = new.health().why().to_owned();
                let why = format!(
                    "the new credential of its Secret is refused: {why}; the former one is still used"
                );
                old.newer_refused(Some(why));
                false
            }
            // The way is the same: what does not answer now may do so at the next probe.
            _ => false,
        };
        if is_over {
            return;
        }
        tokio::select! {
            () = turned => {}
            () = news.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::secret::tests::secret;
    use super::super::tests::registry;
    use super::super::{Heard, Members, SecretRules};
    use super::*;

    fn read(endpoint: &str, token: &str) -> Cluster {
        let data = [("endpoint", endpoint), ("token", token)];
        let object = secret("edge", "ServiceAccountToken", &data);
        Cluster::of(&serde_json::from_value(object).unwrap(), SecretRules::default())
    }

    fn now(members: &Members) -> Arc<Member> {
        Arc::clone(members.snapshot().members().get("edge").unwrap())
    }

    fn tried(members: &Members) -> Option<Arc<Member>> {
        members.trials.0.lock().get("edge").map(|trial| Arc::clone(&trial.member))
    }

    /// A member that works, and the trial of another token.
    async fn trial() -> (Members, Arc<Member>, Arc<Member>) {
        let (members, _) = registry();
        members.put(read("https://10.0.0.1", "first"));
        let old = now(&members);
        old.hear(Heard::Answer(200, Duration::ZERO));
        members.put(read("https://10.0.0.1", "second"));
        let new = tried(&members).unwrap();
        assert!(now(&members).is_same_connection(&old));
        (members, old, new)
    }

    async fn until(what: impl Fn() -> bool) {
        while !what() {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_credential_that_is_refused_takes_nobodys_place() {
        let (members, old, new) = trial().await;
        new.hear(Heard::Refused("Unauthorized".to_owned()));
        until(|| old.health().is_newer_refused()).await;
        assert_eq!(old.state(), State::Degraded);
        assert!(old.health().why().contains("Unauthorized") && old.reach().is_ok());
        assert!(now(&members).is_same_connection(&old));
        // It is let in later.
        new.hear(Heard::Answer(200, Duration::ZERO));
        until(|| now(&members).is_same_connection(&new)).await;
        assert!(tried(&members).is_none());
    }

    #[tokio::test]
    async fn where_nothing_works_any_more_nothing_is_kept() {
        let (members, old, new) = trial().await;
        new.hear(Heard::Refused("Unauthorized".to_owned()));
        until(|| old.health().is_newer_refused()).await;
        old.hear(Heard::Refused("revoked".to_owned()));
        until(|| now(&members).is_same_connection(&new)).await;
        assert!(!now(&members).state().is_open());
        // A credential that comes now is used at once.
        members.put(read("https://10.0.0.1", "third"));
        assert!(!now(&members).is_same_connection(&new) && tried(&members).is_none());
    }

    #[tokio::test]
    async fn what_was_taken_back_or_replaced_is_not_tried_any_more() {
        let (members, old, new) = trial().await;
        new.hear(Heard::Refused("Unauthorized".to_owned()));
        until(|| old.health().is_newer_refused()).await;
        members.put(read("https://10.0.0.1", "first"));
        assert!(tried(&members).is_none() && now(&members).is_same_connection(&old));
        assert_eq!(old.state(), State::Connected);
        new.hear(Heard::Answer(200, Duration::ZERO));
        tokio::task::yield_now().await;
        assert!(now(&members).is_same_connection(&old));
        // Another way to the cluster is another connection.
        members.put(read("https://10.0.0.1", "second"));
        members.put(read("https://10.0.0.2", "second"));
        assert!(!now(&members).is_same_connection(&old) && tried(&members).is_none());
        members.remove("edge");
        assert!(members.snapshot().members().is_empty());
    }
}
