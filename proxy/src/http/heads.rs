//! The header section that is being read, octet by octet, beside hyper.
//!
//! hyper drops a `Content-Length` that stands beside a `Transfer-Encoding`, so that the request it
//! hands over does not show that it could have been read in two ways (RFC 9112 §6.1). And hyper's
//! clock for header sections runs while a connection merely waits. So what comes between two requests
//! is kept until hyper has read a header section out of it.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::{Sleep, sleep};

use super::activity::Activity;

/// What is known of the header section that comes; shared by the stream and its requests.
#[derive(Debug)]
pub struct Heads {
    activity: Arc<Activity>,
    /// Something of one is here.
    begun: AtomicBool,
    /// The answer to the last one that was whole is not all written yet.
    owed: AtomicBool,
    octets: Mutex<Vec<u8>>,
}

/// What the octets of a header section say about its length, as hyper does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// It has no `Content-Length`.
    NoLength,
    /// It has one.
    Length,
    /// It came in one piece with what was before it, and was not seen by itself.
    Unseen,
}

impl Heads {
    /// None is here yet.
    pub const fn new(activity: Arc<Activity>) -> Self {
        Self {
            activity,
            begun: AtomicBool::new(false),
            owed: AtomicBool::new(false),
            octets: Mutex::new(Vec::new()),
        }
    }

    /// Octets came.
    pub fn heard(&self, octets: &[u8]) {
        if octets.is_empty() || self.activity.is_busy() {
            return;
        }
        let mut kept = self.octets.lock();
        let room = MOST_KEPT.saturating_sub(kept.len()).min(octets.len());
        kept.extend_from_slice(octets.get(..room).unwrap_or_default());
        self.begun.store(true, Ordering::Release);
    }

    /// hyper has read a whole header section; `coded` if it has a `Transfer-Encoding`.
    pub fn read(&self, coded: bool) -> Framing {
        self.begun.store(false, Ordering::Release);
        self.owed.store(true, Ordering::Release);
        let mut kept = self.octets.lock();
        let framing = if coded {
            framing(&kept)
        } else {
            // hyper shows every other length.
            Framing::NoLength
        };
        if kept.capacity() > KEPT_ROOM {
            *kept = Vec::new();
        }
        kept.clear();
        framing
    }

    /// Everything that hyper had was written: when no request runs, so was its answer.
    pub fn written(&self) {
        if !self.activity.is_busy() {
            self.owed.store(false, Ordering::Release);
        }
    }

    /// Whether what hyper writes may be the answer to a request.
    pub fn is_owed(&self) -> bool {
        self.owed.load(Ordering::Acquire)
    }

    /// Looks at what is here of the one that comes.
    pub fn kept<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.octets.lock())
    }

    /// Completes when a header section has begun and is not whole after `most`. To be polled by the
    /// task that reads the connection, which is woken when something comes.
    pub async fn slow(&self, most: Duration) {
        let mut clock: Option<Pin<Box<Sleep>>> = None;
        poll_fn(|cx| {
            if !self.begun.load(Ordering::Acquire) {
                clock = None;
                return Poll::Pending;
            }
            clock
                .get_or_insert_with(|| Box::pin(sleep(most)))
                .as_mut()
                .poll(cx)
        })
        .await;
    }
}

/// Looks for `Content-Length` between the request line and the empty line.
fn framing(octets: &[u8]) -> Framing {
    let start = octets
        .iter()
        .position(|octet| !matches!(octet, b'\r' | b'\n'))
        .unwrap_or(octets.len());
    let mut lines = octets
        .get(start..)
        .unwrap_or_default()
        .split(|octet| *octet == b'\n')
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    // A line of a header section holds no blank before its colon: this is where it begins, or hyper
    // would have refused it.
    if !lines.next().is_some_and(is_request_line) {
        return Framing::Unseen;
    }
    let mut coded = false;
    for line in lines {
        let name = line
            .split(|octet| *octet == b':')
            .next()
            .unwrap_or_default();
        if name.is_empty() {
            // Its end; hyper found the coding in this one or in another.
            return if coded {
                Framing::NoLength
            } else {
                Framing::Unseen
            };
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            return Framing::Length;
        }
        coded |= name.eq_ignore_ascii_case(b"transfer-encoding");
    }
    Framing::Unseen
}

fn is_request_line(line: &[u8]) -> bool {
    line.ends_with(b" HTTP/1.1")
        && line
            .iter()
            .take_while(|octet| **octet != b':')
            .any(|o| *o == b' ')
}

/// What hyper takes at most ([`super::limits`]).
const MOST_KEPT: usize = 64 * 1024;
/// Most header sections fit; a connection that waits keeps no more than this.
const KEPT_ROOM: usize = 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_beside_a_coding_is_seen_in_either_order_and_spelling() {
        for (fields, expected) in [
            ("Transfer-Encoding: chunked\r\n", Framing::NoLength),
            (
                "transfer-encoding: chunked\r\ncontent-LENGTH: 3\r\n",
                Framing::Length,
            ),
            (
                "Content-Length:3\r\nTransfer-Encoding: chunked\r\n",
                Framing::Length,
            ),
            (
                "X: content-length: 3\r\nTransfer-Encoding: chunked\r\n",
                Framing::NoLength,
            ),
        ] {
            let head =
                format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n5\r\nContent-Length: 9\r\n");
            assert_eq!(framing(head.as_bytes()), expected, "{head}");
        }
    }

    #[test]
    fn what_does_not_begin_with_a_request_is_unseen() {
        for head in [
            "",
            "\r\n",
            "of a body\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n",
        ] {
            assert_eq!(framing(head.as_bytes()), Framing::Unseen, "{head:?}");
        }
    }

    #[test]
    fn nothing_is_kept_of_a_body() {
        let activity = Arc::<Activity>::default();
        let heads = Heads::new(Arc::clone(&activity));
        heads.heard(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
        let busy = activity.enter();
        assert_eq!(heads.read(true), Framing::NoLength);
        heads.heard(b"a body");
        assert!(heads.octets.lock().is_empty());
        drop(busy);
        heads.heard(b"POST");
        assert_eq!(heads.octets.lock().as_slice(), b"POST");
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_has_begun_is_slow() {
        let heads = Heads::new(Arc::default());
        let most = Duration::from_secs(30);
        let waiting = tokio::time::timeout(Duration::from_secs(3600), heads.slow(most));
        assert!(waiting.await.is_err());
        heads.heard(b"GET");
        let begun = tokio::time::Instant::now();
        heads.slow(most).await;
        assert_eq!(begun.elapsed(), most);
    }
}
