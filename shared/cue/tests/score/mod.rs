//! Whether an answer is right: what the corpus' scorer decides at level 2, either tree accepted.

use std::collections::HashSet;

use cue::Decimal;

use crate::conformance::json::Json;

/// Points of a record: whole if equal.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) points: usize,
    pub(crate) of: usize,
    pub(crate) notes: Vec<String>,
}

impl Score {
    pub(crate) fn is_whole(&self) -> bool {
        self.points == self.of
    }

    fn one(ok: bool, note: impl FnOnce() -> String) -> Self {
        let notes = if ok { Vec::new() } else { vec![note()] };
        Self { points: usize::from(ok), of: 1, notes }
    }
}

/// What a template engine need not have: such records count only if they are answered.
const OUT_OF_SCOPE: [&str; 9] = [
    "module",
    "registry",
    "env",
    "flag",
    "arg",
    "stdin",
    "pkg:tool/",
    "pkg:text/template",
    "pkg:text/tabwriter",
];

pub(crate) fn is_out_of_scope(record: &Json) -> bool {
    record.strings("needs").iter().any(|need| {
        OUT_OF_SCOPE.iter().any(|prefix| need.starts_with(prefix))
            || need.starts_with("pkg:crypto/ed25519")
    })
}

/// Judges one answer.
pub(crate) fn judge(record: &Json, answer: &Json) -> Score {
    let none = Json::Null;
    let expect = record.get("expect").unwrap_or(&none);
    let failed = answer.get("error").is_some();
    let shown = || short(answer);
    if answer.get("unsupported").is_some() {
        return Score::one(false, shown);
    }
    match expect.str("kind").unwrap_or_default() {
        "tree" => tree(expect, answer),
        "json" => {
            let want = expect.get("stream").or_else(|| expect.get("json"));
            let got = answer.get("stream").or_else(|| answer.get("json"));
            let ok = !failed && matches!((want, got), (Some(want), Some(got)) if same(want, got));
            Score::one(ok, || {
                format!("got {}, want {}", shown(), want.map(short).unwrap_or_default())
            })
        }
        "fields" => fields(expect, answer),
        "error" => {
            let class = expect.str("class").unwrap_or("any");
            let got = answer.str("class");
            let ok = failed && (class == "any" || got.is_none_or(|got| got == class));
            Score::one(ok, || format!("wanted {class}, got {}", shown()))
        }
        kind @ ("parse" | "scan" | "literal") => {
            let wants_ok = expect.get("ok").is_some_and(is_true);
            let mut ok = failed != wants_ok;
            if ok && wants_ok && kind == "literal" {
                for key in ["string", "bytes", "number"] {
                    if let (Some(want), Some(got)) = (expect.str(key), answer.str(key)) {
                        ok = if key == "number" { same_number(want, got) } else { want == got };
                    }
                }
            }
            Score::one(ok, shown)
        }
        "valid" => Score::one(!failed, shown),
        "text" | "cue" => {
            let want = expect.str("stdout").or_else(|| expect.str("cue")).unwrap_or_default();
            let ok = match (expect.get("json"), answer.get("json")) {
                (Some(want), Some(got)) => same(want, got),
                _ => answer.str("text").is_some_and(|got| got.trim() == want.trim()),
            };
            Score::one(ok, || {
                format!("got {}\nwant {want}", answer.str("text").unwrap_or(&shown()))
            })
        }
        "text-re" => {
            let text = answer.str("text").unwrap_or_default();
            let ok = !failed
                && expect.strings("stdout_re").iter().all(|pattern| {
                    regex::RegexBuilder::new(pattern)
                        .multi_line(true)
                        .build()
                        .is_ok_and(|regex| regex.is_match(text))
                });
            Score::one(ok, shown)
        }
        "objects" => {
            let empty = Json::Object(Vec::new());
            let part = |from: &Json, key: &str| match from.get(key) {
                None | Some(Json::Null) => empty.clone(),
                Some(value) => value.clone(),
            };
            let ok = !failed
                && same(
                    expect.get("output").unwrap_or(&none),
                    answer.get("output").unwrap_or(&none),
                )
                && same(&part(expect, "outputs"), &part(answer, "outputs"));
            Score::one(ok, shown)
        }
        kind @ ("equal" | "subsumes") => {
            Score::one(answer.get(kind).is_some_and(|got| Some(got) == expect.get(kind)), shown)
        }
        "same" => Score::one(answer.get("same").is_some_and(is_true), shown),
        other => Score::one(false, || format!("unknown kind {other:?}")),
    }
}

/// `true`, or a number other than 0 as the corpus writes flags.
fn is_true(value: &Json) -> bool {
    match value {
        Json::Bool(value) => *value,
        Json::Number(text) => text != "0",
        _ => false,
    }
}

fn short(value: &Json) -> String {
    let text = value.to_string();
    match text.char_indices().nth(400) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text,
    }
}

fn fields(expect: &Json, answer: &Json) -> Score {
    let none = Json::Null;
    let got = answer.get("fields").unwrap_or(&none);
    let mut score = Score::default();
    for (label, want) in expect.get("fields").map(Json::as_object).unwrap_or_default() {
        let answered = got.get(label).unwrap_or(&none);
        let ok = match want.get("json") {
            None => answered.get("error").is_some(),
            Some(want) => answered.get("json").is_some_and(|answered| same(want, answered)),
        };
        score.of += 1;
        score.points += usize::from(ok);
        if !ok {
            score.notes.push(format!("{label}: got {}, want {}", short(answered), short(want)));
        }
    }
    score
}

fn same_number(a: &str, b: &str) -> bool {
    if a == b {
        return true;
    }
    // JSON numbers, and the CUE forms `1.` and `.5`.
    let decimal = |text: &str| {
        let (sign, digits) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
        let digits = digits.strip_suffix('.').unwrap_or(digits).replace(".e", "e");
        let zero = if digits.starts_with('.') { "0" } else { "" };
        Decimal::parse(&format!("{sign}{zero}{digits}")).ok()
    };
    matches!((decimal(a), decimal(b)), (Some(a), Some(b)) if a.cmp(&b).is_eq())
}

/// Equal JSON, with numbers compared as decimals and members in any order.
pub(crate) fn same(a: &Json, b: &Json) -> bool {
    match (a, b) {
        (Json::Number(a), Json::Number(b)) => same_number(a, b),
        (Json::Array(a), Json::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b))
        }
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| {
                    b.iter().find(|(other, _)| other == key).is_some_and(|(_, b)| same(value, b))
                })
        }
        _ => a == b,
    }
}

fn tree(expect: &Json, answer: &Json) -> Score {
    let none = Json::Null;
    let Some(got) = answer.get("tree") else {
        return Score::one(false, || format!("no tree: {}", short(answer)));
    };
    let want = expect.get("tree").unwrap_or(&none);
    let mut first = TreeCompare::new(want, got);
    first.node(Some(want), Some(got), "");
    if first.good < first.total
        && let Some(other) = expect.get("tree_v2")
    {
        let mut second = TreeCompare::new(other, got);
        second.node(Some(other), Some(got), "");
        if second.good == second.total {
            let of = first.total.max(1);
            return Score { points: of, of, notes: Vec::new() };
        }
    }
    Score { points: first.good, of: first.total.max(1), notes: first.notes }
}

struct TreeCompare<'a> {
    want_root: &'a Json,
    got_root: &'a Json,
    good: usize,
    total: usize,
    notes: Vec<String>,
    seen: HashSet<(*const Json, *const Json)>,
}

impl<'a> TreeCompare<'a> {
    fn new(want_root: &'a Json, got_root: &'a Json) -> Self {
        let seen = HashSet::new();
        Self { want_root, got_root, good: 0, total: 0, notes: Vec::new(), seen }
    }

    fn say(&mut self, path: &str, why: &str) {
        if self.notes.len() < 20 {
            self.notes.push(format!("{}: {why}", if path.is_empty() { "." } else { path }));
        }
    }

    fn node(&mut self, want: Option<&'a Json>, got: Option<&'a Json>, path: &str) {
        let want = want.and_then(|want| follow(self.want_root, want));
        let got = got.and_then(|got| follow(self.got_root, got));
        let Some(want) = want.filter(|want| !want.get("u").is_some_and(is_true)) else {
            return;
        };
        let key = (std::ptr::from_ref(want), got.map_or(std::ptr::null(), std::ptr::from_ref));
        if !self.seen.insert(key) || path.len() > 4000 {
            return;
        }
        self.total += 1;
        let Some(got) = got else {
            self.say(path, "missing");
            self.count(want);
            return;
        };
        let mut ok = true;
        let kinds = |node: &'a Json| -> HashSet<&'a str> {
            node.str("t").unwrap_or("_").split('|').collect()
        };
        if kinds(want) != kinds(got) {
            ok = false;
            let text = |node: &Json| node.str("t").unwrap_or("_").to_owned();
            self.say(path, &format!("type {}, want {}", text(got), text(want)));
        } else if !self.value(want.get("v"), got.get("v")) {
            ok = false;
            let text = |node: &Json| node.get("v").map(short).unwrap_or_default();
            self.say(path, &format!("value {}, want {}", text(got), text(want)));
        }
        let closed = |node: &Json| node.get("c").is_some_and(is_true);
        if closed(want) != closed(got) {
            ok = false;
            self.say(path, &format!("closedness {}", closed(got)));
        }
        if want.str("e") != got.str("e") {
            ok = false;
            let (got, want) = (got.str("e"), want.str("e"));
            self.say(path, &format!("error code {got:?}, want {want:?}"));
        }
        let mut extra: Vec<&str> = arcs(got).map(|(label, ..)| label).collect();
        for (label, marker, node) in arcs(want) {
            let found = arcs(got).find(|(name, ..)| *name == label);
            extra.retain(|name| *name != label);
            let below = if path.is_empty() { label.to_owned() } else { format!("{path}.{label}") };
            if let Some((_, other, _)) = found
                && other != marker
            {
                ok = false;
                self.say(&below, &format!("marker {other:?}, want {marker:?}"));
            }
            self.node(Some(node), found.map(|(.., node)| node), &below);
        }
        if !extra.is_empty() {
            ok = false;
            self.say(path, &format!("extra {}", extra.join(" ")));
        }
        self.good += usize::from(ok);
    }

    fn count(&mut self, want: &'a Json) {
        for (_, _, node) in arcs(want) {
            if node.get("~").is_none() {
                self.total += 1;
                self.count(node);
            }
        }
    }

    fn value(&self, want: Option<&'a Json>, got: Option<&'a Json>) -> bool {
        let Some(want) = want else { return true };
        if matches!(tag(want), "expr" | "builtin") {
            return true;
        }
        let Some(got) = got else { return false };
        let second = |value: &'a Json| value.as_array().get(1);
        if tag(want) == "&" || tag(got) == "&" {
            let list = |value: &'a Json| match tag(value) {
                "&" => second(value).map(Json::as_array).unwrap_or_default(),
                _ => std::slice::from_ref(value),
            };
            return matches_all(list(want), list(got), |want, got| {
                self.value(Some(want), Some(got))
            });
        }
        if tag(want) != tag(got) {
            return false;
        }
        match tag(want) {
            "n" => matches!(
                (second(want).and_then(Json::as_str), second(got).and_then(Json::as_str)),
                (Some(want), Some(got)) if same_number(want, got)
            ),
            "|" => {
                let list = |value: &'a Json| second(value).map(Json::as_array).unwrap_or_default();
                matches_all(list(want), list(got), |want, got| {
                    let (want, got) = (want.as_array(), got.as_array());
                    let mark = |pair: &[Json]| pair.first().is_some_and(is_true);
                    mark(want) == mark(got) && self.same_node(want.get(1), got.get(1))
                })
            }
            "node" => self.same_node(second(want), second(got)),
            ">" | "<" | ">=" | "<=" | "!=" | "=~" | "!~" | "==" => {
                self.value(second(want), second(got))
            }
            "call" => {
                let arguments = |value: &'a Json| {
                    value.as_array().get(2).map(Json::as_array).unwrap_or_default()
                };
                let (a, b) = (arguments(want), arguments(got));
                second(want) == second(got)
                    && a.len() == b.len()
                    && a.iter().zip(b).all(|(a, b)| self.value(Some(a), Some(b)))
            }
            _ => want == got,
        }
    }

    fn same_node(&self, want: Option<&'a Json>, got: Option<&'a Json>) -> bool {
        let mut compare = TreeCompare::new(self.want_root, self.got_root);
        compare.node(want, got, "");
        compare.good == compare.total
    }
}

/// Whether each of `want` finds a partner of its own in `got`, none left over.
fn matches_all<'a>(
    want: &'a [Json],
    got: &'a [Json],
    same: impl Fn(&'a Json, &'a Json) -> bool,
) -> bool {
    let mut left: Vec<&Json> = got.iter().collect();
    want.len() == got.len()
        && want.iter().all(|want| match left.iter().position(|got| same(want, got)) {
            Some(at) => {
                left.remove(at);
                true
            }
            None => false,
        })
}

fn tag(value: &Json) -> &str {
    value.as_array().first().and_then(Json::as_str).unwrap_or_default()
}

fn arcs(node: &Json) -> impl Iterator<Item = (&str, &str, &Json)> {
    node.get("f").map(Json::as_array).unwrap_or_default().iter().filter_map(|arc| {
        let [label, marker, node] = arc.as_array() else { return None };
        let marker = marker.as_str()?;
        (marker != "*").then_some((label.as_str()?, marker, node))
    })
}

/// Follows `{"~": path}` links.
fn follow<'a>(root: &'a Json, node: &'a Json) -> Option<&'a Json> {
    let mut node = node;
    for _ in 0..=20 {
        match node.str("~") {
            None => return Some(node),
            Some(path) => node = lookup(root, path, 20)?,
        }
    }
    None
}

/// The node at a path such as `a."b-c".#D._h(:pkg).0`.
pub(crate) fn lookup<'a>(root: &'a Json, path: &str, links: usize) -> Option<&'a Json> {
    let mut node = root;
    for label in split(path) {
        let arc = arcs(node).find(|(name, ..)| *name == label).map(|(.., node)| node);
        let binding = || {
            let lets = node.get("let").map(Json::as_array).unwrap_or_default();
            lets.iter().rev().map(Json::as_array).find_map(|pair| match pair {
                [name, node] if name.as_str() == Some(&label) && node.get("expr").is_none() => {
                    Some(node)
                }
                _ => None,
            })
        };
        node = arc.or_else(binding)?;
        let mut left = links;
        while let Some(path) = node.str("~") {
            left = left.checked_sub(1)?;
            node = lookup(root, path, left)?;
        }
    }
    Some(node)
}

pub(crate) fn split(path: &str) -> Vec<String> {
    let mut labels = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        let end = if rest.starts_with('"') {
            let mut escaped = false;
            rest.char_indices()
                .skip(1)
                .find(|&(_, c)| {
                    let closes = c == '"' && !escaped;
                    escaped = c == '\\' && !escaped;
                    closes
                })
                .map_or(rest.len(), |(at, _)| at + 1)
        } else {
            let mut inside = false;
            rest.char_indices()
                .find(|&(_, c)| {
                    inside = (inside || c == '(') && c != ')';
                    !inside && (c == '.' || c.is_whitespace())
                })
                .map_or(rest.len(), |(at, _)| at)
        };
        let label = &rest[..end];
        labels.push(match label.strip_prefix('"').and_then(|label| label.strip_suffix('"')) {
            Some(bare) if is_plain(bare) => bare.to_owned(),
            _ => label.to_owned(),
        });
        rest = rest[end..].trim_start_matches(['.', ' ']);
    }
    labels
}

fn is_plain(label: &str) -> bool {
    label.starts_with(|c: char| c.is_ascii_alphabetic() || c == '$')
        && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '$'))
}
