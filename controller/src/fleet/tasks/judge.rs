//! Members that are silent for too long lose their Leases; those of dead members are deleted once nothing refers to them.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{DeleteParams, PostParams, Preconditions};
use tracing::{debug, warn};

use super::Runner;
use crate::fleet::{clock, lease};

/// How long the Lease of a dead member is kept for people to see, in seconds.
const FORGOTTEN: i64 = 60;

impl Runner {
    /// Takes the Leases of members that are silent for too long.
    pub(super) async fn judge(&self) {
        let suspects: Vec<(Arc<str>, u64)> = {
            let state = self.fleet.state.lock();
            let suspects = state.member.suspects(clock::now());
            suspects.map(|(id, stamp)| (Arc::clone(id), stamp)).collect()
        };
        for (suspect, stamp) in suspects {
            let name = {
                let seen = self.seen.lock();
                // By its holder, since the name of a Lease is cut to what an object can be called.
                let of = seen.members.iter().find(|found| lease::holder(found) == &*suspect);
                of.map(|found| lease::name(found).to_owned())
            };
            let Some(name) = name else { continue };
            // Read again: it lives if it renewed in the meantime.
            let Ok(Some(found)) = self.api.get_opt(&name).await else { continue };
            // A stamp that differs is a renewal: the member lives.
            if lease::holder(&found) != &*suspect || stamp != lease::stamp(&found) {
                continue;
            }
            let seized = lease::emptied(found, Some(&self.id));
            // Bound to the version that was read: a renewal that comes between wins.
            match self.api.replace(&name, &PostParams::default(), &seized).await {
                Ok(_) => {
                    warn!(member = &*suspect, "took the Lease of a silent member");
                    self.fleet.metrics.seizures.inc();
                    self.fleet.state.lock().member.seized(&suspect);
                }
                Err(error) => debug!(%error, "the Lease of a silent member cannot be taken"),
            }
        }
    }

    /// With the leader's duties: the Leases of dead members go once nothing refers to them.
    pub(super) async fn sweep(&self) {
        if !self.fleet.is_leading() {
            return;
        }
        let dead: Vec<Lease> = {
            let (seen, state) = (self.seen.lock(), self.fleet.state.lock());
            // The Lease of a dead member proves that it was judged; without it whoever joins would
            // have to wait once more.
            let is_out =
                |id: &str| state.member.table().is_some_and(|table| table.index(id).is_none());
            let is_old = |found: &Lease| {
                let renewed = found.spec.as_ref().and_then(|spec| spec.renew_time.as_ref());
                renewed.is_none_or(|at| Timestamp::now().duration_since(at.0).as_secs() > FORGOTTEN)
            };
            let is_dead = |found: &&Lease| {
                lease::observed(&self.options.names, found)
                    .is_some_and(|one| one.seized && is_out(&one.id))
                    && is_old(found)
            };
            seen.members.iter().filter(is_dead).cloned().collect()
        };
        for found in dead {
            let version = found.metadata.resource_version.clone();
            // A process of the same Pod may have renewed it since it was read.
            let only = Preconditions { uid: found.metadata.uid.clone(), resource_version: version };
            let options = DeleteParams { preconditions: Some(only), ..DeleteParams::default() };
            // What fails is tried at the next sweep.
            let _ = self.api.delete(lease::name(&found), &options).await;
        }
    }
}
