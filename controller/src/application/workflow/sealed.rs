//! The seals of a context ConfigMap: they show which entries the controller wrote. Many may write ConfigMaps who may not
//! approve a step, nor say what the next one is given.
//!
//! Each entry has a seal of its own, and so has each variable: clients take single ones out (`vela workflow restart --step`).
//! The seals are an entry themselves. What is not sealed counts as absent; what is absent is as harmless as a ConfigMap that
//! somebody deleted. An earlier entry of the same run cannot be distinguished from the present one.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use vela_seal::{Domain, Keys};

/// The entry that holds the seals.
const SEALS: &str = "seals";
/// The entry that holds the variables.
const VARIABLES: &str = "vars";

/// Whose context it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct ContextOwner<'a> {
    /// Namespace of the Application.
    pub(super) namespace: &'a str,
    /// Its name.
    pub(super) app: &'a str,
    /// Its uid.
    pub(super) uid: &'a str,
    /// The run, as the status names it. Identities of steps are of one run anyway; names of variables are not.
    pub(super) run: &'a str,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Seals {
    entries: BTreeMap<String, String>,
    variables: BTreeMap<String, String>,
}

impl ContextOwner<'_> {
    fn entry<T>(&self, key: &str, text: &str, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let Self { namespace, app, uid, .. } = self;
        // Every part is signed with what it belongs to, so that it cannot be moved to another
        // Application, entry or run.
        with(&[namespace, app, uid, "entry", key, text].map(str::as_bytes))
    }

    fn variable<T>(&self, name: &str, value: &Value, with: impl FnOnce(&[&[u8]]) -> T) -> T {
        let Self { namespace, app, uid, run } = self;
        let [namespace, app, uid, kind, run, name] =
            [namespace, app, uid, "variable", run, name].map(str::as_bytes);
        with(&[namespace, app, uid, kind, run, name, &vela_seal::digest(value)])
    }
}

/// Adds the seals to what is written.
pub(super) fn seal(
    data: &mut BTreeMap<String, String>,
    variables: &Map<String, Value>,
    owner: &ContextOwner<'_>,
    keys: &Keys,
) {
    let sign = |parts: &[&[u8]]| keys.sign(Domain::WorkflowContext, parts);
    let entry = |(key, text): (&String, &String)| (key.clone(), owner.entry(key, text, sign));
    let variable =
        |(name, value): (&String, &Value)| (name.clone(), owner.variable(name, value, sign));
    let seals = Seals {
        entries: data.iter().map(entry).collect(),
        variables: variables.iter().map(variable).collect(),
    };
    if let Ok(text) = serde_json::to_string(&seals) {
        data.insert(SEALS.to_owned(), text);
    }
}

/// What was read, and which of it is believed.
#[derive(Debug)]
pub(super) struct Read<'a> {
    owner: ContextOwner<'a>,
    /// Without keys nothing can be reported.
    keys: Option<&'a Keys>,
    /// What has no seal is not believed either.
    strict: bool,
    seals: Seals,
    /// The text of the variables is not as we wrote it: some of them may be.
    pub(super) variables_changed: bool,
    /// The entries that are believed; the variables are among them.
    pub(super) data: BTreeMap<String, String>,
    /// Keys of the others.
    pub(super) refused: Vec<String>,
}

/// Reads the data of a ConfigMap. `strict`: what has no seal at all is not believed either.
pub(super) fn read<'a>(
    mut data: BTreeMap<String, String>,
    owner: ContextOwner<'a>,
    keys: Option<&'a Keys>,
    strict: bool,
) -> Read<'a> {
    let seals = data.remove(SEALS).and_then(|text| serde_json::from_str(&text).ok());
    let mut read = Read {
        owner,
        keys,
        strict,
        seals: seals.unwrap_or_default(),
        variables_changed: false,
        data: BTreeMap::new(),
        refused: Vec::new(),
    };
    for (key, text) in data {
        let is_ours =
            read.is_ours(read.seals.entries.get(&key), |verify| owner.entry(&key, &text, verify));
        // Variables are read even so: those with a seal of their own count.
        if key == VARIABLES {
            read.variables_changed = !is_ours;
        }
        if is_ours || key == VARIABLES {
            read.data.insert(key, text);
        } else {
            read.refused.push(key);
        }
    }
    read
}

impl Read<'_> {
    /// Takes out the variables that are not believed.
    pub(super) fn check(&mut self, variables: &mut Map<String, Value>) {
        if !self.variables_changed {
            return;
        }
        let (owner, mut refused) = (self.owner, Vec::new());
        variables.retain(|name, value| {
            let seal = self.seals.variables.get(name);
            let is_ours = self.is_ours(seal, |verify| owner.variable(name, value, verify));
            if !is_ours {
                refused.push(format!("{VARIABLES}.{name}"));
            }
            is_ours
        });
        self.refused.append(&mut refused);
    }

    fn is_ours(
        &self,
        seal: Option<&String>,
        verified: impl FnOnce(&dyn Fn(&[&[u8]]) -> bool) -> bool,
    ) -> bool {
        // Without keys nothing can be distinguished.
        match (self.keys, seal) {
            (None, _) => true,
            // From before seals were written. With authentication on it is not believed.
            (Some(_), None) => !self.strict,
            (Some(keys), Some(seal)) => {
                verified(&|parts| keys.verify(Domain::WorkflowContext, parts, seal))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWNER: ContextOwner<'_> =
        ContextOwner { namespace: "team", app: "web", uid: "u1", run: "web-v1" };

    fn keys() -> Keys {
        Keys::new(&[1; 32], None).unwrap()
    }

    fn variables() -> Map<String, Value> {
        json!({"image": "nginx", "port": 80}).as_object().cloned().unwrap()
    }

    fn sealed() -> BTreeMap<String, String> {
        let mut data = BTreeMap::from(
            [("vars", "image: \"nginx\"\nport: 80\n"), ("abc.outcome", "done"), ("x.note", "1")]
                .map(|(key, text)| (key.to_owned(), text.to_owned())),
        );
        seal(&mut data, &variables(), &OWNER, &keys());
        data
    }

    /// The keys and the variables that are believed after somebody changed something.
    fn believed(
        change: impl FnOnce(&mut BTreeMap<String, String>, &mut Map<String, Value>),
        owner: ContextOwner<'_>,
        strict: bool,
    ) -> Vec<String> {
        let (mut data, mut values, keys) = (sealed(), variables(), keys());
        change(&mut data, &mut values);
        let mut read = read(data, owner, Some(&keys), strict);
        read.check(&mut values);
        let entries = read.data.into_keys().filter(|key| key != VARIABLES);
        entries.chain(values.into_iter().map(|(name, value)| format!("{name}={value}"))).collect()
    }

    #[test]
    fn what_we_wrote_is_believed_and_nothing_else() {
        let all = ["abc.outcome", "x.note", "image=\"nginx\"", "port=80"];
        for strict in [true, false] {
            assert_eq!(believed(|_, _| (), OWNER, strict), all);
            let changed = believed(
                |data, _| {
                    data.insert("abc.outcome".into(), "other".into());
                },
                OWNER,
                strict,
            );
            assert_eq!(changed, ["x.note", "image=\"nginx\"", "port=80"]);
            // Clients take out what a step is to do again.
            let less = believed(
                |data, values| {
                    data.remove("x.note");
                    data.insert("vars".into(), "port: 80".into());
                    values.remove("image");
                },
                OWNER,
                strict,
            );
            assert_eq!(less, ["abc.outcome", "port=80"]);
            let other = believed(
                |data, values| {
                    data.insert("vars".into(), "image: \"evil\"\nport: 80".into());
                    values.insert("image".into(), json!("evil"));
                },
                OWNER,
                strict,
            );
            assert_eq!(other, ["abc.outcome", "x.note", "port=80"]);
        }
    }

    #[test]
    fn what_was_added_or_has_lost_its_seal_is_believed_only_where_nobody_is_authenticated() {
        let added = |strict| {
            let add = |data: &mut BTreeMap<_, _>, _: &mut Map<String, Value>| {
                data.insert("new.outcome".to_owned(), "done".to_owned());
            };
            believed(add, OWNER, strict).contains(&"new.outcome".to_owned())
        };
        assert!(!added(true) && added(false));
        let bare = |strict| {
            let strip = |data: &mut BTreeMap<String, String>, _: &mut Map<String, Value>| {
                data.remove(SEALS);
            };
            believed(strip, OWNER, strict).len()
        };
        assert_eq!((bare(true), bare(false)), (0, 4));
    }

    #[test]
    fn a_seal_is_of_its_application_and_variables_are_of_their_run() {
        let others = [
            ContextOwner { namespace: "other", ..OWNER },
            ContextOwner { app: "other", ..OWNER },
            ContextOwner { uid: "u2", ..OWNER },
        ];
        for owner in others {
            let change = |data: &mut BTreeMap<String, String>, _: &mut Map<String, Value>| {
                data.insert("vars".into(), String::new());
            };
            assert_eq!(believed(change, owner, true), Vec::<String>::new(), "{owner:?}");
        }
        let change = |data: &mut BTreeMap<String, String>, _: &mut Map<String, Value>| {
            data.insert("vars".into(), "port: 80".into());
        };
        let next = ContextOwner { run: "web-v2", ..OWNER };
        assert_eq!(believed(change, next, true), ["abc.outcome", "x.note"]);
    }

    #[test]
    fn a_key_before_the_present_one_still_counts_and_without_keys_all_does() {
        let rotated = Keys::new(&[2; 32], Some(&[1; 32])).unwrap();
        assert!(read(sealed(), OWNER, Some(&rotated), true).refused.is_empty());
        let other = Keys::new(&[2; 32], None).unwrap();
        assert_eq!(read(sealed(), OWNER, Some(&other), true).refused, ["abc.outcome", "x.note"]);
        assert!(read(sealed(), OWNER, None, true).refused.is_empty());
    }
}
