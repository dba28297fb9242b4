//! Quantities of resources: `0.5` and `500m` are the same amount of CPU. The API server stores its own spelling, which is no
//! reason to write the manifest's again and again.

use serde_json::Value;

/// Gives the quantities of a manifest the spelling of the live object wherever they mean the same.
pub(crate) fn spell_as(live: &Value, manifest: &mut Value) {
    match (manifest, live) {
        (Value::Object(manifest), Value::Object(live)) => {
            for (key, value) in manifest {
                let Some(live) = live.get(key) else { continue };
                if key == "limits" || key == "requests" {
                    spell_amounts_as(live, value);
                } else {
                    spell_as(live, value);
                }
            }
        }
        (Value::Array(manifest), Value::Array(live)) => {
            for (index, item) in manifest.iter_mut().enumerate() {
                let name = item.get("name").cloned();
                let other = match &name {
                    Some(name) => live.iter().find(|other| other.get("name") == Some(name)),
                    None => live.get(index),
                };
                if let Some(other) = other {
                    spell_as(other, item);
                }
            }
        }
        _ => {}
    }
}

fn spell_amounts_as(live: &Value, manifest: &mut Value) {
    let (Some(manifest), Some(live)) = (manifest.as_object_mut(), live.as_object()) else {
        return;
    };
    for (key, amount) in manifest {
        if let Some(live) = live.get(key)
            && let (Some(one), Some(other)) = (nanos(amount), nanos(live))
            && one == other
        {
            amount.clone_from(live);
        }
    }
}

/// An amount in billionths; `None` for what is no quantity, or too fine or too large to be one that is stored.
#[must_use]
pub fn nanos(value: &Value) -> Option<i128> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let end = text.find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-')).unwrap_or(text.len());
    let (number, suffix) = text.split_at_checked(end)?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let mantissa: i128 = format!("0{whole}{fraction}").parse().ok()?;
    let decimals = u32::try_from(fraction.len()).ok()?;
    let (factor, exponent) = match suffix {
        "" => (1, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1_i128 << 40, 0),
        "Pi" => (1_i128 << 50, 0),
        "Ei" => (1_i128 << 60, 0),
        other => (1, other.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?),
    };
    // In billionths, and the fraction's digits made the mantissa larger.
    let exponent = exponent.checked_add(9)?.checked_sub(i32::try_from(decimals).ok()?)?;
    let ten = |exponent: u32| 10_i128.checked_pow(exponent);
    let scaled = mantissa.checked_mul(factor)?;
    let amount = if exponent >= 0 {
        scaled.checked_mul(ten(exponent.unsigned_abs())?)?
    } else {
        let divisor = ten(exponent.unsigned_abs())?;
        (scaled % divisor == 0).then(|| scaled / divisor)?
    };
    Some(if negative { -amount } else { amount })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn equal_amounts() {
        for (one, other) in [
            (json!("0.5"), json!("500m")),
            (json!(1), json!("1")),
            (json!("1.5Gi"), json!("1536Mi")),
            (json!("1e3"), json!("1k")),
            (json!("1E3"), json!("1000")),
            (json!(".5"), json!("500m")),
            (json!("+2.50"), json!(2.5)),
            (json!("-1"), json!("-1000m")),
            (json!("2E"), json!("2000P")),
        ] {
            assert!(nanos(&one).is_some(), "{one}");
            assert_eq!(nanos(&one), nanos(&other), "{one} {other}");
        }
        assert_ne!(nanos(&json!("1G")), nanos(&json!("1Gi")));
        for no in [
            json!(""),
            json!("m"),
            json!("1.2.3"),
            json!("1 "),
            json!("x"),
            json!("1e99"),
            json!("0.0000000001"),
            json!(null),
            json!("--1"),
            json!("1-1"),
        ] {
            assert_eq!(nanos(&no), None, "{no}");
        }
    }

    #[test]
    fn only_amounts_that_mean_the_same_are_spelt_anew() {
        let live = json!({"spec": {"cpu": "500m", "containers": [
            {"name": "side", "resources": {"limits": {"cpu": "1"}}},
            {"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}},
        ]}});
        let mut manifest = json!({"spec": {"cpu": "0.5", "containers": [
            {"name": "main", "resources": {"limits": {"cpu": "0.5", "memory": "2Gi"}, "requests": {"cpu": 1}}},
            {"name": "new", "resources": {"limits": {"cpu": "1.0"}}},
        ]}});
        spell_as(&live, &mut manifest);
        assert_eq!(
            manifest,
            json!({"spec": {"cpu": "0.5", "containers": [
                {"name": "main", "resources": {"limits": {"cpu": "500m", "memory": "2Gi"}, "requests": {"cpu": 1}}},
                {"name": "new", "resources": {"limits": {"cpu": "1.0"}}},
            ]}})
        );
    }
}
