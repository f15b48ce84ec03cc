//! What special octets are before when nothing can come of them, told without a branch.

use super::{
    special::{is_introducer, is_special},
    unit::NAMES,
};

/// For one set of texts.
pub(super) struct Idle {
    /// For each octet, the kinds of special ones behind which nothing comes of it.
    behind: [u8; 256],
    /// What an octet is as the first and as the second of two digits.
    high: Box<[u16; 256]>,
    low: Box<[u16; 256]>,
    /// For two digits behind a percent sign, whether a text may go on there.
    percent: Box<[bool; 1024]>,
    /// For each octet behind an ampersand, which may come next in the name of a reference, by the low five
    /// bits.
    names: [u32; 256],
}

impl Idle {
    /// For texts among whose first octets are those that `known` knows.
    pub(super) fn new(known: impl Fn(u8) -> bool) -> Self {
        let unknown = |octet: u8| !is_special(octet) && !known(octet);
        let mut behind = [0; 256];
        for (next, idle) in (0..=u8::MAX).zip(&mut behind) {
            if is_special(next) {
                continue;
            }
            let backslash = match next {
                b'n' | b'r' | b'u' | b'x' => false,
                b't' => unknown(b'\t'),
                _ => unknown(next) || next.is_ascii_alphanumeric(),
            };
            for (is, kind) in [(backslash, BACKSLASH), (unknown(next), LINE_BREAK)] {
                *idle |= if is { kind } else { 0 };
            }
        }
        let mut percent = Box::new([false; 1024]);
        for (number, slot) in percent.iter_mut().enumerate() {
            *slot = match u8::try_from(number) {
                Ok(octet) => !unknown(octet),
                Err(_) => number >= usize::from(STRANGE),
            };
        }
        let mut names = [u32::MAX; 256];
        for (next, slot) in (0..=u8::MAX).zip(&mut names) {
            if next != b'#' && !is_special(next) {
                let named = NAMES.iter().filter(|(name, _)| name.first() == Some(&next));
                let seconds = named.filter_map(|(name, _)| name.get(1));
                let seconds = seconds.chain(b"%\\&").map(|second| 1 << (second & 31));
                let begins = NAMES.iter().any(|(name, _)| name.first() == Some(&next));
                *slot = if begins {
                    seconds.fold(0, |all, one| all | one)
                } else {
                    0
                };
            }
        }
        let (mut high, mut low) = (Box::new([0; 256]), Box::new([0; 256]));
        for ((octet, high), low) in (0..=u8::MAX).zip(high.iter_mut()).zip(low.iter_mut()) {
            *low = digit(octet);
            *high = if *low < 16 { *low << 4 } else { *low };
        }
        Self {
            behind,
            high,
            low,
            percent,
            names,
        }
    }

    /// Whether nothing that matters can come of a special octet with those two behind it.
    #[inline]
    pub(super) fn is_idle(&self, [octet, next, third]: [u8; 3]) -> bool {
        let behind = self.behind.get(usize::from(next)).copied().unwrap_or(0);
        let digits = self.high.get(usize::from(next)).copied().unwrap_or(STRANGE)
            | self.low.get(usize::from(third)).copied().unwrap_or(STRANGE);
        let may = self
            .percent
            .get(usize::from(digits))
            .copied()
            .unwrap_or(true);
        let names = self
            .names
            .get(usize::from(next))
            .copied()
            .unwrap_or(u32::MAX);
        let named = names >> (third & 31) & 1 == 1;
        (behind & kind(octet) != 0) | ((octet == b'%') & !may) | ((octet == b'&') & !named)
    }
}

/// One bit for each kind of special octet.
#[inline]
const fn kind(octet: u8) -> u8 {
    match octet {
        b'%' | b'&' => 0,
        b'\\' => BACKSLASH,
        _ => LINE_BREAK,
    }
}

const BACKSLASH: u8 = 1;
const LINE_BREAK: u8 = 2;

/// What an octet is as a digit: its value, or that it is none, or that it may stand for one.
fn digit(octet: u8) -> u16 {
    match char::from(octet).to_digit(16) {
        Some(value) => u16::try_from(value).unwrap_or(STRANGE),
        None if is_introducer(octet) => STRANGE,
        None => NONE,
    }
}

const NONE: u16 = 0x100;
const STRANGE: u16 = 0x200;
