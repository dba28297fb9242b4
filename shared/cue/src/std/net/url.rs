//! URLs: what is one, and how parts of one are escaped.

use vela_gocompat::strconv::quote;

use super::super::BuiltinError;
use super::super::args::fail;

/// Part of a URL, which decides what is escaped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Path,
    Query,
    Host,
    Userinfo,
}

pub(super) fn escape(text: &str, mode: Mode) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        let kept = byte.is_ascii_alphanumeric()
            || b"-_.~".contains(&byte)
            || (mode == Mode::Path && b"$&+:=@".contains(&byte));
        if kept {
            out.push(char::from(byte));
        } else if byte == b' ' && mode == Mode::Query {
            out.push('+');
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

pub(super) fn unescape(text: &str, mode: Mode) -> Result<String, BuiltinError> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        if byte != b'%' {
            out.push(if byte == b'+' && mode == Mode::Query { b' ' } else { byte });
            at += 1;
            continue;
        }
        let digits = bytes.get(at + 1..at + 3).and_then(|d| std::str::from_utf8(d).ok());
        let value = digits
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
            .and_then(|d| u8::from_str_radix(d, 16).ok());
        let Some(value) = value else {
            let end = (at + 3).min(bytes.len());
            let part = String::from_utf8_lossy(bytes.get(at..end).unwrap_or_default());
            return fail(format!("invalid URL escape {}", quote(&part)));
        };
        out.push(value);
        at += 3;
    }
    Ok(String::from_utf8(out)
        .unwrap_or_else(|e| String::from_utf8_lossy(e.as_bytes()).into_owned()))
}

/// Whether a text is a URL for Go's `url.Parse`, and if so, whether it has a scheme.
pub(super) fn parse(text: &str) -> Result<bool, BuiltinError> {
    if text.bytes().any(|b| b < 0x20 || b == 0x7f) {
        return fail("net/url: invalid control character in URL");
    }
    let (rest, fragment) = text.split_once('#').unwrap_or((text, ""));
    if rest == "*" {
        return Ok(false);
    }
    unescape(fragment, Mode::Path)?;
    let (scheme, rest) = split_scheme(rest)?;
    let path = rest.split_once('?').map_or(rest, |(path, _)| path);
    if !path.starts_with('/') {
        if !scheme.is_empty() {
            // Opaque: nothing more is looked at.
            return Ok(true);
        }
        let segment = path.split('/').next().unwrap_or_default();
        if segment.contains(':') {
            return fail("first path segment in URL cannot contain colon");
        }
    }
    let path = match path.strip_prefix("//") {
        Some(authority) if !scheme.is_empty() || !path.starts_with("///") => {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at_checked(end).unwrap_or((authority, ""));
            check_authority(authority)?;
            path
        }
        _ => path,
    };
    unescape(path, Mode::Path)?;
    Ok(!scheme.is_empty())
}

fn split_scheme(text: &str) -> Result<(&str, &str), BuiltinError> {
    for (at, c) in text.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return fail("missing protocol scheme"),
            ':' => {
                let (scheme, rest) = text.split_at_checked(at).unwrap_or(("", text));
                return Ok((scheme, rest.strip_prefix(':').unwrap_or(rest)));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_authority(authority: &str) -> Result<(), BuiltinError> {
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let user_fits = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(user_fits) {
        return fail("net/url: invalid userinfo");
    }
    unescape(user, Mode::Userinfo)?;
    let port = if host.starts_with('[') {
        let Some((_, behind)) = host.rsplit_once(']') else {
            return fail("missing ']' in host");
        };
        behind
    } else {
        host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default()
    };
    let digits = port.strip_prefix(':').unwrap_or(port);
    if !port.is_empty() && (!port.starts_with(':') || !digits.bytes().all(|b| b.is_ascii_digit())) {
        return fail(format!("invalid port {} after host", quote(port)));
    }
    let bad = host.chars().find(|c| c.is_ascii() && !host_fits(*c));
    if let Some(c) = bad {
        return fail(format!("invalid character {} in host name", quote(&c.to_string())));
    }
    unescape(host, Mode::Host).map(|_| ())
}

fn host_fits(c: char) -> bool {
    c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c)
}
