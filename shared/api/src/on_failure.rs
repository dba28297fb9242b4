//! How an Application wants failed rollouts to be handled: the values of the annotation `app.oam.dev/on-failure`.

/// What happens when a rollout fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// The spec that succeeded last is put back.
    Rollback,
    /// The workflow waits for a person.
    Suspend,
}

impl OnFailure {
    /// What the annotation may say.
    pub const WORDS: [&str; 2] = ["rollback", "suspend"];

    /// Reads the word.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "rollback" => Some(Self::Rollback),
            "suspend" => Some(Self::Suspend),
            _ => None,
        }
    }
}
