//! The bench's one error: a text for the person who runs it.

use std::{error::Error, fmt::Display};

/// A value, or a text that says what went wrong.
pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Says what was being done when `result` failed.
pub(crate) fn doing<T, E: Display>(
    result: Result<T, E>,
    what: impl FnOnce() -> String,
) -> Outcome<T> {
    result.map_err(|error| format!("{}: {error}", what()).into())
}
