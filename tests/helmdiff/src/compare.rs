//! Whether our answer to a case is Helm's.

use std::collections::BTreeMap;

use anyhow::Result;
use engine_diff::{Difference, Oracle, PANIC};

use crate::answer::{self, Answer, Rendered};
use crate::case::Case;
use crate::notes;
use crate::oracle::ask;

/// Where two answers differ; the first that applies.
pub(crate) mod level {
    /// A budget of ours was crossed.
    pub(crate) const BUDGET: &str = "budget";
    /// One renders, the other refuses.
    pub(crate) const REFUSED: &str = "refused";
    /// The class of an error.
    pub(crate) const CLASS: &str = "class";
    /// The text of a file.
    pub(crate) const TEXT: &str = "text";
    /// Whether the texts can be read as manifests.
    pub(crate) const READABLE: &str = "readable";
    /// Manifests, hooks, CRDs and notes.
    pub(crate) const OBJECTS: &str = "objects";
    /// The text of an error.
    pub(crate) const MESSAGE: &str = "message";
}

/// What came of a case.
#[derive(Clone, Debug)]
pub(crate) enum Verdict {
    Same,
    /// Both refuse it, in the same words.
    SameError,
    /// Both refuse it, in other words.
    OtherWords,
    /// Helm gives another answer each time.
    Random,
    /// docs/helm-differences.md explains the difference.
    Noted(&'static str),
    /// Helm did not answer.
    NoOracle,
    Differs(Difference),
}

/// The columns of the report.
pub(crate) const COLUMNS: [&str; 5] = ["errors", "other words", "noted", "random", "no oracle"];

impl engine_diff::Verdict for Verdict {
    fn difference(&self) -> Option<&Difference> {
        match self {
            Self::Differs(difference) => Some(difference),
            _ => None,
        }
    }

    fn columns(&self) -> &'static [&'static str] {
        match self {
            Self::Same | Self::Differs(_) => &[],
            Self::SameError => &["errors"],
            Self::OtherWords => &["other words"],
            Self::Random => &["random"],
            Self::Noted(_) => &["noted"],
            Self::NoOracle => &["no oracle"],
        }
    }

    fn note(&self) -> Option<&'static str> {
        match self {
            Self::Noted(note) => Some(note),
            _ => None,
        }
    }
}

/// Asks both engines. Texts of errors count if `messages` do.
pub(crate) fn compare(case: &Case, oracle: &mut Oracle, messages: bool) -> Result<Verdict> {
    let ours = answer::ours(case);
    let theirs = ask(oracle, case)?;
    let Some(difference) = difference(&theirs, &ours) else {
        return Ok(if matches!(theirs, Answer::Error(..)) {
            Verdict::SameError
        } else {
            Verdict::Same
        });
    };
    if let Answer::Failed(_) = theirs
        && difference.level != PANIC
    {
        return Ok(Verdict::NoOracle);
    }
    if difference.level == level::MESSAGE && !messages {
        return Ok(Verdict::OtherWords);
    }
    if let Some(note) = notes::explains(&theirs, &ours, &difference) {
        return Ok(Verdict::Noted(note));
    }
    // The order of Go's maps shows in what one answer in a few says.
    for _ in 0..4 {
        if ask(oracle, case)? != theirs {
            return Ok(Verdict::Random);
        }
    }
    Ok(Verdict::Differs(difference))
}

fn difference(theirs: &Answer, ours: &Answer) -> Option<Difference> {
    let differs = |level, what: String| {
        Some(Difference {
            level,
            what,
            detail: format!("Helm: {}\nours: {}", show(theirs), show(ours)),
        })
    };
    match (theirs, ours) {
        (_, Answer::Failed(how)) => differs(PANIC, (*how).to_owned()),
        (Answer::Failed(how), _) => differs(level::REFUSED, (*how).to_owned()),
        (_, Answer::OverBudget(text)) => differs(level::BUDGET, words(text)),
        (Answer::Error(class, text), Answer::Rendered(_)) => {
            differs(level::REFUSED, format!("only Helm, {class}: {}", words(text)))
        }
        (Answer::Rendered(_), Answer::Error(class, text)) => {
            differs(level::REFUSED, format!("only ours, {class}: {}", words(text)))
        }
        (Answer::Error(a, text), Answer::Error(b, our_text)) if a != b => {
            differs(level::CLASS, format!("{a} not {b}: {} / {}", words(text), words(our_text)))
        }
        (Answer::Error(_, a), Answer::Error(class, b)) => {
            if a == b {
                None
            } else {
                differs(level::MESSAGE, format!("{class}: {}", words(a)))
            }
        }
        (Answer::Rendered(a), Answer::Rendered(b)) => {
            let (level, what) = rendered(a, b)?;
            differs(level, what)
        }
        (Answer::OverBudget(_), _) => None,
    }
}

fn rendered(theirs: &Rendered, ours: &Rendered) -> Option<(&'static str, String)> {
    if theirs.texts != ours.texts {
        let blank = |texts: &BTreeMap<String, String>| -> Vec<(String, String)> {
            let white = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            texts.iter().map(|(path, text)| (path.clone(), white(text))).collect()
        };
        let what = if theirs.texts.len() != ours.texts.len() {
            "other files"
        } else if blank(&theirs.texts) == blank(&ours.texts) {
            "white space"
        } else {
            "text"
        };
        return Some((level::TEXT, what.to_owned()));
    }
    match (&theirs.unreadable, &ours.unreadable) {
        (None, None) => {}
        (Some(_), Some(_)) => return None,
        (Some(text), None) => {
            return Some((level::READABLE, format!("only ours: {}", words(text))));
        }
        (None, Some(text)) => {
            return Some((level::READABLE, format!("only Helm: {}", words(text))));
        }
    }
    let parts = [
        ("manifests", &theirs.manifests, &ours.manifests),
        ("hooks", &theirs.hooks, &ours.hooks),
        ("crds", &theirs.crds, &ours.crds),
    ];
    for (name, theirs, ours) in parts {
        if theirs.len() != ours.len() {
            return Some((level::OBJECTS, format!("number of {name}")));
        }
        if let Some((a, b)) = theirs.iter().zip(ours).find(|(a, b)| a != b) {
            let what = if a.0 != b.0 {
                "source"
            } else if a.1 != b.1 {
                "text"
            } else {
                "facts"
            };
            return Some((level::OBJECTS, format!("{what} of {name}")));
        }
    }
    (theirs.notes != ours.notes).then(|| (level::OBJECTS, "notes".to_owned()))
}

/// A message without what depends on names and values.
fn words(text: &str) -> String {
    // What stands at the end says most.
    let text = text.rsplit(": ").take(2).collect::<Vec<_>>();
    let text = text.into_iter().rev().collect::<Vec<_>>().join(": ");
    let mut out = String::new();
    let mut quoted = None;
    for char in text.chars().take(200) {
        match (quoted, char) {
            (Some(end), char) if char == end => quoted = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => {
                out.push(char);
                quoted = Some(char);
            }
            (None, '<') => {
                out.push('<');
                quoted = Some('>');
            }
            (None, char) if char.is_ascii_digit() => {
                if !out.ends_with('0') {
                    out.push('0');
                }
            }
            (None, char) => out.push(char),
        }
    }
    out
}

pub(crate) fn show(answer: &Answer) -> String {
    match answer {
        Answer::Rendered(rendered) => {
            let mut out = String::new();
            for (path, text) in &rendered.texts {
                out += &format!("{path}: {text:?} ");
            }
            if let Some(text) = &rendered.unreadable {
                out += &format!("[unreadable: {text}] ");
            } else {
                for (name, list) in
                    [("M", &rendered.manifests), ("H", &rendered.hooks), ("C", &rendered.crds)]
                {
                    for (source, text, facts) in list {
                        out += &format!("\n  {name} {source} {facts} {text:?}");
                    }
                }
            }
            out
        }
        Answer::Error(class, text) => format!("{class} error: {text}"),
        Answer::OverBudget(text) => format!("over budget: {text}"),
        Answer::Failed(how) => (*how).to_owned(),
    }
}
