//! Addresses as Go's `net/url` takes them apart and puts them together.
//!
//! Our own: the crate url follows WHATWG, which rewrites what Go keeps.

use std::fmt;

use vela_gocompat::strconv;

/// An address in parts, of which `path`, `fragment` and `user` are without escapes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Url {
    pub(crate) scheme: String,
    pub(crate) opaque: String,
    pub(crate) user: Option<User>,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) fragment: String,
}

/// A name and perhaps a password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct User {
    name: String,
    password: Option<String>,
}

/// A text that is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum UrlError {
    #[error("net/url: invalid control character in URL")]
    Control,
    #[error("missing protocol scheme")]
    Scheme,
    #[error("first path segment in URL cannot contain colon")]
    Colon,
    #[error("net/url: invalid userinfo")]
    User,
    #[error("missing ']' in host")]
    Bracket,
    #[error("invalid port {} after host", strconv::quote(.0))]
    Port(String),
    #[error("invalid character {} in host name", strconv::quote(.0))]
    Host(String),
    #[error("invalid URL escape {}", strconv::quote(.0))]
    Escape(String),
}

/// A part of an address: which characters stand for themselves there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    User,
    Host,
    Fragment,
}

impl Url {
    /// Reads an address, also a relative one.
    pub(crate) fn parse(text: &str) -> Result<Self, UrlError> {
        let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
        if text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(UrlError::Control);
        }
        let mut url = Self { fragment: unescape(fragment, Part::Fragment)?, ..Self::default() };
        let (scheme, rest) = split_scheme(text)?;
        url.scheme = scheme.to_lowercase();
        let (mut rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        query.clone_into(&mut url.query);
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                rest.clone_into(&mut url.opaque);
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
                return Err(UrlError::Colon);
            }
        }
        let authority = rest.strip_prefix("//");
        if let Some(authority) = authority
            && (!url.scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = authority.find('/').unwrap_or(authority.len());
            let (authority, path) = authority.split_at(end);
            url.authority(authority)?;
            rest = path;
        }
        url.path = unescape(rest, Part::Path)?;
        Ok(url)
    }

    fn authority(&mut self, text: &str) -> Result<(), UrlError> {
        let host = match text.rsplit_once('@') {
            None => text,
            Some((user, host)) => {
                let allowed = |char: char| {
                    char.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(char)
                };
                if !user.chars().all(allowed) {
                    return Err(UrlError::User);
                }
                let (name, password) = match user.split_once(':') {
                    Some((name, password)) => (name, Some(unescape(password, Part::User)?)),
                    None => (user, None),
                };
                self.user = Some(User { name: unescape(name, Part::User)?, password });
                host
            }
        };
        let port = if host.starts_with('[') {
            let end = host.rfind(']').ok_or(UrlError::Bracket)?;
            host.get(end + 1..).unwrap_or_default()
        } else {
            host.rfind(':').and_then(|at| host.get(at..)).unwrap_or_default()
        };
        let digits = port.strip_prefix(':');
        if !port.is_empty() && !digits.is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit()))
        {
            return Err(UrlError::Port(port.to_owned()));
        }
        self.host = unescape(host, Part::Host)?;
        Ok(())
    }

    /// The host without port and brackets.
    pub(crate) fn hostname(&self) -> &str {
        if let Some(inner) = self.host.strip_prefix('[') {
            return inner.split(']').next().unwrap_or_default();
        }
        match self.host.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => &self.host,
        }
    }
}

/// What stands before the first colon, if that is a scheme.
fn split_scheme(text: &str) -> Result<(&str, &str), UrlError> {
    for (at, char) in text.char_indices() {
        match char {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return Err(UrlError::Scheme),
            ':' => {
                return Ok((
                    text.get(..at).unwrap_or_default(),
                    text.get(at + 1..).unwrap_or_default(),
                ));
            }
            _ => break,
        }
    }
    Ok(("", text))
}

/// Whether a character stands for itself in a part.
fn is_plain(byte: u8, part: Part) -> bool {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => true,
        b'$' | b'&' | b'+' | b',' | b';' | b'=' => true,
        b'/' | b'@' => matches!(part, Part::Path | Part::Fragment),
        b':' => part != Part::User,
        b'?' => part == Part::Fragment,
        b'!' | b'(' | b')' | b'*' => matches!(part, Part::Host | Part::Fragment),
        b'\'' | b'[' | b']' | b'<' | b'>' | b'"' => part == Part::Host,
        _ => false,
    }
}

fn escape(text: &str, part: Part) -> String {
    let mut out = Vec::with_capacity(text.len());
    for byte in text.bytes() {
        if is_plain(byte, part) || (part == Part::Host && byte >= 0x80) {
            out.push(byte);
        } else {
            out.extend(format!("%{byte:02X}").bytes());
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

fn unescape(text: &str, part: Part) -> Result<String, UrlError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes().enumerate();
    while let Some((at, byte)) = bytes.next() {
        if byte != b'%' {
            if part == Part::Host && byte < 0x80 && !is_plain(byte, part) {
                return Err(UrlError::Host(char::from(byte).to_string()));
            }
            out.push(byte);
            continue;
        }
        let digits =
            text.as_bytes().get(at + 1..at + 3).and_then(|pair| std::str::from_utf8(pair).ok());
        let value = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let all_digits = digits.is_some_and(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        match value.filter(|_| all_digits) {
            Some(value) if part != Part::Host || value >= 0x80 => out.push(value),
            _ => {
                let end = (at + 3).min(text.len());
                let bad = String::from_utf8_lossy(text.as_bytes().get(at..end).unwrap_or_default());
                return Err(UrlError::Escape(bad.into_owned()));
            }
        }
        bytes.next();
        bytes.next();
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

impl fmt::Display for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&escape(&self.name, Part::User))?;
        match &self.password {
            Some(password) => write!(f, ":{}", escape(password, Part::User)),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.scheme.is_empty() {
            write!(f, "{}:", self.scheme)?;
        }
        if self.opaque.is_empty() {
            let named = !self.host.is_empty() || self.user.is_some();
            if named || (!self.scheme.is_empty() && !self.path.is_empty()) {
                f.write_str("//")?;
            }
            if let Some(user) = &self.user {
                write!(f, "{user}@")?;
            }
            f.write_str(&escape(&self.host, Part::Host))?;
            let path =
                if self.path == "*" { self.path.clone() } else { escape(&self.path, Part::Path) };
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                f.write_str("/")?;
            }
            let bare = self.scheme.is_empty() && !named;
            if bare && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
                f.write_str("./")?;
            }
            f.write_str(&path)?;
        } else {
            f.write_str(&self.opaque)?;
        }
        if !self.query.is_empty() {
            write!(f, "?{}", self.query)?;
        }
        if !self.fragment.is_empty() {
            write!(f, "#{}", escape(&self.fragment, Part::Fragment))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_being_taken_apart() {
        for text in [
            "https://u:p@h.example:8443/p/a?q=1&r=%20#frag",
            "http://[::1]:80/",
            "mailto:a@b.c",
            "/just/path",
            "//host/x",
            "http://h/%20a",
        ] {
            assert_eq!(Url::parse(text).unwrap().to_string(), text);
        }
        for (text, want) in [
            ("://bad", "missing protocol scheme"),
            ("http://a b/", "invalid character \" \" in host name"),
            ("%zz", "invalid URL escape \"%zz\""),
            ("a:b:c/d", ""),
            ("1a:b", "first path segment in URL cannot contain colon"),
            ("http://h:x/", "invalid port \":x\" after host"),
            ("http://[::1", "missing ']' in host"),
        ] {
            let error = Url::parse(text).err().map(|error| error.to_string());
            assert_eq!(error.unwrap_or_default(), want, "{text}");
        }
    }
}
