//! Whether our answer to a case is Helm's.

use std::collections::BTreeMap;
use std::fmt;

use anyhow::Result;

use crate::answer::{self, Answer, Rendered};
use crate::case::Case;
use crate::notes;
use crate::oracle::Oracle;

/// Where two answers differ; the first that applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Level {
    /// Ours panicked.
    Panic,
    /// A budget of ours was crossed.
    Budget,
    /// One renders, the other refuses.
    Refused,
    /// The class of an error.
    Class,
    /// The text of a file.
    Text,
    /// Whether the texts can be read as manifests.
    Readable,
    /// Manifests, hooks, CRDs and notes.
    Objects,
    /// The text of an error.
    Message,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Panic => "panic",
            Self::Budget => "budget",
            Self::Refused => "refused",
            Self::Class => "class",
            Self::Text => "text",
            Self::Readable => "readable",
            Self::Objects => "objects",
            Self::Message => "message",
        })
    }
}

/// A difference, with what differs in words that do not depend on names and values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) level: Level,
    pub(crate) what: String,
    /// Both answers.
    pub(crate) detail: String,
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

impl Verdict {
    pub(crate) fn difference(&self) -> Option<&Difference> {
        match self {
            Self::Differs(difference) => Some(difference),
            _ => None,
        }
    }
}

/// Asks both engines. Texts of errors count if `messages` do.
pub(crate) fn compare(case: &Case, oracle: &mut Oracle, messages: bool) -> Result<Verdict> {
    let ours = answer::ours(case);
    let theirs = oracle.ask(case)?;
    let Some(difference) = difference(&theirs, &ours) else {
        return Ok(if matches!(theirs, Answer::Error(..)) {
            Verdict::SameError
        } else {
            Verdict::Same
        });
    };
    if let Answer::Failed(_) = theirs
        && difference.level != Level::Panic
    {
        return Ok(Verdict::NoOracle);
    }
    if difference.level == Level::Message && !messages {
        return Ok(Verdict::OtherWords);
    }
    if let Some(note) = notes::explains(&theirs, &ours, &difference) {
        return Ok(Verdict::Noted(note));
    }
    // The order of Go's maps shows in what one answer in a few says.
    for _ in 0..4 {
        if oracle.ask(case)? != theirs {
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
        (_, Answer::Failed(how)) => differs(Level::Panic, (*how).to_owned()),
        (Answer::Failed(how), _) => differs(Level::Refused, (*how).to_owned()),
        (_, Answer::OverBudget(text)) => differs(Level::Budget, words(text)),
        (Answer::Error(class, text), Answer::Rendered(_)) => {
            differs(Level::Refused, format!("only Helm, {class}: {}", words(text)))
        }
        (Answer::Rendered(_), Answer::Error(class, text)) => {
            differs(Level::Refused, format!("only ours, {class}: {}", words(text)))
        }
        (Answer::Error(a, text), Answer::Error(b, our_text)) if a != b => {
            differs(Level::Class, format!("{a} not {b}: {} / {}", words(text), words(our_text)))
        }
        (Answer::Error(_, a), Answer::Error(class, b)) => {
            if a == b {
                None
            } else {
                differs(Level::Message, format!("{class}: {}", words(a)))
            }
        }
        (Answer::Rendered(a), Answer::Rendered(b)) => {
            let (level, what) = rendered(a, b)?;
            differs(level, what)
        }
        (Answer::OverBudget(_), _) => None,
    }
}

fn rendered(theirs: &Rendered, ours: &Rendered) -> Option<(Level, String)> {
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
        return Some((Level::Text, what.to_owned()));
    }
    match (&theirs.unreadable, &ours.unreadable) {
        (None, None) => {}
        (Some(_), Some(_)) => return None,
        (Some(text), None) => {
            return Some((Level::Readable, format!("only ours: {}", words(text))));
        }
        (None, Some(text)) => {
            return Some((Level::Readable, format!("only Helm: {}", words(text))));
        }
    }
    let parts = [
        ("manifests", &theirs.manifests, &ours.manifests),
        ("hooks", &theirs.hooks, &ours.hooks),
        ("crds", &theirs.crds, &ours.crds),
    ];
    for (name, theirs, ours) in parts {
        if theirs.len() != ours.len() {
            return Some((Level::Objects, format!("number of {name}")));
        }
        if let Some((a, b)) = theirs.iter().zip(ours).find(|(a, b)| a != b) {
            let what = if a.0 != b.0 {
                "source"
            } else if a.1 != b.1 {
                "text"
            } else {
                "facts"
            };
            return Some((Level::Objects, format!("{what} of {name}")));
        }
    }
    (theirs.notes != ours.notes).then(|| (Level::Objects, "notes".to_owned()))
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
