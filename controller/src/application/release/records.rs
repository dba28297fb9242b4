//! The release records in the cluster: which one says what a component is, and what a new one looks like. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use vela_api::names;
use vela_apply::Owner;
use vela_apply::object::{annotation, label, name};
use vela_helm::release::{self, Record, RecordError, SECRET_TYPE, Status};

/// What a release was made of, as a hash. The Helm client drops annotations: what it made is never taken for ours.
const INPUTS: &str = "helm.oam.dev/inputs";
/// SHA-256 of the chart's archive.
const DIGEST: &str = "helm.oam.dev/chart-digest";
/// Bytes of a Secret's data that are safe to send: the API server takes 1 MiB.
const MOST: usize = 1_000_000;

/// A record as its Secret tells of it; what is in it is read when somebody needs it.
#[derive(Debug, Clone)]
pub struct Known {
    /// The Secret.
    pub secret: Value,
    /// From 1.
    pub revision: i64,
    /// The state.
    pub status: Status,
}

/// Records that forbid to go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// Another Application has the release.
    #[error("release {release} belongs to Application {owner}, component {component}")]
    Foreign {
        /// The release.
        release: String,
        /// Namespace and name.
        owner: String,
        /// Its component.
        component: String,
    },
    /// Somebody works on it.
    #[error("another operation on release {0} is in progress")]
    Busy(String),
}

/// What becomes of a release.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// The record at this position says what it is.
    Use(usize),
    /// A new record is made.
    New {
        /// Its revision.
        revision: i64,
        /// Something was deployed before.
        is_upgrade: bool,
    },
}

impl Known {
    /// The records among Secrets, the oldest first.
    #[must_use]
    pub fn all(list: &Value) -> Vec<Self> {
        let items = list.get("items").and_then(Value::as_array).into_iter().flatten();
        let mut all: Vec<Self> = items.filter_map(Self::of).collect();
        all.sort_by_key(|known| known.revision);
        all
    }

    fn of(secret: &Value) -> Option<Self> {
        let revision = name(secret).rsplit_once(".v")?.1.parse().ok()?;
        let mut secret = secret.clone();
        if let Value::Object(fields) = &mut secret {
            // Items of a list do not say what they are.
            fields.insert("apiVersion".to_owned(), "v1".into());
            fields.insert("kind".to_owned(), "Secret".into());
        }
        let status = Status::read(label(&secret, "status").unwrap_or_default());
        Some(Self { secret, revision, status })
    }

    /// What the record says.
    ///
    /// # Errors
    /// A Secret that holds no record.
    pub fn read(&self) -> Result<Record, RecordError> {
        Record::decode(&text(&self.secret, "release"))
    }

    /// What was generated for it, if it is ours.
    #[must_use]
    pub fn materials(&self) -> Option<String> {
        Some(text(&self.secret, "materials")).filter(|text| !text.is_empty())
    }

    fn is_of(&self, owner: &Owner, component: &str) -> bool {
        Owner::of(&self.secret).as_ref() == Some(owner)
            && label(&self.secret, names::label::APP_COMPONENT) == Some(component)
    }
}

fn encoded(text: &str) -> Value {
    BASE64.encode(text).into()
}

fn text(secret: &Value, key: &str) -> String {
    let field = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let bytes = BASE64.decode(field.unwrap_or_default());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

fn is_pending(status: Status) -> bool {
    matches!(
        status,
        Status::PendingInstall
            | Status::PendingUpgrade
            | Status::PendingRollback
            | Status::Uninstalling
    )
}

/// Decides what becomes of a release, given its records.
///
/// # Errors
/// It is somebody else's, or somebody works on it.
pub fn choose(
    known: &[Known],
    (owner, component): (&Owner, &str),
    inputs: &str,
    now: Timestamp,
    timeout: Duration,
) -> Result<Choice, Conflict> {
    let Some(newest) = known.last() else {
        return Ok(Choice::New { revision: 1, is_upgrade: false });
    };
    let release = || label(&newest.secret, "name").unwrap_or_default().to_owned();
    if !newest.is_of(owner, component)
        && let Some(other) = Owner::of(&newest.secret)
    {
        let of = label(&newest.secret, names::label::APP_COMPONENT).unwrap_or_default();
        let (release, component) = (release(), of.to_owned());
        return Err(Conflict::Foreign { release, owner: other.sharer(), component });
    }
    let is_ours = newest.is_of(owner, component);
    let is_same = is_ours && annotation(&newest.secret, INPUTS) == Some(inputs);
    let has_ended = matches!(newest.status, Status::Uninstalled | Status::Superseded);
    if is_same && !has_ended && newest.read().is_ok() {
        return Ok(Choice::Use(known.len().saturating_sub(1)));
    }
    if is_pending(newest.status) && !is_ours {
        let since = ["modifiedAt", "createdAt"].iter().find_map(|key| label(&newest.secret, key));
        let since = since.and_then(|seconds| seconds.parse::<i64>().ok()).unwrap_or_default();
        let age = now.as_second().saturating_sub(since);
        if age < i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX) {
            return Err(Conflict::Busy(release()));
        }
    }
    let revision = newest.revision.saturating_add(1);
    Ok(Choice::New { revision, is_upgrade: was_deployed(known, revision) })
}

impl Choice {
    /// The same for a release of which the present run of the workflow has recorded a revision: if somebody removed its
    /// record, the new one takes its place.
    #[must_use]
    pub fn not_before(self, recorded: Option<i64>) -> Self {
        match (self, recorded) {
            (Self::New { revision, is_upgrade }, Some(recorded)) => {
                Self::New { revision: revision.max(recorded), is_upgrade }
            }
            (other, _) => other,
        }
    }
}

/// Whether something was deployed before a revision.
#[must_use]
pub fn was_deployed(known: &[Known], revision: i64) -> bool {
    let deployed = |status| matches!(status, Status::Deployed | Status::Superseded);
    known.iter().any(|known| known.revision < revision && deployed(known.status))
}

/// What is written beside a record.
#[derive(Debug)]
pub struct Marks<'a> {
    /// Whose it is.
    pub owner: &'a Owner,
    /// The component.
    pub component: &'a str,
    /// The hash of everything that decided.
    pub inputs: &'a str,
    /// SHA-256 of the archive.
    pub digest: &'a str,
    /// What was generated.
    pub materials: &'a str,
}

/// The Secret of a new record. A record that is too large loses the texts of its chart: with what is left the Helm client
/// lists it and rolls back to it.
///
/// # Errors
/// None that input can cause.
pub fn secret(
    record: &mut Record,
    marks: &Marks<'_>,
    now: Timestamp,
) -> Result<Value, RecordError> {
    let mut packed = record.encode()?;
    if packed.len().saturating_add(marks.materials.len()) > MOST {
        record.drop_chart();
        packed = record.encode()?;
    }
    let mut data = serde_json::Map::from_iter([("release".to_owned(), encoded(&packed))]);
    if !marks.materials.is_empty() {
        data.insert("materials".to_owned(), encoded(marks.materials));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "type": SECRET_TYPE,
        "metadata": {
            "name": release::secret_name(record.name(), record.revision()),
            "namespace": record.namespace(),
            "labels": {
                "name": record.name(),
                "owner": "helm",
                "status": record.status().as_str(),
                "version": record.revision().to_string(),
                "createdAt": now.as_second().to_string(),
                (names::label::APP_NAME): marks.owner.name,
                (names::label::APP_NAMESPACE): marks.owner.namespace,
                (names::label::APP_COMPONENT): marks.component,
            },
            "annotations": {(INPUTS): marks.inputs, (DIGEST): marks.digest},
        },
        "data": data,
    }))
}

/// What brings a Secret to the present state of its record.
///
/// # Errors
/// None that input can cause.
pub fn change(record: &Record, now: Timestamp) -> Result<Value, RecordError> {
    let status = record.status().as_str();
    Ok(json!({
        "metadata": {"labels": {"status": status, "modifiedAt": now.as_second().to_string()}},
        "data": {"release": encoded(&record.encode()?)},
    }))
}

/// Which revisions are deleted so that no more than `most` are left; never one that is deployed, never the newest.
#[must_use]
pub fn outdated(known: &[Known], most: Option<usize>) -> Vec<&Known> {
    let Some(most) = most else { return Vec::new() };
    let over = known.len().saturating_sub(most.max(1));
    let older = known.split_last().map_or(&[][..], |(_, older)| older);
    older.iter().filter(|known| known.status != Status::Deployed).take(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner { namespace: "n".into(), name: name.into() }
    }

    fn known(revision: i64, status: &str, app: &str, inputs: &str) -> Value {
        let data = BASE64.encode(BASE64.encode(r#"{"name":"r","info":{"status":"x"}}"#));
        let mut secret = json!({
            "metadata": {"name": format!("sh.helm.release.v1.r.v{revision}"), "namespace": "n",
                "labels": {"name": "r", "owner": "helm", "status": status, "createdAt": "1000"},
                "annotations": {(INPUTS): inputs}},
            "data": {"release": data},
        });
        if !app.is_empty() {
            for (key, value) in [
                (names::label::APP_NAME, app),
                (names::label::APP_NAMESPACE, "n"),
                (names::label::APP_COMPONENT, "c"),
            ] {
                secret["metadata"]["labels"][key] = value.into();
            }
        }
        secret
    }

    fn chosen(secrets: &[Value], now: i64) -> Result<Choice, Conflict> {
        let all = Known::all(&json!({"items": secrets}));
        let now = Timestamp::from_second(now).unwrap();
        choose(&all, (&owner("a"), "c"), "i", now, Duration::from_secs(300))
    }

    #[test]
    fn what_becomes_of_a_release() {
        let new = |revision, is_upgrade| Ok(Choice::New { revision, is_upgrade });
        for (secrets, want) in [
            (vec![], new(1, false)),
            (vec![known(1, "deployed", "a", "i")], Ok(Choice::Use(0))),
            (vec![known(1, "pending-install", "a", "i")], Ok(Choice::Use(0))),
            (vec![known(1, "failed", "a", "i")], Ok(Choice::Use(0))),
            (
                vec![known(2, "deployed", "a", "i"), known(1, "superseded", "a", "j")],
                Ok(Choice::Use(1)),
            ),
            (vec![known(1, "deployed", "a", "other")], new(2, true)),
            (vec![known(3, "uninstalled", "a", "i")], new(4, false)),
            (vec![known(1, "failed", "", "")], new(2, false)),
            // What the Helm client made is taken over, and so is what it went back to.
            (vec![known(7, "deployed", "", "")], new(8, true)),
            (vec![known(7, "superseded", "a", "i"), known(8, "deployed", "a", "")], new(9, true)),
        ] {
            assert_eq!(chosen(&secrets, 2000), want);
        }
        let mut broken = known(4, "deployed", "a", "i");
        broken["data"]["release"] = "AAAA".into();
        assert_eq!(chosen(&[broken], 2000), new(5, true));
    }

    #[test]
    fn what_is_somebody_elses_stays() {
        let error = chosen(&[known(1, "deployed", "b", "i")], 2000).unwrap_err().to_string();
        assert_eq!(error, "release r belongs to Application n/b, component c");
        let busy = [known(1, "pending-upgrade", "", "")];
        assert_eq!(chosen(&busy, 1100), Err(Conflict::Busy("r".into())));
        assert!(chosen(&busy, 1300).is_ok());
    }

    #[test]
    fn a_record_that_was_removed_is_replaced() {
        let new = |revision| Choice::New { revision, is_upgrade: false };
        assert_eq!(new(1).not_before(Some(4)), new(4));
        assert_eq!(new(5).not_before(Some(4)), new(5));
        assert_eq!(new(1).not_before(None), new(1));
        assert_eq!(Choice::Use(0).not_before(Some(4)), Choice::Use(0));
    }

    #[test]
    fn history_is_bounded() {
        let secrets: Vec<Value> = (1..=5)
            .map(|it| known(it, if it == 2 { "deployed" } else { "superseded" }, "a", "i"))
            .collect();
        let all = Known::all(&json!({"items": secrets}));
        let gone = |most| outdated(&all, most).iter().map(|it| it.revision).collect::<Vec<_>>();
        assert_eq!(gone(Some(3)), [1, 3]);
        assert_eq!(gone(Some(1)), [1, 3, 4]);
        assert!(gone(None).is_empty() && gone(Some(5)).is_empty());
    }
}
