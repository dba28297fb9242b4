//! The keys, and the seals made with them.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use parking_lot::RwLock;
use sha2::{Digest, Sha256};

/// The least number of bytes of a key: as many as the hash has, so that guessing the key is no easier than guessing a seal.
pub const MIN_KEY: usize = 32;

/// The only form of seals so far; another hash or another encoding gets another version.
const VERSION: &str = "v1";

/// What a seal is for. A seal of one domain says nothing in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Domain {
    /// Who wrote an object (an Application, a definition, a Workflow, a Policy).
    Stamp,
    /// That the controller made an `ApplicationRevision`, and from what.
    Revision,
    /// That the controller wrote an entry of a workflow's context.
    WorkflowContext,
}

impl Domain {
    const fn label(self) -> &'static str {
        match self {
            Self::Stamp => "vela stamp",
            Self::Revision => "vela revision",
            Self::WorkflowContext => "vela workflow context",
        }
    }
}

/// The key that signs, and the one before it, whose seals still count. So a key is exchanged without a moment in which
/// seals are worth nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Keys {
    current: Key,
    previous: Option<Key>,
}

/// Why bytes are no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// Shorter than [`MIN_KEY`].
    #[error("a key has at least {MIN_KEY} bytes, this one has {0}")]
    Short(usize),
}

impl Keys {
    /// From the bytes of the keys.
    ///
    /// # Errors
    /// One of them is too short.
    pub fn new(current: &[u8], previous: Option<&[u8]>) -> Result<Self, KeyError> {
        Ok(Self { current: Key::new(current)?, previous: previous.map(Key::new).transpose()? })
    }

    /// The bytes of both, to be stored again where they were lost.
    #[must_use]
    pub fn bytes(&self) -> (&[u8], Option<&[u8]>) {
        (&self.current.bytes, self.previous.as_ref().map(|key| key.bytes.as_slice()))
    }

    /// The seal over the parts: `v1.<key id>.<hash>`, which is a valid value of annotations and labels.
    #[must_use]
    pub fn sign(&self, domain: Domain, parts: &[&[u8]]) -> String {
        let sum = self.current.mac(domain, parts).finalize().into_bytes();
        format!("{VERSION}.{}.{}", self.current.id, BASE64.encode(sum))
    }

    /// Whether one of the keys made this seal over these parts. Takes as long for a wrong seal as for a right one.
    #[must_use]
    pub fn verify(&self, domain: Domain, parts: &[&[u8]], seal: &str) -> bool {
        let mut fields = seal.split('.');
        let (Some(VERSION), Some(id), Some(sum), None) =
            (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            return false;
        };
        let Ok(sum) = BASE64.decode(sum) else { return false };
        let key = [Some(&self.current), self.previous.as_ref()];
        let key = key.into_iter().flatten().find(|key| key.id == id);
        key.is_some_and(|key| key.mac(domain, parts).verify_slice(&sum).is_ok())
    }

    /// Whether the seal names the signing key: one that does not is renewed at the next occasion.
    #[must_use]
    pub fn is_current(&self, seal: &str) -> bool {
        seal.split('.').nth(1) == Some(&self.current.id)
    }

    /// The name of the signing key, which says nothing about its bytes: for logs.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.current.id
    }
}

/// Keys are never printed.
impl std::fmt::Debug for Keys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let previous = self.previous.as_ref().map(|key| &key.id);
        f.debug_struct("Keys")
            .field("current", &self.current.id)
            .field("previous", &previous)
            .finish()
    }
}

/// The keys of a process: read at its start, exchanged when they change, the same for all who hold a clone.
#[derive(Debug, Clone, Default)]
pub struct KeyHolder(Arc<RwLock<Option<Arc<Keys>>>>);

impl KeyHolder {
    /// The keys, if they were read already.
    #[must_use]
    pub fn get(&self) -> Option<Arc<Keys>> {
        self.0.read().clone()
    }

    /// Exchanges the keys. Whether they are others than before.
    pub fn set(&self, keys: Keys) -> bool {
        let mut held = self.0.write();
        let is_other = held.as_deref() != Some(&keys);
        *held = Some(Arc::new(keys));
        is_other
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    id: String,
    bytes: Vec<u8>,
}

impl Key {
    fn new(bytes: &[u8]) -> Result<Self, KeyError> {
        if bytes.len() < MIN_KEY {
            return Err(KeyError::Short(bytes.len()));
        }
        // A hash of the key under a label of its own: distinguishes keys, and reveals nothing about seals.
        let sum = Sha256::new().chain_update("vela key id").chain_update(bytes).finalize();
        let id = hex::encode(sum.get(..4).unwrap_or_default());
        Ok(Self { id, bytes: bytes.to_vec() })
    }

    /// Every part with its length before it, and their number first: no two lists of parts are hashed alike.
    #[expect(clippy::expect_used, reason = "HMAC takes keys of any length")]
    fn mac(&self, domain: Domain, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.bytes).expect("a key of any length");
        let length = |mac: &mut Hmac<Sha256>, n: usize| mac.update(&(n as u64).to_be_bytes());
        length(&mut mac, parts.len());
        for part in [domain.label().as_bytes()].iter().chain(parts) {
            length(&mut mac, part.len());
            mac.update(part);
        }
        mac
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const A: &[u8] = b"0123456789abcdef0123456789abcdef";
    const B: &[u8] = b"another key that is long enough!!";
    const ALL: [Domain; 3] = [Domain::Stamp, Domain::Revision, Domain::WorkflowContext];

    fn keys(current: &[u8], previous: Option<&[u8]>) -> Keys {
        Keys::new(current, previous).unwrap()
    }

    /// Another encoding would make every seal of a cluster worthless on upgrade.
    #[test]
    fn the_form_of_a_seal_stays() {
        let seal = keys(A, None).sign(Domain::Stamp, &[b"team", b"web"]);
        assert_eq!(seal, "v1.e8097ddd.SY-vuzqU93TyEpkHDW1IR6E9baokgNzuE2aaXAnOihc");
    }

    #[test]
    fn a_key_before_the_current_one_still_counts() {
        let old = keys(A, None).sign(Domain::Stamp, &[b"x"]);
        let rotated = keys(B, Some(A));
        assert!(rotated.verify(Domain::Stamp, &[b"x"], &old));
        assert!(!rotated.is_current(&old));
        let new = rotated.sign(Domain::Stamp, &[b"x"]);
        assert!(rotated.is_current(&new));
        assert!(rotated.verify(Domain::Stamp, &[b"x"], &new));
        assert!(!keys(A, None).verify(Domain::Stamp, &[b"x"], &new), "a key that nobody knows");
        assert!(!keys(B, None).verify(Domain::Stamp, &[b"x"], &old), "a key that was taken away");
    }

    #[test]
    fn what_is_no_seal_is_refused() {
        let keys = keys(A, None);
        let seal = keys.sign(Domain::Stamp, &[b"x"]);
        let (head, sum) = seal.rsplit_once('.').unwrap();
        for wrong in [
            String::new(),
            "v1".to_owned(),
            "v1..".to_owned(),
            format!("{head}."),
            format!("{head}.AA"),
            format!("{head}.{}", &sum[1..]),
            format!("{seal}A"),
            format!("{seal}="),
            format!("{seal}.x"),
            seal.replacen("v1", "v2", 1),
            seal.replacen("v1.", "v1..", 1),
            seal.to_uppercase(),
            "\u{0}\n..ü".to_owned(),
        ] {
            assert!(!keys.verify(Domain::Stamp, &[b"x"], &wrong), "{wrong}");
        }
        assert!(keys.verify(Domain::Stamp, &[b"x"], &seal));
    }

    #[test]
    fn short_keys_are_refused() {
        assert_eq!(Keys::new(&[7; 31], None), Err(KeyError::Short(31)));
        assert_eq!(Keys::new(A, Some(b"")), Err(KeyError::Short(0)));
    }

    #[test]
    fn all_who_hold_a_clone_see_the_keys_change() {
        let holder = KeyHolder::default();
        let other = holder.clone();
        assert!(other.get().is_none());
        assert!(holder.set(keys(A, None)));
        assert_eq!(other.get().as_deref(), Some(&keys(A, None)));
        assert!(!holder.set(keys(A, None)) && holder.set(keys(B, Some(A))));
        assert_eq!(other.get().as_deref(), Some(&keys(B, Some(A))));
    }

    #[test]
    fn keys_are_not_printed() {
        let text = format!("{:?}", keys(A, Some(B)));
        assert!(!text.contains("0123456789") && !text.contains("another"), "{text}");
    }

    proptest! {
        /// Parts that are joined or divided otherwise, and another domain, are another message.
        #[test]
        fn a_seal_is_for_one_message(
            one in proptest::collection::vec("[ab]{0,3}", 0..4),
            other in proptest::collection::vec("[ab]{0,3}", 0..4),
            i in 0..3_usize,
            j in 0..3_usize,
        ) {
            let keys = keys(A, None);
            fn bytes(parts: &[String]) -> Vec<&[u8]> {
                parts.iter().map(String::as_bytes).collect()
            }
            let seal = keys.sign(ALL[i], &bytes(&one));
            prop_assert!(keys.verify(ALL[i], &bytes(&one), &seal));
            prop_assert_eq!(keys.verify(ALL[j], &bytes(&other), &seal), i == j && one == other);
        }
    }
}
