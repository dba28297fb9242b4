//! Package `uuid`: reading and name-based making of UUIDs; nothing random.

use md5::Md5;
use num_bigint::{BigInt, Sign};
use sha1::{Digest, Sha1};

use super::args::{Out, big, bigint, bytes, constant, fail, func, string, text};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const ONE: &[Param] = &[Param::STRING];
const NAMED: &[Param] = &[Param::STRING, Param::BYTES];

pub(super) static PACKAGE: &[Member] = &[
    constant(
        "ns",
        r#"{
	DNS:  "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
	URL:  "6ba7b811-9dad-11d1-80b4-00c04fd430c8"
	OID:  "6ba7b812-9dad-11d1-80b4-00c04fd430c8"
	X500: "6ba7b814-9dad-11d1-80b4-00c04fd430c8"
	Nil:  "00000000-0000-0000-0000-000000000000"
}"#,
    ),
    constant("variants", "{Invalid: 0, RFC4122: 1, Reserved: 2, Microsoft: 3, Future: 4}"),
    func("Valid", ONE, Kind::BOOL, valid),
    func("Parse", ONE, Kind::STRING, |a, b| string(print(&parse(text(a, 0)?)?), b)),
    func("ToString", ONE, Kind::STRING, |a, b| string(text(a, 0)?, b)),
    func("URN", ONE, Kind::STRING, |a, b| {
        string(format!("urn:uuid:{}", print(&parse(text(a, 0)?)?)), b)
    }),
    func("FromInt", &[Param::INT], Kind::STRING, |a, b| {
        // Go takes the magnitude; more than 16 bytes are none.
        let (_, data) = bigint(a, 0)?.to_bytes_be();
        let Some(padding) = 16_usize.checked_sub(data.len()) else {
            return fail(format!("invalid UUID (got {} bytes)", data.len()));
        };
        let mut id = [0_u8; 16];
        id.iter_mut().skip(padding).zip(data).for_each(|(to, from)| *to = from);
        string(print(&id), b)
    }),
    // The reference takes the bytes of the text, not of the UUID.
    func("ToInt", ONE, Kind::INT, |a, _| {
        if text(a, 0)?.len() > 4096 {
            return fail("UUID text is too long");
        }
        big(BigInt::from_bytes_be(Sign::Plus, text(a, 0)?.as_bytes()))
    }),
    func("Variant", ONE, Kind::INT, |a, _| {
        let byte = parse(text(a, 0)?)?.get(8).copied().unwrap_or_default();
        Ok(Value::from(match byte {
            b if b & 0xc0 == 0x80 => 1,
            b if b & 0xe0 == 0xc0 => 3,
            b if b & 0xe0 == 0xe0 => 4,
            _ => 2,
        }))
    }),
    func("Version", ONE, Kind::INT, |a, _| {
        let byte = parse(text(a, 0)?)?.get(6).copied().unwrap_or_default();
        Ok(Value::from(i64::from(byte >> 4)))
    }),
    func("SHA1", NAMED, Kind::STRING, |a, b| named::<Sha1>(a, 5, b)),
    func("MD5", NAMED, Kind::STRING, |a, b| named::<Md5>(a, 3, b)),
];

fn valid(args: &[Value], _: &mut Budget) -> Out {
    let id = text(args, 0)?;
    match parse(id) {
        Ok(_) => Ok(true.into()),
        Err(_) => fail(format!("invalid UUID {}", vela_gocompat::strconv::quote(id))),
    }
}

/// The four forms: plain, URN, in braces, without hyphens.
fn parse(id: &str) -> Result<[u8; 16], BuiltinError> {
    let body = match id.len() {
        36 => id,
        45 => match id.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case("urn:uuid:") => {
                id.get(9..).unwrap_or_default()
            }
            _ => {
                return fail(format!(
                    "invalid urn prefix: {}",
                    vela_gocompat::strconv::quote(id.get(..9).unwrap_or_default())
                ));
            }
        },
        38 => id.get(1..37).unwrap_or_default(),
        32 => return digits(id),
        len => return fail(format!("invalid UUID length: {len}")),
    };
    let hyphens = [8, 13, 18, 23].iter().all(|at| body.as_bytes().get(*at) == Some(&b'-'));
    if !hyphens {
        return bad_format();
    }
    digits(&body.replace('-', ""))
}

fn bad_format<T>() -> Result<T, BuiltinError> {
    fail("invalid UUID format")
}

fn digits(text: &str) -> Result<[u8; 16], BuiltinError> {
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return bad_format();
    }
    u128::from_str_radix(text, 16).map(u128::to_be_bytes).or_else(|_| bad_format())
}

fn print(id: &[u8; 16]) -> String {
    let hex = super::hex::encode(id);
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}

fn named<D: Digest>(args: &[Value], version: u8, budget: &mut Budget) -> Out {
    let (space, data) = (parse(text(args, 0)?)?, bytes(args, 1)?);
    budget.steps(data.len() as u64 >> 4)?;
    let sum = D::new().chain_update(space).chain_update(data).finalize();
    let mut id = [0_u8; 16];
    id.iter_mut().zip(sum.iter()).for_each(|(to, from)| *to = *from);
    let [_, _, _, _, _, _, high, _, variant, ..] = &mut id;
    *high = (*high & 0x0f) | (version << 4);
    *variant = (*variant & 0x3f) | 0x80;
    string(print(&id), budget)
}
