//! Finds the parameters of a definition with the marker `+immutable`.

/// The fields of `parameter` that carry the marker, as dotted paths.
///
/// Read from the text, line by line: the marker is a comment line of its own directly above a
/// field, or behind it, and only plain fields of nested structs have paths.
pub(crate) fn immutable(template: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut stack: Vec<Option<String>> = Vec::new();
    let mut is_pending = false;
    for line in template.lines() {
        let (code, comment) = split_comment(line);
        let has_marker =
            comment.is_some_and(|comment| comment.trim_start().starts_with("+immutable"));
        let code = code.trim();
        if code.is_empty() {
            is_pending |= has_marker;
            continue;
        }
        let label = label(code);
        if (is_pending || has_marker)
            && let Some(label) = &label
            && stack.first().is_some_and(|first| first.as_deref() == Some("parameter"))
        {
            let names: Option<Vec<&str>> = stack.iter().skip(1).map(Option::as_deref).collect();
            if let Some(mut names) = names {
                names.push(label);
                out.push(names.join("."));
            }
        }
        is_pending = false;
        let mut is_first = true;
        for c in outside_strings(code) {
            match c {
                '{' | '[' | '(' => {
                    stack.push(if is_first && c == '{' { label.clone() } else { None });
                    is_first = false;
                }
                '}' | ']' | ')' => {
                    stack.pop();
                }
                _ => {}
            }
        }
    }
    out
}

/// `name: ..`, `name?: ..`, `"name": ..`, `name!: ..`.
fn label(code: &str) -> Option<String> {
    let (name, _) = code.split_once(':')?;
    let name = name.trim().trim_end_matches(['?', '!']).trim_matches('"');
    let is_plain = !name.is_empty()
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '#' | '$'));
    is_plain.then(|| name.to_owned())
}

fn split_comment(line: &str) -> (&str, Option<&str>) {
    let mut is_text = false;
    let mut escaped = false;
    let mut previous = ' ';
    for (at, c) in line.char_indices() {
        match c {
            '"' if !escaped => is_text = !is_text,
            '/' if previous == '/' && !is_text => {
                return (line.get(..at - 1).unwrap_or_default(), line.get(at + 1..));
            }
            _ => {}
        }
        escaped = c == '\\' && !escaped;
        previous = c;
    }
    (line, None)
}

fn outside_strings(code: &str) -> impl Iterator<Item = char> + '_ {
    let mut is_text = false;
    let mut escaped = false;
    code.chars().filter(move |&c| {
        if c == '"' && !escaped {
            is_text = !is_text;
        }
        escaped = c == '\\' && !escaped;
        !is_text
    })
}

#[cfg(test)]
mod tests {
    use super::immutable;

    #[test]
    fn markers_are_found() {
        let template = r#"
output: {
	// +immutable
	spec: {x: parameter.a}
}
parameter: {
	// +usage=The class
	// +immutable
	storageClass: string
	size?: *"1Gi" | string // +immutable
	note: "// +immutable"
	nested: {
		// +immutable
		// +usage=inner
		key!: int
		other: [...{
			// +immutable
			notAPath: string
		}]
	}
	// +immutable
	frozen: {
		a: int
	}
}
"#;
        assert_eq!(immutable(template), ["storageClass", "size", "nested.key", "frozen"]);
    }
}
