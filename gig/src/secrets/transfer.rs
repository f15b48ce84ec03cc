//! A fleet's vault into the file of a backup, and back. Where the vault is a file itself that file is what is
//! copied, and nothing is done here.

use std::path::{Path, PathBuf};

use anyhow::Context;
use gig_vault::store::{Store as _, empty, fill, sqlite::SqliteStore};

use super::place;

/// What puts all of the fleet's vault into the database at `file`, in place of what is there; both are opened now.
///
/// # Errors
/// When one of them cannot be used.
pub(crate) fn save_to(file: &Path) -> anyhow::Result<impl FnOnce() -> anyhow::Result<()> + use<>> {
    let opened = match place::is_shared()? {
        true => Some((SqliteStore::open(file)?, place::open()?)),
        false => None,
    };
    Ok(move || {
        if let Some((copy, vault)) = opened {
            fill(&copy, &*vault, true).context("cannot back up the vault")?;
        }
        Ok(())
    })
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

/// Puts the vault in the database at `file` into the fleet's, and takes it out of the file. What is there is put
/// aside in `aside` where it is to be replaced; else the answer is false, and nothing was changed. One that was
/// never used replaces nothing.
///
/// # Errors
/// When one of them cannot be used.
pub(crate) fn load_from(
    file: &Path,
    replace: bool,
    aside: impl FnOnce() -> anyhow::Result<PathBuf>,
) -> anyhow::Result<bool> {
    if !place::is_shared()? {
        return Ok(true);
    }
    let copy = SqliteStore::open(file)?;
    if copy.snapshot()?.is_empty() {
        return Ok(true);
    }
    let fleet = place::open()?;
    if replace && !fleet.snapshot()?.is_empty() {
        let kept = SqliteStore::open(&aside()?.join(KEPT))?;
        fill(&kept, &*fleet, true).context("cannot put the fleet's vault aside")?;
    }
    let filled = fill(&*fleet, &copy, replace).context("cannot restore the vault")?;
    if filled {
        empty(&copy).context("cannot empty the file")?;
    }
    Ok(filled)
}

/// The fleet's vault as it was, sealed.
const KEPT: &str = "vault-of-the-fleet.db";
