//! WebSocket frames (RFC 6455 §5) with their messages rewritten on the way.
//!
//! One [`Frames`] for each direction of a tunnel whose sandbox has secrets. Frames are taken apart,
//! the octets of each message pass one [`Rewrite`], and are framed anew with the length that they then
//! have and, towards the origin, under a mask of our own. What is whole when it comes is whole when it
//! goes; a long frame is sent on in fragments, so that no message is held in memory. A stream that
//! breaks the protocol is stopped: nobody could say what else it holds. Extensions have to be kept
//! out of the handshake ([`without_extensions`]): compressed messages would not be looked into.

use std::sync::Arc;

use aws_lc_rs::rand;
use http::{HeaderMap, header::SEC_WEBSOCKET_EXTENSIONS};

use self::header::{Header, Opcode, Parsed, write_header};
use super::{
    memory::{Memory, Share},
    rewrite::{Rewrite, RewriteError, Unchanged},
};

mod header;
pub mod stream;

/// Who sends the frames of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sender {
    /// The program: its frames are masked, and so are those that go on to the origin.
    Client,
    /// The origin: no mask.
    Server,
}

/// What a message is to whoever rewrites it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, whose length may change.
    Text,
    /// Anything.
    Binary,
    /// What a ping, a pong or a close carries: the application sees none of it.
    Control,
}

/// Makes the rewriter of each message.
pub type MakeRewrite = Box<dyn FnMut(Kind) -> Box<dyn Rewrite> + Send>;

/// One direction.
pub struct Frames {
    sender: Sender,
    make: MakeRewrite,
    /// Read and not yet taken apart: part of a header, or of a frame that is short enough to wait for.
    unread: Vec<u8>,
    state: State,
    message: Option<Message>,
    /// What is held beyond what one read brings.
    share: Option<Share>,
}

/// Where in the stream we are.
#[derive(Debug, Clone, Copy)]
enum State {
    /// Before a header.
    Header,
    /// In a frame.
    Payload {
        header: Header,
        left: u64,
        mask: Mask,
    },
    /// Behind a close frame: nothing more passes (RFC 6455 §5.5.1).
    Closed,
}

/// A message that is on its way.
struct Message {
    rewrite: Box<dyn Rewrite>,
    opcode: Opcode,
    /// Whether a fragment of it was sent on.
    begun: bool,
}

/// Why a direction was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// It breaks the protocol.
    #[error("the WebSocket stream breaks the protocol: {0}")]
    Protocol(&'static str),
    /// A message may not pass.
    #[error(transparent)]
    Rewrite(#[from] RewriteError),
    /// No random numbers for masks.
    #[error("the system gave no random numbers")]
    NoRandomness,
}

/// A masking key, and how far it was used (RFC 6455 §5.3).
#[derive(Debug, Clone, Copy)]
struct Mask {
    key: [u8; 4],
    used: usize,
}

impl Mask {
    fn apply(&mut self, octets: &mut [u8]) {
        if self.key == [0; 4] {
            return;
        }
        let mut key = self.key;
        key.rotate_left(self.used % 4);
        for (octet, mask) in octets.iter_mut().zip(key.iter().cycle()) {
            *octet ^= mask;
        }
        self.used = (self.used + octets.len()) % 4;
    }
}

/// A whole close frame as `sender` writes it (RFC 6455 §5.5.1).
///
/// # Errors
/// [`FrameError::NoRandomness`].
pub fn close(sender: Sender, code: CloseCode) -> Result<Vec<u8>, FrameError> {
    let frames = Frames::new(sender, Box::new(|_| Box::new(Unchanged)));
    let mut out = Vec::new();
    let payload = code.number().to_be_bytes().to_vec();
    frames.send((true, Opcode::Close), payload, &mut out)?;
    Ok(out)
}

/// What a close frame says (RFC 6455 §7.4.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseCode {
    /// The other side did something wrong.
    GoingAway,
    /// The frames were not as the protocol has them.
    Protocol,
    /// A message must not pass.
    Policy,
    /// A fault of our own.
    Internal,
}

impl CloseCode {
    const fn number(self) -> u16 {
        match self {
            Self::GoingAway => 1001,
            Self::Protocol => 1002,
            Self::Policy => 1008,
            Self::Internal => 1011,
        }
    }
}

impl FrameError {
    /// What the side that caused it is told.
    #[must_use]
    pub const fn close_code(self) -> CloseCode {
        match self {
            Self::Protocol(_)
            | Self::Rewrite(
                RewriteError::Undecodable
                | RewriteError::Layers
                | RewriteError::Types
                | RewriteError::Bomb,
            ) => CloseCode::Protocol,
            Self::Rewrite(RewriteError::Misuse | RewriteError::Unplaceable) => CloseCode::Policy,
            Self::Rewrite(
                RewriteError::Unavailable | RewriteError::Unrecorded | RewriteError::NoMemory(_),
            )
            | Self::NoRandomness => CloseCode::Internal,
        }
    }
}

/// Takes extensions out of either half of a handshake, so that messages come as they are.
pub fn without_extensions(headers: &mut HeaderMap) {
    headers.remove(SEC_WEBSOCKET_EXTENSIONS);
}

impl Frames {
    /// For what `sender` sends; `make` is asked once for each message.
    #[must_use]
    pub fn new(sender: Sender, make: MakeRewrite) -> Self {
        Self {
            sender,
            make,
            unread: Vec::new(),
            state: State::Header,
            message: None,
            share: None,
        }
    }

    /// Counts what is held in `memory`.
    pub fn count_in(&mut self, memory: &Arc<Memory>) {
        self.share = Some(memory.share());
    }

    /// Counts what waits here and `more` octets; where that is more than there is, nothing is.
    ///
    /// # Errors
    /// [`FrameError::Rewrite`]: there is no memory for it.
    pub fn counts(&mut self, more: usize) -> Result<(), FrameError> {
        let held = more.saturating_add(self.held());
        let Some(share) = &mut self.share else {
            return Ok(());
        };
        let counted = if held > LITTLE { held } else { 0 };
        share.set(counted).map_err(|none| {
            share.set(0).ok();
            FrameError::Rewrite(none.into())
        })
    }

    /// Takes the next octets and appends what may go on now.
    ///
    /// # Errors
    /// [`FrameError`]: nothing more may pass. What was appended before may.
    pub fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), FrameError> {
        let mut unread = std::mem::take(&mut self.unread);
        if unread.is_empty() {
            let taken = self.take(octets, out)?;
            unread.extend_from_slice(octets.get(taken..).unwrap_or_default());
        } else {
            unread.extend_from_slice(octets);
            let taken = self.take(&unread, out)?;
            drop(unread.drain(..taken));
        }
        // Lets a large block go.
        self.unread = if unread.is_empty() {
            Vec::new()
        } else {
            unread
        };
        Ok(())
    }

    /// Octets that wait for the rest of a header or frame.
    #[must_use]
    pub const fn held(&self) -> usize {
        self.unread.capacity()
    }

    /// Whether the stream may end here: between messages, or behind a close frame.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        match self.state {
            State::Closed => true,
            State::Header => self.unread.is_empty() && self.message.is_none(),
            State::Payload { .. } => false,
        }
    }

    /// Takes apart what there is; gives how much of it is done with.
    fn take(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<usize, FrameError> {
        let mut rest = octets;
        loop {
            rest = match self.state {
                State::Closed => return Ok(octets.len()),
                State::Payload { header, left, mask } => {
                    let length = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                    if length == 0 && left > 0 {
                        return Ok(octets.len());
                    }
                    let (here, after) = rest.split_at(length);
                    self.piece(header, (left, mask), here, out)?;
                    after
                }
                State::Header => match Header::parse(rest, self.sender)? {
                    Parsed::Short => return Ok(octets.len() - rest.len()),
                    Parsed::Whole(header, length) => {
                        let body = rest.get(length..).unwrap_or_default();
                        if header.length <= WAITED_FOR && (body.len() as u64) < header.length {
                            return Ok(octets.len() - rest.len());
                        }
                        self.begin(header)?;
                        body
                    }
                },
            };
        }
    }

    /// Checks that the frame may stand here and goes into it.
    fn begin(&mut self, header: Header) -> Result<(), FrameError> {
        match (header.opcode, &self.message) {
            (Opcode::Continuation, None) => {
                return Err(FrameError::Protocol("a continuation of nothing"));
            }
            (Opcode::Text | Opcode::Binary, Some(_)) => {
                return Err(FrameError::Protocol("a message within a message"));
            }
            (Opcode::Text | Opcode::Binary, None) => {
                self.message = Some(Message {
                    rewrite: (self.make)(if header.opcode == Opcode::Binary {
                        Kind::Binary
                    } else {
                        Kind::Text
                    }),
                    opcode: header.opcode,
                    begun: false,
                });
            }
            _ => {}
        }
        self.state = State::Payload {
            header,
            left: header.length,
            mask: Mask {
                key: header.mask.unwrap_or_default(),
                used: 0,
            },
        };
        Ok(())
    }

    /// The next octets of a frame.
    fn piece(
        &mut self,
        header: Header,
        (left, mut mask): (u64, Mask),
        octets: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let mut plain = octets.to_vec();
        mask.apply(&mut plain);
        let left = left - octets.len() as u64;
        self.state = if left == 0 {
            State::Header
        } else {
            State::Payload { header, left, mask }
        };
        if header.opcode.is_control() {
            // Control frames are short: they come whole.
            return self.control(header.opcode, &plain, out);
        }
        let Some(mut message) = self.message.take() else {
            return Err(FrameError::Protocol("octets of no message"));
        };
        let mut payload = Vec::with_capacity(plain.len());
        // In steps: a value may be longer than its sentinel by far, and what it comes to is counted before
        // there is much of it.
        for step in plain.chunks(STEP) {
            message.rewrite.push(step, &mut payload)?;
            self.counts(plain.len() + out.len() + payload.len())?;
        }
        let last = left == 0 && header.last;
        if last {
            message.rewrite.finish(&mut payload)?;
        }
        if last || !payload.is_empty() {
            let opcode = if message.begun {
                Opcode::Continuation
            } else {
                message.opcode
            };
            self.send((last, opcode), payload, out)?;
            message.begun = true;
        }
        if !last {
            self.message = Some(message);
        }
        Ok(())
    }

    /// A ping, a pong or a close: rewritten like a message of its own.
    fn control(
        &mut self,
        opcode: Opcode,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        // RFC 6455 §5.5.1: a close begins with a status code of two octets, or is empty.
        let code = match opcode {
            Opcode::Close => 2.min(plain.len()),
            _ => 0,
        };
        let (code, text) = plain.split_at(code);
        let mut payload = code.to_vec();
        let mut rewrite = (self.make)(Kind::Control);
        rewrite.push(text, &mut payload)?;
        rewrite.finish(&mut payload)?;
        if payload.len() > CONTROL_MOST {
            // A reason that no longer fits is left out; so is what a ping carries.
            payload.truncate(code.len());
        }
        self.send((true, opcode), payload, out)?;
        if opcode == Opcode::Close {
            self.state = State::Closed;
        }
        Ok(())
    }

    /// Frames `payload` anew.
    fn send(
        &self,
        (last, opcode): (bool, Opcode),
        mut payload: Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), FrameError> {
        let mask = match self.sender {
            Sender::Server => None,
            Sender::Client => {
                let mut key = [0; 4];
                rand::fill(&mut key).map_err(|_| FrameError::NoRandomness)?;
                Some(key)
            }
        };
        write_header((last, opcode), payload.len(), mask, out);
        if let Some(key) = mask {
            Mask { key, used: 0 }.apply(&mut payload);
        }
        out.append(&mut payload);
        Ok(())
    }
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Frames")
            .field("sender", &self.sender)
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}

/// A frame up to this long is waited for, so that it goes on as one frame.
const WAITED_FOR: u64 = 64 * 1024;
/// Octets that are rewritten before it is counted what they came to.
const STEP: usize = 2 * 1024;
/// Not counted: every stream that is read has as much on its way.
const LITTLE: usize = 32 * 1024;
/// RFC 6455 §5.5.
const CONTROL_MOST: usize = 125;

#[cfg(test)]
mod tests;
