//! The annotation `app.oam.dev/restart-workflow`: run again now, at a time, or periodically.

use jiff::{SignedDuration, Timestamp};
use vela_gocompat::duration::Duration as GoDuration;

/// The shortest pause between the end of a run and the next one. A run that begins as soon as the last one ended never
/// leaves the Application alone.
pub const SHORTEST_PAUSE: SignedDuration = SignedDuration::from_secs(10);

/// What the annotation asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// One run, now.
    Now,
    /// One run at this time.
    At(Timestamp),
    /// A run after each run, this long after its end.
    Every(SignedDuration),
}

/// The annotation is neither `true`, a time (RFC 3339) nor a duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("neither true, a time nor a duration")]
pub struct NoRestart;

impl Restart {
    /// Reads the annotation.
    ///
    /// # Errors
    /// The text has none of the three forms.
    pub fn read(text: &str) -> Result<Self, NoRestart> {
        if text == "true" {
            return Ok(Self::Now);
        }
        if let Ok(at) = text.parse() {
            return Ok(Self::At(at));
        }
        let pause: GoDuration = text.parse().map_err(|_| NoRestart)?;
        Ok(Self::Every(SignedDuration::from_nanos(pause.as_nanos())))
    }

    /// Whether it asks for runs at a shorter distance than [`SHORTEST_PAUSE`].
    #[must_use]
    pub fn is_too_often(self) -> bool {
        matches!(self, Self::Every(pause) if pause < SHORTEST_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let every = |seconds| Ok(Restart::Every(SignedDuration::from_secs(seconds)));
        let at = Timestamp::from_second(600).unwrap();
        for (text, expected, too_often) in [
            ("true", Ok(Restart::Now), false),
            ("1970-01-01T00:10:00Z", Ok(Restart::At(at)), false),
            ("720h", every(720 * 3600), false),
            ("10s", every(10), false),
            ("9s", every(9), true),
            ("0s", every(0), true),
            ("0", every(0), true),
            ("-1h", every(-3600), true),
            ("soon", Err(NoRestart), false),
            ("", Err(NoRestart), false),
        ] {
            let read = Restart::read(text);
            assert_eq!(read, expected, "{text}");
            assert_eq!(read.is_ok_and(Restart::is_too_often), too_often, "{text}");
        }
    }
}
