//! A short body in a coding that nobody asked for: read whole, and passed as it came or plain.

use bytes::Bytes;

use super::{
    Scrubbers,
    work::{MOST, Rewriter, Stopped},
};
use crate::credential::{coding::Decoder, memory::Share, rewrite::Rewrite as _};

/// A short body in a coding that was not asked for.
pub(super) struct WholeCoded {
    decoder: Decoder,
    /// Looks at what came, as above.
    raw: Scrubbers,
    came: Vec<u8>,
    /// What came of it decoded, with sentinels; none once that was too long.
    plain: Option<Vec<u8>>,
    /// How long it is, decoded, until now.
    length: usize,
    /// What both hold.
    share: Share,
}

impl WholeCoded {
    pub(super) const fn of(decoder: Decoder, raw: Scrubbers, share: Share) -> Self {
        Self {
            decoder,
            raw,
            came: Vec::new(),
            plain: Some(Vec::new()),
            length: 0,
            share,
        }
    }

    /// Takes what came.
    pub(super) fn feed(&mut self, data: Bytes) {
        self.decoder.push(&data);
        self.came.extend_from_slice(&data);
        drop(self.raw.pass(data));
    }

    /// What looks at it as it came.
    pub(super) const fn raw(&mut self) -> &mut Scrubbers {
        &mut self.raw
    }

    /// Decodes some of it; false where there is nothing to decode.
    pub(super) fn step(&mut self, rewriter: &mut Rewriter) -> Result<bool, Stopped> {
        let mut octets = Vec::new();
        if !self.decoder.step(&mut octets)? {
            return Ok(false);
        }
        self.length += octets.len();
        if self.length > MOST_OF_WHOLE {
            return Err(Stopped::Much);
        }
        let mut changed = Vec::new();
        rewriter.push(&octets, &mut changed)?;
        self.keep(&changed, rewriter)?;
        Ok(true)
    }

    fn keep(&mut self, more: &[u8], rewriter: &mut Rewriter) -> Result<(), Stopped> {
        let length = self.plain.as_ref().map_or(0, Vec::len) + more.len();
        match &mut self.plain {
            Some(plain) if length <= MOST => plain.extend_from_slice(more),
            // A little that becomes much is looked into all the same.
            plain => *plain = None,
        }
        if self.plain.is_none() && rewriter.scrubbers().has_found() {
            return Err(Stopped::Value);
        }
        let kept = self.plain.as_ref().map_or(0, Vec::len);
        Ok(self.share.set(self.came.len() + kept)?)
    }

    pub(super) fn finish(&mut self, rewriter: &mut Rewriter) -> Result<Vec<u8>, Stopped> {
        self.decoder.end()?;
        let mut last = Vec::new();
        rewriter.finish(&mut last)?;
        self.keep(&last, rewriter)?;
        last.clear();
        self.raw.finish(&mut last)?;
        let holds_value = rewriter.scrubbers().has_found() || self.raw.has_found();
        match self.plain.take() {
            _ if !holds_value => Ok(std::mem::take(&mut self.came)),
            Some(plain) => Ok(plain),
            None => Err(Stopped::Value),
        }
    }
}

/// Of a body of at most 64 KiB, decoded: a thousand times as long.
pub(super) const MOST_OF_WHOLE: usize = 64 * 1024 * 1024;
