//! Which database keeps people, policies, servers and the record: the one that `GIG_DATABASE_URL` names, else
//! files of this appliance's own in its data directory. The vault is there, too (`secrets`).

use std::{
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
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
        let store = SqliteStore::open(&file(dir)?)?;
        // Told once, by whoever serves.
        let _first = BEGUN_WITH.set(store.identity());
        return Ok(Arc::new(store));
    };
    let store = PostgresStore::open(&url).with_context(|| {
        format!("{VARIABLE} (without it, a database in the data directory is used)")
    })?;
    Ok(Arc::new(store))
}

/// Where everything but the record is, or will be: also the vault.
///
/// # Errors
/// When it is missing, and a record says that it was there: none is begun anew in its place.
pub(crate) fn file(dir: &Path) -> anyhow::Result<PathBuf> {
    let path = dir.join(FILE);
    let record = Part::Record.place(dir);
    if !path.exists() && record.exists() {
        bail!(
            "{} is missing, which has people, policies, servers and secrets, beside the record in {}: put it back \
             (gig restore), or move the record away to begin anew",
            path.display(),
            record.display()
        );
    }
    if let Some(begun) = BEGUN_WITH.get() {
        let found = SqliteStore::identity_of(&path);
        let found = found.with_context(|| format!("cannot look at {}", path.display()))?;
        if found != *begun {
            bail!(
                "another file is in the place of {}: stop gig, put back the one that it began with, and start it",
                path.display()
            );
        }
    }
    Ok(path)
}

/// Device and inode of the file that this process began with.
static BEGUN_WITH: OnceLock<(u64, u64)> = OnceLock::new();

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
/// When it is no text, or the appliance of the data directory has one that is not named here.
pub(crate) fn url() -> anyhow::Result<Option<String>> {
    let named = named()?;
    if named.is_none()
        && let Ok(dir) = data_dir::path()
    {
        refuse_files_of_a_fleet(&dir)?;
    }
    Ok(named)
}

fn named() -> anyhow::Result<Option<String>> {
    let Some(url) = gig_vault::environment::var_os(VARIABLE).filter(|url| !url.is_empty()) else {
        return Ok(None);
    };
    match url.into_string() {
        Ok(url) => Ok(Some(url)),
        Err(_) => bail!("{VARIABLE} is no text"),
    }
}

/// Leaves word for commands beside `gig serve`, which holds `dir`, whether everything is in a fleet's database.
///
/// # Errors
/// When it cannot be written: a command without the variable would write to files that nobody reads.
pub(super) fn leave_word(dir: &Path) -> anyhow::Result<()> {
    leave(dir, named()?.is_some())
}

fn leave(dir: &Path, is_shared: bool) -> anyhow::Result<()> {
    let path = dir.join(SHARED);
    let done = match is_shared {
        true => fs::write(&path, ""),
        false => match fs::remove_file(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        },
    };
    done.with_context(|| format!("cannot keep in {} which database is used", path.display()))
}

/// Whether anything was kept yet in the data directory, or a fleet's database is named.
///
/// # Errors
/// When no variable says where the data directory is, or one is wrong.
pub(crate) fn is_begun() -> anyhow::Result<bool> {
    Ok(url()?.is_some() || data_dir::path()?.join(FILE).exists())
}

/// What `gig serve` keeps in a fleet's database is not looked for in files, nor kept in new ones.
fn refuse_files_of_a_fleet(dir: &Path) -> anyhow::Result<()> {
    let path = dir.join(SHARED);
    if path.exists() {
        bail!(
            "{VARIABLE} is not set, and gig serve keeps everything of {} in the database that it names: set it as for \
             gig serve (if files are used again, start gig serve without it once; {} says so until then)",
            dir.display(),
            path.display()
        );
    }
    Ok(())
}

pub(crate) const VARIABLE: &str = "GIG_DATABASE_URL";
/// In the data directory, with the vault's tables beside ours.
const FILE: &str = "gig.db";
/// There while a fleet's database is used in place of files.
const SHARED: &str = "serve.shared";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_not_used_beside_a_fleets_database() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        refuse_files_of_a_fleet(dir).unwrap();
        leave(dir, false).unwrap();
        leave(dir, true).unwrap();
        let refused = refuse_files_of_a_fleet(dir).unwrap_err().to_string();
        assert!(refused.contains(VARIABLE), "{refused}");
        assert!(refused.contains(&dir.display().to_string()), "{refused}");
        leave(dir, false).unwrap();
        refuse_files_of_a_fleet(dir).unwrap();
    }
}
