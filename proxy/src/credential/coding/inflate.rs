//! gzip and deflate.

use std::sync::Arc;

use flate2::{Decompress, FlushDecompress, Status};

use super::{DecodeError, Engine};
use crate::credential::memory::{Memory, NoMemory, Share};

/// Undoes gzip, zlib or bare deflate.
#[derive(Debug)]
pub(super) struct Inflate {
    wrapping: Wrapping,
    stream: Decompress,
    over: bool,
    /// What comes now is no member, and neither is what follows it.
    foreign: bool,
    _share: Share,
}

/// What is around the deflated data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wrapping {
    Gzip,
    /// zlib or nothing: "deflate" means both, though only the first is right.
    Unknown,
    Known,
}

impl Inflate {
    pub(super) fn new(wrapping: Wrapping, memory: &Arc<Memory>) -> Result<Self, NoMemory> {
        let share = memory.take(HOLDS)?;
        Ok(Self {
            stream: match wrapping {
                Wrapping::Gzip => Decompress::new_gzip(WINDOW),
                Wrapping::Unknown | Wrapping::Known => Decompress::new(true),
            },
            wrapping,
            over: false,
            foreign: false,
            _share: share,
        })
    }
}

impl Engine for Inflate {
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), DecodeError> {
        if self.over {
            // Zero octets pad what is written in blocks; a member may follow them (gzip's and Python's readers
            // go on there), and must not pass unseen.
            let padding = input.iter().take_while(|octet| **octet == 0).count();
            if self.wrapping == Wrapping::Gzip && !self.foreign && padding > 0 {
                return Ok((padding, 0));
            }
            self.foreign |= input.first().is_some_and(|octet| *octet != MEMBER);
            if self.wrapping != Wrapping::Gzip || self.foreign || input.is_empty() {
                // What follows the end is nobody's (RFC 1952 §2.2 knows members only).
                return Ok((input.len(), 0));
            }
            self.stream = Decompress::new_gzip(WINDOW);
            self.over = false;
        }
        if self.wrapping == Wrapping::Unknown {
            let &[method, flags, ..] = input else {
                return Ok((0, 0));
            };
            let number = u32::from(method) << 8 | u32::from(flags);
            // RFC 1950 §2.2.
            let zlib = method & 0x0f == 8 && number.is_multiple_of(31);
            self.stream = Decompress::new(zlib);
            self.wrapping = Wrapping::Known;
        }
        let (read, written) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.decompress(input, room, FlushDecompress::None);
        let progress =
            |now: u64, before: u64| usize::try_from(now - before).map_err(|_| DecodeError::Broken);
        let read = progress(self.stream.total_in(), read)?;
        let written = progress(self.stream.total_out(), written)?;
        match status.map_err(|_| DecodeError::Broken)? {
            Status::StreamEnd => self.over = true,
            Status::Ok | Status::BufError => {}
        }
        Ok((read, written))
    }

    fn is_whole(&self) -> bool {
        self.over
    }
}

/// RFC 1952 §2.3.1: how a member begins.
const MEMBER: u8 = 0x1f;
/// The largest there is: 32 KiB.
const WINDOW: u8 = 15;
/// What one holds whatever comes: window and tables, 52 KiB as measured; while one takes another's place,
/// both.
const HOLDS: usize = 112 * 1024;
