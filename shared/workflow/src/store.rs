//! What a workflow keeps between reconciles in addition to its status, as the data of its context ConfigMap.
//!
//! | key | content |
//! |---|---|
//! | `vars` | variables, as CUE text |
//! | `<step id>.failedTimes` | failed attempts so far, while the step is repeated |
//! | `<step id>.nextTime` | when the next attempt of a step is due that failed |
//! | `<step id>.progressTime` | when what the step waits for changed last, where it has a progress deadline |
//! | `<step id>.<path>.effect` | an outside effect of the step: intended, or done with its outcome |
//! | `<step id>.outcome` | what a finished step with outside effects came to |
//! | any other | notes: timestamps of suspensions and checks, `logConfig` |
//!
//! The names of the reference's keys are kept; those of counters (but the first), effects and outcomes are ours (compatibility note
//! workflow-6): losing them with a process would repeat what must not be repeated.

use std::collections::{BTreeMap, BTreeSet};

use cue_syntax::quote_label;
use serde_json::{Map, Value};

use crate::backoff::Memory;
use crate::model::{Step, Workflow};
use crate::print::{formatted, print};
use crate::status::Status;
use crate::step::Notes;

const VARS: &str = "vars";
const FAILED_TIMES: &str = ".failedTimes";
const NEXT_TIME: &str = ".nextTime";
const PROGRESS_TIME: &str = ".progressTime";

/// Stored variables that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariablesError {
    /// They are no concrete CUE.
    #[error("{}", .0.to_string().trim_end())]
    Cue(#[from] cue::Errors),
    /// They are CUE, but no struct.
    #[error("{}", crate::messages::VARIABLES_NOT_STRUCT)]
    NotAStruct,
}

/// Variables, notes and counters of a run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Saved {
    /// Variables that steps left.
    pub variables: Map<String, Value>,
    /// Timestamps, outcomes of effects, where logs are.
    pub notes: Notes,
    /// Counters of steps that are repeated.
    pub memory: Memory,
}

impl Saved {
    /// Reads the data of a context ConfigMap but for the variables.
    #[must_use]
    pub fn without_variables(data: &BTreeMap<String, String>) -> Self {
        let mut saved = Self::default();
        for (key, text) in data.iter().filter(|(key, _)| *key != VARS) {
            if let Some(id) = key.strip_suffix(FAILED_TIMES) {
                saved.memory.of(id).failures = text.trim().parse().unwrap_or(0);
            } else if let Some(id) = key.strip_suffix(NEXT_TIME) {
                saved.memory.of(id).next = text.trim().parse().ok();
            } else if let Some(id) = key.strip_suffix(PROGRESS_TIME) {
                saved.memory.of(id).progress = text.trim().parse().ok();
            } else {
                saved.notes.insert(key.clone(), text.clone());
            }
        }
        saved
    }

    /// Reads the data of a context ConfigMap.
    ///
    /// # Errors
    /// Variables that are no concrete CUE.
    pub fn read(
        data: &BTreeMap<String, String>,
        limits: &cue::Limits,
    ) -> Result<Self, VariablesError> {
        let mut saved = Self::without_variables(data);
        if let Some(text) = data.get(VARS) {
            saved.variables = read_variables(text, limits)?;
        }
        Ok(saved)
    }

    /// The data of the ConfigMap.
    #[must_use]
    pub fn data(&self) -> BTreeMap<String, String> {
        let mut data = self.notes.clone();
        for (id, counters) in self.memory.iter() {
            if counters.failures > 0 {
                data.insert(format!("{id}{FAILED_TIMES}"), counters.failures.to_string());
                // A postponed attempt is tried at once by a process that knows nothing of it.
                if let Some(time) = counters.next {
                    data.insert(format!("{id}{NEXT_TIME}"), time.to_string());
                }
            }
            if let Some(time) = counters.progress {
                data.insert(format!("{id}{PROGRESS_TIME}"), time.to_string());
            }
        }
        data.insert(VARS.to_owned(), print_variables(&self.variables));
        data
    }

    /// When suspended steps go on by themselves, by step id.
    #[must_use]
    pub fn resume_at(&self) -> BTreeMap<String, jiff::Timestamp> {
        let timers = self.notes.iter().filter_map(|(key, until)| {
            Some((key.strip_suffix(".resumeTimeStamp")?.to_owned(), until.parse().ok()?))
        });
        timers.collect()
    }

    /// Forgets what belongs to no step of this run: ids that nobody has any more, and the outputs
    /// of steps that are not finished (a restart from a step forgets those of the steps that run
    /// again, whether or not the client wrote the ConfigMap).
    pub fn prune(&mut self, workflow: &Workflow, status: &Status, known: &BTreeSet<String>) {
        let statuses = status.by_name();
        let finished =
            |step: &Step| statuses.get(step.name.as_str()).is_some_and(|s| s.is_finished());
        let outputs = |wanted: bool| -> BTreeSet<&str> {
            workflow
                .all()
                .filter(|step| finished(step) == wanted)
                .flat_map(|step| step.outputs.iter().map(|output| output.name.as_str()))
                .collect()
        };
        let (kept, again) = (outputs(true), outputs(false));
        self.variables.retain(|name, _| kept.contains(name.as_str()) || !again.contains(&**name));
        let ids: BTreeSet<&str> =
            status.all().map(|s| s.id.as_str()).chain(known.iter().map(String::as_str)).collect();
        self.notes.retain(|key, _| key.split_once('.').is_none_or(|(id, _)| ids.contains(id)));
        self.memory.retain(|id| ids.contains(id));
    }
}

fn read_variables(text: &str, limits: &cue::Limits) -> Result<Map<String, Value>, VariablesError> {
    if text.trim().is_empty() {
        return Ok(Map::new());
    }
    let program = cue::Program::compile(VARS, text, &cue::Packages::std())?;
    let mut evaluation = program.evaluate(&[], limits);
    let root = evaluation.root();
    match evaluation.export(root)?.to_json() {
        Value::Object(variables) => Ok(variables),
        _ => Err(VariablesError::NotAStruct),
    }
}

/// Variables as CUE text, formatted as `cue fmt` does. Every text that this gives can be read again.
#[must_use]
pub fn print_variables(variables: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text.push_str(&quote_label(name));
        text.push_str(": ");
        print(value, &mut text);
        text.push('\n');
    }
    formatted(text)
}

/// The identity of a step that has none yet: ten letters that follow from the run and the name, so
/// that a reconcile that is repeated after a crash gives the same one, and finds what it had noted.
#[must_use]
pub fn step_id(run: &str, name: &str) -> String {
    const LETTERS: &[u8; 35] = b"abcdefghijklmnopqrstuvwxyz123456789";
    // FNV-1a in 128 bits: ids must differ within a workflow, nothing more
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in run.bytes().chain([0]).chain(name.bytes()) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut rest = hash ^ (hash >> 67);
    (0..10)
        .map(|_| {
            let index = usize::try_from(rest % 35).unwrap_or_default();
            rest /= 35;
            LETTERS.get(index).copied().map_or('a', char::from)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Mode, Output, Phase, StepStatus};
    use serde_json::json;

    fn object(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn variables_are_printed_as_the_reference_prints_them() {
        let cases = [
            (json!({}), "\n"),
            (json!({"o": null}), "o: null\n"),
            (json!({"img": "nginx:1.20", "n": "app"}), "img: \"nginx:1.20\"\nn:   \"app\"\n"),
            (
                json!({"o": {"app.oam.dev/cluster": "", "oam.dev/render-hash": "1f"}}),
                "o: {\n\t\"app.oam.dev/cluster\": \"\"\n\t\"oam.dev/render-hash\": \"1f\"\n}\n",
            ),
        ];
        for (variables, text) in cases {
            assert_eq!(print_variables(&object(&variables)), text);
        }
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let mut saved = Saved {
            variables: object(&json!({
                "a-b": [1, 2.5, {"x": []}, true], "text": "line\n\"two\" \\(no) \u{1f600}\t", "if": {"let": {}},
                "_h": 1, "#d": {"": -3}, "null": null, "big": 12_345_678_901_234_567_u64,
            })),
            ..Saved::default()
        };
        saved.notes.insert("id.s.suspendTimeStamp".into(), "2026-01-01T00:00:00Z".into());
        saved.memory.of("id").failures = 3;
        saved.memory.of("id").progress = Some(jiff::Timestamp::UNIX_EPOCH);
        let read = Saved::read(&saved.data(), &cue::Limits::default()).unwrap();
        assert_eq!(read, saved);
        assert_eq!(read.data(), saved.data());
    }

    #[test]
    fn empty_and_broken_variables() {
        let read = |text: &str| {
            let data = BTreeMap::from([("vars".to_owned(), text.to_owned())]);
            Saved::read(&data, &cue::Limits::default())
        };
        assert_eq!(read(""), Ok(Saved::default()));
        assert_eq!(read("\n"), Ok(Saved::default()));
        assert!(read("a: string").is_err());
        assert!(read("a: {").is_err());
    }

    #[test]
    fn steps_that_run_again_lose_what_they_left() {
        let mut first = Step::new("first", "k");
        first.outputs = vec![Output { name: "one".into(), value_from: "x".into() }];
        let mut second = Step::new("second", "k");
        second.outputs = vec![Output { name: "two".into(), value_from: "x".into() }];
        let workflow = Workflow::new(Mode::StepByStep, vec![first, second]);
        let done = StepStatus {
            id: "id1".into(),
            name: "first".into(),
            kind: "k".into(),
            phase: Phase::Succeeded,
            reason: crate::Reason::None,
            message: String::new(),
            first_execute_time: None,
            last_execute_time: None,
            sub_steps: Vec::new(),
        };
        let status = Status { steps: vec![done], ..Status::default() };
        let mut saved =
            Saved { variables: object(&json!({"one": 1, "two": 2, "put": 3})), ..Saved::default() };
        for key in ["id1.x", "id2.x", "old.x", "logConfig"] {
            saved.notes.insert(key.to_owned(), String::new());
        }
        saved.prune(&workflow, &status, &BTreeSet::from(["id2".to_owned()]));
        assert_eq!(Value::Object(saved.variables), json!({"one": 1, "put": 3}));
        assert_eq!(saved.notes.keys().collect::<Vec<_>>(), ["id1.x", "id2.x", "logConfig"]);
    }

    #[test]
    fn ids_follow_from_run_and_name() {
        assert_eq!(step_id("run", "a"), step_id("run", "a"));
        let ids: BTreeSet<String> =
            (0..5000).map(|n| step_id("run", &format!("step-{n}"))).collect();
        assert_eq!(ids.len(), 5000);
        assert_ne!(step_id("run", "a"), step_id("ru", "na"));
        assert!(ids.iter().all(|id| id.len() == 10 && !id.contains('0')));
    }
}
