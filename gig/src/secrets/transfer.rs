//! A fleet's vault into the file of a backup, and back. Where the vault is a file itself that file is what is
//! copied, and nothing is done here.

use std::path::Path;

use anyhow::Context;
use gig_vault::store::{Store as _, empty, fill, sqlite::SqliteStore};

use super::place;

/// Puts all of the fleet's vault into the database at `file`, in place of what is there.
///
/// # Errors
/// When one of them cannot be used.
pub(crate) fn save_to(file: &Path) -> anyhow::Result<()> {
    if !place::is_shared()? {
        return Ok(());
    }
    let copy = SqliteStore::open(file)?;
    fill(&copy, &*place::open()?, true).context("cannot back up the vault")?;
    Ok(())
}

/// Whether the fleet's vault holds something that the one in `file` would replace.
///
/// # Errors
/// When one of them cannot be used.
pub(crate) fn would_replace(file: &Path) -> anyhow::Result<bool> {
    Ok(place::is_shared()?
        && !place::open()?.snapshot()?.is_empty()
        && !SqliteStore::open(file)?.snapshot()?.is_empty())
}

/// Puts the vault in the database at `file` into the fleet's, in place of what is there, and takes it out of the
/// file. One that was never used replaces nothing.
///
/// # Errors
/// When one of them cannot be used.
pub(crate) fn load_from(file: &Path) -> anyhow::Result<()> {
    if !place::is_shared()? {
        return Ok(());
    }
    let copy = SqliteStore::open(file)?;
    if copy.snapshot()?.is_empty() {
        return Ok(());
    }
    fill(&*place::open()?, &copy, true).context("cannot restore the vault")?;
    empty(&copy).context("cannot empty the file")
}
