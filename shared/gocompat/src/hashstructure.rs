//! The hash of `mitchellh/hashstructure` v2 (format 2, FNV-1 64): what revision hashes and the
//! render hash are computed from.
//!
//! The library walks Go values by reflection; here the caller describes the Go value,
//! piece by piece. The rules, as far as specs need them:
//! - a scalar is the FNV of its little-endian bytes (`int` as 64 bits, `bool` as one byte), a
//!   string the FNV of its text, and nil of any kind is the integer 0;
//! - a list folds its elements in order; an empty list is 0;
//! - a map xors its entries, then mixes once;
//! - a struct starts from its type's name and xors its fields, mixing after *each* field, so that
//!   the order of declaration counts.
//!
//! Our own: no crate computes these hashes.

use serde_json::Value;

use crate::fnv::fnv1_64;

/// `hashUpdateOrdered`: the hash of two hashes in order.
#[must_use]
fn ordered(first: u64, second: u64) -> u64 {
    let mut bytes = [0_u8; 16];
    let (head, tail) = bytes.split_at_mut(8);
    head.copy_from_slice(&first.to_le_bytes());
    tail.copy_from_slice(&second.to_le_bytes());
    fnv1_64(&bytes)
}

/// `hashFinishUnordered`: what closes a group of xored hashes.
#[must_use]
fn mixed(hash: u64) -> u64 {
    fnv1_64(&hash.to_le_bytes())
}

/// The hash of a Go string.
#[must_use]
pub fn string(text: &str) -> u64 {
    fnv1_64(text.as_bytes())
}

/// The hash of a Go `int`, `int64`.
#[must_use]
pub fn int(value: i64) -> u64 {
    fnv1_64(&value.to_le_bytes())
}

/// The hash of a Go `int32`.
#[must_use]
pub fn int32(value: i32) -> u64 {
    fnv1_64(&value.to_le_bytes())
}

/// The hash of a Go `float64`.
#[must_use]
pub fn float(value: f64) -> u64 {
    fnv1_64(&value.to_bits().to_le_bytes())
}

/// The hash of a Go `bool`.
#[must_use]
pub fn boolean(value: bool) -> u64 {
    fnv1_64(&[u8::from(value)])
}

/// The hash of nil: a nil pointer, a nil interface.
#[must_use]
pub fn nil() -> u64 {
    int(0)
}

/// The hash of a Go `[]byte`, which the library folds byte by byte.
#[must_use]
pub fn bytes(bytes: &[u8]) -> u64 {
    // fnv1_64 of a single byte: one step from the offset, so no table is needed.
    list(bytes.iter().map(|byte| fnv1_64(&[*byte])))
}

/// The hash of a Go slice (nil and empty are alike).
#[must_use]
pub fn list(elements: impl IntoIterator<Item = u64>) -> u64 {
    elements.into_iter().fold(0, ordered)
}

/// The hash of a Go map (nil and empty are alike).
#[must_use]
pub fn map(entries: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    mixed(entries.into_iter().fold(0, |hash, (key, value)| hash ^ ordered(key, value)))
}

/// The hash of a Go struct, field by field in the order of declaration.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Struct(u64);

impl Struct {
    /// A struct of the type with this name (anonymous types have the empty name).
    pub fn new(type_name: &str) -> Self {
        Self(string(type_name))
    }

    /// Adds a field whose value has the given hash.
    pub fn field(self, name: &str, value: u64) -> Self {
        Self(mixed(self.0 ^ ordered(string(name), value)))
    }

    /// The hash of the struct.
    #[must_use]
    pub const fn finish(self) -> u64 {
        self.0
    }
}

/// The hash of a decoded JSON value as Kubernetes' unstructured objects hold it: integers that fit
/// are `int64`, all other numbers `float64`.
#[must_use]
pub fn json(value: &Value) -> u64 {
    match value {
        Value::Null => nil(),
        Value::Bool(value) => boolean(*value),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(value), _) => int(value),
            (None, Some(value)) => float(value),
            // Without arbitrary precision every other number is a float; nothing else remains.
            (None, None) => nil(),
        },
        Value::String(text) => string(text),
        Value::Array(elements) => list(elements.iter().map(json)),
        Value::Object(entries) => {
            map(entries.iter().map(|(key, value)| (string(key), json(value))))
        }
    }
}

/// How hashes are written: lower-case hexadecimal without leading zeros.
#[must_use]
pub fn hex(hash: u64) -> String {
    format!("{hash:x}")
}

#[cfg(test)]
mod tests {
    use serde_json::json as value;

    use super::*;

    /// Numbers computed with the Go library (v2.0.2).
    #[test]
    fn matches_go() {
        assert_eq!(hex(string("abc")), "d8dcca186bafadcb");
        assert_eq!(hex(int(7)), "43869769eb4f75c8");
        assert_eq!(hex(int32(7)), "1083197f7b761d48");
        assert_eq!(hex(boolean(true)), "af63bd4c8601b7de");
        assert_eq!(hex(float(1.5)), "a8c7b0322819bf52");
        assert_eq!(hex(nil()), "a8c7f832281a39c5");
        assert_eq!(hex(bytes(b"hi")), "e17fe1fc770408a1");
        assert_eq!(hex(list([])), "0");
        assert_eq!(hex(map([])), "a8c7f832281a39c5");
        let entry = |key, value| (string(key), string(value));
        assert_eq!(hex(map([entry("a", "b"), entry("c", "d")])), "c0f97aeafa42801d");
        assert_eq!(
            hex(json(&value!({
                "s": "t", "n": null, "i": 3, "f": 0.5, "l": [true, "x"], "m": {}
            }))),
            "51f9a53ad7d56246"
        );
    }

    /// `Outer { Name string; P *Inner; L []Inner; M map[string]string; Raw []byte; I interface{} }`
    /// and `Inner { A string; B bool; N int32 }`, filled and zero, with the Go library.
    #[test]
    fn structs_match_go() {
        let inner = |text, flag, number| {
            Struct::new("Inner")
                .field("A", string(text))
                .field("B", boolean(flag))
                .field("N", int32(number))
                .finish()
        };
        let outer = Struct::new("Outer")
            .field("Name", string("x"))
            .field("P", inner("q", true, 3))
            .field("L", list([inner("z", false, 0)]))
            .field("M", map([(string("k"), string("v"))]))
            .field("Raw", bytes(br#"{"a":1}"#))
            .field("I", nil());
        assert_eq!(hex(outer.finish()), "360ba47b694d08cb");
        let zero = Struct::new("Outer")
            .field("Name", string(""))
            .field("P", nil())
            .field("L", list([]))
            .field("M", map([]))
            .field("Raw", bytes(b""))
            .field("I", nil());
        assert_eq!(hex(zero.finish()), "e2aee6383efcccd9");
    }
}
