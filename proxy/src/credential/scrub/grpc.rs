//! Messages that say their own length: gRPC, gRPC-Web and Connect streams, on their way in.
//!
//! A field inside a message has a length as well, so a sentinel takes exactly the room of its value here.
//! A compressed message is read whole and sent on plain, which every recipient takes, with its own length
//! written anew. All that goes on is looked at as one text, lengths and what divides messages included: whether
//! it is messages at all is the word of whoever stored it. No message waits for the next one.

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use super::Scrubbers;
use crate::credential::{
    coding::{Coding, Decoder},
    media::media,
    memory::{Memory, Share},
    rewrite::{Rewrite, RewriteError},
};

/// How the compressed ones among messages are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::credential) enum Compressed {
    /// None is.
    Not,
    /// By this.
    By(Coding),
    /// In a way that is not known here.
    Strangely,
}

/// Changes a stream of messages.
#[derive(Debug)]
pub struct Messages {
    scrubbers: Scrubbers,
    /// What goes on with the next look.
    passing: Vec<u8>,
    coding: Option<Coding>,
    memory: Arc<Memory>,
    /// What a piece came to that was small when it came, until it went.
    opened: Share,
    at: At,
}

#[derive(Debug)]
enum At {
    /// In the five octets before a message.
    Prefix(Vec<u8>),
    /// In a message, with so many octets to come.
    Plain(usize),
    /// In a compressed one.
    Coded {
        flags: u8,
        left: usize,
        octets: Vec<u8>,
        share: Share,
    },
}

impl Messages {
    /// For messages that may be compressed by `coding`; what is held of them is taken from `memory`.
    #[must_use]
    pub fn new(scrubbers: Scrubbers, coding: Option<Coding>, memory: Arc<Memory>) -> Self {
        Self {
            scrubbers,
            passing: Vec::new(),
            coding,
            opened: memory.share(),
            memory,
            at: At::Prefix(Vec::new()),
        }
    }

    /// What looks at the messages.
    pub(super) const fn scrubbers(&mut self) -> &mut Scrubbers {
        &mut self.scrubbers
    }

    fn begin(&mut self, prefix: &[u8]) -> Result<At, RewriteError> {
        let Some((flags, length)) = length(prefix) else {
            return Ok(At::Prefix(prefix.to_vec()));
        };
        if flags & COMPRESSED == 0 {
            self.passing.extend_from_slice(prefix);
            return Ok(At::Plain(length));
        }
        if self.coding.is_none() || length > LONGEST {
            return Err(RewriteError::Undecodable);
        }
        Ok(At::Coded {
            flags,
            left: length,
            octets: Vec::new(),
            share: self.memory.share(),
        })
    }

    /// A compressed message is whole: it goes on, behind what this piece came to before it.
    fn open(&mut self, flags: u8, coded: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let broken = RewriteError::Undecodable;
        let coding = self.coding.ok_or(broken)?;
        let mut decoder = Decoder::new(&[coding], &self.memory)?;
        decoder.push(coded);
        let mut plain = Vec::new();
        while decoder.step(&mut plain)? {
            if plain.len() > LONGEST {
                return Err(broken);
            }
            // As it is, as it is looked at, and as it comes out.
            let three = 3 * plain.capacity();
            self.opened
                .at_least(three + self.passing.len() + out.len())?;
        }
        decoder.end()?;
        let length = u32::try_from(plain.len()).map_err(|_| broken)?;
        self.passing.push(flags & !COMPRESSED);
        self.passing.extend_from_slice(&length.to_be_bytes());
        self.passing.extend_from_slice(&plain);
        drop(plain);
        self.pass(out)?;
        self.opened.set(out.capacity())?;
        Ok(())
    }

    /// Looks at what is to go on.
    fn pass(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let passed = self.scrubbers.push(&self.passing, out);
        self.passing.clear();
        self.passing.shrink_to(KEPT);
        passed
    }
}

impl Rewrite for Messages {
    fn push(&mut self, mut octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        loop {
            let at = std::mem::replace(&mut self.at, At::Prefix(Vec::new()));
            self.at = match at {
                At::Prefix(mut prefix) => {
                    let wanted = PREFIX - prefix.len();
                    let (more, rest) = octets.split_at(wanted.min(octets.len()));
                    prefix.extend_from_slice(more);
                    octets = rest;
                    self.begin(&prefix)?
                }
                At::Plain(0) => {
                    self.pass(out)?;
                    self.scrubbers.release(out)?;
                    At::Prefix(Vec::new())
                }
                At::Plain(left) => {
                    let (part, rest) = octets.split_at(left.min(octets.len()));
                    self.passing.extend_from_slice(part);
                    octets = rest;
                    At::Plain(left - part.len())
                }
                At::Coded {
                    flags,
                    left: 0,
                    octets,
                    share,
                } => {
                    self.open(flags, &octets, out)?;
                    drop(share);
                    self.scrubbers.release(out)?;
                    At::Prefix(Vec::new())
                }
                At::Coded {
                    flags,
                    left,
                    octets: mut coded,
                    mut share,
                } => {
                    let (part, rest) = octets.split_at(left.min(octets.len()));
                    coded.extend_from_slice(part);
                    share.at_least(coded.capacity())?;
                    octets = rest;
                    At::Coded {
                        flags,
                        left: left - part.len(),
                        octets: coded,
                        share,
                    }
                }
            };
            let over = matches!(self.at, At::Plain(0) | At::Coded { left: 0, .. });
            if octets.is_empty() && !over {
                self.pass(out)?;
                self.opened.set(0)?;
                return Ok(());
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        match std::mem::replace(&mut self.at, At::Prefix(Vec::new())) {
            // Cut short: so is what goes on.
            At::Prefix(prefix) => self.scrubbers.push(&prefix, out)?,
            At::Plain(_) => {}
            At::Coded { .. } => return Err(RewriteError::Undecodable),
        }
        self.scrubbers.finish(out)
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.scrubbers.release(out)
    }

    fn held(&self) -> usize {
        self.scrubbers.held()
    }
}

/// The flags and the length of the message behind a whole prefix.
pub(in crate::credential) fn length(prefix: &[u8]) -> Option<(u8, usize)> {
    match *prefix {
        [flags, a, b, c, d] => Some((flags, u32::from_be_bytes([a, b, c, d]) as usize)),
        _ => None,
    }
}

/// Whether messages in the body say their own length.
pub(in crate::credential) fn is_enveloped(headers: &HeaderMap) -> bool {
    let media = media(headers);
    let grpc =
        media.starts_with("application/grpc") && !media.starts_with("application/grpc-web-text");
    grpc || media.starts_with("application/connect+")
}

/// What the header section says of the compressed ones.
pub(in crate::credential) fn compressed(headers: &HeaderMap) -> Compressed {
    let coding = GRPC_CODINGS.iter().find_map(|name| headers.get(name));
    match coding.map(HeaderValue::as_bytes) {
        None | Some(b"identity") => Compressed::Not,
        Some(b"gzip") => Compressed::By(Coding::Gzip),
        Some(b"deflate") => Compressed::By(Coding::Deflate),
        Some(b"br") => Compressed::By(Coding::Brotli),
        Some(b"zstd") => Compressed::By(Coding::Zstd),
        Some(_) => Compressed::Strangely,
    }
}

const GRPC_CODINGS: [HeaderName; 2] = [
    HeaderName::from_static("grpc-encoding"),
    HeaderName::from_static("connect-content-encoding"),
];
/// What stands before a message: its flags, and its length in octets.
pub(in crate::credential) const PREFIX: usize = 5;
/// Among the flags.
pub(in crate::credential) const COMPRESSED: u8 = 1;
/// What is looked at at once keeps no more room than this.
const KEPT: usize = 64 * 1024;
/// Four times what gRPC's own libraries take by default.
const LONGEST: usize = 16 * 1024 * 1024;
