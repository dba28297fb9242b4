//! What commands print. Names, messages and errors are texts of tenants: on a terminal they must not command it.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{IsTerminal as _, Write as _};
use std::process::ExitCode;

/// Prints a text for people.
pub(crate) fn show(text: &str) {
    write(&printable(text));
}

/// Prints data: as they are where a program or a file takes them.
pub(crate) fn data(text: &str) {
    if std::io::stdout().is_terminal() { show(text) } else { write(text) }
}

fn write(text: &str) {
    // A reader that has seen enough is no failure.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Prints why a command failed, and gives its exit code.
#[allow(clippy::print_stderr, reason = "a command prints")]
pub(crate) fn failed(error: impl Display) -> ExitCode {
    eprintln!("Error: {}", printable(&error.to_string()));
    ExitCode::FAILURE
}

/// Control characters and those that change the direction of writing are replaced.
fn printable(text: &str) -> Cow<'_, str> {
    let commands = |c: char| {
        c.is_control() && !matches!(c, '\n' | '\t')
            || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(commands) {
        return text.into();
    }
    text.chars().map(|c| if commands(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_takes_no_command_from_a_tenant() {
        let given = "step \u{1b}[2J\u{7}a\tb\r\nreversed \u{202e}c \u{e4}";
        assert_eq!(
            printable(given),
            "step \u{fffd}[2J\u{fffd}a\tb\u{fffd}\nreversed \u{fffd}c \u{e4}"
        );
        assert!(matches!(printable("a\tb\n\u{e4}"), Cow::Borrowed(_)));
    }
}
