//! Two languages of file patterns: `.Files.Glob` has alternatives and `**`, `.helmignore` has Go's `path.Match`.
//!
//! Our own: globset and glob differ from both in `**`, in classes and in what is an error.

/// A pattern that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("syntax error in pattern")]
pub struct BadPattern;

/// Longer patterns and texts with more alternatives are taken as unreadable.
const LONGEST: usize = 4096;
const MOST_ALTERNATIVES: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Char(char),
    /// One character that is no separator.
    One,
    /// Any number of characters that are no separators.
    Some,
    /// Any number of characters.
    Any,
    Class {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Piece {
    fn admits(&self, char: char) -> bool {
        match self {
            Self::Char(own) => *own == char,
            Self::One | Self::Some => char != '/',
            Self::Any => true,
            Self::Class { negated, ranges } => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&char)) != *negated
            }
        }
    }
}

/// A pattern of `.Files.Glob`.
#[derive(Debug, Clone)]
pub(crate) struct Glob(Vec<Vec<Piece>>);

impl Glob {
    /// Reads a pattern; one that cannot be read matches everything, as in Helm.
    pub(crate) fn new(pattern: &str) -> Self {
        Self::read(pattern).unwrap_or_else(|| Self(vec![vec![Piece::Any]]))
    }

    fn read(pattern: &str) -> Option<Self> {
        if pattern.len() > LONGEST {
            return None;
        }
        let chars: Vec<char> = pattern.chars().collect();
        let mut reader = Reader { chars: &chars, at: 0, depth: 0 };
        let alternatives = reader.sequence()?;
        (reader.at == chars.len()).then_some(Self(alternatives))
    }

    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.0.iter().any(|pieces| matches(pieces, &text))
    }
}

struct Reader<'a> {
    chars: &'a [char],
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn next(&mut self) -> Option<char> {
        let char = self.peek()?;
        self.at += 1;
        Some(char)
    }

    /// Everything up to a comma or bracket that belongs to the alternatives around, with all alternatives inside
    /// multiplied out.
    fn sequence(&mut self) -> Option<Vec<Vec<Piece>>> {
        let mut all: Vec<Vec<Piece>> = vec![Vec::new()];
        while let Some(char) = self.peek() {
            if self.depth > 0 && matches!(char, ',' | '}') {
                break;
            }
            self.at += 1;
            let piece = match char {
                '*' if self.peek() == Some('*') => {
                    while self.peek() == Some('*') {
                        self.at += 1;
                    }
                    Piece::Any
                }
                '*' => Piece::Some,
                '?' => Piece::One,
                '[' => self.class()?,
                '\\' => Piece::Char(self.next()?),
                '{' => {
                    let inner = self.alternatives()?;
                    if all.len() * inner.len() > MOST_ALTERNATIVES {
                        return None;
                    }
                    let join = |head: &Vec<Piece>| {
                        inner
                            .iter()
                            .map(|tail| head.iter().chain(tail).cloned().collect())
                            .collect::<Vec<_>>()
                    };
                    all = all.iter().flat_map(join).collect();
                    continue;
                }
                char => Piece::Char(char),
            };
            for sequence in &mut all {
                sequence.push(piece.clone());
            }
        }
        Some(all)
    }

    fn alternatives(&mut self) -> Option<Vec<Vec<Piece>>> {
        self.depth += 1;
        if self.depth > 16 {
            return None;
        }
        let mut all = Vec::new();
        loop {
            all.extend(self.sequence()?);
            match self.next()? {
                ',' => {}
                _ => break,
            }
        }
        self.depth -= 1;
        Some(all)
    }

    fn class(&mut self) -> Option<Piece> {
        let negated = self.peek() == Some('!');
        if negated {
            self.at += 1;
        }
        let mut ranges = Vec::new();
        loop {
            let low = match self.next()? {
                ']' if !ranges.is_empty() => break,
                ']' => return None,
                '\\' => self.next()?,
                char => char,
            };
            let range = self.peek() == Some('-')
                && self.chars.get(self.at + 1).is_some_and(|char| *char != ']');
            let high = if range {
                self.at += 1;
                match self.next()? {
                    '\\' => self.next()?,
                    char => char,
                }
            } else {
                low
            };
            ranges.push((low, high));
        }
        Some(Piece::Class { negated, ranges })
    }
}

/// Whether the pieces describe the whole text. The work is the product of their lengths, whatever the stars.
fn matches(pieces: &[Piece], text: &[char]) -> bool {
    // The positions of the text that the pieces so far may end at.
    let mut reachable = vec![false; text.len() + 1];
    if let Some(start) = reachable.first_mut() {
        *start = true;
    }
    for piece in pieces {
        let star = matches!(piece, Piece::Some | Piece::Any);
        let mut next = vec![false; text.len() + 1];
        let mut running = false;
        for (at, from) in reachable.iter().enumerate() {
            if star {
                running |= *from;
                if running && let Some(to) = next.get_mut(at) {
                    *to = true;
                }
                running = running && text.get(at).is_some_and(|char| piece.admits(*char));
            } else if *from
                && text.get(at).is_some_and(|char| piece.admits(*char))
                && let Some(to) = next.get_mut(at + 1)
            {
                *to = true;
            }
        }
        reachable = next;
    }
    reachable.last().copied().unwrap_or(false)
}

/// Go's `path.Match`: stars do not cross slashes, there is no `**`.
pub(crate) fn path_match(pattern: &str, text: &str) -> Result<bool, BadPattern> {
    if pattern.len() > LONGEST {
        return Err(BadPattern);
    }
    let chars: Vec<char> = pattern.chars().collect();
    let mut reader = Reader { chars: &chars, at: 0, depth: 0 };
    let mut pieces = Vec::new();
    while let Some(char) = reader.next() {
        pieces.push(match char {
            '*' => Piece::Some,
            '?' => Piece::One,
            '\\' => Piece::Char(reader.next().ok_or(BadPattern)?),
            '[' => {
                let negated = reader.peek() == Some('^');
                if negated {
                    reader.at += 1;
                }
                match reader.class().ok_or(BadPattern)? {
                    Piece::Class { ranges, .. } => Piece::Class { negated, ranges },
                    other => other,
                }
            }
            char => Piece::Char(char),
        });
    }
    let text: Vec<char> = text.chars().collect();
    Ok(matches(&pieces, &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_know_separators_alternatives_and_classes() {
        for (pattern, text, want) in [
            ("files/*", "files/a.txt", true),
            ("files/*", "files/sub/a.txt", false),
            ("files/**", "files/sub/a.txt", true),
            ("**.txt", "files/sub/a.txt", true),
            ("files/{a,b}.*", "files/b.conf", true),
            ("files/{a,{b,c}d}", "files/cd", true),
            ("f/[a-b].x", "f/b.x", true),
            ("f/[!a].x", "f/a.x", false),
            ("f/?.x", "f//.x", false),
            ("a\\*", "a*", true),
            ("", "", true),
            ("[", "anything/at/all", true),
            ("{a", "anything", true),
        ] {
            assert_eq!(Glob::new(pattern).matches(text), want, "{pattern} {text}");
        }
        let hostile = format!("{}b", "*a".repeat(1000));
        assert!(!Glob::new(&hostile).matches(&"a".repeat(2000)));
    }

    #[test]
    fn path_patterns_are_those_of_go() {
        for (pattern, text, want) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "x/a.txt", false),
            ("templates/.?*", "templates/.a", true),
            ("templates/.?*", "templates/.", false),
            ("[^a]b", "cb", true),
            ("[a-c]", "b", true),
            ("a,{b}", "a,{b}", true),
        ] {
            assert_eq!(path_match(pattern, text), Ok(want), "{pattern} {text}");
        }
        assert_eq!(path_match("[a", "a"), Err(BadPattern));
        assert_eq!(path_match("a\\", "a"), Err(BadPattern));
    }
}
