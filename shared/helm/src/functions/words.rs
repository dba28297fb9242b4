//! Letters and words: case, initials, abbreviations, line wrapping, names in other conventions.

use gotemplate::{Args, Function, Str, Value};

use super::table::{Context, INT, Result, STRING, function, text};
use crate::engine::state::State;

pub(super) static TABLE: &[Function<State>] = &[
    function("upper", &[STRING], |call, args| mapped(call, args, upper)),
    function("lower", &[STRING], |call, args| mapped(call, args, lower)),
    function("title", &[STRING], |call, args| text(call, title(&args.text(0)))),
    function("untitle", &[STRING], |call, args| text(call, untitle(&args.text(0)))),
    function("swapcase", &[STRING], |call, args| text(call, swap_case(&args.text(0)))),
    function("nospace", &[STRING], |call, args| {
        let from = args.str(0);
        let kept: Vec<u8> =
            from.as_bytes().iter().copied().filter(|byte| !is_space_byte(*byte)).collect();
        // Only a text that loses something is taken apart into bytes.
        if kept.len() == from.len() { text(call, from) } else { text(call, latin(&kept)) }
    }),
    function("initials", &[STRING], |call, args| {
        let from = args.str(0);
        let words = from.as_bytes().split(|byte| is_space_byte(*byte));
        let first: Vec<u8> = words.filter_map(|word| word.first().copied()).collect();
        text(call, latin(&first))
    }),
    function("wrap", &[INT, STRING], |call, args| {
        let line = usize::try_from(args.int(0)).unwrap_or(0);
        wrapped(call, args.str(1).as_bytes(), line, b"\n", false)
    }),
    function("wrapWith", &[INT, STRING, STRING], |call, args| {
        let line = usize::try_from(args.int(0)).unwrap_or(0);
        wrapped(call, args.str(2).as_bytes(), line, args.str(1).as_bytes(), true)
    }),
    function("abbrev", &[INT, STRING], |call, args| {
        abbreviated(call, &args.str(1), 0, args.int(0))
    }),
    function("abbrevboth", &[INT, INT, STRING], |call, args| {
        abbreviated(call, &args.str(2), args.int(0), args.int(1))
    }),
    function("camelcase", &[STRING], |call, args| text(call, camel_case(&args.text(0)))),
    function("snakecase", &[STRING], |call, args| text(call, joined_words(&args.text(0), '_'))),
    function("kebabcase", &[STRING], |call, args| text(call, joined_words(&args.text(0), '-'))),
];

fn mapped(call: &mut Context<'_>, args: Args<'_>, map: fn(char) -> char) -> Result {
    let from = args.text(0);
    call.host().text(from.len())?;
    Ok(Value::from(from.chars().map(map).collect::<String>()))
}

/// The upper case of a letter, unless that is several letters.
fn upper(char: char) -> char {
    let mut upper = char.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(only), None) => only,
        _ => char,
    }
}

fn lower(char: char) -> char {
    let mut lower = char.to_lowercase();
    match (lower.next(), lower.next()) {
        (Some(only), None) => only,
        // The one letter whose lower case is two: its simple mapping.
        _ if char == 'İ' => 'i',
        _ => char,
    }
}

/// The form of a letter at the beginning of a word: digraphs have one of their own.
fn title_case(char: char) -> char {
    match char {
        'Ǆ' | 'ǅ' | 'ǆ' => 'ǅ',
        'Ǉ' | 'ǈ' | 'ǉ' => 'ǈ',
        'Ǌ' | 'ǋ' | 'ǌ' => 'ǋ',
        'Ǳ' | 'ǲ' | 'ǳ' => 'ǲ',
        other => upper(other),
    }
}

fn title(from: &str) -> String {
    let mut before = ' ';
    from.chars()
        .map(|char| {
            let first = match before {
                'a'..='z' | 'A'..='Z' | '0'..='9' | '_' => false,
                '\0'..='\x7f' => true,
                other => !other.is_alphanumeric() && other.is_whitespace(),
            };
            before = char;
            if first { title_case(char) } else { char }
        })
        .collect()
}

fn untitle(from: &str) -> String {
    let mut first = true;
    from.chars()
        .map(|char| {
            let lowered = first && !char.is_whitespace();
            first = char.is_whitespace();
            if lowered { lower(char) } else { char }
        })
        .collect()
}

fn swap_case(from: &str) -> String {
    let mut after_space = true;
    from.chars()
        .map(|char| {
            let swapped = if char.is_lowercase() {
                if after_space { title_case(char) } else { upper(char) }
            } else {
                lower(char)
            };
            after_space = match char.is_lowercase() || char.is_uppercase() {
                true => false,
                false => char.is_whitespace(),
            };
            swapped
        })
        .collect()
}

fn is_space_byte(byte: u8) -> bool {
    char::from(byte).is_whitespace()
}

/// Bytes read as characters of their own, which is what two functions of Helm do to texts.
fn latin(bytes: &[u8]) -> String {
    bytes.iter().copied().map(char::from).collect()
}

/// Breaks a text at blanks, so that lines have at most `line` bytes. A longer word is broken only if `break_words`.
fn wrapped(
    call: &mut Context<'_>,
    from: &[u8],
    line: usize,
    separator: &[u8],
    break_words: bool,
) -> Result {
    let line = line.max(1);
    let separator = if separator.is_empty() { b"\n" } else { separator };
    let lines = from.len() / line + from.iter().filter(|byte| **byte == b' ').count() + 1;
    call.host().text(from.len().saturating_add(lines.saturating_mul(separator.len())))?;
    let mut out = Vec::with_capacity(from.len());
    let mut rest = from;
    while rest.len() > line {
        if let Some(after) = rest.strip_prefix(b" ") {
            rest = after;
            continue;
        }
        let window = rest.get(..=line).unwrap_or(rest);
        let blank = match window.iter().rposition(|byte| *byte == b' ') {
            Some(blank) => Some((blank, blank + 1)),
            None if break_words => Some((line, line)),
            None => {
                let beyond = rest.get(line..).unwrap_or_default();
                let blank = beyond.iter().position(|byte| *byte == b' ');
                blank.map(|blank| (line + blank, line + blank + 1))
            }
        };
        let Some((end, next)) = blank else { break };
        out.extend_from_slice(rest.get(..end).unwrap_or_default());
        out.extend_from_slice(separator);
        rest = rest.get(next..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    Ok(Value::String(out.into()))
}

/// Cuts a text to a width in bytes, with dots for what is left out at the end, and before `offset`.
fn abbreviated(call: &mut Context<'_>, from: &Str, offset: i64, width: i64) -> Result {
    if width < 4 || (offset > 0 && width < 7) {
        return text(call, from.clone());
    }
    let bytes = from.as_bytes();
    let width = usize::try_from(width).unwrap_or(usize::MAX);
    if bytes.len() <= width {
        return text(call, from.clone());
    }
    let shown = width - 3;
    let offset = usize::try_from(offset).unwrap_or(0).min(bytes.len() - shown.min(bytes.len()));
    let part = |from: usize, length: usize| bytes.get(from..from + length).unwrap_or_default();
    let out = if offset <= 4 {
        [part(0, shown), b"..."].concat()
    } else if offset + shown < bytes.len() {
        [b"...", part(offset, shown - 3), b"..."].concat()
    } else {
        [b"...", part(bytes.len() - shown, shown)].concat()
    };
    text(call, out)
}

fn is_connector(char: char) -> bool {
    matches!(char, '-' | '_') || char.is_whitespace()
}

/// Words begin with a capital and connectors go, but for those at the beginning and doubled ones. A run of capitals
/// at the beginning of a word is one; later capitals stay.
fn camel_case(from: &str) -> String {
    let start = from.find(|char| !is_connector(char)).unwrap_or(from.len());
    let (head, rest) = from.split_at(start);
    let mut out = head.to_owned();
    let mut begins = true;
    let mut connector = None;
    let mut in_capitals = false;
    for char in rest.chars() {
        if is_connector(char) {
            out.extend(connector);
            connector = Some(char);
            begins = true;
            in_capitals = false;
            continue;
        }
        let capital = char.is_uppercase();
        out.push(match (begins, capital && in_capitals) {
            (true, _) => upper(char),
            (false, true) => lower(char),
            (false, false) => char,
        });
        in_capitals = capital && (begins || in_capitals);
        begins = false;
        connector = None;
    }
    // The last connector stays; of a text of nothing else it is doubled.
    if let Some(last) = from.chars().next_back().filter(|_| connector.is_some() || rest.is_empty())
    {
        out.push(last);
    }
    out
}

/// What a run of characters of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// Nothing but capitals.
    Capitals,
    /// A capital and the letters after it.
    Capitalized,
    Letters,
    Digits,
    Connector,
    Punctuation,
    Other,
}

fn run_of(char: char) -> Run {
    let symbol = matches!(char, '$' | '+' | '<' | '=' | '>' | '^' | '`' | '|' | '~');
    match char {
        char if is_connector(char) => Run::Connector,
        char if char.is_ascii_punctuation() && !symbol => Run::Punctuation,
        char if char.is_uppercase() => Run::Capitals,
        // Scripts without case have no words to find.
        char if char.is_alphabetic() && u32::from(char) < 0x3400 => Run::Letters,
        char if char.is_numeric() => Run::Digits,
        _ => Run::Other,
    }
}

fn runs(from: &str) -> Vec<(Run, String)> {
    let mut runs: Vec<(Run, String)> = Vec::new();
    for char in from.chars() {
        let run = run_of(char);
        match runs.last_mut() {
            Some((last, text)) if *last == run => text.push(char),
            // Go counts these connectors as punctuation too.
            Some((Run::Punctuation, text)) if matches!(char, '-' | '_') => text.push(char),
            Some((Run::Capitalized, text)) if run == Run::Letters => text.push(char),
            // The last of several capitals belongs to the letters after it.
            Some((Run::Capitals, text)) if run == Run::Letters => {
                let capital = text.pop();
                if text.is_empty() {
                    runs.pop();
                }
                runs.push((Run::Capitalized, capital.into_iter().chain([char]).collect()));
            }
            _ => runs.push((run, char.to_string())),
        }
    }
    runs
}

/// The words of a name in lower case, with a connector between them. Digits belong to the word before them, or with
/// lower-case letters after them to those.
fn joined_words(from: &str, connector: char) -> String {
    let runs = runs(from);
    let run_at = |at: usize| runs.get(at).map(|(run, _)| *run);
    let mut out = String::new();
    let mut at = 0;
    let mut after_word = false;
    while let Some((run, word)) = runs.get(at) {
        let end = match run {
            Run::Connector | Run::Punctuation => {
                match run {
                    Run::Connector => out.extend(word.chars().map(|_| connector)),
                    _ => out.push_str(word),
                }
                after_word = false;
                at += 1;
                continue;
            }
            Run::Digits => {
                let more = |at: &usize| matches!(run_at(*at), Some(Run::Letters | Run::Digits));
                at + 1 + (at + 1..).take_while(more).count()
            }
            _ if run_at(at + 1) == Some(Run::Digits) && run_at(at + 2) != Some(Run::Letters) => {
                at + 2
            }
            _ => at + 1,
        };
        if after_word {
            out.push(connector);
        }
        let word = runs.get(at..end).unwrap_or_default().iter().flat_map(|(_, text)| text.chars());
        out.extend(word.map(|char| if char.is_uppercase() { lower(char) } else { char }));
        after_word = true;
        at = end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart_into_words() {
        for (from, want) in [
            ("FirstName", "first_name"),
            ("HTTPServer2Go", "http_server2_go"),
            ("a__b--c  d", "a__b__c__d"),
            ("x1Y2", "x1_y2"),
            ("HTTP2xx", "http_2xx"),
            ("ABCDef", "abc_def"),
            ("a.B", "a.b"),
            ("}--a", "}--a"),
            ("", ""),
        ] {
            assert_eq!(joined_words(from, '_'), want, "{from}");
        }
        for (from, want) in [
            ("http_server", "HttpServer"),
            ("_a_b__c", "_AB_C"),
            ("HTTP20Server x1y", "Http20ServerX1y"),
            ("a.b c/d", "A.bC/d"),
            // Of the connectors at the end the last one stays.
            ("x ", "X "),
            ("_x_", "_X_"),
            // Of two the first.
            ("0 _abc", "0 Abc"),
            ("ab  ", "Ab  "),
            ("-", "--"),
            ("", ""),
        ] {
            assert_eq!(camel_case(from), want, "{from}");
        }
    }

    #[test]
    fn case_is_changed_letter_by_letter() {
        assert_eq!(
            title("hello-world foo_bar 1st o'neil ǆ ßx"),
            "Hello-World Foo_bar 1st O'Neil ǅ ßx"
        );
        assert_eq!(swap_case("Hello wOrLD 1a"), "hELLO WoRld 1A");
        assert_eq!(untitle("Hello World"), "hello world");
    }
}
