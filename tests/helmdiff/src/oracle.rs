//! What Helm makes of a case.

use anyhow::{Context as _, Result};
use engine_diff::Oracle;

use crate::answer::{self, Answer};
use crate::case::Case;

/// What Helm makes of a case.
pub(crate) fn ask(oracle: &mut Oracle, case: &Case) -> Result<Answer> {
    oracle.send(case.request())?;
    let Some(line) = oracle.line() else { return Ok(Answer::Failed("crash")) };
    let answer = answer::of_oracle(&line).context("the oracle's line is not JSON")?;
    if matches!(answer, Answer::Failed("timeout")) {
        oracle.restart();
    }
    Ok(answer)
}
