//! Constants: a number is every type that can hold it.

use std::borrow::Cow;

use vela_gocompat::strconv;

use super::node::Number;

/// The number that a token of digits stands for.
///
/// # Errors
/// The message of the parse error.
pub(super) fn number(text: &str) -> Result<Number, Cow<'static, str>> {
    let quoted = || strconv::quote(text);
    if text.strip_suffix('i').is_some_and(|real| strconv::parse_float(real).is_ok()) {
        return complex(text);
    }
    let mut uint = strconv::parse_uint(text, 0, 64).ok();
    let int = strconv::parse_int(text, 0, 64).ok();
    if int == Some(0) {
        uint = Some(0);
    }
    let is_float = text.contains(['.', 'e', 'E', 'p', 'P']);
    if int.is_some() || uint.is_some() {
        let float = int.map(|n| n as f64).or_else(|| uint.map(|n| n as f64));
        // Digits of a hexadecimal integer may be an `e`.
        return Ok(Number {
            int,
            uint,
            float,
            is_float: is_float && !is_hex(text),
            text: text.into(),
        });
    }
    let Ok(float) = strconv::parse_float(text) else {
        return Err(format!("illegal number syntax: {}", quoted()).into());
    };
    if !is_float {
        return Err(format!("integer overflow: {}", quoted()).into());
    }
    let int = float as i64;
    let uint = float as u64;
    Ok(Number {
        int: (int as f64 == float).then_some(int),
        uint: (uint as f64 == float).then_some(uint),
        float: Some(float),
        is_float: !is_hex(text),
        text: text.into(),
    })
}

/// Like Go, this does not look behind a sign.
fn is_hex(text: &str) -> bool {
    text.len() > 2 && text.starts_with("0x") | text.starts_with("0X") && !text.contains(['p', 'P'])
}

/// # Errors
/// Always: no function of the field's libraries takes a complex number.
pub(super) fn complex<T>(text: &str) -> Result<T, Cow<'static, str>> {
    Err(format!("complex constants are not supported: {}", strconv::quote(text)).into())
}

/// The number of a character constant, with its quotes.
///
/// # Errors
/// The message of the parse error.
pub(super) fn character(text: &str) -> Result<Number, Cow<'static, str>> {
    let mut value = Vec::new();
    let rest = text.get(1..).and_then(|body| strconv::unquote_char(body, '\'', &mut value));
    match rest {
        Some("'") => {}
        Some(_) => return Err(format!("malformed character constant: {text}").into()),
        None => return Err("invalid syntax".into()),
    }
    let code = match (value.as_slice(), std::str::from_utf8(&value)) {
        ([byte], _) => u32::from(*byte),
        (_, Ok(text)) => text.chars().next().map_or(0, u32::from),
        (_, Err(_)) => u32::from(char::REPLACEMENT_CHARACTER),
    };
    Ok(Number {
        int: Some(code.into()),
        uint: Some(code.into()),
        float: Some(code.into()),
        is_float: false,
        text: text.into(),
    })
}
