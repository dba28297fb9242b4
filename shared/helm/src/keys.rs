//! Private keys, in the text forms that Go gives them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ED25519, PKCS_RSA_SHA256, RsaKeySize};

use crate::der;

/// What kind of key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Algorithm {
    /// RSA, modulus of 2048 bits: keys of certificates.
    Rsa2048,
    /// RSA, modulus of 4096 bits: `genPrivateKey "rsa"`.
    Rsa4096,
    /// ECDSA on the curve P-256.
    EcdsaP256,
    /// EdDSA on Curve25519.
    Ed25519,
}

/// A key that cannot be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct KeyError(pub(crate) String);

/// A private key, PKCS #8, with its algorithm.
#[derive(Debug, Clone)]
pub struct PrivateKey {
    /// PKCS #8.
    der: Vec<u8>,
    algorithm: Algorithm,
}

impl PrivateKey {
    /// Makes a key with the randomness of the operating system.
    ///
    /// # Errors
    /// If the system refuses.
    pub fn generate(algorithm: Algorithm) -> Result<Self, KeyError> {
        let rsa = |size| KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, size);
        let key = match algorithm {
            Algorithm::Rsa2048 => rsa(RsaKeySize::_2048),
            Algorithm::Rsa4096 => rsa(RsaKeySize::_4096),
            Algorithm::EcdsaP256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256),
            Algorithm::Ed25519 => KeyPair::generate_for(&PKCS_ED25519),
        };
        let key = key.map_err(|error| KeyError(error.to_string()))?;
        Ok(Self { der: key.serialize_der(), algorithm })
    }

    /// A key that was made before: its kind, and what [`Self::der`] gave.
    #[must_use]
    pub fn restored(algorithm: Algorithm, der: Vec<u8>) -> Self {
        Self { der, algorithm }
    }

    /// What kind of key it is.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The key as PKCS #8.
    #[must_use]
    pub fn der(&self) -> &[u8] {
        &self.der
    }

    /// The key in PEM: RSA and elliptic curves each in a form of their own, others as PKCS #8.
    #[must_use]
    pub fn to_pem(&self) -> String {
        match self.algorithm {
            Algorithm::Rsa2048 | Algorithm::Rsa4096 => {
                pem("RSA PRIVATE KEY", der::private_key(&self.der).unwrap_or_default())
            }
            Algorithm::EcdsaP256 => pem("EC PRIVATE KEY", &self.sec1().unwrap_or_default()),
            Algorithm::Ed25519 => pem("PRIVATE KEY", &self.ed25519().unwrap_or_default()),
        }
    }

    /// RFC 5915 with the curve and the public key, as Go writes it.
    fn sec1(&self) -> Option<Vec<u8>> {
        const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
        let (_, inner) = der::read(der::private_key(&self.der)?, 0x30)?;
        let (rest, _version) = der::read(inner, 0x02)?;
        let (_, scalar) = der::read(rest, 0x04)?;
        let key = KeyPair::try_from(self.der.as_slice()).ok()?;
        let public = rcgen::PublicKeyData::der_bytes(&key);
        let bits = der::write(0x03, &[&[0], public]);
        Some(der::write(
            0x30,
            &[
                &[0x02, 0x01, 0x01],
                &der::write(0x04, &[scalar]),
                &der::write(0xa0, &[P256]),
                &der::write(0xa1, &[&bits]),
            ],
        ))
    }

    /// PKCS #8 without the public key.
    fn ed25519(&self) -> Option<Vec<u8>> {
        const ALGORITHM: &[u8] = &[0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70];
        let (_, seed) = der::read(der::private_key(&self.der)?, 0x04)?;
        let inner = der::write(0x04, &[seed]);
        Some(der::write(0x30, &[&[0x02, 0x01, 0x00], ALGORITHM, &der::write(0x04, &[&inner])]))
    }
}

/// Text between the marks of PEM, in lines of 64 characters.
pub(crate) fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().copied().map(char::from));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The first block of a text in PEM: its label and content.
pub(crate) fn from_pem(text: &str) -> Option<(String, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    // Headers before an empty line do not matter.
    let body = body.split_once("\n\n").map_or(body, |(_, body)| body);
    let clean: String = body.chars().filter(|char| !char.is_whitespace()).collect();
    Some((label.to_owned(), STANDARD.decode(clean).ok()?))
}
