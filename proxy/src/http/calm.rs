//! Ends an HTTP/2 connection on which a program sends frames for their own sake.
//!
//! h2 bounds resets, CONTINUATION, empty DATA and what a header section may grow to. PING, SETTINGS,
//! PRIORITY and unknown frames cost us an answer or a look each and are bounded nowhere: they are
//! counted here, beneath h2, by the nine octets that each frame begins with (RFC 9113 §4.1). Frames
//! that carry something make up for some.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Instant,
};

/// More frames without content than any honest program sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a flood of HTTP/2 frames that carry nothing")]
pub struct Flood;

/// A stream of HTTP/2 frames that ends when they become a flood.
#[derive(Debug)]
pub struct Calm<S> {
    inner: S,
    flooded: Arc<AtomicBool>,
    frames: Frames,
}

/// Counts frames without looking into them.
#[derive(Debug)]
struct Frames {
    /// What of the next frame's head is here.
    head: [u8; HEAD],
    filled: usize,
    /// Octets that belong to no frame's head: the rest of a payload, or of the preface.
    skip: usize,
    idle: u32,
    since: Instant,
}

impl<S> Calm<S> {
    /// Around a stream that begins with the connection preface. `flooded` is set when it is ended
    /// here: h2 keeps no error's cause.
    pub fn new(inner: S, flooded: Arc<AtomicBool>) -> Self {
        Self {
            inner,
            flooded,
            frames: Frames {
                head: [0; HEAD],
                filled: 0,
                skip: PREFACE,
                idle: 0,
                since: Instant::now(),
            },
        }
    }
}

impl Frames {
    fn read(&mut self, mut octets: &[u8]) -> Result<(), Flood> {
        loop {
            let skipped = self.skip.min(octets.len());
            self.skip -= skipped;
            octets = octets.get(skipped..).unwrap_or_default();
            let Some((first, rest)) = octets.split_first() else {
                return Ok(());
            };
            if let Some(room) = self.head.get_mut(self.filled) {
                *room = *first;
            }
            self.filled += 1;
            octets = rest;
            if self.filled == HEAD {
                self.filled = 0;
                let [a, b, c, kind, flags, ..] = self.head;
                self.skip = usize::try_from(u32::from_be_bytes([0, a, b, c])).unwrap_or(usize::MAX);
                self.count(kind, flags)?;
            }
        }
    }

    fn count(&mut self, kind: u8, flags: u8) -> Result<(), Flood> {
        match kind {
            DATA | HEADERS | WINDOW_UPDATE => self.idle = self.idle.saturating_sub(MADE_UP_FOR),
            RST_STREAM | GOAWAY | CONTINUATION => {}
            PING | SETTINGS if flags & ACK != 0 => {}
            _ => {
                self.idle += 1;
                if self.idle > MOST_IDLE {
                    if self.since.elapsed() < WITHIN {
                        return Err(Flood);
                    }
                    (self.idle, self.since) = (0, Instant::now());
                }
            }
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Calm<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        let fresh = buffer.filled().get(before..).unwrap_or_default();
        Poll::Ready(self.frames.read(fresh).map_err(|flood| {
            self.flooded.store(true, Ordering::Release);
            io::Error::other(flood)
        }))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Calm<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        octets: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, octets)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// RFC 9113 §3.4: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".
const PREFACE: usize = 24;
/// RFC 9113 §4.1.
const HEAD: usize = 9;
// RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
/// gRPC pings once a round trip while it measures the path, each time for data that came.
const MADE_UP_FOR: u32 = 10;
/// nginx and Envoy take about this many before they close (10,000 and 1,000).
const MOST_IDLE: u32 = 2000;
/// A connection that is only kept alive sends a few in this time.
const WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, length: u8) -> Vec<u8> {
        let mut octets = vec![0, 0, length, kind, flags, 0, 0, 0, 0];
        octets.extend(vec![0xff; usize::from(length)]);
        octets
    }

    fn connection() -> Frames {
        let mut frames = Calm::new((), Arc::default()).frames;
        frames.read(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        frames
    }

    #[tokio::test(start_paused = true)]
    async fn pings_settings_and_unknown_frames_end_it_however_they_are_cut() {
        for (kind, length) in [(PING, 8), (SETTINGS, 6), (2, 5), (200, 0)] {
            for piece in [1, 2, 9, 13, 4096] {
                let mut frames = connection();
                let octets = frame(kind, 0, length).repeat(usize::try_from(MOST_IDLE).unwrap());
                assert!(octets.chunks(piece).all(|part| frames.read(part).is_ok()));
                assert_eq!(frames.read(&frame(kind, 0, length)), Err(Flood), "{kind}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn answers_data_and_patience_do_not() {
        let mut frames = connection();
        for _ in 0..10 * MOST_IDLE {
            frames.read(&frame(PING, ACK, 8)).unwrap();
            frames.read(&frame(SETTINGS, ACK, 0)).unwrap();
            frames.read(&frame(PING, 0, 8)).unwrap();
            frames.read(&frame(DATA, 0, 100)).unwrap();
        }
        for _ in 0..10 * MOST_IDLE {
            frames.read(&frame(PING, 0, 8)).unwrap();
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    }
}
