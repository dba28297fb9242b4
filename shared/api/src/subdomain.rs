//! Names of objects.

/// Whether an object of our kinds or a namespace may have the name: parts of lower-case letters, digits and inner hyphens with
/// dots between them, 253 bytes at the most (a subdomain of RFC 1123).
#[must_use]
pub fn is_subdomain(name: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty()
            && !part.starts_with('-')
            && !part.ends_with('-')
            && part.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-'))
    };
    name.len() <= 253 && name.split('.').all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names() {
        let long = "a".repeat(254);
        for name in ["a", "a-1.b", "0", &long[..253]] {
            assert!(is_subdomain(name), "{name}");
        }
        for name in ["", "-a", "a-", "a/b", "..", "a..b", ".a", "A", "a_b", "ä", &long] {
            assert!(!is_subdomain(name), "{name}");
        }
    }
}
