//! The store as tables of a PostgreSQL that several appliances share: `GIG_DATABASE_URL`.
//!
//! Everything is in the schema `gig` of the database that the URL names; the statements are those of the
//! SQLite store. A change holds one row for as long as it takes, so that changes of all nodes come one
//! after the other and each sees what the one before did, as in one file. A lost connection is found
//! again by whoever asks next; what was asked over it is asked once more, except a change that was
//! begun: whether it was made is then not known, and it is refused.

use std::{io, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

mod address;
mod encryption;
mod link;
mod migrate;
mod news;
mod places;
mod pool;
#[cfg(test)]
mod tests;
mod value;

pub use address::ReadAddressError;
pub use encryption::EncryptionError;

use self::{address::Address, link::Link, news::PostgresNews, pool::Pool};
use super::{
    ChangeError, News, StoreError,
    tables::{DatabaseError, Refused, Statements as _, Tables, Transaction},
};

/// A database that others may use, too.
pub struct PostgresStore {
    server: Arc<Server>,
    pool: Pool,
}

/// The database cannot be used.
#[derive(Debug, Error)]
pub enum OpenPostgresError {
    /// The URL is not usable.
    #[error(transparent)]
    Address(#[from] ReadAddressError),
    /// There are no threads to be had.
    #[error("cannot start the threads that speak with PostgreSQL")]
    Runtime(#[source] io::Error),
    /// It cannot be reached, or does not let gig in.
    #[error("cannot use {place}")]
    Connect {
        /// Which.
        place: Arc<str>,
        /// What it said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The tables cannot be made or brought up to date.
    #[error("cannot bring gig's tables in {place} up to date")]
    Tables {
        /// Which.
        place: Arc<str>,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Somebody else could change what is in them unseen.
    #[error(
        "the schema gig in {place} belongs to another role: use that one, or a database that has no such schema"
    )]
    Anothers {
        /// Which.
        place: Arc<str>,
    },
    /// A later gig made the tables.
    #[error("gig's tables in {place} were made by a later gig: use that one")]
    Later {
        /// Which.
        place: Arc<str>,
    },
}

/// Where connections come from.
#[derive(Debug)]
struct Server {
    address: Address,
    /// There until the end.
    runtime: Option<Runtime>,
}

impl PostgresStore {
    /// Opens the database that `url` names; makes the tables if need be.
    ///
    /// # Errors
    /// [`OpenPostgresError`]; it does not repeat the URL.
    pub fn open(url: &str) -> Result<Self, OpenPostgresError> {
        let mut address = Address::read(url)?;
        prepare(&mut address);
        if address.is_in_the_clear() {
            tracing::warn!(
                place = &*address.place,
                "what is said to the database can be read on the way, as sslmode asks for"
            );
        }
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("store")
            .enable_all()
            .build()
            .map_err(OpenPostgresError::Runtime)?;
        let runtime = Some(runtime);
        let server = Arc::new(Server { address, runtime });
        migrate::migrate(&server)?;
        let pool = Pool::new(Arc::clone(&server));
        Ok(Self { server, pool })
    }

    /// Hosts, addresses and ports that `url` names.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub fn places(url: &str) -> Result<Vec<(String, u16)>, ReadAddressError> {
        Address::read(url).map(|address| places::named(&address.config))
    }

    /// Asks over a connection, and once more over a new one if that was lost.
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
            .field("place", &self.server.address.place)
            .finish_non_exhaustive()
    }
}

impl Tables for PostgresStore {
    fn read<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        let answer = self.ask(|link| ask(&Transaction(link)));
        answer.map_err(|source| self.server.error("read", source))
    }

    fn change<R>(
        &self,
        policies: bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
    ) -> Result<R, ChangeError> {
        let failed = |source| ChangeError::Store(self.server.error("write", source));
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

impl Server {
    /// `within`: what all servers together may take; `patience`: what an answer may, from then on.
    fn connect(&self, within: Duration, patience: Duration) -> Result<Link, DatabaseError> {
        let gone = || DatabaseError::Failed("its threads have ended".into());
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        Link::open(runtime.handle(), &self.address, within, patience)
    }

    fn error(&self, attempted: &'static str, source: DatabaseError) -> StoreError {
        StoreError {
            attempted,
            place: Arc::clone(&self.address.place),
            source: source.into(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Wherever this is: connections are closed, and nobody waits for them.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A server that went away without a word is noticed.
fn prepare(address: &mut Address) {
    let config = &mut address.config;
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT);
    }
    config.tcp_user_timeout(UNANSWERED);
    config.keepalives(true);
    config.keepalives_idle(QUIET);
    config.keepalives_interval(QUIET);
    config.keepalives_retries(2);
}

/// What a change to policies is told on.
const CHANNEL: &str = "gig_policies";
/// For the first packet to come back; each server has a share of the time for all besides.
const CONNECT: Duration = Duration::from_secs(3);
/// What was sent and is not taken by then is lost.
const UNANSWERED: Duration = Duration::from_secs(5);
/// After which a quiet server is asked whether it is there.
const QUIET: Duration = Duration::from_secs(5);
