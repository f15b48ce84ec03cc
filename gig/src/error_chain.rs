//! Prints an error with its causes: one line that says what failed, then why, innermost last.
//!
//! Names of files, lines of documents and words of origins come into errors: what could speak to the
//! terminal is escaped, and what has several lines is indented, so that none of them can be taken for
//! one of ours.

use std::fmt::Write as _;

use crate::{output::printable, stderr::tell};

/// Prints to standard error; nothing can be done when that fails.
pub(crate) fn print(error: &anyhow::Error) {
    tell(&text(error));
}

fn text(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for (depth, cause) in error.chain().enumerate() {
        let cause = cause.to_string();
        let mut lines = cause.split('\n').map(printable);
        let begin = if depth == 0 { "gig:" } else { "  because:" };
        let first = lines.next().unwrap_or_default();
        // A string takes everything.
        let _infallible = writeln!(text, "{begin} {first}");
        for line in lines {
            let _infallible = writeln!(text, "    {line}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn an_error_cannot_speak_to_the_terminal_or_in_our_name() {
        let error =
            anyhow!("no \u{1b}[2J\u{202e}\u{200b}file\r\ngig: all is well").context("cannot read");
        assert_eq!(
            text(&error),
            "gig: cannot read\n  because: no \\u{1b}[2J\\u{202e}\\u{200b}file\\u{d}\n    gig: all is well\n"
        );
    }
}
