//! FNV as Go's `hash/fnv` computes it. Note the names: Go's `New64` is FNV-1 (multiply, then
//! xor), `New32a` and `New64a` are FNV-1a (xor, then multiply).

const OFFSET_64: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME_64: u64 = 0x0000_0100_0000_01b3;
const OFFSET_32: u32 = 0x811c_9dc5;
const PRIME_32: u32 = 0x0100_0193;

/// FNV-1, 64 bits: Go's `fnv.New64`.
#[must_use]
pub fn fnv1_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| hash.wrapping_mul(PRIME_64) ^ u64::from(*byte))
}

/// FNV-1a, 64 bits: Go's `fnv.New64a`.
#[must_use]
pub fn fnv1a_64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(OFFSET_64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(PRIME_64))
}

/// FNV-1a, 32 bits, fed piece by piece: Go's `fnv.New32a`.
#[derive(Clone, Copy, Debug)]
pub struct Fnv1a32(u32);

impl Default for Fnv1a32 {
    fn default() -> Self {
        Self(OFFSET_32)
    }
}

impl Fnv1a32 {
    /// Adds bytes.
    pub fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes
            .iter()
            .fold(self.0, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(PRIME_32));
    }

    /// The hash of everything written so far.
    #[must_use]
    pub const fn sum(self) -> u32 {
        self.0
    }
}

/// FNV-1a, 32 bits, of one piece.
#[must_use]
pub fn fnv1a_32(bytes: &[u8]) -> u32 {
    let mut hash = Fnv1a32::default();
    hash.write(bytes);
    hash.sum()
}

/// Kubernetes' `rand.SafeEncodeString`: every byte is mapped into an alphabet without vowels, so
/// that no offensive word can appear in a generated name.
#[must_use]
pub fn safe_encode(text: &str) -> String {
    const ALPHABET: [char; 27] = [
        'b', 'c', 'd', 'f', 'g', 'h', 'j', 'k', 'l', 'm', 'n', 'p', 'q', 'r', 's', 't', 'v', 'w',
        'x', 'z', '2', '4', '5', '6', '7', '8', '9',
    ];
    text.bytes()
        .filter_map(|byte| ALPHABET.get(usize::from(byte) % ALPHABET.len()).copied())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vectors of Go's `hash/fnv` package tests.
    #[test]
    fn matches_go() {
        assert_eq!(fnv1_64(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1_64(b"a"), 0xaf63_bd4c_8601_b7be);
        assert_eq!(fnv1_64(b"abc"), 0xd8dc_ca18_6baf_adcb);
        assert_eq!(fnv1a_64(b"abc"), 0xe71f_a219_0541_574b);
        assert_eq!(fnv1a_32(b"abc"), 0x1a47_e90b);
        let mut pieces = Fnv1a32::default();
        pieces.write(b"a");
        pieces.write(b"bc");
        assert_eq!(pieces.sum(), fnv1a_32(b"abc"));
    }

    #[test]
    fn encodes_safely() {
        assert_eq!(safe_encode("0123456789"), "456789bcdf");
    }
}
