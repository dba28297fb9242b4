//! Values of any type under any verb.

use super::{MOST_NESTED, Printer, TooDeep};
use crate::meter::Stop;
use crate::object::{Object, Underlying};
use crate::text::Str;
use crate::types::{Type, Uint};
use crate::value::{List, Map, Value};

impl Printer<'_> {
    /// An operand of `Print` or of a directive.
    pub(super) fn argument(&mut self, value: &Value, verb: char) -> Result<(), Stop> {
        match (value.type_of(), verb) {
            (None, 'T' | 'v') => self.pad(b"<nil>"),
            (None, _) => self.write(format!("%!{verb}(<nil>)").as_bytes()),
            (Some(of), 'T') => self.string(&of.to_string().into(), 's').map(|_| ()),
            // The verb of `Errorf` that wraps an error.
            (Some(of), 'w') if of != Type::BYTES => self.bad_verb(value, verb),
            (Some(_), _) => self.value(value, verb, 0),
        }
    }

    /// A value at a depth within the operand.
    pub(super) fn value(&mut self, value: &Value, verb: char, depth: usize) -> Result<(), Stop> {
        if depth > MOST_NESTED {
            return Err(Stop::new(TooDeep));
        }
        self.meter.steps(1)?;
        let known = match value {
            Value::NoValue | Value::Nil => return self.nothing(),
            Value::Bool(value) if matches!(verb, 't' | 'v') => {
                return self.pad(if *value { b"true" } else { b"false" });
            }
            Value::Bool(_) => false,
            Value::Int(_, n) => self.integer(*n < 0, n.unsigned_abs(), true, verb)?,
            Value::Uint(_, n) => self.integer(false, *n, false, verb)?,
            Value::Float(value) => self.float(*value, verb)?,
            Value::String(text) => self.string(text, verb)?,
            Value::Bytes(bytes) => return self.bytes(bytes, verb, depth),
            Value::List(list) => return self.list(list, list.type_of(), verb, depth),
            Value::Map(map) => return self.map(map, map.type_of(), verb, depth),
            Value::Object(object) => return self.object(value, &**object, verb, depth),
        };
        if known { Ok(()) } else { self.bad_verb(value, verb) }
    }

    /// A nil within a value: no verb is wrong for it.
    fn nothing(&mut self) -> Result<(), Stop> {
        self.write(if self.spec.sharp_v { b"interface {}(nil)" } else { b"<nil>" })
    }

    /// `%!d(string=x)`
    fn bad_verb(&mut self, value: &Value, verb: char) -> Result<(), Stop> {
        self.write(format!("%!{verb}(").as_bytes())?;
        self.wrong = true;
        self.typed(value)?;
        self.wrong = false;
        self.write(b")")
    }

    fn bytes(&mut self, bytes: &Str, verb: char, depth: usize) -> Result<(), Stop> {
        match verb {
            's' | 'x' | 'X' | 'q' => self.string(bytes, verb).map(|_| ()),
            'v' | 'd' if self.spec.sharp_v => {
                self.write(if depth == 0 { b"[]byte{" } else { b"[]uint8{" })?;
                for (i, byte) in bytes.as_bytes().iter().enumerate() {
                    self.separate(i)?;
                    self.hex(u64::from(*byte))?;
                }
                self.write(b"}")
            }
            'v' | 'd' if self.spec.is_empty() => {
                // One by one as numbers: three digits and a blank each at the most.
                self.meter.steps(bytes.len() as u64)?;
                self.meter.room(4 * bytes.len() as u64)?;
                self.out.push(b'[');
                for (i, byte) in bytes.as_bytes().iter().enumerate() {
                    if i > 0 {
                        self.out.push(b' ');
                    }
                    for (least, unit) in [(100, 100), (10, 10), (0, 1)] {
                        if *byte >= least {
                            self.out.push(b'0' + byte / unit % 10);
                        }
                    }
                }
                self.out.push(b']');
                Ok(())
            }
            _ => {
                self.open(Type::BYTES, "[")?;
                for (i, byte) in bytes.as_bytes().iter().enumerate() {
                    self.separate(i)?;
                    let byte = Value::Uint(Uint::Uint8, u64::from(*byte));
                    self.value(&byte, verb, depth + 1)?;
                }
                self.close()
            }
        }
    }

    fn separate(&mut self, i: usize) -> Result<(), Stop> {
        match (i, self.spec.sharp_v) {
            (0, _) => Ok(()),
            (_, true) => self.write(b", "),
            (_, false) => self.write(b" "),
        }
    }

    /// What begins and ends a list or map: in Go syntax its type and braces.
    fn open(&mut self, of: Type, plain: &str) -> Result<(), Stop> {
        if self.spec.sharp_v {
            return self.write(format!("{of}{{").as_bytes());
        }
        self.write(plain.as_bytes())
    }

    fn close(&mut self) -> Result<(), Stop> {
        self.write(if self.spec.sharp_v { b"}" } else { b"]" })
    }

    fn list(&mut self, list: &List, of: Type, verb: char, depth: usize) -> Result<(), Stop> {
        if self.spec.sharp_v && list.is_nil() {
            return self.write(format!("{of}(nil)").as_bytes());
        }
        self.open(of, "[")?;
        for (i, element) in list.as_slice().iter().enumerate() {
            self.separate(i)?;
            self.value(element, verb, depth + 1)?;
        }
        self.close()
    }

    fn map(&mut self, map: &Map, of: Type, verb: char, depth: usize) -> Result<(), Stop> {
        if self.spec.sharp_v && map.is_nil() {
            return self.write(format!("{of}(nil)").as_bytes());
        }
        self.meter.room(64 * map.len() as u64)?;
        self.open(of, "map[")?;
        for (i, (key, value)) in map.entries().into_iter().enumerate() {
            self.separate(i)?;
            self.value(&Value::String(key), verb, depth + 1)?;
            self.write(b":")?;
            self.value(&value, verb, depth + 1)?;
        }
        self.close()
    }

    fn object(
        &mut self,
        value: &Value,
        object: &dyn Object,
        verb: char,
        depth: usize,
    ) -> Result<(), Stop> {
        if !self.spec.sharp_v
            && !self.wrong
            && matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
            && let Some(text) = object.text()
        {
            return self.string(&text.into(), verb).map(|_| ());
        }
        if self.spec.sharp_v
            && let Some(text) = object.go_syntax()
        {
            return self.pad(text.as_bytes());
        }
        if let Some(text) = object.format(verb) {
            return self.pad(text.as_bytes());
        }
        if object.format('v').is_some() {
            return self.bad_verb(value, verb);
        }
        match object.underlying() {
            Underlying::Value(Value::List(list)) => self.list(&list, object.type_of(), verb, depth),
            Underlying::Value(Value::Map(map)) => self.map(&map, object.type_of(), verb, depth),
            Underlying::Value(inner) => self.value(&inner, verb, depth),
            Underlying::Struct => self.fields(object, "", verb, depth),
            Underlying::Pointer if depth > 0 && !has_address(verb) => self.bad_verb(value, verb),
            // No address: a text that is another each time helps nobody.
            Underlying::Pointer => self.fields(object, "&", verb, depth),
            Underlying::Func => self.bad_verb_of_type(value, verb),
        }
    }

    pub(super) fn fields(
        &mut self,
        object: &dyn Object,
        prefix: &str,
        verb: char,
        depth: usize,
    ) -> Result<(), Stop> {
        self.write(prefix.as_bytes())?;
        if self.spec.sharp_v {
            let of = object.type_of().to_string();
            self.write(of.trim_start_matches('*').as_bytes())?;
        }
        self.write(b"{")?;
        for (i, (name, field)) in object.printed().into_iter().enumerate() {
            self.separate(i)?;
            if self.spec.plus_v || self.spec.sharp_v {
                self.write(format!("{name}:").as_bytes())?;
            }
            self.value(&field, verb, depth + 1)?;
        }
        self.write(b"}")
    }

    /// A function has nothing to print but its address.
    fn bad_verb_of_type(&mut self, value: &Value, verb: char) -> Result<(), Stop> {
        let of = value.type_of().map(|of| of.to_string()).unwrap_or_default();
        self.write(format!("%!{verb}({of})").as_bytes())
    }
}

/// Whether Go prints an address for a pointer within a value.
fn has_address(verb: char) -> bool {
    matches!(verb, 'v' | 'p' | 'b' | 'o' | 'd' | 'x' | 'X')
}
