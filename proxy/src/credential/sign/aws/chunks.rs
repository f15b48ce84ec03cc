//! `aws-chunked` bodies whose chunks are signed one by one, each over the signature before it.
//!
//! A chunk's signature stands before its data, so a chunk is held until it is whole. The program's
//! signature is checked for each; the length of the body stays the same. What is held counts as what the
//! sandbox's bodies hold, and so does what is whole while it goes on.

use std::sync::Arc;

use super::{
    canonical::hex_digest,
    empty_digest,
    key::{Algorithm, Key},
};
use crate::credential::{
    memory::{Counted, Memory, Share},
    rewrite::{Rewrite, RewriteError},
};

/// Which chunks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    algorithm: Algorithm,
    trailer: bool,
}

impl Mode {
    /// Of `x-amz-content-sha256` behind `STREAMING-`; `None` where chunks are not signed.
    pub(super) fn of(word: &str) -> Option<Self> {
        let (word, trailer) = match word.strip_suffix("-TRAILER") {
            Some(word) => (word, true),
            None => (word, false),
        };
        let algorithm = Algorithm::of(word.strip_suffix("-PAYLOAD")?)?;
        Some(Self { algorithm, trailer })
    }
}

/// Signs chunks again while they pass.
pub(super) struct Chunks {
    mode: Mode,
    /// Moment and scope.
    scope: (String, String),
    theirs: (Key, String),
    ours: (Key, String),
    held: Counted,
    /// What was given at last and may not have gone yet.
    given: Share,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Chunk,
    Trailer,
    Done,
}

impl Chunks {
    /// `theirs` and `ours`: the keys, and the signatures of the header section.
    pub(super) fn new(
        mode: Mode,
        scope: (String, String),
        theirs: (Key, String),
        ours: (Key, String),
        memory: &Arc<Memory>,
    ) -> Self {
        Self {
            mode,
            scope,
            theirs,
            ours,
            held: memory.counted(),
            given: memory.share(),
            state: State::Chunk,
        }
    }

    /// Handles what is whole in `held`; tells whether it was anything.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        match self.state {
            State::Chunk => self.chunk(out),
            State::Trailer => self.trailer(out),
            State::Done if self.held.is_empty() => Ok(false),
            State::Done => Err(RewriteError::Undecodable),
        }
    }

    fn chunk(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let Some(end) = find(self.held.as_ref(), b"\r\n") else {
            return bounded(self.held.len(), LONGEST_LINE);
        };
        let line = self.held.as_ref().get(..end).unwrap_or_default();
        let line = std::str::from_utf8(line).map_err(|_| RewriteError::Undecodable)?;
        let line = line.to_owned();
        let (size, signature) = line
            .split_once(";chunk-signature=")
            .ok_or(RewriteError::Undecodable)?;
        let length = usize::from_str_radix(size, 16)
            .ok()
            .filter(|length| *length <= LONGEST_CHUNK && !size.starts_with('+'))
            .ok_or(RewriteError::Undecodable)?;
        // A last chunk before a trailer has no line end of its own.
        let ends = if length == 0 && self.mode.trailer {
            0
        } else {
            2
        };
        let data_at = end + 2;
        let whole = data_at + length + ends;
        let Some(data) = self.held.as_ref().get(data_at..whole) else {
            // No more than it becomes: what grows by doubling would hold twice that.
            self.held.make_room(whole)?;
            return Ok(false);
        };
        let (data, line_end) = data.split_at_checked(length).unwrap_or((data, &[]));
        if ends == 2 && line_end != b"\r\n" {
            return Err(RewriteError::Undecodable);
        }
        let tail = format!("{}\n{}", empty_digest(), hex_digest(data));
        let signed = self.turn("PAYLOAD", &tail, signature)?;
        let line = format!("{size};chunk-signature={signed}\r\n");
        self.given.set(out.len() + line.len() + whole - data_at)?;
        out.extend_from_slice(line.as_bytes());
        out.extend_from_slice(self.held.as_ref().get(data_at..whole).unwrap_or_default());
        self.held.drop_first(whole);
        if length == 0 {
            self.state = if self.mode.trailer {
                State::Trailer
            } else {
                State::Done
            };
        }
        Ok(true)
    }

    /// Fields, then their signature, then an empty line.
    fn trailer(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let Some(end) = find(self.held.as_ref(), b"\r\n\r\n") else {
            return bounded(self.held.len(), LONGEST_TRAILER);
        };
        let section = self.held.as_ref().get(..end).unwrap_or_default();
        let section = std::str::from_utf8(section).map_err(|_| RewriteError::Undecodable)?;
        let (fields, signature) = section
            .rsplit_once("x-amz-trailer-signature:")
            .ok_or(RewriteError::Undecodable)?;
        let mut canonical = String::new();
        for field in fields.lines() {
            let (name, value) = field.split_once(':').ok_or(RewriteError::Undecodable)?;
            canonical.push_str(&format!("{}:{}\n", name.to_ascii_lowercase(), value.trim()));
        }
        let (fields, signature) = (fields.to_owned(), signature.to_owned());
        let tail = hex_digest(canonical.as_bytes());
        let signed = self.turn("TRAILER", &tail, &signature)?;
        let line = format!("{fields}x-amz-trailer-signature:{signed}\r\n\r\n");
        out.extend_from_slice(line.as_bytes());
        self.held.drop_first(end + 4);
        self.state = State::Done;
        Ok(true)
    }

    /// Checks the program's signature and gives ours, as long as it; both chains go on with their own.
    fn turn(&mut self, what: &str, tail: &str, padded: &str) -> Result<String, RewriteError> {
        let (signature, width) = (padded.trim_end_matches('*'), padded.len());
        let (date, scope) = &self.scope;
        let word = self.mode.algorithm.word();
        let text = |before: &str| format!("{word}-{what}\n{date}\n{scope}\n{before}\n{tail}");
        if !self.theirs.0.verifies(&text(&self.theirs.1), signature) {
            return Err(RewriteError::Misuse);
        }
        let signed = self.ours.0.sign(&text(&self.ours.1));
        let signed = signed.ok_or(RewriteError::Unavailable)?;
        if signed.len() > width {
            // Signatures of 4A differ in length, and clients pad them: this one did not.
            return Err(RewriteError::Undecodable);
        }
        self.theirs.1 = signature.to_owned();
        self.ours.1.clone_from(&signed);
        Ok(format!("{signed:*<width$}"))
    }
}

impl Rewrite for Chunks {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.given.set(0)?;
        self.held.extend(octets)?;
        while self.step(out)? {}
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        while self.step(out)? {}
        if self.state == State::Done {
            Ok(())
        } else {
            Err(RewriteError::Undecodable)
        }
    }

    fn held(&self) -> usize {
        self.held.len()
    }

    fn keeps_length(&self) -> bool {
        true
    }
}

fn bounded(length: usize, most: usize) -> Result<bool, RewriteError> {
    if length > most {
        return Err(RewriteError::Undecodable);
    }
    Ok(false)
}

fn find(octets: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(octets, what)
}

/// A size and a signature.
const LONGEST_LINE: usize = 256;
/// Checksums.
const LONGEST_TRAILER: usize = 4096;
/// SDKs send 64 KiB to 1 MiB at a time.
const LONGEST_CHUNK: usize = 8 << 20;
