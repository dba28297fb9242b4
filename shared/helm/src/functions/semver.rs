//! Versions and ranges of versions.

use gotemplate::{Failure, Function};

use super::table::{STRING, function};
use crate::engine::state::State;
use crate::objects::SemanticVersion;
use crate::semver::{Constraint, Version};

pub(super) static TABLE: &[Function<State>] = &[
    function("semver", &[STRING], |_, args| match Version::parse(&args.text(0)) {
        Ok(version) => Ok(SemanticVersion::pointer(version).into()),
        Err(error) => Err(Failure::text(error.to_string())),
    }),
    function("semverCompare", &[STRING, STRING], |call, args| {
        call.steps(args.str(0).len() as u64)?;
        let wrong = |error: &dyn std::fmt::Display| Failure::text(error.to_string());
        let range = Constraint::parse(&args.text(0)).map_err(|error| wrong(&error))?;
        let version = Version::parse(&args.text(1)).map_err(|error| wrong(&error))?;
        Ok(range.check(&version).into())
    }),
];
