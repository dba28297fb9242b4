//! Package `encoding/toml`: TOML 1.0; dates and times stay text.

mod decode;
mod encode;

use super::args::{bytes, fail, func, short, string};
use super::{Member, Param};
use crate::kind::Kind;
use crate::value::Value;

pub(super) static PACKAGE: &[Member] = &[
    func("Marshal", &[Param::ANY], Kind::STRING, |a, b| match a.first() {
        Some(Value::Struct(fields)) => {
            let mut out = String::new();
            encode::write(fields, &mut out, b)?;
            string(out, b)
        }
        other => {
            let shown = other.map(short).unwrap_or_default();
            fail(format!("toml: top-level value {shown} is not a struct"))
        }
    }),
    func("Unmarshal", &[Param::BYTES], Kind::TOP, |a, b| {
        decode::read(&String::from_utf8_lossy(bytes(a, 0)?), b)
    }),
];

#[cfg(test)]
mod tests;
