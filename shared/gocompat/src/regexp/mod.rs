//! Regular expressions in Go's syntax (RE2) on the `regex` crate.
//!
//! Both engines are linear and leftmost-first; their syntaxes differ in details that silently
//! change meaning: `\d \w \s \b` are ASCII in Go, `a{` and `a{,2}` are literals, `[[a]&&b]` is no
//! set operation, `\Q..\E` exists, `a**` does not. [`translate`] reads Go's grammar and writes the
//! crate's; [`compile`] adds the limits that an untrusted pattern needs, and every search is paid
//! for ([`Meter`]).

mod engine;
mod places;
mod translate;

use std::fmt;
use std::sync::OnceLock;

use regex_automata::nfa::thompson::backtrack::{self, BoundedBacktracker};
use regex_automata::nfa::thompson::{BuildError, WhichCaptures};

pub use engine::{Allowance, Found, Meter, Regexp, Spent};
use places::{Places, SHORT};
pub use translate::translate;

/// Compiled size beyond which a pattern is refused.
pub const SIZE_LIMIT: usize = 4 << 20;
/// Cache of states built while matching; when full it is emptied, which costs time only.
pub const CACHE_LIMIT: usize = 256 << 10;
/// Nesting beyond which a pattern is refused.
pub const NEST_LIMIT: u32 = 250;
/// Bytes beyond which a pattern is refused: its syntax tree takes some hundred times as many.
pub const LENGTH_LIMIT: usize = 64 << 10;
/// Mentions of Unicode classes beyond which a pattern is refused: each takes kilobytes.
const MAX_UNICODE_CLASSES: usize = 256;
/// Largest count in a repetition, as in Go.
const MAX_REPEAT: u32 = 1000;

/// Why a pattern was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegexpError {
    /// What is wrong, in Go's words.
    pub code: ErrorCode,
    /// The offending part of the pattern.
    pub part: String,
}

/// Go's `syntax.ErrorCode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorCode {
    /// A range such as `z-a`, or an unknown Unicode class.
    InvalidCharRange,
    /// An escape that means nothing.
    InvalidEscape,
    /// A bad group name.
    InvalidNamedCapture,
    /// `(?` followed by something unknown.
    InvalidPerlOp,
    /// `a**`.
    InvalidRepeatOp,
    /// `a{1001}` or `a{2,1}`.
    InvalidRepeatSize,
    /// No `]`.
    MissingBracket,
    /// No `)`.
    MissingParen,
    /// `*` with nothing before it.
    MissingRepeatArgument,
    /// A backslash at the end.
    TrailingBackslash,
    /// `)` without `(`.
    UnexpectedParen,
    /// Nested too deeply.
    NestingDepth,
    /// Compiles to too much.
    Large,
}

impl ErrorCode {
    /// Whether this is a limit rather than a mistake.
    #[must_use]
    pub fn is_limit(self) -> bool {
        matches!(self, Self::NestingDepth | Self::Large)
    }

    fn text(self) -> &'static str {
        match self {
            Self::InvalidCharRange => "invalid character class range",
            Self::InvalidEscape => "invalid escape sequence",
            Self::InvalidNamedCapture => "invalid named capture",
            Self::InvalidPerlOp => "invalid or unsupported Perl syntax",
            Self::InvalidRepeatOp => "invalid nested repetition operator",
            Self::InvalidRepeatSize => "invalid repeat count",
            Self::MissingBracket => "missing closing ]",
            Self::MissingParen => "missing closing )",
            Self::MissingRepeatArgument => "missing argument to repetition operator",
            Self::TrailingBackslash => "trailing backslash at end of expression",
            Self::UnexpectedParen => "unexpected )",
            Self::NestingDepth => "expression nests too deeply",
            Self::Large => "expression too large",
        }
    }
}

impl fmt::Display for RegexpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error parsing regexp: {}: `{}`", self.code.text(), self.part)
    }
}

impl std::error::Error for RegexpError {}

type Result<T> = std::result::Result<T, RegexpError>;

/// `regexp.Compile` under limits.
///
/// # Errors
/// If the pattern is none in Go, or compiles to more than [`SIZE_LIMIT`].
pub fn compile(pattern: &str) -> Result<Regexp> {
    compile_within(pattern, SIZE_LIMIT)
}

/// The same with another limit of the compiled size.
///
/// # Errors
/// If the pattern is none in Go, or compiles to more than `size`.
pub fn compile_within(pattern: &str, size: usize) -> Result<Regexp> {
    build(pattern, &translate(pattern)?, WhichCaptures::All, size)
}

fn build(pattern: &str, translated: &str, captures: WhichCaptures, size: usize) -> Result<Regexp> {
    let refused = |code| RegexpError { code, part: shorten(pattern) };
    let nfa = engine::automaton(translated, captures, size).map_err(|e| refused(why(&e)))?;
    Regexp::new(&nfa).ok_or_else(|| refused(ErrorCode::Large))
}

fn why(error: &BuildError) -> ErrorCode {
    match error.size_limit() {
        Some(_) => ErrorCode::Large,
        None => ErrorCode::InvalidCharRange,
    }
}

/// A pattern that only says whether it matches.
///
/// Building all the engines of a [`Regexp`] takes longer than matching a short text does in the
/// simplest way. So they are built when the first long text comes.
///
/// ```
/// use vela_gocompat::regexp::{Allowance, Matcher};
///
/// let quantity = Matcher::new("^[1-9][0-9]{0,63}(Ki|Mi|Gi)$").unwrap();
/// let mut allowance = Allowance(10_000);
/// assert_eq!(quantity.is_match("8Gi", &mut allowance), Ok(true));
/// assert_eq!(quantity.is_match("8 Gi", &mut allowance), Ok(false));
/// ```
#[derive(Debug)]
pub struct Matcher {
    translated: String,
    short: Short,
    long: OnceLock<Option<Box<Regexp>>>,
}

/// What matches short texts.
#[derive(Debug)]
enum Short {
    /// A plain pattern.
    Places(Places),
    /// Any other: backtracking over the crate's automaton, in linear time.
    Automaton(BoundedBacktracker),
}

impl Matcher {
    /// `regexp.Compile` under limits.
    ///
    /// # Errors
    /// As [`compile`].
    pub fn new(pattern: &str) -> Result<Self> {
        let translated = translate(pattern)?;
        let short = match Places::new(&translated) {
            Some(places) => Short::Places(places),
            None => Short::Automaton(automaton(pattern, &translated)?),
        };
        Ok(Self { translated, short, long: OnceLock::new() })
    }

    /// Whether the pattern matches somewhere in the text.
    ///
    /// # Errors
    /// When the search cannot be paid for.
    pub fn is_match<M: Meter>(
        &self,
        text: &str,
        meter: &mut M,
    ) -> std::result::Result<bool, M::Error> {
        match &self.short {
            Short::Places(places) if text.len() <= SHORT => {
                let (matched, work) = places.is_match(text);
                meter.work(work)?;
                if let Some(matched) = matched {
                    return Ok(matched);
                }
            }
            Short::Automaton(automaton)
                if text.len() <= automaton.max_haystack_len().min(SHORT) =>
            {
                let states = automaton.get_nfa().states().len() as u64;
                meter.work(states.saturating_mul(text.len() as u64 + 1))?;
                if let Ok(matched) = automaton.try_is_match(&mut automaton.create_cache(), text) {
                    return Ok(matched);
                }
            }
            Short::Places(_) | Short::Automaton(_) => {}
        }
        if self.long.get().is_none() {
            // What a plain pattern compiles to is not known before; it is not much.
            meter.work(self.translated.len() as u64 * 64)?;
        }
        match self.long.get_or_init(|| self.engines()) {
            Some(long) => long.is_match(text, meter),
            // A pattern that was read compiles; to say that it does not match would let pass what
            // `!~` forbids.
            None => meter.work(u64::MAX).map(|()| false),
        }
    }

    fn engines(&self) -> Option<Box<Regexp>> {
        match &self.short {
            Short::Automaton(automaton) => Regexp::new(automaton.get_nfa()).map(Box::new),
            Short::Places(_) => {
                build(&self.translated, &self.translated, WhichCaptures::None, SIZE_LIMIT)
                    .ok()
                    .map(Box::new)
            }
        }
    }

    /// Bytes that it takes, with the engines for long texts.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let short = match &self.short {
            Short::Places(places) => places.memory(),
            Short::Automaton(automaton) => automaton.get_nfa().memory_usage() as u64,
        };
        let long = self.long.get().and_then(Option::as_ref).map_or(0, |long| long.memory());
        self.translated.len() as u64 + short + long
    }
}

fn automaton(pattern: &str, translated: &str) -> Result<BoundedBacktracker> {
    let refused = |code| RegexpError { code, part: shorten(pattern) };
    let nfa = engine::automaton(translated, WhichCaptures::None, SIZE_LIMIT)
        .map_err(|e| refused(why(&e)))?;
    // Bits for each state at each place of a short text.
    let visited = nfa.states().len().saturating_mul(SHORT + 1).div_ceil(8).min(CACHE_LIMIT);
    backtrack::Builder::new()
        .configure(backtrack::Config::new().visited_capacity(visited))
        .build_from_nfa(nfa)
        .map_err(|e| refused(why(&e)))
}

/// `regexp.QuoteMeta`.
#[must_use]
pub fn quote_meta(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if r"\.+*?()|[]{}^$".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn shorten(pattern: &str) -> String {
    let mut part: String = pattern.chars().take(100).collect();
    if part.len() < pattern.len() {
        part.push_str("...");
    }
    part
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;

    const FREE: Allowance = Allowance(u64::MAX);

    fn matches(matcher: &Matcher, text: &str) -> bool {
        matcher.is_match(text, &mut { FREE }).unwrap()
    }

    fn find(regexp: &Regexp, text: &str) -> Option<String> {
        let whole = |_: &mut Allowance, found: Found<'_>| Ok(found.group(0).unwrap().to_owned());
        regexp.first(text, &mut { FREE }, whole).unwrap()
    }

    /// All matches with their groups.
    fn all(regexp: &Regexp, text: &str) -> Vec<Vec<Option<String>>> {
        let mut all = Vec::new();
        let each = |_: &mut Allowance, found: &Found<'_>| {
            all.push((0..found.groups()).map(|i| found.group(i).map(str::to_owned)).collect());
            Ok(())
        };
        regexp.each(text, usize::MAX, &mut { FREE }, each).unwrap();
        all
    }

    fn all_of_the_crate(translated: &str, text: &str) -> Vec<Vec<Option<String>>> {
        let group = |m: Option<regex::Match<'_>>| m.map(|m| m.as_str().to_owned());
        let regex = regex::Regex::new(translated).unwrap();
        regex.captures_iter(text).map(|found| found.iter().map(group).collect()).collect()
    }

    #[test]
    fn meaning_is_that_of_go() {
        // pattern, text, first match
        for (pattern, text, want) in [
            (r"\d+", "a٣1", Some("1")),
            (r"\w+", "é_a1", Some("_a1")),
            (r"\s", "\u{a0}\u{b}", None),
            (r"\bx\b", "éx", Some("x")),
            (r"a{", "xa{", Some("a{")),
            (r"a{,2}", "a{,2}", Some("a{,2}")),
            (r"a{2,3}?", "aaaa", Some("aa")),
            (r"{", "{", Some("{")),
            (r"}", "}", Some("}")),
            (r"[a&&b]+", "c&a&b", Some("&a&b")),
            (r"[[a]+", "x[[a", Some("[[a")),
            (r"[]a]+", "]a]", Some("]a]")),
            (r"[^]a]", "]ab", Some("b")),
            (r"[a-]+", "x-a", Some("-a")),
            (r"[-a]+", "x-a", Some("-a")),
            // A hyphen may stand anywhere in Perl's syntax.
            (r"[0-9-_]+", "a1-_", Some("1-_")),
            (r"[a-b-c]+", "xa-c", Some("a-c")),
            (r"[\d-z]+", "x1-z", Some("1-z")),
            (r"[--/]+", "a-./", Some("-./")),
            (r"[\d-]+", "x1-2", Some("1-2")),
            (r"[a~~b-]*", "a~b-", Some("a~b-")),
            (r"[[:word:]]+", "é_9", Some("_9")),
            (r"[[:^alpha:]]", "aé", Some("é")),
            (r"\Qa.b\E+", "a.bbb", Some("a.bbb")),
            (r"\Q(", "(", Some("(")),
            (r"\x41\x{42}\103\0", "ABC\0", Some("ABC\0")),
            (r"\a\f\t\n\r\v", "\u{7}\u{c}\t\n\r\u{b}", Some("\u{7}\u{c}\t\n\r\u{b}")),
            (r"\pN\p{Greek}\PL", "1α2", Some("1α2")),
            (r"\p{^Greek}", "αa", Some("a")),
            (r"(?i)K", "\u{212a}", Some("\u{212a}")),
            (r"(?s).", "\n", Some("\n")),
            (r".", "\n", None),
            (r"a$", "a\n", None),
            (r"(?m)a$", "a\nb", Some("a")),
            (r"(?U)a+", "aaa", Some("a")),
            (r"(?P<x>a)(?<y>b)", "ab", Some("ab")),
            (r"a|b*", "b", Some("b")),
            (r"(|a)+", "aa", Some("")),
            (r"^*", "a", Some("")),
            (r"a#b c", "a#b c", Some("a#b c")),
            (r"(?)a", "a", Some("a")),
            (r"\z", "", Some("")),
            ("a\\-b", "a-b", Some("a-b")),
            ("[é-ü]", "ö", Some("ö")),
            (r"(?:b|[^[:word:]])a.", "aé", None),
            (r"(?:b|[^[:word:]])a.", "xbaé", Some("baé")),
        ] {
            let regex = compile(pattern).unwrap_or_else(|e| panic!("{pattern}: {e}"));
            assert_eq!(find(&regex, text).as_deref(), want, "{pattern} on {text:?}");
            let theirs = all_of_the_crate(&translate(pattern).unwrap(), text);
            assert_eq!(all(&regex, text), theirs, "{pattern} on {text:?}");
            let matcher = Matcher::new(pattern).unwrap();
            for text in [text.to_owned(), format!("{text}{}", "é\n".repeat(SHORT))] {
                let matched = regex.is_match(&text, &mut { FREE }).unwrap();
                assert_eq!(matches(&matcher, &text), matched, "{pattern} on {text:?}");
            }
        }
    }

    #[test]
    fn errors_are_those_of_go() {
        for (pattern, error) in [
            ("(", "missing closing ): `(`"),
            (")", "unexpected ): `)`"),
            ("(a", "missing closing ): `(a`"),
            ("a)", "unexpected ): `a)`"),
            ("(a))", "unexpected ): `(a))`"),
            ("[a", "missing closing ]: `[a`"),
            ("x[", "missing closing ]: `[`"),
            ("[]", "missing closing ]: `[]`"),
            ("[z-a]", "invalid character class range: `z-a`"),
            ("[a-\\d]", "invalid escape sequence: `\\d`"),
            ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
            ("*", "missing argument to repetition operator: `*`"),
            ("a|*", "missing argument to repetition operator: `*`"),
            ("(*)", "missing argument to repetition operator: `*`"),
            ("(?i)*", "missing argument to repetition operator: `*`"),
            ("a**", "invalid nested repetition operator: `**`"),
            ("a*+", "invalid nested repetition operator: `*+`"),
            ("a??*", "invalid nested repetition operator: `??*`"),
            ("a{2}*", "invalid nested repetition operator: `{2}*`"),
            ("a{1001}", "invalid repeat count: `{1001}`"),
            ("a{2,1}", "invalid repeat count: `{2,1}`"),
            ("\\", "trailing backslash at end of expression: ``"),
            ("\\8", "invalid escape sequence: `\\8`"),
            ("\\1", "invalid escape sequence: `\\1`"),
            ("\\C", "invalid escape sequence: `\\C`"),
            ("\\Z", "invalid escape sequence: `\\Z`"),
            ("\\pX", "invalid character class range: `\\pX`"),
            ("\\p{greek}", "invalid character class range: `\\p{greek}`"),
            ("\\p{Nope}", "invalid character class range: `\\p{Nope}`"),
            ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
            ("(?P<1 >a)", "invalid named capture: `(?P<1 >`"),
            ("(?P<n>a)(?P<n>b)", "invalid named capture: `(?P<n>`"),
            ("(?P<n", "invalid named capture: `(?P<n`"),
            ("(?i", "missing closing ): `(?i`"),
            ("(?-)", "invalid or unsupported Perl syntax: `(?-)`"),
        ] {
            let got = compile(pattern).map(|_| pattern).unwrap_err().to_string();
            assert_eq!(got, format!("error parsing regexp: {error}"), "{pattern}");
            assert_eq!(Matcher::new(pattern).unwrap_err().to_string(), got);
        }
    }

    #[test]
    fn patterns_of_schemas_are_plain() {
        for (pattern, is_plain) in [
            ("^([1-9][0-9]{0,63})(E|P|T|G|M|K|Ei|Pi|Ti|Gi|Mi|Ki)$", true),
            (r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$", true),
            (r"^\d{4}-\d{2}T(\.[0-9]+)?(?:Z|[+-]\d{2}:\d{2})$", true),
            (r"[\d.-]|(?P<n>x|)*?$", true),
            ("[[:alpha:]]+", false),
            ("(?i)k", false),
            (r"\bx", false),
            (r"\pL", false),
            ("[[:^alpha:]]", false),
        ] {
            let matcher = Matcher::new(pattern).unwrap();
            assert_eq!(matches!(matcher.short, Short::Places(_)), is_plain, "{pattern}");
        }
    }

    fn pattern() -> impl Strategy<Value = String> {
        const LEAVES: [&str; 22] = [
            "a",
            "b",
            "é",
            ".",
            "[ab]",
            "[^a]",
            "[]a]",
            "[a-cé]",
            "[--a]",
            r"[\d-]",
            r"\d",
            r"\W",
            r"\S",
            r"[\D]",
            "^",
            "$",
            "",
            r"\.",
            "-",
            "]",
            "[[:^digit:]]",
            "[^[:word:]]",
        ];
        const REPEATS: [&str; 10] =
            ["*", "+", "?", "*?", "{0}", "{2}", "{1,3}", "{2,}", "{0,2}?", ""];
        let leaf = select(&LEAVES[..]).prop_map(str::to_owned);
        leaf.prop_recursive(5, 40, 4, |inner| {
            prop_oneof![
                (inner.clone(), select(&REPEATS[..]))
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
        fn short_texts_match_as_long_ones(pattern in pattern(), text in "[abcé1 .\n-]{0,16}") {
            if let (Ok(regex), Ok(matcher)) = (compile(&pattern), Matcher::new(&pattern)) {
                let matched = regex.is_match(&text, &mut { FREE }).unwrap();
                prop_assert_eq!(matches(&matcher, &text), matched, "{}", pattern);
            }
        }

        #[test]
        fn all_matches_are_those_of_the_crate(pattern in pattern(), text in "[abcé1 .\n-]{0,40}") {
            if let (Ok(regex), Ok(translated)) = (compile(&pattern), translate(&pattern)) {
                prop_assert_eq!(all(&regex, &text), all_of_the_crate(&translated, &text), "{}", pattern);
            }
        }
    }

    #[test]
    fn what_takes_long_by_places_is_left_to_the_automaton() {
        let (nested, text) = ("^((a*x)?(a*y)?(a*z)?a)*$", "a".repeat(SHORT));
        assert_eq!(Places::new(&translate(nested).unwrap()).unwrap().is_match(&text).0, None);
        for (text, want) in [
            (text.replacen("aa", "ax", 1), true),
            (text.replacen("aa", "ab", 1), false),
            (text, true),
        ] {
            assert_eq!(matches(&Matcher::new(nested).unwrap(), &text), want, "{text}");
        }
        // The largest plain pattern is small enough for all engines.
        let large = "([^é-ü]{24}){39}";
        let matcher = Matcher::new(large).unwrap();
        assert!(matches!(matcher.short, Short::Places(_)));
        assert!(matches(&matcher, &"a".repeat(936)) && !matches(&matcher, &"a".repeat(935)));
        assert!(!matches!(
            Matcher::new(&large.replace("39", "50")).unwrap().short,
            Short::Places(_)
        ));
    }

    #[test]
    fn hostile_patterns_end() {
        for pattern in [
            "((a{1000}){1000}){1000}".to_owned(),
            "(".repeat(100_000),
            "(a".repeat(5000) + &")".repeat(5000),
            "a".repeat(LENGTH_LIMIT + 1),
            "[[:alpha:]]{1000}".repeat(1000),
            r"\pL{1000}".to_owned(),
            r"\pL".repeat(10_000),
            "a[ab]{1000}".repeat(100),
        ] {
            let refused = Matcher::new(&pattern).unwrap_err();
            assert_eq!(refused, compile(&pattern).unwrap_err());
            assert!(refused.code.is_limit(), "{refused}");
        }
        // Each of these searched the end of something at every character.
        for part in ["{", "[[:", "(?P<n", "[[:a"] {
            let pattern = part.repeat(LENGTH_LIMIT / part.len());
            assert!(Matcher::new(&pattern).is_ok() || compile(&pattern).is_err(), "{part}");
        }
        let groups: String = (0..5000).map(|i| format!("(?P<n{i}>)")).collect();
        assert!(compile(&groups).unwrap_err().code.is_limit(), "groups of many states");
    }

    /// A kilobyte of pattern that compiles to tens of thousands of states.
    fn large() -> String {
        format!("a{}[^ab]", "[ab]{300}".repeat(100))
    }

    #[test]
    fn a_search_is_paid_for_by_states_and_bytes() {
        let text = "ab".repeat(51_000);
        let mut allowance = Allowance(1 << 30);
        let matcher = Matcher::new(&large()).unwrap();
        assert_eq!(matcher.is_match(&text, &mut allowance), Err(Spent));
        assert!(allowance.0 > 1 << 29, "refused before it is searched: {allowance:?}");
        let regexp = compile(&large()).unwrap();
        assert_eq!(regexp.is_match(&text, &mut allowance), Err(Spent));
        assert_eq!(regexp.first(&text, &mut allowance, |_, _| Ok(())), Err(Spent));
        assert_eq!(regexp.each(&text, 1, &mut allowance, |_, _| Ok(())), Err(Spent));

        // What a search costs grows with both.
        let cost = |pattern: &str, text: &str| {
            let mut allowance = FREE;
            compile(pattern).unwrap().is_match(text, &mut allowance).unwrap();
            FREE.0 - allowance.0
        };
        let small = cost("(?:ab){10}c", &"ab".repeat(1000));
        assert!(cost("(?:ab){10}c", &"ab".repeat(2000)) > small * 3 / 2);
        assert!(cost("(?:ab){20}c", &"ab".repeat(1000)) > small * 3 / 2);
        // An early end is not paid for as if all had been searched.
        assert!(cost("ab", &"ab".repeat(100_000)) < small);
        assert!(cost("^b", &"ab".repeat(100_000)) < small);
    }

    #[test]
    fn many_matches_are_paid_for_by_what_is_searched() {
        let work = |pattern: &str, text: &str| {
            let mut allowance = FREE;
            compile(pattern)
                .unwrap()
                .each(text, usize::MAX, &mut allowance, |_, _| Ok(()))
                .unwrap();
            FREE.0 - allowance.0
        };
        let linear = |n: usize| work(r"\d+", &"12 ".repeat(n));
        assert!(linear(4000) < linear(2000) * 3, "{} {}", linear(2000), linear(4000));
        // For each match the rest of the text is searched for a better one.
        let quadratic = |n: usize| work("[a-z]*[0-9]|[a-z]", &"a".repeat(n));
        assert!(quadratic(400) > quadratic(200) * 3, "{} {}", quadratic(200), quadratic(400));
    }

    #[test]
    fn meta_characters() {
        assert_eq!(quote_meta("a.b*[c]-d"), r"a\.b\*\[c\]-d");
    }
}
