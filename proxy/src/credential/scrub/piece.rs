//! One piece of a body while values are looked for in it: some of it may have gone before anybody knew what it is.

/// One piece of a body.
#[derive(Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) raw: &'a [u8],
    /// Octets at the beginning that went already.
    pub(super) sent: usize,
    pub(super) when: When,
}

/// What comes after a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// More, and some of this may wait for it.
    More,
    /// Perhaps more, but nothing waits any longer.
    Now,
    /// Nothing.
    Last,
}

/// What became of a piece.
pub(super) struct Done {
    /// From where on it is remembered.
    pub(super) kept: usize,
    /// Up to where it went.
    pub(super) gone: usize,
}

impl Piece<'_> {
    /// Where between these two what did not go already begins; a run has read what did.
    pub(super) fn unsent(&self, from: usize, to: usize) -> usize {
        from.max(self.sent.min(to))
    }

    /// Copies what did not go already.
    pub(super) fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let from = from.max(self.sent);
        out.extend_from_slice(self.raw.get(from..to).unwrap_or_default());
    }
}
