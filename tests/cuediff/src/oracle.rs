//! What Go's evaluators say of a program.

use anyhow::Result;
use engine_diff::Oracle;

use crate::conformance::json::Json;
use crate::program::Program;

/// What one evaluator said of a program.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Answer(Json),
    /// It panicked, overflowed its stack or did not come to an end.
    Failed(&'static str),
}

impl Reply {
    pub(crate) fn answer(self) -> Option<Json> {
        match self {
            Self::Answer(answer) => Some(answer),
            Self::Failed(_) => None,
        }
    }
}

/// What the newer and the older evaluator say.
pub(crate) fn ask(oracle: &mut Oracle, program: &Program) -> Result<[Reply; 2]> {
    oracle.send(program.request())?;
    let mut replies = [Reply::Failed("not asked"), Reply::Failed("not asked")];
    for reply in &mut replies {
        let Some(line) = oracle.line() else {
            *reply = Reply::Failed("crash");
            break;
        };
        *reply = read(&line)?;
        if matches!(reply, Reply::Failed("timeout")) {
            oracle.restart();
            break;
        }
    }
    Ok(replies)
}

fn read(line: &str) -> Result<Reply> {
    let json = Json::parse(line).map_err(anyhow::Error::msg)?;
    Ok(if json.get("timeout").is_some() {
        Reply::Failed("timeout")
    } else if json.get("panic").is_some() {
        Reply::Failed("panic")
    } else {
        Reply::Answer(json)
    })
}
