//! The patch markers in comments: `+patchKey=name`, `+patchStrategy=retainKeys`.

use ecow::EcoString;

/// What a patch does with a value that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// `replace`: the elements of the list are the patch's.
    Replace,
    /// `retainKeys`: the value is the patch's.
    RetainKeys,
    /// `jsonMergePatch`: RFC 7396.
    JsonMergePatch,
    /// `jsonPatch`: RFC 6902.
    JsonPatch,
    /// Any other word: plain unification.
    Other,
}

/// The patch markers of one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markers {
    /// The keys by which list elements are matched, as written: `name`, `a.b,c`.
    pub patch_key: Option<EcoString>,
    /// What to do with the value that is there.
    pub strategy: Option<Strategy>,
}

impl Markers {
    /// Reads the markers out of comment lines (with or without the leading `//`). Later lines
    /// override earlier ones; lines that are no markers are comments.
    pub fn parse<S: AsRef<str>>(lines: impl IntoIterator<Item = S>) -> Self {
        let mut markers = Self::default();
        for line in lines {
            for line in line.as_ref().lines() {
                markers.line(line);
            }
        }
        markers
    }

    fn line(&mut self, line: &str) {
        let line = line.trim();
        let line = line.strip_prefix("//").unwrap_or(line).trim();
        let Some((key, value)) = line.strip_prefix('+').and_then(|l| l.split_once('=')) else {
            return;
        };
        let value = value.trim();
        if value.contains(char::is_whitespace) {
            return;
        }
        match key.trim() {
            "patchKey" => self.patch_key = Some(value.into()),
            "patchStrategy" => {
                self.strategy = Some(match value {
                    "replace" => Strategy::Replace,
                    "retainKeys" => Strategy::RetainKeys,
                    "jsonMergePatch" => Strategy::JsonMergePatch,
                    "jsonPatch" => Strategy::JsonPatch,
                    _ => Strategy::Other,
                });
            }
            _ => {}
        }
    }

    /// Takes over what `other` says.
    pub fn merge(&mut self, other: &Self) {
        if other.patch_key.is_some() {
            self.patch_key.clone_from(&other.patch_key);
        }
        if other.strategy.is_some() {
            self.strategy = other.strategy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Markers, Strategy};

    #[test]
    fn reads_markers_however_they_are_spaced() {
        let markers = Markers::parse(["//    +patchKey =name", "// +patchStrategy= retainKeys "]);
        assert_eq!(markers.patch_key.as_deref(), Some("name"));
        assert_eq!(markers.strategy, Some(Strategy::RetainKeys));
    }

    #[test]
    fn ignores_what_is_no_marker() {
        for line in ["patchKey=name", "+patchKey", "+patchKey=a b", "+usage=patchKey", ""] {
            assert_eq!(Markers::parse([line]), Markers::default(), "{line}");
        }
    }

    #[test]
    fn the_last_line_wins_and_unknown_strategies_are_kept_as_such() {
        let markers = Markers::parse(["+patchKey=a", "+patchKey=b", "+patchStrategy=merge"]);
        assert_eq!(markers.patch_key.as_deref(), Some("b"));
        assert_eq!(markers.strategy, Some(Strategy::Other));
    }
}
