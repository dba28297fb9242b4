//! What a dry run of an edit says in a line: which components it adds, changes and removes. What becomes of their objects is for
//! `vela-controller plan` to say, which renders them and tries them out.

use super::model::{App, Component};

/// Components that are named.
const MAX_NAMED: usize = 5;

/// The line; `None` if the components stay as they are.
pub(super) fn line(app: &App<'_>, old: Option<&App<'_>>) -> Option<String> {
    let before = old.map(|old| old.components.as_slice()).unwrap_or_default();
    let find = |all: &[Component<'_>], name: &str| all.iter().any(|one| one.name == name);
    let added = app.components.iter().filter(|one| !find(before, one.name));
    let removed = before.iter().filter(|one| !find(&app.components, one.name));
    let changed =
        app.components.iter().filter(|one| find(before, one.name) && !before.contains(one));
    let parts: Vec<String> = [
        part(added.map(|one| one.name).collect(), "to add"),
        part(changed.map(|one| one.name).collect(), "to change"),
        part(removed.map(|one| one.name).collect(), "to remove"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!parts.is_empty()).then(|| crate::messages::dry_run_summary(&parts.join(", ")))
}

fn part(names: Vec<&str>, words: &str) -> Option<String> {
    let count = names.len();
    let named: Vec<&str> = names.into_iter().take(MAX_NAMED).collect();
    let more = if count > named.len() { ", ..." } else { "" };
    (count > 0).then(|| format!("{count} {words} ({}{more})", named.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::application::model;

    fn app(components: &Value) -> Value {
        json!({"metadata": {"name": "a"}, "spec": {"components": components}})
    }

    fn said(old: Option<&Value>, new: &Value) -> Option<String> {
        let old = old.map(|old| model::read(old).0);
        line(&model::read(new).0, old.as_ref())
    }

    fn one(name: &str, image: &str) -> Value {
        json!({"name": name, "type": "webservice", "properties": {"image": image}})
    }

    #[test]
    fn an_edit_is_one_line() {
        let old = app(&json!([one("web", "a:1"), one("db", "b"), one("same", "c")]));
        let new = app(&json!([one("web", "a:2"), one("same", "c"), one("x", "d")]));
        let text = said(Some(&old), &new).unwrap();
        assert!(text.contains("1 to add (x), 1 to change (web), 1 to remove (db)"), "{text}");
        assert_eq!(said(Some(&old), &old), None);
        let many: Vec<Value> = (0..7).map(|n| one(&format!("c{n}"), "i")).collect();
        let text = said(None, &app(&json!(many))).unwrap();
        assert!(text.contains("7 to add (c0, c1, c2, c3, c4, ...)"), "{text}");
    }
}
