//! Errors of applying a patch.

use crate::messages;
use crate::term::{Conflict, Incomplete};

/// Why a patch could not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatchError {
    /// Base and patch contradict each other.
    Conflicts(Vec<Conflict>),
    /// A JSON strategy needs a concrete base.
    Base(Vec<Incomplete>),
    /// A JSON strategy needs a concrete patch.
    Patch(Vec<Incomplete>),
    /// A merge patch that is neither an object nor a list.
    Merge(String),
    /// `jsonPatch` without a usable list of operations.
    Operations(String),
    /// An operation failed.
    Apply(String),
    /// A part of the patch depends on something that is not there.
    Undecided(Vec<Incomplete>),
}

impl std::fmt::Display for PatchError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&messages::patch_error(self))
    }
}

impl std::error::Error for PatchError {}
