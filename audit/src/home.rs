//! Where an appliance's record is: a database of its own, or one that a fleet shares. Who writes, reads and
//! prunes asks here and does not care which.

use std::{fmt, path::PathBuf, sync::Arc};

use thiserror::Error;

use crate::{
    counts::CountedLog,
    signing::SigningKey,
    store::{
        Store, StoreError,
        postgres::{OpenRecordError, PostgresRecord},
        prune::{Prune, PruneError, PrunedChain},
        sqlite::{self, OpenSqliteError, SqliteLog, SqliteStore},
    },
};

/// Where the record is.
#[derive(Debug, Clone)]
pub enum Home {
    /// A file of one machine.
    Sqlite(PathBuf),
    /// A server that several nodes share.
    Postgres(PostgresRecord),
}

/// A record cannot be opened.
#[derive(Debug, Error)]
pub enum OpenHomeError {
    /// The file cannot be used.
    #[error(transparent)]
    Sqlite(#[from] OpenSqliteError),
    /// The server cannot be used.
    #[error(transparent)]
    Postgres(#[from] OpenRecordError),
    /// The server cannot be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Home {
    /// Opens the chain of `node` to continue it, signed by `key`. `serves`: as its one appliance, not as a
    /// command beside that.
    ///
    /// # Errors
    /// [`OpenHomeError`].
    pub fn store(
        &self,
        node: &str,
        key: Arc<SigningKey>,
        serves: bool,
    ) -> Result<Box<dyn Store>, OpenHomeError> {
        Ok(match self {
            // One appliance has the data directory that the file is in.
            Self::Sqlite(path) => {
                Box::new(SqliteStore::open_signing(path, node, Some(key), serves)?)
            }
            Self::Postgres(record) => Box::new(record.write(node, key, serves)?),
        })
    }

    /// Opens it to be read.
    ///
    /// # Errors
    /// [`OpenHomeError`].
    pub fn log(&self) -> Result<Box<dyn CountedLog + Send>, OpenHomeError> {
        Ok(match self {
            Self::Sqlite(path) => Box::new(SqliteLog::open(path)?),
            Self::Postgres(record) => Box::new(record.log()?),
        })
    }

    /// Removes old records, chain by chain.
    ///
    /// # Errors
    /// [`PruneError`].
    pub fn prune(&self, what: &Prune<'_>) -> Result<Vec<PrunedChain>, PruneError> {
        match self {
            Self::Sqlite(path) => sqlite::prune(path, what),
            Self::Postgres(record) => record.prune(what),
        }
    }

    /// Whether several nodes record there.
    #[must_use]
    pub const fn is_shared(&self) -> bool {
        matches!(self, Self::Postgres(_))
    }
}

impl fmt::Display for Home {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => path.display().fmt(f),
            Self::Postgres(record) => f.write_str(record.place()),
        }
    }
}
