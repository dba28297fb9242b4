//! Whether a pattern matches a short text, by sets of places.
//!
//! For that it is enough to know, of every part of a pattern, where it may end if it begins at
//! given places; the places in a short text are the bits of one number. So a pattern is only read,
//! not compiled, which takes longer than all that templates do with most: a cold render of `trait/pvc` takes 59 µs so and
//! 83 µs with the automaton (docs/performance.md). No crate does this: regex-lite and regex-automata compile first.

/// Texts up to this length have a bit for each place.
pub(super) const SHORT: usize = 127;
/// Patterns that repeat to more than this are left to the automaton, which may refuse them.
const MAX_PARTS: u64 = 1000;
/// Positions visited before a text is left to the automaton, whose time is linear.
const MAX_STEPS: u32 = 1 << 14;
/// Ranges of a class that a character is compared with for one more step.
const RANGES_A_STEP: u32 = 8;

/// An index of the parts.
type Id = u32;
const NONE: Id = Id::MAX;

#[derive(Clone, Copy, Debug)]
enum Part {
    Start,
    End,
    Char(char),
    /// One character that is in one of `ranges[from..to]`, or in none.
    Class {
        from: u32,
        to: u32,
        negated: bool,
    },
    /// The first of a chain of parts that follow each other.
    Sequence(Id),
    /// The first of a chain of parts of which one will do.
    Either(Id),
    Repeat {
        part: Id,
        min: u32,
        max: u32,
    },
}

/// A pattern without flags, word boundaries and Unicode's classes.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Each with the next of its chain.
    parts: Vec<(Part, Id)>,
    ranges: Vec<(char, char)>,
    root: Id,
}

impl Places {
    /// Reads a translated pattern, if it is plain enough.
    pub(super) fn new(translated: &str) -> Option<Self> {
        let mut reader = Reader { rest: translated, read: Self::default() };
        let (root, _) = reader.either()?;
        reader.read.root = root;
        reader.rest.is_empty().then_some(reader.read)
    }

    /// Whether it matches somewhere in a text of up to [`SHORT`] bytes, `None` if that takes long;
    /// and the positions visited for that.
    pub(super) fn is_match(&self, text: &str) -> (Option<bool>, u64) {
        let end = u32::try_from(text.len()).ok().and_then(|len| 1_u128.checked_shl(len));
        let Some(end) = end else { return (None, 0) };
        let starts = text.char_indices().fold(end, |starts, (at, _)| starts | 1 << at);
        let mut search = Search { pattern: self, text, end, steps: MAX_STEPS };
        let ends = search.ends(self.root, starts);
        (ends.map(|ends| ends != 0), u64::from(MAX_STEPS - search.steps))
    }

    pub(super) fn memory(&self) -> u64 {
        (size_of_val(self.parts.as_slice()) + size_of_val(self.ranges.as_slice())) as u64
    }

    fn chain(&self, first: Id) -> impl Iterator<Item = Id> + use<'_> {
        let next = |at: &Id| self.parts.get(*at as usize).map(|(_, next)| *next);
        std::iter::successors(Some(first), next).take_while(|at| *at != NONE)
    }
}

struct Search<'a> {
    pattern: &'a Places,
    text: &'a str,
    /// The place behind the text.
    end: u128,
    steps: u32,
}

impl Search<'_> {
    /// Where a part may end that begins at one of some places. Recurses as deep as groups nest,
    /// which is limited.
    fn ends(&mut self, part: Id, starts: u128) -> Option<u128> {
        self.pay(starts.count_ones().max(1))?;
        let pattern = self.pattern;
        Some(match pattern.parts.get(part as usize)?.0 {
            Part::Start => starts & 1,
            Part::End => starts & self.end,
            Part::Char(wanted) => self.behind(starts, |c| c == wanted),
            Part::Class { from, to, negated } => {
                let ranges = pattern.ranges.get(from as usize..to as usize)?;
                self.pay(starts.count_ones().saturating_mul((to - from) / RANGES_A_STEP))?;
                let within = |c| ranges.iter().any(|&(low, high)| (low..=high).contains(&c));
                self.behind(starts, |c| within(c) != negated)
            }
            Part::Sequence(first) => {
                let mut places = starts;
                for part in pattern.chain(first) {
                    places = self.ends(part, places)?;
                }
                places
            }
            Part::Either(first) => {
                let mut places = 0;
                for part in pattern.chain(first) {
                    places |= self.ends(part, starts)?;
                }
                places
            }
            Part::Repeat { part, min, max } => {
                let mut places = starts;
                for _ in 0..min {
                    let ends = self.ends(part, places)?;
                    if ends == places {
                        break;
                    }
                    places = ends;
                }
                // From where it has ended already nothing new comes.
                let mut new = places;
                for _ in min..max {
                    new = self.ends(part, new)? & !places;
                    if new == 0 {
                        break;
                    }
                    places |= new;
                }
                places
            }
        })
    }

    fn pay(&mut self, steps: u32) -> Option<()> {
        let left = self.steps.checked_sub(steps);
        self.steps = left.unwrap_or(0);
        left.map(|_| ())
    }

    /// The places behind those characters at some places that are wanted.
    fn behind(&self, starts: u128, wanted: impl Fn(char) -> bool) -> u128 {
        let (mut places, mut left) = (0, starts & !self.end);
        while left != 0 {
            let at = left.trailing_zeros();
            left &= left - 1;
            let found = self.text.get(at as usize..).and_then(|rest| rest.chars().next());
            if let Some(c) = found.filter(|c| wanted(*c)) {
                places |= 1 << (at as usize + c.len_utf8());
            }
        }
        places
    }
}

/// Reads what [`super::translate`] writes.
struct Reader<'a> {
    rest: &'a str,
    read: Places,
}

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let rest = self.rest.strip_prefix(text);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn next(&mut self) -> Option<char> {
        let mut chars = self.rest.chars();
        let c = chars.next();
        self.rest = chars.as_str();
        c
    }

    fn add(&mut self, part: Part) -> Option<Id> {
        let id = Id::try_from(self.read.parts.len()).ok()?;
        self.read.parts.push((part, NONE));
        Some(id)
    }

    /// Puts a part at the end of a chain.
    fn link(&mut self, (first, last): &mut (Id, Id), part: Id) {
        match self.read.parts.get_mut(*last as usize) {
            Some((_, next)) => *next = part,
            None => *first = part,
        }
        *last = part;
    }

    /// Alternatives up to the end or a closing parenthesis, and how many parts they repeat to.
    fn either(&mut self) -> Option<(Id, u64)> {
        let (mut chain, mut size) = ((NONE, NONE), 0);
        loop {
            let (part, of_part) = self.sequence()?;
            self.link(&mut chain, part);
            size += of_part;
            if size > MAX_PARTS {
                return None;
            }
            if !self.eat("|") {
                break;
            }
        }
        let only = chain.0 == chain.1;
        Some((if only { chain.0 } else { self.add(Part::Either(chain.0))? }, size))
    }

    fn sequence(&mut self) -> Option<(Id, u64)> {
        let (mut chain, mut size) = ((NONE, NONE), 1);
        while !self.rest.is_empty() && !self.rest.starts_with(['|', ')']) {
            let (mut part, mut of_part) = self.atom()?;
            if let Some((min, max)) = self.counts()? {
                self.eat("?");
                part = self.add(Part::Repeat { part, min, max })?;
                // Without an end it is compiled once more than it has to be there.
                let times = if max == u32::MAX { min.saturating_add(1) } else { max };
                of_part *= u64::from(times.max(1));
            }
            self.link(&mut chain, part);
            size += of_part;
            if size > MAX_PARTS {
                return None;
            }
        }
        Some((self.add(Part::Sequence(chain.0))?, size))
    }

    fn atom(&mut self) -> Option<(Id, u64)> {
        let part = match self.next()? {
            '(' => {
                if self.eat("?P<") {
                    self.rest = self.rest.split_once('>')?.1;
                } else if self.rest.starts_with('?') && !self.eat("?:") {
                    return None;
                }
                let group = self.either()?;
                return self.eat(")").then_some(group);
            }
            '[' => {
                let from = self.read.ranges.len();
                let negated = self.eat("^");
                self.class()?;
                let size = self.read.ranges.len() - from;
                let (from, to) = (u32::try_from(from).ok()?, from + size);
                let class = Part::Class { from, to: u32::try_from(to).ok()?, negated };
                return Some((self.add(class)?, u64::try_from(size).ok()?));
            }
            '^' => Part::Start,
            '$' => Part::End,
            '.' => {
                let from = u32::try_from(self.read.ranges.len()).ok()?;
                self.read.ranges.push(('\n', '\n'));
                Part::Class { from, to: from + 1, negated: true }
            }
            '\\' if self.eat("A") => Part::Start,
            '\\' if self.eat("z") => Part::End,
            '\\' => Part::Char(self.escaped()?),
            c => Part::Char(c),
        };
        Some((self.add(part)?, 1))
    }

    /// A repetition operator, if one follows.
    fn counts(&mut self) -> Option<Option<(u32, u32)>> {
        Some(match self.rest.chars().next() {
            Some('*') => self.next().map(|_| (0, u32::MAX)),
            Some('+') => self.next().map(|_| (1, u32::MAX)),
            Some('?') => self.next().map(|_| (0, 1)),
            Some('{') => {
                let (counts, rest) = self.rest.get(1..)?.split_once('}')?;
                self.rest = rest;
                Some(match counts.split_once(',') {
                    None => (counts.parse().ok()?, counts.parse().ok()?),
                    Some((min, "")) => (min.parse().ok()?, u32::MAX),
                    Some((min, max)) => (min.parse().ok()?, max.parse().ok()?),
                })
            }
            _ => None,
        })
    }

    /// The ranges of a class up to its end; of a class within it, too.
    fn class(&mut self) -> Option<()> {
        while !self.eat("]") {
            if self.eat("[") {
                if self.rest.starts_with(['^', ':']) {
                    return None;
                }
                self.class()?;
                continue;
            }
            let low = self.class_char()?;
            let high = if self.eat("-") { self.class_char()? } else { low };
            self.read.ranges.push((low, high));
        }
        Some(())
    }

    fn class_char(&mut self) -> Option<char> {
        match self.next()? {
            '\\' => self.escaped(),
            c => Some(c),
        }
    }

    /// Behind a backslash: punctuation, or a control character by its number.
    fn escaped(&mut self) -> Option<char> {
        match self.next()? {
            'x' => {
                let digits = self.rest.get(..2)?;
                self.rest = self.rest.get(2..)?;
                char::from_u32(u32::from_str_radix(digits, 16).ok()?)
            }
            c => c.is_ascii_punctuation().then_some(c),
        }
    }
}
