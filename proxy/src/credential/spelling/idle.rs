//! What special octets are among when nothing can come of them, told without a branch.

use super::{
    special::{is_introducer, is_line_break, is_special},
    unit::{DEPTH, NAMES},
};

/// A special octet and its neighbours: one before it, the lowest octet, and six behind it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Near(u64);

/// For one set of texts.
pub(super) struct Idle {
    /// For each octet, the kinds of special ones behind which nothing comes of it, and whether no text has it
    /// among its first.
    known: [u8; 256],
    /// A bit for any two octets behind a percent sign: whether nothing comes of it. What texts that are full
    /// of escapes are full of is one look.
    percent: Box<[u64; 1024]>,
    /// No text has a backslash among its first.
    lone: bool,
    /// For each octet behind an ampersand, which may come next in the name of a reference, by the low five
    /// bits.
    names: [u32; 256],
    /// References by name to what no text has among its first.
    references: [u64; 4],
}

impl Near {
    /// Around `at`; `None` where that is near an end.
    #[inline]
    pub(super) fn of(raw: &[u8], at: usize) -> Option<Self> {
        let near = raw.get(at.wrapping_sub(1)..)?.first_chunk()?;
        Some(Self(u64::from_le_bytes(*near)))
    }

    /// The same without the octet behind it.
    #[inline]
    const fn without_next(self) -> Self {
        Self(self.0 >> 8 & !0xff | self.0 & 0xff)
    }

    #[inline]
    const fn at(self, place: u32) -> usize {
        (self.0 >> (8 * place) & 0xff) as usize
    }
}

impl Idle {
    /// For texts among whose first octets are those that `known` knows.
    pub(super) fn new(known: impl Fn(u8) -> bool) -> Self {
        let unknown = |octet: u8| !is_special(octet) && !known(octet);
        let mut kinds = [0; 256];
        for (next, idle) in (0..=u8::MAX).zip(&mut kinds) {
            let backslash = match next {
                b'n' | b'r' | b'u' | b'x' => false,
                b't' => unknown(b'\t'),
                _ => unknown(next) || next.is_ascii_alphanumeric(),
            };
            for (is, kind) in [
                (backslash && !is_special(next), BACKSLASH),
                (unknown(next), LINE_BREAK),
                (!known(next), UNKNOWN),
                (matches!(next, b'n' | b'r'), BACKSLASH << LONG),
                (is_line_break(next), LINE_BREAK << LONG),
            ] {
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
        let references = [
            (*b"&lt;\0\0\0\0", b'<'),
            (*b"&gt;\0\0\0\0", b'>'),
            (*b"&quot;\0\0", b'"'),
            (*b"&amp;\0\0\0", b'&'),
        ];
        let references = references.map(|(name, octet)| match !known(octet) {
            true => u64::from_le_bytes(name),
            false => 0,
        });
        Self {
            known: kinds,
            percent,
            lone: !known(b'\\'),
            names,
            references,
        }
    }

    /// Whether nothing that matters can come of it.
    #[inline]
    pub(super) fn is_idle(&self, mut near: Near) -> bool {
        let known = |place| self.known.get(near.at(place)).copied().unwrap_or(0);
        if near.at(1) == usize::from(b'%') {
            let pair = near.0 >> 16;
            let word = self.percent.get((pair >> 6 & 0x3ff) as usize);
            return word.copied().unwrap_or(0) >> (pair & 63) & 1 == 1;
        }
        // No text begins with a line break, so that what is before it is a part of one.
        let apart = known(0) & UNKNOWN != 0;
        let kind = KINDS.get(near.at(1)).copied().unwrap_or(0);
        if kind == BACKSLASH && self.lone {
            // Whichever of several it is read as, nothing comes of that.
            for _ in 1..DEPTH {
                if near.at(2) == usize::from(b'\\') {
                    near = near.without_next();
                }
            }
        }
        let known = |place| self.known.get(near.at(place)).copied().unwrap_or(0);
        let next = known(2);
        let long = next >> LONG & kind != 0;
        let breaks = (kind == LINE_BREAK) | long;
        let idle = (next & kind != 0) | (long & (known(3) & LINE_BREAK != 0)) | (breaks & apart);
        if kind != AMPERSAND {
            return idle;
        }
        let named = |place: u32| {
            let names = self.names.get(near.at(place)).copied().unwrap_or(u32::MAX);
            names >> (near.at(place + 1) & 31) & 1 == 1
        };
        // Behind one that begins no reference another is no part of one.
        let twice = near.at(2) == usize::from(b'&') && !named(3);
        let named = named(2) && !twice;
        let word = near.0 >> 8;
        let [lt, gt, quot, amp] = self.references;
        let is = |reference: u64, mask: u64| (reference == word & mask) & (reference != 0);
        // An ampersand behind which no reference goes on is one.
        let over = self.names.get(near.at(6)) == Some(&0);
        !named | is(lt, SHORT) | is(gt, SHORT) | is(quot, QUOT) | is(amp, LONGER) & over
    }
}

/// One bit for each kind of special octet that is not told by itself.
#[expect(
    clippy::indexing_slicing,
    reason = "an octet is less than 256, and it is made when the program is compiled"
)]
const KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    kinds[b'&' as usize] = AMPERSAND;
    kinds[b'\\' as usize] = BACKSLASH;
    kinds[b'\r' as usize] = LINE_BREAK;
    kinds[b'\n' as usize] = LINE_BREAK;
    kinds
};

const BACKSLASH: u8 = 1;
const LINE_BREAK: u8 = 2;
/// It is none of the first octets of a text.
const UNKNOWN: u8 = 4;
/// Behind these kinds it ends a break of a line: the bits of both, so much higher.
const LONG: u32 = 4;
const AMPERSAND: u8 = 128;
/// The octets of `&lt;`, and of `&quot;`.
const SHORT: u64 = 0xffff_ffff;
const QUOT: u64 = 0xffff_ffff_ffff;
/// The same of `&amp;`.
const LONGER: u64 = 0xff_ffff_ffff;

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
    fn among_what_no_text_knows_it_is_idle() {
        let idle = Idle::new(|octet| octet == b'a' || octet == 0xe4);
        for (text, expected) in [
            ("a%62", true),
            ("a%61", false),
            ("-%61", false),
            ("a%e4", false),
            ("a%E4", false),
            ("a%bd", true),
            ("a%25", false),
            ("a%0a", false),
            ("-%0b", true),
            ("a%5C", false),
            ("a%zz", true),
            ("a%6z", true),
            ("a%z6", true),
            ("a%%6", false),
            ("a%6%", false),
            ("a%&#", false),
            ("a%6\\", false),
            ("a%z%", false),
            ("a\na", false),
            ("a\n-a", true),
            ("-\na", true),
            ("a\r\na", false),
            ("a\r\n-", true),
            ("a\n\n\n", false),
            ("a\\na", false),
            ("a\\n-", true),
            ("-\\ra", true),
            ("-\\u0061", false),
            ("a\\d", true),
            ("a\\\\-", true),
            ("a\\\\\\-", true),
            ("a\\\\\\\\-", false),
            ("-\\\\n", true),
            ("a\\\\na", false),
            ("a\\\\n-", true),
            ("a\\\\u0061", false),
            ("a&lt;", true),
            ("a&quot;", true),
            ("a&quote", false),
            ("a&amp;", true),
            ("a&amp;b=", true),
            ("a&amp;lt", false),
            ("a&amp;#6", false),
            ("a&amp;%", false),
            ("a&amp;&", false),
            ("a&#61;", false),
            ("a&id=", true),
            ("a&&id=", true),
            ("a&&amp;", false),
            ("a&&&id", false),
        ] {
            let text = format!("..{text}........");
            let near = Near::of(text.as_bytes(), 3).unwrap();
            assert_eq!(idle.is_idle(near), expected, "{text}");
        }
        for (known, text) in [(b'<', b"...&lt;....."), (b'&', b"...&amp;b...")] {
            let idle = Idle::new(|octet| octet == known);
            assert!(!idle.is_idle(Near::of(text, 3).unwrap()));
        }
    }
}
