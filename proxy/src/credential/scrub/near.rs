//! Whether an escape or a line break in a text can matter to what is looked for.
//!
//! Most cannot: what they stand for, or what is around them, stands so in no value. Where none can, the
//! text is its own view, and nothing has to be written anew to look at it.

use super::view::{DEPTH, next_escape, next_line, unit};

/// Which octets stand next to one another in what is looked for.
pub(super) struct Neighbours {
    known: [bool; 256],
    /// By the hash of three in a row.
    rows: Vec<u64>,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self {
            known: [false; 256],
            rows: vec![0; (1 << ROW_BITS) / 64],
        }
    }
}

impl Neighbours {
    /// Adds a text.
    pub(super) fn add(&mut self, text: &[u8]) {
        for octet in text {
            if let Some(known) = self.known.get_mut(usize::from(*octet)) {
                *known = true;
            }
        }
        for row in text.windows(3) {
            if let &[a, b, c] = row {
                let at = row_number(a, b, c);
                if let Some(word) = self.rows.get_mut(at / 64) {
                    *word |= 1 << (at % 64);
                }
            }
        }
    }

    /// Whether an escape or a line break in `raw` may stand within a find.
    pub(super) fn may_matter(&self, raw: &[u8], last: bool) -> bool {
        let (mut escape, mut line) = (next_escape(raw, 0), next_line(raw, 0));
        loop {
            let at = escape.min(line);
            if at == raw.len() {
                return false;
            }
            let end = if at == line {
                let rest = raw.get(at..).unwrap_or_default();
                let breaks = rest.iter().take_while(|o| matches!(o, b'\r' | b'\n'));
                let end = at + breaks.count();
                if self.joins(raw, (at, end), None, last) {
                    return true;
                }
                end
            } else if let skip @ 1.. = self.idle(raw, at) {
                at + skip
            } else {
                let Some(unit) = unit(raw, at, DEPTH, last) else {
                    return true;
                };
                let stands = unit.single();
                let between = (at, unit.end);
                let line_break = matches!(stands, b'\r' | b'\n');
                if unit.end > at + 1
                    && if line_break {
                        self.joins(raw, between, None, last)
                    } else {
                        unit.len > 1 || self.joins(raw, between, Some(stands), last)
                    }
                {
                    return true;
                }
                unit.end
            };
            if escape < end {
                escape = next_escape(raw, end);
            }
            if line < end {
                line = next_line(raw, end);
            }
        }
    }

    /// The octets to skip at what is no escape, or one of those that markup and JSON are full of where
    /// what it stands for is in nothing; 0 where a closer look is needed.
    fn idle(&self, raw: &[u8], at: usize) -> usize {
        let Some(&[first, next]) = raw.get(at..at + 2) else {
            return 0;
        };
        if is_special(next) {
            return 0;
        }
        let (escapes, known) = match first {
            b'%' => (next.is_ascii_hexdigit(), true),
            b'\\' => (
                matches!(next, b'u' | b'x' | b'n' | b'r' | b't' | b'/' | b'"' | b'\''),
                next != b'"' || self.knows(b'"'),
            ),
            _ => match next {
                b'q' => (true, self.knows(b'"')),
                b'g' => (true, self.knows(b'>')),
                b'l' => (true, self.knows(b'<') || self.knows(b'_')),
                b'a' if !self.knows(b'&') => return self.idle_ampersand(raw, at),
                _ => (next == b'#' || next.is_ascii_lowercase(), true),
            },
        };
        match (escapes, known) {
            (false, _) => 1,
            (true, false) => 2,
            (true, true) => 0,
        }
    }

    /// `&amp;` where nothing follows that it would begin another reference with.
    fn idle_ampersand(&self, raw: &[u8], at: usize) -> usize {
        match raw.get(at..at + 6) {
            Some(&[b'&', b'a', b'm', b'p', b';', next])
                if !is_special(next) && next != b'#' && !b"aglqspe".contains(&next) =>
            {
                5
            }
            _ => 0,
        }
    }

    /// Whether `middle` may be in a find with what is around it; without one, whether what is around may
    /// be in one.
    fn joins(
        &self,
        raw: &[u8],
        (start, end): (usize, usize),
        middle: Option<u8>,
        last: bool,
    ) -> bool {
        if middle.is_some_and(|middle| !self.knows(middle)) {
            return false;
        }
        let before = |n| start.checked_sub(n).and_then(|at| raw.get(at)).copied();
        let (before, beyond) = (before(1), before(2));
        let (after, further) = (raw.get(end).copied(), raw.get(end + 1).copied());
        // Nothing comes after the last; before the first there was nothing.
        let open = |octet: Option<u8>| octet.map_or(!last, is_special);
        let strange = |octet: Option<u8>| octet.is_some_and(is_special);
        if middle.is_none() {
            let knows = |octet: Option<u8>| octet.is_some_and(|octet| self.knows(octet));
            if !(knows(before) || strange(before)) || !(knows(after) || open(after)) {
                return false;
            }
        }
        if strange(before) || strange(beyond) || open(after) || open(further) {
            return true;
        }
        let row = |a: Option<u8>, b: Option<u8>, c: Option<u8>| match (a, b, c) {
            (Some(a), Some(b), Some(c)) => self.has(a, b, c),
            _ => false,
        };
        if middle.is_some() {
            return row(middle, after, further)
                || row(before, middle, after)
                || row(beyond, before, middle);
        }
        row(before, after, further) || row(beyond, before, after)
    }

    fn knows(&self, octet: u8) -> bool {
        self.known.get(usize::from(octet)) == Some(&true)
    }

    fn has(&self, a: u8, b: u8, c: u8) -> bool {
        let at = row_number(a, b, c);
        self.rows
            .get(at / 64)
            .is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

const fn row_number(a: u8, b: u8, c: u8) -> usize {
    let word = (a as u32) << 16 | (b as u32) << 8 | c as u32;
    (word.wrapping_mul(0x9e37_79b1) >> (u32::BITS - ROW_BITS)) as usize
}

const fn is_special(octet: u8) -> bool {
    matches!(octet, b'%' | b'\\' | b'&' | b'\r' | b'\n')
}

/// 32 KiB: a hundred values take one bit in sixteen.
const ROW_BITS: u32 = 18;
