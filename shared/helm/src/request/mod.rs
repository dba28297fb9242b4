//! What a template asks of `helm.#Render` of KubeVela, read from the parameters of its call: by the controller, which carries it
//! out, and by admission, which says everything that is wrong with it at once ([`problems`]).

use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::functions::encoding::hex;
use crate::semver::Constraint;
use crate::{index, release, yaml};

pub mod source;

pub use source::{Source, SourceError};

/// Revisions of a release that are kept unless something else is said.
const HISTORY: usize = 10;
/// How long hooks, and other operations on the release, may take unless something else is said.
pub const OPERATION_TIMEOUT: Duration = Duration::from_secs(300);
/// Sources of values.
const MOST_SOURCES: usize = 64;

/// How long an answer of a server counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// For versions that do not change.
    pub exact: Duration,
    /// For all others.
    pub moving: Duration,
}

impl Default for Freshness {
    fn default() -> Self {
        Self { exact: Duration::from_secs(24 * 3600), moving: Duration::from_secs(300) }
    }
}

/// A call of `helm.#Render` that cannot be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParamsError {
    /// A field of another type.
    #[error("parameters of the chart: {0}")]
    Shape(String),
    /// Repository, chart and version do not say where the chart is.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// The release's name.
    #[error("release {0:?}: {1}")]
    Name(String, release::NameError),
    /// A duration that is none.
    #[error("{0}: {1:?} is no duration, such as 5m")]
    Duration(&'static str, String),
    /// Too many sources of values.
    #[error("valuesFrom has more than {MOST_SOURCES} entries")]
    TooMany,
    /// A version that is neither one nor a constraint.
    #[error("chart.version: {0:?} is neither a version nor a constraint, such as ^1.2.0")]
    Version(String),
    /// Values come of another kind of object.
    #[error("valuesFrom: {0:?} is neither ConfigMap nor Secret")]
    Kind(String),
    /// An object of a namespace that is neither the Application's nor the release's.
    #[error(
        "{0} {1:?} is of namespace {2:?}: only those of the namespaces of the Application and of the release are read"
    )]
    Namespace(&'static str, String, String),
}

/// Something wrong, and the field of the parameters that it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Keys and positions, such as `valuesFrom`, `0`, `kind`; none for all of it.
    pub path: Vec<String>,
    /// What it is.
    pub error: ParamsError,
}

/// Whether an object of a namespace may be read for a release of an Application, given whether that is done as its author: the
/// controller's own rights end at the Application's namespace.
#[must_use]
pub fn may_read(namespace: &str, own: &str, release: &str, as_author: bool) -> bool {
    namespace == own || (namespace == release && as_author)
}

/// Everything that is wrong with the parameters of a call of an Application in a namespace, as far as they say it themselves.
#[must_use]
pub fn problems(params: &Value, own: &str) -> Vec<Problem> {
    let mut all = Vec::new();
    let mut add = |path: &[&str], error| {
        let path = path.iter().map(|&part| part.to_owned()).collect();
        all.push(Problem { path, error });
    };
    let written: Written = match serde_json::from_value(params.clone()) {
        Ok(written) => written,
        Err(error) => {
            add(&[], ParamsError::Shape(error.to_string()));
            return all;
        }
    };
    let Written { chart, release: wanted, values_from, options, context, .. } = written;
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match Source::read(&chart.source, chart.repo_url.as_deref()) {
        Ok(source) if !source.is_registry() || !text(&chart.version).is_empty() => {
            let version = text(&chart.version);
            if !is_version(&version) {
                add(&["chart", "version"], ParamsError::Version(version));
            }
        }
        Ok(_) => {}
        Err(error) => {
            let is_of_repository =
                matches!(&error, SourceError::NoRepository(_)) || chart.repo_url.is_some();
            let field = if is_of_repository { "repoURL" } else { "source" };
            add(&["chart", field], error.into());
        }
    }
    let name = named(wanted.name, &context.name);
    if let Err(error) = release::validate_name(&name) {
        add(&["release", "name"], ParamsError::Name(name, error));
    }
    let namespace = named(wanted.namespace, &context.namespace);
    let secret = chart.auth.secret_ref.unwrap_or_default();
    let of = named(secret.namespace, &namespace);
    if !secret.name.is_empty() && !may_read(&of, own, &namespace, true) {
        let error = ParamsError::Namespace("Secret", secret.name, of);
        add(&["chart", "auth", "secretRef", "namespace"], error);
    }
    if values_from.len() > MOST_SOURCES {
        add(&["valuesFrom"], ParamsError::TooMany);
    }
    for (index, source) in values_from.into_iter().take(MOST_SOURCES).enumerate() {
        let index = index.to_string();
        let kind = match source.kind.as_str() {
            "ConfigMap" => "ConfigMap",
            "Secret" => "Secret",
            _ => {
                add(&["valuesFrom", &index, "kind"], ParamsError::Kind(source.kind));
                continue;
            }
        };
        let of = named(source.namespace, own);
        if !may_read(&of, own, &namespace, true) {
            let error = ParamsError::Namespace(kind, source.name, of);
            add(&["valuesFrom", &index, "namespace"], error);
        }
    }
    let Cache { ttl, immutable_ttl, mutable_ttl } = options.cache;
    for (path, text) in [
        (&["options", "timeout"][..], options.timeout),
        (&["options", "cache", "ttl"], ttl),
        (&["options", "cache", "immutableTTL"], immutable_ttl),
        (&["options", "cache", "mutableTTL"], mutable_ttl),
    ] {
        if let Err(ParamsError::Duration(_, text)) = duration("", text) {
            add(path, ParamsError::Duration("duration", text));
        }
    }
    all
}

/// Whether a text is a version or a constraint; none means the newest.
fn is_version(text: &str) -> bool {
    matches!(text, "" | "latest") || index::is_exact(text) || Constraint::parse(text).is_ok()
}

/// The release and the namespace that the parameters of a call name; `None` where they say neither.
#[must_use]
pub fn release_of(params: &Value) -> Option<(String, String)> {
    let written: Written = serde_json::from_value(params.clone()).ok()?;
    let Written { release, context, .. } = written;
    let (name, namespace) =
        (named(release.name, &context.name), named(release.namespace, &context.namespace));
    (!name.is_empty()).then_some((namespace, name))
}

fn named(text: Option<String>, other: &str) -> String {
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| other.to_owned())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Written {
    chart: Chart,
    release: Release,
    values: Option<Map<String, Value>>,
    values_from: Vec<ValuesFrom>,
    options: Options,
    context: Context,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Chart {
    source: String,
    #[serde(rename = "repoURL")]
    repo_url: Option<String>,
    version: Option<String>,
    auth: Auth,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Auth {
    secret_ref: Option<SecretRef>,
}

/// A Secret with credentials.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SecretRef {
    /// Name of the Secret.
    pub name: String,
    /// Its namespace; that of the release if there is none.
    pub namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Release {
    name: Option<String>,
    namespace: Option<String>,
}

/// Where values come from.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ValuesFrom {
    /// `ConfigMap` or `Secret`.
    pub kind: String,
    /// Name of the ConfigMap or Secret.
    pub name: String,
    /// Its namespace; that of the Application if there is none.
    pub namespace: Option<String>,
    /// Key of its data, whose value is YAML; `values.yaml` if empty.
    pub key: String,
    /// Whether it may be missing.
    pub optional: bool,
}

impl Default for ValuesFrom {
    fn default() -> Self {
        Self {
            kind: String::new(),
            name: String::new(),
            namespace: None,
            key: "values.yaml".to_owned(),
            optional: false,
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[allow(clippy::struct_excessive_bools, reason = "fields of an existing API")]
struct Options {
    #[serde(rename = "includeCRDs")]
    include_crds: Option<bool>,
    skip_hooks: bool,
    create_namespace: Option<bool>,
    timeout: Option<String>,
    max_history: Option<i64>,
    atomic: bool,
    wait: bool,
    force: bool,
    recreate_pods: bool,
    cleanup_on_fail: bool,
    cache: Cache,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Cache {
    ttl: Option<String>,
    #[serde(rename = "immutableTTL")]
    immutable_ttl: Option<String>,
    #[serde(rename = "mutableTTL")]
    mutable_ttl: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Context {
    name: String,
    namespace: String,
}

/// What is to be released.
#[derive(Debug, Clone, PartialEq)]
#[allow(clippy::struct_excessive_bools, reason = "options of an existing API")]
pub struct Params {
    /// Where the chart is.
    pub source: Source,
    /// Version or constraint; empty: the newest.
    pub version: String,
    /// Credentials.
    pub secret: Option<SecretRef>,
    /// The release's name.
    pub name: String,
    /// Namespace of the release.
    pub namespace: String,
    /// Values of the Application itself, numbers as floats.
    pub values: Map<String, Value>,
    /// Values from elsewhere, the last one wins.
    pub values_from: Vec<ValuesFrom>,
    /// Whether `crds/` is installed.
    pub include_crds: bool,
    /// Whether hooks are left out.
    pub skip_hooks: bool,
    /// Whether the namespace is made.
    pub create_namespace: bool,
    /// How long an operation may take.
    pub timeout: Duration,
    /// Whether a revision that fails is followed by the one before it. Implies `wait`.
    pub atomic: bool,
    /// Whether a revision is deployed only once all its objects are ready, and fails if they are not in time.
    pub wait: bool,
    /// Whether an object that refuses a change of an immutable field is made again.
    pub force: bool,
    /// Whether each upgrade restarts Pods.
    pub recreate_pods: bool,
    /// Whether what a failed upgrade made new is removed.
    pub cleanup_on_fail: bool,
    /// Revisions to keep; none: all.
    pub history: Option<usize>,
    /// How long what a source led to counts.
    pub freshness: Freshness,
}

impl Params {
    /// Reads the parameters of a call.
    ///
    /// # Errors
    /// What cannot be meant.
    pub fn read(params: &Value) -> Result<Self, ParamsError> {
        let written: Written = serde_json::from_value(params.clone())
            .map_err(|error| ParamsError::Shape(error.to_string()))?;
        let Written { chart, release: wanted, values, values_from, options, context } = written;
        let source = Source::read(&chart.source, chart.repo_url.as_deref())?;
        if values_from.len() > MOST_SOURCES {
            return Err(ParamsError::TooMany);
        }
        let name = named(wanted.name, &context.name);
        release::validate_name(&name).map_err(|error| ParamsError::Name(name.clone(), error))?;
        let mut values = Value::Object(values.unwrap_or_default());
        yaml::to_floats(&mut values);
        let Value::Object(values) = values else { return Err(ParamsError::TooMany) };
        let usual = Freshness::default();
        let ttl = duration("options.cache.ttl", options.cache.ttl)?;
        let exact = duration("options.cache.immutableTTL", options.cache.immutable_ttl)?;
        let moving = duration("options.cache.mutableTTL", options.cache.mutable_ttl)?;
        let history = match options.max_history {
            None => Some(HISTORY),
            Some(most) => usize::try_from(most).ok().filter(|most| *most > 0),
        };
        Ok(Self {
            source,
            version: chart.version.unwrap_or_default(),
            secret: chart.auth.secret_ref,
            namespace: named(wanted.namespace, &context.namespace),
            name,
            values,
            values_from,
            include_crds: options.include_crds.unwrap_or(true),
            skip_hooks: options.skip_hooks,
            create_namespace: options.create_namespace.unwrap_or(true),
            timeout: duration("options.timeout", options.timeout)?.unwrap_or(OPERATION_TIMEOUT),
            atomic: options.atomic,
            wait: options.wait || options.atomic,
            force: options.force,
            recreate_pods: options.recreate_pods,
            cleanup_on_fail: options.cleanup_on_fail,
            history,
            freshness: Freshness {
                exact: ttl.or(exact).unwrap_or(usual.exact),
                moving: ttl.or(moving).unwrap_or(usual.moving),
            },
        })
    }

    /// A hash of everything that decides what the release is, given all values. A version that may move is looked up once
    /// for each revision of the Application.
    #[must_use]
    pub fn inputs(&self, values: &Map<String, Value>, app_revision: &str) -> String {
        let moves = if index::is_exact(&self.version) { "" } else { app_revision };
        let mut hasher = Sha256::new();
        let mut switches =
            [self.include_crds, self.skip_hooks].map(|it| if it { "1" } else { "0" }).concat();
        if self.recreate_pods {
            switches.push_str("restart");
        }
        for part in [
            &format!("{:?}", self.source),
            self.version.as_str(),
            moves,
            self.name.as_str(),
            self.namespace.as_str(),
            &switches,
            &Value::Object(values.clone()).to_string(),
        ] {
            hasher.update(part.as_bytes());
            hasher.update([0]);
        }
        hex(&hasher.finalize())
    }
}

fn duration(field: &'static str, text: Option<String>) -> Result<Option<Duration>, ParamsError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(None) };
    let parsed = text.parse::<vela_gocompat::duration::Duration>().ok();
    let parsed = parsed.and_then(vela_gocompat::duration::Duration::to_std);
    parsed.map(Some).ok_or(ParamsError::Duration(field, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn params(more: &Value) -> Result<Params, ParamsError> {
        let mut params = json!({
            "chart": {"source": "web", "repoURL": "https://c.example", "version": "1.0.0"},
            "context": {"name": "comp", "namespace": "ns"},
        });
        for (key, value) in more.as_object().unwrap() {
            params[key] = value.clone();
        }
        Params::read(&params)
    }

    #[test]
    fn what_is_not_said() {
        let read = params(&json!({})).unwrap();
        assert_eq!((read.name.as_str(), read.namespace.as_str()), ("comp", "ns"));
        assert_eq!((read.history, read.timeout), (Some(10), OPERATION_TIMEOUT));
        assert!(read.include_crds && read.create_namespace && !read.skip_hooks);
        let said = json!({"release": {"name": "r"}, "options": {"maxHistory": 0, "timeout": "1m", "cache": {"ttl": "0s"}}});
        let read = params(&said).unwrap();
        assert_eq!((read.name.as_str(), read.namespace.as_str()), ("r", "ns"));
        assert_eq!((read.history, read.timeout.as_secs()), (None, 60));
        assert_eq!(read.freshness.exact, Duration::ZERO);
        assert!(!read.wait && !read.atomic && !read.force && !read.recreate_pods);
        let read = params(&json!({"options": {"atomic": true}})).unwrap();
        assert!(read.atomic && read.wait && !read.cleanup_on_fail, "who rolls back has to wait");
    }

    #[test]
    fn what_cannot_be_meant() {
        for (more, text) in [
            (json!({"chart": {"source": "web"}}), "repoURL"),
            (json!({"chart": {"source": 1}}), "parameters of the chart"),
            (json!({"release": {"name": "Web"}}), "invalid release name"),
            (json!({"options": {"timeout": "soon"}}), "options.timeout"),
            (json!({"valuesFrom": vec![json!({}); 65]}), "more than 64"),
        ] {
            let error = params(&more).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn all_problems_are_found_at_once_with_their_fields() {
        let found = |params: &Value| -> Vec<String> {
            let all = problems(params, "own");
            all.into_iter().map(|one| format!("{}: {}", one.path.join("."), one.error)).collect()
        };
        let context = json!({"name": "comp", "namespace": "own"});
        let fine = json!({"context": context, "chart": {"source": "web", "repoURL": "https://c.example", "version": "^1.2 || 3.x",
            "auth": {"secretRef": {"name": "s", "namespace": "there"}}},
            "release": {"namespace": "there"}, "valuesFrom": [{"kind": "Secret", "name": "v", "namespace": "there"}]});
        assert!(found(&fine).is_empty(), "{:?}", found(&fine));
        let mut latest = fine.clone();
        latest["chart"]["version"] = json!("latest");
        assert!(found(&latest).is_empty(), "{:?}", found(&latest));
        let wrong = json!({"context": context, "chart": {"source": "web", "repoURL": "https://c.example", "version": "one",
            "auth": {"secretRef": {"name": "s", "namespace": "vault"}}},
            "release": {"name": "Web"},
            "valuesFrom": [{"kind": "Pod", "name": "p"}, {"kind": "ConfigMap", "name": "m", "namespace": "vault"}],
            "options": {"timeout": "soon", "cache": {"mutableTTL": "x"}}});
        let all = found(&wrong);
        for (index, part) in [
            "chart.version: ",
            "release.name: ",
            "chart.auth.secretRef.namespace: ",
            "valuesFrom.0.kind: ",
            "valuesFrom.1.namespace: ",
            "options.timeout: ",
            "options.cache.mutableTTL: ",
        ]
        .into_iter()
        .enumerate()
        {
            assert!(all[index].starts_with(part), "{all:#?}");
        }
        assert_eq!(all.len(), 7);
        for (chart, field) in [
            (json!({"source": "web"}), "chart.repoURL: "),
            (json!({"source": "oci://"}), "chart.source: "),
            (json!({"source": 1}), ": parameters of the chart"),
        ] {
            let all = found(&json!({"context": context, "chart": chart}));
            assert!(all.len() == 1 && all[0].starts_with(field), "{all:?}");
        }
        let of = |params: &Value| release_of(params).unwrap();
        assert_eq!(of(&fine), ("there".to_owned(), "comp".to_owned()));
    }

    #[test]
    fn inputs_differ_where_the_release_does() {
        let of = |more: Value, revision: &str| {
            let params = params(&more).unwrap();
            params.inputs(&params.values, revision)
        };
        let usual = of(json!({}), "app-v1");
        assert_eq!(usual, of(json!({}), "app-v2"), "an exact version stays what it is");
        assert_ne!(usual, of(json!({"values": {"a": 1}}), "app-v1"));
        assert_ne!(usual, of(json!({"options": {"skipHooks": true}}), "app-v1"));
        assert_ne!(usual, of(json!({"options": {"recreatePods": true}}), "app-v1"));
        assert_eq!(usual, of(json!({"options": {"timeout": "9m", "atomic": true}}), "app-v1"));
        let moving = json!({"chart": {"source": "web", "repoURL": "https://c.example"}});
        assert_ne!(of(moving.clone(), "app-v1"), of(moving, "app-v2"));
    }
}
