//! Numbers, booleans, strings: digits, signs, widths, quotes.

use vela_gocompat::strconv;

use super::{Printer, Spec, can_backquote, quote};
use crate::meter::Stop;
use crate::text::Str;

impl Printer<'_> {
    /// A text in its width, which counts characters.
    pub(super) fn pad(&mut self, text: &[u8]) -> Result<(), Stop> {
        let fill = if self.spec.zero && !self.spec.minus { b'0' } else { b' ' };
        self.pad_with(text, fill)
    }

    fn pad_with(&mut self, text: &[u8], fill: u8) -> Result<(), Stop> {
        let missing = self.spec.width.map_or(0, |width| width.saturating_sub(count(text)));
        if self.spec.minus {
            self.write(text)?;
            self.fill(missing, fill)
        } else {
            self.fill(missing, fill)?;
            self.write(text)
        }
    }

    fn fill(&mut self, count: usize, fill: u8) -> Result<(), Stop> {
        self.meter.room(count as u64)?;
        self.out.resize(self.out.len() + count, fill);
        Ok(())
    }

    /// An integer; false if it has no such verb.
    pub(super) fn integer(
        &mut self,
        negative: bool,
        magnitude: u64,
        signed: bool,
        verb: char,
    ) -> Result<bool, Stop> {
        // What Go takes for the character: the bits of the number.
        let bits = if negative { magnitude.wrapping_neg() } else { magnitude };
        match verb {
            'v' if self.spec.sharp_v && !signed => self.hex(magnitude)?,
            'v' | 'd' => self.digits(negative, magnitude, 10, verb)?,
            'b' => self.digits(negative, magnitude, 2, verb)?,
            'o' | 'O' => self.digits(negative, magnitude, 8, verb)?,
            'x' | 'X' => self.digits(negative, magnitude, 16, verb)?,
            'c' => {
                let c = character(bits);
                self.pad(c.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
            'q' => {
                let c = character(bits);
                let quoted = match self.spec.plus {
                    true => strconv::quote_char_to_ascii(c),
                    false => strconv::quote_char(c),
                };
                self.pad(quoted.as_bytes())?;
            }
            'U' => self.code_point(bits)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// `0x1f`, whatever the flags say.
    pub(super) fn hex(&mut self, value: u64) -> Result<(), Stop> {
        let sharp = std::mem::replace(&mut self.spec.sharp, true);
        let written = self.digits(false, value, 16, 'v');
        self.spec.sharp = sharp;
        written
    }

    fn digits(
        &mut self,
        negative: bool,
        magnitude: u64,
        radix: u32,
        verb: char,
    ) -> Result<(), Stop> {
        let Spec { plus, minus, sharp, space, zero, width, precision, .. } = self.spec;
        let is_plain = width.is_none() && precision.is_none() && !plus && !space;
        if is_plain && radix == 10 {
            return self.decimal(negative, magnitude);
        }
        if precision == Some(0) && magnitude == 0 {
            return self.fill(width.unwrap_or(0), b' ');
        }
        let mut digits = match (radix, verb) {
            (2, _) => format!("{magnitude:b}"),
            (8, _) => format!("{magnitude:o}"),
            (16, 'X') => format!("{magnitude:X}"),
            (16, _) => format!("{magnitude:x}"),
            _ => magnitude.to_string(),
        };
        let sign = match (negative, plus, space) {
            (true, ..) => "-",
            (_, true, _) => "+",
            (_, _, true) => " ",
            _ => "",
        };
        // Zeros ahead come of a precision, or else of a width with the flag 0.
        let least = match (precision, width) {
            (Some(precision), _) => precision,
            (None, Some(width)) if zero && !minus => width - sign.len().min(width),
            _ => 0,
        };
        let missing = least.saturating_sub(digits.len());
        self.meter.room(missing as u64)?;
        digits.insert_str(0, &"0".repeat(missing));
        let prefix = match (radix, verb) {
            (8, 'O') if sharp && !digits.starts_with('0') => "0o0",
            (8, 'O') => "0o",
            (2, _) if sharp => "0b",
            (8, _) if sharp && !digits.starts_with('0') => "0",
            (16, 'X') if sharp => "0X",
            (16, _) if sharp => "0x",
            _ => "",
        };
        self.pad_with(format!("{sign}{prefix}{digits}").as_bytes(), b' ')
    }

    /// A number without anything around it.
    fn decimal(&mut self, negative: bool, mut magnitude: u64) -> Result<(), Stop> {
        let mut digits = [0; 21];
        let mut at = digits.len();
        for digit in digits.iter_mut().rev() {
            *digit = b'0' + u8::try_from(magnitude % 10).unwrap_or_default();
            magnitude /= 10;
            at -= 1;
            if magnitude == 0 {
                break;
            }
        }
        if let Some(sign) = at.checked_sub(1).filter(|_| negative)
            && let Some(digit) = digits.get_mut(sign)
        {
            *digit = b'-';
            at = sign;
        }
        self.write(digits.get(at..).unwrap_or_default())
    }

    fn code_point(&mut self, value: u64) -> Result<(), Stop> {
        let least = self.spec.precision.unwrap_or(0).max(4);
        self.meter.room(least as u64)?;
        let mut text = format!("U+{value:0least$X}");
        let shown = u32::try_from(value).ok().and_then(char::from_u32);
        if let Some(c) = shown.filter(|c| self.spec.sharp && strconv::is_print(*c)) {
            text.push_str(&format!(" '{c}'"));
        }
        self.pad_with(text.as_bytes(), b' ')
    }

    /// A float64; false if it has no such verb.
    pub(super) fn float(&mut self, value: f64, verb: char) -> Result<bool, Stop> {
        let (format, precision) = match verb {
            'v' => ('g', -1),
            'b' | 'g' | 'G' | 'x' | 'X' => (verb, -1),
            'f' | 'F' => ('f', 6),
            'e' | 'E' => (verb, 6),
            _ => return Ok(false),
        };
        let precision = self.spec.precision.map_or(precision, |precision| precision as i64);
        let text = strconv::format_float(value, format, precision, 64);
        let (sign, mut number) = match text.strip_prefix(['-', '+']) {
            Some(rest) if text.starts_with('-') => ("-", rest.to_owned()),
            Some(rest) => ("+", rest.to_owned()),
            None => ("+", text),
        };
        let shown = match sign {
            "+" if self.spec.plus => "+",
            "+" if self.spec.space => " ",
            "+" => "",
            sign => sign,
        };
        if number.starts_with(['I', 'N']) {
            // An infinity has a sign where a number of its size would show one.
            let shown =
                if number == "Inf" && value > 0.0 && shown.is_empty() { "+" } else { shown };
            return self.pad_with(format!("{shown}{number}").as_bytes(), b' ').map(|()| true);
        }
        if self.spec.sharp && format != 'b' {
            number = with_point(&number, verb, precision);
        }
        let width = self.spec.width.unwrap_or(0);
        if self.spec.zero && !self.spec.minus && !shown.is_empty() {
            let missing = width.saturating_sub(shown.len() + number.len());
            self.write(shown.as_bytes())?;
            self.fill(missing, b'0')?;
            self.write(number.as_bytes())?;
        } else {
            self.pad(format!("{shown}{number}").as_bytes())?;
        }
        Ok(true)
    }

    /// A string or bytes; false if they have no such verb.
    pub(super) fn string(&mut self, text: &Str, verb: char) -> Result<bool, Stop> {
        match verb {
            'v' if self.spec.sharp_v => self.quoted(text)?,
            'v' | 's' => {
                let bytes = self.cut(text.as_bytes());
                self.pad(bytes)?;
            }
            'q' => self.quoted(text)?,
            'x' => self.hex_bytes(text.as_bytes(), false)?,
            'X' => self.hex_bytes(text.as_bytes(), true)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The beginning that the precision leaves, in characters.
    fn cut<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let Some(most) = self.spec.precision else {
            return bytes;
        };
        let mut rest = bytes;
        for _ in 0..most {
            let Some((length, _)) = super::first_char(rest) else {
                return bytes;
            };
            rest = rest.get(length..).unwrap_or_default();
        }
        bytes.get(..bytes.len() - rest.len()).unwrap_or(bytes)
    }

    fn quoted(&mut self, text: &Str) -> Result<(), Stop> {
        let cut = self.cut(text.as_bytes());
        let cut = if cut.len() == text.len() { text.clone() } else { Str::from(cut) };
        // A byte may take four: `\x00`.
        self.meter.room(4 * cut.len() as u64)?;
        match cut.as_str() {
            Some(raw) if self.spec.sharp && can_backquote(raw) => {
                self.pad(format!("`{raw}`").as_bytes())
            }
            _ => self.pad(quote(&cut, self.spec.plus).as_bytes()),
        }
    }

    fn hex_bytes(&mut self, bytes: &[u8], upper: bool) -> Result<(), Stop> {
        let Spec { sharp, space, precision, .. } = self.spec;
        let bytes = bytes.get(..precision.unwrap_or(bytes.len())).unwrap_or(bytes);
        let prefix = match (sharp, upper) {
            (false, _) => "",
            (true, false) => "0x",
            (true, true) => "0X",
        };
        self.meter.room(5 * bytes.len() as u64)?;
        let mut text = String::new();
        for (i, byte) in bytes.iter().enumerate() {
            if i > 0 && space {
                text.push(' ');
            }
            if i == 0 || space {
                text.push_str(prefix);
            }
            text.push_str(&if upper { format!("{byte:02X}") } else { format!("{byte:02x}") });
        }
        self.pad(text.as_bytes())
    }
}

/// How many characters; a byte that is no UTF-8 is one.
fn count(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

fn character(code: u64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The flag `#`: a decimal point always, and the zeros that `%g` leaves out.
fn with_point(number: &str, verb: char, precision: i64) -> String {
    let hex = matches!(verb, 'x' | 'X');
    let exponent = number.find(|c| matches!(c, 'p' | 'P') || (!hex && matches!(c, 'e' | 'E')));
    let (mantissa, exponent) = number.split_at(exponent.unwrap_or(number.len()));
    let mut text = mantissa.to_owned();
    if !text.contains('.') {
        text.push('.');
    }
    if matches!(verb, 'v' | 'g' | 'G' | 'x') {
        let digits = if precision < 0 { 6 } else { precision as usize };
        let significant = mantissa.chars().filter(|c| *c != '.').skip_while(|c| *c == '0').count();
        // A zero alone counts as a digit.
        let have = if mantissa == "0" { 1 } else { significant };
        text.push_str(&"0".repeat(digits.saturating_sub(have)));
    }
    text + exponent
}
