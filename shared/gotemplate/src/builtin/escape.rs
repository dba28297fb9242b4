//! `html`, `js` and `urlquery`.

use vela_gocompat::strconv;

/// `template.HTMLEscapeString`.
#[must_use]
pub fn html_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            0 => out.extend_from_slice("\u{fffd}".as_bytes()),
            b'"' => out.extend_from_slice(b"&#34;"),
            b'\'' => out.extend_from_slice(b"&#39;"),
            b'&' => out.extend_from_slice(b"&amp;"),
            b'<' => out.extend_from_slice(b"&lt;"),
            b'>' => out.extend_from_slice(b"&gt;"),
            byte => out.push(*byte),
        }
    }
    out
}

/// `template.JSEscapeString`.
#[must_use]
pub fn js_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\\' | '\'' | '"' => out.extend_from_slice(&[b'\\', c as u8]),
                '<' | '>' | '&' | '=' | '\0'..' ' => escape(c, &mut out),
                c if c.is_ascii() || strconv::is_print(c) => {
                    out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                }
                c => escape(c, &mut out),
            }
        }
        for byte in chunk.invalid() {
            // Go prints a byte that is no UTF-8 as it is: U+FFFD is a printable character.
            out.push(*byte);
        }
    }
    out
}

fn escape(c: char, out: &mut Vec<u8>) {
    out.extend_from_slice(format!("\\u{:04X}", c as u32).as_bytes());
}

/// `url.QueryEscape`.
#[must_use]
pub fn query_escape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b' ' => out.push(b'+'),
            b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            byte if byte.is_ascii_alphanumeric() => out.push(*byte),
            byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}
