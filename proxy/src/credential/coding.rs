//! Content codings undone while a body streams: gzip, deflate, Brotli, Zstandard, and one on another.
//!
//! What is decoded goes on as it is, without its coding: that is cheap, may be done to any message that
//! its recipient would take plain, and loses nothing on the short way into a sandbox. A bomb is met by
//! doing a bounded step at a time; what is broken or cut short is an error and never an end. What a decoder
//! holds is taken from its sandbox's memory before it is allocated.

use std::{fmt, sync::Arc};

use http::{
    HeaderMap, HeaderValue,
    header::{ACCEPT_ENCODING, CONTENT_ENCODING},
};

use self::{
    brotli::Brotli,
    inflate::{Inflate, Wrapping},
    zstd::Zstd,
};
use super::{
    memory::{Memory, NoMemory, Share},
    rewrite::{Rewrite, RewriteError, whole},
};

mod brotli;
mod inflate;
mod zstd;

/// A coding that is known here (RFC 9110 §8.4.1, RFC 7932, RFC 8878).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    /// RFC 1952.
    Gzip,
    /// RFC 1950; RFC 1951 without its header is taken too.
    Deflate,
    /// RFC 7932.
    Brotli,
    /// RFC 8878, with a window of at most 8 MiB (RFC 9659).
    Zstd,
}

/// How a body is coded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Coded {
    /// Not at all.
    Plain,
    /// In the order they were applied.
    Known(Vec<Coding>),
    /// With one that is not known here.
    Unknown,
    /// With more of them on one another than are undone.
    TooMany,
}

impl Coding {
    fn named(token: &str) -> Option<Self> {
        match token.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// How the body is coded that `headers` announce.
#[must_use]
pub fn coded(headers: &HeaderMap) -> Coded {
    let (mut codings, mut more) = (Vec::new(), false);
    for token in tokens(headers, &CONTENT_ENCODING) {
        if PLAIN.iter().any(|plain| token.eq_ignore_ascii_case(plain)) {
            continue;
        }
        match Coding::named(token) {
            Some(coding) if codings.len() < MOST => codings.push(coding),
            Some(_) => more = true,
            None => return Coded::Unknown,
        }
    }
    if headers
        .get_all(CONTENT_ENCODING)
        .iter()
        .any(|value| value.to_str().is_err())
    {
        return Coded::Unknown;
    }
    match codings.is_empty() {
        true => Coded::Plain,
        false if more => Coded::TooMany,
        false => Coded::Known(codings),
    }
}

/// Leaves of `Accept-Encoding` only what can be undone here; gives what is left. A field of which
/// everything stays is not touched: it may be signed.
pub fn accepted(headers: &mut HeaderMap) -> Vec<Coding> {
    let mut accepted = Vec::new();
    let (mut kept, mut strange) = (Vec::new(), false);
    for item in tokens(headers, &ACCEPT_ENCODING) {
        let mut parts = item.split(';');
        let token = parts.next().unwrap_or_default().trim();
        let refused = parts.any(|part| {
            let weight = part.trim().strip_prefix("q=").unwrap_or("1");
            weight.parse::<f32>().is_ok_and(|weight| weight <= 0.0)
        });
        match Coding::named(token) {
            Some(coding) => {
                if !refused && !accepted.contains(&coding) {
                    accepted.push(coding);
                }
                kept.push(item);
            }
            None if refused || token.eq_ignore_ascii_case("identity") => kept.push(item),
            None => strange = true,
        }
    }
    if strange {
        let kept = if kept.is_empty() {
            "identity".to_owned()
        } else {
            kept.join(", ")
        };
        if let Ok(value) = HeaderValue::try_from(kept) {
            headers.insert(ACCEPT_ENCODING, value);
        }
    }
    accepted
}

fn tokens<'a>(
    headers: &'a HeaderMap,
    name: &http::HeaderName,
) -> impl Iterator<Item = &'a str> + use<'a> {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|token| !token.is_empty())
}

/// A body whose coding cannot be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It is not what its coding says, or not whole.
    #[error("the body is not what its content coding says")]
    Broken,
    /// There is no memory for what it needs.
    #[error(transparent)]
    NoMemory(#[from] NoMemory),
}

/// Undoes codings.
pub struct Decoder {
    /// The outermost first.
    stages: Vec<Stage>,
}

/// One coding.
struct Stage {
    engine: Box<dyn Engine>,
    pending: Vec<u8>,
    /// What `pending` holds.
    share: Share,
    at: usize,
    /// Its last step filled all the room it had.
    full: bool,
    begun: bool,
}

/// Undoes one coding, some octets at a time.
trait Engine: Send {
    /// Decodes some of `input` into `room`; gives how much was read and how much written. Both zero:
    /// it needs more.
    ///
    /// # Errors
    /// [`DecodeError`]; it is not asked again then.
    fn step(&mut self, input: &[u8], room: &mut [u8]) -> Result<(usize, usize), DecodeError>;

    /// Whether what was read is whole.
    fn is_whole(&self) -> bool;
}

impl Decoder {
    /// For codings in the order they were applied; what it holds is taken from `memory`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(codings: &[Coding], memory: &Arc<Memory>) -> Result<Self, NoMemory> {
        let stage = |coding: &Coding| {
            let engine: Box<dyn Engine> = match coding {
                Coding::Gzip => Box::new(Inflate::new(Wrapping::Gzip, memory)?),
                Coding::Deflate => Box::new(Inflate::new(Wrapping::Unknown, memory)?),
                Coding::Brotli => Box::new(Brotli::new(memory)?),
                Coding::Zstd => Box::new(Zstd::new(memory)?),
            };
            Ok(Stage {
                engine,
                pending: Vec::new(),
                share: memory.share(),
                at: 0,
                full: false,
                begun: false,
            })
        };
        let stages = codings.iter().rev().map(stage);
        Ok(Self {
            stages: stages.collect::<Result<_, NoMemory>>()?,
        })
    }

    /// Takes coded octets.
    pub fn push(&mut self, octets: &[u8]) {
        if let Some(first) = self.stages.first_mut() {
            first.pending.extend_from_slice(octets);
        }
    }

    /// Appends some of what is decoded, [`STEP`] octets at most. Whether there was anything; if not, it
    /// needs more.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        pull(&mut self.stages, out)
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// [`DecodeError::Broken`]: that was not all.
    pub fn end(&self) -> Result<(), DecodeError> {
        let whole = |stage: &Stage| !stage.begun || stage.engine.is_whole();
        // A message without content needs no coding.
        if self.stages.iter().all(whole) {
            Ok(())
        } else {
            Err(DecodeError::Broken)
        }
    }
}

fn pull(stages: &mut [Stage], out: &mut Vec<u8>) -> Result<bool, DecodeError> {
    let Some((last, before)) = stages.split_last_mut() else {
        return Ok(false);
    };
    loop {
        if last.step(out)? {
            return Ok(true);
        }
        last.pending.drain(..last.at);
        last.at = 0;
        if !pull(before, &mut last.pending)? {
            return Ok(false);
        }
    }
}

impl Stage {
    /// Whether anything was written.
    fn step(&mut self, out: &mut Vec<u8>) -> Result<bool, DecodeError> {
        self.share.set(self.pending.capacity())?;
        let from = out.len();
        out.resize(from + STEP, 0);
        let mut written = 0;
        while let Some(room) = out
            .get_mut(from + written..)
            .filter(|room| !room.is_empty())
        {
            let input = self.pending.get(self.at..).unwrap_or_default();
            if input.is_empty() && !self.full {
                break;
            }
            self.begun = true;
            let space = room.len();
            let (read, wrote) = self.engine.step(input, room)?;
            self.full = wrote == space;
            self.at += read;
            written += wrote;
            if read == 0 && wrote == 0 {
                break;
            }
        }
        out.truncate(from + written);
        if self.at == self.pending.len() {
            self.pending.clear();
            // What one long piece needed is not kept.
            self.pending.shrink_to(STEP);
            self.at = 0;
        }
        Ok(written > 0)
    }
}

/// A rewriter of what is decoded; what comes out has no coding.
pub struct Undone<R> {
    decoder: Decoder,
    inner: R,
    /// Octets that came, and that were made of them.
    came: usize,
    made: usize,
}

impl<R: Rewrite> Undone<R> {
    /// Puts a decoder before `inner`; what it holds is taken from `memory`.
    ///
    /// # Errors
    /// [`NoMemory`].
    pub fn new(codings: &[Coding], memory: &Arc<Memory>, inner: R) -> Result<Self, NoMemory> {
        Ok(Self {
            decoder: Decoder::new(codings, memory)?,
            inner,
            came: 0,
            made: 0,
        })
    }
}

impl<R: Rewrite> Rewrite for Undone<R> {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        whole(self, octets, out)
    }

    /// One step of what it decodes to.
    fn feed(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        self.came = self.came.saturating_add(octets.len());
        self.decoder.push(octets);
        self.more(out)
    }

    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let mut plain = Vec::new();
        if !self.decoder.step(&mut plain)? {
            return Ok(false);
        }
        self.made = self.made.saturating_add(plain.len());
        if self.made > self.came.saturating_mul(RATIO).saturating_add(BOMB) {
            return Err(RewriteError::Bomb);
        }
        self.inner.push(&plain, out)?;
        Ok(true)
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.decoder.end()?;
        self.inner.finish(out)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.inner.release(out)
    }

    fn held(&self) -> usize {
        self.inner.held()
    }
}

impl From<DecodeError> for RewriteError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Broken => Self::Undecodable,
            DecodeError::NoMemory(none) => Self::NoMemory(none),
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Decoder({} codings)", self.stages.len())
    }
}

impl<R: fmt::Debug> fmt::Debug for Undone<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Undone").field(&self.inner).finish()
    }
}

/// Octets that one step decodes at most.
pub const STEP: usize = 32 * 1024;
/// What a request body may decode to, however short it is: an empty disk image in a test is no attack.
pub const BOMB: usize = 32 * 1024 * 1024;
/// How many times longer it may become beyond that. Deflate, which most clients use, makes 1,032 times as much at
/// most; who makes more buys the work of a minute for a packet.
pub const RATIO: usize = 1100;
/// A coding on another already helps nobody.
const MOST: usize = 2;
/// Whether the body has chunks of its own (S3 uploads), whose lengths and sums another length within would break.
#[must_use]
pub fn is_chunked_within(headers: &HeaderMap) -> bool {
    let codings = headers.get_all(CONTENT_ENCODING).iter();
    let mut words = codings.flat_map(|value| value.as_bytes().split(|octet| *octet == b','));
    words.any(|word| {
        word.trim_ascii()
            .eq_ignore_ascii_case(AWS_CHUNKED.as_bytes())
    }) || headers
        .get("x-amz-content-sha256")
        .is_some_and(|said| said.as_bytes().starts_with(b"STREAMING-"))
}

/// Not codings: the second frames what S3 clients upload, and some stores keep the word.
const PLAIN: [&str; 2] = ["identity", AWS_CHUNKED];
const AWS_CHUNKED: &str = "aws-chunked";

#[cfg(test)]
mod tests;
