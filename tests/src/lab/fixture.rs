//! Programs and files that tests bring along, from `tests/fixtures`.

use std::{fs, path::PathBuf};

use super::place;

/// The text of a fixture.
///
/// # Panics
/// When there is none of that name.
#[must_use]
pub fn text(name: &str) -> String {
    let path = path(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Where a fixture lies.
#[must_use]
pub fn path(name: &str) -> PathBuf {
    place::repository().join("tests/fixtures").join(name)
}
