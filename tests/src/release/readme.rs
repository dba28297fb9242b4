//! The table of values in the chart's README, generated from the comments in its values.yaml.
//!
//! Read line by line, since comments are what YAML parsers leave out; values.yaml keeps to two blanks
//! a level and one value a line.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context, Result};

use crate::material::workspace;

const BEGIN: &str = "<!-- values: made by `cargo xtask charts --only readme` -->\n";
const END: &str = "<!-- end of values -->\n";

/// One value.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    path: String,
    default: String,
    text: String,
}

/// The README as it is, and as it should be.
///
/// # Errors
/// When a file cannot be read, or the README has no place for the table.
pub fn readme() -> Result<(String, String)> {
    let chart = workspace().join("charts/vela-core");
    let read = |name: &str| {
        let path = chart.join(name);
        fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (is, values) = (read("README.md")?, read("values.yaml")?);
    let (before, rest) = is.split_once(BEGIN).context("README.md: no place for the values")?;
    let (_, after) = rest.split_once(END).context("README.md: the values have no end")?;
    let table = table(&rows(&values));
    let wanted = format!("{before}{BEGIN}\n{table}\n{END}{after}");
    Ok((is, wanted))
}

fn table(rows: &[Row]) -> String {
    let mut table = "| value | default | |\n|---|---|---|\n".to_owned();
    for Row { path, default, text } in rows {
        let cell = |text: &str| text.replace('|', "\\|");
        let default = if default.is_empty() { String::new() } else { format!("`{default}`") };
        let _ = writeln!(table, "| `{path}` | {} | {} |", cell(&default), cell(text));
    }
    table
}

/// The values in their order: each that is no map, and each map that has a description.
fn rows(values: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut parents: Vec<(usize, &str)> = Vec::new();
    let mut text = String::new();
    let mut list_at = None;
    let mut lines = values.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        if let Some(comment) = trimmed.strip_prefix('#') {
            match comment.trim_start().strip_prefix("-- ") {
                Some(first) => text = first.trim().to_owned(),
                None if !text.is_empty() => text = format!("{text} {}", comment.trim()),
                None => {}
            }
            continue;
        }
        let Some((key, value)) = trimmed.split_once(':') else {
            text.clear();
            continue;
        };
        // what is in a list is part of its value
        if list_at.is_some_and(|at| indent > at) || key.starts_with('-') {
            continue;
        }
        list_at = None;
        parents.retain(|(at, _)| *at < indent);
        parents.push((indent, key));
        let next = lines.peek().copied().unwrap_or_default();
        let is_list = value.is_empty() && next.trim_start().starts_with("- ");
        let inner = lines.clone().find(|line| {
            let line = line.trim_start();
            !line.is_empty() && !line.starts_with('#')
        });
        let inner = inner.map_or(0, |line| line.len() - line.trim_start().len());
        let is_map = value.is_empty() && !is_list && inner > indent;
        if is_list {
            list_at = Some(indent);
        }
        let description = std::mem::take(&mut text);
        if is_map && description.is_empty() {
            continue;
        }
        let path = parents.iter().map(|(_, key)| *key).collect::<Vec<_>>().join(".");
        let default = match value.trim() {
            _ if is_map => String::new(),
            "" if is_list => "see values.yaml".to_owned(),
            value => value.to_owned(),
        };
        rows.push(Row { path, default, text: description });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_become_rows() {
        let values = "# of the file\n\n# -- How many,\n# at least 1\ncount: 2\nplain: \"\"\n\
                      nothing:\nouter:\n  # why\n  inner:\n    # -- Which\n    deep: a|b\n\
                      # -- A block\nblock:\n  # -- Rules\n  rules:\n    - apiGroups: [\"\"]\n      x: 1\n\
                      \x20 after: {}\n";
        let row = |path: &str, default: &str, text: &str| Row {
            path: path.to_owned(),
            default: default.to_owned(),
            text: text.to_owned(),
        };
        let wanted = [
            row("count", "2", "How many, at least 1"),
            row("plain", "\"\"", ""),
            row("nothing", "", ""),
            row("outer.inner.deep", "a|b", "Which"),
            row("block", "", "A block"),
            row("block.rules", "see values.yaml", "Rules"),
            row("block.after", "{}", ""),
        ];
        let made = rows(values);
        assert_eq!(made, wanted);
        assert!(table(&made).contains("| `outer.inner.deep` | `a\\|b` | Which |\n"));
    }
}
