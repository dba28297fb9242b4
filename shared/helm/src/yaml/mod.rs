//! YAML as Helm reads and writes it: YAML 1.1 through JSON in, the layouts of go-yaml v2 (`toYaml`) and v3
//! (`toYamlPretty`) out.
//!
//! Every value passes through JSON, as in Helm: keys are texts, times are texts, and there is nothing but null, booleans,
//! numbers, texts, lists and maps.
//!
//! Our own: serde-saphyr and granit-parser read YAML 1.2, and nobody writes go-yaml's layouts.

mod emit;
mod parse;
mod read;
mod resolve;
mod scan;

pub(crate) use emit::{Emitter, Place, natural};
pub use emit::{Layout, write};
pub use read::{YamlError, read, read_at, read_values, to_floats};
pub(crate) use read::{json_kind, read_value};
