//! Stamps: the author of an object. The annotations can be written by anybody; the seal among them cannot.

use std::fmt;

use serde_json::json;
use vela_api::ApplicationSpec;
use vela_api::names::annotation;

use crate::{Domain, Keys, digest};

/// The author of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Stamp {
    /// His name; empty if names are not stamped.
    pub user: String,
    /// Those of his groups that are passed on; the administrators' group among them if he was an administrator.
    pub groups: Vec<String>,
    /// Why he is an administrator, if he was one.
    pub administrator: Option<Evidence>,
}

/// By which subject somebody is an administrator. A right can be taken away, so it is asked for again when it is used.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Evidence {
    /// As the user of this name, whatever his groups are.
    User(String),
    /// As a member of this group.
    Group(String),
}

impl Evidence {
    fn parse(text: &str) -> Option<Self> {
        match text.split_once(':')? {
            (_, "") => None,
            ("User", name) => Some(Self::User(name.to_owned())),
            ("Group", name) => Some(Self::Group(name.to_owned())),
            _ => None,
        }
    }
}

impl fmt::Display for Evidence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(f, "User:{name}"),
            Self::Group(name) => write!(f, "Group:{name}"),
        }
    }
}

/// What a stamp is on. Its uid is not part of it: an object that is restored from a backup has another one.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Kind of the object.
    pub kind: &'a str,
    /// Namespace of the object; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// A hash of everything in it that decides what is deployed.
    pub content: [u8; 32],
}

/// The content of an Application: what the controller reads of its spec, and the two annotations that decide what is deployed.
/// Fields that nobody reads are not part of it, whether the API server prunes them or not.
///
/// # Errors
/// The spec has no JSON form.
pub fn application(
    spec: &ApplicationSpec,
    publish_version: &str,
    auto_update: &str,
) -> Result<[u8; 32], serde_json::Error> {
    let spec = serde_json::to_value(spec)?;
    Ok(digest(&json!([spec, publish_version, auto_update])))
}

impl Stamp {
    /// What the annotations say, whoever wrote them. The function answers with an empty text for an annotation that is not
    /// there, here and below.
    #[must_use]
    pub fn read<'a>(annotation: impl Fn(&str) -> &'a str) -> Self {
        let groups = annotation(annotation::GROUP).split(',').map(str::trim);
        Self {
            user: annotation(annotation::USERNAME).to_owned(),
            groups: groups.filter(|group| !group.is_empty()).map(str::to_owned).collect(),
            administrator: Evidence::parse(annotation(annotation::ADMINISTRATOR)),
        }
    }

    /// What the annotations say, if we wrote them on this object.
    #[must_use]
    pub fn verified<'a>(
        annotation: impl Fn(&str) -> &'a str,
        keys: &Keys,
        subject: &Subject<'_>,
    ) -> Option<Self> {
        let texts = [annotation::USERNAME, annotation::GROUP, annotation::ADMINISTRATOR];
        let seal = annotation(annotation::STAMP);
        let is_ours = keys.verify(Domain::Stamp, &parts(&texts.map(&annotation), subject), seal);
        is_ours.then(|| Self::read(annotation))
    }

    /// The annotations of an object that this is the author of; `None` for one that must not be there.
    #[must_use]
    pub fn annotations(
        &self,
        keys: &Keys,
        subject: &Subject<'_>,
    ) -> [(&'static str, Option<String>); 4] {
        let user = self.user.clone();
        let groups = self.groups.join(",");
        let administrator =
            self.administrator.as_ref().map(ToString::to_string).unwrap_or_default();
        let seal = keys.sign(Domain::Stamp, &parts(&[&user, &groups, &administrator], subject));
        let written = |text: String| (!text.is_empty()).then_some(text);
        [
            (annotation::USERNAME, written(user)),
            // There even if it is empty, as in the reference.
            (annotation::GROUP, Some(groups)),
            (annotation::ADMINISTRATOR, written(administrator)),
            (annotation::STAMP, Some(seal)),
        ]
    }
}

fn parts<'a>(texts: &[&'a str; 3], subject: &'a Subject<'_>) -> [&'a [u8]; 7] {
    let [user, groups, administrator] = texts.map(str::as_bytes);
    let Subject { kind, namespace, name, content } = subject;
    let [kind, namespace, name] = [kind, namespace, name].map(|text| text.as_bytes());
    [kind, namespace, name, user, groups, administrator, content]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const WEB: Subject<'_> =
        Subject { kind: "Application", namespace: "team", name: "web", content: [7; 32] };

    fn keys() -> Keys {
        Keys::new(&[1; 32], None).unwrap()
    }

    fn alice() -> Stamp {
        Stamp {
            user: "alice".to_owned(),
            groups: vec!["kubevela:dev".to_owned(), "kubevela:ops".to_owned()],
            administrator: Some(Evidence::Group("platform: admins".to_owned())),
        }
    }

    fn written(stamp: &Stamp) -> BTreeMap<&'static str, String> {
        let annotations = stamp.annotations(&keys(), &WEB);
        annotations.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    fn verified(annotations: &BTreeMap<&'static str, String>, subject: &Subject<'_>) -> bool {
        let get = |key: &str| annotations.get(key).map_or("", String::as_str);
        Stamp::verified(get, &keys(), subject).is_some()
    }

    #[test]
    fn what_is_written_is_read() {
        let nameless = Stamp { user: String::new(), ..alice() };
        let user = Evidence::User("system:admin".to_owned());
        let admin = Stamp { administrator: Some(user), groups: Vec::new(), ..alice() };
        for stamp in [alice(), nameless, admin, Stamp::default()] {
            let annotations = written(&stamp);
            let get = |key: &str| annotations.get(key).map_or("", String::as_str);
            assert_eq!(Stamp::verified(get, &keys(), &WEB), Some(stamp));
        }
    }

    #[test]
    fn nothing_of_it_can_be_changed() {
        let original = written(&alice());
        assert!(verified(&original, &WEB));
        for (key, text) in [
            (annotation::USERNAME, "bob"),
            (annotation::USERNAME, ""),
            (annotation::GROUP, "kubevela:dev"),
            (annotation::GROUP, "kubevela:dev,kubevela:ops,system:masters"),
            (annotation::ADMINISTRATOR, "User:alice"),
            (annotation::ADMINISTRATOR, ""),
            (annotation::STAMP, ""),
            (annotation::STAMP, "v1"),
        ] {
            let mut forged = original.clone();
            forged.insert(key, text.to_owned());
            assert!(!verified(&forged, &WEB), "{key} {text}");
        }
        for subject in [
            Subject { kind: "Workflow", ..WEB },
            Subject { namespace: "other", ..WEB },
            Subject { name: "web2", ..WEB },
            Subject { content: [8; 32], ..WEB },
        ] {
            assert!(!verified(&original, &subject), "{subject:?}");
        }
    }

    #[test]
    fn evidence_that_names_nobody_is_none() {
        for text in ["", "User", "User:", "Group:", "alice", "Service:x"] {
            assert_eq!(Evidence::parse(text), None, "{text}");
        }
    }

    fn content(spec: &str, publish: &str, auto: &str) -> [u8; 32] {
        application(&serde_json::from_str(spec).unwrap(), publish, auto).unwrap()
    }

    const SPEC: &str = r#"{"components":[{"name":"a","type":"webservice","properties":{"port":80,"env":null}}],
        "workflow":{"steps":[{"name":"s","type":"deploy"}]}}"#;

    #[test]
    fn what_says_the_same_has_the_same_content() {
        for same in [
            SPEC.replace("80", "80.0"),
            SPEC.replace("80", "8e1"),
            SPEC.replace(r#""port":80,"env":null"#, r#""env":null, "port":80"#),
            // What no type of ours has: pruned by the API server, or kept by a definition of another version.
            SPEC.replace(r#""components""#, r#""sources":[],"components""#),
            SPEC.replace(r#""type":"deploy""#, r#""type":"deploy","forEach":{"in":"x"}"#),
        ] {
            assert_eq!(content(&same, "v1", ""), content(SPEC, "v1", ""), "{same}");
        }
    }

    #[test]
    fn what_decides_is_part_of_the_content() {
        let original = content(SPEC, "v1", "");
        for other in [
            content(SPEC, "v2", ""),
            content(SPEC, "", "v1"),
            content(SPEC, "v1", "true"),
            content(&SPEC.replace("80", "81"), "v1", ""),
            content(&SPEC.replace("80", "\"80\""), "v1", ""),
            content(&SPEC.replace(r#","env":null"#, ""), "v1", ""),
            content(&SPEC.replace("deploy", "suspend"), "v1", ""),
            content(&SPEC.replace(r#""name":"s""#, r#""name":"t""#), "v1", ""),
        ] {
            assert_ne!(other, original);
        }
    }
}
