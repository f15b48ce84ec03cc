//! What a connection speaks, learnt from its first bytes, which are then given back.
//!
//! TLS is known by its first octet and read to the end of the ClientHello; HTTP by its request line
//! or the HTTP/2 preface; all else is [`FirstBytes::Other`]. How long to listen, and what to do with
//! the answer, is the caller's.

use std::{io, time::Duration};

use bytes::{Bytes, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt as _},
    time::timeout,
};

pub use self::rewind::Rewind;
use crate::client_hello::{self, Assembly, ClientHelloFacts, Progress};

mod request_line;
mod rewind;

/// A connection whose first bytes were looked at.
#[derive(Debug)]
pub struct Sniffed<S> {
    /// What they are.
    pub first: FirstBytes,
    /// The connection, with those bytes still to be read.
    pub stream: Rewind<S>,
}

/// What the first bytes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FirstBytes {
    /// A whole TLS ClientHello.
    Tls(ClientHelloFacts),
    /// Began as TLS and is not: malformed, oversized, incomplete, or SSLv2.
    BadTls,
    /// HTTP/1 request line, or the HTTP/2 preface in clear text (`h2c` is true).
    Http {
        /// The HTTP/2 connection preface with prior knowledge (RFC 9113 §3.3).
        h2c: bool,
    },
    /// Something else.
    Other,
    /// Nothing came within the silence that was waited for: the server may be meant to speak first.
    Silent,
}

/// How long to listen.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// For the first byte; then the answer is [`FirstBytes::Silent`].
    pub silence: Duration,
    /// From the first byte to a decision; then the answer is [`FirstBytes::Other`] or
    /// [`FirstBytes::BadTls`].
    pub complete: Duration,
}

/// Reads until the protocol is known. Dropping the future loses what was read.
///
/// # Errors
/// When reading fails. A peer that closes before it sent a byte is `UnexpectedEof`.
pub async fn sniff<S: AsyncRead + Unpin>(
    mut stream: S,
    patience: Patience,
) -> io::Result<Sniffed<S>> {
    let mut front = BytesMut::with_capacity(FIRST_READ);
    match timeout(patience.silence, stream.read_buf(&mut front)).await {
        Err(_) => {
            let stream = Rewind::new(Bytes::new(), stream);
            return Ok(Sniffed {
                first: FirstBytes::Silent,
                stream,
            });
        }
        Ok(Ok(0)) => return Err(io::ErrorKind::UnexpectedEof.into()),
        Ok(read) => read?,
    };
    let mut classifier = Classifier::default();
    let decided = timeout(patience.complete, async {
        loop {
            if let Some(first) = classifier.advance(&front) {
                return Ok::<_, io::Error>(first);
            }
            if stream.read_buf(&mut front).await? == 0 {
                return Ok(classifier.at_end());
            }
        }
    });
    let first = match decided.await {
        Ok(first) => first?,
        Err(_) => classifier.at_end(),
    };
    Ok(Sniffed {
        first,
        stream: Rewind::new(front.freeze(), stream),
    })
}

/// The decision without the reading.
#[derive(Debug, Default)]
struct Classifier {
    hello: Option<Assembly>,
}

impl Classifier {
    /// Looks at all bytes so far; `None` asks for more. Never asks for more than a hello's bound.
    fn advance(&mut self, front: &[u8]) -> Option<FirstBytes> {
        if front.first().copied().is_some_and(client_hello::starts_tls) {
            return match self.hello.get_or_insert_default().advance(front) {
                Progress::NeedMore if front.len() > MAX_FRONT => Some(FirstBytes::BadTls),
                Progress::NeedMore => None,
                Progress::Hello(facts) => Some(FirstBytes::Tls(facts)),
                Progress::Invalid => Some(FirstBytes::BadTls),
            };
        }
        if client_hello::is_sslv2(front) {
            return Some(FirstBytes::BadTls);
        }
        request_line::classify(front)
    }

    /// The answer when no more comes.
    const fn at_end(&self) -> FirstBytes {
        if self.hello.is_some() {
            FirstBytes::BadTls
        } else {
            FirstBytes::Other
        }
    }
}

/// A hello with one post-quantum key share fits.
const FIRST_READ: usize = 2048;
/// A hello in one-octet records needs six octets for each of its own: that far nobody goes.
const MAX_FRONT: usize = 2 * client_hello::MAX_HELLO;

#[cfg(test)]
mod tests;
