//! The cluster that a placement or a record names: its connection and its live objects, or why it cannot be reached now.
//!
//! A cluster that cannot be reached postpones what is done in it, and nothing else: it is no failure of the Application.

use std::borrow::Cow;
use std::sync::Arc;

use vela_apply::object::is_local;
use vela_cluster::members::{Cluster, Named, Snapshot, State};
use vela_cluster::{ApiError, LiveObjects, ObjectClient, postponed};

use crate::messages;
use crate::queue::Key;

use crate::application::actors::{Actors, CoAuthor, Requests};
use crate::application::context::AppContext;
use crate::application::session::Session;
use crate::application::workflow_owner::OwnerKind;

/// A cluster that can be reached.
#[derive(Debug)]
pub struct Reached<'a> {
    /// Its connection.
    pub io: &'a Arc<ObjectClient>,
    /// Its objects.
    pub live: &'a LiveObjects,
    actors: Cow<'a, Actors>,
}

impl Reached<'_> {
    /// The connection on which the Application's own requests go there.
    #[must_use]
    pub fn requests(&self) -> Requests<'_> {
        Requests { io: self.io, actors: &self.actors }
    }
}

/// The live objects of a cluster, for the controller's own reads.
///
/// # Errors
/// As [`Session::reach`].
pub(in crate::application) fn live_objects<'a>(
    ctx: &'a AppContext,
    clusters: &'a Snapshot,
    app: &Key,
    cluster: &str,
) -> Result<&'a LiveObjects, ApiError> {
    if is_local(cluster) {
        return Ok(&ctx.live);
    }
    let (_, live, _) =
        connection(ctx, clusters, Some(app), cluster).inspect_err(postponed::note)?;
    Ok(live)
}

/// The connection to a cluster of any name, and which member it is; `None` for the own one. `app`: the Application that is
/// checked again when the cluster changes.
fn connection<'a>(
    ctx: &'a AppContext,
    clusters: &'a Snapshot,
    app: Option<&Key>,
    cluster: &str,
) -> Result<(&'a Arc<ObjectClient>, &'a LiveObjects, Option<&'a Cluster>), ApiError> {
    if !ctx.clusters.is_on() {
        return Err(ApiError::Config(messages::no_such_cluster(cluster)));
    }
    let concerned = |name: &str| app.iter().for_each(|app| ctx.clusters.concerns(name, app));
    concerned(cluster);
    let unclear = |why: &str| ApiError::Unreachable {
        cluster: cluster.to_owned(),
        since: "the start".to_owned(),
        why: why.to_owned(),
    };
    let found = match clusters.named(cluster) {
        Named::Own => return Ok((&ctx.io, &ctx.live, None)),
        Named::Unclear => return Err(unclear(messages::CLUSTERS_UNKNOWN)),
        Named::Unregistered(_) => {
            return Err(ApiError::Config(messages::no_such_cluster(cluster)));
        }
        Named::Member(member) => member,
    };
    // The snapshot holds it for as long as the reconcile goes on.
    let name = found.cluster.name.as_str();
    let Some(member) = clusters.members().get(name) else {
        return Err(unclear(messages::CLUSTERS_UNKNOWN));
    };
    concerned(name);
    let (io, live) = member.reach()?;
    Ok((io, live, Some(&member.cluster)))
}

impl Session<'_> {
    /// The name under which a cluster is known: one of several, or of a renamed one the newer.
    #[must_use]
    pub fn canonical<'n>(&self, cluster: &'n str) -> Cow<'n, str> {
        if is_local(cluster) || !self.ctx.clusters.is_on() {
            return Cow::Borrowed(cluster);
        }
        Cow::Owned(self.clusters.canonical(cluster))
    }

    /// A cluster, for the controller's own reads: their results are shown to nobody without the right to them.
    ///
    /// # Errors
    /// It cannot be reached now, or there is none of that name.
    pub fn reach(&self, cluster: &str) -> Result<Reached<'_>, ApiError> {
        if is_local(cluster) {
            let (io, live) = (&self.ctx.io, &self.ctx.live);
            return Ok(Reached { io, live, actors: Cow::Borrowed(&self.actors) });
        }
        self.reach_member(cluster).inspect_err(postponed::note)
    }

    /// The same without reporting a failure: for callers that only report.
    ///
    /// # Errors
    /// As [`Self::reach`].
    pub(in crate::application) fn reach_quietly(&self, cluster: &str) -> Result<(), ApiError> {
        if is_local(cluster) { Ok(()) } else { self.reach_member(cluster).map(|_| ()) }
    }

    /// Why steps go on without a cluster: it is known, cannot be reached now, and the Application asks for that.
    #[must_use]
    pub fn skipped(&self, cluster: &str) -> Option<ApiError> {
        if !self.skips_unreachable || is_local(cluster) {
            return None;
        }
        let Named::Member(member) = self.clusters.named(cluster) else { return None };
        // One that was replaced or cannot be used is not away: what was meant for it has to be decided by somebody.
        if matches!(member.state(), State::Replaced | State::Invalid) {
            return None;
        }
        self.reach_member(cluster).err().filter(|it| matches!(it, ApiError::Unreachable { .. }))
    }

    /// Why nothing may be recorded of a cluster: another one has its name.
    #[must_use]
    pub fn refused_as_replaced(&self, cluster: &str) -> Option<ApiError> {
        if is_local(cluster) {
            return None;
        }
        let Named::Member(member) = self.clusters.named(cluster) else { return None };
        let is_replaced = member.state() == State::Replaced;
        is_replaced.then(|| self.reach(cluster).err()).flatten()
    }

    fn reach_member(&self, cluster: &str) -> Result<Reached<'_>, ApiError> {
        // A WorkflowRun checks by itself whether a cluster answers again.
        let app = (self.owner_kind == OwnerKind::Application).then(|| self.key());
        let (io, live, member) = connection(self.ctx, &self.clusters, app.as_ref(), cluster)?;
        let actors = match member {
            Some(member) if self.actors.are_others() => Cow::Owned(self.actors_there(member)?),
            _ => Cow::Borrowed(&self.actors),
        };
        Ok(Reached { io, live, actors })
    }

    /// A cluster, for requests of the Application of a kind: `get`, `patch`, `create`, `delete`.
    ///
    /// # Errors
    /// It cannot be reached now, there is none of that name, or the Application may not use it.
    pub async fn reach_to(
        &self,
        cluster: &str,
        verb: &'static str,
    ) -> Result<Reached<'_>, ApiError> {
        let reached = self.reach(cluster)?;
        let name = self.canonical(cluster);
        if !is_local(&name)
            && self.actors.are_others()
            && let Some(access) = self.ctx.clusters.access()
        {
            // Each of them must be allowed: a co-author is a limit, not another right.
            let authors = self.actors.co_authors.iter().map(|one| &one.identity);
            for identity in std::iter::once(&self.actors.author).chain(authors) {
                // The controller itself has the credential of the cluster anyway.
                if identity.is_other() {
                    access.check(identity, &name, verb).await.inspect_err(postponed::note)?;
                }
            }
        }
        Ok(reached)
    }

    /// As whom the Application acts in other clusters.
    fn actors_there(&self, member: &Cluster) -> Result<Actors, ApiError> {
        let Some(access) = self.ctx.clusters.access() else { return Ok(self.actors.clone()) };
        let author = access.identity_there(&self.actors.author, member)?;
        let there = |one: &CoAuthor| {
            let identity = access.identity_there(&one.identity, member)?;
            Ok(CoAuthor { identity, ..one.clone() })
        };
        let co_authors = self.actors.co_authors.iter().map(there);
        // Who acts as the credential may do what it may.
        let co_authors: Vec<CoAuthor> = co_authors.collect::<Result<_, ApiError>>()?;
        let co_authors = co_authors.into_iter().filter(|one| one.identity.is_other()).collect();
        Ok(Actors { author, co_authors })
    }
}
