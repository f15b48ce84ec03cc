//! Where connections come from: an address and a runtime that drives them.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use thiserror::Error;
use tokio::runtime::{Builder, Runtime};

use crate::{
    address::{Address, ReadAddressError},
    link::{Link, LinkError},
    places,
};

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
        source: LinkError,
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
    /// Its role may make no schema.
    #[error("the role of {place} may make no schema there, in which gig's tables are: {grant}")]
    Ungranted {
        /// Which.
        place: Arc<str>,
        /// What lets it, in the server's language.
        grant: String,
    },
    /// It does not know what gig asks it.
    #[error("the server of {place} is PostgreSQL {version}: gig needs 14 or newer")]
    Old {
        /// Which.
        place: Arc<str>,
        /// As the server names it.
        version: String,
    },
    /// Text would be kept as octets, or not at all.
    #[error(
        "the database {place} is in {encoding}: gig needs one in UTF8 (CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0)"
    )]
    Encoding {
        /// Which.
        place: Arc<str>,
        /// Its.
        encoding: String,
    },
    /// A later gig made the tables.
    #[error("gig's tables in {place} were made by a later gig: use that one")]
    Later {
        /// Which.
        place: Arc<str>,
    },
}

/// Where connections come from. They end with it.
#[derive(Debug)]
pub struct Server {
    address: Address,
    /// There until the end.
    runtime: Option<Runtime>,
}

impl Server {
    /// Reads `url` and starts the thread that drives connections, by the name `thread`; connects nowhere yet.
    ///
    /// # Errors
    /// [`OpenPostgresError`]; it does not repeat the URL.
    pub fn new(url: &str, thread: &str) -> Result<Self, OpenPostgresError> {
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
            .thread_name(thread)
            .enable_all()
            .build()
            .map_err(OpenPostgresError::Runtime)?;
        Ok(Self {
            address,
            runtime: Some(runtime),
        })
    }

    /// Hosts, addresses and ports that `url` names.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub fn places(url: &str) -> Result<Vec<(String, u16)>, ReadAddressError> {
        Address::read(url).map(|address| places::named(&address.config))
    }

    /// The sockets of this machine that `url` names.
    ///
    /// # Errors
    /// [`ReadAddressError`].
    pub fn sockets(url: &str) -> Result<Vec<PathBuf>, ReadAddressError> {
        Address::read(url).map(|address| places::sockets(&address.config))
    }

    /// For messages: no password.
    #[must_use]
    pub const fn place(&self) -> &Arc<str> {
        &self.address.place
    }

    /// A new connection. `within`: what all servers together may take; `patience`: what an answer may, from
    /// then on. Blocks.
    ///
    /// # Errors
    /// When none of them is reached or lets gig in.
    pub fn connect(&self, within: Duration, patience: Duration) -> Result<Link, LinkError> {
        let gone = || LinkError::Failed("its threads have ended".into());
        let runtime = self.runtime.as_ref().ok_or_else(gone)?;
        Link::open(runtime.handle(), &self.address, within, patience)
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

/// For the first packet to come back; each server has a share of the time for all besides.
const CONNECT: Duration = Duration::from_secs(3);
/// What was sent and is not taken by then is lost.
const UNANSWERED: Duration = Duration::from_secs(5);
/// After which a quiet server is asked whether it is there.
const QUIET: Duration = Duration::from_secs(5);
