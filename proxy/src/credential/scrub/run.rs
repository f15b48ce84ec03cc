//! The rest of a Base64 text after something in it was replaced by something of another length: every
//! character that follows moves, so it is decoded and encoded again up to its end.

use crate::credential::spelling::sextet;

/// A Base64 text that is being written anew.
#[derive(Debug, Clone)]
pub(super) struct Run {
    /// Bits that wait for a whole character.
    bits: u32,
    waiting: u32,
    /// Bits of the next character that were the value's.
    drop: u32,
    /// Characters since a group began, read and written.
    read: usize,
    written: usize,
    url_safe: bool,
    /// Padding was seen: the text is over.
    padded: usize,
}

/// What the run made of a character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fed {
    /// It was taken.
    Taken,
    /// It is not part of the text: the run is over, and this character is as it was.
    Over,
}

impl Run {
    /// Begins within a group of four of which `read` characters went before.
    pub(super) const fn new(read: usize, url_safe: bool) -> Self {
        Self {
            bits: 0,
            waiting: 0,
            drop: 0,
            read,
            written: read,
            url_safe,
            padded: 0,
        }
    }

    /// Writes octets in place of others: `lead` has bits of what was before, `old` octets went.
    pub(super) fn replace(&mut self, lead: Option<u8>, new: &[u8], read: usize, out: &mut Vec<u8>) {
        if let Some(lead) = lead {
            // Read as a whole, but only its high bits are not the value's.
            let (bits, mask) = if self.read % 4 == 1 { (2, 4) } else { (4, 2) };
            let left = sextet(lead).unwrap_or(0) >> mask;
            // They may belong to a value that was replaced right before.
            if std::mem::take(&mut self.drop) == 0 {
                self.drop_into(u32::from(left), bits, out);
            }
            self.read += 1;
        }
        for octet in new {
            self.drop_into(u32::from(*octet), 8, out);
        }
        self.read += read;
        // Bits of the value that share a character with what follows.
        self.drop = match self.read % 4 {
            1 => 2,
            2 => 4,
            _ => 0,
        };
    }

    /// Whether what follows can stay as it is.
    pub(super) const fn is_level(&self) -> bool {
        self.waiting == 0 && self.drop == 0 && self.read % 4 == self.written % 4 && self.padded == 0
    }

    /// Whether the next character has bits of what was replaced: it is of the text whatever stands before it.
    pub(super) const fn owes(&self) -> bool {
        self.drop > 0
    }

    /// Whether padding was seen, behind which no character is of the text.
    pub(super) const fn is_padded(&self) -> bool {
        self.padded > 0
    }

    /// Whether it is known to be in the URL-safe alphabet.
    pub(super) const fn is_url_safe(&self) -> bool {
        self.url_safe
    }

    /// The next character.
    pub(super) fn feed(&mut self, octet: u8, out: &mut Vec<u8>) -> Fed {
        if octet == b'=' && self.padded < 2 {
            self.padded += 1;
            return Fed::Taken;
        }
        let Some(bits) = sextet(octet).filter(|_| self.padded == 0) else {
            return Fed::Over;
        };
        self.url_safe |= matches!(octet, b'-' | b'_');
        let drop = std::mem::take(&mut self.drop);
        self.read += 1;
        self.drop_into(u32::from(bits) & (0x3f >> drop), 6 - drop, out);
        Fed::Taken
    }

    /// Whether a text with this phase goes on where `read` more characters were.
    pub(super) const fn is_at(&self, read: usize) -> bool {
        self.read % 4 == read && self.padded == 0
    }

    /// Writes what is left when the text is over; `next` is what follows it.
    pub(super) fn end(self, next: Option<u8>, out: &mut Vec<u8>) {
        // What the last character read has beyond whole octets is not of the text (RFC 4648 §3.5).
        let spare = (self.read * 6) % 8;
        let bits = self.written * 6 + self.waiting as usize;
        let octets = bits.saturating_sub(spare) / 8;
        let mut written = self.written;
        if written * 6 < octets * 8 {
            out.push(self.letter(self.bits << (6 - self.waiting)));
            written += 1;
        }
        // A text whose length needed no padding does not tell whether it would have it.
        let bare = spare != 0 && self.padded == 0;
        // Tokens of dotted parts have none (RFC 7515 §2).
        let never = self.padded == 0 && (self.url_safe || next == Some(b'.'));
        if !bare && !never {
            out.extend(std::iter::repeat_n(b'=', (4 - written % 4) % 4));
        }
    }

    fn drop_into(&mut self, bits: u32, count: u32, out: &mut Vec<u8>) {
        self.bits = (self.bits << count | bits) & 0xffff;
        self.waiting += count;
        while self.waiting >= 6 {
            self.waiting -= 6;
            out.push(self.letter(self.bits >> self.waiting));
            self.written += 1;
        }
        self.bits &= (1 << self.waiting) - 1;
    }

    fn letter(&self, bits: u32) -> u8 {
        let alphabet = if self.url_safe { URL_SAFE } else { STANDARD };
        alphabet
            .get((bits & 0x3f) as usize)
            .copied()
            .unwrap_or(b'A')
    }
}

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
