//! From when to when a credential is valid: what a certificate, or the claims of a token, say. Nothing is verified; it is for a
//! warning in time only.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::config::AuthInfo;
use serde::Deserialize;
use x509_parser::pem::Pem;

/// The life of a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Its begin, if it is known.
    pub from: Option<Timestamp>,
    /// Its end.
    pub until: Timestamp,
}

/// The shortest time before the end at which it is reported.
const LEAST: SignedDuration = SignedDuration::from_hours(1);

impl Validity {
    /// Whether a tenth of its life, or an hour, is left at the most.
    #[must_use]
    pub fn ends_soon(&self, now: Timestamp) -> bool {
        let life = self.from.map_or(SignedDuration::ZERO, |from| self.until.duration_since(from));
        self.until.duration_since(now) <= (life / 10).max(LEAST)
    }
}

/// Of the credential of a client.
pub(super) fn of(auth: &AuthInfo) -> Option<Validity> {
    if let Some(certificate) = &auth.client_certificate_data {
        return of_certificate(&STANDARD.decode(certificate).ok()?);
    }
    // The token's own type shows it to nobody; this is the way in which it is stored.
    let fields = serde_json::to_value(auth).ok()?;
    of_token(fields.get("token")?.as_str()?)
}

fn of_certificate(pem: &[u8]) -> Option<Validity> {
    let pem = Pem::iter_from_buffer(pem).next()?.ok()?;
    let certificate = pem.parse_x509().ok()?;
    let at = |time: x509_parser::time::ASN1Time| Timestamp::from_second(time.timestamp()).ok();
    let validity = certificate.validity();
    Some(Validity { from: at(validity.not_before), until: at(validity.not_after)? })
}

#[derive(Deserialize)]
struct Claims {
    exp: f64,
    iat: Option<f64>,
}

fn of_token(token: &str) -> Option<Validity> {
    let claims = token.split('.').nth(1)?;
    let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
    let at = |seconds: f64| {
        let duration = SignedDuration::try_from_secs_f64(seconds).ok()?;
        Timestamp::UNIX_EPOCH.checked_add(duration).ok()
    };
    Some(Validity { from: claims.iat.and_then(at), until: at(claims.exp)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_claims_of_a_token_say_when_it_ends() {
        let end = "2026-01-11T00:00:00Z".parse::<Timestamp>().unwrap();
        let begin = "2026-01-01T00:00:00Z".parse::<Timestamp>().unwrap();
        let (exp, iat) = (end.as_second(), begin.as_second());
        for (text, expected) in [
            (token(&format!(r#"{{"exp": {exp}, "iat": {iat}}}"#)), Some((Some(begin), end))),
            (token(&format!(r#"{{"exp": {exp}}}"#)), Some((None, end))),
            (token("{}"), None),
            (token(r#"{"exp": 1e300}"#), None),
            (token("not json"), None),
            ("opaque".to_owned(), None),
            ("a.b".to_owned(), None),
        ] {
            let auth = AuthInfo { token: Some(text.clone().into()), ..AuthInfo::default() };
            let found = of(&auth).map(|validity| (validity.from, validity.until));
            assert_eq!(found, expected, "{text}");
        }
        let validity = Validity { from: Some(begin), until: end };
        for (now, soon) in [
            ("2026-01-09T23:00:00Z", false),
            ("2026-01-10T00:00:00Z", true),
            ("2026-01-12T00:00:00Z", true),
        ] {
            assert_eq!(validity.ends_soon(now.parse().unwrap()), soon, "{now}");
        }
        let unknown = Validity { from: None, until: end };
        assert!(!unknown.ends_soon("2026-01-10T22:00:00Z".parse().unwrap()));
        assert!(unknown.ends_soon("2026-01-10T23:00:00Z".parse().unwrap()));
    }

    #[test]
    fn what_is_no_certificate_says_nothing() {
        for text in ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n"] {
            let data = Some(STANDARD.encode(text));
            let auth = AuthInfo { client_certificate_data: data, ..AuthInfo::default() };
            assert_eq!(of(&auth), None);
        }
    }
}
