//! The functions that need nothing from outside: control of the step, variables, texts and times.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use vela_gocompat::duration::Duration as GoDuration;
use vela_gocompat::time::{self, GoTime};

use crate::messages;
use crate::status::Phase;

use super::StepHost;

/// Whether the engine answers a function itself.
pub(super) fn is_own(provider: &str, function: &str) -> bool {
    let control = matches!(function, "wait" | "break" | "fail" | "message" | "suspend" | "var");
    match provider {
        "builtin" => control,
        "util" => function == "string",
        "time" => matches!(function, "timestamp" | "date"),
        "op" => control || matches!(function, "string" | "timestamp" | "date"),
        _ => false,
    }
}

/// What the engine's own functions do.
pub(super) enum Own {
    Returns(Value),
    Nothing,
    Stop,
    Error(String),
}

impl StepHost<'_> {
    /// The functions that need nothing from outside.
    pub(super) fn own(
        &mut self,
        provider: &str,
        function: &str,
        label: &str,
        params: &Value,
    ) -> Option<Own> {
        let text = |key: &str| params.get(key).and_then(Value::as_str).unwrap_or_default();
        let own = match (provider, function) {
            ("builtin" | "op", "wait") => {
                if params.get("continue").and_then(Value::as_bool).unwrap_or(false) {
                    Own::Nothing
                } else {
                    self.state.wait(text("message"));
                    Own::Stop
                }
            }
            ("builtin" | "op", "break") => {
                self.state.broken = true;
                self.state.say(text("message"));
                Own::Stop
            }
            ("builtin" | "op", "fail") => {
                self.state.fail(text("message"));
                Own::Stop
            }
            ("builtin" | "op", "message") => {
                self.state.say(text("message"));
                Own::Nothing
            }
            ("builtin" | "op", "suspend") => self.suspend(label, text("duration")),
            ("builtin" | "op", "var") => self.variable(params),
            ("util" | "op", "string") => {
                // bytes travel as base64
                match BASE64.decode(text("bt")) {
                    Ok(bytes) => Own::Returns(json!({"str": String::from_utf8_lossy(&bytes)})),
                    Err(_) => Own::Error(messages::NOT_BASE64.to_owned()),
                }
            }
            ("time" | "op", "timestamp") => timestamp(text("date"), text("layout")),
            ("time" | "op", "date") => {
                date(params.get("timestamp").and_then(Value::as_i64), text("layout"))
            }
            _ => return None,
        };
        Some(own)
    }

    /// Halts until a person resumes, or until a time that is noted at the first reconcile.
    fn suspend(&mut self, label: &str, duration: &str) -> Own {
        let resumed_by_hand = self.step.previous == Some(Phase::Running);
        let noted = format!("{}.{label}.suspendTimeStamp", self.step.id);
        if resumed_by_hand && self.notes.contains_key(&noted) {
            return Own::Nothing;
        }
        let timer = format!("{}.resumeTimeStamp", self.step.id);
        if let Some(until) = self.notes.get(&timer) {
            if until.parse::<Timestamp>().is_ok_and(|until| self.step.now >= until) {
                return Own::Nothing;
            }
        } else if !duration.is_empty() {
            let Ok(length) = duration.parse::<GoDuration>() else {
                return Own::Error(messages::suspend_duration(duration));
            };
            let length = jiff::SignedDuration::from_nanos(length.as_nanos());
            let until = self.step.now.saturating_add(length).unwrap_or(Timestamp::MAX);
            self.notes.insert(timer, whole_seconds(until));
        }
        self.notes.entry(noted).or_insert_with(|| whole_seconds(self.step.now));
        self.state.suspend(&messages::suspended_by(label));
        Own::Stop
    }

    fn variable(&mut self, params: &Value) -> Own {
        let path = params.get("path").and_then(Value::as_str).unwrap_or_default();
        if params.get("method").and_then(Value::as_str) == Some("Put") {
            let value = params.get("value").cloned().unwrap_or(Value::Null);
            return match crate::data::set_input(&mut self.put, path, value) {
                Ok(()) => Own::Nothing,
                Err(error) => Own::Error(error.to_string()),
            };
        }
        let found = crate::data::at_path(&self.put, path)
            .or_else(|| crate::data::at_path(self.variables, path));
        match found {
            Some(value) => Own::Returns(json!({ "value": value })),
            None => Own::Error(messages::variable_not_found(path)),
        }
    }
}

fn timestamp(date: &str, layout: &str) -> Own {
    if date.is_empty() {
        return Own::Error(messages::EMPTY_DATE.to_owned());
    }
    let layout_text = if layout.is_empty() { RFC3339 } else { layout };
    match time::parse(layout_text, date) {
        Ok(time) => Own::Returns(json!({ "timestamp": time.unix().0 })),
        Err(error) => Own::Error(error.to_string()),
    }
}

fn date(seconds: Option<i64>, layout: &str) -> Own {
    let time = seconds.filter(|s| Timestamp::from_second(*s).is_ok());
    let Some(time) = time else { return Own::Error(messages::NOT_A_TIMESTAMP.to_owned()) };
    let wanted = if layout.is_empty() { RFC3339 } else { layout };
    Own::Returns(json!({ "date": time::format(&GoTime::from_unix(time, 0).utc(), wanted) }))
}

/// Go's layout of RFC 3339.
const RFC3339: &str = "2006-01-02T15:04:05Z07:00";

fn whole_seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}
