//! The answer to an admission request.

use json_patch::{Patch, PatchOperation};

use crate::field::{Cause, Problem};
use crate::messages;

/// The answer to a request.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    /// Admitted or not.
    pub allowed: bool,
    /// `status.code`.
    pub code: u16,
    /// `status.reason`.
    pub reason: Option<&'static str>,
    /// `status.message`.
    pub message: String,
    /// `status.details.causes`.
    pub causes: Vec<Cause>,
    /// Shown by kubectl, also when admitted.
    pub warnings: Vec<String>,
    /// The mutation.
    pub patch: Option<Patch>,
    /// Which rule spoke, for metrics.
    pub rule: &'static str,
}

impl Decision {
    /// Admitted as it is.
    pub fn allowed() -> Self {
        Self { allowed: true, code: 200, rule: "none", ..Self::default() }
    }

    /// Admitted, with a message.
    pub fn allowed_because(message: &str) -> Self {
        Self { message: message.to_owned(), ..Self::allowed() }
    }

    /// Admitted and changed; no operation means unchanged.
    pub fn patched(operations: Vec<PatchOperation>) -> Self {
        Self { patch: (!operations.is_empty()).then_some(Patch(operations)), ..Self::allowed() }
    }

    /// Not admitted, with a bare code: how rules of Applications answer.
    pub fn errored(code: u16, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), rule: "decode", ..Self::default() }
    }

    /// Not admitted: larger than allowed.
    pub fn oversized(message: &str) -> Self {
        Self { rule: "size", reason: Some("RequestEntityTooLarge"), ..Self::errored(413, message) }
    }

    /// Not admitted, forbidden: how rules of definitions answer.
    pub fn denied(message: impl Into<String>) -> Self {
        Self {
            code: 403,
            reason: Some("Forbidden"),
            message: message.into(),
            rule: "definition",
            ..Self::default()
        }
    }

    /// All problems, ordered by path, numbered; admitted if there is none.
    pub fn of(mut problems: Vec<Problem>, warnings: Vec<String>, uid: &str) -> Self {
        problems.sort_by(|a, b| a.field.cmp(&b.field));
        problems.dedup_by(|a, b| a.field == b.field && a.detail == b.detail);
        let Some(first) = problems.first() else {
            return Self { warnings, ..Self::allowed() };
        };
        let rule = first.rule.name();
        Self {
            code: 400,
            message: messages::numbered(&problems, uid),
            causes: problems.iter().map(Problem::cause).collect(),
            warnings,
            rule,
            ..Self::default()
        }
    }

    /// Adds warnings.
    #[must_use]
    pub fn warn(mut self, warnings: Vec<String>) -> Self {
        self.warnings.extend(warnings);
        self
    }
}
