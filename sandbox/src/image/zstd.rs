//! Zstandard as a stream to read: frame after frame, in bounded memory.

use std::io::{self, BufRead, Read};

use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer};

/// Windows of 128 MiB, the largest that decoders take unasked (RFC 8878 recommends 8).
const WINDOW_LOG_MAX: u32 = 27;

/// Reads what its source packed.
pub(super) struct Unpacked<R> {
    source: R,
    context: DCtx<'static>,
    /// Whether a frame has begun and not ended.
    within: bool,
}

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(source: R) -> io::Result<Self> {
        let mut context = DCtx::try_create().ok_or(io::ErrorKind::OutOfMemory)?;
        let bound = context.set_parameter(DParameter::WindowLogMax(WINDOW_LOG_MAX));
        bound.map_err(failed)?;
        Ok(Self {
            source,
            context,
            within: false,
        })
    }
}

fn failed(code: usize) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, zstd_safe::get_error_name(code))
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            let input = self.source.fill_buf()?;
            let ended = input.is_empty();
            if ended && !self.within {
                return Ok(0);
            }
            let mut from = InBuffer::around(input);
            let mut out = OutBuffer::around(&mut *to);
            let left = self.context.decompress_stream(&mut out, &mut from);
            let left = left.map_err(failed)?;
            let (made, taken) = (out.pos(), from.pos());
            self.source.consume(taken);
            self.within = left != 0;
            if made > 0 || to.is_empty() {
                return Ok(made);
            }
            if ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
