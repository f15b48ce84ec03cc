//! What commands print on standard output: text for a person, or one JSON document for a program.

use std::{
    fmt::Write as _,
    io::{self, Write},
};

use anyhow::Context;
pub(crate) use gig_policy::printable::printable;

/// Prints `document` when `as_json`, else `text`.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(as_json: bool, document: &serde_json::Value, text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = if as_json {
        serde_json::to_string_pretty(document)
            .map_err(io::Error::from)
            .and_then(|json| writeln!(out, "{}", ascii(&json)))
    } else {
        writeln!(out, "{text}")
    };
    written.and_then(|()| out.flush()).context(UNWRITTEN)
}

/// What failed where standard output takes no more.
pub(crate) const UNWRITTEN: &str = "cannot write to standard output";

/// Whether whoever read standard output went away, as `| head` does: there is nobody to tell.
pub(crate) fn is_left(error: &anyhow::Error) -> bool {
    let root = error.root_cause().downcast_ref::<io::Error>();
    root.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
        && error.chain().any(|cause| cause.to_string() == UNWRITTEN)
}

/// Says what a person must know beside the output, on standard error, a line each.
///
/// # Errors
/// When standard error is closed.
pub(crate) fn remark(lines: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let mut out = io::stderr().lock();
    lines
        .into_iter()
        .try_for_each(|line| writeln!(out, "gig: {}", printable(&line)))
        .context("cannot write to standard error")
}

/// JSON in ASCII: whatever else stands in its strings is escaped, so that a terminal that shows it
/// obeys nobody. The value is the same.
pub(crate) fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~' | '\n') {
            out.push(character);
        } else {
            // Valid JSON has such characters inside its strings only.
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                // A string takes everything.
                let _infallible = write!(out, "\\u{unit:04x}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_ascii_and_the_same_value() {
        let value = serde_json::json!({ "a": "\u{202e}\u{9b}\u{1f600}\u{7f}\n", "ü": 1 });
        let text = ascii(&serde_json::to_string_pretty(&value).unwrap());
        assert!(
            text.chars().all(|c| matches!(c, ' '..='~' | '\n')),
            "{text:?}"
        );
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            value
        );
    }
}
