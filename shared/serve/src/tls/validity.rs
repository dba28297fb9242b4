//! The validity of a certificate, read from its DER: the only field a server needs of its own
//! certificate, not worth an X.509 parser in the webhook.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// From when until when a certificate is valid, both inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first moment.
    pub not_before: Timestamp,
    /// The last moment.
    pub not_after: Timestamp,
}

impl fmt::Display for Validity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} until {}", self.not_before, self.not_after)
    }
}

const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

impl Validity {
    /// Whether the moment is inside.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Reads it: `Certificate { tbs { [0] version?, serial, signature, issuer, validity .. } .. }`.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let (tag, certificate, _) = element(der)?;
        let (tbs_tag, tbs, _) = element(certificate)?;
        if tag != SEQUENCE || tbs_tag != SEQUENCE {
            return None;
        }
        let (first, _, after_first) = element(tbs)?;
        let serial_on = if first == VERSION { after_first } else { tbs };
        let (_, _, rest) = element(serial_on)?;
        let (_, _, rest) = element(rest)?;
        let (_, _, rest) = element(rest)?;
        let (tag, validity, _) = element(rest)?;
        if tag != SEQUENCE {
            return None;
        }
        let (tag, text, rest) = element(validity)?;
        let not_before = time(tag, text)?;
        let (tag, text, _) = element(rest)?;
        Some(Self { not_before, not_after: time(tag, text)? })
    }
}

/// Tag, content and what follows, of the first DER element.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut length = usize::from(first);
    if first & 0x80 != 0 {
        let bytes = usize::from(first & 0x7f);
        if bytes == 0 || bytes > 4 {
            return None;
        }
        let (big_endian, after) = rest.split_at_checked(bytes)?;
        length = big_endian.iter().fold(0, |n, &byte| (n << 8) | usize::from(byte));
        rest = after;
    }
    let (content, after) = rest.split_at_checked(length)?;
    Some((tag, content, after))
}

fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let text = match tag {
        // RFC 5280: two digits, 50 and above mean the last century
        UTC_TIME if text.get(..2)? >= "50" => format!("19{text}"),
        UTC_TIME => format!("20{text}"),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let civil = DateTime::strptime("%Y%m%d%H%M%S", text).ok()?;
    Some(civil.to_zoned(TimeZone::UTC).ok()?.timestamp())
}
