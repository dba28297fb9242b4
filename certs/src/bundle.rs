//! Reading certificates, and the bundle of authorities that a webhook configuration carries.

use jiff::Timestamp;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// What is decided upon, of one certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// First moment.
    pub not_before: Timestamp,
    /// Last moment.
    pub not_after: Timestamp,
    /// DNS names.
    pub hosts: Vec<String>,
    /// Common name of the subject.
    pub subject: String,
    /// Common name of the issuer.
    pub issuer: String,
    /// Identifier of its own key.
    pub key_id: Option<Vec<u8>>,
    /// Identifier of the key that signed it.
    pub signed_by: Option<Vec<u8>>,
    /// It may sign others.
    pub is_authority: bool,
}

impl Facts {
    /// Of the first certificate of a PEM text.
    #[must_use]
    pub fn of_pem(pem: &str) -> Option<Self> {
        let der = CertificateDer::pem_slice_iter(pem.as_bytes()).next()?.ok()?;
        Self::of_der(&der)
    }

    fn of_der(der: &[u8]) -> Option<Self> {
        let (_, cert) = X509Certificate::from_der(der).ok()?;
        let mut facts = Self {
            not_before: Timestamp::from_second(cert.validity().not_before.timestamp()).ok()?,
            not_after: Timestamp::from_second(cert.validity().not_after.timestamp()).ok()?,
            hosts: Vec::new(),
            subject: common_name(cert.subject()),
            issuer: common_name(cert.issuer()),
            key_id: None,
            signed_by: None,
            is_authority: false,
        };
        for extension in cert.extensions() {
            match extension.parsed_extension() {
                ParsedExtension::SubjectAlternativeName(names) => {
                    facts.hosts.extend(names.general_names.iter().filter_map(|name| match name {
                        GeneralName::DNSName(host) => Some((*host).to_owned()),
                        _ => None,
                    }));
                }
                ParsedExtension::SubjectKeyIdentifier(id) => facts.key_id = Some(id.0.to_vec()),
                ParsedExtension::AuthorityKeyIdentifier(id) => {
                    facts.signed_by = id.key_identifier.as_ref().map(|id| id.0.to_vec());
                }
                ParsedExtension::BasicConstraints(constraints) => {
                    facts.is_authority = constraints.ca;
                }
                _ => {}
            }
        }
        Some(facts)
    }

    /// Whether the moment is inside.
    #[must_use]
    pub fn holds_at(&self, now: Timestamp) -> bool {
        self.not_before <= now && now <= self.not_after
    }

    /// Two thirds of its life are over.
    #[must_use]
    pub fn is_due(&self, now: Timestamp) -> bool {
        let (start, end) = (self.not_before.as_second(), self.not_after.as_second());
        let due = start + (end - start) / 3 * 2;
        now.as_second() >= due || !self.holds_at(now)
    }
}

fn common_name(name: &x509_parser::x509::X509Name<'_>) -> String {
    name.iter_common_name().find_map(|cn| cn.as_str().ok()).unwrap_or_default().to_owned()
}

/// One PEM text of several: without repetition, without what has expired or is no certificate,
/// in order of appearance.
#[must_use]
pub fn join<'a>(texts: impl IntoIterator<Item = &'a str>, now: Timestamp) -> String {
    let mut seen: Vec<Vec<u8>> = Vec::new();
    let mut out = String::new();
    for text in texts {
        for der in CertificateDer::pem_slice_iter(text.as_bytes()).flatten() {
            let is_valid = Facts::of_der(&der).is_some_and(|facts| now <= facts.not_after);
            if !is_valid || seen.iter().any(|known| known == der.as_ref()) {
                continue;
            }
            out.push_str(&pem(&der));
            seen.push(der.to_vec());
        }
    }
    out
}

/// Whether every certificate of `part` is in `whole`.
#[must_use]
pub fn contains(whole: &str, part: &str) -> bool {
    let list = |text: &str| -> Vec<Vec<u8>> {
        CertificateDer::pem_slice_iter(text.as_bytes())
            .filter_map(|der| Some(der.ok()?.to_vec()))
            .collect()
    };
    let whole = list(whole);
    let part = list(part);
    !part.is_empty() && part.iter().all(|one| whole.contains(one))
}

fn pem(der: &[u8]) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    let mut rest = text.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(64).unwrap_or((rest, ""));
        out.push_str(line);
        out.push('\n');
        rest = after;
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}
