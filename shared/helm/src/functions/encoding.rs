//! Base64, base32 and checksums.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use gotemplate::{Args, Function, Value};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::table::{Context, Result, STRING, function, text};
use crate::engine::state::State;

pub(super) static TABLE: &[Function<State>] = &[
    function("b64enc", &[STRING], |call, args| {
        call.host().text(args.str(0).len().saturating_mul(4) / 3)?;
        Ok(Value::from(STANDARD.encode(args.str(0).as_bytes())))
    }),
    function("b64dec", &[STRING], |call, args| decoded(call, decode64(args.str(0).as_bytes()))),
    function("b32enc", &[STRING], |call, args| {
        call.host().text(args.str(0).len().saturating_mul(8) / 5)?;
        Ok(Value::from(encode32(args.str(0).as_bytes())))
    }),
    function("b32dec", &[STRING], |call, args| decoded(call, decode32(args.str(0).as_bytes()))),
    function("sha1sum", &[STRING], sum::<Sha1>),
    function("sha256sum", &[STRING], sum::<Sha256>),
    function("sha512sum", &[STRING], sum::<Sha512>),
    function("adler32sum", &[STRING], |call, args| {
        call.steps(args.str(0).len() as u64 / 16)?;
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in args.str(0).as_bytes() {
            a = (a + u32::from(*byte)) % 65_521;
            b = (b + a) % 65_521;
        }
        Ok(Value::from((b << 16 | a).to_string()))
    }),
];

fn sum<D: Digest>(call: &mut Context<'_>, args: Args<'_>) -> Result {
    call.steps(args.str(0).len() as u64 / 16)?;
    let sum = D::digest(args.str(0).as_bytes());
    Ok(Value::from(hex(&sum)))
}

/// Lower-case digits, two for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .filter_map(|digit| char::from_digit(u32::from(digit), 16))
        .collect()
}

/// A text that is not in an encoding, with the place where that shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("illegal base{base} data at input byte {at}")]
pub(super) struct Corrupt {
    base: u8,
    at: usize,
}

/// The decoded bytes; what is wrong with a text is a value too, no error.
fn decoded(call: &mut Context<'_>, bytes: std::result::Result<Vec<u8>, Corrupt>) -> Result {
    match bytes {
        Ok(bytes) => text(call, bytes),
        Err(corrupt) => text(call, corrupt.to_string()),
    }
}

/// Decodes base64 as Go does: line breaks are passed over wherever they are, padding has to be right.
pub(super) fn decode64(from: &[u8]) -> std::result::Result<Vec<u8>, Corrupt> {
    let corrupt = |at: usize| Err(Corrupt { base: 64, at });
    let mut out = Vec::with_capacity(from.len() / 4 * 3);
    let mut group = Vec::with_capacity(4);
    let mut rest = from.iter().enumerate().filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'));
    while let Some((at, byte)) = rest.next() {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if group.len() >= 2 => {
                if group.len() == 2 {
                    match rest.next() {
                        None => return corrupt(from.len()),
                        Some((_, b'=')) => {}
                        Some((at, _)) => return corrupt(at.saturating_sub(1)),
                    }
                }
                if let Some((at, _)) = rest.next() {
                    return corrupt(at);
                }
                push64(&group, &mut out);
                return Ok(out);
            }
            _ => return corrupt(at),
        };
        group.push(value);
        if group.len() == 4 {
            push64(&group, &mut out);
            group.clear();
        }
    }
    if group.is_empty() { Ok(out) } else { corrupt(from.len() - group.len()) }
}

fn push64(group: &[u8], out: &mut Vec<u8>) {
    let value = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
    let bits = value(0) << 18 | value(1) << 12 | value(2) << 6 | value(3);
    let [_, bytes @ ..] = bits.to_be_bytes();
    out.extend(bytes.iter().take(group.len().saturating_sub(1)));
}

const ALPHABET32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn encode32(from: &[u8]) -> String {
    let mut out = String::with_capacity(from.len().div_ceil(5) * 8);
    for group in from.chunks(5) {
        let bits = (0..5).fold(0_u64, |bits, at| {
            bits << 8 | u64::from(group.get(at).copied().unwrap_or_default())
        });
        let used = (group.len() * 8).div_ceil(5);
        for at in 0..8 {
            let digit = ALPHABET32.get((bits >> (35 - 5 * at) & 31) as usize).copied();
            out.push(if at < used { char::from(digit.unwrap_or(b'=')) } else { '=' });
        }
    }
    out
}

fn decode32(from: &[u8]) -> std::result::Result<Vec<u8>, Corrupt> {
    // Places are counted without line breaks.
    let from: Vec<u8> =
        from.iter().copied().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let corrupt = |at: usize| Err(Corrupt { base: 32, at });
    let mut out = Vec::with_capacity(from.len() / 8 * 5);
    for (group_at, group) in from.chunks(8).enumerate() {
        let start = group_at * 8;
        let digits = group.iter().position(|byte| *byte == b'=').unwrap_or(group.len());
        let mut bits = 0_u64;
        for (at, byte) in group.iter().take(digits).enumerate() {
            let Some(value) = ALPHABET32.iter().position(|known| known == byte) else {
                return corrupt(start + at);
            };
            bits |= (value as u64) << (35 - 5 * at);
        }
        if digits < group.len() {
            let last = start + 8 == from.len() || group.len() < 8;
            if digits < 2 || !last {
                return corrupt(start + digits);
            }
            if group.len() < 8 {
                return corrupt(from.len());
            }
            if let Some(odd) = group.iter().skip(digits).position(|byte| *byte != b'=') {
                return corrupt(start + digits + odd);
            }
            if matches!(digits, 3 | 6) {
                return corrupt(start + digits);
            }
        } else if group.len() < 8 {
            return corrupt(start);
        }
        let [_, _, _, bytes @ ..] = bits.to_be_bytes();
        out.extend(bytes.iter().take(digits * 5 / 8));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn corrupt_texts_name_the_place() {
        for (from, at) in [
            ("####", 0),
            ("hello world", 5),
            ("aGVsbG8", 4),
            ("aGVsbG8=x", 8),
            ("aGVs=", 4),
            ("aG=", 3),
        ] {
            assert_eq!(decode64(from.as_bytes()), Err(Corrupt { base: 64, at }), "{from}");
        }
        assert_eq!(decode64(b"aGVs\nbG8=\n").unwrap(), b"hello");
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(decode32(encode32(text.as_bytes()).as_bytes()).unwrap(), text.as_bytes());
        }
        assert_eq!(encode32(b"foobar"), "MZXW6YTBOI======");
        assert!(decode32(b"MZXW6YT").is_err() && decode32(b"1").is_err());
    }
}
