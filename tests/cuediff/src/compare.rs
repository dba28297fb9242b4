//! Whether our answer to a program is that of Go's evaluators, at the levels of the corpus.

use std::panic::{AssertUnwindSafe, catch_unwind};

use engine_diff::{Difference, Oracle, PANIC};

use crate::conformance::{self, json::Json};
use crate::notes;
use crate::oracle::{Reply, ask};
use crate::program::Program;
use crate::score;
use crate::syntax::Order;

/// Where two answers differ; the first that applies.
mod level {
    /// A budget of ours was crossed.
    pub(super) const LIMIT: &str = "limit";
    /// One accepts the text, the other does not.
    pub(super) const REJECTED: &str = "rejected";
    /// Kinds and values.
    pub(super) const VALUE: &str = "value";
    /// Which fields there are.
    pub(super) const PRESENCE: &str = "presence";
    /// Whether a struct or list is closed.
    pub(super) const CLOSEDNESS: &str = "closedness";
    /// The class of an error.
    pub(super) const CLASS: &str = "class";
    /// What is exported.
    pub(super) const EXPORT: &str = "export";
}

/// Whether we have a final error where the reference has a value or goes on waiting for one.
fn is_graver(difference: &Difference) -> bool {
    let what = &difference.what;
    what.starts_with("type _|_, want")
        || what.ends_with(", want a value")
        || *what == format!("error code {:?}, want {:?}", Some("eval"), Some("incomplete"))
}

/// What came of a program.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Same,
    /// Go differs from itself, the newer evaluator from the older or from what it says of the same
    /// declarations in another order; ours agrees with one of its answers.
    OneOfSeveral,
    /// Go differs from itself, and ours from all its answers.
    NoneOfSeveral(Difference),
    /// This note explains the difference.
    Noted(&'static str),
    /// The newer evaluator did not answer.
    NoOracle,
    Differs(Difference),
}

/// The columns of the report.
pub(crate) const COLUMNS: [&str; 6] =
    [notes::OPERANDS, notes::GUARDED, notes::CLOSED, GO_DIFFERS, NONE_OF_THESE, NO_ORACLE];
const GO_DIFFERS: &str = "Go differs";
const NONE_OF_THESE: &str = "none of these";
const NO_ORACLE: &str = "no oracle";

impl engine_diff::Verdict for Verdict {
    fn difference(&self) -> Option<&Difference> {
        match self {
            Self::Differs(difference) | Self::NoneOfSeveral(difference) => Some(difference),
            Self::Same | Self::OneOfSeveral | Self::Noted(_) | Self::NoOracle => None,
        }
    }

    fn is_failure(&self) -> bool {
        matches!(self, Self::Differs(_))
    }

    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Same | Self::Differs(_) => &[],
            Self::OneOfSeveral => &[GO_DIFFERS],
            Self::NoneOfSeveral(_) => &[GO_DIFFERS, NONE_OF_THESE],
            Self::Noted(notes::GUARDED) => &[notes::GUARDED],
            Self::Noted(notes::CLOSED) => &[notes::CLOSED],
            Self::Noted(_) => &[notes::OPERANDS],
            Self::NoOracle => &[NO_ORACLE],
        }
    }

    /// Better a difference that Go agrees on than one that it does not.
    fn is_like(&self, other: &Self) -> bool {
        let (Some(ours), Some(found)) = (self.difference(), other.difference()) else {
            return false;
        };
        (!self.is_failure() || other.is_failure())
            && (ours.level, &ours.what) == (found.level, &found.what)
    }
}

/// Our answers: the tree, and what is exported.
struct Ours {
    tree: Json,
    export: Json,
}

/// Compares what we make of a program with what Go makes of it. An error is one of the oracle.
pub(crate) fn compare(program: &Program, oracle: &mut Oracle) -> anyhow::Result<Verdict> {
    let [mut newer, mut older] = ask(oracle, program)?;
    let ours = match ours(program) {
        Ok(ours) => ours,
        Err(text) => {
            return Ok(Verdict::Differs(Difference {
                level: PANIC,
                what: "panic".to_owned(),
                detail: text,
            }));
        }
    };
    let same = |reply: &Reply| match reply {
        Reply::Answer(answer) => difference(&[answer], &ours.tree, &ours.export).is_none(),
        Reply::Failed(_) => false,
    };
    if !same(&newer) {
        // What Go says may depend on the programs it has evaluated before.
        oracle.restart();
        [newer, older] = ask(oracle, program)?;
    }
    let Reply::Answer(newer) = newer else { return Ok(Verdict::NoOracle) };
    let Some(difference) = difference(&[&newer], &ours.tree, &ours.export) else {
        return Ok(Verdict::Same);
    };
    // What else Go says.
    let mut answers = vec![newer];
    answers.extend(older.answer());
    for order in [Order::Reversed, Order::Grouped, Order::GroupedLate] {
        if let Some(other) = program.reordered(order)
            && other != *program
        {
            let [newer, older] = ask(oracle, &other)?;
            answers.extend(newer.answer());
            answers.extend(older.answer());
        }
    }
    let answers: Vec<&Json> = answers.iter().collect();
    let agrees = |other: &&Json| {
        self::difference(answers.get(..1).unwrap_or_default(), other, other).is_none()
    };
    if answers.iter().all(agrees) {
        for (note, way) in notes::ways_round(program, is_graver(&difference)) {
            oracle.restart();
            let [newer, _] = ask(oracle, &way)?;
            if let (Reply::Answer(newer), Ok(ours)) = (newer, self::ours(&way))
                && !is_rejected(&newer)
                && self::difference(&[&newer], &ours.tree, &ours.export).is_none()
            {
                return Ok(Verdict::Noted(note));
            }
        }
        return Ok(Verdict::Differs(difference));
    }
    Ok(match self::difference(&answers, &ours.tree, &ours.export) {
        None => Verdict::OneOfSeveral,
        Some(difference) => Verdict::NoneOfSeveral(difference),
    })
}

fn ours(program: &Program) -> Result<Ours, String> {
    let answer = |kind| {
        catch_unwind(AssertUnwindSafe(|| conformance::answer(&program.record(kind)))).map_err(
            |panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("").to_owned()
            },
        )
    };
    Ok(Ours { tree: answer("tree")?, export: answer("json")? })
}

fn is_rejected(answer: &Json) -> bool {
    matches!(answer.str("class"), Some("parse" | "compile"))
}

/// The difference of an answer from all that will do.
fn difference(wanted: &[&Json], tree: &Json, export: &Json) -> Option<Difference> {
    let want = *wanted.first()?;
    if export.str("class") == Some("limit") {
        return Some(Difference {
            level: level::LIMIT,
            what: format!("want {}", class(want)),
            detail: export.str("error").unwrap_or_default().to_owned(),
        });
    }
    if wanted.iter().all(|want| is_rejected(want) != is_rejected(export)) {
        let text = |answer: &Json| answer.str("error").unwrap_or("accepted").to_owned();
        let (ours, theirs) = (text(export), text(want));
        return Some(Difference {
            level: level::REJECTED,
            what: if is_rejected(want) { format!("want {theirs}") } else { ours.clone() },
            detail: format!("{ours}; want {theirs}"),
        });
    }
    if is_rejected(export) {
        return None;
    }
    let mut trees = wanted.iter().map(|want| of_tree(want, tree));
    if let Some(Some(first)) = trees.next()
        && trees.all(|other| other.is_some())
    {
        return Some(first);
    }
    if wanted.iter().any(|want| same_export(want, export)) {
        return None;
    }
    let kind = |answer: &Json| match answer.get("json") {
        Some(_) => "a value".to_owned(),
        None => class(answer),
    };
    let shown = |answer: &Json| match answer.get("json") {
        Some(value) => value.to_string(),
        None => format!("{} {}", class(answer), answer.str("error").unwrap_or_default()),
    };
    Some(Difference {
        level: level::EXPORT,
        what: format!("{}, want {}", kind(export), kind(want)),
        detail: format!("{}, want {}", shown(export), shown(want)),
    })
}

fn class(answer: &Json) -> String {
    answer.str("class").unwrap_or("none").to_owned()
}

fn same_export(want: &Json, got: &Json) -> bool {
    match (want.get("json"), got.get("json")) {
        (Some(want), Some(got)) => score::same(want, got),
        (None, None) => want.str("class") == got.str("class"),
        _ => false,
    }
}

/// Links that a tree may have into what [`without_remains`] drops, and how deep they may nest.
const MAX_LINKS: usize = 1000;
const MAX_LINK_DEPTH: usize = 50;

/// Whether a node failed by itself.
fn is_failed(node: &Json) -> bool {
    node.get("e").is_some() && node.get("m").is_some()
}

/// Links into nodes that failed by themselves become copies of what they lead to: the node is written
/// where it was met first, and its other uses are not part of what failed.
fn without_links(node: &mut Json, whole: &Json, links: &mut usize, depth: usize) {
    if is_failed(node) || depth > MAX_LINK_DEPTH {
        return;
    }
    let Json::Object(members) = node else { return };
    let Some((_, Json::Array(fields))) = members.iter_mut().find(|(name, _)| name == "f") else {
        return;
    };
    for field in fields {
        let Json::Array(field) = field else { continue };
        let Some(child) = field.last_mut() else { continue };
        let path = child.str("~").map(score::split).unwrap_or_default();
        let into = (1..path.len()).any(|n| {
            let above = path.get(..n).unwrap_or_default().join(".");
            score::lookup(whole, &above, MAX_LINK_DEPTH).is_some_and(is_failed)
        });
        if into
            && *links < MAX_LINKS
            && let Some(target) = score::lookup(whole, &path.join("."), MAX_LINK_DEPTH)
        {
            *links += 1;
            *child = target.clone();
        }
        without_links(child, whole, links, depth + 1);
    }
}

/// Two trees without the fields of nodes that failed by themselves in either: which of them there
/// are by then depends on the order in which an evaluator goes about it.
fn without_remains(a: &mut Json, b: &mut Json) {
    if is_failed(a) || is_failed(b) {
        for node in [&mut *a, &mut *b] {
            if let Json::Object(members) = node {
                members.retain(|(name, _)| name != "f");
            }
        }
        return;
    }
    let fields = |node: &Json| node.get("f").map(Json::as_array).unwrap_or_default().to_vec();
    let (mut of_a, mut of_b) = (fields(a), fields(b));
    for one in &mut of_a {
        let Json::Array(one) = one else { continue };
        for other in &mut of_b {
            let Json::Array(other) = other else { continue };
            if let ([label, .., node], [name, .., twin]) = (&mut one[..], &mut other[..])
                && label == name
            {
                without_remains(node, twin);
            }
        }
    }
    for (node, fields) in [(a, of_a), (b, of_b)] {
        if let Json::Object(members) = node
            && let Some((_, value)) = members.iter_mut().find(|(name, _)| name == "f")
        {
            *value = Json::Array(fields);
        }
    }
}

fn of_tree(want: &Json, got: &Json) -> Option<Difference> {
    let tree = |of: &Json| of.get("tree").cloned().unwrap_or_default();
    let (mut want, mut got) = (tree(want), tree(got));
    for tree in [&mut want, &mut got] {
        let whole = tree.clone();
        without_links(tree, &whole, &mut 0, 0);
    }
    without_remains(&mut want, &mut got);
    let expect = Json::object([("kind", "tree".into()), ("tree", want)]);
    let got = Json::object([("tree", got)]);
    let score = score::judge(&Json::object([("expect", expect)]), &got);
    if score.is_whole() {
        return None;
    }
    // The deepest says most: what is above it follows from it.
    let depth = |note: &&String| note.split(": ").next().map_or(0, |path| path.split('.').count());
    let note = score.notes.iter().rev().max_by_key(depth).cloned().unwrap_or_default();
    let (_, why) = note.split_once(": ").unwrap_or(("", &note));
    let (level, what) = if why.starts_with("type ") {
        (level::VALUE, why.to_owned())
    } else if why.starts_with("error code") {
        (level::CLASS, why.to_owned())
    } else if why.starts_with("closedness") {
        (level::CLOSEDNESS, why.to_owned())
    } else if why.starts_with("value ") {
        (level::VALUE, "value".to_owned())
    } else {
        let what = why.split_whitespace().next().unwrap_or_default();
        (level::PRESENCE, what.to_owned())
    };
    Some(Difference { level, what, detail: score.notes.join("; ") })
}
