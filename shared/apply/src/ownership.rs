//! Who owns a live object, and what that allows.
//!
//! Answers for `pkg/utils/apply/{apply,share}.go` (MustBeControlledByApp, SharedByApp) and `pkg/resourcekeeper/options.go`.

use serde_json::Value;
use vela_api::names;

use crate::object::{annotation, kind, label, name, namespace, str_at};

/// An Application's identity.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Owner {
    /// Namespace of the Application.
    pub namespace: String,
    /// Name of the Application.
    pub name: String,
}

impl Owner {
    /// `<namespace>/<name>`, the form of the shared-by annotation.
    #[must_use]
    pub fn sharer(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    /// The owner recorded in an object's labels: both must be there and not empty.
    #[must_use]
    pub fn of(object: &Value) -> Option<Self> {
        let name = label(object, names::label::APP_NAME).filter(|value| !value.is_empty())?;
        let namespace = label(object, names::label::APP_NAMESPACE).filter(|v| !v.is_empty())?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned() })
    }

    /// Whether the object carries this Application's labels or names it among its sharers.
    #[must_use]
    pub fn holds(&self, object: &Value) -> bool {
        Self::of(object).as_ref() == Some(self) || sharers(object).any(|s| s == self.sharer())
    }
}

/// The sharers of an object, in order; the first is the next owner.
pub fn sharers(object: &Value) -> impl Iterator<Item = &str> {
    listed(annotation(object, names::annotation::SHARED_BY).unwrap_or_default())
}

/// The entries of the shared-by annotation.
pub fn listed(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|sharer| !sharer.is_empty())
}

/// `sharers` with one more at the end (unchanged if present).
#[must_use]
pub fn with_sharer(object: &Value, owner: &Owner) -> String {
    let mut list: Vec<String> = sharers(object).map(str::to_owned).collect();
    let me = owner.sharer();
    if !list.contains(&me) {
        list.push(me);
    }
    list.join(",")
}

/// `sharers` without one.
#[must_use]
pub fn without_sharer(object: &Value, owner: &Owner) -> String {
    let me = owner.sharer();
    sharers(object).filter(|sharer| *sharer != me).collect::<Vec<_>>().join(",")
}

/// What may be done to a live object that a manifest wants to become.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It is ours, or free to adopt.
    Write,
    /// It is another Application's and shared: only add ourselves to the sharers.
    Share,
    /// It must not be touched.
    Refused(Refusal),
}

/// Why an object must not be touched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The object exists and carries no owner.
    #[error("{kind} {object} exists and belongs to no Application: a take-over policy adopts it")]
    Unmanaged {
        /// Kind of the object.
        kind: String,
        /// `<namespace>/<name>`.
        object: String,
    },
    /// The object belongs to somebody else.
    #[error("{kind} {object} belongs to Application {owner}")]
    Foreign {
        /// Kind of the object.
        kind: String,
        /// `<namespace>/<name>`.
        object: String,
        /// `<namespace>/<name>` of the owner.
        owner: String,
    },
    /// We want to share, the owner does not.
    #[error("the object belongs to Application {owner}, which does not share it")]
    NotSharable {
        /// `<namespace>/<name>` of the owner.
        owner: String,
    },
}

/// What the Application's policies say about the object.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaimOptions {
    /// Covered by a shared-resource rule.
    pub shared: bool,
    /// Covered by a take-over rule, or the gate `LegacyResourceOwnerValidation` is on.
    pub adopt: bool,
}

/// Decides what `owner` may do to `live`.
#[must_use]
pub fn claim(live: &Value, owner: &Owner, options: ClaimOptions) -> Claim {
    let object = || format!("{}/{}", namespace(live), name(live));
    match Owner::of(live) {
        Some(current) if current == *owner => Claim::Write,
        Some(current) if options.shared => {
            if sharers(live).next().is_some() {
                Claim::Share
            } else {
                Claim::Refused(Refusal::NotSharable { owner: current.sharer() })
            }
        }
        Some(current) => Claim::Refused(Refusal::Foreign {
            kind: kind(live).to_owned(),
            object: object(),
            owner: current.sharer(),
        }),
        // Objects of aggregated APIs may have no resourceVersion; they cannot carry an owner.
        None if options.adopt || str_at(live, &["metadata", "resourceVersion"]).is_empty() => {
            Claim::Write
        }
        None => {
            Claim::Refused(Refusal::Unmanaged { kind: kind(live).to_owned(), object: object() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn live(owner: Option<(&str, &str)>, shared_by: Option<&str>) -> Value {
        let mut object = json!({"kind": "ConfigMap", "metadata": {"name": "x", "namespace": "n",
            "resourceVersion": "1", "labels": {}, "annotations": {}}});
        if let Some((namespace, name)) = owner {
            crate::object::set_label(&mut object, names::label::APP_NAME, name);
            crate::object::set_label(&mut object, names::label::APP_NAMESPACE, namespace);
        }
        if let Some(list) = shared_by {
            crate::object::set_annotation(&mut object, names::annotation::SHARED_BY, list);
        }
        object
    }

    fn me() -> Owner {
        Owner { namespace: "n".into(), name: "me".into() }
    }

    fn text(claim: Claim) -> String {
        match claim {
            Claim::Refused(refusal) => refusal.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn table() {
        let plain = ClaimOptions::default();
        let adopt = ClaimOptions { adopt: true, ..plain };
        let shared = ClaimOptions { shared: true, ..plain };
        let cases = [
            (live(Some(("n", "me")), None), plain, "Write"),
            (
                live(None, None),
                plain,
                "ConfigMap n/x exists and belongs to no Application: a take-over policy adopts it",
            ),
            (live(None, None), adopt, "Write"),
            (live(Some(("n", "you")), None), adopt, "ConfigMap n/x belongs to Application n/you"),
            (live(Some(("n", "you")), Some("n/you")), shared, "Share"),
            (
                live(Some(("n", "you")), None),
                shared,
                "the object belongs to Application n/you, which does not share it",
            ),
            (
                live(Some(("", "me")), None),
                plain,
                "ConfigMap n/x exists and belongs to no Application: a take-over policy adopts it",
            ),
        ];
        for (object, options, expected) in cases {
            assert_eq!(text(claim(&object, &me(), options)), expected, "{object}");
        }
        let mut aggregated = live(None, None);
        aggregated["metadata"]["resourceVersion"] = json!("");
        assert_eq!(claim(&aggregated, &me(), plain), Claim::Write);
    }

    #[test]
    fn sharer_lists() {
        let object = live(Some(("n", "you")), Some("n/you,n/me"));
        assert!(me().holds(&object));
        assert_eq!(with_sharer(&object, &me()), "n/you,n/me");
        assert_eq!(without_sharer(&object, &me()), "n/you");
        assert_eq!(with_sharer(&live(None, None), &me()), "n/me");
    }
}
