//! Letters and digits of short contents of a multipart body, one after the other and each up to the line that ends
//! it, without those of the header sections between them: on processors that look at sixty-four octets at once.
//!
//! What holds an escape, is long or is not over here is left to the asker, who reads each by itself.

use fearless_simd::{Level, Simd, mask8x64, prelude::*, u8x64};

use super::{BLOCK, Letters, NEAR, is_letter};

/// What ends contents.
struct Delimiter<'a> {
    octets: &'a [u8],
    /// As many of them as a block has, and where those are.
    first: [u8; BLOCK],
    places: u64,
}

impl Letters {
    /// Adds those of all contents that `octets`, which begin in one, hold with what ends them and the header section
    /// behind, and that are no longer than `most`; gives how much of it that is.
    pub(in crate::credential) fn add_contents(
        &mut self,
        octets: &[u8],
        delimiter: &[u8],
        most: usize,
    ) -> usize {
        self.add_contents_by(Level::new(), octets, (delimiter, most))
    }

    /// The same as some processor can.
    fn add_contents_by(
        &mut self,
        level: Level,
        octets: &[u8],
        (delimiter, most): (&[u8], usize),
    ) -> usize {
        #[cfg(target_arch = "x86_64")]
        {
            let delimiter = Delimiter::new(delimiter);
            let room = self.room(octets.len() + BLOCK);
            let (read, taken) = match (level.as_avx512(), level.as_avx2()) {
                (Some(simd), _) => add(simd, octets, (&delimiter, most), room),
                (None, Some(simd)) => add(simd, octets, (&delimiter, most), room),
                (None, None) => (0, 0),
            };
            self.taken += taken;
            read
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = (level, octets, delimiter, most);
            0
        }
    }
}

impl<'a> Delimiter<'a> {
    fn new(octets: &'a [u8]) -> Self {
        let mut first = [0; BLOCK];
        for (slot, octet) in first.iter_mut().zip(octets) {
            *slot = *octet;
        }
        let places = u64::MAX.checked_shl(u32::try_from(octets.len()).unwrap_or(u32::MAX));
        Self {
            octets,
            first,
            places: !places.unwrap_or(0),
        }
    }

    #[inline(always)]
    fn begins<S: Simd>(&self, simd: S, octets: &[u8]) -> bool {
        let Some(near) = octets.first_chunk::<BLOCK>() else {
            return octets.starts_with(self.octets);
        };
        let alike = u8x64::simd_from(simd, *near).simd_eq(u8x64::simd_from(simd, self.first));
        !alike.to_bitmask() & self.places == 0
            && (self.octets.len() <= BLOCK || octets.starts_with(self.octets))
    }
}

/// How much is read, and how much taken of it.
fn add<S: Simd>(
    simd: S,
    octets: &[u8],
    (delimiter, most): (&Delimiter<'_>, usize),
    room: &mut [u8],
) -> (usize, usize) {
    simd.vectorize(
        #[inline(always)]
        || {
            let (mut read, mut taken) = (0, 0);
            while let Some((end, more)) = content(simd, octets, read, (delimiter, most), {
                room.get_mut(taken..).unwrap_or_default()
            }) && let Some(next) = behind_head(simd, octets, end + delimiter.octets.len())
            {
                read = next;
                taken += more;
            }
            (read, taken)
        },
    )
}

/// Where the content that begins at `begin` ends, and how many letters it has, which are in `room` then.
#[inline(always)]
fn content<S: Simd>(
    simd: S,
    octets: &[u8],
    begin: usize,
    (delimiter, most): (&Delimiter<'_>, usize),
    room: &mut [u8],
) -> Option<(usize, usize)> {
    let (mut at, mut taken) = (begin, 0);
    while at <= begin + most {
        let [here, next, third] = around(simd, octets, at)?;
        let line = here.simd_eq(b'\n') & next.simd_eq(b'-') & third.simd_eq(b'-');
        let escape = here.simd_eq(b'%') | here.simd_eq(b'\\') | here.simd_eq(b'&');
        let stop = (line | escape).to_bitmask();
        let letters = is_letter(here).to_bitmask() & (stop.wrapping_sub(1) & !stop);
        let slots = room.get_mut(taken..)?.first_chunk_mut::<BLOCK>()?;
        let letter = here.compress(mask8x64::from_bitmask(simd, letters));
        letter.store_slice(slots);
        taken += letters.count_ones() as usize;
        if stop == 0 {
            at += BLOCK;
            continue;
        }
        at += stop.trailing_zeros() as usize;
        let rest = octets.get(at..)?;
        if delimiter.begins(simd, rest) {
            return (at <= begin + most).then_some((at, taken));
        }
        if rest.first() != Some(&b'\n') {
            return None;
        }
        // A line of the content.
        at += 1;
    }
    None
}

/// Where the content begins behind a header section, with the last line break of that.
#[inline(always)]
fn behind_head<S: Simd>(simd: S, octets: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let [here, next, third] = around(simd, octets, at)?;
        let long = next.simd_eq(b'\r') & third.simd_eq(b'\n');
        let empty = (here.simd_eq(b'\n') & (next.simd_eq(b'\n') | long)).to_bitmask();
        if empty != 0 {
            let line_break = at + empty.trailing_zeros() as usize;
            let long = octets.get(line_break + 1) == Some(&b'\r');
            return Some(line_break + 1 + usize::from(long));
        }
        at += BLOCK;
    }
}

/// A block, and the octets one and two places on.
#[inline(always)]
fn around<S: Simd>(simd: S, octets: &[u8], at: usize) -> Option<[u8x64<S>; 3]> {
    let near = octets.get(at..)?.first_chunk::<NEAR>()?;
    let load = |on: usize| {
        let octets = near.get(on..).and_then(<[u8]>::first_chunk::<BLOCK>);
        u8x64::simd_from(simd, octets.copied().unwrap_or([0; BLOCK]))
    };
    Some([load(0), load(1), load(2)])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::credential::lanes::levels;

    /// The letters of the first contents that are such, each looked for, and how far that is.
    fn each(octets: &[u8], delimiter: &[u8], most: usize) -> (usize, Vec<u8>) {
        let (mut read, mut letters) = (0, Vec::new());
        let find = |octets: &[u8], what: &[u8]| octets.windows(what.len()).position(|w| w == what);
        while let Some(length) = find(&octets[read..], delimiter) {
            let (content, rest) = octets[read..].split_at(length);
            let ends = ["\n\n", "\n\r\n"].map(|end| {
                let head = &rest[delimiter.len()..];
                find(head, end.as_bytes()).map(|at| at + end.len() - 1)
            });
            let Some(head) = ends.into_iter().flatten().min() else {
                break;
            };
            if length > most || content.iter().any(|octet| b"%\\&".contains(octet)) {
                break;
            }
            letters.extend(content.iter().filter(|octet| octet.is_ascii_alphanumeric()));
            read += length + delimiter.len() + head;
        }
        (read, letters)
    }

    proptest! {
        #[test]
        fn contents_are_taken_as_each_of_them_is(
            parts in prop::collection::vec(prop_oneof![
                6 => "[a-zA-Z0-9 -]{0,60}", 6 => Just("\r\n--b1".to_owned()), 2 => Just("\n--b1".to_owned()),
                6 => Just("\r\n\r\n".to_owned()), 2 => Just("\n\n".to_owned()), 2 => Just("\r\n".to_owned()),
                1 => Just("\n--b".to_owned()), 1 => Just("\n-".to_owned()), 1 => Just("%41".to_owned()),
                1 => Just("&".to_owned()), 1 => "[a-z\r]{60,140}",
            ], 0..40),
            most in 0_usize..300,
            tail in 0_usize..200,
            long in any::<bool>(),
        ) {
            let boundary = if long { "--b".to_owned() + &"1".repeat(70) } else { "--b1".to_owned() };
            let body = parts.concat().replace("--b1", &boundary) + &"-".repeat(tail);
            let (octets, delimiter) = (body.as_bytes(), format!("\n{boundary}"));
            let (read, letters) = each(octets, delimiter.as_bytes(), most);
            for level in levels() {
                let mut taken = Letters::default();
                taken.push(b'x');
                let over = taken.add_contents_by(level, octets, (delimiter.as_bytes(), most));
                let wide = level.as_avx2().is_some() || level.as_avx512().is_some();
                if wide && tail >= NEAR {
                    prop_assert_eq!(over, read);
                }
                // Near the end less may be told.
                prop_assert!(over <= read);
                let taken = &taken.as_slice()[1..];
                prop_assert!(letters.starts_with(taken));
                let (again, rest) = each(&octets[over..], delimiter.as_bytes(), most);
                prop_assert_eq!(over + again, read);
                prop_assert_eq!(&[taken, rest.as_slice()].concat(), &letters);
            }
        }
    }
}
