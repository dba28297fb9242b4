//! Making certificates: an authority, and leaves signed by it. ECDSA P-256 throughout.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// How long an authority lasts. It is replaced, with overlap, at two thirds.
pub const AUTHORITY_DAYS: u32 = 5 * 365;
/// How long a leaf lasts. It is replaced at two thirds.
pub const LEAF_DAYS: u32 = 365;
/// Clocks differ.
const SKEW: Duration = Duration::from_secs(3600);

/// A certificate and its key, both PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pem {
    /// The certificate.
    pub cert: String,
    /// The key, PKCS#8.
    pub key: Key,
}

/// A private key that does not show itself.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(pub String);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// The key or the parameters were not usable.
#[derive(Debug, thiserror::Error)]
#[error("cannot issue a certificate")]
pub struct IssueError(#[from] rcgen::Error);

/// A new authority.
///
/// # Errors
/// When the system has no randomness for a key.
pub fn authority(now: Timestamp) -> Result<Pem, IssueError> {
    let key = KeyPair::generate()?;
    let cert = authority_params(&format!("{}", now.as_second()), now).self_signed(&key)?;
    Ok(Pem { cert: cert.pem(), key: Key(key.serialize_pem()) })
}

fn authority_params(serial: &str, now: Timestamp) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, format!("vela-admission-ca-{serial}"));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid(&mut params, now, AUTHORITY_DAYS);
    params
}

/// A leaf for these hosts, signed by the authority.
///
/// # Errors
/// When the authority's key is not usable or a host is no DNS name.
pub fn leaf(
    authority: &Pem,
    authority_name: &str,
    hosts: &[String],
    now: Timestamp,
) -> Result<Pem, IssueError> {
    let authority_key = KeyPair::from_pem(&authority.key.0)?;
    // Only name and key of the issuer go into what it signs.
    let mut issuer = CertificateParams::default();
    issuer.distinguished_name.push(DnType::CommonName, authority_name);
    issuer.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    issuer.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let issuer = Issuer::new(issuer, authority_key);
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(hosts.to_vec())?;
    let name = hosts.first().map_or("vela-webhook", String::as_str);
    params.distinguished_name.push(DnType::CommonName, name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, now, LEAF_DAYS);
    let cert = params.signed_by(&key, &issuer)?;
    Ok(Pem { cert: cert.pem(), key: Key(key.serialize_pem()) })
}

fn valid(params: &mut CertificateParams, now: Timestamp, days: u32) {
    let date = now.to_zoned(TimeZone::UTC).date();
    let month = u8::try_from(date.month()).unwrap_or(1);
    let day = u8::try_from(date.day()).unwrap_or(1);
    let midnight = rcgen::date_time_ymd(i32::from(date.year()), month, day);
    let into_day = u64::try_from(now.as_second().rem_euclid(86_400)).unwrap_or_default();
    let start = midnight + Duration::from_secs(into_day);
    params.not_before = start - SKEW;
    params.not_after = start + Duration::from_secs(u64::from(days) * 86_400);
}
