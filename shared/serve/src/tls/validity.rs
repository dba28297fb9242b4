//! What a server needs of certificates, read from their DER: the validity of its own, the common name of a client's. Not worth
//! an X.509 parser in every program.

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
const OBJECT_IDENTIFIER: u8 = 0x06;
/// 2.5.4.3
const COMMON_NAME: [u8; 3] = [0x55, 0x04, 0x03];
const UTF8_STRING: u8 = 0x0c;
const PRINTABLE_STRING: u8 = 0x13;
const IA5_STRING: u8 = 0x16;

impl Validity {
    /// Whether the moment is inside.
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Reads it: `Certificate { tbs { [0] version?, serial, signature, issuer, validity .. } .. }`.
    pub(super) fn of(der: &[u8]) -> Option<Self> {
        let (validity, _) = validity_and_rest(der)?;
        let (tag, text, rest) = element(validity)?;
        let not_before = time(tag, text)?;
        let (tag, text, _) = element(rest)?;
        Some(Self { not_before, not_after: time(tag, text)? })
    }
}

/// The content of the validity, and what follows: subject, key ..
fn validity_and_rest(der: &[u8]) -> Option<(&[u8], &[u8])> {
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
    let (tag, validity, rest) = element(rest)?;
    (tag == SEQUENCE).then_some((validity, rest))
}

/// The common name of a certificate's subject, of several the last, as Go reads it; empty if there is none.
///
/// `None`: it is no certificate, or the name is no text.
pub(crate) fn common_name(der: &[u8]) -> Option<String> {
    let (_, rest) = validity_and_rest(der)?;
    let (tag, mut names, _) = element(rest)?;
    if tag != SEQUENCE {
        return None;
    }
    let mut found = String::new();
    while !names.is_empty() {
        let (_, mut set, rest) = element(names)?;
        while !set.is_empty() {
            let (_, pair, rest) = element(set)?;
            let (tag, kind, value) = element(pair)?;
            if tag == OBJECT_IDENTIFIER && kind == COMMON_NAME {
                let (tag, text, _) = element(value)?;
                if !matches!(tag, UTF8_STRING | PRINTABLE_STRING | IA5_STRING) {
                    return None;
                }
                found = std::str::from_utf8(text).ok()?.to_owned();
            }
            set = rest;
        }
        names = rest;
    }
    Some(found)
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

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_common_name_is_that_of_the_subject() {
        for (names, expected) in [(&["front-proxy"][..], "front-proxy"), (&[], "")] {
            let mut params = CertificateParams::default();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::OrganizationName, "org");
            for name in names {
                params.distinguished_name.push(DnType::CommonName, *name);
            }
            let key = KeyPair::generate().unwrap();
            let der = params.self_signed(&key).unwrap().der().to_vec();
            assert_eq!(common_name(&der).as_deref(), Some(expected));
            // Every part of it is no certificate, and no part ends the process.
            for end in 0..der.len() {
                let _ = common_name(&der[..end]);
            }
        }
        assert_eq!(common_name(b"rubbish"), None);
    }
}
