//! A question to Prometheus, judged: whether the condition holds, and for how long it must.

use jiff::Timestamp;
use serde_json::{Value, json};
use vela_gocompat::duration::Duration as GoDuration;

use crate::messages;
use crate::step::Notes;

/// What a check asks for.
#[derive(Debug, Clone, Copy)]
pub struct Check<'a> {
    /// Text that makes a condition when it stands behind the value: `>=0.95`.
    pub condition: &'a str,
    /// How long the condition must hold.
    pub duration: &'a str,
    /// How long it may fail.
    pub fail_duration: &'a str,
}

/// A check that gives no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// Prometheus said no.
    #[error("{}", messages::prometheus_refused(.text))]
    Refused {
        /// What it said, cut and printable.
        text: String,
    },
    /// None or several results.
    #[error("{}", messages::not_one_result(*.count))]
    NotOneResult {
        /// How many.
        count: usize,
    },
    /// Something else than numbers.
    #[error("{}", messages::NOT_A_QUERY_VALUE)]
    NotNumbers,
    /// A condition that does not evaluate.
    #[error("{}", messages::metric_condition(.condition, .errors.to_string().trim_end()))]
    Condition {
        /// The condition as the step has it, such as `>=0.99`.
        condition: String,
        /// What CUE says.
        errors: cue::Errors,
    },
    /// A condition that is neither true nor false.
    #[error("{}", messages::metric_condition(.condition, "not a truth value"))]
    NotBool {
        /// The condition as the step has it.
        condition: String,
    },
    /// A length of time that is no duration.
    #[error("{}", messages::suspend_duration(.text))]
    Duration {
        /// As it is written.
        text: String,
    },
}

/// The one value in an answer of Prometheus' query API.
///
/// # Errors
/// An error of Prometheus, or a result that is not one number.
pub fn value(answer: &Value) -> Result<String, MetricError> {
    if answer.get("status").and_then(Value::as_str) != Some("success") {
        let text = answer.get("error").and_then(Value::as_str).unwrap_or("no error given");
        return Err(MetricError::Refused { text: shown(text) });
    }
    let result = answer.pointer("/data/result");
    let sample = match answer.pointer("/data/resultType").and_then(Value::as_str) {
        Some("scalar") => result,
        Some("vector") => {
            let items = result.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            match items {
                [one] => one.get("value"),
                _ => return Err(MetricError::NotOneResult { count: items.len() }),
            }
        }
        _ => return Err(MetricError::NotNumbers),
    };
    let text = sample.and_then(|sample| sample.get(1)).and_then(Value::as_str);
    text.map(shown).ok_or(MetricError::NotNumbers)
}

/// The beginning of what a server said, printable: who asks may not reach it himself, and its answer goes into a message.
fn shown(text: &str) -> String {
    const MAX_SHOWN: usize = 120;
    let plain = text.chars().map(|c| if c.is_ascii_graphic() || c == ' ' { c } else { '?' });
    plain.take(MAX_SHOWN).collect()
}

/// Judges a value; since when it holds or fails is noted for the step.
///
/// # Errors
/// A condition or a duration that cannot be read.
pub fn judge(
    check: Check<'_>,
    value: &str,
    step_id: &str,
    notes: &mut Notes,
    now: Timestamp,
    limits: &cue::Limits,
) -> Result<Value, MetricError> {
    let holds = holds(value, check.condition, limits)?;
    let (own, other) = if holds {
        ("metrics.success.time", "metrics.fail.time")
    } else {
        ("metrics.fail.time", "metrics.success.time")
    };
    let (own, other) = (format!("{step_id}.{own}"), format!("{step_id}.{other}"));
    let limit_text = if holds { check.duration } else { check.fail_duration };
    let limit: GoDuration =
        limit_text.parse().map_err(|_| MetricError::Duration { text: limit_text.to_owned() })?;
    notes.insert(other, "0".to_owned());
    let since: i64 = notes.get(&own).and_then(|text| text.parse().ok()).unwrap_or(0);
    if since == 0 {
        notes.insert(own, now.as_second().to_string());
        let message = if holds {
            messages::metric_holds(check.condition, value)
        } else {
            messages::metric_fails_first(check.condition, value, limit_text)
        };
        return Ok(json!({"result": false, "failed": false, "message": message}));
    }
    let elapsed = now.as_second().saturating_sub(since);
    let over = i128::from(elapsed) * 1_000_000_000 >= i128::from(limit.as_nanos());
    let elapsed = GoDuration::from_secs(elapsed).to_string();
    Ok(match (holds, over) {
        (true, true) => {
            json!({"result": true, "failed": false, "message": messages::METRIC_PASSED})
        }
        (true, false) => json!({"result": false, "failed": false,
            "message": messages::metric_persists(check.condition, value, &elapsed, limit_text)}),
        (false, over) => json!({"result": false, "failed": over,
            "message": messages::metric_fails(check.condition, value, &elapsed, limit_text, over)}),
    })
}

fn holds(value: &str, condition: &str, limits: &cue::Limits) -> Result<bool, MetricError> {
    // `NaN` and `+Inf` are no CUE: no condition holds for them
    if value.parse::<f64>().map_or(true, |number| !number.is_finite()) {
        return Ok(false);
    }
    let text = format!("result: {value} {condition}\n");
    let failed = |errors| MetricError::Condition { condition: condition.to_owned(), errors };
    let program =
        cue::Program::compile("condition", &text, &cue::Packages::std()).map_err(failed)?;
    let mut evaluation = program.evaluate(&[], limits);
    let root = evaluation.root();
    let node = evaluation.field(root, "result");
    match node.map(|node| evaluation.export(node)) {
        Some(Ok(cue::Value::Bool(answer))) => Ok(answer),
        Some(Err(errors)) => Err(failed(errors)),
        _ => Err(MetricError::NotBool { condition: condition.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn one_number_is_wanted() {
        let vector = |n: usize| {
            let item = json!({"metric": {}, "value": [1.0, "0.97"]});
            json!({"status": "success", "data": {"resultType": "vector", "result": vec![item; n]}})
        };
        assert_eq!(value(&vector(1)), Ok("0.97".to_owned()));
        assert_eq!(value(&vector(0)), Err(MetricError::NotOneResult { count: 0 }));
        assert_eq!(value(&vector(2)), Err(MetricError::NotOneResult { count: 2 }));
        let scalar =
            json!({"status": "success", "data": {"resultType": "scalar", "result": [1, "3"]}});
        assert_eq!(value(&scalar), Ok("3".to_owned()));
        let matrix = json!({"status": "success", "data": {"resultType": "matrix", "result": []}});
        assert!(value(&matrix).is_err());
        let refused = MetricError::Refused { text: "bad query".to_owned() };
        assert_eq!(value(&json!({"status": "error", "error": "bad query"})), Err(refused));
        assert!(value(&json!("x")).is_err());
    }

    #[test]
    fn success_and_failure_must_last() {
        let check = Check { condition: ">=0.95", duration: "1m", fail_duration: "30s" };
        let mut notes = Notes::new();
        let mut observe = |value: &str, seconds: i64| {
            let limits = cue::Limits::default();
            let out = judge(check, value, "id", &mut notes, at(seconds), &limits).unwrap();
            (
                out["result"].as_bool().unwrap(),
                out["failed"].as_bool().unwrap(),
                out["message"].as_str().unwrap().to_owned(),
            )
        };
        assert_eq!(observe("0.97", 0).2, "the metric is 0.97, as required by >=0.95");
        assert_eq!(
            observe("0.97", 20).2,
            "the metric is 0.97, as required by >=0.95: for 20s of 1m"
        );
        // a failure between starts both over
        assert!(observe("0.1", 30).2.ends_with("the step fails if that lasts 30s"));
        assert!(!observe("0.1", 50).1);
        assert!(observe("0.97", 55).2.ends_with("as required by >=0.95"));
        assert!(observe("0.97", 115).0);
        assert!(observe("NaN", 120).2.contains("is NaN, but >=0.95 is required"));
        let last = observe("0.1", 151);
        assert!(last.1 && last.2.ends_with("for 31s of 30s, the step fails"));
    }

    #[test]
    fn conditions_that_are_none() {
        let limits = cue::Limits::default();
        for condition in ["", "+ 1", "< \"a\"", "}"] {
            let check = Check { condition, duration: "1m", fail_duration: "1m" };
            assert!(
                judge(check, "1", "id", &mut Notes::new(), at(0), &limits).is_err(),
                "{condition}"
            );
        }
        let check = Check { condition: ">0", duration: "soon", fail_duration: "1m" };
        assert!(judge(check, "1", "id", &mut Notes::new(), at(0), &limits).is_err());
    }
}
