//! How a node hears of changes that another one made: by a notification, at once, and by looking at the
//! count of changes four times a second, which also shows that the server is still there.

use std::{sync::Arc, time::Duration};

use gig_postgres::{Link, Server};

use super::CHANNEL;
use crate::store::{
    News, StoreError,
    tables::{DatabaseError, Statements as _},
};

/// A connection of its own, which is found again when it is lost.
pub(super) struct PostgresNews {
    server: Arc<Server>,
    link: Option<Link>,
}

impl PostgresNews {
    pub(super) fn new(server: Arc<Server>) -> Self {
        Self { server, link: None }
    }

    fn count(&mut self) -> Result<u64, DatabaseError> {
        let link = match self.link.take() {
            Some(link) => link,
            None => self.listening()?,
        };
        let rows = link.rows("SELECT policies FROM standing WHERE one = 1", Vec::new())?;
        let count = rows.first().ok_or(DatabaseError::NoRow)?.get(0)?;
        self.link = Some(link);
        Ok(count)
    }

    fn listening(&self) -> Result<Link, DatabaseError> {
        let link = super::connect(&self.server, CONNECTING, PATIENCE)?;
        link.batch(&format!("LISTEN {CHANNEL}"))?;
        Ok(link)
    }
}

impl News for PostgresNews {
    fn next(&mut self) -> Result<u64, StoreError> {
        match &self.link {
            Some(link) => link.listen(BETWEEN),
            None => std::thread::sleep(BETWEEN),
        }
        // Whoever hears that a connection was lost looks again: the server found next may have lost a
        // change, and count as many.
        self.count()
            .map_err(|source| super::error(&self.server, "follow", source))
    }
}

/// Four times as often as a change has to be known.
const BETWEEN: Duration = Duration::from_millis(250);
/// A server that takes longer to say a number cannot be relied on.
const PATIENCE: Duration = Duration::from_secs(3);
/// For all servers together, so that a second one is reached while a first one hangs.
const CONNECTING: Duration = Duration::from_secs(6);
