//! The certificates of a test control plane: one EC authority, leaves for servers and clients.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate with its key, both as PEM.
#[derive(Debug, Clone)]
pub struct Leaf {
    /// The certificate.
    pub certificate: String,
    /// Its private key (PKCS #8).
    pub key: String,
}

impl Leaf {
    /// Writes `NAME.crt` and `NAME.key` into a folder.
    ///
    /// # Errors
    /// When the folder cannot be written to.
    pub fn write(&self, dir: &Path, name: &str) -> Result<()> {
        for (suffix, text) in [("crt", &self.certificate), ("key", &self.key)] {
            let path = dir.join(format!("{name}.{suffix}"));
            std::fs::write(&path, text)
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

/// A certificate authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    key: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority").finish_non_exhaustive()
    }
}

impl Authority {
    /// A new authority.
    ///
    /// # Errors
    /// When the cryptography provider fails.
    pub fn new(name: &str) -> Result<Self> {
        let key_pair = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = common_name(name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let certificate = params.self_signed(&key_pair)?.pem();
        let key = key_pair.serialize_pem();
        Ok(Self { issuer: Issuer::new(params, key_pair), certificate, key })
    }

    /// The authority's own certificate, PEM.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// The authority as a leaf: certificate and key, for those that sign with it.
    #[must_use]
    pub fn leaf(&self) -> Leaf {
        Leaf { certificate: self.certificate.clone(), key: self.key.clone() }
    }

    /// A certificate for a server on this machine that is also called `names` (DNS names or addresses).
    ///
    /// # Errors
    /// When a name is not a DNS name or the cryptography provider fails.
    pub fn server(&self, name: &str, names: &[&str]) -> Result<Leaf> {
        let mut sans = vec![SanType::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST))];
        for name in names {
            sans.push(match name.parse::<IpAddr>() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName((*name).try_into()?),
            });
        }
        self.issue(common_name(name), sans)
    }

    /// A certificate for a client, with its Kubernetes groups.
    ///
    /// # Errors
    /// When the cryptography provider fails.
    pub fn client(&self, user: &str, groups: &[&str]) -> Result<Leaf> {
        let mut name = common_name(user);
        for group in groups {
            name.push(DnType::OrganizationName, *group);
        }
        self.issue(name, Vec::new())
    }

    fn issue(&self, name: DistinguishedName, sans: Vec<SanType>) -> Result<Leaf> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::default();
        params.distinguished_name = name;
        params.subject_alt_names = sans;
        params.use_authority_key_identifier_extension = true;
        params.key_usages =
            vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Leaf { certificate, key: key.serialize_pem() })
    }
}

/// A key pair that signs ServiceAccount tokens: private and public half, PEM.
///
/// # Errors
/// When the cryptography provider fails.
pub fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}

fn common_name(name: &str) -> DistinguishedName {
    let mut distinguished = DistinguishedName::new();
    distinguished.push(DnType::CommonName, name);
    distinguished
}
