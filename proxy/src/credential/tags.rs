//! Tags of XML and HTML that are told at a glance: whoever follows a document need not take those step by step that
//! are over.
//!
//! A tag ends with the first `>` that stands in none of its attributes. Which begin something else than a tag, a
//! comment, a declaration or text that is no markup, is left to [`super::markup`]. Told of sixty-four octets at
//! once, on processors that can; of others nothing is told.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};

#[cfg(target_arch = "x86_64")]
use super::lanes::each_block;

/// Where the last `<` is that stands in text, if `octets` begin in text and there are only ordinary tags before it;
/// `None` where there is none, or nobody looked.
pub(super) fn last_in_text(octets: &[u8]) -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    {
        let level = Level::new();
        match (level.as_avx512(), level.as_avx2()) {
            (Some(simd), _) => last_by(simd, octets),
            (None, Some(simd)) => last_by(simd, octets),
            (None, None) => None,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = octets;
        None
    }
}

#[cfg(target_arch = "x86_64")]
fn last_by<S: Simd>(simd: S, octets: &[u8]) -> Option<usize> {
    simd.vectorize(
        #[inline(always)]
        || {
            let mut walk = Walk {
                octets,
                place: Place::Text,
                last: None,
            };
            let signs = [b'<', b'>', b'"', b'\''];
            each_block(
                simd,
                octets,
                signs,
                #[inline(always)]
                |from, signs| walk.goes_over(from, signs),
            );
            walk.last
        },
    )
}

/// What was gone over.
#[cfg(target_arch = "x86_64")]
struct Walk<'a> {
    octets: &'a [u8],
    place: Place,
    last: Option<usize>,
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
enum Place {
    Text,
    Tag,
    /// Between quotation marks.
    Double,
    /// Between apostrophes.
    Single,
}

#[cfg(target_arch = "x86_64")]
impl Walk<'_> {
    /// Goes over a block in which these signs are; whether the next one may be gone over, too.
    #[inline(always)]
    fn goes_over(&mut self, from: usize, signs: [u64; 4]) -> bool {
        let [begins, ends, double, single] = signs;
        let mut left = u64::MAX;
        let is_over = match self.place {
            Place::Text => true,
            Place::Tag => self.tag(&mut left, (ends, double, single)),
            Place::Double => take(&mut left, double) && self.tag(&mut left, (ends, double, single)),
            Place::Single => take(&mut left, single) && self.tag(&mut left, (ends, double, single)),
        };
        if !is_over {
            return true;
        }
        loop {
            let begun = begins & left;
            if !take(&mut left, begins) {
                self.place = Place::Text;
                return true;
            }
            let at = from + begun.trailing_zeros() as usize;
            self.last = Some(at);
            match Begun::of(self.octets.get(at + 1..).unwrap_or_default()) {
                Begun::Tag => {}
                Begun::Nothing => continue,
                Begun::Strange => return false,
            }
            if !self.tag(&mut left, (ends, double, single)) {
                return true;
            }
        }
    }

    /// Goes up to behind the end of a tag; whether it is in this block.
    #[inline(always)]
    fn tag(&mut self, left: &mut u64, (ends, double, single): (u64, u64, u64)) -> bool {
        loop {
            let next = (ends | double | single) & *left;
            let next = next & next.wrapping_neg();
            if !take(left, next) {
                self.place = Place::Tag;
                return false;
            }
            if next & ends != 0 {
                return true;
            }
            let (marks, place) = match next & double {
                0 => (single, Place::Single),
                _ => (double, Place::Double),
            };
            if !take(left, marks) {
                self.place = place;
                return false;
            }
        }
    }
}

/// Leaves what is behind the first of these; whether there is one.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
const fn take(left: &mut u64, signs: u64) -> bool {
    let signs = signs & *left;
    *left &= !(signs ^ signs.wrapping_sub(1));
    signs != 0
}

/// What `<` begins.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    Tag,
    /// It is a sign of the text.
    Nothing,
    /// What is not told here.
    Strange,
}

#[cfg(target_arch = "x86_64")]
impl Begun {
    /// By what follows.
    #[inline(always)]
    const fn of(behind: &[u8]) -> Self {
        let Some(&[first, second, third]) = behind.first_chunk() else {
            return Self::Strange;
        };
        match first {
            b'/' | b'?' => Self::Tag,
            b'!' => Self::Strange,
            _ if !first.is_ascii_alphabetic() => Self::Nothing,
            _ => match [first | 0x20, second | 0x20, third | 0x20] {
                // Elements whose text is no markup, and few others.
                [b's', b'c', b'r']
                | [b's', b't', b'y']
                | [b'x', b'm', b'p']
                | [b'i', b'f', b'r']
                | [b'n', b'o', b'e' | b'f' | b's']
                | [b'p', b'l', b'a'] => Self::Strange,
                _ => Self::Tag,
            },
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::credential::markup::SCRIPTS;

    #[test]
    fn what_begins_text_that_is_no_markup_is_strange() {
        for name in SCRIPTS {
            let upper = name.to_ascii_uppercase();
            assert_eq!(Begun::of(name), Begun::Strange);
            assert_eq!(Begun::of(&upper), Begun::Strange);
        }
    }

    #[test]
    fn ordinary_tags_are_gone_over() {
        let long = format!("<p a='{}<'>", " ".repeat(200));
        for (text, last) in [
            ("no tag", None),
            ("a<b>c</b>d", Some(5)),
            ("1 < 2", Some(2)),
            ("<a b=\"<c>\" d='<e>'>f", Some(0)),
            ("<a b=\"it's\">c</a><b c='", Some(17)),
            ("<a>b<!-- <c> -->", Some(4)),
            ("<a>b<style><c>", Some(4)),
            ("<a>b<", Some(4)),
            (long.as_str(), Some(0)),
        ] {
            // Who cannot look tells nothing.
            if let Some(found) = last_in_text(text.as_bytes()) {
                assert_eq!(Some(found), last, "{text}");
            }
        }
    }
}
