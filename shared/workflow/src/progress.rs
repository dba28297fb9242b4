//! Progress deadlines: how long a step may wait without anything changing about what it waits for.
//!
//! Off by default. The annotation `app.oam.dev/progress-deadline` of an Application says `10m` for every step, and
//! `10m, build=1h, approve=off` for single ones in addition.

use std::collections::BTreeMap;

use vela_gocompat::duration::Duration as GoDuration;

use crate::messages;
use crate::model::Workflow;

/// Deadlines as an annotation says them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deadlines {
    /// For every step.
    pub every: Option<GoDuration>,
    /// For single steps; `None` takes the deadline away.
    pub steps: BTreeMap<String, Option<GoDuration>>,
}

impl Deadlines {
    fn of(&self, step: &str) -> Option<GoDuration> {
        self.steps.get(step).copied().unwrap_or(self.every)
    }
}

/// An annotation that gives no deadlines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeadlineError {
    /// Neither a positive duration nor `off`.
    #[error("{}", messages::bad_deadline(.item))]
    Invalid {
        /// The item of the list, as it is written.
        item: String,
    },
    /// A step that the workflow does not have.
    #[error("{}", messages::deadline_without_step(.step))]
    UnknownStep {
        /// Its name.
        step: String,
    },
}

/// Reads the annotation.
///
/// # Errors
/// A deadline that is no positive duration.
pub fn read(text: &str) -> Result<Deadlines, DeadlineError> {
    let mut deadlines = Deadlines::default();
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let (step, length) = match item.split_once('=') {
            Some((step, length)) => (Some(step.trim()), length.trim()),
            None => (None, item),
        };
        let length = match length {
            "off" => None,
            length => {
                let length: Option<GoDuration> = length.parse().ok();
                let positive = length.filter(|length| length.as_nanos() > 0);
                Some(positive.ok_or_else(|| DeadlineError::Invalid { item: item.to_owned() })?)
            }
        };
        match step {
            Some(step) => {
                deadlines.steps.insert(step.to_owned(), length);
            }
            None => deadlines.every = length,
        }
    }
    Ok(deadlines)
}

/// Gives the steps of a workflow their deadlines.
///
/// # Errors
/// A step that the workflow does not have.
pub fn put(deadlines: &Deadlines, workflow: &mut Workflow) -> Result<(), DeadlineError> {
    let names: Vec<&str> = workflow.all().map(|step| step.name.as_str()).collect();
    if let Some(name) = deadlines.steps.keys().find(|name| !names.contains(&name.as_str())) {
        return Err(DeadlineError::UnknownStep { step: name.clone() });
    }
    for step in &mut workflow.steps {
        step.progress_deadline = deadlines.of(&step.name);
        for sub in &mut step.sub_steps {
            sub.progress_deadline = deadlines.of(&sub.name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Step};

    fn length(text: &str) -> Option<GoDuration> {
        Some(text.parse().unwrap())
    }

    #[test]
    fn one_for_all_and_others_for_some() {
        let deadlines = read(" 10m, build = 1h,approve=off").unwrap();
        let mut group = Step::new("group", "step-group");
        group.sub_steps = vec![Step::new("build", "k"), Step::new("test", "k")];
        let mut workflow =
            Workflow::new(Mode::StepByStep, vec![group, Step::new("approve", "suspend")]);
        put(&deadlines, &mut workflow).unwrap();
        let given: Vec<_> =
            workflow.all().map(|s| (s.name.as_str(), s.progress_deadline)).collect();
        let expected = [
            ("group", length("10m")),
            ("build", length("1h")),
            ("test", length("10m")),
            ("approve", None),
        ];
        assert_eq!(given, expected);
        assert_eq!(read("").unwrap(), Deadlines::default());
        assert_eq!(read("x=5s").unwrap().every, None);
    }

    #[test]
    fn what_cannot_be_meant() {
        for text in ["soon", "10m, x=", "-5m", "0s", "x=1d"] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("progress-deadline"), "{text}");
        }
        let mut workflow = Workflow::new(Mode::StepByStep, vec![Step::new("a", "k")]);
        let error = put(&read("b=1m").unwrap(), &mut workflow).unwrap_err();
        assert_eq!(error, DeadlineError::UnknownStep { step: "b".to_owned() });
    }
}
