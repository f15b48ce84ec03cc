//! What went of a body towards an origin over HTTP/2, for as long as that may say that it did not look at it.
//!
//! Shared with what went, not copied. Bounded for one body and for all of a connection: of what is longer, or
//! found no room, nothing is kept, and it is not sent again. Trailers are not kept.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use super::{Streaming, UploadStopped};

/// Octets that the bodies of one connection have kept.
pub type KeptRoom = Arc<AtomicUsize>;

/// What was handed on, from the first octet.
#[derive(Debug)]
pub(super) struct Kept {
    pieces: Vec<Bytes>,
    length: usize,
    room: KeptRoom,
}

impl Kept {
    /// Nothing yet.
    pub(super) const fn new(room: KeptRoom) -> Self {
        Self {
            pieces: Vec::new(),
            length: 0,
            room,
        }
    }

    /// Keeps what goes; false where nothing can be said any more of what went.
    pub(super) fn note(&mut self, passed: Option<&Result<Frame<Bytes>, UploadStopped>>) -> bool {
        let data = match passed {
            None => return true,
            Some(Ok(frame)) => frame.data_ref(),
            Some(Err(_)) => None,
        };
        let Some(data) = data else { return false };
        let before = self.room.fetch_add(data.len(), Ordering::Relaxed);
        self.length += data.len();
        self.pieces.push(data.clone());
        self.length <= LONGEST && before + data.len() <= ROOM
    }

    /// All of it in one piece, if it is anything.
    pub(super) fn again(&mut self) -> Option<Bytes> {
        match self.pieces.as_mut_slice() {
            [] => None,
            [only] => Some(std::mem::take(only)),
            several => Some(several.concat().into()),
        }
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.room.fetch_sub(self.length, Ordering::Relaxed);
    }
}

impl Streaming {
    /// Has it begin again with what went. False where that is not known, or nothing may go any more.
    pub(super) fn rewind(&mut self) -> bool {
        let Some(mut kept) = self.kept.take() else {
            return false;
        };
        let over = self.progress.stopped().is_some()
            || self.progress.abandoned.load(Ordering::Acquire)
            || self.barred;
        self.read = kept.again();
        !over
    }
}

/// The size of what is read already and of what comes.
pub(super) fn with_more(comes: SizeHint, read: Option<&Bytes>) -> SizeHint {
    let (Some(read), Some(exact)) = (read, comes.exact()) else {
        return comes;
    };
    let read = u64::try_from(read.len()).unwrap_or(u64::MAX);
    SizeHint::with_exact(exact.saturating_add(read))
}

/// An origin that refuses a stream does so within a round trip; most bodies are shorter.
const LONGEST: usize = 64 * 1024;
/// Sixteen of the longest.
const ROOM: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_has_a_bound_for_a_body_and_for_all_of_a_connection() {
        let room = KeptRoom::default();
        let frame = |length: usize| Ok(Frame::data(Bytes::from(vec![7; length])));
        let mut one = Kept::new(Arc::clone(&room));
        assert!(one.note(Some(&frame(5))) && one.note(Some(&frame(LONGEST - 5))));
        assert!(one.note(None));
        assert_eq!(one.again().map(|octets| octets.len()), Some(LONGEST));
        assert!(!one.note(Some(&frame(1))));
        assert!(!Kept::new(Arc::clone(&room)).note(Some(&Err(UploadStopped::Abandoned))));
        let trailers = Ok(Frame::trailers(http::HeaderMap::new()));
        assert!(!Kept::new(Arc::clone(&room)).note(Some(&trailers)));
        drop(one);
        assert_eq!(room.load(Ordering::Relaxed), 0);
        let mut others: Vec<_> = (0..17).map(|_| Kept::new(Arc::clone(&room))).collect();
        let kept = others.iter_mut().map(|one| one.note(Some(&frame(LONGEST))));
        assert_eq!(kept.filter(|kept| *kept).count(), 16);
        drop(others);
        assert_eq!(room.load(Ordering::Relaxed), 0);
    }
}
