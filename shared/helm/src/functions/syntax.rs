//! What Go's decoder says of a text that is not JSON: templates see it, as `fromJson` gives it to them.

use std::borrow::Cow;

use vela_gocompat::strconv;

/// What is expected next.
#[derive(Clone, Copy, PartialEq)]
enum State {
    Value,
    /// A value, or the end of the list that has just begun.
    ValueOrEnd,
    Key,
    /// A key, or the end of the object that has just begun.
    KeyOrEnd,
    /// Something was complete.
    After,
    Text,
    Escape,
    /// Digits of `\u` that are missing.
    Hex(u8),
    /// The rest of `true`, `false` or `null`.
    Literal(&'static str, usize),
    Minus,
    Zero,
    Digits,
    Point,
    Fraction,
    Exponent,
    ExponentSign,
    ExponentDigits,
}

/// What a value stands in.
#[derive(Clone, Copy, PartialEq)]
enum Inside {
    List,
    Key,
    Field,
}

/// Where a character stands that cannot stand there.
struct Unexpected(Cow<'static, str>);

/// The first mistake; `None` if there is none.
pub(super) fn error(text: &str) -> Option<String> {
    let mut scan = Scan { state: State::Value, inside: Vec::new() };
    for byte in text.bytes() {
        if let Err(Unexpected(place)) = scan.step(byte) {
            return Some(invalid(byte, &place));
        }
    }
    // The end is like a blank: it completes a number.
    if let Err(Unexpected(place)) = scan.step(b' ') {
        return Some(invalid(b' ', &place));
    }
    let complete = scan.state == State::After && scan.inside.is_empty();
    (!complete).then(|| "unexpected end of JSON input".to_owned())
}

fn invalid(byte: u8, place: &str) -> String {
    let shown = match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => r#"'"'"#.to_owned(),
        byte => strconv::quote_char(char::from(byte)),
    };
    format!("invalid character {shown} {place}")
}

struct Scan {
    state: State,
    inside: Vec<Inside>,
}

impl Scan {
    fn step(&mut self, byte: u8) -> Result<(), Unexpected> {
        let wrong = |what| Err(Unexpected(Cow::Borrowed(what)));
        let blank = matches!(byte, b' ' | b'\t' | b'\r' | b'\n');
        self.state = match (self.state, byte) {
            (State::Value | State::ValueOrEnd | State::Key | State::KeyOrEnd, _) if blank => {
                return Ok(());
            }
            (State::ValueOrEnd, b']') => return self.close(),
            (State::KeyOrEnd, b'}') => return self.close(),
            (State::Key | State::KeyOrEnd, b'"') => State::Text,
            (State::Key | State::KeyOrEnd, _) => {
                return wrong("looking for beginning of object key string");
            }
            (State::Value | State::ValueOrEnd, byte) => match byte {
                b'{' => {
                    self.inside.push(Inside::Key);
                    State::KeyOrEnd
                }
                b'[' => {
                    self.inside.push(Inside::List);
                    State::ValueOrEnd
                }
                b'"' => State::Text,
                b'-' => State::Minus,
                b'0' => State::Zero,
                b'1'..=b'9' => State::Digits,
                b't' => State::Literal("true", 1),
                b'f' => State::Literal("false", 1),
                b'n' => State::Literal("null", 1),
                _ => return wrong("looking for beginning of value"),
            },
            (State::After, _) => return self.after(byte, blank),
            (State::Text, b'"') => State::After,
            (State::Text, b'\\') => State::Escape,
            (State::Text, ..0x20) => return wrong("in string literal"),
            (State::Text, _) => State::Text,
            (State::Escape, b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => State::Text,
            (State::Escape, b'u') => State::Hex(4),
            (State::Escape, _) => return wrong("in string escape code"),
            (State::Hex(left), byte) if byte.is_ascii_hexdigit() => {
                if left > 1 {
                    State::Hex(left - 1)
                } else {
                    State::Text
                }
            }
            (State::Hex(_), _) => return wrong(r"in \u hexadecimal character escape"),
            (State::Literal(word, at), byte) => match word.as_bytes().get(at) {
                Some(wanted) if *wanted == byte => {
                    if at + 1 < word.len() {
                        State::Literal(word, at + 1)
                    } else {
                        State::After
                    }
                }
                wanted => {
                    let wanted = char::from(wanted.copied().unwrap_or_default());
                    let what = format!("in literal {word} (expecting '{wanted}')");
                    return Err(Unexpected(what.into()));
                }
            },
            (State::Minus, b'0') => State::Zero,
            (State::Minus, b'1'..=b'9') | (State::Digits, b'0'..=b'9') => State::Digits,
            (State::Minus, _) => return wrong("in numeric literal"),
            (State::Zero | State::Digits, b'.') => State::Point,
            (State::Point | State::Fraction, b'0'..=b'9') => State::Fraction,
            (State::Point, _) => return wrong("after decimal point in numeric literal"),
            (State::Zero | State::Digits | State::Fraction, b'e' | b'E') => State::Exponent,
            (State::Exponent, b'+' | b'-') => State::ExponentSign,
            (State::Exponent | State::ExponentSign | State::ExponentDigits, b'0'..=b'9') => {
                State::ExponentDigits
            }
            (State::Exponent | State::ExponentSign, _) => {
                return wrong("in exponent of numeric literal");
            }
            (State::Zero | State::Digits | State::Fraction | State::ExponentDigits, _) => {
                self.state = State::After;
                return self.after(byte, blank);
            }
        };
        Ok(())
    }

    /// Behind a complete value or key.
    fn after(&mut self, byte: u8, blank: bool) -> Result<(), Unexpected> {
        if blank {
            return Ok(());
        }
        let wrong = |what| Err(Unexpected(Cow::Borrowed(what)));
        let last = self.inside.last_mut();
        self.state = match (last, byte) {
            (None, _) => return wrong("after top-level value"),
            (Some(inside @ Inside::Key), b':') => {
                *inside = Inside::Field;
                State::Value
            }
            (Some(Inside::Key), _) => return wrong("after object key"),
            (Some(inside @ Inside::Field), b',') => {
                *inside = Inside::Key;
                State::Key
            }
            (Some(Inside::Field), b'}') => return self.close(),
            (Some(Inside::Field), _) => return wrong("after object key:value pair"),
            (Some(Inside::List), b',') => State::Value,
            (Some(Inside::List), b']') => return self.close(),
            (Some(Inside::List), _) => return wrong("after array element"),
        };
        Ok(())
    }

    fn close(&mut self) -> Result<(), Unexpected> {
        self.inside.pop();
        self.state = State::After;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_worded_as_go_does() {
        for (text, want) in [
            ("nil", "invalid character 'i' in literal null (expecting 'u')"),
            ("tr", "invalid character ' ' in literal true (expecting 'u')"),
            ("[", "unexpected end of JSON input"),
            ("{a", "invalid character 'a' looking for beginning of object key string"),
            ("1 2", "invalid character '2' after top-level value"),
            ("-", "invalid character ' ' in numeric literal"),
            ("01", "invalid character '1' after top-level value"),
            ("1e", "invalid character ' ' in exponent of numeric literal"),
            ("1.", "invalid character ' ' after decimal point in numeric literal"),
            ("[1 2]", "invalid character '2' after array element"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1 2}", "invalid character '2' after object key:value pair"),
            ("\"\\x\"", "invalid character 'x' in string escape code"),
            ("\"\\u12g\"", "invalid character 'g' in \\u hexadecimal character escape"),
        ] {
            assert_eq!(error(text).as_deref(), Some(want), "{text}");
        }
        for text in ["{}", "[]", "[1, -2.5e+3, {\"a\": [null, true]}]", " \"x\" "] {
            assert_eq!(error(text), None, "{text}");
        }
    }
}
