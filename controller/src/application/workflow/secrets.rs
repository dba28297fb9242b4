//! Values that the steps of a run read from Secrets. No message, log or dump shows them: neither of the step that read them,
//! nor of those that get them as an output. Which outputs hold such values is noted with the run, so that a
//! restart of the controller does not forget it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Map, Value};
use vela_workflow::Notes;

use crate::messages;

/// The note that names the outputs; without a dot it belongs to the run and not to a step.
const NOTE: &str = "secretVariables";
/// Texts below this length would take words out of every message.
const MIN_LENGTH: usize = 4;
/// Texts that are searched for in a message. With more of them nothing is said of what the message says.
const MAX_TEXTS: usize = 1000;

/// Texts that must not be shown.
#[derive(Debug, Default)]
pub(super) struct Secrets {
    texts: Vec<String>,
    /// Variables that hold some of them, from earlier steps.
    known: Vec<String>,
}

impl Secrets {
    /// What earlier steps hand on.
    pub(super) fn handed_on(notes: &Notes, variables: &Map<String, Value>) -> Self {
        let noted = notes.get(NOTE).and_then(|text| serde_json::from_str(text).ok());
        let mut known: Vec<String> = noted.unwrap_or_default();
        // A variable that is gone is no secret to watch for any more.
        known.retain(|name| variables.contains_key(name));
        let mut secrets = Self::default();
        for value in known.iter().filter_map(|name| variables.get(name)) {
            secrets.keep_value(value);
        }
        Self { known, ..secrets }
    }

    /// Notes which outputs hold something of it.
    pub(super) fn note(&mut self, outputs: &[(String, Value)], notes: &mut Notes) {
        let before = self.known.len();
        for (name, value) in outputs {
            if !self.known.contains(name) && self.is_in(value) {
                self.known.push(name.clone());
            }
        }
        if self.known.len() > before
            && let Ok(text) = serde_json::to_string(&self.known)
        {
            notes.insert(NOTE.to_owned(), text);
        }
    }

    /// A text that came from a Secret, as it is and as quoted texts show it.
    pub(super) fn keep(&mut self, text: &str) {
        let text = text.trim();
        // Short texts would redact ordinary words; beyond the bound the whole message goes instead.
        if text.len() < MIN_LENGTH || self.texts.len() > MAX_TEXTS {
            return;
        }
        let quoted = Value::from(text).to_string();
        let quoted = quoted.trim_matches('"').to_owned();
        // Errors name addresses without what is before the host.
        let address = text.split_once("://").map(|(_, rest)| rest.to_owned());
        let address = address.filter(|rest| rest.len() >= MIN_LENGTH);
        for text in [text.to_owned(), quoted].into_iter().chain(address) {
            if !self.texts.contains(&text) {
                self.texts.push(text);
            }
        }
        // The longest first: one may be part of another.
        self.texts.sort_by_key(|text| std::cmp::Reverse(text.len()));
    }

    /// What a Secret holds; nothing of another object.
    pub(super) fn keep_object(&mut self, object: &Value) {
        if object.get("kind").and_then(Value::as_str) != Some("Secret") {
            return;
        }
        for section in ["data", "stringData"] {
            for (_, value) in object.get(section).and_then(Value::as_object).into_iter().flatten() {
                self.keep_value(value);
            }
        }
    }

    /// All texts and numbers of a value, as they are and decoded; of a Secret what it holds.
    fn keep_value(&mut self, value: &Value) {
        match value {
            Value::String(text) => {
                self.keep(text);
                // A value of a Secret may itself be encoded.
                let decoded = BASE64.decode(text.trim()).ok();
                let Some(decoded) = decoded.and_then(|bytes| String::from_utf8(bytes).ok()) else {
                    return;
                };
                self.keep(&decoded);
                // The properties of a config are JSON.
                if let Ok(inner @ (Value::Object(_) | Value::Array(_))) =
                    serde_json::from_str(&decoded)
                {
                    self.keep_value(&inner);
                }
            }
            Value::Number(number) => self.keep(&number.to_string()),
            Value::Array(items) => items.iter().for_each(|item| self.keep_value(item)),
            Value::Object(_) if value.get("kind").and_then(Value::as_str) == Some("Secret") => {
                self.keep_object(value);
            }
            Value::Object(fields) => fields.values().for_each(|field| self.keep_value(field)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether a value holds one of the texts.
    fn is_in(&self, value: &Value) -> bool {
        if self.texts.is_empty() {
            return false;
        }
        // Searched in the text as JSON, where quotes are escaped as `keep` has them.
        let text = value.to_string();
        self.texts.iter().any(|secret| text.contains(secret.as_str()))
    }

    /// A text without them.
    pub(super) fn redacted(&self, text: &str) -> String {
        // Nothing is shown rather than something that was not searched.
        if self.texts.len() > MAX_TEXTS && !text.is_empty() {
            return messages::TOO_MANY_SECRETS.to_owned();
        }
        let replace = |text: String, secret: &String| text.replace(secret.as_str(), "***");
        self.texts.iter().fold(text.to_owned(), replace)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn secret(data: &Value) -> Value {
        json!({"kind": "Secret", "metadata": {"name": "creds"}, "data": data})
    }

    #[test]
    fn what_a_secret_holds_is_not_shown_in_any_form() {
        let mut secrets = Secrets::default();
        let config = BASE64.encode(r#"{"port": 12345678, "token": "t\"oken"}"#);
        secrets.keep_object(&secret(&json!({"p": BASE64.encode("pass://word1"), "c": config,
            "short": BASE64.encode("abc")})));
        secrets.keep_object(&json!({"kind": "ConfigMap", "data": {"open": "public"}}));
        for (text, shown) in [
            ("it is pass://word1.", "it is ***."),
            ("at word1", "at ***"),
            (r#"conflicting values "t\"oken" and int"#, r#"conflicting values "***" and int"#),
            ("conflicting values 12345678 and string", "conflicting values *** and string"),
            ("abc creds public", "abc creds public"),
        ] {
            assert_eq!(secrets.redacted(text), shown);
        }
        assert_eq!(secrets.redacted(&BASE64.encode("pass://word1")), "***");
    }

    #[test]
    fn outputs_hand_on_what_must_not_be_shown() {
        let mut secrets = Secrets::default();
        secrets.keep_object(&secret(&json!({"p": BASE64.encode("password")})));
        let outputs = [
            ("whole".to_owned(), json!({"a": ["the password"], "n": 1})),
            ("coded".to_owned(), json!(BASE64.encode("password"))),
            ("open".to_owned(), json!("something else")),
        ];
        let mut notes = Notes::new();
        secrets.note(&outputs, &mut notes);
        assert_eq!(notes.get(NOTE).map(String::as_str), Some(r#"["whole","coded"]"#));
        let variables = Map::from_iter(outputs);
        let mut later = Secrets::handed_on(&notes, &variables);
        assert_eq!(
            later.redacted("the password, password, something else"),
            "***, ***, something else"
        );
        // What a later step makes of it is handed on as well, and nothing is noted twice.
        later.note(&[("more".to_owned(), json!("x password"))], &mut notes);
        assert_eq!(notes.get(NOTE).map(String::as_str), Some(r#"["whole","coded","more"]"#));
        let none = Secrets::handed_on(&notes, &Map::new());
        assert_eq!(none.redacted("password"), "password");
    }

    #[test]
    fn more_than_can_be_looked_for_is_not_shown_at_all() {
        let mut secrets = Secrets::default();
        let data: Map<String, Value> =
            (0..2 * MAX_TEXTS).map(|n| (n.to_string(), json!(format!("text-{n}")))).collect();
        secrets.keep_object(&secret(&Value::Object(data)));
        assert!(secrets.texts.len() <= MAX_TEXTS + 3);
        assert_eq!(secrets.redacted("text-1999"), messages::TOO_MANY_SECRETS);
        assert_eq!(secrets.redacted(""), "");
    }
}
