//! The release records in the cluster: choosing the current one, and building a new one. Pure.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use vela_api::names;
use vela_api::names::annotation as marks;
use vela_apply::Owner;
use vela_apply::object::{annotation, label, name};
use vela_helm::release::{self, Record, RecordError, SECRET_TYPE, Status};

/// Bytes of a Secret's data that are safe to send: the API server takes 1 MiB.
const MAX_BYTES: usize = 1_000_000;
/// Characters of a failure that are kept beside the record that follows it.
const MAX_FAILURE: usize = 2_000;

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
    /// An earlier record is repeated under a new revision.
    Back {
        /// The position of the earlier one.
        to: usize,
        /// The new revision.
        revision: i64,
        /// Why the newest one failed; `None`: it is somebody else's.
        failure: Option<String>,
    },
    /// It failed in this run, and there is nothing to go back to.
    GivenUp(String),
}

/// What is asked of the records of a release.
#[derive(Debug)]
pub struct Asked<'a> {
    /// Whose release it is.
    pub owner: &'a Owner,
    /// Of which component.
    pub component: &'a str,
    /// Whether the component of the newest record is still there.
    pub is_in_use: bool,
    /// The hash of everything that decides.
    pub inputs: &'a str,
    /// The time.
    pub now: Timestamp,
    /// How long an operation may take.
    pub timeout: Duration,
    /// Whether what fails is rolled back.
    pub atomic: bool,
    /// Whether what fails is not tried again in the same run of the workflow.
    pub is_final: bool,
    /// When the present run of the workflow began, if it did.
    pub began: Option<Timestamp>,
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
        // The revision stands in the name: labels can be edited.
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

    /// The hash of everything that decided, if it is ours.
    #[must_use]
    pub fn inputs(&self) -> Option<&str> {
        annotation(&self.secret, marks::RELEASE_INPUTS)
    }

    /// Whether it is ours and was made with such a hash, also if the Helm client wrote it since.
    fn is_made_with(&self, inputs: &str) -> bool {
        self.inputs().map_or_else(
            || {
                label(&self.secret, names::label::RELEASE_ORIGIN)
                    == Some(&*origin(self.revision, inputs))
            },
            |own| own == inputs,
        )
    }

    /// Whether we made it.
    fn is_original(&self) -> bool {
        let origin = label(&self.secret, names::label::RELEASE_ORIGIN).unwrap_or_default();
        let revision = origin.split('-').next().and_then(|revision| revision.parse().ok());
        self.inputs().is_some() || revision == Some(self.revision)
    }

    /// SHA-256 of its archive, if it is ours.
    #[must_use]
    pub fn digest(&self) -> Option<&str> {
        annotation(&self.secret, marks::RELEASE_CHART_DIGEST)
    }

    /// The revision that it repeats.
    #[must_use]
    pub fn rolled_back_to(&self) -> Option<i64> {
        annotation(&self.secret, marks::RELEASE_ROLLED_BACK_TO)?.parse().ok()
    }

    /// Why the revision before it failed, if that is why it repeats an earlier one.
    #[must_use]
    pub fn failure(&self) -> Option<&str> {
        annotation(&self.secret, marks::RELEASE_FAILURE)
    }

    /// How long one of its hooks may take.
    #[must_use]
    pub fn timeout(&self) -> Option<Duration> {
        let seconds = annotation(&self.secret, marks::RELEASE_TIMEOUT)?.parse().ok()?;
        Some(Duration::from_secs(seconds))
    }

    /// When it was written last.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        // Whole seconds, as Helm writes them.
        let written = ["modifiedAt", "createdAt"].iter().find_map(|key| label(&self.secret, key));
        let seconds = written.and_then(|seconds| seconds.parse().ok()).unwrap_or_default();
        Timestamp::from_second(seconds).unwrap_or_default()
    }

    /// Whether it is the record of a component.
    #[must_use]
    pub fn is_of(&self, owner: &Owner, component: &str) -> bool {
        Owner::of(&self.secret).as_ref() == Some(owner) && self.component() == component
    }

    /// The component that it belongs to; empty if it is not ours.
    #[must_use]
    pub fn component(&self) -> &str {
        label(&self.secret, names::label::APP_COMPONENT).unwrap_or_default()
    }
}

/// The value of the label by which a record of ours is known: a label holds less than a hash.
fn origin(revision: i64, inputs: &str) -> String {
    format!("{revision}-{}", inputs.chars().take(32).collect::<String>())
}

fn encoded(text: &str) -> Value {
    BASE64.encode(text).into()
}

fn text(secret: &Value, key: &str) -> String {
    let field = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
    let bytes = BASE64.decode(field.unwrap_or_default());
    String::from_utf8(bytes.unwrap_or_default()).unwrap_or_default()
}

/// Whether somebody works on it.
#[must_use]
pub fn is_pending(status: Status) -> bool {
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
pub fn choose(known: &[Known], asked: &Asked<'_>) -> Result<Choice, Conflict> {
    let Some(newest) = known.last() else {
        return Ok(Choice::New { revision: 1, is_upgrade: false });
    };
    let release = || label(&newest.secret, "name").unwrap_or_default().to_owned();
    let is_ours = newest.is_of(asked.owner, asked.component);
    if let Some(other) = Owner::of(&newest.secret).filter(|_| !is_ours) {
        // A component that was renamed takes its release along.
        let is_left = other == *asked.owner && !asked.is_in_use;
        if !is_left {
            let (release, component) = (release(), newest.component().to_owned());
            return Err(Conflict::Foreign { release, owner: other.sharer(), component });
        }
    }
    let revision = newest.revision.saturating_add(1);
    let new = Choice::New { revision, is_upgrade: was_deployed(known, revision) };
    // Nothing that decides has changed.
    let is_same = is_ours && newest.inputs() == Some(asked.inputs);
    let has_ended =
        matches!(newest.status, Status::Uninstalled | Status::Superseded | Status::Uninstalling);
    // A record that cannot be read says nothing, so a new revision takes its place.
    if is_same && !has_ended && newest.read().is_ok() {
        let is_older = asked.began.is_some_and(|began| newest.since() < began);
        let failed = newest.status == Status::Failed && newest.failure().is_none();
        // It went back after a failure, in an earlier run: this run tries the revision again.
        if newest.failure().is_some() && is_older {
            return Ok(new);
        }
        if !failed || !(asked.atomic || asked.is_final) {
            return Ok(Choice::Use(known.len().saturating_sub(1)));
        }
        if is_older {
            return Ok(new);
        }
        let failure = newest.read().map(|record| record.description().to_owned());
        let failure = failure.unwrap_or_default();
        // Atomic: the last revision that was deployed is repeated.
        return Ok(match last_deployed(known).filter(|_| asked.atomic) {
            Some(to) => Choice::Back { to, revision, failure: Some(failure) },
            None => Choice::GivenUp(failure),
        });
    }
    // Another client is at work. After its time it has died, and somebody has to go on.
    if is_pending(newest.status) && !is_ours {
        let age = asked.now.duration_since(newest.since()).unsigned_abs();
        if age < asked.timeout {
            return Err(Conflict::Busy(release()));
        }
    }
    // What the Helm client put over a revision that is meant still: that one is repeated, nothing is fetched.
    if newest.inputs().is_none()
        && newest.status == Status::Deployed
        && !newest.is_original()
        && let Some(to) = known.iter().rposition(Known::is_original)
        && let Some(before) = known.get(to)
        && before.is_of(asked.owner, asked.component)
        && before.is_made_with(asked.inputs)
        && before.failure().is_none()
        && before.status == Status::Superseded
        && before.read().is_ok()
    {
        return Ok(Choice::Back { to, revision, failure: None });
    }
    Ok(new)
}

/// The position of the newest record that is deployed and can be read.
fn last_deployed(known: &[Known]) -> Option<usize> {
    known.iter().rposition(|it| it.status == Status::Deployed && it.read().is_ok())
}

impl Choice {
    /// The same for a release of which the present run of the workflow has recorded a revision: if somebody removed its
    /// record, the new one takes its place.
    #[must_use]
    pub fn not_before(self, recorded: Option<i64>) -> Self {
        match (self, recorded) {
            // Never below what this run has recorded: trackers and records would disagree.
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
    let deployed =
        |status| matches!(status, Status::Deployed | Status::Superseded | Status::Uninstalling);
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
    /// How long a hook may take.
    pub timeout: Duration,
    /// The revision that it repeats, and why the one in between failed.
    pub back: Option<(i64, Option<&'a str>)>,
}

/// The Secret of a new record. A record that is too large loses the texts of its chart: with what is left the Helm client
/// lists it and rolls back to it.
///
/// # Errors
/// None that input can cause.
pub fn secret(record: &mut Record, of: &Marks<'_>, now: Timestamp) -> Result<Value, RecordError> {
    let mut packed = record.encode()?;
    // The chart's own files are most of a record, and are in its repository.
    if packed.len().saturating_add(of.materials.len()) > MAX_BYTES {
        record.drop_chart();
        packed = record.encode()?;
    }
    let mut data = Map::from_iter([("release".to_owned(), encoded(&packed))]);
    if !of.materials.is_empty() {
        data.insert("materials".to_owned(), encoded(of.materials));
    }
    let mut annotations = Map::new();
    let mut note = |key: &str, value: &str| annotations.insert(key.to_owned(), value.into());
    note(marks::RELEASE_INPUTS, of.inputs);
    note(marks::RELEASE_CHART_DIGEST, of.digest);
    note(marks::RELEASE_TIMEOUT, &of.timeout.as_secs().to_string());
    if let Some((to, failure)) = of.back {
        note(marks::RELEASE_ROLLED_BACK_TO, &to.to_string());
        if let Some(failure) = failure {
            note(marks::RELEASE_FAILURE, &failure.chars().take(MAX_FAILURE).collect::<String>());
        }
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
                (names::label::APP_NAME): of.owner.name,
                (names::label::APP_NAMESPACE): of.owner.namespace,
                (names::label::APP_COMPONENT): of.component,
                (names::label::RELEASE_ORIGIN): origin(record.revision(), of.inputs),
            },
            "annotations": annotations,
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
        // Only what changes: the Secret may carry labels of others.
        "data": {"release": encoded(&record.encode()?)},
    }))
}

/// Which revisions are deleted so that no more than `most` are left with the newest, which need not be among the known
/// ones yet; never one that is deployed.
#[must_use]
pub fn outdated(known: &[Known], newest: i64, most: Option<usize>) -> Vec<&Known> {
    let Some(most) = most else { return Vec::new() };
    let older = known.iter().filter(|known| known.revision < newest);
    // The newest counts although it may not be stored yet.
    let over = (older.clone().count() + 1).saturating_sub(most.max(1));
    older.filter(|known| known.status != Status::Deployed).take(over).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(name: &str) -> Owner {
        Owner { namespace: "n".into(), name: name.into() }
    }

    fn known(revision: i64, status: &str, app: &str, inputs: &str) -> Value {
        let data = BASE64.encode(
            BASE64.encode(r#"{"name":"r","info":{"status":"x","description":"it broke"}}"#),
        );
        let annotations =
            if inputs.is_empty() { json!({}) } else { json!({(marks::RELEASE_INPUTS): inputs}) };
        let mut secret = json!({
            "metadata": {"name": format!("sh.helm.release.v1.r.v{revision}"), "namespace": "n",
                "labels": {"name": "r", "owner": "helm", "status": status, "createdAt": "1000"},
                "annotations": annotations},
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

    fn asked(owner: &Owner, now: i64) -> Asked<'_> {
        Asked {
            owner,
            component: "c",
            is_in_use: false,
            inputs: "i",
            now: Timestamp::from_second(now).unwrap(),
            timeout: Duration::from_secs(300),
            atomic: false,
            is_final: false,
            began: None,
        }
    }

    fn chosen(secrets: &[Value], now: i64) -> Result<Choice, Conflict> {
        let all = Known::all(&json!({"items": secrets}));
        choose(&all, &asked(&owner("a"), now))
    }

    /// The same with `options.atomic`, in a run that began at a second.
    fn atomically(secrets: &[Value], began: i64) -> Choice {
        let all = Known::all(&json!({"items": secrets}));
        let began = Some(Timestamp::from_second(began).unwrap());
        let owner = owner("a");
        let asked = Asked { atomic: true, began, ..asked(&owner, 2000) };
        choose(&all, &asked).unwrap()
    }

    #[test]
    fn what_fails_atomically_goes_back_once_in_each_run() {
        let before = known(1, "deployed", "a", "j");
        let failed = known(2, "failed", "a", "i");
        let both = [before.clone(), failed.clone()];
        let back = Choice::Back { to: 0, revision: 3, failure: Some("it broke".into()) };
        assert_eq!(atomically(&both, 900), back);
        let new = Choice::New { revision: 3, is_upgrade: true };
        assert_eq!(atomically(&both, 1100), new, "another run tries again");
        assert_eq!(chosen(&both, 2000), Ok(Choice::Use(1)), "without atomic it is tried again");
        let alone = std::slice::from_ref(&failed);
        assert_eq!(atomically(alone, 900), Choice::GivenUp("it broke".into()));
        let mut rolled_back = known(3, "deployed", "a", "i");
        rolled_back["metadata"]["annotations"][marks::RELEASE_FAILURE] = "it broke".into();
        let all = [known(1, "superseded", "a", "j"), failed, rolled_back];
        assert_eq!(atomically(&all, 900), Choice::Use(2));
        assert_eq!(atomically(&all, 1100), Choice::New { revision: 4, is_upgrade: true });
    }

    #[test]
    fn what_the_client_put_over_ours_is_undone_without_a_rendering() {
        let ours = |status| known(7, status, "a", "i");
        let back = Ok(Choice::Back { to: 0, revision: 9, failure: None });
        assert_eq!(chosen(&[ours("superseded"), known(8, "deployed", "a", "")], 2000), back);
        assert_eq!(chosen(&[ours("superseded"), known(8, "deployed", "", "")], 2000), back);
        // The client drops annotations of what it writes, and copies labels to what it makes.
        let mut ours_still = known(7, "superseded", "a", "");
        ours_still["metadata"]["labels"][names::label::RELEASE_ORIGIN] = "7-i".into();
        let mut copied = known(8, "deployed", "a", "");
        copied["metadata"]["labels"][names::label::RELEASE_ORIGIN] = "7-i".into();
        assert_eq!(chosen(&[ours_still, copied], 2000), back);
        let new = Ok(Choice::New { revision: 9, is_upgrade: true });
        let other = known(7, "superseded", "a", "j");
        assert_eq!(chosen(&[other, known(8, "deployed", "a", "")], 2000), new);
        assert_eq!(chosen(&[ours("deployed"), known(8, "failed", "a", "")], 2000), new);
    }

    #[test]
    fn a_renamed_component_takes_its_release_along() {
        let of = |is_in_use: bool| {
            let mut secret = known(1, "deployed", "a", "i");
            secret["metadata"]["labels"][names::label::APP_COMPONENT] = "other".into();
            let all = Known::all(&json!({"items": [secret]}));
            let owner = owner("a");
            choose(&all, &Asked { is_in_use, ..asked(&owner, 2000) })
        };
        assert_eq!(of(false), Ok(Choice::New { revision: 2, is_upgrade: true }));
        assert!(matches!(of(true), Err(Conflict::Foreign { .. })));
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
            (vec![known(2, "uninstalling", "a", "i")], new(3, true)),
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
        let gone = |newest, most| -> Vec<i64> {
            outdated(&all, newest, most).iter().map(|it| it.revision).collect()
        };
        assert_eq!(gone(5, Some(3)), [1, 3]);
        assert_eq!(gone(5, Some(1)), [1, 3, 4]);
        assert!(gone(5, None).is_empty() && gone(5, Some(5)).is_empty());
        // One that was made since the records were read counts too.
        assert_eq!(gone(6, Some(3)), [1, 3, 4]);
    }
}
