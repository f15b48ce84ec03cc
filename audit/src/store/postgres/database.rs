//! The database itself: opened once, then written, read and pruned by connections of their own.

use std::{io, sync::Arc, time::Duration};

use gig_postgres::{Link, LinkError, OpenPostgresError, Server, Tables};
use thiserror::Error;

use crate::store::StoreError;

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// A record in a PostgreSQL, which the nodes of a fleet share. Cloning shares it.
#[derive(Debug, Clone)]
pub struct PostgresRecord(pub(super) Arc<Server>);

/// A PostgreSQL cannot be used for audit records.
#[derive(Debug, Error)]
pub enum OpenRecordError {
    /// The database cannot be used.
    #[error(transparent)]
    Database(#[from] OpenPostgresError),
    /// It failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Somebody else records by this name.
    #[error(
        "another gig records as {node} in {place}: two nodes of one name would write to one chain; give \
         one of them another name (GIG_NODE), or stop the other"
    )]
    SameName {
        /// The name.
        node: String,
        /// Which database.
        place: Arc<str>,
    },
    /// The last record is not the one that the chain ended with.
    #[error(
        "cannot continue the record of {node} in {place}: its end was changed or cut off; name this node \
         anew (GIG_NODE) and look into what happened with `gig audit verify`"
    )]
    Continue {
        /// Whose chain.
        node: String,
        /// Which database.
        place: Arc<str>,
    },
    /// There is no thread to be had.
    #[error("cannot start the thread that indexes the record")]
    Thread(#[source] io::Error),
}

impl PostgresRecord {
    /// Opens the database that `url` names; makes the tables if need be. Blocks.
    ///
    /// # Errors
    /// [`OpenPostgresError`]; it does not repeat the URL.
    pub fn open(url: &str) -> Result<Self, OpenPostgresError> {
        let server = Server::new(url, "record")?;
        let tables = Tables {
            runner: embedded::migrations::runner(),
            history: HISTORY,
        };
        gig_postgres::update(&server, tables)?;
        Ok(Self(Arc::new(server)))
    }

    /// For messages: no password.
    #[must_use]
    pub fn place(&self) -> &str {
        self.0.place()
    }

    pub(super) fn connect(&self, patience: Duration) -> Result<Link, LinkError> {
        self.0.connect(CONNECTING, patience)
    }

    pub(super) fn error(&self, attempted: &'static str, source: LinkError) -> StoreError {
        StoreError {
            attempted,
            place: self.place().to_owned(),
            source: io::Error::other(source.in_full()),
        }
    }
}

/// By the same name as in SQLite; the tables of people and policies have a history of their own.
const HISTORY: &str = "audit_schema_history";
/// For all servers of the URL together; whoever records waits no longer than a second more.
const CONNECTING: Duration = Duration::from_secs(4);
