//! One connection to a PostgreSQL, asked from threads that wait.
//!
//! The connection is driven by a runtime of the store's own; whoever asks waits beside it for a bounded
//! time, wherever it is called from. A link that lost its server, or whose server did not answer in
//! time, is [`Link::is_broken`] and is thrown away by whoever holds it.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::Thread,
    time::Duration,
};

use thiserror::Error;
use tokio::{
    runtime::Handle,
    sync::Notify,
    task::{JoinHandle, unconstrained},
    time::{Instant, timeout},
};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, NoTls, Socket, error::SqlState};

use crate::{
    address::Address,
    places::{places, share_of},
};

/// One connection.
pub struct Link {
    client: Client,
    driver: JoinHandle<()>,
    runtime: Handle,
    patience: Duration,
    broken: Cell<bool>,
    heard: Arc<Notify>,
}

/// It was not done.
#[derive(Debug, Error)]
pub enum LinkError {
    /// The connection is gone; whether it was done is not known.
    #[error("the connection was lost")]
    Lost(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The server says so, or says nothing in time: then the link is broken.
    #[error(transparent)]
    Failed(Box<dyn std::error::Error + Send + Sync>),
}

impl LinkError {
    /// With all its causes, in one line: what the server said is deep in it.
    #[must_use]
    pub fn in_full(&self) -> String {
        let mut said = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(next) = cause {
            said.push_str(": ");
            said.push_str(&next.to_string());
            cause = next.source();
        }
        said
    }
}

/// The server is there and does not answer.
#[derive(Debug, Clone, Copy, Error)]
#[error("it did not answer within {} s", .0.as_secs())]
struct Late(Duration);

impl Link {
    /// Connects and prepares the session.
    ///
    /// # Errors
    /// When no server can be reached within its share of `connecting`, or none lets gig in, or what
    /// prepares the session takes longer than `patience`.
    pub(crate) fn open(
        runtime: &Handle,
        address: &Address,
        connecting: Duration,
        patience: Duration,
    ) -> Result<Self, LinkError> {
        let heard = Arc::new(Notify::new());
        let (client, driven) = wait_for(runtime, connect(address, connecting, Arc::clone(&heard)))?;
        let link = Self {
            client,
            driver: runtime.spawn(driven),
            runtime: runtime.clone(),
            patience,
            broken: Cell::new(false),
            heard,
        };
        link.run(SESSION)?;
        Ok(link)
    }

    /// Waits for a notification, or for the end of the connection.
    pub fn listen(&self, within: Duration) {
        // Late is no news.
        let _heard: Option<()> = wait(&self.runtime, within, self.heard.notified());
    }

    /// For work that the library does with the whole client.
    ///
    /// # Errors
    /// `None` when it took longer than `within`.
    pub fn with_client<T>(
        &mut self,
        within: Duration,
        work: impl AsyncFnOnce(&mut Client) -> T,
    ) -> Option<T> {
        wait(&self.runtime, within, work(&mut self.client))
    }

    /// Whether it is of no use any more.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.get() || self.client.is_closed()
    }

    /// It is of no use unless something says otherwise.
    pub fn doubt(&self) {
        self.broken.set(true);
    }

    /// What it was doubted for went well.
    pub fn trust(&self) {
        self.broken.set(false);
    }

    /// What runs statements; by way of [`Link::asked`].
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Statements without parameters or answers.
    ///
    /// # Errors
    /// As [`Link::asked`].
    pub fn run(&self, sql: &str) -> Result<(), LinkError> {
        self.asked(self.client.batch_execute(sql))
    }

    /// What an error of the library says of the server.
    #[must_use]
    pub fn judge(&self, error: tokio_postgres::Error) -> LinkError {
        let judged = judge(error);
        if matches!(judged, LinkError::Lost(_)) {
            self.doubt();
        }
        judged
    }

    /// Waits for the server's answer, as long as the link is patient.
    ///
    /// # Errors
    /// [`LinkError`].
    pub fn asked<T>(
        &self,
        work: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, LinkError> {
        match wait(&self.runtime, self.patience, work) {
            Some(answer) => answer.map_err(|error| self.judge(error)),
            // Not tried again: who is slow is not made quicker by more of it.
            None => {
                self.doubt();
                Err(LinkError::Failed(Late(self.patience).into()))
            }
        }
    }
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("broken", &self.is_broken())
            .finish_non_exhaustive()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // The server rolls back what was begun.
        self.driver.abort();
    }
}

type Driven = Pin<Box<dyn Future<Output = ()> + Send>>;

/// To the first server that lets gig in. Each has its share of `within`, so that one that swallows what
/// it is sent, or takes a connection and says nothing, leaves time for the next.
async fn connect(
    address: &Address,
    within: Duration,
    heard: Arc<Notify>,
) -> Result<(Client, Driven), LinkError> {
    let mut last = LinkError::Failed("it names no server".into());
    let places = places(&address.config);
    let share = share_of(within, places.len());
    for place in places {
        let until = Instant::now() + share;
        let addresses = match timeout(share, place.addresses()).await {
            Ok(Ok(addresses)) => addresses,
            Ok(Err(error)) => {
                last = LinkError::Lost(error.into());
                continue;
            }
            Err(_) => {
                last = LinkError::Lost(Late(share).into());
                continue;
            }
        };
        let left = until.saturating_duration_since(Instant::now());
        let each = share_of(left, addresses.len());
        for at in addresses {
            let config = place.config(&address.config, at);
            match timeout(each, connect_to(&config, address, Arc::clone(&heard))).await {
                Ok(Ok(connected)) => return Ok(connected),
                Ok(Err(error)) => last = error,
                Err(_) => last = LinkError::Lost(Late(each).into()),
            }
        }
    }
    Err(last)
}

async fn connect_to(
    config: &Config,
    address: &Address,
    heard: Arc<Notify>,
) -> Result<(Client, Driven), LinkError> {
    Ok(match &address.encryption {
        None => {
            let (client, connection) = config.connect(NoTls).await.map_err(judge)?;
            (client, Box::pin(drive(connection, heard)))
        }
        Some(encryption) => {
            let connected = config.connect(encryption.clone()).await;
            let (client, connection) = connected.map_err(judge)?;
            (client, Box::pin(drive(connection, heard)))
        }
    })
}

/// Carries what is said, until either side ends it.
async fn drive<S>(mut connection: Connection<Socket, S>, heard: Arc<Notify>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    while let Some(message) = poll_fn(|cx| connection.poll_message(cx)).await {
        match message {
            Ok(AsyncMessage::Notification(_)) => heard.notify_one(),
            Ok(_) => {}
            Err(error) => {
                tracing::debug!(%error, "a connection to PostgreSQL was lost");
                break;
            }
        }
    }
    heard.notify_one();
}

/// Whether the server said no, or is no longer there.
fn judge(error: tokio_postgres::Error) -> LinkError {
    let leaving = |code: &SqlState| {
        ["08", "57P"]
            .iter()
            .any(|class| code.code().starts_with(class))
    };
    match error.code() {
        Some(code) if !leaving(code) => LinkError::Failed(error.into()),
        _ => LinkError::Lost(error.into()),
    }
}

/// Waits here while the work is done there; `None` when it takes longer.
fn wait<T>(runtime: &Handle, within: Duration, work: impl Future<Output = T>) -> Option<T> {
    wait_for(runtime, async { timeout(within, work).await.ok() })
}

/// Waits here while the work is done there, which is to bound itself. Unlike a runtime's own way to wait
/// it may be called from anywhere.
fn wait_for<T>(runtime: &Handle, work: impl Future<Output = T>) -> T {
    let _there = runtime.enter();
    // Within a task of another runtime a task's share of work would run out, and never be given anew: what
    // waits here is not asked to make way.
    let mut work = pin!(unconstrained(work));
    let waker = Waker::from(Arc::new(Waiting(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        if let Poll::Ready(done) = work.as_mut().poll(&mut context) {
            return done;
        }
        std::thread::park();
    }
}

struct Waiting(Thread);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Only gig's own tables are looked at, whatever else the database holds; what is acknowledged is on
/// the disk, whatever the server does otherwise and is told later; and no node that hangs, or is gone without a word, holds the others up for long.
const SESSION: &str = "
    SET search_path TO gig;
    SET default_transaction_isolation TO 'read committed';
    SET lock_timeout TO '8s';
    SET statement_timeout TO '8s';
    SET idle_in_transaction_session_timeout TO '30s';
    SET client_min_messages TO warning;
    SET tcp_keepalives_idle TO 10;
    SET tcp_keepalives_interval TO 5;
    SET tcp_keepalives_count TO 3;
    SET tcp_user_timeout TO '30s';
    SELECT set_config('synchronous_commit',
        CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
             ELSE current_setting('synchronous_commit') END, false)";

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_that_waits_here_for_long_is_not_asked_to_make_way() {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let (to, mut from) = tokio::sync::mpsc::unbounded_channel();
        for n in 0..10_000 {
            to.send(n).unwrap();
        }
        // More than a task may do before it makes way, in one go.
        let all = wait(runtime.handle(), Duration::from_secs(60), async {
            let mut sum = 0_u64;
            for _ in 0..10_000 {
                sum += from.recv().await.unwrap();
            }
            sum
        });
        assert_eq!(all, Some(49_995_000));
        runtime.shutdown_background();
    }
}
