//! Package `encoding/yaml`: reading by go-yaml v3's rules for scalars, writing in its style.

mod decode;
mod encode;
mod scalar;

pub(crate) use decode::read_stream;
pub(crate) use encode::write;

use super::args::{Out, bytes, fail, func, lazy, list, string};
use super::{BuiltinError, Lazy, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const DATA: &[Param] = &[Param::BYTES];
const VALIDATE: &[Param] = &[Param::BYTES, Param::ANY];

pub(super) static PACKAGE: &[Member] = &[
    func("Marshal", &[Param::ANY], Kind::STRING, |a, b| {
        let mut out = String::new();
        write(a.first().unwrap_or(&Value::Null), &mut out, b)?;
        string(out, b)
    }),
    func("MarshalStream", &[Param::LIST], Kind::STRING, |a, b| {
        let mut out = String::new();
        for (i, element) in list(a, 0)?.iter().enumerate() {
            if i > 0 {
                out.push_str("---\n");
            }
            write(element, &mut out, b)?;
        }
        string(out, b)
    }),
    func("Unmarshal", DATA, Kind::TOP, |a, b| {
        let mut documents = read_stream(&lossy(a)?, b)?;
        match documents.len() {
            0 | 1 => Ok(documents.pop().unwrap_or(Value::Null)),
            _ => fail("expected a single YAML document"),
        }
    }),
    func("UnmarshalStream", DATA, Kind::LIST, unmarshal_stream),
    lazy("Validate", VALIDATE, Kind::BOOL, Lazy::YamlValidate),
    lazy("ValidatePartial", VALIDATE, Kind::BOOL, Lazy::YamlValidatePartial),
];

fn lossy(args: &[Value]) -> Result<std::borrow::Cow<'_, str>, BuiltinError> {
    Ok(String::from_utf8_lossy(bytes(args, 0)?))
}

/// An empty stream is one null.
fn unmarshal_stream(args: &[Value], budget: &mut Budget) -> Out {
    let mut documents = read_stream(&lossy(args)?, budget)?;
    if documents.is_empty() {
        documents.push(Value::Null);
    }
    Ok(Value::List(documents))
}

#[cfg(test)]
mod tests;
