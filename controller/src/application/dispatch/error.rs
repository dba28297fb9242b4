//! Errors of a dispatch. Steps and conditions show the text; the type says whether anything can have been written.

use vela_apply::plan::PlanError;
use vela_cluster::{ApiError, Class};

use crate::messages;

/// Why an Application may not have an object.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Denial {
    /// It has no name: each reconcile would create another one, which could not be found again.
    #[error("{}", messages::no_name(.kind))]
    NoName {
        /// Its kind.
        kind: String,
    },
    /// A flag keeps Applications to their namespaces.
    #[error("{}", messages::forbidden_namespace(.kind, .object))]
    Namespace {
        /// Its kind.
        kind: String,
        /// Namespace and name.
        object: String,
    },
    /// A flag keeps Applications from this kind.
    #[error("{}", messages::forbidden_type(.kind, .object))]
    Type {
        /// Its kind.
        kind: String,
        /// Namespace and name.
        object: String,
    },
    /// Another component of the Application has it.
    #[error("{}", messages::same_object(.object, .component))]
    SameObject {
        /// Kind, namespace and name.
        object: String,
        /// The other component.
        component: String,
    },
}

/// A request about one object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// Its live object is read.
    Get,
    /// It is created.
    Create,
    /// It is patched.
    Patch,
    /// It is patched to name one more sharer.
    Share,
    /// It is replaced.
    Update,
    /// It is deleted, to be created again.
    Delete,
    /// It is created again after its deletion.
    Recreate,
}

/// Why one object was not written.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WriteError {
    /// A policy, an owner or the object itself forbids it.
    #[error("{0}")]
    Plan(PlanError),
    /// A request failed.
    #[error("{}", messages::cannot(*.0, &.1.to_string()))]
    Request(Verb, ApiError),
    /// It is to be created again, and its predecessor still terminates.
    #[error("{}", messages::still_going(.0))]
    Terminating(String),
    /// Its cluster cannot be reached.
    #[error("{0}")]
    Unreachable(ApiError),
}

impl WriteError {
    /// Whether nothing was written for certain.
    pub(in crate::application) fn is_refusal(&self) -> bool {
        match self {
            Self::Plan(_) | Self::Request(Verb::Get, _) | Self::Unreachable(_) => true,
            Self::Terminating(_) => false,
            // A write without an answer may have happened, so only a refusal counts.
            Self::Request(_, error) => error.class() == Class::Refused,
        }
    }
}

/// Why a dispatch failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum DispatchError {
    /// The Application may not have one of the objects. Nothing was sent.
    #[error("{}", messages::dispatch_failed(&.0.to_string()))]
    Denied(#[from] Denial),
    /// The API server refused objects. Nothing was written and nothing stays recorded.
    #[error("{}", messages::dry_run_failed(&messages::errors(.0)))]
    DryRun(Vec<WriteError>),
    /// Objects that are recorded could not be written.
    #[error("{}", messages::dispatch_failed(&messages::errors(.0)))]
    Write(Vec<WriteError>),
    /// The cluster cannot be reached, or revision or record could not be stored.
    #[error("{}", messages::dispatch_failed(&.0.to_string()))]
    Request(ApiError),
}

/// Why an object was not deleted for a step.
#[derive(Debug, thiserror::Error)]
pub enum DeleteError {
    /// The Application may not touch it.
    #[error(transparent)]
    Denied(#[from] Denial),
    /// A request failed.
    #[error(transparent)]
    Request(#[from] ApiError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_was_not_written() {
        let api = |code| {
            WriteError::Request(
                Verb::Patch,
                ApiError::Api {
                    code,
                    reason: String::new(),
                    message: String::new(),
                    retry_after: None,
                },
            )
        };
        assert!(api(422).is_refusal() && api(403).is_refusal() && api(409).is_refusal());
        assert!(!api(504).is_refusal() && !api(500).is_refusal());
        assert!(!api(429).is_refusal() && !api(408).is_refusal());
        let lost = WriteError::Request(Verb::Create, ApiError::Transport(String::new()));
        assert!(!lost.is_refusal());
        let absent = PlanError::ReadOnlyAbsent { kind: String::new(), name: String::new() };
        assert!(WriteError::Plan(absent).is_refusal());
    }
}
