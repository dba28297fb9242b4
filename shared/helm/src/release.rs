//! Release records: the genuine Secrets of Helm, so that its client lists, compares and rolls back what we deployed.
//!
//! The record is JSON, packed with gzip and written as base64; inside a Secret that text is base64 once more, which is the
//! business of whoever writes the Secret.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::chart::{Chart, File};
use crate::hooks::Hook;
use crate::packed;
use crate::values::Table;

/// Bytes of a record without compression: what a chart may have, and what was made of it.
const MOST: usize = 256 << 20;

/// The release that a chart is rendered for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// At most 53 characters; see [`validate_name`].
    pub name: String,
    /// Namespace of the release, and of objects that name none.
    pub namespace: String,
    /// Whether there is an earlier revision.
    pub is_upgrade: bool,
    /// The revision that is being made, from 1.
    pub revision: i64,
}

/// A text that is not the name of a release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid release name, must match regex {NAME_PATTERN} and the length must not be longer than {LONGEST_NAME}"
)]
pub struct NameError;

const NAME_PATTERN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
const LONGEST_NAME: usize = 53;

/// Checks the name of a release.
///
/// # Errors
/// A name of another form, or a longer one.
pub fn validate_name(name: &str) -> Result<(), NameError> {
    let edge = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let label = |label: &str| {
        let bytes = label.as_bytes();
        let inside = |byte: &u8| edge(Some(byte)) || *byte == b'-';
        edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(inside)
    };
    if name.len() <= LONGEST_NAME && name.split('.').all(label) { Ok(()) } else { Err(NameError) }
}

/// The state of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// No word that Helm writes.
    Unknown,
    /// The revision that is installed; one of a release at the most.
    Deployed,
    /// Deleted, its records kept.
    Uninstalled,
    /// A later revision took its place.
    Superseded,
    /// Its installation, upgrade, rollback or deletion failed.
    Failed,
    /// Its objects are being deleted.
    Uninstalling,
    /// Its first revision is being installed.
    PendingInstall,
    /// A further revision is being applied.
    PendingUpgrade,
    /// An older revision is being applied again.
    PendingRollback,
}

impl Status {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Unknown, "unknown"),
        (Self::Deployed, "deployed"),
        (Self::Uninstalled, "uninstalled"),
        (Self::Superseded, "superseded"),
        (Self::Failed, "failed"),
        (Self::Uninstalling, "uninstalling"),
        (Self::PendingInstall, "pending-install"),
        (Self::PendingUpgrade, "pending-upgrade"),
        (Self::PendingRollback, "pending-rollback"),
    ];

    /// Helm's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let word = Self::ALL.iter().find(|(status, _)| *status == self);
        word.map_or("unknown", |(_, word)| word)
    }

    /// The state of a word; [`Status::Unknown`] for any other one.
    #[must_use]
    pub fn read(word: &str) -> Self {
        Self::ALL
            .iter()
            .find(|(_, known)| *known == word)
            .map_or(Self::Unknown, |(status, _)| *status)
    }
}

/// A text that is no release record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The outer text is not base64.
    #[error("release record is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    /// The packed bytes cannot be read.
    #[error("release record cannot be unpacked: {0}")]
    Gzip(#[from] std::io::Error),
    /// The record is too large.
    #[error("release record is larger than {MOST} bytes")]
    TooLarge,
    /// The record is not JSON of the right form.
    #[error("release record is not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A part of the record is missing or of another kind.
    #[error("release record has no {0}")]
    Missing(&'static str),
}

/// A record. Everything that Helm wrote is kept, also what is not named here.
#[derive(Debug, Clone, PartialEq)]
pub struct Record(Map<String, Value>);

/// What a new record says about its release.
#[derive(Debug)]
pub struct NewRecord<'a> {
    /// The release's name.
    pub name: &'a str,
    /// Namespace of the release, and of its record.
    pub namespace: &'a str,
    /// Its revision, from 1.
    pub revision: i64,
    /// The state it is in.
    pub status: Status,
    /// A sentence about the state.
    pub description: &'a str,
    /// When the first revision was deployed: RFC 3339.
    pub first_deployed: &'a str,
    /// When this one was: RFC 3339.
    pub last_deployed: &'a str,
    /// The rendered notes.
    pub notes: &'a str,
    /// The chart as it was loaded.
    pub chart: &'a Chart,
    /// The values of the user.
    pub config: &'a Table,
    /// The manifest of everything but hooks and CRDs.
    pub manifest: &'a str,
    /// All hooks of the chart, in the order in which they run.
    pub hooks: &'a [Hook],
}

impl Record {
    /// Makes a record.
    #[must_use]
    pub fn new(new: &NewRecord<'_>) -> Self {
        let mut info = json!({
            "first_deployed": new.first_deployed,
            "last_deployed": new.last_deployed,
            "deleted": "",
            "description": new.description,
            "status": new.status.as_str(),
        });
        if let Value::Object(info) = &mut info
            && !new.notes.is_empty()
        {
            info.insert("notes".to_owned(), new.notes.into());
        }
        let hooks: Vec<Value> = new.hooks.iter().map(hook).collect();
        let fields = [
            ("name", new.name.into()),
            ("info", info),
            ("chart", chart(new.chart)),
            ("config", Value::Object(new.config.clone())),
            ("manifest", new.manifest.into()),
            ("hooks", Value::Array(hooks)),
            ("version", new.revision.into()),
            ("namespace", new.namespace.into()),
        ];
        Self(fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Reads the text of `data.release`, with or without compression.
    ///
    /// # Errors
    /// A text that is no record.
    pub fn decode(text: &str) -> Result<Self, RecordError> {
        let bytes = STANDARD.decode(text.trim())?;
        let bytes = if bytes.starts_with(&[0x1f, 0x8b, 0x08]) {
            packed::unpack(&bytes, MOST)?.ok_or(RecordError::TooLarge)?
        } else {
            bytes
        };
        let record = Self(serde_json::from_slice(&bytes)?);
        record.text("name").ok_or(RecordError::Missing("name"))?;
        record.0.get("info").and_then(Value::as_object).ok_or(RecordError::Missing("info"))?;
        Ok(record)
    }

    /// The text for `data.release`.
    ///
    /// # Errors
    /// None that input can cause: memory is written to.
    pub fn encode(&self) -> Result<String, RecordError> {
        // As Go writes it: a float without a fraction has no point.
        Ok(STANDARD.encode(packed::pack(&vela_gocompat::json::to_vec(&self.0)?)?))
    }

    fn text(&self, key: &str) -> Option<&str> {
        self.0.get(key)?.as_str()
    }

    /// The release's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// The release's namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.text("namespace").unwrap_or_default()
    }

    /// The revision, from 1.
    #[must_use]
    pub fn revision(&self) -> i64 {
        self.0.get("version").and_then(Value::as_i64).unwrap_or_default()
    }

    /// The state.
    #[must_use]
    pub fn status(&self) -> Status {
        let status = self.0.get("info").and_then(|info| info.get("status"));
        Status::read(status.and_then(Value::as_str).unwrap_or_default())
    }

    /// Puts the record into another state, with a sentence about it.
    pub fn set_status(&mut self, status: Status, description: &str) {
        if let Some(Value::Object(info)) = self.0.get_mut("info") {
            info.insert("status".to_owned(), status.as_str().into());
            info.insert("description".to_owned(), description.into());
        }
    }

    /// The same release under another revision, which begins now (RFC 3339) and whose hooks have not run.
    #[must_use]
    pub fn renewed(&self, revision: i64, now: &str) -> Self {
        let mut record = self.clone();
        record.0.insert("version".to_owned(), revision.into());
        if let Some(Value::Object(info)) = record.0.get_mut("info") {
            info.insert("last_deployed".to_owned(), now.into());
        }
        let hooks = record.0.get("hooks").and_then(Value::as_array).map_or(0, Vec::len);
        for index in 0..hooks {
            record.set_last_run(index, &LastRun::default());
        }
        record
    }

    /// Notes when its removal began: RFC 3339.
    pub fn set_deleted(&mut self, now: &str) {
        if let Some(Value::Object(info)) = self.0.get_mut("info") {
            info.insert("deleted".to_owned(), now.into());
        }
    }

    /// When its removal began: RFC 3339; empty if it did not.
    #[must_use]
    pub fn deleted(&self) -> &str {
        self.info("deleted")
    }

    /// The manifest of everything but hooks and CRDs.
    #[must_use]
    pub fn manifest(&self) -> &str {
        self.text("manifest").unwrap_or_default()
    }

    /// The values of the user.
    #[must_use]
    pub fn config(&self) -> Table {
        self.0.get("config").and_then(Value::as_object).cloned().unwrap_or_default()
    }

    /// The sentence about the state.
    #[must_use]
    pub fn description(&self) -> &str {
        self.info("description")
    }

    /// When the first revision was deployed: RFC 3339.
    #[must_use]
    pub fn first_deployed(&self) -> &str {
        self.info("first_deployed")
    }

    /// The rendered notes.
    #[must_use]
    pub fn notes(&self) -> &str {
        self.info("notes")
    }

    fn info(&self, key: &str) -> &str {
        let field = self.0.get("info").and_then(|info| info.get(key));
        field.and_then(Value::as_str).unwrap_or_default()
    }

    /// The documents of the manifest, in the order in which they are installed.
    ///
    /// # Errors
    /// A document that is not YAML.
    pub fn documents(&self) -> Result<Vec<Value>, crate::yaml::YamlError> {
        crate::manifest::split(self.manifest()).map(crate::yaml::read).collect()
    }

    /// The hooks, in the order of the record.
    #[must_use]
    pub fn hooks(&self) -> Vec<RecordedHook> {
        let hooks = self.0.get("hooks").and_then(Value::as_array).into_iter().flatten();
        hooks.map(RecordedHook::read).collect()
    }

    /// Notes how far the hook at a position has come.
    pub fn set_last_run(&mut self, index: usize, run: &LastRun) {
        let hook = self.0.get_mut("hooks").and_then(|hooks| hooks.get_mut(index));
        if let Some(Value::Object(hook)) = hook {
            let run = json!({
                "started_at": run.started_at, "completed_at": run.completed_at, "phase": run.phase,
            });
            hook.insert("last_run".to_owned(), run);
        }
    }

    /// `name` of its Chart.yaml; empty if the record has none.
    #[must_use]
    pub fn chart_name(&self) -> &str {
        let metadata = self.0.get("chart").and_then(|chart| chart.get("metadata"));
        let name = metadata.and_then(|metadata| metadata.get("name"));
        name.and_then(Value::as_str).unwrap_or_default()
    }

    /// The chart's schema for values, if it has one.
    pub(crate) fn schema(&self) -> Option<Vec<u8>> {
        let schema = self.0.get("chart")?.get("schema")?.as_str()?;
        STANDARD.decode(schema).ok().filter(|schema| !schema.is_empty())
    }

    /// Leaves out what the chart is made of: for a record that would be larger than a Secret may be.
    pub fn drop_chart(&mut self) {
        if let Some(Value::Object(chart)) = self.0.get_mut("chart") {
            chart.insert("templates".to_owned(), Value::Array(Vec::new()));
            chart.insert("files".to_owned(), Value::Array(Vec::new()));
        }
    }

    /// `version` of its Chart.yaml; empty if the record has none.
    #[must_use]
    pub fn chart_version(&self) -> &str {
        let metadata = self.0.get("chart").and_then(|chart| chart.get("metadata"));
        let version = metadata.and_then(|metadata| metadata.get("version"));
        version.and_then(Value::as_str).unwrap_or_default()
    }
}

/// How far a hook has come.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastRun {
    /// When it began: RFC 3339; empty if it did not.
    pub started_at: String,
    /// When it ended; empty if it did not.
    pub completed_at: String,
    /// Helm's word: `Running`, `Succeeded`, `Failed`, empty.
    pub phase: String,
}

/// A hook of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedHook {
    /// The name of its object.
    pub name: String,
    /// The text of its object.
    pub manifest: String,
    /// When it runs, in Helm's words.
    pub events: Vec<String>,
    /// Hooks of one event run by weight, then by name.
    pub weight: i64,
    /// What happens to the object afterwards, in Helm's words.
    pub delete_policies: Vec<String>,
    /// How far it has come.
    pub last_run: LastRun,
}

impl RecordedHook {
    fn read(hook: &Value) -> Self {
        let text =
            |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let list = |key: &str| {
            let list = hook.get(key).and_then(Value::as_array).into_iter().flatten();
            list.map(|word| text(Some(word))).collect()
        };
        let run = |key: &str| text(hook.get("last_run").and_then(|run| run.get(key)));
        Self {
            name: text(hook.get("name")),
            manifest: text(hook.get("manifest")),
            events: list("events"),
            weight: hook.get("weight").and_then(Value::as_i64).unwrap_or_default(),
            delete_policies: list("delete_policies"),
            last_run: LastRun {
                started_at: run("started_at"),
                completed_at: run("completed_at"),
                phase: run("phase"),
            },
        }
    }
}

/// The name of the Secret of a revision.
#[must_use]
pub fn secret_name(release: &str, revision: i64) -> String {
    format!("sh.helm.release.v1.{release}.v{revision}")
}

/// The type of the Secrets.
pub const SECRET_TYPE: &str = "helm.sh/release.v1";

fn chart(chart: &Chart) -> Value {
    let files = |files: &[File]| {
        let file = |file: &File| json!({ "name": file.name, "data": STANDARD.encode(&*file.data) });
        files.iter().map(file).collect::<Vec<_>>()
    };
    json!({
        "metadata": serde_json::to_value(&chart.metadata).unwrap_or_default(),
        "lock": chart.lock.as_deref(),
        "templates": files(&chart.templates),
        "values": Value::Object((*chart.values).clone()),
        "schema": chart.schema.as_deref().map(|schema| STANDARD.encode(schema)),
        "files": files(&chart.files),
    })
}

fn hook(hook: &Hook) -> Value {
    let document = &hook.document;
    let kind = document.object.get("kind").and_then(Value::as_str).unwrap_or_default();
    let mut record = json!({
        "name": document.name,
        "kind": kind,
        "path": document.source,
        "manifest": document.text,
        "events": serde_json::to_value(&hook.events).unwrap_or_default(),
        "last_run": { "started_at": "", "completed_at": "", "phase": "" },
    });
    let Value::Object(fields) = &mut record else { return record };
    if hook.weight != 0 {
        fields.insert("weight".to_owned(), hook.weight.into());
    }
    if !hook.delete_policies.is_empty() {
        let policies = serde_json::to_value(&hook.delete_policies).unwrap_or_default();
        fields.insert("delete_policies".to_owned(), policies);
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    fn record() -> Record {
        let yaml = b"apiVersion: v2\nname: c\nversion: 1.2.3\n".to_vec();
        let chart =
            Chart::from_directory([("Chart.yaml".to_owned(), yaml)], &Limits::default()).unwrap();
        Record::new(&NewRecord {
            name: "rel",
            namespace: "ns",
            revision: 2,
            status: Status::PendingUpgrade,
            description: "Preparing upgrade",
            first_deployed: "2024-01-01T00:00:00Z",
            last_deployed: "2024-01-02T00:00:00Z",
            notes: "",
            chart: &chart,
            config: &Table::new(),
            manifest: "---\n# Source: c/templates/a.yaml\na: 1\n",
            hooks: &[],
        })
    }

    #[test]
    fn records_survive_packing() {
        let mut record = record();
        record.set_status(Status::Deployed, "Upgrade complete");
        let read = Record::decode(&record.encode().unwrap()).unwrap();
        assert_eq!(read, record);
        assert_eq!((read.name(), read.namespace(), read.revision()), ("rel", "ns", 2));
        assert_eq!((read.status(), read.chart_version()), (Status::Deployed, "1.2.3"));
        assert_eq!(secret_name("rel", 2), "sh.helm.release.v1.rel.v2");
    }

    #[test]
    fn a_release_under_another_revision_begins_again() {
        let mut record = record();
        let hook = json!({"name": "h", "events": ["pre-install"]});
        record.0.insert("hooks".to_owned(), json!([hook]));
        let run = |phase: &str| LastRun { phase: phase.to_owned(), ..LastRun::default() };
        record.set_last_run(0, &run("Succeeded"));
        let again = record.renewed(7, "2025-01-01T00:00:00Z");
        assert_eq!((again.revision(), record.revision()), (7, 2));
        assert_eq!(
            (again.manifest(), again.first_deployed()),
            (record.manifest(), record.first_deployed())
        );
        assert_eq!(again.hooks()[0].last_run, LastRun::default());
        record.set_deleted("2025-01-01T00:00:00Z");
        assert_eq!((record.deleted(), again.deleted()), ("2025-01-01T00:00:00Z", ""));
    }

    #[test]
    fn records_without_compression_are_read_and_others_refused() {
        let plain = STANDARD.encode(r#"{"name":"a","info":{"status":"failed"},"other":1}"#);
        assert_eq!(Record::decode(&plain).unwrap().status(), Status::Failed);
        for text in ["%", "H4sIAAAA", "e30=", "W10="] {
            assert!(Record::decode(text).is_err(), "{text}");
        }
    }
}
