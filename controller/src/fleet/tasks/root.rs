//! The root Lease, on which every controller elects: the fleet holds it, so that none but its members works.

use kube::api::PostParams;
use tracing::warn;
use vela_cluster::Error;
use vela_shard::BUCKETS;

use super::{Runner, is_conflict, seconds};
use crate::fleet::{clock, lease};

impl Runner {
    /// Renews the root Lease, or takes it.
    pub(super) async fn root(&self) {
        let now = clock::now();
        let due = {
            let state = self.fleet.state.lock();
            let leads = state.member.permitted(BUCKETS, now).is_some();
            let is_member =
                state.member.table().is_some_and(|table| table.index(&self.id).is_some());
            // A member without a valid session may be judged dead already; the root Lease must not
            // live on through it.
            is_member && state.member.session(now).is_some() && state.root.is_due(leads, now)
        };
        if !due {
            return;
        }
        // Over the version that was listed: of two members that find it due one gets a conflict.
        let known = self.seen.lock().root.clone();
        let is_new = known.is_none();
        let base =
            known.unwrap_or_else(|| lease::new(&self.options.namespace, &self.options.names.root));
        let next = lease::renewed(base, &self.id, seconds(self.options.root_duration), &[]);
        let options = PostParams::default();
        let written = if is_new {
            self.api.create(&options, &next).await
        } else {
            self.api.replace(&self.options.names.root, &options, &next).await
        };
        match written {
            Ok(written) => {
                let (stamp, _, duration) = lease::root(Some(&written));
                self.fleet.state.lock().root.wrote(now, clock::now(), (stamp, duration));
                self.seen.lock().root = Some(written);
            }
            // Somebody else was quicker: the next list has the answer.
            Err(error) => {
                if !is_conflict(&error) {
                    warn!(error = %Error::from(error), "the root Lease cannot be renewed");
                }
                self.refresh_root().await;
            }
        }
    }

    async fn refresh_root(&self) {
        let started = clock::now();
        if let Ok(found) = self.api.get_opt(&self.options.names.root).await {
            self.fleet.state.lock().root.listed(started, clock::now(), lease::root(found.as_ref()));
            self.seen.lock().root = found;
        }
    }
}
