//! What of an answer's body was not here with its header section.
//!
//! Read when the program has taken what came before: a slow reader slows the origin. It ends after as
//! many octets as were announced; an earlier end is told as one.

use std::{
    io,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{Bytes, BytesMut};

use super::{Held, State, wire::ROOM};

/// The rest of an answer. Dropping it before its end leaves the connection to nobody else.
pub struct Rest {
    held: Arc<Held>,
    first: Bytes,
    /// Not handed on yet, with `first`.
    left: u64,
    room: usize,
    /// It broke; told when what came before is on its way.
    broken: Option<io::Error>,
}

impl Rest {
    pub(super) const fn new(held: Arc<Held>, first: Bytes, length: u64) -> Self {
        Self {
            held,
            first,
            left: length,
            room: ROOM,
            broken: None,
        }
    }

    /// Octets that still come.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// When the connection breaks, or ends before what was announced.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        if !self.first.is_empty() {
            let first = std::mem::take(&mut self.first);
            self.left = self.left.saturating_sub(octets(&first));
            return Poll::Ready(Some(Ok(first)));
        }
        if let Some(error) = self.broken.take() {
            return Poll::Ready(Some(Err(error)));
        }
        let Poll::Ready(read) = self.poll_more(cx) else {
            return Poll::Pending;
        };
        Poll::Ready(match read {
            Ok(piece) => Some(Ok(piece)),
            Err(error) => {
                // hyper forgets what it has not sent yet when a body breaks.
                self.broken = Some(error);
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
        })
    }

    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Bytes>> {
        let mut state = self.held.state.lock();
        let State { wire, reader } = &mut *state;
        let Some(wire) = wire else {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        };
        let Poll::Ready(read) = wire.poll_read(cx, self.room) else {
            reader.clone_from(cx.waker());
            return Poll::Pending;
        };
        let read = match read {
            Ok(read @ 1..) => read,
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Poll::Ready(Err(error)),
        };
        if read >= self.room {
            self.room = WIDE;
        }
        let mut piece = wire.buffer.split();
        if octets(&piece) >= self.left {
            // What follows an answer belongs to none.
            wire.spent |= octets(&piece) > self.left;
            piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
            wire.busy = false;
            if self.room > ROOM {
                // A connection that waits holds no more than it needs.
                wire.buffer = BytesMut::new();
            }
        }
        self.left = self.left.saturating_sub(octets(&piece));
        Poll::Ready(Ok(piece.freeze()))
    }
}

impl std::fmt::Debug for Rest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rest")
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

fn octets(piece: &[u8]) -> u64 {
    u64::try_from(piece.len()).unwrap_or(u64::MAX)
}

/// Of a body that fills what it is given: four TLS records at once.
const WIDE: usize = 64 * 1024;
