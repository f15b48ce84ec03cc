//! Zstandard.
//!
//! By the reference library: the one decoder in Rust alone hands nothing out before a window is full,
//! which holds an event stream back.

use std::fmt;

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

use super::{Broken, Engine};

/// Undoes Zstandard, in frames one after the other.
pub(super) struct Zstd {
    context: DCtx<'static>,
    whole: bool,
}

impl Zstd {
    pub(super) fn new() -> Result<Self, Broken> {
        let mut context = DCtx::try_create().ok_or(Broken)?;
        context
            .set_parameter(DParameter::WindowLogMax(WINDOW))
            .map_err(|_| Broken)?;
        Ok(Self {
            context,
            whole: false,
        })
    }
}

impl Engine for Zstd {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), Broken> {
        let mut from = InBuffer::around(input);
        let mut to = OutBuffer::around(room);
        match self.context.decompress_stream(&mut to, &mut from) {
            Ok(hint) => {
                if from.pos() > 0 || to.pos() > 0 {
                    self.whole = hint == 0;
                }
                Ok((from.pos(), to.pos()))
            }
            // What follows a whole frame and is none is nobody's.
            Err(_) if self.whole => Ok((input.len(), 0)),
            Err(_) => Err(Broken),
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

/// 8 MiB (RFC 9659 §3).
const WINDOW: u32 = 23;
