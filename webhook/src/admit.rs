//! Rule sets: pure functions of a request and of facts about the cluster.

use crate::decision::Decision;
use crate::review::Request;
use crate::world::World;

/// A set of rules behind one path.
pub trait Admit: Send + Sync + std::fmt::Debug {
    /// Decides. Facts that are missing are noted by the world, fetched by the caller, and the
    /// question is asked again; a decision made in the meantime is thrown away.
    fn admit(&self, request: &Request, world: &World<'_>) -> Decision;
}
