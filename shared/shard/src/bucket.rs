//! The bucket of an Application: a function of its name that anybody can compute.

use sha2::{Digest as _, Sha256};

/// How many buckets there are. It is part of the protocol: members with another number would not agree.
pub const BUCKETS: usize = 256;

/// The bucket of an Application: the first byte of the SHA-256 of `<namespace>/<name>`. It outlives deletion and re-creation.
#[must_use]
pub fn bucket_of(namespace: &str, name: &str) -> u8 {
    let hash =
        Sha256::new().chain_update(namespace).chain_update("/").chain_update(name).finalize();
    hash.first().copied().unwrap_or_default()
}

/// How much a member is preferred for a bucket (rendezvous hashing): the first eight bytes of the SHA-256 of `<id>/<bucket>`.
pub(crate) fn score(id: &str, bucket: usize) -> u64 {
    let hash = Sha256::new()
        .chain_update(id)
        .chain_update("/")
        .chain_update(bucket.to_string())
        .finalize();
    hash.iter().take(8).fold(0, |score, byte| (score << 8) | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_what_sha256sum_says() {
        // printf shop/front | sha256sum | cut -c1-2
        assert_eq!(bucket_of("shop", "front"), 0x0c);
        assert_eq!(bucket_of("a", "b"), bucket_of("a", "b"));
    }

    #[test]
    fn applications_spread() {
        let mut counts = [0_usize; BUCKETS];
        for number in 0..12_000 {
            counts[usize::from(bucket_of("team", &format!("app-{number}")))] += 1;
        }
        assert!(counts.iter().all(|count| (20..=80).contains(count)), "{counts:?}");
    }
}
