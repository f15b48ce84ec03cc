//! Which database keeps people, policies and servers: the one that `GIG_DATABASE_URL` names, else a file
//! of this appliance's own in its data directory.
//!
//! The record and the vault stay in the data directory of each appliance.

use std::{path::Path, sync::Arc};

use anyhow::{Context, bail};
use gig_web::{PostgresStore, SqliteStore, Store};

/// Opens it; makes its tables if need be.
///
/// # Errors
/// When it cannot be used; says why, and nothing of a URL, which holds a password.
pub(super) fn open(dir: &Path) -> anyhow::Result<Arc<dyn Store>> {
    let Some(url) = url()? else {
        return Ok(Arc::new(SqliteStore::open(&dir.join(FILE))?));
    };
    let store = PostgresStore::open(&url).with_context(|| {
        format!("{VARIABLE} (without it, a database in the data directory is used)")
    })?;
    Ok(Arc::new(store))
}

/// The hosts, addresses and ports of the database that is reached over a network.
///
/// # Errors
/// When the URL is damaged.
pub(super) fn places() -> anyhow::Result<Vec<(String, u16)>> {
    match url()? {
        Some(url) => PostgresStore::places(&url).context(VARIABLE),
        None => Ok(Vec::new()),
    }
}

/// The URL of the database that a fleet shares, if there is one.
///
/// # Errors
/// When it is no text.
pub(crate) fn url() -> anyhow::Result<Option<String>> {
    let Some(url) = std::env::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    match url.into_string() {
        Ok(url) => Ok(Some(url)),
        Err(_) => bail!("{VARIABLE} is no text"),
    }
}

const VARIABLE: &str = "GIG_DATABASE_URL";
/// In the data directory, with the vault's tables beside ours.
const FILE: &str = "gig.db";
