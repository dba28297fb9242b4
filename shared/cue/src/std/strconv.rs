//! Package `strconv`.

use num_bigint::BigInt;
use vela_gocompat::strconv as go;

use super::args::{
    Out, big, bigint, boolean, bytes, fail, float, float_value, func, int, int_of, string, text,
};
use super::{BuiltinError, Member, Param};
use crate::kind::Kind;
use crate::limits::Budget;
use crate::value::Value;

const S: Param = Param::STRING;
const I: Param = Param::INT;

pub(super) static PACKAGE: &[Member] = &[
    func("Unquote", &[S], Kind::STRING, unquote),
    func("ParseBool", &[S], Kind::BOOL, |a, _| {
        go::parse_bool(text(a, 0)?).map(Value::from).or_else(|e| fail(e.to_string()))
    }),
    func("FormatBool", &[Param::BOOL], Kind::STRING, |a, _| {
        Ok(Value::from(if boolean(a, 0)? { "true" } else { "false" }))
    }),
    func("ParseComplex", &[S, I], Kind::STRING, |_, _| fail("complex numbers are not supported")),
    func("ParseFloat", &[S, I], Kind::NUMBER, parse_float),
    constant_int_size(),
    func("ParseUint", &[S, I, I], Kind::INT, |a, _| parse_int(a, false)),
    func("ParseInt", &[S, I, I], Kind::INT, |a, _| parse_int(a, true)),
    func("Atoi", &[S], Kind::INT, |a, _| {
        go::atoi(text(a, 0)?).map(Value::from).or_else(|e| fail(e.to_string()))
    }),
    func("FormatFloat", &[Param::NUMBER, I, I, I], Kind::STRING, format_float),
    func("FormatUint", &[I, I], Kind::STRING, format_uint),
    func("FormatInt", &[I, I], Kind::STRING, format_int),
    func("Quote", &[S], Kind::STRING, |a, b| {
        counted(a, b)?;
        string(go::quote(text(a, 0)?), b)
    }),
    func("QuoteToASCII", &[S], Kind::STRING, |a, b| {
        counted(a, b)?;
        string(go::quote_to_ascii(text(a, 0)?), b)
    }),
    func("QuoteToGraphic", &[S], Kind::STRING, |a, b| {
        counted(a, b)?;
        let mut out = String::from("\"");
        for part in text(a, 0)?.split_inclusive(is_graphic_space) {
            let space = part.chars().next_back().filter(|c| is_graphic_space(*c));
            let plain = part.trim_end_matches(is_graphic_space);
            let quoted = go::quote(plain);
            out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
            out.extend(space);
        }
        out.push('"');
        string(out, b)
    }),
    func("QuoteRune", &[I], Kind::STRING, |a, _| Ok(go::quote_char(rune(a)?).into())),
    func("QuoteRuneToASCII", &[I], Kind::STRING, |a, _| {
        Ok(go::quote_char_to_ascii(rune(a)?).into())
    }),
    func("QuoteRuneToGraphic", &[I], Kind::STRING, |a, _| {
        let rune = rune(a)?;
        Ok(match is_graphic_space(rune) {
            true => format!("'{rune}'"),
            false => go::quote_char(rune),
        }
        .into())
    }),
    func("IsPrint", &[I], Kind::BOOL, |a, _| Ok(character(a)?.is_some_and(go::is_print).into())),
    func("IsGraphic", &[I], Kind::BOOL, |a, _| {
        Ok(character(a)?.is_some_and(|c| go::is_print(c) || is_graphic_space(c)).into())
    }),
    func("CanBackquote", &[Param::BYTES], Kind::BOOL, |a, _| {
        let all = bytes(a, 0)?;
        let fits = all.iter().all(|b| (*b == b'\t' || *b >= 0x20) && *b != b'`' && *b != 0x7f);
        let text = std::str::from_utf8(all);
        Ok((fits && text.is_ok_and(|t| !t.contains('\u{feff}'))).into())
    }),
];

const fn constant_int_size() -> Member {
    super::args::constant("IntSize", "64")
}

/// A number as a character, if it is one.
fn character(args: &[Value]) -> Result<Option<char>, BuiltinError> {
    let n = int_of(args, 0, "rune", i64::from(i32::MIN), i64::from(i32::MAX))?;
    Ok(u32::try_from(n).ok().and_then(char::from_u32))
}

/// As [`character`], with Go's replacement for what is none.
fn rune(args: &[Value]) -> Result<char, BuiltinError> {
    Ok(character(args)?.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// Spaces that are graphic although they are not printable.
fn is_graphic_space(c: char) -> bool {
    matches!(
        c,
        '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

fn counted(args: &[Value], budget: &mut Budget) -> Result<(), BuiltinError> {
    budget.steps(text(args, 0)?.len() as u64 >> 3)?;
    Ok(())
}

fn unquote(args: &[Value], budget: &mut Budget) -> Out {
    let Some(bytes) = go::unquote(text(args, 0)?) else {
        return fail("invalid syntax");
    };
    match String::from_utf8(bytes) {
        Ok(s) => string(s, budget),
        Err(e) => string(String::from_utf8_lossy(e.as_bytes()).into_owned(), budget),
    }
}

fn parse_float(args: &[Value], _: &mut Budget) -> Out {
    let size = int(args, 1)?;
    match go::parse_float(text(args, 0)?) {
        Ok(f) if size == 32 => float_value(f64::from(f as f32)),
        Ok(f) => float_value(f),
        Err(e) => fail(e.to_string()),
    }
}

/// Sizes 0 to 64 are Go's; CUE's ints have none, so a size of 0 is 64 as in Go.
fn parse_int(args: &[Value], signed: bool) -> Out {
    let (s, base, size) = (text(args, 0)?, int(args, 1)?, int(args, 2)?);
    if signed {
        return go::parse_int(s, base, size).map(Value::from).or_else(|e| fail(e.to_string()));
    }
    match go::parse_uint(s, base, size) {
        Ok(n) => big(BigInt::from(n)),
        Err(e) => fail(e.to_string()),
    }
}

fn format_float(args: &[Value], budget: &mut Budget) -> Out {
    let value = float(args, 0)?;
    let format = int_of(args, 1, "byte", 0, 255)?;
    let precision = int(args, 2)?;
    let size = int(args, 3)?;
    if size != 32 && size != 64 {
        return fail("strconv: illegal AppendFloat/FormatFloat bitSize");
    }
    let format = char::from(u8::try_from(format).unwrap_or_default());
    string(go::format_float(value, format, precision, size as u32), budget)
}

fn radix(args: &[Value], i: usize) -> Result<u32, BuiltinError> {
    match int(args, i)? {
        base @ 2..=62 => Ok(base as u32),
        _ => fail("strconv: illegal AppendInt/FormatInt base"),
    }
}

fn format_int(args: &[Value], budget: &mut Budget) -> Out {
    let (n, radix) = (bigint(args, 0)?, radix(args, 1)?);
    // Conversion of the base is quadratic in the digits.
    budget.steps((n.bits() / 64).saturating_pow(2))?;
    string(to_text(&n, radix), budget)
}

fn format_uint(args: &[Value], budget: &mut Budget) -> Out {
    if bigint(args, 0)?.sign() == num_bigint::Sign::Minus {
        return fail(format!("cannot use {} (type int) as uint64 in argument 0", bigint(args, 0)?));
    }
    format_int(args, budget)
}

/// Go's `big.Int.Text`: beyond base 36 capitals follow the small letters.
pub(super) fn to_text(n: &BigInt, radix: u32) -> String {
    if radix <= 36 {
        return n.to_str_radix(radix);
    }
    let (sign, digits) = n.to_radix_be(radix);
    let mut out = String::with_capacity(digits.len() + 1);
    if sign == num_bigint::Sign::Minus {
        out.push('-');
    }
    for digit in digits {
        out.push(match digit {
            0..=9 => char::from(b'0' + digit),
            10..=35 => char::from(b'a' + digit - 10),
            _ => char::from(b'A' + digit.min(61) - 36),
        });
    }
    out
}
