//! Brotli.

use std::fmt;

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, StandardAlloc};

use super::{Broken, Engine};

type State = BrotliState<StandardAlloc, StandardAlloc, StandardAlloc>;

/// Undoes Brotli; the large windows that RFC 7932 does not have are refused.
pub(super) struct Brotli {
    state: Box<State>,
    over: bool,
}

impl Brotli {
    pub(super) fn new() -> Self {
        let alloc = StandardAlloc::default;
        Self {
            state: Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())),
            over: false,
        }
    }
}

impl Engine for Brotli {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), Broken> {
        if self.over {
            return Ok((input.len(), 0));
        }
        let (mut left, mut read) = (input.len(), 0);
        let (mut space, mut written, mut total) = (room.len(), 0, 0);
        let result = BrotliDecompressStream(
            &mut left,
            &mut read,
            input,
            &mut space,
            &mut written,
            room,
            &mut total,
            &mut self.state,
        );
        match result {
            BrotliResult::ResultSuccess => self.over = true,
            BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => {}
            BrotliResult::ResultFailure => return Err(Broken),
        }
        Ok((read, written))
    }

    fn is_whole(&self) -> bool {
        self.over
    }
}

impl fmt::Debug for Brotli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Brotli(over: {})", self.over)
    }
}
