//! Quotation marks that no backslash escapes: those of the outermost strings of JSON.
//!
//! Between two of them nothing can change what they are, so that a follower of strings need not read what comes
//! before the last. Told of sixty-four octets at once, on processors that can; of others nothing is told.

#[cfg(target_arch = "x86_64")]
use fearless_simd::{Level, Simd};

#[cfg(target_arch = "x86_64")]
use super::lanes::each_block;

/// Marks in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Marks {
    /// How many.
    pub(super) count: usize,
    /// Where the last is.
    pub(super) last: usize,
}

/// Those of `octets`, of which the first is `escaped` or not; `None` where there are none, or nobody counted them.
pub(super) fn marks(octets: &[u8], escaped: bool) -> Option<Marks> {
    #[cfg(target_arch = "x86_64")]
    {
        let level = Level::new();
        match (level.as_avx512(), level.as_avx2()) {
            (Some(simd), _) => marks_by(simd, octets, escaped),
            (None, Some(simd)) => marks_by(simd, octets, escaped),
            (None, None) => None,
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = (octets, escaped);
        None
    }
}

#[cfg(target_arch = "x86_64")]
fn marks_by<S: Simd>(simd: S, octets: &[u8], escaped: bool) -> Option<Marks> {
    simd.vectorize(
        #[inline(always)]
        || {
            let mut counting = Counting {
                escaped: u64::from(escaped),
                marks: None,
            };
            // Octets that are neither change nothing behind the end.
            each_block(
                simd,
                octets,
                [b'"', b'\\'],
                #[inline(always)]
                |from, [quotes, backslashes]| {
                    counting.add(from, quotes, backslashes);
                    true
                },
            );
            counting.marks
        },
    )
}

/// Blocks that were counted.
#[cfg(target_arch = "x86_64")]
struct Counting {
    /// Whether the first octet of the next block is escaped: one or none.
    escaped: u64,
    marks: Option<Marks>,
}

#[cfg(target_arch = "x86_64")]
impl Counting {
    #[inline(always)]
    fn add(&mut self, from: usize, quotes: u64, backslashes: u64) {
        let quotes = quotes & !self.escaped_by(backslashes);
        if quotes != 0 {
            let known = self.marks.map_or(0, |marks| marks.count);
            self.marks = Some(Marks {
                count: known + quotes.count_ones() as usize,
                last: from + quotes.ilog2() as usize,
            });
        }
    }

    /// Which octets of a block stand behind an odd number of backslashes. A row that begins at an odd place, added
    /// to all rows, carries to behind its end; with the others this tells where rows of odd length end.
    #[inline(always)]
    fn escaped_by(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 {
            return std::mem::take(&mut self.escaped);
        }
        let backslashes = backslashes & !self.escaped;
        let behind = backslashes << 1 | self.escaped;
        let odd = backslashes & !EVEN & !behind;
        let (rows, carries) = odd.overflowing_add(backslashes);
        self.escaped = u64::from(carries);
        (EVEN ^ rows << 1) & behind
    }
}

/// Every other place of a block, the first among them.
#[cfg(target_arch = "x86_64")]
const EVEN: u64 = 0x5555_5555_5555_5555;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one_by_one(octets: &[u8], mut escaped: bool) -> Option<Marks> {
        let mut marks: Option<Marks> = None;
        for (last, octet) in octets.iter().enumerate() {
            if *octet == b'"' && !escaped {
                let count = marks.map_or(0, |marks| marks.count) + 1;
                marks = Some(Marks { count, last });
            }
            escaped = *octet == b'\\' && !escaped;
        }
        marks
    }

    proptest! {
        #[test]
        fn marks_are_those_that_are_found_one_by_one(
            text in "(\"|\\\\|\\\\{1,70}|a|a{1,70}|\\\\\"){0,60}",
            escaped: bool,
        ) {
            let found = marks(text.as_bytes(), escaped);
            // Who cannot count tells nothing.
            let can = marks(b"\"", false).is_some();
            let known = one_by_one(text.as_bytes(), escaped).filter(|_| can);
            prop_assert_eq!(found, known);
        }
    }
}
