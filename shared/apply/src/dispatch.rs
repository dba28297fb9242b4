//! The plan of a dispatch: its requests and their order, decided from facts before anything is sent.
//!
//! Objects are recorded before they are written, and nothing stays recorded if the API server refuses an object of the
//! dispatch. So the objects are validated by a dry run first, with two exceptions:
//!
//! - a write that changes nothing but our own labels and annotations is not validated: the API server accepted the object itself;
//! - the first object that the API server takes as a whole or not at all validates itself: its write is the check, and a refusal
//!   rolls its record back. That saves one request of a dispatch of one object, the usual case.
//!
//! ```
//! use vela_apply::dispatch::{DispatchFacts, ExpectedWrite, ObjectFacts, plan_dispatch};
//!
//! let object = ObjectFacts { expected: ExpectedWrite::Atomic, ..ObjectFacts::default() };
//! let plan = plan_dispatch(&DispatchFacts { objects: vec![object; 2], ..DispatchFacts::default() });
//! assert_eq!((plan.first, plan.validated, plan.others), (Some(0), vec![1], vec![1]));
//! ```

/// What applying an object will probably send, judged by the caches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ExpectedWrite {
    /// Nothing, or nothing but our own labels and annotations.
    NoChange,
    /// One request, which the API server takes as a whole or not at all.
    Atomic,
    /// Several requests, or what the write meets is not known yet.
    #[default]
    Unknown,
}

/// What is known of one object before it is dispatched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ObjectFacts {
    /// What applying it will send.
    pub expected: ExpectedWrite,
    /// The API server has to confirm that the author may see it, even where dry runs are off.
    pub needs_visibility_check: bool,
    /// A tracker that stays records it already: its write cannot leak it.
    pub is_recorded: bool,
}

/// Whether dispatches are validated by a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DryRun {
    /// Every object, but for the exceptions.
    #[default]
    On,
    /// Only objects that need a visibility check.
    Off,
}

/// What is known of a dispatch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchFacts {
    /// Its objects, in order.
    pub objects: Vec<ObjectFacts>,
    /// The feature gate.
    pub dry_run: DryRun,
    /// The last dispatch of the Application met a refusal: this one writes nothing that was not validated.
    pub was_refused: bool,
}

/// What a dispatch sends. Numbers are positions among its objects.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DispatchPlan {
    /// The object whose write is its own validation.
    pub first: Option<usize>,
    /// The objects that a dry run validates before anything is recorded.
    pub validated: Vec<usize>,
    /// What is written after `first`.
    pub others: Vec<usize>,
    /// `first` is written in parallel with revision and record: nothing has to be validated before, and it is recorded already.
    /// An edit is what somebody waits for, so it is the first request.
    pub first_is_recorded: bool,
}

/// Decides what a dispatch sends.
#[must_use]
pub fn plan_dispatch(facts: &DispatchFacts) -> DispatchPlan {
    let mut plan = DispatchPlan::default();
    for (at, object) in facts.objects.iter().enumerate() {
        let is_validated = match facts.dry_run {
            DryRun::Off => object.needs_visibility_check,
            DryRun::On => {
                let is_atomic = object.expected == ExpectedWrite::Atomic;
                if is_atomic && plan.first.is_none() && !facts.was_refused {
                    plan.first = Some(at);
                    continue;
                }
                object.expected != ExpectedWrite::NoChange
            }
        };
        if is_validated {
            plan.validated.push(at);
        }
        plan.others.push(at);
    }
    let first = plan.first.and_then(|at| facts.objects.get(at));
    plan.first_is_recorded =
        plan.validated.is_empty() && first.is_some_and(|first| first.is_recorded);
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(objects: &str, dry_run: DryRun, was_refused: bool) -> String {
        let objects = objects
            .chars()
            .map(|letter| ObjectFacts {
                expected: match letter.to_ascii_lowercase() {
                    'n' => ExpectedWrite::NoChange,
                    'a' => ExpectedWrite::Atomic,
                    _ => ExpectedWrite::Unknown,
                },
                needs_visibility_check: letter == 'v',
                is_recorded: letter.is_uppercase(),
            })
            .collect();
        let plan = plan_dispatch(&DispatchFacts { objects, dry_run, was_refused });
        let first = plan.first.map(|at| at.to_string()).unwrap_or_default();
        let ahead = if plan.first_is_recorded { "!" } else { "" };
        format!("{first}{ahead} {:?} {:?}", plan.validated, plan.others)
    }

    #[test]
    fn plans() {
        for (objects, dry_run, was_refused, expected) in [
            ("", DryRun::On, false, " [] []"),
            ("a", DryRun::On, false, "0 [] []"),
            ("A", DryRun::On, false, "0! [] []"),
            ("a", DryRun::On, true, " [0] [0]"),
            ("a", DryRun::Off, false, " [] [0]"),
            ("nan", DryRun::On, false, "1 [] [0, 2]"),
            ("nAn", DryRun::On, false, "1! [] [0, 2]"),
            ("aa", DryRun::On, false, "0 [1] [1]"),
            ("AA", DryRun::On, false, "0 [1] [1]"),
            ("uA", DryRun::On, false, "1 [0] [0]"),
            ("u", DryRun::On, false, " [0] [0]"),
            ("nn", DryRun::On, true, " [] [0, 1]"),
            ("vau", DryRun::Off, false, " [0] [0, 1, 2]"),
            ("vau", DryRun::Off, true, " [0] [0, 1, 2]"),
        ] {
            assert_eq!(plan(objects, dry_run, was_refused), expected, "{objects} {dry_run:?}");
        }
    }
}
