//! Gzip, as Helm packs releases and we pack schemas, under a bound.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

/// Makes bytes as small as gzip can.
pub(crate) fn pack(bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    packed.write_all(bytes)?;
    packed.finish()
}

/// What [`pack`] made small; `None` if it is more than `most` bytes.
pub(crate) fn unpack(packed: &[u8], most: usize) -> io::Result<Option<Vec<u8>>> {
    let mut plain = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    GzDecoder::new(packed).take(limit).read_to_end(&mut plain)?;
    Ok((plain.len() <= most).then_some(plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_unpacked_has_a_bound() {
        let packed = pack(&[7; 1000]).unwrap();
        assert_eq!(unpack(&packed, 1000).unwrap(), Some(vec![7; 1000]));
        assert_eq!(unpack(&packed, 999).unwrap(), None);
        assert!(unpack(b"no gzip", 1000).is_err());
    }
}
