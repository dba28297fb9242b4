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

/// A set of buckets, a bit each.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Buckets([u64; BUCKETS / 64]);

impl Buckets {
    /// All of them.
    pub const ALL: Self = Self([u64::MAX; BUCKETS / 64]);

    /// One more.
    pub fn insert(&mut self, bucket: u8) {
        if let Some(word) = self.0.get_mut(usize::from(bucket / 64)) {
            *word |= 1 << (bucket % 64);
        }
    }

    /// One less.
    pub fn remove(&mut self, bucket: u8) {
        if let Some(word) = self.0.get_mut(usize::from(bucket / 64)) {
            *word &= !(1 << (bucket % 64));
        }
    }

    /// Whether a bucket is in it.
    #[must_use]
    pub fn contains(self, bucket: u8) -> bool {
        self.0.get(usize::from(bucket / 64)).is_some_and(|word| word & (1 << (bucket % 64)) != 0)
    }

    /// What is in one of two.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        let mut union = self;
        other.iter().for_each(|bucket| union.insert(bucket));
        union
    }

    /// What is in this one and not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        self.iter().filter(|bucket| !other.contains(*bucket)).collect()
    }

    /// Those in it, in order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |bucket| self.contains(*bucket))
    }

    /// How many are in it.
    #[must_use]
    pub fn len(self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether none is in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// As the annotation of a Lease has it: a digit for each four buckets, the first bucket in the highest bit of the first one.
    #[must_use]
    pub fn to_text(self) -> String {
        self.0.iter().map(|word| format!("{:016x}", word.reverse_bits())).collect()
    }

    /// Reads such a text; `None`: it is none.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        if text.len() != BUCKETS / 4 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut words = [0; BUCKETS / 64];
        for (word, digits) in words.iter_mut().zip(text.as_bytes().chunks(16)) {
            let digits = std::str::from_utf8(digits).ok()?;
            *word = u64::from_str_radix(digits, 16).ok()?.reverse_bits();
        }
        Some(Self(words))
    }
}

impl FromIterator<u8> for Buckets {
    fn from_iter<I: IntoIterator<Item = u8>>(buckets: I) -> Self {
        let mut all = Self::default();
        buckets.into_iter().for_each(|bucket| all.insert(bucket));
        all
    }
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
    fn sets_of_buckets_have_a_text() {
        let some: Buckets = [0, 63, 64, 200, 255].into_iter().collect();
        assert!(some.iter().eq([0, 63, 64, 200, 255]) && some.len() == 5 && !some.contains(1));
        let text = some.to_text();
        assert!(text.starts_with('8') && text.ends_with('1') && text.len() == 64, "{text}");
        assert_eq!(Buckets::from_text(&text), Some(some));
        assert_eq!(Buckets::from_text(&Buckets::ALL.to_text()), Some(Buckets::ALL));
        let short = text.get(1..).unwrap_or_default();
        for bad in ["", short, &format!("+{short}"), &"é".repeat(32), &format!("{text}0")] {
            assert_eq!(Buckets::from_text(bad), None, "{bad}");
        }
        let mut less = some;
        less.remove(64);
        assert!(some.without(less).iter().eq([64]) && less.union(some) == some);
        assert!(Buckets::default().is_empty());
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
