//! What two gateways made of a request, part by part, and which differences between them are known.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use vela_tests::audit::Entry;
use vela_tests::echo::Heard;

use super::request::Answer;

/// Fields of an answer that a client may go by.
const FIELDS: [&str; 25] = [
    "alt-svc",
    "audit-id",
    "cache-control",
    "clear-site-data",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "etag",
    "keep-alive",
    "link",
    "location",
    "retry-after",
    "sec-websocket-accept",
    "sec-websocket-protocol",
    "set-cookie",
    "strict-transport-security",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
    "warning",
    "www-authenticate",
    "x-own",
    "x-stream-protocol-version",
];

/// What is of one object or moment.
const VOLATILE: [&str; 6] =
    ["uid", "resourceVersion", "creationTimestamp", "managedFields", "time", "continue"];

/// What is shown of a value that differs.
const MAX_SHOWN: usize = 400;

/// Parts of what became of a request, by name.
pub(super) type Parts = BTreeMap<String, String>;

/// The parts of an answer. `names`: what has another name on this side, and how it is called here.
pub(super) fn of_answer(answer: &Answer, names: &[(String, &str)]) -> Parts {
    let mut parts = Parts::from([
        ("status".to_owned(), answer.status.to_owned()),
        ("interim".to_owned(), answer.interim.join(" ")),
        ("trailers".to_owned(), answer.body.trailers.clone()),
        ("cut".to_owned(), answer.body.is_cut.to_string()),
    ]);
    for name in FIELDS {
        let values: Vec<&str> = answer
            .header
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(field, _)| field.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.trim())
            .collect();
        let value = match name {
            // What it is, is chance, and everybody on the way may add one.
            "audit-id" => (!values.is_empty()).to_string(),
            // Everybody on the way says the same.
            "cache-control" => {
                let all: BTreeSet<&str> =
                    values.iter().flat_map(|value| value.split(',')).map(str::trim).collect();
                all.into_iter().collect::<Vec<_>>().join(", ")
            }
            // A length is that of the body, which is compared; of JSON it varies with what is left out of the comparison.
            "content-length" | "transfer-encoding" if !values.is_empty() => continue,
            _ => values.join(", "),
        };
        parts.insert(format!("header {name}"), value);
    }
    let text = masked(&answer.body.bytes, names);
    let json: Option<Value> = serde_json::from_str(&text).ok();
    match json {
        Some(status) if status["kind"] == "Status" => {
            for part in ["status", "message", "reason", "details", "code"] {
                let empty = status[part].as_object().is_some_and(serde_json::Map::is_empty);
                let value = if empty { &Value::Null } else { &status[part] };
                parts.insert(format!("Status {part}"), value.to_string());
            }
        }
        Some(mut object) => {
            forget(&mut object);
            parts.insert("body".to_owned(), object.to_string());
        }
        None => {
            // Events of a watch.
            let lines: Option<Vec<Value>> =
                text.lines().map(|line| serde_json::from_str(line).ok()).collect();
            let body = lines.filter(|lines| !lines.is_empty()).map(|mut lines| {
                lines.iter_mut().for_each(forget);
                lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
            });
            parts.insert("body".to_owned(), body.unwrap_or(text));
        }
    }
    parts
}

/// The parts of what a member without an API saw.
pub(super) fn of_heard(heard: &[Heard], names: &[(String, &str)]) -> Parts {
    let mut parts = Parts::from([("member requests".to_owned(), heard.len().to_string())]);
    let Some(heard) = heard.first() else { return parts };
    let mut lines = heard.header.lines();
    parts.insert("member line".to_owned(), lines.next().unwrap_or_default().to_owned());
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let name = format!("member {}", name.to_ascii_lowercase());
        let value = match name.as_str() {
            // What they are, is chance.
            "member audit-id" => "*".to_owned(),
            credential if credential.ends_with("credential-id") => "*".to_owned(),
            _ => masked(value.trim().as_bytes(), names),
        };
        parts.entry(name).and_modify(|all| *all = format!("{all}, {value}")).or_insert(value);
    }
    // Which chunks there are is the affair of those in between.
    parts.insert("member body".to_owned(), masked(&heard.body.bytes, names));
    parts.insert("member trailers".to_owned(), heard.body.trailers.clone());
    parts.insert("member cut".to_owned(), heard.body.is_cut.to_string());
    parts
}

/// The parts of what a real member wrote down.
pub(super) fn of_audit(entries: &[&Entry], names: &[(String, &str)]) -> Parts {
    let line = |entry: &&Entry| {
        let Entry { verb, resource, namespace, name, code, dry_run, .. } = entry;
        masked(format!("{verb} {resource} {namespace}/{name} {code} {dry_run}").as_bytes(), names)
    };
    let who = |entry: &&Entry| format!("{} in {}", entry.acting_as, entry.acting_in);
    Parts::from([
        ("audit request".to_owned(), entries.iter().map(line).collect::<Vec<_>>().join("; ")),
        ("audit user".to_owned(), entries.iter().map(who).collect::<Vec<_>>().join("; ")),
    ])
}

/// A text in which both sides have the same names.
fn masked(bytes: &[u8], names: &[(String, &str)]) -> String {
    // Of an object in protobuf no more than that it is one.
    let bytes = if bytes.starts_with(b"k8s\0") { b"k8s" } else { bytes };
    let text = untimed(&String::from_utf8_lossy(bytes));
    names.iter().fold(text, |text, (name, mask)| text.replace(name.as_str(), mask))
}

/// A text without its times, which are of the form `2026-01-31T12:00:00Z`.
fn untimed(text: &str) -> String {
    const FORM: &str = "dddd-dd-ddTdd:dd:ddZ";
    let mut out = text.to_owned();
    for at in 0..text.len() {
        let is_time = text.as_bytes().get(at..at + FORM.len()).is_some_and(|part| {
            part.iter().zip(FORM.bytes()).all(|(byte, form)| match form {
                b'd' => byte.is_ascii_digit(),
                form => *byte == form,
            })
        });
        if is_time {
            out.replace_range(at..at + FORM.len(), FORM);
        }
    }
    out
}

fn forget(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if VOLATILE.contains(&name.as_str()) {
                    *value = Value::String("*".to_owned());
                } else {
                    forget(value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(forget),
        _ => {}
    }
}

/// A part of what became of a request that is not the same on both sides.
#[derive(Debug)]
pub(super) struct Difference {
    case: String,
    via: &'static str,
    part: String,
    ours: String,
    original: String,
}

/// The parts that are not the same.
pub(super) fn differences(
    (case, via): (&str, &'static str),
    ours: &Parts,
    original: &Parts,
) -> Vec<Difference> {
    let names: BTreeSet<&String> = ours.keys().chain(original.keys()).collect();
    let of = |parts: &Parts, name: &String| parts.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .map(|name| (name, of(ours, name), of(original, name)))
        .filter(|(_, ours, original)| ours != original)
        .map(|(name, ours, original)| Difference {
            case: case.to_owned(),
            via,
            part: name.clone(),
            ours,
            original,
        })
        .collect()
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shown = |text: &str| text.chars().take(MAX_SHOWN).collect::<String>();
        let Self { case, via, part, ours, original } = self;
        write!(
            f,
            "{case} | {via} | {part}\n    ours:     {}\n    original: {}",
            shown(ours),
            shown(original)
        )
    }
}

/// Differences that are known: `CASE | VIA | PART | NOTE`. The first three may end with `*`.
#[derive(Debug)]
pub(super) struct Known<'t> {
    line: &'t str,
    case: &'t str,
    via: &'t str,
    part: &'t str,
}

impl<'t> Known<'t> {
    /// The lines of a list.
    pub(super) fn all(text: &'t str, notes: &str) -> Vec<Self> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split('|').map(str::trim).collect();
                let [case, via, part, note] = fields[..] else { panic!("no difference: {line}") };
                assert!(notes.contains(&format!("<a id=\"{note}\">")), "no such note: {line}");
                Known { line, case, via, part }
            })
            .collect()
    }

    fn covers(&self, difference: &Difference) -> bool {
        fits(self.case, &difference.case)
            && fits(self.via, difference.via)
            && fits(self.part, &difference.part)
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => text.starts_with(beginning),
        None => text == pattern,
    }
}

/// What is wrong: differences that are not known, and known ones that are none any more.
pub(super) fn judge(found: &[Difference], known: &[Known<'_>]) -> Vec<String> {
    let unknown = found.iter().filter(|one| !known.iter().any(|known| known.covers(one)));
    let gone = known.iter().filter(|known| !found.iter().any(|one| known.covers(one)));
    unknown
        .map(|one| format!("not known: {one}"))
        .chain(gone.map(|known| format!("no difference any more: {}", known.line)))
        .collect()
}

#[test]
fn what_is_not_known_and_what_is_known_without_being_there_is_wrong() {
    let parts = |value: &str| Parts::from([("status".to_owned(), value.to_owned())]);
    let found = differences(("a-1", "hub"), &parts("200"), &parts("500"));
    assert_eq!(found.len(), 1);
    let notes = "<a id=\"gateway-1\">";
    for (list, wrong) in [
        ("", 1),
        ("a-1 | hub | status | gateway-1", 0),
        ("# all\na-* | * | status | gateway-1", 0),
        ("a-1 | direct | status | gateway-1", 2),
        ("a | hub | status | gateway-1", 2),
    ] {
        let wrongs = judge(&found, &Known::all(list, notes));
        assert_eq!(wrongs.len(), wrong, "{list}: {wrongs:?}");
    }
}
