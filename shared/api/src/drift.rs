//! How an Application wants drift to be handled: the values of the annotation `app.oam.dev/drift` and of apply-once rules.

/// What happens to an object that somebody else changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Drift {
    /// It is put back.
    #[default]
    Heal,
    /// It is left as it is, and reported.
    Warn,
    /// It is left as it is.
    Off,
}

impl Drift {
    /// The words, as annotations and policies have them.
    pub const WORDS: [&str; 3] = ["heal", "warn", "off"];

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "heal" => Some(Self::Heal),
            "warn" => Some(Self::Warn),
            "off" => Some(Self::Off),
            _ => None,
        }
    }
}
