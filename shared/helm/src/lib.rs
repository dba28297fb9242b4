//! Helm's chart engine: a chart and values in, objects, hooks, CRDs, notes and release records out.
//!
//! Answers for the packages `chart`, `chartutil`, `engine`, `releaseutil` and `strvals` of Helm 3.19, and for the
//! functions of sprig 3.3. Pure: files come in as bytes; clock, randomness, keys and the cluster through [`Host`]; there
//! is no network. What a render may cost is bounded by [`Limits`] and [`Budget`], and a crossed bound is an error that
//! names it.
//!
//! ```
//! use vela_helm::{
//!     Budget, Capabilities, Chart, Host, KubeVersion, Limits, Options, Release, prepare,
//! };
//!
//! struct Still;
//! impl Host for Still {
//!     fn now(&mut self) -> jiff::Timestamp {
//!         jiff::Timestamp::UNIX_EPOCH
//!     }
//!     fn random(&mut self, bytes: &mut [u8]) {
//!         bytes.fill(7);
//!     }
//! }
//!
//! let file = |name: &str, text: &str| (name.to_owned(), text.as_bytes().to_vec());
//! let chart = Chart::from_directory(
//!     [
//!         file("Chart.yaml", "apiVersion: v2\nname: hello\nversion: 0.1.0\n"),
//!         file("values.yaml", "who: world\n"),
//!         file("templates/a.yaml", "kind: ConfigMap\ndata: {hello: {{ .Values.who | upper }}}\n"),
//!     ],
//!     &Limits::default(),
//! )?;
//! let budget = Budget::default();
//! let prepared = prepare(&chart, &serde_json::Map::new(), Options::default(), &budget)?;
//! let release =
//!     Release { name: "r".into(), namespace: "default".into(), is_upgrade: false, revision: 1 };
//! let capabilities = Capabilities::without_cluster(KubeVersion::parse("v1.34.0")?);
//! let rendered = prepared.render(&release, &capabilities, Box::new(Still), &budget)?;
//! assert_eq!(rendered.documents[0].object["data"]["hello"], "WORLD");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod chart;
mod dependencies;
mod der;
mod engine;
mod functions;
mod glob;
mod hooks;
mod host;
pub mod index;
mod json;
mod keys;
mod limits;
mod manifest;
mod objects;
mod packed;
pub mod preview;
mod print;
pub mod release;
mod render;
mod rendered;
pub mod request;
mod schema;
mod schema_cost;
mod semver;
pub mod set;
mod url;
pub mod values;
pub mod yaml;

pub use chart::{
    Chart, ChartError, Data, Dependency, File, IgnoreError, Invalid, Maintainer, Metadata, Rules,
};
pub use engine::TemplateError;
pub use engine::state::OverBudget;
pub use hooks::{DeletePolicy, Hook, HookEvent};
pub use host::{Host, Lookup, LookupError};
pub use keys::{Algorithm, KeyError, PrivateKey};
pub use limits::{Budget, Limits};
pub use manifest::{Document, ManifestError};
pub use objects::{Capabilities, KubeVersion, KubeVersionError};
pub use print::{NotShown, Show, print};
pub use release::Release;
pub use render::{CrdFile, Options, Prepared, RenderError, Rendered, prepare};
pub use rendered::RenderedText;
pub use schema::SchemaError;
pub use semver::{Constraint, ConstraintError, Version, VersionError};
