//! The one shape of everything that changes octets while they pass.
//!
//! Chunks come as the network cut them. A rewriter must give the same output however they are cut:
//! it holds back what may be the beginning of something, and no more than its bound.

use std::{fmt, sync::Arc};

use gig_policy::DenyReason;
use gig_vault::{Keeper, Secret};

use super::{
    memory::NoMemory,
    tally::{Misuse, Tally},
};

/// Changes octets on their way through.
pub trait Rewrite: Send {
    /// Takes the next octets and appends to `out` what may go on now.
    ///
    /// # Errors
    /// [`RewriteError`]: nothing more of this body may pass.
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError>;

    /// As [`Rewrite::push`], but what becomes much more than it was may be done in bounded parts: gives
    /// whether there is more of it, for [`Rewrite::more`]. Nothing else may be asked before that is done.
    ///
    /// # Errors
    /// As for [`Rewrite::push`].
    fn feed(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        self.push(octets, out)?;
        Ok(false)
    }

    /// Appends the next part; gives whether there may be another.
    ///
    /// # Errors
    /// As for [`Rewrite::push`].
    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let _ = out;
        Ok(false)
    }

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

/// All parts of it at once: [`Rewrite::push`] of what is made in parts.
pub(super) fn whole(
    rewrite: &mut impl Rewrite,
    octets: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RewriteError> {
    let mut more = rewrite.feed(octets, out)?;
    while more {
        more = rewrite.more(out)?;
    }
    Ok(())
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
    /// A value cannot stand where its sentinel stands.
    #[error("a secret's value cannot stand where its sentinel stands in the body")]
    Unplaceable,
    /// That a secret goes with it cannot be recorded.
    #[error("that a secret goes with the body cannot be recorded")]
    Unrecorded,
    /// Its content coding is broken, so that nobody can say what it holds.
    #[error("the body is not what its content coding says")]
    Undecodable,
    /// It has more codings on one another than anybody has a use for.
    #[error("the body has more content codings on one another than are undone")]
    Layers,
    /// Its header section says several types of it: whoever reads it takes the one or the other.
    #[error("the body is said to be of several types")]
    Types,
    /// It decodes to so much that nobody looks at all of it.
    #[error("the body decodes to more than a thousand times what it is")]
    Bomb,
    /// Its sandbox's bodies hold all the memory that they may.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl RewriteError {
    /// The word by which it is told, of a body that a program sent.
    #[must_use]
    pub const fn reason(self) -> DenyReason {
        match self {
            Self::Misuse => DenyReason::SecretMisuse,
            Self::Unavailable => DenyReason::SecretUnavailable,
            Self::Unplaceable => DenyReason::SecretUnplaceable,
            Self::Unrecorded => DenyReason::RecordUnavailable,
            Self::Undecodable | Self::Types => DenyReason::MalformedRequest,
            Self::Bomb => DenyReason::DecompressionBomb,
            Self::Layers | Self::NoMemory(_) => DenyReason::DecoderLimit,
        }
    }
}

/// Has whatever `inner` refuses as misuse told as such, and nothing more done with a secret that was revoked
/// meanwhile: what signs knows no record and no vault.
pub struct Alarmed {
    inner: Box<dyn Rewrite>,
    tally: Arc<Tally>,
    secret: Arc<Secret>,
    keeper: Arc<dyn Keeper>,
}

impl Alarmed {
    /// Around what changes a body with `secret`, which is the keeper's.
    #[must_use]
    pub fn new(
        inner: Box<dyn Rewrite>,
        tally: &Arc<Tally>,
        (secret, keeper): (&Arc<Secret>, &Arc<dyn Keeper>),
    ) -> Self {
        Self {
            inner,
            tally: Arc::clone(tally),
            secret: Arc::clone(secret),
            keeper: Arc::clone(keeper),
        }
    }

    /// A body can be open for long.
    fn stands(&self) -> Result<(), RewriteError> {
        match self.keeper.stands(&self.secret) {
            true => Ok(()),
            false => Err(RewriteError::Unavailable),
        }
    }

    fn told(&self, done: Result<(), RewriteError>) -> Result<(), RewriteError> {
        if done == Err(RewriteError::Misuse) {
            let text = "a part of the body is not signed with the sentinel";
            self.tally.misused(Misuse::of_own(&self.secret.name, text));
        }
        done
    }
}

impl fmt::Debug for Alarmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Alarmed({})", self.secret.name)
    }
}

impl Rewrite for Alarmed {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.stands()?;
        let done = self.inner.push(octets, out);
        self.told(done)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.stands()?;
        let done = self.inner.finish(out);
        self.told(done)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let done = self.inner.release(out);
        self.told(done)
    }

    fn keeps_length(&self) -> bool {
        self.inner.keeps_length()
    }

    fn held(&self) -> usize {
        self.inner.held()
    }
}
