//! External effects that must not be repeated: a step's notes before and after each.
//!
//! Before the effect an intent is noted (and stored by the caller), after it the outcome. A later
//! pass finds the outcome and continues with it. Where only the intent is found, nobody
//! knows whether the effect happened: that is reported, and nothing is done again.

use serde_json::{Value, json};

use crate::messages;
use crate::pass::{Outcome, Verdict};
use crate::status::Reason;
use crate::step::Notes;

/// What is known of an effect.
#[derive(Debug, Clone, PartialEq)]
pub enum Known {
    /// It was not started.
    Nothing,
    /// It was started at this time, and its result is unknown.
    Started(String),
    /// It happened, and gave this.
    Done(Value),
}

fn key(step_id: &str, path: &str) -> String {
    // keys of a ConfigMap are limited to these characters; what is left out is distinguished by a sum
    let plain: String = path
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' })
        .take(100)
        .collect();
    let sum =
        path.bytes().fold(0_u32, |sum, byte| sum.wrapping_mul(31).wrapping_add(u32::from(byte)));
    format!("{step_id}.{plain}.{sum:08x}.effect")
}

/// What is known of the effect at a path of a step.
#[must_use]
pub fn known(notes: &Notes, step_id: &str, path: &str) -> Known {
    let Some(text) = notes.get(&key(step_id, path)) else { return Known::Nothing };
    let note: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    match note.get("returned") {
        Some(returned) => Known::Done(returned.clone()),
        None => {
            let started = note.get("begun").and_then(Value::as_str).unwrap_or("an unknown time");
            Known::Started(started.to_owned())
        }
    }
}

/// Notes that the effect begins now.
pub fn begin(notes: &mut Notes, step_id: &str, path: &str, now: &str) {
    notes.insert(key(step_id, path), json!({ "begun": now }).to_string());
}

/// Notes what the effect gave.
pub fn end(notes: &mut Notes, step_id: &str, path: &str, returned: &Value) {
    notes.insert(key(step_id, path), json!({ "returned": returned }).to_string());
}

/// Notes that the effect surely did not happen.
pub fn withdraw(notes: &mut Notes, step_id: &str, path: &str) {
    notes.remove(&key(step_id, path));
}

fn outcome_key(step_id: &str) -> String {
    format!("{step_id}.outcome")
}

/// Once a step with effects is finished, its outcome stands for all of them: should the status not
/// be stored, the step is not run again.
pub fn finish(notes: &mut Notes, step_id: &str, outcome: &Outcome) {
    let prefix = format!("{step_id}.");
    let before = notes.len();
    notes.retain(|key, _| !(key.starts_with(&prefix) && key.ends_with(".effect")));
    if notes.len() == before {
        return;
    }
    let (verdict, reason) = match &outcome.verdict {
        Verdict::Succeeded => ("succeeded", Reason::None),
        Verdict::Break => ("break", Reason::None),
        Verdict::Fail(reason) => ("fail", *reason),
        Verdict::Wait | Verdict::Later(_) | Verdict::Away | Verdict::Suspend | Verdict::Error => {
            return;
        }
    };
    let note = json!({
        "verdict": verdict, "reason": reason.as_str(), "message": outcome.message,
        "variables": outcome.variables,
    });
    notes.insert(outcome_key(step_id), note.to_string());
}

/// What a step came to whose status was not stored.
#[must_use]
pub fn finished(notes: &Notes, step_id: &str) -> Option<Outcome> {
    let note: Value = serde_json::from_str(notes.get(&outcome_key(step_id))?).ok()?;
    let text = |key: &str| note.get(key).and_then(Value::as_str).unwrap_or_default();
    let verdict = match text("verdict") {
        "succeeded" => Verdict::Succeeded,
        "break" => Verdict::Break,
        "fail" => Verdict::Fail(Reason::parse(text("reason"))),
        _ => return None,
    };
    let variables = serde_json::from_value(note.get("variables")?.clone()).ok()?;
    Some(Outcome { verdict, message: text("message").to_owned(), variables })
}

/// What a step says of an effect nobody knows the end of.
#[must_use]
pub fn unknown(what: &str, started: &str) -> String {
    messages::effect_unknown(what, started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_effect_is_nothing_then_begun_then_done() {
        let mut notes = Notes::new();
        assert_eq!(known(&notes, "id", "a.b"), Known::Nothing);
        begin(&mut notes, "id", "a.b", "2026-01-01T00:00:00Z");
        assert_eq!(known(&notes, "id", "a.b"), Known::Started("2026-01-01T00:00:00Z".into()));
        assert_eq!(known(&notes, "id", "a.c"), Known::Nothing);
        withdraw(&mut notes, "id", "a.b");
        assert_eq!(known(&notes, "id", "a.b"), Known::Nothing);
        begin(&mut notes, "id", "a.b", "");
        end(&mut notes, "id", "a.b", &json!({"statusCode": 201}));
        assert_eq!(known(&notes, "id", "a.b"), Known::Done(json!({"statusCode": 201})));
    }

    #[test]
    fn paths_make_keys_that_a_config_map_takes() {
        let mut notes = Notes::new();
        for path in ["\"a b\".c", "a_b.c", &"x".repeat(500), "ü"] {
            begin(&mut notes, "id", path, "now");
        }
        assert_eq!(notes.len(), 4);
        let fits = |key: &String| {
            key.len() <= 253
                && key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'))
        };
        assert!(notes.keys().all(fits), "{notes:?}");
    }

    #[test]
    fn the_outcome_stands_for_the_effects_of_a_finished_step() {
        let mut notes = Notes::from([("id.s.suspendTimeStamp".to_owned(), String::new())]);
        let outcome = Outcome {
            verdict: Verdict::Fail(Reason::Action),
            message: "no".to_owned(),
            variables: vec![("o".to_owned(), json!([1]))],
        };
        finish(&mut notes, "id", &outcome);
        assert_eq!(finished(&notes, "id"), None, "a step without effects notes nothing");
        begin(&mut notes, "id", "a", "now");
        begin(&mut notes, "other", "a", "now");
        finish(&mut notes, "id", &outcome);
        assert_eq!(finished(&notes, "id"), Some(outcome));
        assert_eq!(known(&notes, "id", "a"), Known::Nothing);
        assert_eq!(known(&notes, "other", "a"), Known::Started("now".into()));
    }
}
