//! Messages that say their own length and may be compressed, looked at on the side while they go on as they came.
//!
//! What is compressed is undone while it streams, however long it is. A message that is not what its coding
//! says is looked at up to there, and the next one is looked at again: where it begins is known. What is
//! decoded goes nowhere.

use std::sync::Arc;

use crate::credential::{
    coding::{BOMB, Coding, DecodeError, Decoder, RATIO},
    memory::Memory,
    rewrite::{Rewrite, RewriteError, whole},
    scrub::grpc::{COMPRESSED, PREFIX, length},
};

/// Looks at a stream of messages; none spans two.
#[derive(Debug)]
pub(super) struct Aside<R> {
    looks: R,
    coding: Coding,
    memory: Arc<Memory>,
    at: At,
    /// What came, of which so many octets were taken.
    pending: Vec<u8>,
    taken: usize,
    /// Octets that came compressed, and that were made of them.
    came: usize,
    made: usize,
}

#[derive(Debug)]
enum At {
    /// In the octets before a message.
    Prefix(Vec<u8>),
    /// In a message, with so many octets to come, and what undoes its coding, if it has one that holds.
    Within(usize, Option<Box<Decoder>>),
}

impl<R: Rewrite> Aside<R> {
    /// For messages that may be compressed by `coding`; what a decoder holds is taken from `memory`.
    pub(super) const fn new(looks: R, coding: Coding, memory: Arc<Memory>) -> Self {
        Self {
            looks,
            coding,
            memory,
            at: At::Prefix(Vec::new()),
            pending: Vec::new(),
            taken: 0,
            came: 0,
            made: 0,
        }
    }

    /// Decodes a step of what is there; whether there was anything.
    fn decoded(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        let At::Within(_, coded) = &mut self.at else {
            return Ok(false);
        };
        let Some(decoder) = coded else {
            return Ok(false);
        };
        let mut plain = Vec::new();
        let stepped = decoder.step(&mut plain);
        self.made = self.made.saturating_add(plain.len());
        if self.made > self.came.saturating_mul(RATIO).saturating_add(BOMB) {
            return Err(RewriteError::Bomb);
        }
        match stepped {
            Ok(_) => {}
            // What came out before is looked at as well.
            Err(DecodeError::Broken) => *coded = None,
            Err(error @ DecodeError::NoMemory(_)) => return Err(error.into()),
        }
        self.looks.push(&plain, out)?;
        Ok(!plain.is_empty())
    }

    /// Takes what is next of what is pending.
    fn take(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let rest = self.pending.get(self.taken..).unwrap_or_default();
        match &mut self.at {
            At::Prefix(prefix) => {
                let (part, _) = rest.split_at((PREFIX - prefix.len()).min(rest.len()));
                prefix.extend_from_slice(part);
                self.taken += part.len();
                if let Some((flags, left)) = length(prefix) {
                    let coded = flags & COMPRESSED != 0;
                    let decoder = || Decoder::new(&[self.coding], &self.memory).map(Box::new);
                    self.at = At::Within(left, coded.then(decoder).transpose()?);
                }
            }
            At::Within(0, _) => {
                self.looks.finish(out)?;
                self.at = At::Prefix(Vec::new());
            }
            At::Within(left, coded) => {
                let (part, _) = rest.split_at((*left).min(rest.len()));
                *left -= part.len();
                self.taken += part.len();
                match coded {
                    Some(decoder) => {
                        self.came = self.came.saturating_add(part.len());
                        decoder.push(part);
                    }
                    None => self.looks.push(part, out)?,
                }
            }
        }
        Ok(())
    }
}

impl<R: Rewrite> Rewrite for Aside<R> {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        whole(self, octets, out)
    }

    fn feed(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        self.pending.extend_from_slice(octets);
        self.more(out)
    }

    fn more(&mut self, out: &mut Vec<u8>) -> Result<bool, RewriteError> {
        loop {
            if self.decoded(out)? {
                return Ok(true);
            }
            if self.taken == self.pending.len() && !matches!(self.at, At::Within(0, _)) {
                self.pending.clear();
                self.taken = 0;
                return Ok(false);
            }
            self.take(out)?;
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.looks.finish(out)
    }

    fn held(&self) -> usize {
        self.looks.held()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Keeps what it is shown, a bar after each message.
    #[derive(Default)]
    struct Shown(Vec<u8>);

    impl Rewrite for Shown {
        fn push(&mut self, octets: &[u8], _: &mut Vec<u8>) -> Result<(), RewriteError> {
            self.0.extend_from_slice(octets);
            Ok(())
        }

        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
            self.0.push(b'|');
            Ok(())
        }

        fn held(&self) -> usize {
            0
        }
    }

    fn message(flags: u8, octets: &[u8]) -> Vec<u8> {
        let length = u32::try_from(octets.len()).unwrap().to_be_bytes();
        [&[flags], &length[..], octets].concat()
    }

    fn gzip(octets: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(octets).unwrap();
        encoder.finish().unwrap()
    }

    fn shown(stream: &[u8], cut: usize) -> Result<Vec<u8>, RewriteError> {
        let mut aside = Aside::new(Shown::default(), Coding::Gzip, Memory::of_sandbox());
        let mut out = Vec::new();
        for part in stream.chunks(cut) {
            aside.push(part, &mut out)?;
        }
        aside.finish(&mut out)?;
        assert!(out.is_empty());
        Ok(aside.looks.0)
    }

    #[test]
    fn what_follows_a_broken_or_a_very_long_message_is_looked_at() {
        let long = vec![b'a'; 20 << 20];
        let mut torn = gzip(b"seen before it breaks");
        let crc = torn.len() - 8;
        torn[crc] ^= 1;
        let stream = [
            message(0, b"plain"),
            message(1, b"no gzip"),
            message(1, &torn),
            message(1, &gzip(&long)),
            message(1, b""),
            message(0, b""),
            message(1, &gzip(b"the last")),
        ]
        .concat();
        for cut in [1, 7, 1 << 20] {
            let seen = shown(&stream, cut).unwrap();
            let parts: Vec<&[u8]> = seen.split(|octet| *octet == b'|').collect();
            assert_eq!(parts.len(), 9);
            assert_eq!(parts[0], b"plain");
            assert!(parts[2].starts_with(b"seen before it breaks"));
            assert_eq!(parts[3].len(), long.len());
            assert_eq!(parts[6], b"the last");
        }
    }

    #[test]
    fn many_small_bombs_are_one_and_what_a_decoder_holds_is_counted() {
        let mut coded = Vec::with_capacity(zstd_safe::compress_bound(16 << 20));
        zstd_safe::compress(&mut coded, &vec![0; 16 << 20], 1).unwrap();
        let bomb = message(1, &coded);
        let mut aside = Aside::new(Shown::default(), Coding::Zstd, Memory::of_sandbox());
        let mut push = || aside.push(&bomb, &mut Vec::new());
        push().unwrap();
        push().unwrap();
        assert_eq!(push(), Err(RewriteError::Bomb));
        let mut aside = Aside::new(Shown::default(), Coding::Zstd, Memory::of(0));
        let refused = aside.push(&bomb, &mut Vec::new());
        assert!(matches!(refused, Err(RewriteError::NoMemory(_))));
    }
}
