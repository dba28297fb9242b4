//! Chart.yaml: its fields, how they are read, and the rules they have to follow.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;
use vela_gocompat::strconv;

use super::decode::{DecodeError, Fields};
use super::error::Invalid;
use crate::semver::Version;

/// What a chart says about itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// DNS-like name, at most 250 bytes; also the name of its folder in the parent.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// URL of the project.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub home: String,
    /// URLs of the source code.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<String>,
    /// Semantic version of the chart; required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// One sentence for lists of charts.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Words to search by.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    /// Who answers for the chart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    /// URL of an SVG or PNG.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub icon: String,
    /// `v1` or `v2`: where dependencies are declared, and whether `type` exists.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    /// Paths of values, separated by commas, that switch the chart on or off as a subchart.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Tags that switch the chart on or off as a subchart, separated by commas.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tags: String,
    /// Version of what the chart installs; any text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_version: String,
    /// Whether users shall move away from the chart.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deprecated: bool,
    /// Texts for programs; never interpreted here.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Range of Kubernetes versions that the chart can be installed in; empty means all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kube_version: String,
    /// Subcharts, of Chart.yaml or, with `v1`, of requirements.yaml.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependencies: Vec<Dependency>,
    /// `application` (or empty) or `library`; a library has no objects of its own.
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub kind: String,
}

/// Somebody who maintains a chart.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Maintainer {
    /// Name; required.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Address of mail.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
    /// URL of a page about them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

/// A chart that another one wants.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Dependency {
    /// Name of the chart in its repository.
    pub name: String,
    /// Range of versions, in the syntax of Masterminds/semver.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// URL (`https://`, `oci://`, `file://`), or the name of a repository with `@` or `alias:`.
    pub repository: String,
    /// Paths of values, separated by commas; the first that is a bool decides whether the subchart takes part.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub condition: String,
    /// Keys of the value `tags` that decide if no condition does.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// The outcome of conditions and tags; no field of users.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub enabled: bool,
    /// Values of the subchart that the parent takes over: a text (key of `exports`) or `{child, parent}`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub import_values: Vec<Value>,
    /// Name of this use of the chart, if it is used more than once.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub alias: String,
}

impl Metadata {
    /// Reads the fields that are there over those that are known; Chart.yaml and requirements.yaml have the same ones.
    pub(super) fn read(&mut self, document: &Value) -> Result<(), DecodeError> {
        let Some(fields) = Fields::document(document, "Metadata", "chart.Metadata")? else {
            return Ok(());
        };
        let set = |field: &mut String, name: &str| -> Result<(), DecodeError> {
            let text = fields.string(name)?;
            if !text.is_empty() {
                *field = text;
            }
            Ok(())
        };
        set(&mut self.name, "name")?;
        set(&mut self.home, "home")?;
        set(&mut self.version, "version")?;
        set(&mut self.description, "description")?;
        set(&mut self.icon, "icon")?;
        set(&mut self.api_version, "apiVersion")?;
        set(&mut self.condition, "condition")?;
        set(&mut self.tags, "tags")?;
        set(&mut self.app_version, "appVersion")?;
        set(&mut self.kube_version, "kubeVersion")?;
        set(&mut self.kind, "type")?;
        let list = |field: &mut Vec<String>, name: &str| -> Result<(), DecodeError> {
            let texts = fields.strings(name)?;
            if !texts.is_empty() {
                *field = texts;
            }
            Ok(())
        };
        list(&mut self.sources, "sources")?;
        list(&mut self.keywords, "keywords")?;
        self.deprecated |= fields.bool("deprecated")?;
        self.annotations.extend(fields.string_map("annotations")?);
        let maintainers = fields.list("maintainers", "[]*chart.Maintainer")?;
        if !maintainers.is_empty() {
            self.maintainers = maintainers.iter().map(maintainer).collect::<Result<_, _>>()?;
        }
        let dependencies = fields.list("dependencies", "[]*chart.Dependency")?;
        if !dependencies.is_empty() {
            self.dependencies = dependencies.iter().map(dependency).collect::<Result<_, _>>()?;
        }
        Ok(())
    }

    /// Cleans the texts and checks the rules, in Helm's order.
    pub(super) fn validate(&mut self) -> Result<(), Invalid> {
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        for text in texts.into_iter().chain(&mut self.sources).chain(&mut self.keywords) {
            clean(text);
        }
        for (field, text) in [("apiVersion", &self.api_version), ("name", &self.name)] {
            if text.is_empty() {
                return Err(Invalid::Required(field));
            }
        }
        if self.name.contains('/') {
            return Err(Invalid::Name(self.name.clone()));
        }
        if self.version.is_empty() {
            return Err(Invalid::Required("version"));
        }
        if let Err(error) = Version::parse(&self.version) {
            return Err(Invalid::Version(self.version.clone(), error));
        }
        if !matches!(&*self.kind, "" | "application" | "library") {
            return Err(Invalid::Type);
        }
        if self.maintainers.iter().any(|maintainer| *maintainer == Maintainer::default()) {
            return Err(Invalid::EmptyMaintainer);
        }
        let mut names = BTreeSet::new();
        for dependency in &mut self.dependencies {
            if *dependency == Dependency::default() {
                return Err(Invalid::EmptyDependency);
            }
            let Dependency { name, version, repository, condition, tags, alias, .. } = dependency;
            for text in [&mut *name, version, repository, condition].into_iter().chain(tags) {
                clean(text);
            }
            let allowed = |char: char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-');
            if !alias.chars().all(allowed) {
                return Err(Invalid::Alias(name.clone()));
            }
            let place = if alias.is_empty() { &*name } else { &*alias };
            if !names.insert(place.clone()) {
                return Err(Invalid::Twice(place.clone()));
            }
        }
        Ok(())
    }

    /// Whether the chart only has definitions for others.
    #[must_use]
    pub fn is_library(&self) -> bool {
        self.kind == "library"
    }
}

fn maintainer(value: &Value) -> Result<Maintainer, DecodeError> {
    let owner = "Metadata.maintainers";
    let Some(fields) = Fields::element(value, owner, "chart.Maintainer")? else {
        return Ok(Maintainer::default());
    };
    Ok(Maintainer {
        name: fields.string("name")?,
        email: fields.string("email")?,
        url: fields.string("url")?,
    })
}

fn dependency(value: &Value) -> Result<Dependency, DecodeError> {
    let owner = "Metadata.dependencies";
    let Some(fields) = Fields::element(value, owner, "chart.Dependency")? else {
        return Ok(Dependency::default());
    };
    Ok(Dependency {
        name: fields.string("name")?,
        version: fields.string("version")?,
        repository: fields.string("repository")?,
        condition: fields.string("condition")?,
        tags: fields.strings("tags")?,
        enabled: fields.bool("enabled")?,
        import_values: fields.list("import-values", "[]interface {}")?.to_vec(),
        alias: fields.string("alias")?,
    })
}

/// White space becomes blanks, and what cannot be printed goes.
fn clean(text: &mut String) {
    let odd = |char: char| char.is_whitespace() && char != ' ' || !strconv::is_print(char);
    if text.contains(odd) {
        *text = text
            .chars()
            .filter_map(|char| match char {
                char if char.is_whitespace() => Some(' '),
                char if strconv::is_print(char) => Some(char),
                _ => None,
            })
            .collect();
    }
}
