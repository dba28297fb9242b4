//! Answers of the categories that end with the syntax tree: `scan`, `literal`, `parse`.

use base64::Engine as _;
use cue_syntax::lexer::Lexer;
use cue_syntax::literal::{Number, Text, unquote};
use cue_syntax::{ParseLimits, parse};

use super::json::Json;
use super::record::Record;

/// The first token, as the reference's scanner tests take it.
pub(crate) fn scan(record: &Record<'_>) -> Json {
    let mut lexer = Lexer::new(record.main_text());
    let token = lexer.next_token();
    match lexer.errors().first() {
        Some(error) => Json::object([
            ("error", error.message.clone().into()),
            ("class", "parse".into()),
            ("offset", Json::Number(error.offset.to_string())),
        ]),
        None => Json::object([("token", token.kind.name().into())]),
    }
}

pub(crate) fn parse_files(record: &Record<'_>) -> Json {
    for (name, text) in record.loaded() {
        let (file, errors) = parse(name, text, &ParseLimits::default());
        if let Some(error) = errors.first() {
            let at = file.position(error.span.start);
            let message = format!("{error}:\n    ./{name}:{at}");
            return Json::object([("error", message.into()), ("class", "parse".into())]);
        }
    }
    Json::object([("ok", true.into())])
}

/// The value of one literal; numbers may have a sign.
pub(crate) fn literal(record: &Record<'_>) -> Json {
    let text = record.json.str("literal").unwrap_or_default();
    let (sign, number) = match text.as_bytes().first() {
        Some(b'-') => ("-", &text[1..]),
        Some(b'+') => ("", &text[1..]),
        _ => ("", text),
    };
    let value = if number.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        Number::parse(number).map(|number| {
            let value = format!("{sign}{}e{}", number.coefficient, number.exponent);
            Json::object([("number", value.into())])
        })
    } else {
        unquote(text).map(|value| match value {
            Text::String(value) => Json::object([("string", value.into())]),
            Text::Bytes(value) => {
                let value = base64::engine::general_purpose::STANDARD.encode(value);
                Json::object([("bytes", value.into())])
            }
        })
    };
    value.unwrap_or_else(|error| {
        Json::object([("error", error.to_string().into()), ("class", "parse".into())])
    })
}
