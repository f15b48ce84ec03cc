//! Asks the driver of an HTTP/2 connection whether its origin takes WebSockets (RFC 8441 §3).
//!
//! The answer is in the origin's first SETTINGS, which may still be on their way when the first
//! request wants to go: nobody may send an extended CONNECT before they are here.

use std::{pin::pin, time::Duration};

use hyper::client::conn::http2::Connection;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{mpsc, oneshot},
    time::Instant,
};

use crate::http::{body::Upload, limits};

/// Asks.
#[derive(Debug, Clone)]
pub struct Settled(mpsc::Sender<oneshot::Sender<bool>>);

/// Is asked.
#[derive(Debug)]
pub struct Questions(mpsc::Receiver<oneshot::Sender<bool>>);

/// Both ends.
#[must_use]
pub fn settled() -> (Settled, Questions) {
    let (ask, asked) = mpsc::channel(1);
    (Settled(ask), Questions(asked))
}

impl Settled {
    /// Whether extended CONNECT may be sent; false, too, when the connection is gone.
    pub async fn takes_websockets(&self) -> bool {
        let (answer, answered) = oneshot::channel();
        self.0.send(answer).await.is_ok() && answered.await.unwrap_or(false)
    }
}

/// Runs a connection to its end and answers what is asked of it.
///
/// # Errors
/// Those of the connection.
pub async fn drive<S>(
    connection: Connection<hyper_util::rt::TokioIo<S>, Upload, limits::Owner>,
    Questions(mut asked): Questions,
) -> hyper::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut connection = pin!(connection);
    let mut waiting: Vec<oneshot::Sender<bool>> = Vec::new();
    let opened = Instant::now();
    loop {
        tokio::select! {
            ended = &mut connection => return ended,
            Some(question) = asked.recv() => waiting.push(question),
            () = tokio::time::sleep(LOOK_AGAIN), if !waiting.is_empty() => {}
        }
        let here = connection.current_max_send_streams() != limits::STREAMS_BEFORE_SETTINGS;
        if here || opened.elapsed() >= PATIENCE {
            let enabled = connection.is_extended_connect_protocol_enabled();
            for question in waiting.drain(..) {
                // Who asked may be gone.
                let _gone = question.send(enabled);
            }
        }
    }
}

/// h2 tells nobody that SETTINGS came: while somebody waits, it is looked again.
const LOOK_AGAIN: Duration = Duration::from_millis(2);
/// SETTINGS are the first thing that an origin sends (RFC 9113 §3.4).
const PATIENCE: Duration = Duration::from_secs(10);
