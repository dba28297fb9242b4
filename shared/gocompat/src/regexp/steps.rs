//! A small automaton for patterns as schemas have them: characters, classes, groups, alternatives,
//! repetitions, `^` and `$`.
//!
//! Compiling a pattern for the `regex` crate (syntax tree, translation, automaton, prefilters) takes
//! a hundred times longer than matching a short text. Here it is one pass that writes eight bytes a
//! step, and matching allocates nothing: the set of steps that may be next goes from character to
//! character (linear time, whatever the pattern). Flags, word boundaries, Unicode classes and large
//! patterns are not for this; [`Steps::new`] says so.

use super::perl_class;

/// Steps of the largest automaton that is made.
const MOST_STEPS: usize = 512;
/// Groups within groups that are read.
const MOST_DEPTH: u32 = 16;

/// What a step does. Targets are relative, so that repeated parts are copies.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// This character.
    Char(char),
    /// Any character but a line feed.
    Any,
    /// A character in one of these ranges (outside of all if negated).
    Class { first: u16, len: u16, negated: bool },
    /// The next step and another one.
    Split(i16),
    /// Another step.
    Jump(i16),
    /// The beginning of the text.
    Begin,
    /// The end of the text.
    End,
    /// Found.
    Match,
}

/// A compiled pattern.
#[derive(Debug)]
pub(super) struct Steps {
    steps: Box<[Step]>,
    ranges: Box<[(char, char)]>,
}

impl Steps {
    /// The automaton of a pattern that Go accepts, if the pattern is plain and small.
    pub(super) fn new(pattern: &str) -> Option<Self> {
        let mut reader = Reader { rest: pattern, steps: Vec::new(), ranges: Vec::new() };
        reader.alternatives(0)?;
        if !reader.rest.is_empty() {
            return None;
        }
        reader.push(Step::Match)?;
        let Reader { steps, ranges, .. } = reader;
        Some(Self { steps: steps.into(), ranges: ranges.into() })
    }

    /// Whether the pattern matches somewhere in the text.
    pub(super) fn is_match(&self, text: &str) -> bool {
        let anchored = matches!(self.steps.first(), Some(Step::Begin));
        let mut now = Set::new();
        let mut next = Set::new();
        let mut chars = text.char_indices();
        loop {
            let (at, c) = chars.next().map_or((text.len(), None), |(at, c)| (at, Some(c)));
            // A match may begin anywhere.
            if !(anchored && at > 0) {
                now.add(0);
            }
            let mut index = 0;
            while let Some(step) = now.get(index) {
                index += 1;
                let Some(what) = self.steps.get(usize::from(step)) else { return false };
                match *what {
                    Step::Match => return true,
                    Step::Jump(by) => now.add(step.wrapping_add_signed(by)),
                    Step::Split(by) => {
                        now.add(step + 1);
                        now.add(step.wrapping_add_signed(by));
                    }
                    Step::Begin if at == 0 => now.add(step + 1),
                    Step::End if c.is_none() => now.add(step + 1),
                    Step::Begin | Step::End => {}
                    Step::Char(_) | Step::Any | Step::Class { .. } => {
                        if c.is_some_and(|c| self.takes(*what, c)) {
                            next.add(step + 1);
                        }
                    }
                }
            }
            if c.is_none() || (anchored && next.len == 0) {
                return false;
            }
            std::mem::swap(&mut now, &mut next);
            next.clear();
        }
    }

    fn takes(&self, step: Step, c: char) -> bool {
        match step {
            Step::Char(wanted) => c == wanted,
            Step::Any => c != '\n',
            Step::Class { first, len, negated } => {
                let first = usize::from(first);
                let ranges = self.ranges.get(first..first + usize::from(len)).unwrap_or_default();
                ranges.iter().any(|&(low, high)| (low..=high).contains(&c)) != negated
            }
            _ => false,
        }
    }
}

/// Steps that may be taken, each once, in the order in which they were added.
struct Set {
    list: [u16; MOST_STEPS],
    len: usize,
    members: [u64; MOST_STEPS / 64],
}

impl Set {
    fn new() -> Self {
        Self { list: [0; MOST_STEPS], len: 0, members: [0; MOST_STEPS / 64] }
    }

    fn clear(&mut self) {
        self.len = 0;
        self.members = [0; MOST_STEPS / 64];
    }

    fn get(&self, index: usize) -> Option<u16> {
        self.list.get(..self.len)?.get(index).copied()
    }

    fn add(&mut self, step: u16) {
        let (word, bit) = (usize::from(step) / 64, 1 << (step % 64));
        let Some(word) = self.members.get_mut(word) else { return };
        if *word & bit == 0
            && let Some(place) = self.list.get_mut(self.len)
        {
            *word |= bit;
            *place = step;
            self.len += 1;
        }
    }
}

/// Reads a pattern and writes steps; `None` wherever something is not plain.
struct Reader<'a> {
    rest: &'a str,
    steps: Vec<Step>,
    ranges: Vec<(char, char)>,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next()?;
        self.rest = chars.as_str();
        Some(c)
    }

    fn skip(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn push(&mut self, step: Step) -> Option<()> {
        (self.steps.len() < MOST_STEPS).then(|| self.steps.push(step))
    }

    fn insert(&mut self, at: usize, step: Step) -> Option<()> {
        (self.steps.len() < MOST_STEPS).then(|| self.steps.insert(at, step))
    }

    /// `a|b|c`: a split before each alternative but the last, a jump to the end behind it.
    fn alternatives(&mut self, depth: u32) -> Option<()> {
        let mut jumps = Vec::new();
        loop {
            let start = self.steps.len();
            self.sequence(depth)?;
            if !self.skip('|') {
                break;
            }
            self.insert(start, Step::Split(offset(start, self.steps.len() + 2)?))?;
            jumps.push(self.steps.len());
            self.push(Step::Jump(0))?;
        }
        let end = self.steps.len();
        for at in jumps {
            *self.steps.get_mut(at)? = Step::Jump(offset(at, end)?);
        }
        Some(())
    }

    fn sequence(&mut self, depth: u32) -> Option<()> {
        while let Some(c) = self.peek()
            && c != '|'
            && c != ')'
        {
            let start = self.steps.len();
            self.atom(depth)?;
            let (low, high) = match self.peek() {
                Some('*') => (0, None),
                Some('+') => (1, None),
                Some('?') => (0, Some(1)),
                Some('{') => {
                    let end = self.rest.find('}')?;
                    let counts = self.rest.get(1..end)?;
                    let (low, high) = counts.split_once(',').unwrap_or((counts, counts));
                    let high = if high.is_empty() { None } else { Some(count(high)?) };
                    self.rest = self.rest.get(end..)?;
                    (count(low)?, high)
                }
                _ => continue,
            };
            self.next();
            // Whether the shortest match is wanted does not matter for whether there is one.
            self.skip('?');
            self.repeat(start, low, high)?;
        }
        Some(())
    }

    fn atom(&mut self, depth: u32) -> Option<()> {
        match self.next()? {
            '(' => {
                if depth >= MOST_DEPTH || (self.rest.starts_with('?') && !self.skip_question()) {
                    return None;
                }
                self.alternatives(depth + 1)?;
                self.skip(')').then_some(())
            }
            '[' => self.class(),
            '.' => self.push(Step::Any),
            '^' => self.push(Step::Begin),
            '$' => self.push(Step::End),
            '\\' => {
                let c = self.next()?;
                let first = self.ranges.len();
                if self.perl(c)? {
                    return self.push_class(first, c.is_ascii_uppercase());
                }
                self.push(Step::Char(escaped(c)?))
            }
            // What begins no count is a character; rare, and easily misread.
            '{' => None,
            c => self.push(Step::Char(c)),
        }
    }

    /// The mark of a group without a number.
    fn skip_question(&mut self) -> bool {
        let rest = self.rest.strip_prefix("?:");
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Adds the ranges of `\d`, `\s` and `\w`, those of `\D`, `\S` and `\W` as their opposites.
    fn perl(&mut self, c: char) -> Option<bool> {
        if perl_class(c).is_none() {
            return Some(false);
        }
        let ranges: &[(char, char)] = match c.to_ascii_lowercase() {
            'd' => &[('0', '9')],
            's' => &[('\t', '\n'), ('\x0c', '\r'), (' ', ' ')],
            _ => &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')],
        };
        self.ranges.extend_from_slice(ranges);
        Some(true)
    }

    fn push_class(&mut self, first: usize, negated: bool) -> Option<()> {
        let len = u16::try_from(self.ranges.len() - first).ok()?;
        self.push(Step::Class { first: u16::try_from(first).ok()?, len, negated })
    }

    /// `[...]`, behind the bracket.
    fn class(&mut self) -> Option<()> {
        let first = self.ranges.len();
        let negated = self.skip('^');
        let mut empty = true;
        while empty || self.peek()? != ']' {
            empty = false;
            if self.rest.starts_with("[:") {
                return None;
            }
            let low = match self.next()? {
                '\\' => {
                    let c = self.next()?;
                    // The opposite of a class within a class is not a list of ranges.
                    if c.is_ascii_uppercase() {
                        return None;
                    }
                    if self.perl(c)? {
                        continue;
                    }
                    escaped(c)?
                }
                c => c,
            };
            let is_range =
                self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1;
            let high = if is_range {
                self.next();
                match self.next()? {
                    '\\' => escaped(self.next()?)?,
                    c => c,
                }
            } else {
                low
            };
            self.ranges.push((low, high));
        }
        self.next();
        self.push_class(first, negated)
    }

    /// Repeats the steps from `start` on.
    fn repeat(&mut self, start: usize, low: usize, high: Option<usize>) -> Option<()> {
        let once = self.steps.get(start..)?.to_vec();
        self.steps.truncate(start);
        for _ in 0..low {
            self.copy(&once)?;
        }
        match high {
            // One more copy in a loop that may be left at once.
            None => {
                let at = self.steps.len();
                self.push(Step::Split(offset(at, at + once.len() + 2)?))?;
                self.copy(&once)?;
                let end = self.steps.len();
                self.push(Step::Jump(offset(end, at)?))?;
            }
            Some(high) => {
                let more = high.checked_sub(low)?;
                let end = self.steps.len() + more * (once.len() + 1);
                for _ in 0..more {
                    let at = self.steps.len();
                    self.push(Step::Split(offset(at, end)?))?;
                    self.copy(&once)?;
                }
            }
        }
        Some(())
    }

    fn copy(&mut self, steps: &[Step]) -> Option<()> {
        let fits = self.steps.len() + steps.len() <= MOST_STEPS;
        fits.then(|| self.steps.extend_from_slice(steps))
    }
}

fn count(text: &str) -> Option<usize> {
    let number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    let padded = text.len() > 1 && text.starts_with('0');
    // A number of Go, or characters: then it is no count.
    (number && !padded).then(|| text.parse().ok())?
}

fn offset(from: usize, to: usize) -> Option<i16> {
    i16::try_from(to as isize - from as isize).ok()
}

/// The character that a backslash and this one are.
fn escaped(c: char) -> Option<char> {
    match c {
        'f' => Some('\x0c'),
        'n' => Some('\n'),
        'r' => Some('\r'),
        't' => Some('\t'),
        c if c.is_ascii_punctuation() => Some(c),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{compile, translate};
    use super::*;

    #[test]
    fn plain_patterns_are_read() {
        for (pattern, steps) in [
            ("", 1),
            ("^[0-9]+(s|m|h|d)$", 17),
            ("^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$", 0),
            (r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$", 0),
            (r"\d{4}-\d{2}T(\.[0-9]+)?(Z|[+-]\d{2}:\d{2})", 0),
        ] {
            let made = Steps::new(pattern).unwrap_or_else(|| panic!("{pattern}"));
            assert!(steps == 0 || made.steps.len() == steps, "{pattern}: {made:?}");
        }
    }

    #[test]
    fn others_are_left_to_the_crate() {
        for pattern in [
            "(?i)a",
            r"\bx",
            r"\pL",
            "[[:alpha:]]",
            r"[\D]",
            "a{",
            "a{,2}",
            "a{1000}",
            r"\Qa\E",
            r"\x41",
            r"\A",
            r"\z",
            r"\0",
            "(?P<x>a)",
        ] {
            assert!(translate(pattern).is_ok(), "{pattern}");
            assert!(Steps::new(pattern).is_none(), "{pattern}");
        }
        assert!(Steps::new(&"(".repeat(1000)).is_none());
        assert!(Steps::new("((((a{99}){99}){99}){99}){99}").is_none());
    }

    fn pattern() -> impl Strategy<Value = String> {
        let leaf = prop_oneof![
            Just("a"),
            Just("b"),
            Just("é"),
            Just("."),
            Just("[ab]"),
            Just("[^a]"),
            Just("[]a]"),
            Just("[a-cé]"),
            Just("[--a]"),
            Just(r"[\d-]"),
            Just(r"\d"),
            Just(r"\W"),
            Just(r"\S"),
            Just("^"),
            Just("$"),
            Just(""),
            Just(r"\."),
            Just("-"),
            Just("]"),
            Just("}"),
        ]
        .prop_map(str::to_owned);
        leaf.prop_recursive(5, 40, 4, |inner| {
            const REPEATS: [&str; 10] =
                ["*", "+", "?", "*?", "{0}", "{2}", "{1,3}", "{2,}", "{0,2}?", ""];
            prop_oneof![
                (inner.clone(), proptest::sample::select(&REPEATS[..]))
                    .prop_map(|(one, repeat)| format!("({one}){repeat}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("{a}{b}")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("(?:{a}|{b})")),
                (inner.clone(), inner).prop_map(|(a, b)| format!("{a}|{b}")),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn as_the_crate(pattern in pattern(), text in "[abcé1 .\n-]{0,8}") {
            let (Ok(regex), Some(steps)) = (compile(&pattern), Steps::new(&pattern)) else {
                return Ok(());
            };
            prop_assert_eq!(steps.is_match(&text), regex.is_match(&text), "{}", pattern);
        }
    }
}
