//! `cargo xtask answers KIND FILE.jsonl[.gz]`: what this implementation answers to corpus records.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// cue, helm, render or admission
    kind: String,
    /// The records, one JSON object a line, perhaps packed with gzip
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let Some(answer) = vela_tests::answers::kind(&args.kind) else {
        bail!(
            "no answers of kind {:?}: choose cue, helm, render, admission, admission-cue-gates or admission-auth-gates",
            args.kind
        );
    };
    let file =
        File::open(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let packed = args.file.extension().is_some_and(|extension| extension == "gz");
    let records: Box<dyn Read + Send> =
        if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
    let folder = args.file.parent().unwrap_or(Path::new("."));
    let output = BufWriter::new(std::io::stdout());
    vela_tests::answers::run(answer, folder, BufReader::new(records), output)?;
    Ok(ExitCode::SUCCESS)
}
