//! Which cluster a name means, as far as that is proven.
//!
//! What a cluster says of itself proves nothing: whoever administers one may let it answer with the uid of another one. Two names
//! are one cluster only if both certificates come from the same authorities, which are named in the Secrets, not by the clusters.

use kube::Config;
use sha2::{Digest as _, Sha256};

/// The longest uid that is one.
const MAX_UID: usize = 64;
/// The longest version that is one.
const MAX_VERSION: usize = 64;

/// A cluster, by what it says and by what vouches for that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Proof {
    /// The uid that it says it has; empty if it is not known.
    pub uid: String,
    /// A hash of the authorities that its certificate is checked with; empty: it is not checked.
    pub authority: String,
}

impl Proof {
    /// Whether both say that they are the same cluster.
    pub(super) fn claims(&self, other: &Self) -> bool {
        !self.uid.is_empty() && self.uid == other.uid
    }

    /// Whether they are.
    pub(super) fn is(&self, other: &Self) -> bool {
        self.claims(other) && !self.authority.is_empty() && self.authority == other.authority
    }
}

/// A hash of certificates, in whichever order; empty if there are none.
pub(super) fn authority(certificates: Option<&[Vec<u8>]>) -> String {
    let mut hashes: Vec<[u8; 32]> = certificates
        .into_iter()
        .flatten()
        .map(|certificate| Sha256::digest(certificate).into())
        .collect();
    if hashes.is_empty() {
        return String::new();
    }
    hashes.sort_unstable();
    hashes.dedup();
    let all = Sha256::digest(hashes.concat());
    hex::encode(all.get(..16).unwrap_or_default())
}

/// The authorities of the control plane's own API server, as a [`Proof`] has them.
#[must_use]
pub fn own_authority(config: &Config) -> String {
    authority(config.root_cert.as_deref())
}

/// Whether a text that a member calls its uid can be one. It is kept, shown and stored.
pub(super) fn is_uid(text: &str) -> bool {
    (1..=MAX_UID).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// Whether a text that a member calls a version can be one.
pub(super) fn is_version(text: &str) -> bool {
    text.len() <= MAX_VERSION && text.bytes().all(|byte| byte.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_authorities_in_any_order_vouch_and_none_do_not() {
        let (a, b) = (vec![1_u8], vec![2_u8]);
        let of = |all: &[&Vec<u8>]| {
            let all: Vec<Vec<u8>> = all.iter().map(|one| (*one).clone()).collect();
            authority(Some(&all))
        };
        assert_eq!(of(&[&a, &b]), of(&[&b, &a, &a]));
        assert_ne!(of(&[&a]), of(&[&a, &b]));
        assert_eq!((authority(None), of(&[])), (String::new(), String::new()));
        let proof =
            |uid: &str, authority: &str| Proof { uid: uid.into(), authority: authority.into() };
        assert!(proof("u", "a").is(&proof("u", "a")));
        assert!(!proof("u", "a").is(&proof("u", "b")) && proof("u", "a").claims(&proof("u", "b")));
        assert!(!proof("u", "").is(&proof("u", "")));
        assert!(!proof("", "a").claims(&proof("", "a")));
    }

    #[test]
    fn what_is_stored_of_a_member_is_short_and_printable() {
        assert!(is_uid("0b1c-9") && is_version("v1.31.0+k3s1") && is_version(""));
        for text in ["", "a b", "a\nb", "é", &"x".repeat(65)] {
            assert!(!is_uid(text), "{text:?}");
        }
        assert!(!is_version(&"1".repeat(65)) && !is_version("1\u{1b}"));
    }
}
