//! What failed tests say: gathered from the output of the test runner and repeated in the summary, where it is found at once.

/// How much of each failure is repeated, in characters; the whole text is in the output above.
const MAX_CHARS: usize = 3_000;

/// Failed tests of one test run, read line by line.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// Name and output of the failed test that is being read.
    reading: Option<(String, String)>,
    found: Vec<String>,
}

impl Failures {
    /// The next line of the output.
    pub(crate) fn read(&mut self, line: &str) {
        let name = line.strip_prefix("---- ").and_then(|rest| rest.strip_suffix(" stdout ----"));
        if name.is_some() || line == "failures:" {
            self.end();
        }
        if let Some(name) = name {
            self.reading = Some((name.to_owned(), String::new()));
        } else if let Some((_, output)) = &mut self.reading {
            output.push_str(line);
            output.push('\n');
        }
    }

    /// Each failed test with why it failed.
    pub(crate) fn finish(mut self) -> Vec<String> {
        self.end();
        self.found
    }

    fn end(&mut self) {
        if let Some((name, output)) = self.reading.take() {
            self.found.push(format!("{name}\n{}", reason(output.trim())));
        }
    }
}

/// The panic and what it says, without the stack; without one the end of the output.
fn reason(output: &str) -> String {
    let output =
        output.find("\nstack backtrace:").and_then(|at| output.get(..at)).unwrap_or(output);
    let panic = output.find(" panicked at ");
    let start = panic.map(|at| output.get(..at).and_then(|text| text.rfind('\n')));
    let Some(start) = start else {
        let skipped = output.chars().count().saturating_sub(MAX_CHARS);
        return output.chars().skip(skipped).collect();
    };
    let text = output.get(start.map_or(0, |at| at + 1)..).unwrap_or_default();
    text.chars().take(MAX_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_repeated_from_their_panic_on() {
        let output = "test a ... FAILED\n\nfailures:\n\n---- one::a stdout ----\n  ... starting\n\n\
            thread 'one::a' (7) panicked at tests/it/a.rs:3:5:\nleft: 1\n right: 2\n\
            stack backtrace:\n   0: __rustc::rust_begin_unwind\n\n\
            ---- b stdout ----\nError: \"no\"\n\nfailures:\n    b\n    one::a\n\ntest result: FAILED.";
        let mut failures = Failures::default();
        output.lines().for_each(|line| failures.read(line));
        let panic = "thread 'one::a' (7) panicked at tests/it/a.rs:3:5:\nleft: 1\n right: 2";
        assert_eq!(failures.finish(), [format!("one::a\n{panic}"), "b\nError: \"no\"".into()]);
    }

    #[test]
    fn long_texts_are_cut() {
        let long = "ü".repeat(MAX_CHARS * 2);
        assert_eq!(reason(&long).chars().count(), MAX_CHARS);
        assert_eq!(reason(&format!("x\nit panicked at y{long}")).chars().count(), MAX_CHARS);
    }
}
