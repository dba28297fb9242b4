//! Package `encoding/hex`.

pub(super) use hex::encode;

use super::args::{Out, byte_string, bytes, fail, func, int, string, text};
use super::{Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

pub(super) static PACKAGE: &[Member] = &[
    func("EncodedLen", &[Param::INT], Kind::INT, |a, _| {
        Ok(Value::from(int(a, 0)?.saturating_mul(2)))
    }),
    func("DecodedLen", &[Param::INT], Kind::INT, |a, _| Ok(Value::from(int(a, 0)? / 2))),
    func("Decode", &[Param::STRING], Kind::BYTES, decode),
    func("Dump", &[Param::BYTES], Kind::STRING, dump),
    func("Encode", &[Param::BYTES], Kind::STRING, |a, b| {
        b.string(bytes(a, 0)?.len() as u64 * 2)?;
        Ok(Value::from(encode(bytes(a, 0)?)))
    }),
];

fn decode(args: &[Value], budget: &mut Budget) -> Out {
    let text = text(args, 0)?;
    budget.steps(text.len() as u64 >> 4)?;
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut high = None;
    for c in text.chars() {
        let Some(digit) = c.to_digit(16).and_then(|d| u8::try_from(d).ok()) else {
            return fail(format!(
                "encoding/hex: invalid byte: U+{:04X} {}",
                c as u32,
                vela_gocompat::strconv::quote_char(c)
            ));
        };
        match high.take() {
            None => high = Some(digit << 4),
            Some(high) => out.push(high | digit),
        }
    }
    if high.is_some() {
        return fail("encoding/hex: odd length hex string");
    }
    byte_string(&out, budget)
}

/// As `hexdump -C`.
fn dump(args: &[Value], budget: &mut Budget) -> Out {
    let data = bytes(args, 0)?;
    budget.string((data.len() as u64 / 16 + 1) * 80)?;
    let mut out = String::new();
    for (line, chunk) in data.chunks(16).enumerate() {
        out.push_str(&format!("{:08x} ", line * 16));
        for i in 0..16 {
            if i == 8 {
                out.push(' ');
            }
            match chunk.get(i) {
                Some(b) => out.push_str(&format!(" {b:02x}")),
                None => out.push_str("   "),
            }
        }
        let shown: String = chunk
            .iter()
            .map(|b| if (32..=126).contains(b) { char::from(*b) } else { '.' })
            .collect();
        out.push_str(&format!("  |{shown}|\n"));
    }
    string(out, budget)
}
