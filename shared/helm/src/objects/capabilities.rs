//! What a chart may know about the cluster: its version, and the versions and kinds that it serves.

use gotemplate::{Args, Failure, List, Meter, Object, Param, Signature, Type, Underlying, Value};
use serde_json::{Value as Json, json};

/// The version of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubeVersion {
    /// With a `v`, and without a prerelease: `v1.34.0`.
    pub version: String,
    /// The first number.
    pub major: String,
    /// The second number; servers may put a plus sign after it.
    pub minor: String,
}

/// A text that is not the version of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("could not parse {0:?} as version")]
pub struct KubeVersionError(String);

impl KubeVersion {
    /// Reads a version with at least two numbers, and whatever after them.
    ///
    /// # Errors
    /// Any other text.
    pub fn parse(text: &str) -> Result<Self, KubeVersionError> {
        let rest = text.trim_start();
        let rest = rest.strip_prefix('v').unwrap_or(rest);
        let end = rest.find(|char: char| !char.is_ascii_digit() && char != '.');
        let numbers = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        let parts: Vec<&str> = numbers.trim_end_matches('.').split('.').collect();
        let number = |part: &&str| {
            !part.is_empty() && part.len() < 20 && (part.len() == 1 || !part.starts_with('0'))
        };
        match parts.as_slice() {
            [major, minor, ..] if parts.iter().all(number) => Ok(Self {
                version: format!("v{}", parts.join(".")),
                major: (*major).to_owned(),
                minor: (*minor).to_owned(),
            }),
            _ => Err(KubeVersionError(text.to_owned())),
        }
    }
}

/// What a cluster can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    /// The version of its API server.
    pub kube_version: KubeVersion,
    /// `group/version` and `group/version/Kind`, in the order that templates see.
    pub api_versions: Vec<String>,
}

/// The versions that every client of Kubernetes knows, which is what Helm takes where there is no cluster.
const KNOWN: &str = include_str!("api_versions.txt");

impl Capabilities {
    /// What Helm assumes without a cluster.
    #[must_use]
    pub fn without_cluster(kube_version: KubeVersion) -> Self {
        let api_versions = KNOWN.lines().map(str::to_owned).collect();
        Self { kube_version, api_versions }
    }
}

/// `*chartutil.Capabilities`
#[derive(Debug)]
pub(crate) struct CapabilitiesObject {
    kube_version: KubeVersion,
    /// Made once: charts ask for it again and again.
    api_versions: List,
}

impl CapabilitiesObject {
    pub(crate) fn new(capabilities: &Capabilities) -> Self {
        let api_versions = List::strings(capabilities.api_versions.iter().map(String::as_str));
        Self { kube_version: capabilities.kube_version.clone(), api_versions }
    }
}

impl Object for CapabilitiesObject {
    fn type_of(&self) -> Type {
        Type::Named("*chartutil.Capabilities")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Pointer
    }

    fn fields(&self) -> &[&str] {
        &["KubeVersion", "APIVersions", "HelmVersion"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(match name {
            "KubeVersion" => Value::object(KubeVersionObject(self.kube_version.clone())),
            "APIVersions" => Value::object(VersionSet(self.api_versions.clone())),
            "HelmVersion" => Value::object(BuildInfo),
            _ => return None,
        })
    }
}

/// `chartutil.KubeVersion`
#[derive(Debug)]
struct KubeVersionObject(KubeVersion);

impl Object for KubeVersionObject {
    fn type_of(&self) -> Type {
        Type::Named("chartutil.KubeVersion")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["Version", "Major", "Minor"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        Some(Value::from(match name {
            "Version" => self.0.version.as_str(),
            "Major" => self.0.major.as_str(),
            "Minor" => self.0.minor.as_str(),
            _ => return None,
        }))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        matches!(name, "String" | "GitVersion").then_some(Signature::new(&[]))
    }

    fn call(&self, _: &str, _: Args<'_>, _: &mut dyn Meter) -> Result<Value, Failure> {
        Ok(Value::from(self.0.version.as_str()))
    }

    fn shown(&self) -> Option<String> {
        Some(self.0.version.clone())
    }
}

/// `chartutil.VersionSet`
#[derive(Debug)]
struct VersionSet(List);

impl Object for VersionSet {
    fn type_of(&self) -> Type {
        Type::Named("chartutil.VersionSet")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Value(Value::List(self.0.clone()))
    }

    fn method(&self, name: &str) -> Option<Signature> {
        (name == "Has").then_some(Signature::new(&[Param::STRING]))
    }

    fn call(&self, _: &str, args: Args<'_>, meter: &mut dyn Meter) -> Result<Value, Failure> {
        meter.steps(self.0.len() as u64 / 8)?;
        let wanted = args.str(0);
        let is = |value: &Value| matches!(value, Value::String(text) if *text == wanted);
        Ok(self.0.as_slice().iter().any(is).into())
    }
}

/// `version.BuildInfo`: the Helm that charts were written for.
#[derive(Debug)]
pub(super) struct BuildInfo;

impl BuildInfo {
    const VERSION: &'static str = "v3.19.5";

    pub(super) fn json() -> Json {
        json!({ "version": Self::VERSION })
    }
}

impl Object for BuildInfo {
    fn type_of(&self) -> Type {
        Type::Named("version.BuildInfo")
    }

    fn underlying(&self) -> Underlying {
        Underlying::Struct
    }

    fn fields(&self) -> &[&str] {
        &["Version", "GitCommit", "GitTreeState", "GoVersion"]
    }

    fn field(&self, name: &str) -> Option<Value> {
        match name {
            "Version" => Some(Value::from(Self::VERSION)),
            "GitCommit" | "GitTreeState" | "GoVersion" => Some(Value::from("")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cluster_versions_lose_what_providers_add() {
        for (text, want) in
            [("v1.30.4-gke.100", "v1.30.4"), ("1.28.3+k3s1", "v1.28.3"), ("v1.29", "v1.29")]
        {
            assert_eq!(KubeVersion::parse(text).unwrap().version, want);
        }
        for text in ["", "v1", "x", "1..2", "1.02"] {
            assert!(KubeVersion::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_an_action_prints_the_version_by_its_method() {
        let version = KubeVersionObject(KubeVersion::parse("v1.34.0").unwrap());
        assert_eq!(version.shown().as_deref(), Some("v1.34.0"));
        assert_eq!(version.text(), None);
    }
}
