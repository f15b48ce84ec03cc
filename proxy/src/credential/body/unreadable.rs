//! A body that nobody here can look into, whatever it is: nothing of it passes. Why not is told by who makes one.

use crate::credential::rewrite::{Rewrite, RewriteError};

/// There is no memory for a decoder, or too much to undo: nothing of the body passes.
#[derive(Debug)]
pub(super) struct Unreadable(RewriteError);

impl Unreadable {
    /// For this reason.
    pub(super) const fn new(why: RewriteError) -> Self {
        Self(why)
    }
}

impl Rewrite for Unreadable {
    fn push(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Err(self.0)
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Err(self.0)
    }

    fn held(&self) -> usize {
        0
    }
}
