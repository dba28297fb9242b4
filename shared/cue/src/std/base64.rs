//! Package `encoding/base64`. The first argument is reserved for an encoding and must be null.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use super::args::{Out, byte_string, bytes, fail, func, int, short};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const PARAMS: &[Param] = &[Param::ANY, Param::BYTES];

pub(super) static PACKAGE: &[Member] = &[
    func("EncodedLen", &[Param::ANY, Param::INT], Kind::INT, |a, _| {
        unsupported(a)?;
        Ok(Value::from((int(a, 1)?.saturating_add(2) / 3).saturating_mul(4)))
    }),
    func("DecodedLen", &[Param::ANY, Param::INT], Kind::INT, |a, _| {
        unsupported(a)?;
        Ok(Value::from(int(a, 1)? / 4 * 3))
    }),
    func("Encode", PARAMS, Kind::STRING, |a, b| {
        unsupported(a)?;
        let data = bytes(a, 1)?;
        b.string((data.len() as u64).div_ceil(3) * 4)?;
        Ok(Value::from(base64::engine::general_purpose::STANDARD.encode(data)))
    }),
    func("Decode", PARAMS, Kind::BYTES, decode),
];

fn unsupported(args: &[Value]) -> Result<(), BuiltinError> {
    match args.first() {
        Some(Value::Null) | None => Ok(()),
        Some(v) => fail(format!(
            "base64: unsupported encoding: cannot use value {} (type {}) as null",
            short(v),
            v.kind()
        )),
    }
}

/// Padding is required, line breaks are skipped, trailing bits are ignored: as Go decodes.
const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

fn decode(args: &[Value], budget: &mut Budget) -> Out {
    unsupported(args)?;
    let text = bytes(args, 1)?;
    budget.steps(text.len() as u64 >> 4)?;
    let lines = text.iter().any(|b| matches!(b, b'\r' | b'\n'));
    let joined: Vec<u8>;
    let clean = if lines {
        joined = text.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
        &joined[..]
    } else {
        text
    };
    match ENGINE.decode(clean) {
        Ok(data) => byte_string(&data, budget),
        Err(_) => fail(format!("illegal base64 data at input byte {}", bad_byte(text))),
    }
}

/// Where Go's decoder stops: the first byte that does not fit.
fn bad_byte(text: &[u8]) -> usize {
    let is_data = |b: u8| b.is_ascii_alphanumeric() || b == b'+' || b == b'/';
    let mut count = 0;
    for (at, &byte) in text.iter().enumerate() {
        match byte {
            b'\r' | b'\n' => {}
            b'=' if count % 4 >= 2 => {
                let rest = text.get(at + 1..).unwrap_or_default();
                let mut rest = rest.iter().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n'));
                if count % 4 == 2 {
                    match rest.next() {
                        Some((_, b'=')) => {}
                        Some((i, _)) => return at + 1 + i,
                        None => return text.len(),
                    }
                }
                return rest.next().map_or(text.len(), |(i, _)| at + 1 + i);
            }
            b if is_data(b) => count += 1,
            _ => return at,
        }
    }
    text.len() - count % 4
}
