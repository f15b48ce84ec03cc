//! Where the vault is: with everything else that a fleet shares, else in the data directory.

use std::{path::PathBuf, sync::Arc};

use anyhow::Context;
use gig_vault::store::{Store, postgres::PostgresStore, sqlite::SqliteStore};
use parking_lot::Mutex;

use crate::{data_dir, serve::database, stderr::tell};

/// Opens it; makes its tables if need be. One that a fleet shares is opened once in a process: it has a
/// thread that follows what others change.
///
/// # Errors
/// When it cannot be used; says nothing of a URL, which holds a password.
pub(super) fn open() -> anyhow::Result<Arc<dyn Store>> {
    static SHARED: Mutex<Option<Arc<PostgresStore>>> = Mutex::new(None);
    let Some(url) = database::url()? else {
        let path = database::file(&data_dir::path()?)?;
        return Ok(Arc::new(SqliteStore::open(&path)?));
    };
    let mut shared = SHARED.lock();
    if let Some(store) = &*shared {
        return Ok(Arc::clone(store) as Arc<dyn Store>);
    }
    let opened = PostgresStore::open(&url).context(database::VARIABLE)?;
    let store = Arc::new(opened);
    tell_of_file();
    *shared = Some(Arc::clone(&store));
    Ok(store)
}

/// Whether a fleet shares it.
///
/// # Errors
/// When the URL is no text.
pub(super) fn is_shared() -> anyhow::Result<bool> {
    Ok(database::url()?.is_some())
}

/// Whether there is a vault to look into. Where a file would be, nothing is opened.
///
/// # Errors
/// When no variable says where it would be, or a fleet's cannot be asked.
pub(super) fn is_there() -> anyhow::Result<bool> {
    match is_shared()? {
        true => is_begun(),
        false => Ok(file()?.exists()),
    }
}

/// Whether it was ever used: it has a key.
///
/// # Errors
/// When it cannot be read.
pub(super) fn is_begun() -> anyhow::Result<bool> {
    if !is_shared()? && !file()?.exists() {
        return Ok(false);
    }
    Ok(!open()?.snapshot()?.keys.is_empty())
}

/// Whoever had secrets here before the fleet had a vault is told that they are in no use.
fn tell_of_file() {
    let Ok(file) = file() else { return };
    // One that cannot be read is in no use either.
    let held = || {
        Some(
            !SqliteStore::open(&file)
                .ok()?
                .snapshot()
                .ok()?
                .secrets
                .is_empty(),
        )
    };
    if !file.exists() || held() == Some(false) {
        return;
    }
    tell(&format!(
        "gig: warning: the secrets in {} are not used: with {} they are in its database; set them there\n",
        file.display(),
        database::VARIABLE
    ));
}

fn file() -> anyhow::Result<PathBuf> {
    Ok(data_dir::path()?.join(FILE))
}

const FILE: &str = "gig.db";
