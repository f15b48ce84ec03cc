//! One body on its way back: decoded where it is coded, looked at, changed, in bounded steps.

use std::{collections::VecDeque, fmt, sync::Arc};

use bytes::Bytes;
use gig_policy::DenyReason;

use super::{
    Found, Scrub, Scrubbers,
    grpc::Messages,
    whole::{MOST_OF_WHOLE, WholeCoded},
};
use crate::credential::{
    coding::{DecodeError, Decoder},
    memory::{NoMemory, Share},
    rewrite::{Rewrite, RewriteError},
};

/// What looks at a body.
#[derive(Debug)]
pub enum Rewriter {
    /// A text, or anything else, as a whole.
    Body(Scrubbers),
    /// Messages that say their own length.
    Messages(Messages),
}

/// One body.
pub struct Work {
    way: Way,
    rewriter: Rewriter,
}

enum Way {
    /// Looked at and passed.
    Plain(Option<Bytes>),
    /// Decoded, looked at and passed plain.
    Decoded(Decoder),
    /// Passed as it came, once it and a copy of it that was decoded were looked at.
    Looked {
        decoder: Decoder,
        /// Looks at what came: a coding has room for other text as well.
        raw: Box<Scrubbers>,
        waiting: VecDeque<Bytes>,
        length: usize,
        /// What `waiting` holds.
        share: Share,
    },
    /// Read whole: passed as it came where it holds no value, and plain where it does.
    Whole(Box<WholeCoded>),
}

/// What became of a body that was read whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Became {
    /// It is as it came.
    Same,
    /// Sentinels stand in it.
    Changed,
    /// The same, and its coding is undone.
    Undone,
}

/// A body that must not go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    /// It is not what its coding says.
    #[error("the body is not what its content coding says")]
    Broken,
    /// It holds a value where none can be replaced.
    #[error("a coded body that was not asked for holds a secret's value")]
    Value,
    /// A short one becomes more than anybody looks through.
    #[error("a short body becomes more than {MOST_OF_WHOLE} octets when it is decoded")]
    Much,
    /// There is no memory to look into it.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

impl Stopped {
    /// The word that it is told by.
    #[must_use]
    pub const fn reason(self) -> DenyReason {
        match self {
            Self::Broken | Self::Value => DenyReason::OriginProtocol,
            Self::Much | Self::NoMemory(_) => DenyReason::DecoderLimit,
        }
    }
}

impl From<DecodeError> for Stopped {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Broken => Self::Broken,
            DecodeError::NoMemory(none) => Self::NoMemory(none),
        }
    }
}

impl From<RewriteError> for Stopped {
    fn from(error: RewriteError) -> Self {
        match error {
            RewriteError::NoMemory(none) => Self::NoMemory(none),
            RewriteError::Misuse
            | RewriteError::Unavailable
            | RewriteError::Undecodable
            | RewriteError::Layers
            | RewriteError::Types
            | RewriteError::Unplaceable
            | RewriteError::Unrecorded
            | RewriteError::Bomb => Self::Broken,
        }
    }
}

/// What one step brought.
#[derive(Debug)]
pub enum Step {
    /// This may go.
    Out(Bytes),
    /// Nothing yet, but there is more to do.
    On,
    /// Nothing: it needs more.
    Dry,
}

impl Work {
    pub(super) fn passing(rewriter: Rewriter) -> Box<Self> {
        let way = Way::Plain(None);
        Box::new(Self { way, rewriter })
    }

    pub(super) fn decoding(decoder: Decoder, rewriter: Rewriter) -> Box<Self> {
        let way = Way::Decoded(decoder);
        Box::new(Self { way, rewriter })
    }

    pub(super) fn looking(
        (decoder, share): (Decoder, Share),
        raw: Scrubbers,
        rewriter: Rewriter,
    ) -> Box<Self> {
        let way = Way::Looked {
            decoder,
            raw: Box::new(raw),
            waiting: VecDeque::new(),
            length: 0,
            share,
        };
        Box::new(Self { way, rewriter })
    }

    /// A body that is short, and read to its end before anything goes on.
    pub(super) fn whole(
        (decoder, share): (Decoder, Share),
        raw: Scrubbers,
        rewriter: Rewriter,
    ) -> Box<Self> {
        let way = Way::Whole(Box::new(WholeCoded::of(decoder, raw, share)));
        Box::new(Self { way, rewriter })
    }

    /// Whether a coding has to be undone to look into it.
    #[must_use]
    pub const fn is_coded(&self) -> bool {
        !matches!(self.way, Way::Plain(_))
    }

    /// Takes what came; the steps that are left from before must have been taken.
    pub fn feed(&mut self, data: Bytes) {
        match &mut self.way {
            Way::Plain(input) => *input = Some(data),
            Way::Decoded(decoder) => decoder.push(&data),
            Way::Looked {
                decoder,
                raw,
                waiting,
                length,
                ..
            } => {
                decoder.push(&data);
                drop(raw.pass(data.clone()));
                *length += data.len();
                waiting.push_back(data);
            }
            Way::Whole(whole) => whole.feed(data),
        }
    }

    /// Does some of what is to be done.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn step(&mut self) -> Result<Step, Stopped> {
        match &mut self.way {
            Way::Plain(input) => {
                let Some(data) = input.take() else {
                    return Ok(Step::Dry);
                };
                self.rewriter.pass(data)
            }
            Way::Decoded(decoder) => {
                let mut plain = Vec::new();
                if decoder.step(&mut plain)? {
                    self.rewriter.pass(plain.into())
                } else {
                    Ok(Step::Dry)
                }
            }
            Way::Looked {
                decoder,
                raw,
                waiting,
                length,
                share,
            } => {
                if raw.has_found() {
                    return Err(Stopped::Value);
                }
                share.set(*length)?;
                let mut plain = Vec::new();
                if decoder.step(&mut plain)? {
                    self.rewriter.look(&plain)?;
                    return Ok(Step::On);
                }
                if self.rewriter.held() + raw.held() > 0 {
                    // It may hold the beginning of a value.
                    return if *length > MOST {
                        Err(Stopped::Value)
                    } else {
                        Ok(Step::Dry)
                    };
                }
                Ok(match waiting.pop_front() {
                    Some(data) => {
                        *length -= data.len();
                        Step::Out(data)
                    }
                    None => Step::Dry,
                })
            }
            Way::Whole(whole) => match whole.step(&mut self.rewriter)? {
                true => Ok(Step::On),
                false => Ok(Step::Dry),
            },
        }
    }

    /// Whether it is certain, after something went, that no step is left.
    #[must_use]
    pub fn is_dry(&self) -> bool {
        match &self.way {
            Way::Plain(input) => input.is_none(),
            Way::Decoded(_) => false,
            Way::Looked { waiting, .. } => waiting.is_empty(),
            Way::Whole(_) => false,
        }
    }

    /// The body is over; gives the last of it. All steps must have been taken.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn finish(&mut self) -> Result<Bytes, Stopped> {
        let mut out = Vec::new();
        match &mut self.way {
            Way::Plain(_) => self.rewriter.finish(&mut out)?,
            Way::Decoded(decoder) => {
                decoder.end()?;
                self.rewriter.finish(&mut out)?;
            }
            Way::Looked {
                decoder,
                raw,
                waiting,
                ..
            } => {
                decoder.end()?;
                let mut rest = Vec::new();
                self.rewriter.finish(&mut rest)?;
                raw.finish(&mut rest)?;
                if self.rewriter.scrubbers().has_found() || raw.has_found() {
                    return Err(Stopped::Value);
                }
                for data in waiting.drain(..) {
                    out.extend_from_slice(&data);
                }
            }
            Way::Whole(whole) => out = whole.finish(&mut self.rewriter)?,
        }
        Ok(out.into())
    }

    /// What became of a body that was read whole, until what was found in it is taken.
    pub fn became(&mut self) -> Became {
        match (self.has_found(), &self.way) {
            (false, _) => Became::Same,
            (true, Way::Whole(_)) => Became::Undone,
            (true, _) => Became::Changed,
        }
    }

    /// Looks for what `scrub` has in all that comes from here on, too.
    pub fn renew(&mut self, scrub: &Arc<Scrub>) {
        self.rewriter.scrubbers().renew(scrub);
        if let Some(raw) = self.way.raw() {
            raw.renew(scrub);
        }
    }

    /// How many octets are held back that may go after a while.
    #[must_use]
    pub fn leaving(&mut self) -> usize {
        match &self.way {
            Way::Plain(_) | Way::Decoded(_) => self.rewriter.scrubbers().leaving(),
            Way::Looked { .. } | Way::Whole(_) => 0,
        }
    }

    /// Gives what was held back; the body may go on.
    ///
    /// # Errors
    /// [`Stopped`].
    pub fn release(&mut self) -> Result<Bytes, Stopped> {
        let mut out = Vec::new();
        self.rewriter.release(&mut out)?;
        Ok(out.into())
    }

    /// Whether anything was replaced since the last call of [`Work::take_found`].
    pub fn has_found(&mut self) -> bool {
        let in_raw = self.way.raw().is_some_and(|raw| raw.has_found());
        in_raw || self.rewriter.scrubbers().has_found()
    }

    /// What was replaced since the last call.
    pub fn take_found(&mut self) -> Found {
        let mut found = self.rewriter.scrubbers().take_found();
        if let Some(raw) = self.way.raw() {
            found.append(raw.take_found());
        }
        found
    }
}

impl Way {
    /// What looks at a body as it came.
    fn raw(&mut self) -> Option<&mut Scrubbers> {
        match self {
            Self::Plain(_) | Self::Decoded(_) => None,
            Self::Looked { raw, .. } => Some(raw),
            Self::Whole(whole) => Some(whole.raw()),
        }
    }
}

impl Rewriter {
    pub(super) const fn scrubbers(&mut self) -> &mut Scrubbers {
        match self {
            Self::Body(scrubbers) => scrubbers,
            Self::Messages(messages) => messages.scrubbers(),
        }
    }

    fn pass(&mut self, data: Bytes) -> Result<Step, Stopped> {
        let out = match self {
            Self::Body(scrubber) => scrubber.pass(data),
            Self::Messages(messages) => {
                let mut out = Vec::with_capacity(data.len());
                messages.push(&data, &mut out)?;
                out.into()
            }
        };
        Ok(if out.is_empty() {
            Step::On
        } else {
            Step::Out(out)
        })
    }

    fn look(&mut self, plain: &[u8]) -> Result<(), Stopped> {
        let mut seen = Vec::new();
        self.push(plain, &mut seen)?;
        if self.scrubbers().has_found() {
            return Err(Stopped::Value);
        }
        Ok(())
    }
}

impl Rewrite for Rewriter {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        match self {
            Self::Body(scrubber) => scrubber.push(octets, out),
            Self::Messages(messages) => messages.push(octets, out),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        match self {
            Self::Body(scrubber) => scrubber.finish(out),
            Self::Messages(messages) => messages.finish(out),
        }
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        match self {
            Self::Body(scrubber) => scrubber.release(out),
            Self::Messages(messages) => messages.release(out),
        }
    }

    fn held(&self) -> usize {
        match self {
            Self::Body(scrubber) => scrubber.held(),
            Self::Messages(messages) => messages.held(),
        }
    }
}

impl fmt::Debug for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Work")
            .field("rewriter", &self.rewriter)
            .finish_non_exhaustive()
    }
}

/// Octets of a coded body that wait for whether they hold a value, and of one that is read whole, decoded.
pub(super) const MOST: usize = 256 * 1024;
