//! Constants: a number is every type that can hold it.

use vela_gocompat::strconv;

use super::node::Number;

/// Why a token is no constant, in Go's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum NotConstant {
    #[error("illegal number syntax: {}", strconv::quote(.0))]
    Syntax(String),
    #[error("integer overflow: {}", strconv::quote(.0))]
    Overflow(String),
    /// No function of the field's libraries takes a complex number.
    #[error("complex constants are not supported: {}", strconv::quote(.0))]
    Complex(String),
    #[error("malformed character constant: {0}")]
    Character(String),
    #[error("invalid syntax")]
    Quotes,
}

/// The number that a token of digits stands for.
///
/// # Errors
/// The text is no number, or one of a type that is not there.
pub(super) fn number(text: &str) -> Result<Number, NotConstant> {
    if text.strip_suffix('i').is_some_and(|real| strconv::parse_float(real).is_ok()) {
        return Err(complex(text));
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
        return Err(NotConstant::Syntax(text.to_owned()));
    };
    if !is_float {
        return Err(NotConstant::Overflow(text.to_owned()));
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

/// What is wrong with every complex constant.
pub(super) fn complex(text: &str) -> NotConstant {
    NotConstant::Complex(text.to_owned())
}

/// The number of a character constant, with its quotes.
///
/// # Errors
/// There is not one character in the quotes.
pub(super) fn character(text: &str) -> Result<Number, NotConstant> {
    let mut value = Vec::new();
    let rest = text.get(1..).and_then(|body| strconv::unquote_char(body, '\'', &mut value));
    match rest {
        Some("'") => {}
        Some(_) => return Err(NotConstant::Character(text.to_owned())),
        None => return Err(NotConstant::Quotes),
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
