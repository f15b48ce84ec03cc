//! Zstandard.
//!
//! By the reference library: the one decoder in Rust alone hands nothing out before a window is full,
//! which holds an event stream back.

use std::{fmt, sync::Arc};

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use self::frame::{Window, window};
use super::{DecodeError, Engine};
use crate::credential::memory::{Memory, NoMemory, Share};

mod frame;

/// Undoes Zstandard, in frames one after the other.
pub(super) struct Zstd {
    context: DCtx<'static>,
    /// What comes next begins a frame.
    between: bool,
    whole: bool,
    share: Share,
}

impl Zstd {
    pub(super) fn new(memory: &Arc<Memory>) -> Result<Self, NoMemory> {
        let mut share = memory.take(CONTEXT)?;
        let mut context = DCtx::try_create().ok_or(NoMemory)?;
        let limited = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG));
        limited.map_err(|_| NoMemory)?;
        share.set(context.sizeof())?;
        Ok(Self {
            context,
            between: true,
            whole: false,
            share,
        })
    }
}

impl Engine for Zstd {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), DecodeError> {
        let begins = self.between && !input.is_empty();
        if begins {
            match window(input) {
                Window::Short => {
                    // What has a frame's number is one, and not whole.
                    self.whole &= input.len() < frame::MAGIC.len();
                    return Ok((0, 0));
                }
                Window::None => {}
                Window::Of(window) => {
                    let window = usize::try_from(window).unwrap_or(WINDOW).min(WINDOW);
                    self.share.at_least(CONTEXT + buffers(window))?;
                }
            }
        }
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(room);
        match self.context.decompress_stream(&mut to, &mut from) {
            Ok(hint) => {
                if from.pos() > 0 || to.pos() > 0 {
                    self.whole = hint == 0;
                    self.between = hint == 0;
                }
                if begins {
                    // What it took, which may be less: some say how short they are.
                    self.share.set(self.context.sizeof())?;
                }
                Ok((from.pos(), to.pos()))
            }
            // What follows a whole frame and is none is nobody's.
            Err(_) if self.whole => Ok((input.len(), 0)),
            Err(_) => Err(DecodeError::Broken),
        }
    }

    fn is_whole(&self) -> bool {
        self.whole
    }
}

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Zstd(whole: {})", self.whole)
    }
}

/// What the library allocates for a frame, at most: a block as it came, and the window with two blocks and
/// what copies may overrun (`ZSTD_decodingBufferSize_internal`).
const fn buffers(window: usize) -> usize {
    window + 3 * BLOCK + 1024
}

/// 8 MiB (RFC 9659 §3).
const WINDOW_LOG: u32 = 23;
const WINDOW: usize = 1 << WINDOW_LOG;
/// RFC 8878 §3.1.1.2.4.
const BLOCK: usize = 128 * 1024;
/// What the library holds beside buffers, at most: 96 KiB as it says itself.
const CONTEXT: usize = 192 * 1024;

#[cfg(test)]
mod tests;
