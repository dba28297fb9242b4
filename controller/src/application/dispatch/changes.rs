//! A repair in words: changed paths, each with the live and the wanted value. Pure.
//!
//! Values of Secrets are never named, and neither are items of lists, which a patch does not identify: those are paths alone.

use serde_json::Value;
use vela_apply::object::kind;
use vela_apply::plan::Write;

use crate::messages;

/// Paths that are named; what else differs is counted.
const MAX_NAMED: usize = 5;
/// Characters of a value.
const LONG_VALUE: usize = 40;
/// Characters of a path: who writes an object chooses the keys of its maps.
const LONG_PATH: usize = 128;

/// What differs between a live object and the one that was dispatched.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    /// Path, live value, wanted value; of the values nothing where they are not to be named.
    fields: Vec<(String, Option<(String, String)>)>,
    /// Fields that are not named.
    more: usize,
}

impl Changes {
    /// What a write would change in a live object. Nothing for one that makes the object as a whole.
    #[must_use]
    pub fn of(write: &Write, live: Option<&Value>) -> Self {
        let (Write::Patch { body, .. }, Some(live)) = (write, live) else { return Self::default() };
        let mut changes = Self::default();
        changes.collect(body, Some(live), "", kind(live) != "Secret");
        // Sorted and cut at the end: the same drift reads the same each time.
        changes.fields.sort();
        changes.more = changes.fields.len().saturating_sub(MAX_NAMED);
        changes.fields.truncate(MAX_NAMED);
        changes
    }

    fn collect(&mut self, wanted: &Value, live: Option<&Value>, path: &str, names_values: bool) {
        if let Value::Object(map) = wanted
            && !map.is_empty()
        {
            // Directives of strategic patches order what other keys change.
            for (key, wanted) in map.iter().filter(|(key, _)| !key.starts_with('$')) {
                if is_mark(path, key) {
                    continue;
                }
                let live = live.and_then(|live| live.get(key));
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                self.collect(wanted, live, &path, names_values);
            }
            return;
        }
        let is_plain = |value: &Value| !value.is_array() && !value.is_object();
        let values = (names_values && is_plain(wanted) && live.is_none_or(is_plain))
            .then(|| (named(live.unwrap_or(&Value::Null)), named(wanted)));
        // Cut by characters: a key may be any text.
        self.fields.push((path.chars().take(LONG_PATH).collect(), values));
    }

    /// The paths alone, separated by commas.
    #[must_use]
    pub fn paths(&self) -> String {
        self.joined(|path, _| path.to_owned())
    }

    /// The paths, with their values before and after they are put back.
    #[must_use]
    pub fn put_back(&self) -> String {
        self.joined(|path, values| match values {
            Some((live, wanted)) => format!("{path} {live} -> {wanted}"),
            None => path.to_owned(),
        })
    }

    /// The paths, with the values they have and those that are wanted.
    #[must_use]
    pub fn left(&self) -> String {
        self.joined(|path, values| match values {
            Some((live, wanted)) => format!("{path} {live}, wanted {wanted}"),
            None => path.to_owned(),
        })
    }

    fn joined(&self, word: impl Fn(&str, Option<&(String, String)>) -> String) -> String {
        let words: Vec<String> =
            self.fields.iter().map(|(path, values)| word(path, values.as_ref())).collect();
        messages::and_more(&words.join(", "), self.more)
    }
}

/// Whether a key of a map is a mark of ours, or the version that guards a write.
pub(in crate::application) fn is_mark(path: &str, key: &str) -> bool {
    match path {
        "metadata" => key == "resourceVersion",
        "metadata.annotations" | "metadata.labels" => {
            key.split('/').next().is_some_and(|domain| domain.ends_with("oam.dev"))
        }
        _ => false,
    }
}

/// A value in a sentence: bounded, on one line.
fn named(value: &Value) -> String {
    let text = match value {
        Value::Null => return "(none)".to_owned(),
        Value::String(text) => text.split_whitespace().collect::<Vec<_>>().join(" "),
        value => value.to_string(),
    };
    let mut text = if text.is_empty() { "\"\"".to_owned() } else { text };
    if let Some((end, _)) = text.char_indices().nth(LONG_VALUE) {
        text.truncate(end);
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use vela_apply::plan::PatchKind;

    use super::*;

    fn of(body: Value, live: &Value) -> Changes {
        Changes::of(&Write::Patch { kind: PatchKind::Merge, body }, Some(live))
    }

    #[test]
    fn paths_have_their_values_before_and_after() {
        let live = json!({"kind": "Deployment", "spec": {"replicas": 5, "paused": true,
            "template": {"spec": {"containers": [{"image": "b"}]}}},
            "metadata": {"labels": {"team": "x y\nz", "app.oam.dev/name": "b"}}});
        let changes = of(
            json!({"spec": {"replicas": 3, "paused": null, "$setElementOrder/containers": [],
                "template": {"spec": {"containers": [{"image": "a"}]}}},
                "metadata": {"resourceVersion": "1", "labels": {"team": "", "app.oam.dev/name": "a"}}}),
            &live,
        );
        assert_eq!(
            changes.put_back(),
            "metadata.labels.team x y z -> \"\", spec.paused true -> (none), spec.replicas 5 -> 3, \
             spec.template.spec.containers"
        );
        assert_eq!(
            changes.left(),
            "metadata.labels.team x y z, wanted \"\", spec.paused true, wanted (none), \
             spec.replicas 5, wanted 3, spec.template.spec.containers"
        );
        assert_eq!(
            changes.paths(),
            "metadata.labels.team, spec.paused, spec.replicas, spec.template.spec.containers"
        );
    }

    #[test]
    fn the_documentation_has_the_words_of_the_events() {
        let docs = include_str!("../../../../docs/workflow.md");
        let changes =
            of(json!({"data": {"v": "1"}}), &json!({"kind": "ConfigMap", "data": {"v": "theirs"}}));
        let repaired = messages::drift_repaired("ConfigMap x", "other", &changes.put_back());
        let left = messages::drift_left("ConfigMap x", "other", false, &changes.left());
        for line in [repaired, left] {
            assert!(docs.contains(&line), "{line}");
        }
    }

    #[test]
    fn values_of_secrets_are_not_named() {
        let live = json!({"kind": "Secret", "data": {"password": "aHVudGVyMg=="}, "type": "x"});
        let changes = of(json!({"data": {"password": "c2VjcmV0"}, "type": "y"}), &live);
        for text in [changes.put_back(), changes.left(), changes.paths()] {
            assert_eq!(text, "data.password, type");
        }
    }

    #[test]
    fn what_is_long_is_cut_and_what_is_much_is_counted() {
        let data: serde_json::Map<String, Value> =
            (0..9).map(|n| (format!("k{n}"), json!("ä".repeat(100)))).collect();
        let changes = of(json!({"data": data}), &json!({"kind": "ConfigMap"}));
        let text = changes.put_back();
        assert!(text.ends_with("; and 4 more"), "{text}");
        let cut = format!("data.k0 (none) -> {}…, ", "ä".repeat(LONG_VALUE));
        assert!(text.starts_with(&cut), "{text}");
        let key = "k".repeat(500);
        let changes = of(json!({"data": {key: 1}}), &json!({"kind": "ConfigMap"}));
        assert_eq!(changes.paths().len(), LONG_PATH);
        // An object that is made as a whole has no fields.
        let made = Changes::of(&Write::Create(json!({"data": {}})), None);
        assert_eq!((made.paths(), made), (String::new(), Changes::default()));
    }
}
