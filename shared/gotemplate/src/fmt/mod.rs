//! Go's `fmt`: `Print`, `Println` and `Printf` of values.

mod scalar;
mod value;

use vela_gocompat::strconv;

use crate::meter::{Meter, Stop};
use crate::object::Underlying;
use crate::text::Str;
use crate::value::Value;

/// Values within values; Go prints until its stack is full, and dies of a map that holds itself.
const MOST_NESTED: usize = 500;

/// A width or precision beyond this is none, as in Go.
const WIDEST: i64 = 1_000_000;

/// A value nests deeper than can be printed, or holds itself.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("value nests more than 500 deep, or holds itself")]
pub struct TooDeep;

/// How one directive wants its operand.
#[derive(Debug, Clone, Copy, Default)]
struct Spec {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    /// `%+v`: names of fields.
    plus_v: bool,
    /// `%#v`: Go syntax.
    sharp_v: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

impl Spec {
    /// Whether the directive is a verb and nothing else.
    fn is_empty(self) -> bool {
        let Self { plus, minus, sharp, space, zero, plus_v, sharp_v, width, precision } = self;
        let has_flag = plus || minus || sharp || space || zero || plus_v || sharp_v;
        !has_flag && width.is_none() && precision.is_none()
    }
}

/// A text that grows, and what its growth costs.
pub(crate) struct Printer<'m> {
    out: Vec<u8>,
    spec: Spec,
    /// Whether this is the value of a wrong verb, which is shown without its methods.
    wrong: bool,
    meter: &'m mut dyn Meter,
}

/// `fmt.Sprint`: blanks between operands of which neither is a string.
///
/// # Errors
/// The meter refuses, or a value nests too deep.
pub fn print(values: &[Value], meter: &mut dyn Meter) -> Result<Vec<u8>, Stop> {
    let mut printer = Printer::new(meter);
    let mut before = true;
    for (i, value) in values.iter().enumerate() {
        let string = matches!(value, Value::String(_));
        if i > 0 && !string && !before {
            printer.write(b" ")?;
        }
        printer.argument(value, 'v')?;
        before = string;
    }
    Ok(printer.out)
}

/// `fmt.Sprintln`: blanks between all operands, and a newline.
///
/// # Errors
/// The meter refuses, or a value nests too deep.
pub fn println(values: &[Value], meter: &mut dyn Meter) -> Result<Vec<u8>, Stop> {
    let mut printer = Printer::new(meter);
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            printer.write(b" ")?;
        }
        printer.argument(value, 'v')?;
    }
    printer.write(b"\n")?;
    Ok(printer.out)
}

/// What an action prints of its value: of a pointer what it points to.
pub(crate) fn action(value: &Value, meter: &mut dyn Meter) -> Result<Vec<u8>, Stop> {
    let mut printer = Printer::new(meter);
    match value {
        Value::NoValue => printer.write(b"<no value>")?,
        Value::Object(object) if object.text().is_none() && object.shown().is_some() => {
            printer.write(object.shown().unwrap_or_default().as_bytes())?;
        }
        value => return argument(value, meter),
    }
    Ok(printer.out)
}

/// What a function prints of its only argument, which it has no pointer to; of a pointer what it points to.
pub(crate) fn argument(value: &Value, meter: &mut dyn Meter) -> Result<Vec<u8>, Stop> {
    let mut printer = Printer::new(meter);
    match value {
        Value::Object(object) if object.text().is_none() => match object.underlying() {
            Underlying::Pointer => printer.fields(&**object, "", 'v', 0)?,
            _ => printer.value(value, 'v', 0)?,
        },
        value => printer.value(value, 'v', 0)?,
    }
    Ok(printer.out)
}

/// `%s` or `%v` of a `reflect.Value`, as messages of Go have it.
pub(crate) fn reflected(value: &Value, verb: char, meter: &mut dyn Meter) -> Result<String, Stop> {
    let mut printer = Printer::new(meter);
    match value {
        Value::NoValue => printer.write(b"<invalid reflect.Value>")?,
        value => printer.value(value, verb, 0)?,
    }
    Ok(String::from_utf8_lossy(&printer.out).into_owned())
}

/// `fmt.Sprintf`.
///
/// # Errors
/// The meter refuses, or a value nests too deep.
pub fn printf(format: &Str, values: &[Value], meter: &mut dyn Meter) -> Result<Vec<u8>, Stop> {
    let mut printer = Printer::new(meter);
    let mut directives =
        Directives { rest: format.as_bytes(), values, next: 0, reordered: false, good: true };
    while !directives.rest.is_empty() {
        let text = directives.rest.iter().position(|b| *b == b'%');
        let (text, rest) = directives.rest.split_at(text.unwrap_or(directives.rest.len()));
        printer.write(text)?;
        directives.rest = rest;
        if directives.take(b'%') {
            directives.directive(&mut printer)?;
        }
    }
    let extra = values.get(directives.next..).unwrap_or_default();
    if !directives.reordered && !extra.is_empty() {
        printer.spec = Spec::default();
        printer.write(b"%!(EXTRA ")?;
        for (i, value) in extra.iter().enumerate() {
            if i > 0 {
                printer.write(b", ")?;
            }
            printer.typed(value)?;
        }
        printer.write(b")")?;
    }
    Ok(printer.out)
}

impl<'m> Printer<'m> {
    fn new(meter: &'m mut dyn Meter) -> Self {
        Self { out: Vec::new(), spec: Spec::default(), wrong: false, meter }
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.meter.room(bytes.len() as u64)?;
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// `TYPE=value`, and `<nil>` of nothing.
    fn typed(&mut self, value: &Value) -> Result<(), Stop> {
        match value.type_of() {
            None => self.write(b"<nil>"),
            Some(of) => {
                self.write(format!("{of}=").as_bytes())?;
                self.argument(value, 'v')
            }
        }
    }
}

/// A format string, and which operand comes next.
struct Directives<'a> {
    rest: &'a [u8],
    values: &'a [Value],
    next: usize,
    /// Whether an operand was named by number: unused ones are not counted then.
    reordered: bool,
    /// Whether the present directive names operands that exist.
    good: bool,
}

impl Directives<'_> {
    fn take(&mut self, byte: u8) -> bool {
        match self.rest.split_first() {
            Some((first, rest)) if *first == byte => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    /// What follows a `%`.
    fn directive(&mut self, printer: &mut Printer<'_>) -> Result<(), Stop> {
        self.good = true;
        let mut spec = Spec::default();
        while let Some((flag, rest)) = self.rest.split_first() {
            match flag {
                b'#' => spec.sharp = true,
                b'0' => spec.zero = true,
                b'+' => spec.plus = true,
                b'-' => spec.minus = true,
                b' ' => spec.space = true,
                _ => break,
            }
            self.rest = rest;
        }
        let mut named = self.operand_number();
        if self.take(b'*') {
            match self.integer() {
                Some(width) => {
                    if width < 0 {
                        spec.minus = true;
                        spec.zero = false;
                    }
                    spec.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => printer.write(b"%!(BADWIDTH)")?,
            }
            named = false;
        } else {
            spec.width = self.number();
            if named && spec.width.is_some() {
                self.good = false;
            }
        }
        if self.rest.len() > 1 && self.take(b'.') {
            if named {
                self.good = false;
            }
            named = self.operand_number();
            if self.take(b'*') {
                spec.precision = match self.integer() {
                    Some(precision) => usize::try_from(precision).ok(),
                    None => None,
                };
                if spec.precision.is_none() {
                    printer.write(b"%!(BADPREC)")?;
                }
                named = false;
            } else {
                spec.precision = Some(self.number().unwrap_or(0));
            }
        }
        if !named {
            self.operand_number();
        }
        let Some(verb) = self.verb() else {
            return printer.write(b"%!(NOVERB)");
        };
        if matches!(verb, 'v' | 'w') {
            (spec.sharp_v, spec.sharp) = (spec.sharp, false);
            (spec.plus_v, spec.plus) = (spec.plus, false);
        }
        printer.spec = spec;
        if verb == '%' {
            return printer.write(b"%");
        }
        if !self.good {
            return printer.write(format!("%!{verb}(BADINDEX)").as_bytes());
        }
        match self.values.get(self.next) {
            Some(value) => {
                self.next += 1;
                printer.argument(value, verb)
            }
            None => printer.write(format!("%!{verb}(MISSING)").as_bytes()),
        }
    }

    fn verb(&mut self) -> Option<char> {
        let (length, verb) = first_char(self.rest)?;
        self.rest = self.rest.get(length..).unwrap_or_default();
        Some(verb)
    }

    /// A decimal number; one that is too large takes the rest of the format with it, as in Go.
    fn number(&mut self) -> Option<usize> {
        let mut number = None;
        while let Some((digit @ b'0'..=b'9', rest)) = self.rest.split_first() {
            let so_far: usize = number.unwrap_or(0);
            if so_far as i64 > WIDEST {
                self.rest = &[];
                return None;
            }
            number = Some(so_far * 10 + usize::from(digit - b'0'));
            self.rest = rest;
        }
        number
    }

    /// An operand that is a width or precision.
    fn integer(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = match value.underlying() {
            Value::Int(_, number) => number,
            Value::Uint(_, number) => i64::try_from(number).ok()?,
            _ => return None,
        };
        (number.unsigned_abs() <= WIDEST.unsigned_abs()).then_some(number)
    }

    /// `[3]`: the operand that comes next. True if it is there and names one.
    fn operand_number(&mut self) -> bool {
        if self.rest.first() != Some(&b'[') {
            return false;
        }
        self.reordered = true;
        let Some(end) = self.rest.iter().position(|b| *b == b']').filter(|_| self.rest.len() > 2)
        else {
            self.good = false;
            self.rest = self.rest.get(1..).unwrap_or_default();
            return false;
        };
        let (inside, rest) = self.rest.split_at(end);
        let digits = inside.get(1..).unwrap_or_default();
        self.rest = rest.get(1..).unwrap_or_default();
        let number = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse::<i64>().ok())
            .filter(|number| *number <= WIDEST * 10 + 9);
        let index = number.and_then(|number| usize::try_from(number - 1).ok());
        match index.filter(|index| *index < self.values.len()) {
            Some(index) => {
                self.next = index;
                true
            }
            None => {
                self.good = false;
                number.is_some()
            }
        }
    }
}

/// The first character, and how many bytes it takes; what is no UTF-8 is U+FFFD of one byte.
fn first_char(bytes: &[u8]) -> Option<(usize, char)> {
    let head = bytes.get(..bytes.len().min(4))?;
    let valid = match std::str::from_utf8(head) {
        Ok(text) => text,
        Err(error) => std::str::from_utf8(head.get(..error.valid_up_to())?).ok()?,
    };
    match valid.chars().next() {
        Some(c) => Some((c.len_utf8(), c)),
        None if bytes.is_empty() => None,
        None => Some((1, char::REPLACEMENT_CHARACTER)),
    }
}

/// `strconv.CanBackquote`
fn can_backquote(text: &str) -> bool {
    text.chars().all(|c| c != '\u{feff}' && c != '`' && c != '\u{7f}' && (c >= ' ' || c == '\t'))
}

/// `strconv.Quote` of bytes: those that are no UTF-8 are `\x..`; with `ascii` it is
/// `strconv.QuoteToASCII`.
#[must_use]
pub fn quote(text: &Str, ascii: bool) -> String {
    let whole = |text: &str| {
        if ascii { strconv::quote_to_ascii(text) } else { strconv::quote(text) }
    };
    if let Some(text) = text.as_str() {
        return whole(text);
    }
    let mut out = String::from("\"");
    for chunk in text.as_bytes().utf8_chunks() {
        let quoted = whole(chunk.valid());
        out.push_str(quoted.get(1..quoted.len() - 1).unwrap_or_default());
        for byte in chunk.invalid() {
            out.push_str(&format!("\\x{byte:02x}"));
        }
    }
    out.push('"');
    out
}
