//! Which database keeps people, policies, servers and the record: the one that `GIG_DATABASE_URL` names, else
//! files of this appliance's own in its data directory. The vault is there, too (`secrets`).

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use anyhow::{Context, bail};
use gig_audit::{Home, PostgresRecord};
use gig_web::{PostgresStore, SqliteStore, Store};

use crate::{backup::Part, data_dir};

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

/// Where the record is, or will be.
///
/// # Errors
/// When the database cannot be used, or the folder of its file not be made.
pub(crate) fn record(dir: &Path) -> anyhow::Result<Home> {
    if let Some(record) = shared_record()? {
        return Ok(Home::Postgres(record));
    }
    let path = Part::Record.place(dir);
    if let Some(folder) = path.parent() {
        data_dir::make_private(folder)?;
    }
    Ok(Home::Sqlite(path))
}

/// The record that a fleet shares, if there is one.
///
/// # Errors
/// When it cannot be used.
pub(crate) fn shared_record() -> anyhow::Result<Option<PostgresRecord>> {
    let Some(url) = url()? else { return Ok(None) };
    PostgresRecord::open(&url).map(Some).context(VARIABLE)
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

/// The sockets by which the database is reached on this machine. A URL that cannot be read leads nowhere.
pub(crate) fn sockets() -> Vec<PathBuf> {
    let url = url().ok().flatten();
    let sockets = url.and_then(|url| PostgresStore::sockets(&url).ok());
    sockets.unwrap_or_default()
}

/// The URL of the database that a fleet shares, if there is one.
///
/// # Errors
/// When it is no text.
pub(crate) fn url() -> anyhow::Result<Option<String>> {
    let Some(url) = gig_vault::environment::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    match url.into_string() {
        Ok(url) => Ok(Some(url)),
        Err(_) => bail!("{VARIABLE} is no text"),
    }
}

pub(crate) const VARIABLE: &str = "GIG_DATABASE_URL";
/// In the data directory, with the vault's tables beside ours.
const FILE: &str = "gig.db";
