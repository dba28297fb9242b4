//! Label and field selectors of lists, in the spelling of queries.

use std::collections::BTreeMap;

use crate::messages;
use crate::status::Failure;

/// What a list is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    labels: Vec<Requirement>,
    /// `metadata.name`, and whether it must be that or not.
    names: Vec<(String, bool)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Operator {
    Exists,
    DoesNotExist,
    In(Vec<String>),
    /// Also where the label is not there.
    NotIn(Vec<String>),
}

impl Selection {
    /// Reads `labelSelector` and `fieldSelector` of a query.
    pub(crate) fn of_query(query: Option<&str>) -> Result<Self, Failure> {
        let mut selection = Self::default();
        for text in crate::path::values_of(query, "labelSelector") {
            selection.labels.extend(requirements(&text)?);
        }
        for text in crate::path::values_of(query, "fieldSelector") {
            for part in text.split(',').filter(|part| !part.is_empty()) {
                let bad = || Failure::bad_request(messages::bad_field(&text));
                let (key, value, is_it) = if let Some((key, value)) = part.split_once("!=") {
                    (key, value, false)
                } else {
                    let (key, value) = part.split_once('=').ok_or_else(bad)?;
                    (key, value.strip_prefix('=').unwrap_or(value), true)
                };
                if key != "metadata.name" {
                    return Err(bad());
                }
                selection.names.push((value.to_owned(), is_it));
            }
        }
        Ok(selection)
    }

    pub(crate) fn chooses(&self, name: &str, labels: &BTreeMap<String, String>) -> bool {
        self.names.iter().all(|(wanted, is_it)| (wanted == name) == *is_it)
            && self.labels.iter().all(|requirement| requirement.fits(labels))
    }
}

impl Requirement {
    fn fits(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.operator {
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
        }
    }
}

/// Requirements, separated by commas that are in no parentheses.
fn requirements(text: &str) -> Result<Vec<Requirement>, Failure> {
    let mut all = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    let ends = text.char_indices().filter_map(|(at, char)| {
        match char {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => return Some(at),
            _ => {}
        }
        None
    });
    let ends: Vec<usize> = ends.chain([text.len()]).collect();
    for end in ends {
        let part = text.get(start..end).unwrap_or_default().trim();
        start = end + 1;
        if !part.is_empty() {
            let bad = || Failure::bad_request(messages::bad_selector(part));
            all.push(requirement(part).filter(|one| is_key(&one.key)).ok_or_else(bad)?);
        }
    }
    Ok(all)
}

fn requirement(text: &str) -> Option<Requirement> {
    let made = |key: &str, operator| Some(Requirement { key: key.trim().to_owned(), operator });
    let one = |value: &str| {
        let value = value.trim();
        is_value(value).then(|| vec![value.to_owned()])
    };
    if let Some((key, value)) = text.split_once("!=") {
        return made(key, Operator::NotIn(one(value)?));
    }
    if let Some((key, value)) = text.split_once("==").or_else(|| text.split_once('=')) {
        return made(key, Operator::In(one(value)?));
    }
    if let Some(key) = text.strip_prefix('!') {
        return made(key, Operator::DoesNotExist);
    }
    let Some((before, list)) = text.split_once('(') else { return made(text, Operator::Exists) };
    let values = list.strip_suffix(')')?.split(',').map(|value| value.trim().to_owned());
    let values: Vec<String> = values.collect();
    if !values.iter().all(|value| is_value(value)) {
        return None;
    }
    let (key, word) = before.trim().split_once(char::is_whitespace)?;
    match word.trim() {
        "in" => made(key, Operator::In(values)),
        "notin" => made(key, Operator::NotIn(values)),
        _ => None,
    }
}

fn is_key(text: &str) -> bool {
    let part = |char: char| char.is_ascii_alphanumeric() || "-_./".contains(char);
    !text.is_empty() && text.chars().all(part)
}

fn is_value(text: &str) -> bool {
    text.len() <= 63
        && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_choose_as_those_of_kubernetes() {
        let labels: BTreeMap<String, String> =
            [("region", "eu"), ("cluster.core.oam.dev/control-plane", "false")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into();
        for (query, chosen) in [
            ("", true),
            ("labelSelector=", true),
            ("labelSelector=region%3Deu", true),
            ("labelSelector=region==eu", true),
            ("labelSelector=region%3Dus", false),
            ("labelSelector=region!=us", true),
            ("labelSelector=zone!=us", true),
            ("labelSelector=region", true),
            ("labelSelector=!region", false),
            ("labelSelector=!zone", true),
            ("labelSelector=region+in+(us,eu)", true),
            ("labelSelector=region%20in%20(us)", false),
            ("labelSelector=region+notin+(us),zone+notin+(a,b)", true),
            ("labelSelector=cluster.core.oam.dev/control-plane=false,region=eu", true),
            ("labelSelector=cluster.core.oam.dev/control-plane=true", false),
            ("fieldSelector=metadata.name=east", true),
            ("fieldSelector=metadata.name%3D%3Deast", true),
            ("fieldSelector=metadata.name!=east", false),
            ("fieldSelector=metadata.name=west", false),
            ("limit=500", true),
        ] {
            let selection = Selection::of_query(Some(query)).unwrap();
            assert_eq!(selection.chooses("east", &labels), chosen, "{query}");
        }
        assert!(Selection::of_query(None).unwrap().chooses("east", &labels));
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for query in [
            "labelSelector=a b",
            "labelSelector=a+in+x",
            "labelSelector=a+in+(x",
            "labelSelector=a+is+(x)",
            "labelSelector==x",
            "labelSelector=a=b=c",
            "labelSelector=(",
            "fieldSelector=spec.alias=x",
            "fieldSelector=metadata.name",
        ] {
            let refused = Selection::of_query(Some(query)).map_err(|failure| failure.code());
            assert_eq!(refused, Err(400), "{query}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_selector_ends_the_process(text in "[a-z!=,() .%/&0-9é]{0,40}") {
            if let Ok(selection) = Selection::of_query(Some(&format!("labelSelector={text}"))) {
                let _ = selection.chooses("east", &BTreeMap::new());
            }
            let _ = Selection::of_query(Some(&format!("fieldSelector={text}")));
        }
    }
}
