//! Quoted strings and characters.

/// Whether Go's `unicode.IsPrint` holds.
#[must_use]
pub fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_graphic() || c == ' ';
    }
    // Behind a first character, escape_debug leaves exactly the printable ones alone.
    let mut probe = String::from("a");
    probe.push(c);
    probe.escape_debug().count() == 2
}

/// `strconv.Quote`.
#[must_use]
pub fn quote(text: &str) -> String {
    quote_with(text, false)
}

/// `strconv.QuoteToASCII`.
#[must_use]
pub fn quote_to_ascii(text: &str) -> String {
    quote_with(text, true)
}

fn quote_with(text: &str, ascii: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        push_quoted(&mut out, c, '"', ascii);
    }
    out.push('"');
    out
}

/// `strconv.QuoteRune`.
#[must_use]
pub fn quote_char(c: char) -> String {
    quote_char_with(c, false)
}

/// `strconv.QuoteRuneToASCII`.
#[must_use]
pub fn quote_char_to_ascii(c: char) -> String {
    quote_char_with(c, true)
}

fn quote_char_with(c: char, ascii: bool) -> String {
    let mut out = String::from("'");
    push_quoted(&mut out, c, '\'', ascii);
    out.push('\'');
    out
}

fn push_quoted(out: &mut String, c: char, delimiter: char, ascii: bool) {
    let short = match c {
        _ if c == delimiter => {
            out.push('\\');
            c
        }
        '\\' => {
            out.push('\\');
            c
        }
        '\u{7}' => return out.push_str("\\a"),
        '\u{8}' => return out.push_str("\\b"),
        '\u{c}' => return out.push_str("\\f"),
        '\n' => return out.push_str("\\n"),
        '\r' => return out.push_str("\\r"),
        '\t' => return out.push_str("\\t"),
        '\u{b}' => return out.push_str("\\v"),
        _ if c.is_ascii() && is_print(c) => c,
        _ if !ascii && is_print(c) => c,
        _ if (c as u32) < 0x20 || c == '\u{7f}' => {
            return out.push_str(&format!("\\x{:02x}", c as u32));
        }
        _ if (c as u32) < 0x1_0000 => return out.push_str(&format!("\\u{:04x}", c as u32)),
        _ => return out.push_str(&format!("\\U{:08x}", c as u32)),
    };
    out.push(short);
}

/// `strconv.Unquote`: `"..."` with escapes, `` `...` `` raw, `'c'` one character. Bytes, because
/// `\xff` need not be UTF-8. `None` is Go's `invalid syntax`.
#[must_use]
pub fn unquote(text: &str) -> Option<Vec<u8>> {
    let delimiter = text.chars().next()?;
    let body = text.get(1..text.len().checked_sub(1)?)?;
    if text.len() < 2 || !text.ends_with(delimiter) {
        return None;
    }
    match delimiter {
        '`' if !body.contains('`') => Some(body.replace('\r', "").into_bytes()),
        '"' | '\'' if !body.contains('\n') => {
            let mut out = Vec::with_capacity(body.len());
            let mut rest = body;
            let mut count = 0_usize;
            while !rest.is_empty() {
                rest = unquote_char(rest, delimiter, &mut out)?;
                count += 1;
            }
            (delimiter == '"' || count == 1).then_some(out)
        }
        _ => None,
    }
}

/// `strconv.UnquoteChar`: appends the first character or escape of a text to `out` and gives the
/// rest. `None` is Go's `invalid syntax`, which a bare `delimiter` is too.
pub fn unquote_char<'a>(text: &'a str, delimiter: char, out: &mut Vec<u8>) -> Option<&'a str> {
    let mut chars = text.chars();
    let push = |c: char, out: &mut Vec<u8>| {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    };
    match chars.next()? {
        c if c == delimiter => return None,
        '\\' => {}
        c => {
            push(c, out);
            return Some(chars.as_str());
        }
    }
    let c = chars.next()?;
    let rest = chars.as_str();
    let (radix, len) = match c {
        'a' => (0, 0x7),
        'b' => (0, 0x8),
        'f' => (0, 0xc),
        'n' => (0, 0xa),
        'r' => (0, 0xd),
        't' => (0, 0x9),
        'v' => (0, 0xb),
        '\\' => (0, 0x5c),
        '\'' | '"' if c == delimiter => (0, c as usize),
        'x' => (16, 2),
        'u' => (16, 4),
        'U' => (16, 8),
        '0'..='7' => (8, 3),
        _ => return None,
    };
    if radix == 0 {
        out.push(len as u8);
        return Some(rest);
    }
    // Octal includes the digit already taken.
    let from = if radix == 8 { text.get(1..)? } else { rest };
    let digits = from.get(..len)?;
    if !digits.chars().all(|c| c.is_digit(radix)) {
        return None;
    }
    let value = u32::from_str_radix(digits, radix).ok()?;
    if c == 'u' || c == 'U' {
        push(char::from_u32(value)?, out);
    } else {
        out.push(u8::try_from(value).ok()?);
    }
    from.get(len..)
}
