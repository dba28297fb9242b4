//! Go's strings: bytes, nearly always UTF-8.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::hash::{Hash, Hasher};

use ecow::{EcoString, EcoVec};

/// A string of Go: any bytes. Cloning is cheap; up to 15 bytes of UTF-8 are not allocated.
///
/// Comparison and hash are those of the bytes.
#[derive(Clone)]
pub struct Str(Repr);

/// Valid UTF-8 is always `Text`, so a string has one representation.
#[derive(Clone)]
enum Repr {
    Text(EcoString),
    Bytes(EcoVec<u8>),
}

impl Str {
    /// The empty string.
    #[must_use]
    pub const fn new() -> Self {
        Self(Repr::Text(EcoString::new()))
    }

    /// All of it, valid UTF-8 or not.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Text(text) => text.as_bytes(),
            Repr::Bytes(bytes) => bytes,
        }
    }

    /// The text, if the bytes are UTF-8.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Bytes(_) => None,
        }
    }

    /// The text as it is kept, if the bytes are UTF-8.
    pub(crate) fn shared(&self) -> Option<&EcoString> {
        match &self.0 {
            Repr::Text(text) => Some(text),
            Repr::Bytes(_) => None,
        }
    }

    /// The text, with U+FFFD where bytes are not UTF-8.
    #[must_use]
    pub fn to_str_lossy(&self) -> Cow<'_, str> {
        match &self.0 {
            Repr::Text(text) => Cow::Borrowed(text),
            Repr::Bytes(bytes) => String::from_utf8_lossy(bytes),
        }
    }

    /// [`Self::to_str_lossy`] as a text that is cheap to clone.
    pub(crate) fn to_text(&self) -> EcoString {
        match &self.0 {
            Repr::Text(text) => text.clone(),
            Repr::Bytes(bytes) => String::from_utf8_lossy(bytes).into(),
        }
    }

    /// How many bytes: Go's `len`.
    #[must_use]
    pub fn len(&self) -> usize {
        self.as_bytes().len()
    }

    /// Whether there are no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.as_bytes().is_empty()
    }
}

impl Default for Str {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        // In one piece: what `EcoString` has for this copies byte by byte.
        let mut copy = EcoString::with_capacity(text.len());
        copy.push_str(text);
        Self(Repr::Text(copy))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        text.as_str().into()
    }
}

impl From<Cow<'_, str>> for Str {
    fn from(text: Cow<'_, str>) -> Self {
        (&*text).into()
    }
}

impl From<EcoString> for Str {
    fn from(text: EcoString) -> Self {
        Self(Repr::Text(text))
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => Self(Repr::Bytes(bytes.into())),
        }
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        bytes.as_slice().into()
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_str_lossy().fmt(f)
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_str_lossy().fmt(f)
    }
}

impl PartialEq for Str {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Str {}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialOrd for Str {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Str {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        self.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_stay_what_they_are() {
        let cut = Str::from(&"é".as_bytes()[..1]);
        assert_eq!(cut.as_bytes(), [0xc3]);
        assert_eq!(cut.as_str(), None);
        assert_eq!(cut.to_str_lossy(), "\u{fffd}");
        assert_eq!(Str::from("é".as_bytes()).as_str(), Some("é"));
        assert!(Str::from("z").cmp(&cut).is_lt(), "the order is that of the bytes");
    }
}
