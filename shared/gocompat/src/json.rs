//! JSON text as Go's `encoding/json` writes it.
//!
//! Wherever bytes are stored, hashed or compared with what the reference wrote (annotations,
//! revision hashes, compressed trackers), `serde_json`'s own text is not good enough: it writes
//! `1e+20` for `100000000000000000000`, keeps `1.0`, and leaves `<`, `>`, `&`, U+2028 and U+2029
//! alone. [`GoFormatter`] plugs Go's rules into `serde_json`'s serializer, so every `Serialize`
//! type works and output can be streamed.
//!
//! Keys of maps come out sorted because `serde_json::Map` is a B-tree (the workspace never
//! enables `preserve_order`); fields of structs keep their declaration order, as in Go.

use std::fmt::Write as _;
use std::io;

use serde_json::ser::{CharEscape, Formatter, Serializer};

/// `json.Marshal`: compact, with HTML characters escaped.
///
/// # Errors
/// As `serde_json`: a map with keys that are no strings, or a failing `Serialize`.
pub fn to_string<T: serde::Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    into_text(value, Style { html: true, layout: Layout::Compact })
}

/// `json.Marshal` into bytes.
///
/// # Errors
/// As [`to_string`].
pub fn to_vec<T: serde::Serialize + ?Sized>(value: &T) -> serde_json::Result<Vec<u8>> {
    let mut out = Vec::with_capacity(256);
    to_writer(&mut out, value)?;
    Ok(out)
}

/// `json.Marshal` streamed to a writer.
///
/// # Errors
/// As [`to_string`], and those of the writer.
pub fn to_writer<W: io::Write, T: serde::Serialize + ?Sized>(
    writer: W,
    value: &T,
) -> serde_json::Result<()> {
    let mut serializer = Serializer::with_formatter(
        writer,
        GoFormatter::new(Style { html: true, layout: Layout::Compact }),
    );
    value.serialize(&mut serializer)
}

/// As an encoder with `SetEscapeHTML(false)`, without its trailing line feed.
///
/// # Errors
/// As [`to_string`].
pub fn to_string_unescaped<T: serde::Serialize + ?Sized>(value: &T) -> serde_json::Result<String> {
    into_text(value, Style { html: false, layout: Layout::Compact })
}

/// `json.MarshalIndent(value, prefix, indent)`.
///
/// # Errors
/// As [`to_string`].
pub fn to_string_indent<T: serde::Serialize + ?Sized>(
    value: &T,
    prefix: &str,
    indent: &str,
) -> serde_json::Result<String> {
    into_text(value, Style { html: true, layout: Layout::Indented { prefix, indent } })
}

fn into_text<T: serde::Serialize + ?Sized>(
    value: &T,
    style: Style<'_>,
) -> serde_json::Result<String> {
    let mut out = Vec::with_capacity(256);
    let mut serializer = Serializer::with_formatter(&mut out, GoFormatter::new(style));
    value.serialize(&mut serializer)?;
    // serde_json writes str fragments and ASCII only; the lossy path never copies.
    Ok(String::from_utf8(out)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// What [`GoFormatter`] writes.
#[derive(Debug, Clone, Copy)]
pub struct Style<'a> {
    /// Escape `<`, `>` and `&`.
    pub html: bool,
    /// White space.
    pub layout: Layout<'a>,
}

/// White space between tokens.
#[derive(Debug, Clone, Copy)]
pub enum Layout<'a> {
    /// None.
    Compact,
    /// A line for each member.
    Indented {
        /// Begins each line but the first.
        prefix: &'a str,
        /// Once for each level.
        indent: &'a str,
    },
}

/// A `serde_json` formatter with Go's rules for numbers, strings and layout.
#[derive(Debug)]
pub struct GoFormatter<'a> {
    style: Style<'a>,
    depth: usize,
    has_value: bool,
    raw_in_string: bool,
    raw_escaped: bool,
}

impl<'a> GoFormatter<'a> {
    /// A formatter for one document.
    #[must_use]
    pub fn new(style: Style<'a>) -> Self {
        Self { style, depth: 0, has_value: false, raw_in_string: false, raw_escaped: false }
    }

    fn open<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth += 1;
        self.has_value = false;
        writer.write_all(bracket)
    }

    fn close<W: io::Write + ?Sized>(&mut self, writer: &mut W, bracket: &[u8]) -> io::Result<()> {
        self.depth = self.depth.saturating_sub(1);
        if self.has_value {
            self.line(writer)?;
        }
        writer.write_all(bracket)
    }

    fn item<W: io::Write + ?Sized>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.line(writer)
    }

    fn line<W: io::Write + ?Sized>(&self, writer: &mut W) -> io::Result<()> {
        let Layout::Indented { prefix, indent } = self.style.layout else {
            return Ok(());
        };
        writer.write_all(b"\n")?;
        writer.write_all(prefix.as_bytes())?;
        for _ in 0..self.depth {
            writer.write_all(indent.as_bytes())?;
        }
        Ok(())
    }
}

impl Formatter for GoFormatter<'_> {
    fn write_f32<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f32) -> io::Result<()> {
        let magnitude = value.abs();
        let text = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
            exponent_form(&format!("{value:e}"))
        } else {
            value.to_string()
        };
        writer.write_all(text.as_bytes())
    }

    fn write_f64<W: io::Write + ?Sized>(&mut self, writer: &mut W, value: f64) -> io::Result<()> {
        writer.write_all(format_f64(value).as_bytes())
    }

    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        write_escaped(writer, fragment, self.style.html)
    }

    fn write_char_escape<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        let short: &[u8] = match escape {
            CharEscape::Quote => b"\\\"",
            CharEscape::ReverseSolidus => b"\\\\",
            CharEscape::Solidus => b"/",
            CharEscape::Backspace => b"\\b",
            CharEscape::FormFeed => b"\\f",
            CharEscape::LineFeed => b"\\n",
            CharEscape::CarriageReturn => b"\\r",
            CharEscape::Tab => b"\\t",
            CharEscape::AsciiControl(byte) => return write!(writer, "\\u{byte:04x}"),
        };
        writer.write_all(short)
    }

    fn begin_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"[")
    }

    fn end_array<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"]")
    }

    fn begin_array_value<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn end_array_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    fn begin_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.open(writer, b"{")
    }

    fn end_object<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        self.close(writer, b"}")
    }

    fn begin_object_key<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        first: bool,
    ) -> io::Result<()> {
        self.item(writer, first)
    }

    fn begin_object_value<W: io::Write + ?Sized>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(match self.style.layout {
            Layout::Compact => b":",
            Layout::Indented { .. } => b": ",
        })
    }

    fn end_object_value<W: io::Write + ?Sized>(&mut self, _: &mut W) -> io::Result<()> {
        self.has_value = true;
        Ok(())
    }

    /// Raw values are compacted and escaped as Go does with `json.RawMessage`.
    fn write_raw_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut compact = String::with_capacity(fragment.len());
        for c in fragment.chars() {
            if self.raw_in_string {
                compact.push(c);
                if self.raw_escaped {
                    self.raw_escaped = false;
                } else if c == '\\' {
                    self.raw_escaped = true;
                } else if c == '"' {
                    self.raw_in_string = false;
                }
            } else if !matches!(c, ' ' | '\t' | '\n' | '\r') {
                self.raw_in_string = c == '"';
                compact.push(c);
            }
        }
        write_escaped(writer, &compact, self.style.html)
    }
}

/// Writes text whose quotes, backslashes and controls are escaped already.
fn write_escaped<W: io::Write + ?Sized>(writer: &mut W, text: &str, html: bool) -> io::Result<()> {
    let bytes = text.as_bytes();
    let mut done = 0;
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (escape, len): (&[u8], usize) = match byte {
            b'<' if html => (b"\\u003c", 1),
            b'>' if html => (b"\\u003e", 1),
            b'&' if html => (b"\\u0026", 1),
            0xe2 => match bytes.get(at + 1..at + 3) {
                Some([0x80, 0xa8]) => (b"\\u2028", 3),
                Some([0x80, 0xa9]) => (b"\\u2029", 3),
                _ => (b"", 0),
            },
            _ => (b"", 0),
        };
        if len == 0 {
            at += 1;
            continue;
        }
        writer.write_all(bytes.get(done..at).unwrap_or_default())?;
        writer.write_all(escape)?;
        at += len;
        done = at;
    }
    writer.write_all(bytes.get(done..).unwrap_or_default())
}

/// What bytes of a text mean to [`push_text`].
mod class {
    /// It is escaped.
    pub(super) const ESCAPED: u8 = 1;
    /// It is escaped for HTML.
    pub(super) const HTML: u8 = 2;
    /// U+2028 and U+2029 begin with it, which end a line in JavaScript.
    pub(super) const SEPARATOR: u8 = 4;

    pub(super) static OF: [u8; 256] = {
        let mut of = [0; 256];
        let mut byte = 0;
        while byte < 256 {
            #[expect(clippy::indexing_slicing, reason = "there are as many bytes as classes")]
            {
                of[byte] = match byte as u8 {
                    0..0x20 | b'"' | b'\\' => ESCAPED,
                    0xe2 => SEPARATOR,
                    b'<' | b'>' | b'&' => HTML,
                    _ => 0,
                };
            }
            byte += 1;
        }
        of
    };
}

/// A text as `encoding/json` writes it, with `<`, `>` and `&` escaped or not.
#[must_use]
pub fn quoted(text: &str, html: bool) -> String {
    let mut out = String::new();
    push_quoted(&mut out, text, html);
    out
}

/// Adds a text as [`quoted`] gives it.
pub fn push_quoted(out: &mut String, text: &str, html: bool) {
    push_text(out, text, if html { Escapes::Html } else { Escapes::Separators });
}

/// What is escaped in a text besides quotes, backslashes and control characters.
#[derive(Debug, Clone, Copy)]
pub enum Escapes {
    /// Nothing: JSON needs no more.
    Least,
    /// U+2028 and U+2029.
    Separators,
    /// These, and `<`, `>` and `&`.
    Html,
}

/// Adds a text in quotes.
pub fn push_text(out: &mut String, text: &str, escapes: Escapes) {
    let escaped = class::ESCAPED
        | match escapes {
            Escapes::Least => 0,
            Escapes::Separators => class::SEPARATOR,
            Escapes::Html => class::SEPARATOR | class::HTML,
        };
    let is_escaped = |byte: &u8| {
        let class = class::OF.get(usize::from(*byte)).copied().unwrap_or(class::ESCAPED);
        class & escaped != 0
    };
    let bytes = text.as_bytes();
    out.reserve(text.len() + text.len() / 8 + 2);
    out.push('"');
    let (mut done, mut at) = (0, 0);
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(next) = rest.iter().position(is_escaped) else { break };
        at += next;
        let (escape, len) = match bytes.get(at).copied().unwrap_or_default() {
            b'"' => ("\\\"", 1),
            b'\\' => ("\\\\", 1),
            b'\n' => ("\\n", 1),
            b'\r' => ("\\r", 1),
            b'\t' => ("\\t", 1),
            0x08 => ("\\b", 1),
            0x0c => ("\\f", 1),
            b'<' => ("\\u003c", 1),
            b'>' => ("\\u003e", 1),
            b'&' => ("\\u0026", 1),
            // U+2028 and U+2029 end a line in JavaScript.
            0xe2 => match bytes.get(at + 1..at + 3) {
                Some([0x80, 0xa8]) => ("\\u2028", 3),
                Some([0x80, 0xa9]) => ("\\u2029", 3),
                _ => {
                    at += 1;
                    continue;
                }
            },
            byte => {
                let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
                out.push_str(text.get(done..at).unwrap_or_default());
                out.push_str("\\u00");
                out.push(digit(byte >> 4));
                out.push(digit(byte & 15));
                at += 1;
                done = at;
                continue;
            }
        };
        out.push_str(text.get(done..at).unwrap_or_default());
        out.push_str(escape);
        at += len;
        done = at;
    }
    out.push_str(text.get(done..).unwrap_or_default());
    out.push('"');
}

/// A float as `encoding/json` writes it: plain, or with an exponent below 1e-6 and from 1e21.
#[must_use]
pub fn format_f64(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        exponent_form(&format!("{value:e}"))
    } else {
        value.to_string()
    }
}

/// Adds a float as [`format_f64`] writes it.
pub fn push_f64(out: &mut String, value: f64) {
    /// Up to here every integer is a float of its own.
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let is_int = value.trunc() == value && value.abs() < EXACT;
    if is_int && (value != 0.0 || value.is_sign_positive()) {
        // Writing to a String cannot fail.
        let _ = write!(out, "{}", value as i64);
    } else {
        out.push_str(&format_f64(value));
    }
}

/// `1e21` to `1e+21`; negative exponents are the same in both languages.
fn exponent_form(rust: &str) -> String {
    match rust.split_once('e') {
        Some((mantissa, exponent)) if !exponent.starts_with('-') => {
            format!("{mantissa}e+{exponent}")
        }
        _ => rust.to_owned(),
    }
}

/// `json.HTMLEscape`: escapes `<`, `>`, `&`, U+2028 and U+2029 anywhere in JSON text.
#[must_use]
pub fn html_escape(json: &str) -> String {
    let mut out = Vec::with_capacity(json.len());
    // Writing to a Vec cannot fail.
    let _ = write_escaped(&mut out, json, true);
    String::from_utf8(out).unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn floats_are_added_as_they_are_written() {
        let edge = 9_007_199_254_740_992.0;
        for value in [0.0, -0.0, 1.0, -17.0, 0.5, 1e-7, 1e21, edge, edge - 1.0, -edge, 1e20] {
            let mut out = "x".to_owned();
            push_f64(&mut out, value);
            assert_eq!(out, format!("x{}", format_f64(value)));
            assert_eq!(out, format!("x{}", to_string(&value).unwrap()));
        }
    }

    #[test]
    fn a_text_alone_is_written_like_any_other() {
        let control: String = (0_u8..0x30).map(char::from).collect();
        let texts = [
            "",
            "a<b>&\"c\\",
            "é\u{2028}\u{2029}\u{2027}\u{7f}",
            "/",
            control.as_str(),
            "\u{e2}",
            "ⓐ",
        ];
        for text in texts {
            assert_eq!(quoted(text, true), to_string(&text).unwrap());
            assert_eq!(quoted(text, false), to_string_unescaped(&text).unwrap());
        }
    }

    #[test]
    fn text_of_values() {
        for (value, text) in [
            (json!({"b": 1, "a": [true, null]}), r#"{"a":[true,null],"b":1}"#),
            (json!("<a href='x'>&</a>"), r#""\u003ca href='x'\u003e\u0026\u003c/a\u003e""#),
            (
                json!("\u{8}\u{c}\n\r\t\u{1}\u{7f}\"\\/"),
                "\"\\b\\f\\n\\r\\t\\u0001\u{7f}\\\"\\\\/\"",
            ),
            (json!("a\u{2028}b\u{2029}c\u{2030}"), "\"a\\u2028b\\u2029c\u{2030}\""),
            (json!({"<": "é"}), "{\"\\u003c\":\"é\"}"),
            (json!([]), "[]"),
            (json!({}), "{}"),
            (json!(i64::MIN), "-9223372036854775808"),
            (json!(u64::MAX), "18446744073709551615"),
        ] {
            assert_eq!(to_string(&value).unwrap(), text);
        }
        assert_eq!(to_string_unescaped(&json!("<&>\u{2028}")).unwrap(), "\"<&>\\u2028\"");
    }

    #[test]
    fn floats() {
        for (value, text) in [
            (1.0, "1"),
            (-0.0, "-0"),
            (0.1, "0.1"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000_001, "0.000001"),
            (0.000_000_1, "1e-7"),
            (1.234e-10, "1.234e-10"),
            (123_456_789.0, "123456789"),
            (f64::MAX, "1.7976931348623157e+308"),
            (5e-324, "5e-324"),
        ] {
            assert_eq!(format_f64(value), text);
            assert_eq!(to_string(&json!(value)).unwrap(), text);
        }
        assert_eq!(to_string(&0.1_f32).unwrap(), "0.1");
    }

    #[test]
    fn indented() {
        let value = json!({"a": [1, {"b": []}], "c": {}});
        let want =
            "{\n>\t\"a\": [\n>\t\t1,\n>\t\t{\n>\t\t\t\"b\": []\n>\t\t}\n>\t],\n>\t\"c\": {}\n>}";
        assert_eq!(to_string_indent(&value, ">", "\t").unwrap(), want);
    }

    #[test]
    fn raw_values_are_compacted() {
        let raw: Box<serde_json::value::RawValue> =
            serde_json::from_str("{ \"a\" : [ 1.0 , \"x \\\" <y> \" ] }").unwrap();
        assert_eq!(to_string(&raw).unwrap(), r#"{"a":[1.0,"x \" \u003cy\u003e "]}"#);
    }

    #[test]
    fn maps_sort() {
        let map: serde_json::Map<String, serde_json::Value> = [("b", 1), ("a", 2), ("B", 3)]
            .map(|(k, v)| (k.to_owned(), json!(v)))
            .into_iter()
            .collect();
        assert_eq!(to_string(&map).unwrap(), r#"{"B":3,"a":2,"b":1}"#);
    }

    #[test]
    fn streamed_equals_collected() {
        let value = json!({"a": "<", "b": [1.5, 2]});
        let mut out = Vec::new();
        to_writer(&mut out, &value).unwrap();
        assert_eq!(out, to_vec(&value).unwrap());
        assert_eq!(String::from_utf8(out).unwrap(), to_string(&value).unwrap());
    }
}
