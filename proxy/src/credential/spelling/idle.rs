//! What special octets are before when nothing can come of them, told without a branch.

use super::{
    special::{is_introducer, is_special},
    unit::NAMES,
};

/// For one set of texts.
pub(super) struct Idle {
    /// For each octet, the kinds of special ones behind which nothing comes of it.
    behind: [u8; 256],
    /// A bit for any two octets behind a percent sign: whether nothing comes of it. What texts that are full
    /// of escapes are full of is one look.
    percent: Box<[u64; 1024]>,
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
        let may = |[high, low]: [u8; 2]| match (digit(high), digit(low)) {
            (Digit::Is(high), Digit::Is(low)) => !unknown(high << 4 | low),
            (Digit::Strange, _) | (_, Digit::Strange) => true,
            (Digit::None, _) | (_, Digit::None) => false,
        };
        let mut percent = Box::new([0; 1024]);
        for (word, slot) in (0..=u16::MAX >> 6).zip(percent.iter_mut()) {
            let idle = |bit: &u16| !may((word << 6 | bit).to_le_bytes());
            *slot = (0..64).filter(idle).fold(0_u64, |all, bit| all | 1 << bit);
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
        Self {
            behind,
            percent,
            names,
        }
    }

    /// Whether nothing that matters can come of a special octet with those two behind it.
    #[inline]
    pub(super) fn is_idle(&self, [octet, next, third]: [u8; 3]) -> bool {
        if octet == b'%' {
            let pair = u16::from_le_bytes([next, third]);
            let word = self.percent.get(usize::from(pair >> 6));
            return word.copied().unwrap_or(0) >> (pair & 63) & 1 == 1;
        }
        let behind = self.behind.get(usize::from(next)).copied().unwrap_or(0);
        let names = self
            .names
            .get(usize::from(next))
            .copied()
            .unwrap_or(u32::MAX);
        let named = names >> (third & 31) & 1 == 1;
        (behind & kind(octet) != 0) | ((octet == b'&') & !named)
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

/// What an octet is as a digit.
enum Digit {
    Is(u8),
    None,
    /// It may stand for one.
    Strange,
}

fn digit(octet: u8) -> Digit {
    match char::from(octet).to_digit(16).map(u8::try_from) {
        Some(Ok(value)) => Digit::Is(value),
        Some(Err(_)) | None if is_introducer(octet) => Digit::Strange,
        Some(Err(_)) | None => Digit::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behind_a_percent_sign_what_no_text_knows_is_idle() {
        let idle = Idle::new(|octet| octet == b'a' || octet == 0xe4);
        for (behind, expected) in [
            (*b"62", true),
            (*b"61", false),
            (*b"e4", false),
            (*b"E4", false),
            (*b"bd", true),
            (*b"25", false),
            (*b"0a", false),
            (*b"5C", false),
            (*b"zz", true),
            (*b"6z", true),
            (*b"z6", true),
            (*b"%6", false),
            (*b"6%", false),
            (*b"&#", false),
            (*b"6\\", false),
            (*b"z%", false),
        ] {
            let shown = String::from_utf8_lossy(&behind);
            let [next, third] = behind;
            assert_eq!(idle.is_idle([b'%', next, third]), expected, "%{shown}");
        }
    }
}
