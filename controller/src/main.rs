//! The process: flags, logs, runtime. Everything else is in the library.

use std::process::ExitCode;

use vela_controller::{Config, Flags, run};
use vela_serve::flags::{self, FlagError};
use vela_serve::{log, shutdown};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let parsed = match flags::parse::<Flags>(std::env::args_os().skip(1)) {
        Ok(parsed) => parsed,
        Err(error) => return told(&error),
    };
    match start(parsed) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn start(parsed: flags::Parsed<Flags>) -> anyhow::Result<()> {
    let config = Config::try_from(parsed.flags);
    let process = config.as_ref().map(|config| config.process.log());
    let log = log::init(process.unwrap_or_default())?;
    for warning in &parsed.warnings {
        tracing::warn!("{warning}");
    }
    log.toggle_on_signal()?;
    run(config?, shutdown::on_signal()?).await
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "before there is a log")]
fn told(error: &FlagError) -> ExitCode {
    match error {
        FlagError::Shown(text) => println!("{text}"),
        FlagError::Refused(text) => eprintln!("{text}"),
    }
    ExitCode::from(error.code())
}
