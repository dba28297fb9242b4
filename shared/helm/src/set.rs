//! `--set` and its kind: assignments of values by path, as Helm's command line reads them:
//! `a.b=1,list[0]=x,c={1,2}`.
//!
//! Our own: no crate reads this language.

use serde_json::Value;
use vela_gocompat::strconv;

use crate::values::Table;

/// Lists are filled up to an index, so indexes are bounded, as Helm bounds them.
const HIGHEST_INDEX: usize = 65_536;
/// Levels of a path, as Helm bounds them.
const DEEPEST: usize = 30;

/// How the text after the equals sign is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Typing {
    /// `--set`: null, booleans and integers are what they look like.
    Guessed,
    /// `--set-string`: everything is text.
    Text,
}

/// An assignment that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// A key without a value.
    #[error("key {0:?} has no value")]
    NoValue(String),
    /// A list that does not end.
    #[error("list must terminate with '}}'")]
    OpenList,
    /// An index that is no number, or a negative one.
    #[error("error parsing index: {0:?}")]
    Index(String),
    /// An index over the bound.
    #[error("index of {0} is greater than maximum supported index of {HIGHEST_INDEX}")]
    HighIndex(usize),
    /// A path with too many parts.
    #[error("value name nested level is greater than maximum supported nested level of {DEEPEST}")]
    Depth,
    /// A path into something that is no map or list.
    #[error("interface conversion: {0:?} is not a map or list")]
    Kind(String),
    /// Text after `--set-json` that is not JSON.
    #[error("failed parsing JSON of {key:?}: {error}")]
    Json {
        /// The path before `=`.
        key: String,
        /// What is wrong with it.
        error: String,
    },
}

/// Applies the assignments of a text to values.
///
/// # Errors
/// A text of another form.
pub fn assign(values: &mut Table, text: &str, typing: Typing) -> Result<(), SetError> {
    let mut rest = Reader { chars: text.chars().collect(), at: 0 };
    while rest.peek().is_some() {
        let path = rest.path()?;
        let value = rest.value(typing, &path)?;
        put(values, &path, value)?;
    }
    Ok(())
}

/// Applies `key=JSON`, or a whole JSON object.
///
/// # Errors
/// A text of another form.
pub fn assign_json(values: &mut Table, text: &str) -> Result<(), SetError> {
    let json = |key: &str, text: &str| {
        serde_json::from_str::<Value>(text)
            .map_err(|error| SetError::Json { key: key.to_owned(), error: error.to_string() })
    };
    if text.trim_start().starts_with('{') {
        if let Value::Object(map) = json("", text)? {
            *values = crate::values::overlay(std::mem::take(values), map);
        }
        return Ok(());
    }
    let Some((key, text)) = text.split_once('=') else {
        return Err(SetError::NoValue(text.to_owned()));
    };
    let mut reader = Reader { chars: format!("{key}=").chars().collect(), at: 0 };
    let path = reader.path()?;
    put(values, &path, json(key, text)?)
}

/// A file's text at a path: `--set-file`.
///
/// # Errors
/// A path of another form.
pub fn assign_text(values: &mut Table, path: &str, text: String) -> Result<(), SetError> {
    let mut reader = Reader { chars: format!("{path}=").chars().collect(), at: 0 };
    let path = reader.path()?;
    put(values, &path, Value::String(text))
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Key(String),
    Index(usize),
}

struct Reader {
    chars: Vec<char>,
    at: usize,
}

impl Reader {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += 1;
        Some(char)
    }

    /// Text up to one of the stops, without the backslashes that hide them.
    fn until(&mut self, stops: &[char]) -> (String, Option<char>) {
        let mut text = String::new();
        while let Some(char) = self.next() {
            match char {
                '\\' => text.extend(self.next()),
                char if stops.contains(&char) => return (text, Some(char)),
                char => text.push(char),
            }
        }
        (text, None)
    }

    /// The path before an equals sign.
    fn path(&mut self) -> Result<Vec<Step>, SetError> {
        let mut path = Vec::new();
        loop {
            let (key, stop) = self.until(&['.', '[', ',', '=']);
            // After an index there is nothing before the next dot.
            if !key.is_empty() || !matches!(path.last(), Some(Step::Index(_))) {
                path.push(Step::Key(key.clone()));
            }
            if path.len() > DEEPEST {
                return Err(SetError::Depth);
            }
            match stop {
                Some('=') => return Ok(path),
                Some('.') => {}
                Some('[') => {
                    let (text, _) = self.until(&[']']);
                    let index: usize = text.parse().map_err(|_| SetError::Index(text.clone()))?;
                    if index > HIGHEST_INDEX {
                        return Err(SetError::HighIndex(index));
                    }
                    path.push(Step::Index(index));
                }
                _ => return Err(SetError::NoValue(key)),
            }
        }
    }

    fn value(&mut self, typing: Typing, path: &[Step]) -> Result<Value, SetError> {
        let in_list = matches!(path.last(), Some(Step::Index(_)));
        if self.peek() == Some('{') && !in_list {
            self.at += 1;
            let mut list = Vec::new();
            loop {
                let (text, stop) = self.until(&[',', '}']);
                let last = stop == Some('}');
                if !(last && text.is_empty() && list.is_empty()) {
                    list.push(typed(text, typing));
                }
                match stop {
                    Some('}') => break,
                    Some(_) => {}
                    None => return Err(SetError::OpenList),
                }
            }
            if self.peek() == Some(',') {
                self.at += 1;
            }
            return Ok(Value::Array(list));
        }
        let (text, _) = self.until(&[',']);
        Ok(typed(text, typing))
    }
}

fn typed(text: String, typing: Typing) -> Value {
    if typing == Typing::Text {
        return Value::String(text);
    }
    match text.to_lowercase().as_str() {
        "true" => return Value::Bool(true),
        "false" => return Value::Bool(false),
        "null" => return Value::Null,
        "0" => return Value::from(0),
        _ => {}
    }
    // A number with a leading zero is a text: it may be a code.
    if !text.starts_with('0')
        && let Ok(int) = strconv::parse_int(&text, 10, 64)
    {
        return Value::from(int);
    }
    Value::String(text)
}

fn put(values: &mut Table, path: &[Step], value: Value) -> Result<(), SetError> {
    let Some((Step::Key(key), rest)) = path.split_first() else { return Ok(()) };
    place(values.entry(key.clone()).or_insert(Value::Null), rest, value)
}

fn place(slot: &mut Value, path: &[Step], value: Value) -> Result<(), SetError> {
    match path.split_first() {
        None => {
            *slot = value;
            Ok(())
        }
        Some((Step::Key(key), rest)) => {
            if slot.is_null() {
                *slot = Value::Object(Table::new());
            }
            match slot {
                Value::Object(map) => {
                    place(map.entry(key.clone()).or_insert(Value::Null), rest, value)
                }
                other => Err(SetError::Kind(other.to_string())),
            }
        }
        Some((Step::Index(index), rest)) => {
            if slot.is_null() {
                *slot = Value::Array(Vec::new());
            }
            match slot {
                Value::Array(list) => {
                    if list.len() <= *index {
                        list.resize(index + 1, Value::Null);
                    }
                    match list.get_mut(*index) {
                        Some(slot) => place(slot, rest, value),
                        None => Ok(()),
                    }
                }
                other => Err(SetError::Kind(other.to_string())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn assignments_make_maps_lists_and_scalars() {
        for (text, want) in [
            ("a=1,b.c=x", json!({"a": 1, "b": {"c": "x"}})),
            ("a=true,b=null,c=01,d=1.5", json!({"a": true, "b": null, "c": "01", "d": "1.5"})),
            ("l={a,1}", json!({"l": ["a", 1]})),
            ("l={}", json!({"l": []})),
            ("l[1]=x,l[0].k=y", json!({"l": [{"k": "y"}, "x"]})),
            (r"a\.b=1\,2", json!({"a.b": "1,2"})),
            ("a=", json!({"a": ""})),
        ] {
            let mut values = Table::new();
            assign(&mut values, text, Typing::Guessed).unwrap();
            assert_eq!(Value::Object(values), want, "{text}");
        }
        let mut values = Table::new();
        assign(&mut values, "a=1", Typing::Text).unwrap();
        assign_json(&mut values, r#"b={"c":[1]}"#).unwrap();
        assert_eq!(Value::Object(values), json!({"a": "1", "b": {"c": [1]}}));
    }

    #[test]
    fn what_is_no_assignment_is_refused() {
        for text in ["a", "a.b", "l={a", "l[x]=1", "l[70000]=1", "a=1,a.b=2"] {
            assert!(assign(&mut Table::new(), text, Typing::Guessed).is_err(), "{text}");
        }
        let deep = format!("{}=1", vec!["a"; 40].join("."));
        assert_eq!(assign(&mut Table::new(), &deep, Typing::Guessed), Err(SetError::Depth));
    }
}
