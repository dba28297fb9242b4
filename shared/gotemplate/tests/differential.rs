//! Random templates, executed by us and by Go: outputs and error texts must be the same.
//!
//! Needs the Go toolchain; without it the test says that it was skipped. `GOTEMPLATE_CASES` and
//! `GOTEMPLATE_SEED` look at more templates and at others.

#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "a test, whose helpers clippy takes for none"
)]

mod differential {
    pub(crate) mod fixed;
    pub(crate) mod generate;
    pub(crate) mod ours;
}

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use differential::{fixed, generate, ours};

/// What Go makes of each template; `None` without Go.
fn theirs(cases: &[(String, &str)]) -> Option<Vec<Vec<u8>>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/go");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("gotemplate-oracle");
    let built = Command::new("go").current_dir(source).args(["build", "-o"]).arg(&program).status();
    match built {
        Ok(status) => assert!(status.success(), "the oracle does not build"),
        Err(error) => {
            eprintln!("SKIPPED: no Go toolchain: {error}");
            return None;
        }
    }
    let input: Vec<_> = cases
        .iter()
        .map(|(text, missing)| serde_json::json!({"Text": text, "Missing": missing}))
        .collect();
    let input = serde_json::to_vec(&input).unwrap();
    let mut oracle =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = oracle.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(&input).unwrap());
    let output = oracle.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "the oracle failed");
    let texts: Vec<String> = serde_json::from_slice(&output.stdout).unwrap();
    Some(texts.iter().map(|text| ours::from_base64(text)).collect())
}

#[test]
fn templates_give_what_go_gives() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count = number("GOTEMPLATE_CASES").unwrap_or(20_000);
    let seed = number("GOTEMPLATE_SEED").unwrap_or(1);
    let mut generator = generate::Generator::new(seed);
    let mut cases: Vec<(String, &str)> = Vec::new();
    for text in fixed::TEMPLATES {
        for missing in ["default", "zero", "error"] {
            cases.push(((*text).to_owned(), missing));
        }
    }
    for _ in 0..count {
        cases.push(generator.template());
    }
    let Some(theirs) = theirs(&cases) else { return };
    // Go prints where things are in its memory, and templates without end have another end there.
    let has = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let comparable = |text: &[u8]| !has(text, b"0xc0") && !has(text, b"TOO LONG");
    let (mut failed, mut errors, mut compared) = (Vec::new(), 0, 0);
    for ((text, missing), theirs) in cases.iter().zip(&theirs) {
        let ours = ours::execute(text, missing);
        // The one kind of constant that is not there.
        if !comparable(theirs) || has(&ours, b"complex constants are not supported") {
            continue;
        }
        compared += 1;
        errors += usize::from(theirs.starts_with(b"! "));
        // Texts of our errors are UTF-8.
        let error = theirs.starts_with(b"! ");
        let same = |theirs: &[u8]| String::from_utf8_lossy(theirs).as_bytes() == ours;
        if ours != *theirs && !(error && same(theirs)) {
            failed.push(format!(
                "{missing}: {text}\n  go:   {}\n  ours: {}",
                String::from_utf8_lossy(theirs),
                String::from_utf8_lossy(&ours),
            ));
        }
    }
    eprintln!("{compared} templates compared, {errors} of them fail");
    let shown = failed.iter().take(25).cloned().collect::<Vec<_>>().join("\n");
    assert!(failed.is_empty(), "{} of {compared} differ:\n{shown}", failed.len());
    assert!(errors * 10 > compared && errors * 10 < compared * 8, "{errors} of {compared} fail");
}
