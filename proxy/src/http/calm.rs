//! Ends an HTTP/2 connection on which a peer sends frames for their own sake.
//!
//! h2 bounds resets, CONTINUATION, small DATA and what a header section may grow to. PING, SETTINGS,
//! PRIORITY, WINDOW_UPDATE and unknown frames cost us an answer or a look each and are bounded nowhere:
//! they are counted here, beneath h2, by the nine octets that each frame begins with (RFC 9113 §4.1).
//! What we send makes up for more of them than what the peer sends: a reader measures the path and
//! makes room as data comes, and nobody can make us send for nothing.

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

/// What was seen of a connection's frames, for who records how it went: h2 keeps no error's cause, and
/// tells nobody of a stream that it resets by itself.
#[derive(Debug, Default)]
pub struct Signs {
    flooded: AtomicBool,
    malformed: AtomicBool,
}

impl Signs {
    /// It was ended for a flood of frames.
    #[must_use]
    pub fn flooded(&self) -> bool {
        self.flooded.load(Ordering::Acquire)
    }

    /// A message on it was no HTTP: its stream was reset with `PROTOCOL_ERROR`, which nobody but h2 does.
    #[must_use]
    pub fn malformed(&self) -> bool {
        self.malformed.load(Ordering::Acquire)
    }
}

/// A stream of HTTP/2 frames that ends when they become a flood.
#[derive(Debug)]
pub struct Calm<S> {
    inner: S,
    signs: Arc<Signs>,
    theirs: Heads,
    ours: Heads,
    count: Count,
    answered: Answered,
}

/// The streams whose answers ended last: what their peers still send of a request is of no consequence, and
/// h2 resets them for a body that ends short.
#[derive(Debug)]
struct Answered {
    streams: [u32; ANSWERED],
    next: usize,
}

/// Finds the heads of frames without looking into them.
#[derive(Debug)]
struct Heads {
    /// What of the next frame's head is here, and of the code that a reset has behind it.
    head: [u8; HEAD + CODE],
    filled: usize,
    /// Octets that belong to no frame's head: the rest of a payload, or of the preface.
    skip: usize,
}

/// Weighs what a peer sends for its own sake against the rest.
#[derive(Debug)]
struct Count {
    idle: u32,
    since: Instant,
    /// Our SETTINGS and PING that have no answer yet.
    asked: u32,
}

impl<S> Calm<S> {
    /// Around a program's stream, which begins with the connection preface.
    pub fn server(inner: S, signs: Arc<Signs>) -> Self {
        Self::new(inner, signs, (PREFACE, 0))
    }

    /// Around a stream to an origin, which we begin.
    pub fn client(inner: S) -> Self {
        Self::new(inner, Arc::default(), (0, PREFACE))
    }

    fn new(inner: S, signs: Arc<Signs>, (theirs, ours): (usize, usize)) -> Self {
        Self {
            inner,
            signs,
            theirs: Heads::after(theirs),
            ours: Heads::after(ours),
            count: Count {
                idle: 0,
                since: Instant::now(),
                asked: 0,
            },
            answered: Answered {
                streams: [u32::MAX; ANSWERED],
                next: 0,
            },
        }
    }

    fn came(&mut self, octets: &[u8]) -> Result<(), Flood> {
        let count = &mut self.count;
        self.theirs.read(octets, |head| count.came(head))
    }

    fn went(&mut self, octets: &[u8]) {
        let (count, signs, answered) = (&mut self.count, &self.signs, &mut self.answered);
        // Nothing that we send is a flood.
        let _never = self.ours.read(octets, |head| {
            count.went(head);
            if matches!(head.kind, DATA | HEADERS) && head.flags & END_STREAM != 0 {
                answered.add(head.stream);
            }
            if head.code == Some(PROTOCOL_ERROR) && !answered.streams.contains(&head.stream) {
                signs.malformed.store(true, Ordering::Release);
            }
            Ok(())
        });
    }
}

/// Of one frame.
#[derive(Debug, Clone, Copy)]
struct Head {
    length: u32,
    kind: u8,
    flags: u8,
    stream: u32,
    /// Of a reset.
    code: Option<u32>,
}

impl Answered {
    fn add(&mut self, stream: u32) {
        if let Some(slot) = self.streams.get_mut(self.next % ANSWERED) {
            *slot = stream;
        }
        self.next = self.next.wrapping_add(1);
    }
}

impl Heads {
    const fn after(skip: usize) -> Self {
        Self {
            head: [0; HEAD + CODE],
            filled: 0,
            skip,
        }
    }

    fn read(
        &mut self,
        mut octets: &[u8],
        mut found: impl FnMut(Head) -> Result<(), Flood>,
    ) -> Result<(), Flood> {
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
            if self.filled < HEAD {
                continue;
            }
            let [a, b, c, kind, flags, d, e, f, g, code @ ..] = self.head;
            let length = u32::from_be_bytes([0, a, b, c]);
            let payload = usize::try_from(length).unwrap_or(usize::MAX);
            // A reset of another length ends the connection (RFC 9113 §6.4).
            let coded = kind == RST_STREAM && payload == CODE;
            if coded && self.filled < HEAD + CODE {
                continue;
            }
            self.filled = 0;
            self.skip = if coded { 0 } else { payload };
            found(Head {
                length,
                kind,
                flags,
                stream: u32::from_be_bytes([d & 0x7f, e, f, g]),
                code: coded.then(|| u32::from_be_bytes(code)),
            })?;
        }
    }
}

impl Count {
    fn came(&mut self, head: Head) -> Result<(), Flood> {
        match head.kind {
            DATA | HEADERS => self.make_up_for(1),
            RST_STREAM | GOAWAY | CONTINUATION => {}
            PING | SETTINGS if head.flags & ACK != 0 && self.asked > 0 => self.asked -= 1,
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

    fn went(&mut self, head: Head) {
        match head.kind {
            DATA => self.make_up_for(MADE_UP_FOR + head.length / READ_AT_ONCE),
            HEADERS => self.make_up_for(MADE_UP_FOR),
            PING | SETTINGS if head.flags & ACK == 0 => self.asked = self.asked.saturating_add(1),
            _ => {}
        }
    }

    const fn make_up_for(&mut self, frames: u32) {
        self.idle = self.idle.saturating_sub(frames);
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
        Poll::Ready(self.came(fresh).map_err(|flood| {
            self.signs.flooded.store(true, Ordering::Release);
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
        let wrote = ready!(Pin::new(&mut self.inner).poll_write(cx, octets))?;
        self.went(octets.get(..wrote).unwrap_or_default());
        Poll::Ready(Ok(wrote))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = ready!(Pin::new(&mut self.inner).poll_write_vectored(cx, slices))?;
        let mut left = wrote;
        for slice in slices {
            let octets = slice.get(..left.min(slice.len())).unwrap_or_default();
            left -= octets.len();
            self.went(octets);
        }
        Poll::Ready(Ok(wrote))
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
/// RFC 9113 §6.4.
const CODE: usize = 4;
/// RFC 9113 §7.
const PROTOCOL_ERROR: u32 = 1;
// RFC 9113 §6.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const ACK: u8 = 1;
const END_STREAM: u8 = 1;
/// A program has no more streams at once.
const ANSWERED: usize = 128;
/// gRPC pings once a round trip while it measures the path, each time for data that came; a reader
/// makes room in the stream and in the connection.
const MADE_UP_FOR: u32 = 4;
/// Nobody reads less at once and makes room for it.
const READ_AT_ONCE: u32 = 256;
/// nginx and Envoy take about this many before they close (10,000 and 1,000).
const MOST_IDLE: u32 = 2000;
/// A connection that is only kept alive sends a few in this time.
const WITHIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW_UPDATE: u8 = 8;
    const PRIORITY: u8 = 2;

    fn frame(kind: u8, flags: u8, length: u16) -> Vec<u8> {
        let [high, low] = length.to_be_bytes();
        let mut octets = vec![0, high, low, kind, flags, 0, 0, 0, 0];
        octets.extend(vec![0xff; usize::from(length)]);
        octets
    }

    fn connection() -> Calm<()> {
        let mut calm = Calm::server((), Arc::default());
        calm.came(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
        calm
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_carry_nothing_end_it_however_they_are_cut() {
        let kinds = [
            (PING, 0, 8),
            (SETTINGS, 0, 6),
            (PRIORITY, 0, 5),
            (WINDOW_UPDATE, 0, 4),
            (PING, ACK, 8),
            (SETTINGS, ACK, 0),
            (200, 0, 0),
        ];
        for (kind, flags, length) in kinds {
            for piece in [1, 2, 9, 13, 4096] {
                let mut calm = connection();
                let one = frame(kind, flags, length);
                let octets = one.repeat(usize::try_from(MOST_IDLE).unwrap());
                assert!(octets.chunks(piece).all(|part| calm.came(part).is_ok()));
                assert_eq!(calm.came(&one), Err(Flood), "{kind}");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_that_is_reset_for_no_http_is_noticed_however_it_is_cut() {
        let reset = |code: u32| {
            let mut octets = frame(RST_STREAM, 0, 4);
            octets.truncate(HEAD);
            octets.extend(code.to_be_bytes());
            octets
        };
        let others = [
            frame(DATA, 0, 5),
            reset(0),
            reset(8),
            frame(SETTINGS, ACK, 0),
        ]
        .concat();
        for piece in [1, 2, 9, 13, 4096] {
            let mut calm = connection();
            others.chunks(piece).for_each(|part| calm.went(part));
            assert!(!calm.signs.malformed(), "{piece}");
            let octets = [others.clone(), reset(1), others.clone()].concat();
            octets.chunks(piece).for_each(|part| calm.went(part));
            assert!(calm.signs.malformed(), "{piece}");
        }
        // What the program itself resets is no fault of its messages.
        let mut calm = connection();
        calm.came(&reset(1)).unwrap();
        assert!(!calm.signs.malformed());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_sent_of_a_request_after_its_answer_is_no_fault() {
        let of = |stream: u8, mut frame: Vec<u8>| {
            frame[8] = stream;
            frame
        };
        let mut reset = frame(RST_STREAM, 0, 4);
        reset.truncate(HEAD);
        reset.extend(PROTOCOL_ERROR.to_be_bytes());
        for kind in [DATA, HEADERS] {
            let mut calm = connection();
            calm.went(&of(5, frame(kind, END_STREAM, 3)));
            calm.went(&of(7, frame(kind, 0, 3)));
            calm.went(&of(5, reset.clone()));
            assert!(!calm.signs.malformed());
            calm.went(&of(7, reset.clone()));
            assert!(calm.signs.malformed());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_makes_room_does_not_make_up_for_a_flood() {
        let mut calm = connection();
        let flood = [frame(PING, 0, 8), frame(WINDOW_UPDATE, 0, 4)].concat();
        let ended = (0..MOST_IDLE).any(|_| calm.came(&flood).is_err());
        assert!(ended, "a WINDOW_UPDATE for each PING keeps it open");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_read_answers_data_and_patience_do_not_end_it() {
        let mut calm = connection();
        for _ in 0..10 * MOST_IDLE {
            // A download: the program measures, and makes room twice for each piece.
            calm.went(&frame(DATA, 0, 1024));
            for _ in 0..4 {
                calm.came(&frame(WINDOW_UPDATE, 0, 4)).unwrap();
                calm.came(&frame(WINDOW_UPDATE, 0, 4)).unwrap();
            }
        }
        for _ in 0..10 * MOST_IDLE {
            for kind in [PING, SETTINGS] {
                calm.went(&frame(kind, 0, 0));
                calm.came(&frame(kind, ACK, 0)).unwrap();
            }
            calm.came(&frame(PING, 0, 8)).unwrap();
            calm.came(&frame(DATA, 0, 100)).unwrap();
        }
        for _ in 0..10 * MOST_IDLE {
            calm.came(&frame(PING, 0, 8)).unwrap();
            tokio::time::advance(Duration::from_millis(100)).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_written_in_slices_is_read_as_one() {
        use tokio::io::AsyncWriteExt;
        let mut calm = Calm::client(tokio::io::sink());
        let octets = [PREFACE_TEXT.to_vec(), frame(PING, 0, 8).repeat(3)].concat();
        for slices in octets.chunks(14) {
            let (a, b) = slices.split_at(slices.len() / 2);
            let wrote = calm
                .write_vectored(&[io::IoSlice::new(a), io::IoSlice::new(b)])
                .await;
            assert_eq!(wrote.unwrap(), slices.len());
        }
        assert_eq!(calm.count.asked, 3);
    }

    const PREFACE_TEXT: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
}
