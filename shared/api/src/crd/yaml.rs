//! Deterministic YAML for the chart's CRD files: block style, keys sorted, text plain where no
//! YAML reader can take it for anything else and in JSON's quotes otherwise.

use serde_json::Value;

/// The document, with a line feed at its end.
pub(super) fn document(value: &Value) -> String {
    let mut out = String::new();
    block(&mut out, value, 0);
    out
}

fn block(out: &mut String, value: &Value, depth: usize) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (index, (key, value)) in fields.iter().enumerate() {
                if index > 0 {
                    indent(out, depth);
                }
                out.push_str(&text(key));
                out.push(':');
                match value {
                    Value::Object(inner) if !inner.is_empty() => {
                        out.push('\n');
                        indent(out, depth + 1);
                        block(out, value, depth + 1);
                    }
                    Value::Array(items) if !items.is_empty() => {
                        out.push('\n');
                        indent(out, depth);
                        block(out, value, depth);
                    }
                    _ => {
                        out.push(' ');
                        block(out, value, depth + 1);
                    }
                }
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    indent(out, depth);
                }
                out.push_str("- ");
                block(out, item, depth + 1);
            }
        }
        Value::String(value) => {
            out.push_str(&text(value));
            out.push('\n');
        }
        // Empty collections, numbers, booleans and null are written as in JSON.
        other => {
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

fn indent(out: &mut String, depth: usize) {
    for _ in 0..depth {
        out.push_str("  ");
    }
}

/// A scalar text, quoted unless it plainly is a word or a sentence.
fn text(value: &str) -> String {
    let starts_well = value.starts_with(|first: char| first.is_ascii_alphabetic());
    let ends_well = !value.ends_with([' ', ':']);
    let harmless = value
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || matches!(c, ' ' | '.' | ',' | ';' | '-' | '/' | '_'));
    let word = matches!(
        value.to_ascii_lowercase().as_str(),
        "true" | "false" | "null" | "yes" | "no" | "on" | "off" | "y" | "n"
    );
    if starts_well && ends_well && harmless && !word {
        value.to_owned()
    } else {
        Value::from(value).to_string()
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn forms() {
        let value = json!({
            "a": { "b": [{ "c": 1, "d": [] }, ["x", {}], true] },
            "word": "yes", "path": ".spec['a\\.b']", "plain": "Health, of: it", "fine": "Some text.",
        });
        expect![[r#"
            a:
              b:
              - c: 1
                d: []
              - - x
                - {}
              - true
            fine: Some text.
            path: ".spec['a\\.b']"
            plain: "Health, of: it"
            word: "yes"
        "#]]
        .assert_eq(&document(&value));
    }
}
