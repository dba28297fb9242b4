//! The functions of templates: those of sprig, without the ones that read the environment, and Helm's own.
//!
//! One table a file, in the order of Helm's documentation. A function of Go that panics fails here with the same text.

mod certificates;
mod convert;
mod crypto;
mod data;
mod dates;
mod dicts;
pub(crate) mod encoding;
mod lists;
mod logic;
mod math;
mod paths;
mod regex;
mod semver;
mod strings;
mod syntax;
mod table;
mod toml;
mod words;
mod yaml;

use gotemplate::Function;

use crate::engine::state::State;

/// All functions but those that execute templates or ask the cluster.
pub(crate) fn tables() -> [&'static [Function<State>]; 14] {
    [
        strings::TABLE,
        words::TABLE,
        logic::TABLE,
        math::TABLE,
        lists::TABLE,
        dicts::TABLE,
        dates::TABLE,
        encoding::TABLE,
        data::TABLE,
        regex::TABLE,
        semver::TABLE,
        paths::TABLE,
        crypto::TABLE,
        certificates::TABLE,
    ]
}
