//! The little of DER that keys need to change their form.
//!
//! Our own: PKCS 1 and SEC 1 forms are a few headers; the crates for them bring parsers of everything else.

/// The first element, which has to have this tag: what follows it, and its content.
pub(crate) fn read(from: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = from.split_first()?;
    let (&length, rest) = rest.split_first()?;
    if found != tag {
        return None;
    }
    let (length, rest) = match length {
        0..=0x7f => (usize::from(length), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((rest, content))
}

/// An element of these parts.
pub(crate) fn write(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let mut out = vec![tag];
    match u8::try_from(content.len()) {
        Ok(length @ 0..=0x7f) => out.push(length),
        _ => {
            let length = content.len().to_be_bytes();
            let used = length.iter().position(|byte| *byte != 0).unwrap_or(0);
            let bytes = length.get(used..).unwrap_or_default();
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or_default());
            out.extend_from_slice(bytes);
        }
    }
    out.extend(content);
    out
}

/// The key inside of PKCS #8.
pub(crate) fn private_key(pkcs8: &[u8]) -> Option<&[u8]> {
    let (_, inner) = read(pkcs8, 0x30)?;
    let (rest, _version) = read(inner, 0x02)?;
    let (rest, _algorithm) = read(rest, 0x30)?;
    read(rest, 0x04).map(|(_, key)| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_survive() {
        for length in [0, 1, 127, 128, 255, 256, 70_000] {
            let content = vec![7; length];
            let element = write(0x04, &[&content]);
            assert_eq!(read(&element, 0x04), Some((&[][..], &*content)), "{length}");
        }
        assert_eq!(read(&[0x30, 0x82, 0xff], 0x30), None);
        assert_eq!(private_key(&[0x30, 0x00]), None);
    }
}
