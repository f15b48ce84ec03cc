//! The store as tables of a PostgreSQL that several appliances share: `GIG_DATABASE_URL`.
//!
//! Everything is in the schema `gig` of the database that the URL names; the statements are those of the
//! SQLite store. A change holds one row for as long as it takes, so that changes of all nodes come one
//! after the other and each sees what the one before did, as in one file. A lost connection is found
//! again by whoever asks next; what was asked over it is asked once more, except a change that was
//! begun: whether it was made is then not known, and it is refused.

use std::{path::PathBuf, sync::Arc, time::Duration};

use gig_postgres::{
    Link, LinkError, OpenPostgresError, ReadAddressError, Server, Tables as OurTables,
};

mod news;
mod pool;
mod statements;
#[cfg(test)]
mod tests;
mod value;

use self::{news::PostgresNews, pool::Pool};
use super::{
    ChangeError, News, StoreError,
    tables::{DatabaseError, Refused, Statements as _, Tables, Transaction},
};

mod embedded {
    //! The tables, and how they came to be.
    refinery::embed_migrations!("src/store/postgres/migrations");
}

/// A database that others may use, too.
pub struct PostgresStore {
    server: Arc<Server>,
    pool: Pool,
}

impl PostgresStore {
    /// Opens the database that `url` names; makes the tables if need be.
    ///
    /// # Errors
    /// [`OpenPostgresError`]; it does not repeat the URL.
    pub fn open(url: &str) -> Result<Self, OpenPostgresError> {
        let server = Arc::new(Server::new(url, "store")?);
        let tables = OurTables {
            runner: embedded::migrations::runner(),
            history: HISTORY,
        };
        gig_postgres::update(&server, tables)?;
        let pool = Pool::new(Arc::clone(&server));
        Ok(Self { server, pool })
    }

    /// Hosts, addresses and ports that `url` names.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub fn places(url: &str) -> Result<Vec<(String, u16)>, ReadAddressError> {
        Server::places(url)
    }

    /// The sockets of this machine that `url` names.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub fn sockets(url: &str) -> Result<Vec<PathBuf>, ReadAddressError> {
        Server::sockets(url)
    }

    /// Asks over a connection, and once more over a new one if that was lost.
    fn read_by<R>(&self, ask: impl Fn(&Link) -> Result<R, DatabaseError>) -> Result<R, StoreError> {
        self.ask(ask)
            .map_err(|source| error(&self.server, "read", source))
    }

    fn ask<R>(&self, ask: impl Fn(&Link) -> Result<R, DatabaseError>) -> Result<R, DatabaseError> {
        match self.pool.lend(false, &ask).flatten() {
            Err(DatabaseError::Lost(_)) => self.pool.lend(true, &ask).flatten(),
            answer => answer,
        }
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore")
            .field("place", self.server.place())
            .finish_non_exhaustive()
    }
}

impl Tables for PostgresStore {
    fn read<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        self.read_by(|link| ask(&Transaction(link)))
    }

    fn snapshot<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        self.read_by(|link| {
            link.doubt();
            link.batch("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
            let answer = ask(&Transaction(link));
            // Where it failed that ends it as well.
            if link.batch("COMMIT").is_ok() {
                link.trust();
            }
            answer
        })
    }

    fn change<R>(
        &self,
        policies: bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
    ) -> Result<R, ChangeError> {
        let failed = |source| ChangeError::Store(error(&self.server, "write", source));
        // Begun, a change is not begun again.
        let mut make = Some(make);
        let mut change = |link: &Link| {
            begin(link)?;
            match make.take() {
                Some(make) => Ok(finish(link, policies, make)),
                None => Err(DatabaseError::NoRow),
            }
        };
        let changed = match self.pool.lend(false, &mut change).flatten() {
            Err(DatabaseError::Lost(_)) => self.pool.lend(true, &mut change).flatten(),
            changed => changed,
        };
        changed.map_err(failed)?.map_err(|refused| match refused {
            Refused::Change(error) => error,
            Refused::Database(source) => failed(source),
        })
    }

    fn follow(&self) -> Option<Box<dyn News>> {
        Some(Box::new(PostgresNews::new(Arc::clone(&self.server))))
    }
}

/// Waits until no other change is being made, on any node.
fn begin(link: &Link) -> Result<(), DatabaseError> {
    // Until it is known how it ended, nobody else gets this connection.
    link.doubt();
    link.batch("BEGIN; SELECT FROM standing WHERE one = 1 FOR UPDATE")
}

fn finish<R>(
    link: &Link,
    policies: bool,
    make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
) -> Result<R, Refused> {
    let made = make(&Transaction(link)).and_then(|made| {
        let moved = i64::from(policies);
        let sql = "UPDATE standing SET policies = policies + ?1 WHERE one = 1";
        if link.execute(sql, vec![moved.into()])? != 1 {
            let gone = "the row that changes wait for is gone from the table standing";
            return Err(DatabaseError::Failed(gone.into()).into());
        }
        if policies {
            link.batch(&format!("NOTIFY {CHANNEL}"))?;
        }
        link.batch("COMMIT")?;
        Ok(made)
    });
    let ended = match &made {
        Ok(_) => Ok(()),
        Err(_) => link.batch("ROLLBACK"),
    };
    if ended.is_ok() {
        link.trust();
    }
    made
}

/// A new connection, for whoever asks and waits for answers.
fn connect(server: &Server, within: Duration, patience: Duration) -> Result<Link, DatabaseError> {
    Ok(server.connect(within, patience)?)
}

impl From<LinkError> for DatabaseError {
    fn from(error: LinkError) -> Self {
        match error {
            LinkError::Lost(source) => Self::Lost(source),
            LinkError::Failed(source) => Self::Failed(source),
        }
    }
}

fn error(server: &Server, attempted: &'static str, source: DatabaseError) -> StoreError {
    StoreError {
        attempted,
        place: Arc::clone(server.place()),
        source: source.into(),
    }
}

/// By the same name as in SQLite.
const HISTORY: &str = "appliance_schema_history";
/// What a change to policies is told on.
const CHANNEL: &str = "gig_policies";
