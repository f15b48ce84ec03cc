//! What commands print on standard output: text for a person, or one JSON document for a program.

use std::io::{self, Write};

use anyhow::Context;

/// Prints `document` when `as_json`, else `text`.
///
/// # Errors
/// When standard output is closed.
pub(crate) fn print(as_json: bool, document: &serde_json::Value, text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    let written = if as_json {
        serde_json::to_string_pretty(document)
            .map_err(io::Error::from)
            .and_then(|json| writeln!(out, "{json}"))
    } else {
        writeln!(out, "{text}")
    };
    written
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
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

/// `text` with control, bidirectional and invisible characters escaped: text that came from a file or
/// a sandbox must not speak to the terminal.
pub(crate) fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character.is_ascii_graphic() || character == ' ' || character.is_alphanumeric() {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}
