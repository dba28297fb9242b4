//! A hash of a tree of JSON that does not depend on how it is written.

use serde_json::Value;
use sha2::{Digest, Sha256};

/// The hash of a value: equal for equal trees, whatever the order of their fields and the spelling of their numbers.
///
/// The API server writes 80.0 as 80 and 1e3 as 1000 when it stores an object: who hashes before and who hashes after that must
/// agree. It does nothing else to a number, so nothing else is done here.
#[must_use]
pub fn digest(value: &Value) -> [u8; 32] {
    let mut hash = Sha256::new();
    add(value, &mut hash);
    hash.finalize().into()
}

/// One byte for the kind, then what it holds with its length: no two trees are hashed alike.
fn add(value: &Value, hash: &mut Sha256) {
    match value {
        Value::Null => hash.update(b"0"),
        Value::Bool(false) => hash.update(b"f"),
        Value::Bool(true) => hash.update(b"t"),
        Value::Number(number) => match integer(number) {
            Some(integer) => {
                hash.update(b"i");
                hash.update(integer.to_be_bytes());
            }
            None => {
                hash.update(b"d");
                hash.update(number.as_f64().unwrap_or(f64::NAN).to_bits().to_be_bytes());
            }
        },
        Value::String(text) => add_text(text, hash),
        Value::Array(items) => {
            hash.update(b"a");
            add_length(items.len(), hash);
            for item in items {
                add(item, hash);
            }
        }
        Value::Object(fields) => {
            hash.update(b"o");
            add_length(fields.len(), hash);
            // A map of serde_json is sorted by key (the workspace forbids its feature preserve_order).
            for (key, value) in fields {
                add_text(key, hash);
                add(value, hash);
            }
        }
    }
}

fn add_text(text: &str, hash: &mut Sha256) {
    hash.update(b"s");
    add_length(text.len(), hash);
    hash.update(text);
}

fn add_length(length: usize, hash: &mut Sha256) {
    hash.update((length as u64).to_be_bytes());
}

/// The integer that a number is, if the API server would store it as one: it keeps what fits 64 bits with a sign, and takes
/// everything else for a float, whose integral values it writes without a point.
fn integer(number: &serde_json::Number) -> Option<i64> {
    /// 2^63: the first float that no longer fits.
    const TOO_LARGE: f64 = 9_223_372_036_854_775_808.0;
    if let Some(integer) = number.as_i64() {
        return Some(integer);
    }
    let float = number.as_f64()?;
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the range is checked, the value is integral"
    )]
    (float.fract() == 0.0 && (-TOO_LARGE..TOO_LARGE).contains(&float)).then_some(float as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(text: &str) -> [u8; 32] {
        digest(&serde_json::from_str(text).unwrap())
    }

    /// Another encoding would make every stamp of a cluster worthless on upgrade.
    #[test]
    fn the_encoding_stays() {
        let sum = of(r#"{"a":[1,2.5,null,true,"x"],"b":{}}"#);
        let text: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(text, "b1b09d8a24ea3b01e86710197188e08d31bb4ed7ecc6c68930d6be3e73ae4206");
    }

    #[test]
    fn spellings_of_the_same_tree_are_equal() {
        for (one, other) in [
            ("80", "80.0"),
            ("1000", "1e3"),
            ("0", "-0.0"),
            ("-5", "-5.0"),
            ("9223372036854775808", "9223372036854775808.0"),
            (r#"{"a":1,"b":2}"#, r#"{ "b":2.0, "a":1 }"#),
            (r#""\u0041""#, r#""A""#),
        ] {
            assert_eq!(of(one), of(other), "{one} {other}");
        }
    }

    #[test]
    fn other_trees_are_not() {
        let all = [
            "null",
            "false",
            "true",
            "0",
            "1",
            "-1",
            "0.5",
            "1e300",
            "9223372036854775807",
            "9223372036854775808",
            r#""""#,
            r#""0""#,
            r#""null""#,
            "[]",
            "[[]]",
            "[[],[]]",
            "[0]",
            "[0,1]",
            "[1,0]",
            "{}",
            r#"{"a":null}"#,
            r#"{"a":{}}"#,
            r#"{"a":[]}"#,
            r#"{"":""}"#,
            r#"{"a":"b"}"#,
            r#"{"ab":""}"#,
            r#"["a","b"]"#,
            r#"["ab"]"#,
            r#"["ab",""]"#,
        ];
        for (i, one) in all.iter().enumerate() {
            for other in all.iter().skip(i + 1) {
                assert_ne!(of(one), of(other), "{one} {other}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_float_is_the_integer_it_equals(number in any::<i32>()) {
            prop_assert_eq!(of(&format!("{number}")), of(&format!("{number}.0")));
            prop_assert_ne!(of(&format!("{number}")), of(&format!("{number}.5")));
        }
    }
}
