//! Package `path`: names of files on Unix, Windows and Plan 9, by their text alone.

use super::args::{Out, constant, fail, func, string, string_list, strings, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const S: Param = Param::STRING;
/// The operating system; Unix if not given.
const OS: Param = Param { default: Some("unix"), ..Param::STRING };
const ONE: &[Param] = &[S, OS];
const TWO: &[Param] = &[S, S, OS];
/// Functions whose result depends too much on the system to assume one.
const ONE_EXPLICIT: &[Param] = &[S, S];

pub(super) static PACKAGE: &[Member] = &[
    constant("Unix", "\"unix\""),
    constant("Windows", "\"windows\""),
    constant("Plan9", "\"plan9\""),
    func("Split", ONE, Kind::LIST, |a, b| {
        let (path, os) = (text(a, 0)?, system(a, 1)?);
        let (dir, file) = os.split(path);
        string_list([dir, file].into_iter(), b)
    }),
    func("SplitList", ONE_EXPLICIT, Kind::LIST, split_list),
    func("Join", &[Param::STRINGS, OS], Kind::STRING, |a, b| {
        let parts = strings(a, 0)?;
        b.string(parts.iter().map(|p| p.len() as u64 + 1).sum())?;
        string(system(a, 1)?.join(&parts), b)
    }),
    func("Match", TWO, Kind::BOOL, |a, b| {
        let (pattern, name) = (text(a, 0)?, text(a, 1)?);
        b.steps((pattern.len() as u64).saturating_mul(name.len() as u64) >> 4)?;
        glob(pattern, name, system(a, 2)?)
    }),
    func("Clean", ONE, Kind::STRING, |a, b| string(system(a, 1)?.clean(text(a, 0)?), b)),
    func("ToSlash", ONE_EXPLICIT, Kind::STRING, |a, b| {
        let os = system(a, 1)?;
        string(
            if os == System::Windows {
                text(a, 0)?.replace('\\', "/")
            } else {
                text(a, 0)?.to_owned()
            },
            b,
        )
    }),
    func("FromSlash", ONE_EXPLICIT, Kind::STRING, |a, b| {
        string(system(a, 1)?.with_separators(text(a, 0)?), b)
    }),
    func("Ext", ONE, Kind::STRING, |a, b| {
        let os = system(a, 1)?;
        let (_, file) = os.split_last(text(a, 0)?);
        string(file.rfind('.').and_then(|at| file.get(at..)).unwrap_or_default(), b)
    }),
    func("Resolve", TWO, Kind::STRING, |a, b| {
        let (dir, sub, os) = (text(a, 0)?, text(a, 1)?, system(a, 2)?);
        let joined = if os.is_abs(sub) { os.clean(sub) } else { os.join(&[dir, sub]) };
        string(if joined.is_empty() { ".".into() } else { joined }, b)
    }),
    func("Rel", TWO, Kind::STRING, |a, b| {
        string(system(a, 2)?.relative(text(a, 0)?, text(a, 1)?)?, b)
    }),
    func("Base", ONE, Kind::STRING, |a, b| string(system(a, 1)?.base(text(a, 0)?), b)),
    func("Dir", ONE, Kind::STRING, |a, b| string(system(a, 1)?.dir(text(a, 0)?), b)),
    func("IsAbs", ONE, Kind::BOOL, |a, _| Ok(system(a, 1)?.is_abs(text(a, 0)?).into())),
    func("VolumeName", ONE_EXPLICIT, Kind::STRING, |a, b| {
        string(system(a, 1)?.split_volume(text(a, 0)?).0, b)
    }),
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum System {
    Unix,
    Windows,
    Plan9,
}

fn system(args: &[Value], i: usize) -> Result<System, BuiltinError> {
    match args.get(i).and_then(Value::as_str) {
        None | Some("unix") => Ok(System::Unix),
        Some("windows") => Ok(System::Windows),
        Some("plan9") => Ok(System::Plan9),
        Some(other) => fail(format!("unsupported OS {other:?}")),
    }
}

fn split_list(args: &[Value], budget: &mut Budget) -> Out {
    let all = text(args, 0)?;
    if all.is_empty() {
        return Ok(Value::List(Vec::new()));
    }
    match system(args, 1)? {
        System::Unix => string_list(all.split(':'), budget),
        System::Plan9 => string_list(all.split('\0'), budget),
        System::Windows => {
            // Quotes protect semicolons and are dropped.
            let mut parts = Vec::new();
            let mut part = String::new();
            let mut quoted = false;
            for c in all.chars() {
                match c {
                    '"' => quoted = !quoted,
                    ';' if !quoted => parts.push(std::mem::take(&mut part)),
                    c => part.push(c),
                }
            }
            parts.push(part);
            string_list(parts.iter().map(String::as_str), budget)
        }
    }
}

const RESERVED: [&str; 4] = ["CON", "PRN", "AUX", "NUL"];

impl System {
    fn separator(self) -> char {
        if self == Self::Windows { '\\' } else { '/' }
    }

    fn is_separator(self, c: char) -> bool {
        c == '/' || (self == Self::Windows && c == '\\')
    }

    fn with_separators(self, path: &str) -> String {
        if self == Self::Windows { path.replace('/', "\\") } else { path.to_owned() }
    }

    /// The volume (`C:` or `\\host\share`) and the rest.
    fn split_volume(self, path: &str) -> (&str, &str) {
        path.split_at_checked(self.volume_len(path)).unwrap_or(("", path))
    }

    fn volume_len(self, path: &str) -> usize {
        if self != Self::Windows {
            return 0;
        }
        let bytes = path.as_bytes();
        if let [letter, b':', ..] = bytes
            && letter.is_ascii_alphabetic()
        {
            return 2;
        }
        let slash = |b: &u8| *b == b'\\' || *b == b'/';
        let [first, second, host, ..] = bytes else { return 0 };
        if !slash(first) || !slash(second) || slash(host) || *host == b'.' {
            return 0;
        }
        // The host ends at one separator, the share at the next or at the end.
        let Some(host_end) = bytes.iter().skip(3).position(slash).map(|i| i + 3) else { return 0 };
        match bytes.get(host_end + 1) {
            None | Some(b'.' | b'\\' | b'/') => 0,
            Some(_) => {
                let share = bytes.iter().skip(host_end + 1).position(slash);
                share.map_or(bytes.len(), |i| host_end + 1 + i)
            }
        }
    }

    fn is_abs(self, path: &str) -> bool {
        match self {
            Self::Unix => path.starts_with('/'),
            Self::Plan9 => path.starts_with(['/', '#']),
            Self::Windows => {
                let upper = path.to_ascii_uppercase();
                let port = upper.strip_prefix("COM").or_else(|| upper.strip_prefix("LPT"));
                let reserved = RESERVED.contains(&upper.as_str())
                    || port.is_some_and(|n| n.len() == 1 && ("1"..="9").contains(&n));
                let (volume, rest) = self.split_volume(path);
                reserved || (!volume.is_empty() && rest.starts_with(['/', '\\']))
            }
        }
    }

    /// Splits behind the last separator, whatever the volume is.
    fn split_last(self, path: &str) -> (&str, &str) {
        let at = path.rfind(|c| self.is_separator(c)).map_or(0, |i| i + 1);
        path.split_at_checked(at).unwrap_or(("", path))
    }

    fn split(self, path: &str) -> (&str, &str) {
        let volume = self.volume_len(path);
        let (_, rest) = self.split_volume(path);
        let at = rest.rfind(|c| self.is_separator(c)).map_or(0, |i| i + 1);
        path.split_at_checked(volume + at).unwrap_or(("", path))
    }

    fn clean(self, path: &str) -> String {
        let (volume, rest) = self.split_volume(path);
        if rest.is_empty() {
            // A share is complete by itself, a drive means its current directory.
            if volume.len() > 2 {
                return self.with_separators(path);
            }
            return format!("{path}.");
        }
        let rooted = rest.starts_with(|c| self.is_separator(c));
        let mut parts: Vec<&str> = Vec::new();
        for part in rest.split(|c| self.is_separator(c)) {
            match part {
                "" | "." => {}
                ".." => match parts.last() {
                    Some(last) if *last != ".." => {
                        parts.pop();
                    }
                    _ if rooted => {}
                    _ => parts.push(part),
                },
                part => parts.push(part),
            }
        }
        let separator = self.separator().to_string();
        let body = parts.join(&separator);
        let root = if rooted { separator.as_str() } else { "" };
        let body = if body.is_empty() && !rooted { "." } else { &body };
        format!("{}{root}{body}", self.with_separators(volume))
    }

    fn join(self, parts: &[&str]) -> String {
        let Some(first) = parts.iter().position(|p| !p.is_empty()) else {
            return String::new();
        };
        let parts = parts.get(first..).unwrap_or_default();
        let separator = self.separator().to_string();
        if self != Self::Windows {
            return self.clean(&parts.join(&separator));
        }
        let (head, tail) = parts.split_first().map_or(("", parts), |(h, t)| (*h, t));
        if head.len() == 2 && head.ends_with(':') {
            // A drive without slash: stay relative to its current directory.
            let next = tail.iter().position(|p| !p.is_empty()).unwrap_or(tail.len());
            let tail = tail.get(next..).unwrap_or_default();
            return self.clean(&format!("{head}{}", tail.join(&separator)));
        }
        let joined = self.clean(&parts.join(&separator));
        let is_share = |path: &str| self.volume_len(path) > 2;
        if !is_share(&joined) || is_share(&self.clean(head)) {
            return joined;
        }
        // Joining may not make a share of two paths that are none.
        let (head, tail) = (self.clean(head), self.clean(&tail.join(&separator)));
        if head.ends_with('\\') { head + &tail } else { format!("{head}\\{tail}") }
    }

    fn base(self, path: &str) -> String {
        if path.is_empty() {
            return ".".to_owned();
        }
        let trimmed = path.trim_end_matches(|c| self.is_separator(c));
        let (_, rest) = self.split_volume(trimmed);
        let (_, file) = self.split_last(rest);
        if file.is_empty() { self.separator().to_string() } else { file.to_owned() }
    }

    fn dir(self, path: &str) -> String {
        let (volume, rest) = self.split_volume(path);
        let (dir, _) = self.split_last(rest);
        let dir = self.clean(dir);
        if dir == "." && volume.len() > 2 {
            return volume.to_owned();
        }
        format!("{volume}{dir}")
    }

    fn same(self, a: &str, b: &str) -> bool {
        if self == Self::Windows { a.to_lowercase() == b.to_lowercase() } else { a == b }
    }

    fn relative(self, base: &str, target: &str) -> Result<String, BuiltinError> {
        let clean_base = self.clean(base);
        let clean_target = self.clean(target);
        if self.same(&clean_base, &clean_target) {
            return Ok(".".to_owned());
        }
        let (base_volume, base_rest) = self.split_volume(&clean_base);
        let (target_volume, target_rest) = self.split_volume(&clean_target);
        let base_rest = if base_rest == "." { "" } else { base_rest };
        let separator = self.separator();
        let rooted = |path: &str| path.starts_with(separator);
        let refuse = || fail(format!("Rel: can't make {target} relative to {base}"));
        if rooted(base_rest) != rooted(target_rest) || !self.same(base_volume, target_volume) {
            return refuse();
        }
        let parts = |path: &'_ str| -> Vec<String> {
            path.split(separator).filter(|p| !p.is_empty()).map(str::to_owned).collect()
        };
        let (from, to) = (parts(base_rest), parts(target_rest));
        let common = from.iter().zip(&to).take_while(|(a, b)| self.same(a, b)).count();
        let up = from.get(common..).unwrap_or_default();
        if up.first().is_some_and(|part| part == "..") {
            return refuse();
        }
        let down = to.get(common..).unwrap_or_default().iter().map(String::as_str);
        let steps: Vec<&str> = up.iter().map(|_| "..").chain(down).collect();
        Ok(steps.join(&separator.to_string()))
    }
}

/// An element of a shell pattern.
enum Term {
    Star,
    Any,
    One(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

fn bad_pattern<T>() -> Result<T, BuiltinError> {
    fail("syntax error in pattern")
}

fn terms(pattern: &str, os: System) -> Result<Vec<Term>, BuiltinError> {
    let escapes = os != System::Windows;
    let mut chars = pattern.chars().peekable();
    let mut terms = Vec::new();
    while let Some(c) = chars.next() {
        terms.push(match c {
            '*' => Term::Star,
            '?' => Term::Any,
            '\\' if escapes => match chars.next() {
                Some(c) => Term::One(c),
                None => return bad_pattern(),
            },
            '[' => class(&mut chars, escapes)?,
            c => Term::One(c),
        });
    }
    Ok(terms)
}

type Chars<'a> = std::iter::Peekable<std::str::Chars<'a>>;

/// `[a-z]` behind its bracket.
fn class(chars: &mut Chars<'_>, escapes: bool) -> Result<Term, BuiltinError> {
    let negated = chars.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    while ranges.is_empty() || chars.next_if_eq(&']').is_none() {
        let low = class_char(chars, escapes)?;
        let high = if chars.next_if_eq(&'-').is_some() { class_char(chars, escapes)? } else { low };
        ranges.push((low, high));
    }
    Ok(Term::Class { negated, ranges })
}

fn class_char(chars: &mut Chars<'_>, escapes: bool) -> Result<char, BuiltinError> {
    match chars.next() {
        Some('-' | ']') | None => bad_pattern(),
        Some('\\') if escapes => chars.next().map_or_else(bad_pattern, Ok),
        Some(c) => Ok(c),
    }
}

/// Whether all of `name` matches; `*` and `?` stop at separators.
fn glob(pattern: &str, name: &str, os: System) -> Out {
    let terms = terms(pattern, os)?;
    let name: Vec<char> = name.chars().collect();
    let (mut term, mut at) = (0, 0);
    // The last star: the term behind it, and where it has taken the name up to.
    let mut star: Option<(usize, usize)> = None;
    loop {
        let step = match (terms.get(term), name.get(at)) {
            (Some(Term::Star), _) => {
                term += 1;
                star = Some((term, at));
                continue;
            }
            (None, None) => return Ok(true.into()),
            (Some(Term::Any), Some(c)) => !os.is_match_separator(*c),
            (Some(Term::One(want)), Some(c)) => want == c,
            (Some(Term::Class { negated, ranges }), Some(c)) => {
                ranges.iter().any(|(low, high)| (low..=high).contains(&c)) != *negated
            }
            _ => false,
        };
        if step {
            term += 1;
            at += 1;
            continue;
        }
        match star {
            Some((behind, taken)) => match name.get(taken) {
                Some(c) if !os.is_match_separator(*c) => {
                    star = Some((behind, taken + 1));
                    term = behind;
                    at = taken + 1;
                }
                _ => return Ok(false.into()),
            },
            None => return Ok(false.into()),
        }
    }
}

impl System {
    /// Windows patterns know only the backslash.
    fn is_match_separator(self, c: char) -> bool {
        c == self.separator()
    }
}
