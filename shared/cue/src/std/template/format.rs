//! How Go's `fmt` prints decoded data: `%v` and the other verbs of `printf`.

use std::fmt::Write as _;

use vela_gocompat::strconv;

use crate::value::Value;

/// `%v`, as an action prints.
pub(super) fn print(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("<nil>"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) if n.is_int() => out.push_str(&n.to_decimal().to_plain()),
        Value::Number(n) => out.push_str(&float(n.to_f64())),
        Value::String(s) => out.push_str(s),
        // A []byte prints as a list of numbers.
        Value::Bytes(bytes) => {
            let numbers: Vec<String> = bytes.iter().map(u8::to_string).collect();
            let _ = write!(out, "[{}]", numbers.join(" "));
        }
        Value::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                print(element, out);
            }
            out.push(']');
        }
        Value::Struct(fields) => {
            let mut keys: Vec<_> = fields.iter().collect();
            keys.sort_by(|a, b| a.0.cmp(b.0));
            out.push_str("map[");
            for (i, (key, value)) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print(value, out);
            }
            out.push(']');
        }
    }
}

/// `%v` of a float64: `%g`, but with an exponent only from 1e21.
fn float(value: f64) -> String {
    let exponent = format!("{value:e}");
    let exponent: i32 = exponent.rsplit('e').next().and_then(|e| e.parse().ok()).unwrap_or(0);
    if (-4..21).contains(&exponent) || value == 0.0 {
        strconv::format_float(value, 'f', -1, 64)
    } else {
        strconv::format_float(value, 'e', -1, 64)
    }
}

/// `fmt.Sprintf`; stops once the text is longer than `most`, for the caller to refuse.
pub(super) fn sprintf(template: &str, args: &[Value], most: u64) -> String {
    let mut out = String::new();
    let mut args = args.iter();
    let mut chars = template.chars().peekable();
    while let Some(c) = chars.next() {
        if out.len() as u64 > most {
            return out;
        }
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut spec = Spec::default();
        while let Some(flag) = chars.next_if(|c| "+-# 0".contains(*c)) {
            match flag {
                '+' => spec.plus = true,
                '-' => spec.left = true,
                '#' => spec.sharp = true,
                '0' => spec.zero = true,
                _ => spec.space = true,
            }
        }
        let digits = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
            let mut n = None;
            while let Some(d) = chars.peek().and_then(|c| c.to_digit(10)) {
                chars.next();
                // No padding beyond a thousand.
                n = Some((n.unwrap_or(0) * 10 + d as usize).min(1000));
            }
            n
        };
        spec.width = digits(&mut chars);
        if chars.next_if_eq(&'.').is_some() {
            spec.precision = Some(digits(&mut chars).unwrap_or(0));
        }
        match chars.next() {
            None => out.push_str("%!(NOVERB)"),
            Some('%') => out.push('%'),
            Some(verb) => match args.next() {
                Some(arg) => spec.push(verb, arg, &mut out),
                None => {
                    let _ = write!(out, "%!{verb}(MISSING)");
                }
            },
        }
    }
    let extra: Vec<&Value> = args.collect();
    if !extra.is_empty() {
        let shown: Vec<String> = extra
            .iter()
            .map(|v| {
                let mut text = format!("{}=", type_name(v));
                print(v, &mut text);
                text
            })
            .collect();
        let _ = write!(out, "%!(EXTRA {})", shown.join(", "));
    }
    out
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_int() => "int",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::List(_) => "[]interface {}",
        Value::Struct(_) => "map[string]interface {}",
    }
}

#[derive(Default)]
struct Spec {
    plus: bool,
    left: bool,
    sharp: bool,
    zero: bool,
    space: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

impl Spec {
    fn push(&self, verb: char, arg: &Value, out: &mut String) {
        let text = match (verb, arg) {
            ('v', Value::Number(n)) if self.plus && !n.to_decimal().is_negative() => {
                let mut text = String::from("+");
                print(arg, &mut text);
                text
            }
            ('v', _) => plain(arg),
            ('T', _) => type_name(arg).to_owned(),
            ('t', Value::Bool(_)) => plain(arg),
            ('s', Value::String(s)) => self.cut(s),
            ('s', Value::Bytes(b)) => self.cut(&String::from_utf8_lossy(b)),
            ('s', Value::List(_) | Value::Struct(_)) => plain(arg),
            ('q', Value::String(s)) => strconv::quote(&self.cut(s)),
            ('q', Value::Number(n)) if n.is_int() => {
                let c = n.as_i64().and_then(|n| u32::try_from(n).ok()).and_then(char::from_u32);
                strconv::quote_char(c.unwrap_or(char::REPLACEMENT_CHARACTER))
            }
            ('x' | 'X', Value::String(_) | Value::Bytes(_)) => {
                let hex = super::super::hex::encode(arg.as_bytes().unwrap_or_default());
                if verb == 'X' { hex.to_ascii_uppercase() } else { hex }
            }
            ('d' | 'b' | 'o' | 'x' | 'X' | 'c' | 'U', Value::Number(n)) if n.is_int() => {
                self.integer(verb, n)
            }
            ('e' | 'E' | 'f' | 'F' | 'g' | 'G', Value::Number(n)) if !n.is_int() => {
                let default = if matches!(verb, 'g' | 'G') { -1 } else { 6 };
                let precision = self.precision.map_or(default, |p| p as i64);
                let verb = if verb == 'F' { 'f' } else { verb };
                self.signed(strconv::format_float(n.to_f64(), verb, precision, 64))
            }
            (verb, arg) => format!("%!{verb}({}={})", type_name(arg), plain(arg)),
        };
        let len = text.chars().count();
        let padding = self.width.unwrap_or(0).saturating_sub(len);
        if self.left {
            out.push_str(&text);
            out.extend(std::iter::repeat_n(' ', padding));
        } else if self.zero && matches!(arg, Value::Number(_)) {
            let (sign, digits) = match text.strip_prefix(['-', '+']) {
                Some(digits) => (text.get(..1).unwrap_or_default(), digits),
                None => ("", text.as_str()),
            };
            out.push_str(sign);
            out.extend(std::iter::repeat_n('0', padding));
            out.push_str(digits);
        } else {
            out.extend(std::iter::repeat_n(' ', padding));
            out.push_str(&text);
        }
    }

    fn cut(&self, text: &str) -> String {
        match self.precision {
            Some(n) => text.chars().take(n).collect(),
            None => text.to_owned(),
        }
    }

    fn signed(&self, text: String) -> String {
        match (text.starts_with(['-', '+']), self.plus, self.space) {
            (false, true, _) => format!("+{text}"),
            (false, false, true) => format!(" {text}"),
            _ => text,
        }
    }

    fn integer(&self, verb: char, n: &crate::value::Number) -> String {
        let value = n.to_decimal().to_bigint().unwrap_or_default();
        let radix = match verb {
            'b' => 2,
            'o' => 8,
            'x' | 'X' => 16,
            'c' | 'U' => {
                let code = n.as_i64().and_then(|n| u32::try_from(n).ok()).unwrap_or(0xfffd);
                return if verb == 'U' {
                    format!("U+{code:04X}")
                } else {
                    char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER).to_string()
                };
            }
            _ => 10,
        };
        let digits = value.magnitude().to_str_radix(radix);
        let digits = if verb == 'X' { digits.to_ascii_uppercase() } else { digits };
        let prefix = match (self.sharp, verb) {
            (true, 'x') => "0x",
            (true, 'X') => "0X",
            (true, 'o') => "0",
            (true, 'b') => "0b",
            _ => "",
        };
        let sign = if value.sign() == num_bigint::Sign::Minus { "-" } else { "" };
        self.signed(format!("{sign}{prefix}{digits}"))
    }
}

fn plain(value: &Value) -> String {
    let mut text = String::new();
    print(value, &mut text);
    text
}

/// `template.JSEscapeString`.
pub(super) fn js(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' => out.push_str("\\u003C"),
            '>' => out.push_str("\\u003E"),
            '&' => out.push_str("\\u0026"),
            '=' => out.push_str("\\u003D"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c if c.is_ascii() || strconv::is_print(c) => out.push(c),
            c => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
        }
    }
    out
}
