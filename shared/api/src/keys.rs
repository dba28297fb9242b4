//! Patterns of keys of labels and annotations.

/// Keys, and beginnings of keys (`example.com/*`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPatterns {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl KeyPatterns {
    /// Reads patterns; empty ones are none.
    pub fn new<S: AsRef<str>>(patterns: impl IntoIterator<Item = S>) -> Self {
        let mut all = Self::default();
        for pattern in patterns {
            let pattern = pattern.as_ref().trim();
            match pattern.strip_suffix('*') {
                _ if pattern.is_empty() => {}
                Some(prefix) => all.prefixes.push(prefix.to_owned()),
                None => all.exact.push(pattern.to_owned()),
            }
        }
        all
    }

    /// Whether one of them fits.
    #[must_use]
    pub fn matches(&self, key: &str) -> bool {
        self.exact.iter().any(|exact| exact == key)
            || self.prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::GITOPS_KEYS;

    #[test]
    fn keys_and_beginnings_of_keys() {
        let gitops = KeyPatterns::new(GITOPS_KEYS);
        for key in ["app.kubernetes.io/instance", "argocd.argoproj.io/tracking-id"] {
            assert!(gitops.matches(key), "{key}");
        }
        for key in ["app.kubernetes.io/name", "argocd.argoproj.io", "x/argocd.argoproj.io/a", ""] {
            assert!(!gitops.matches(key), "{key}");
        }
        assert!(!KeyPatterns::new(["", " "]).matches(""));
        assert!(KeyPatterns::new(["*"]).matches("anything"));
    }
}
