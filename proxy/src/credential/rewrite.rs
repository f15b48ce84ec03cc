//! The one shape of everything that changes octets while they pass.
//!
//! Chunks come as the network cut them. A rewriter must give the same output however they are cut:
//! it holds back what may be the beginning of something, and no more than its bound.

/// Changes octets on their way through.
pub trait Rewrite: Send {
    /// Takes the next octets and appends to `out` what may go on now.
    ///
    /// # Errors
    /// [`RewriteError`]: nothing more of this body may pass.
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError>;

    /// The body is over: appends what was held back.
    ///
    /// # Errors
    /// As for [`Rewrite::push`].
    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError>;

    /// Nothing more came for a while: appends what was held back, where it can be taken for plain. The
    /// body may go on afterwards.
    ///
    /// # Errors
    /// As for [`Rewrite::push`].
    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let _ = out;
        Ok(())
    }

    /// Whether what goes out is as long as what came in.
    fn keeps_length(&self) -> bool {
        false
    }

    /// How many octets are held back now. An event stream must not wait for them.
    fn held(&self) -> usize;
}

/// Changes nothing.
#[derive(Debug)]
pub struct Unchanged;

impl Rewrite for Unchanged {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        out.extend_from_slice(octets);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }
}

/// Why a body was stopped in the middle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RewriteError {
    /// A sentinel or a value on its way to where its secret is not bound.
    #[error("a secret was on its way to a host that it is not bound to")]
    Misuse,
    /// A sentinel of a secret that cannot be had now.
    #[error("a secret that the body asks for cannot be had")]
    Unavailable,
    /// Its content coding is broken, so that nobody can say what it holds.
    #[error("the body is not what its content coding says")]
    Undecodable,
}
