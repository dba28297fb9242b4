//! A chart, the user's values and a release: what both engines are given.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Value, json};

/// The version of the cluster that both engines assume.
pub(crate) const KUBE_VERSION: &str = "v1.34.0";
/// The versions that the cluster has.
pub(crate) const API_VERSIONS: [&str; 4] =
    ["v1", "apps/v1", "batch/v1", "policy/v1/PodDisruptionBudget"];

/// What is rendered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    /// The files of the chart's directory.
    pub(crate) files: BTreeMap<String, String>,
    /// The user's values, as YAML.
    pub(crate) values: String,
    pub(crate) is_upgrade: bool,
}

/// The file of cases that have one template.
pub(crate) const TEMPLATE: &str = "templates/t.yaml";

impl Case {
    /// A chart of one template.
    pub(crate) fn template(text: String, values: String) -> Self {
        let chart = "apiVersion: v2\nname: micro\nversion: 0.1.0\nappVersion: \"1.2.3\"\n";
        let files = [("Chart.yaml", chart.to_owned()), (TEMPLATE, text)];
        let files = files.map(|(name, text)| (name.to_owned(), text)).into();
        Self { files, values, is_upgrade: false }
    }

    /// The line that asks the oracle.
    pub(crate) fn request(&self) -> String {
        json!({
            "files": self.files,
            "values": self.values,
            "release": {
                "name": "rel",
                "namespace": "ns",
                "isUpgrade": self.is_upgrade,
                "revision": if self.is_upgrade { 2 } else { 1 },
            },
            "kubeVersion": KUBE_VERSION,
            "apiVersions": API_VERSIONS,
        })
        .to_string()
    }

    /// The case that a text of [`fmt::Display`] shows.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let files = json["files"].as_object()?;
        let file =
            |(name, text): (&String, &Value)| Some((name.clone(), text.as_str()?.to_owned()));
        Some(Self {
            files: files.iter().map(file).collect::<Option<_>>()?,
            values: json["values"].as_str().unwrap_or_default().to_owned(),
            is_upgrade: json["isUpgrade"].as_bool().unwrap_or_default(),
        })
    }

    /// Bytes of all texts.
    pub(crate) fn size(&self) -> usize {
        self.values.len()
            + self.files.iter().map(|(name, text)| name.len() + text.len()).sum::<usize>()
    }
}

impl Case {
    /// The words of a case that name functions and keywords.
    pub(crate) fn features(&self) -> String {
        let mut found = BTreeSet::new();
        for (name, text) in &self.files {
            if name == "Chart.yaml" || name == "values.yaml" {
                continue;
            }
            for action in text.split("{{").skip(1) {
                let action = action.split("}}").next().unwrap_or_default();
                let words = action
                    .split(|char: char| !char.is_ascii_alphanumeric() && !".$_\"".contains(char));
                let plain = |word: &&str| word.starts_with(|char: char| char.is_ascii_lowercase());
                found.extend(words.filter(plain).map(str::to_owned));
            }
        }
        found.into_iter().take(6).collect::<Vec<_>>().join(" ")
    }

    /// As a report shows it: of a chart with one template no more than that.
    pub(crate) fn show(&self) -> String {
        match self.files.get(TEMPLATE) {
            Some(template) if self.files.len() == 2 => {
                format!("{template:?}\nvalues: {:?}", self.values)
            }
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let json =
            json!({ "files": self.files, "values": self.values, "isUpgrade": self.is_upgrade });
        json.fmt(f)
    }
}
