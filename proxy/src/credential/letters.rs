//! Letters and digits of texts, put one behind the other.
//!
//! Room is made before, so that an octet costs no more than looking up what it is: each is written, and what
//! follows overwrites it where it is none. What an octet means in a text is for the asker to say.

/// What is done at an octet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Class {
    /// Left out.
    Other = 0,
    /// Taken; counts as one.
    Letter = 1,
    /// The asker has to look.
    Stop = 2,
}

/// What is done at which octet.
pub(super) struct Classes([Class; 256]);

impl Classes {
    /// Takes letters and digits of ASCII, and stops at these.
    #[expect(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "it runs to 127, when the program is compiled"
    )]
    pub(super) const fn stopping(stops: &[u8]) -> Self {
        let mut classes = [Class::Other; 256];
        let mut octet = 0;
        while octet < 128 {
            if (octet as u8).is_ascii_alphanumeric() {
                classes[octet] = Class::Letter;
            }
            octet += 1;
        }
        let mut stop = 0;
        while stop < stops.len() {
            classes[stops[stop] as usize] = Class::Stop;
            stop += 1;
        }
        Self(classes)
    }

    #[inline]
    fn of(&self, octet: u8) -> Class {
        let class = self.0.get(usize::from(octet));
        class.copied().unwrap_or(Class::Other)
    }
}

/// Letters and digits.
#[derive(Debug, Default)]
pub(super) struct Letters {
    /// Behind those that are taken: room.
    octets: Vec<u8>,
    taken: usize,
}

impl Letters {
    /// What is there.
    pub(super) fn as_slice(&self) -> &[u8] {
        self.octets.get(..self.taken).unwrap_or_default()
    }

    /// How many are there.
    pub(super) const fn len(&self) -> usize {
        self.taken
    }

    /// Leaves out what is behind so many.
    pub(super) fn truncate(&mut self, length: usize) {
        self.taken = self.taken.min(length);
    }

    /// Adds one, whatever it is.
    pub(super) fn push(&mut self, octet: u8) {
        self.extend(&[octet]);
    }

    /// Adds these, whatever they are.
    pub(super) fn extend(&mut self, octets: &[u8]) {
        let room = self.room(octets.len()).get_mut(..octets.len());
        if let Some(room) = room {
            room.copy_from_slice(octets);
            self.taken += octets.len();
        }
    }

    /// Adds letters and digits up to the first octet that stops; gives the rest.
    #[inline]
    pub(super) fn add<'a>(&mut self, octets: &'a [u8], classes: &Classes) -> &'a [u8] {
        let room = self.room(octets.len());
        let (mut taken, mut read) = (0, 0);
        for octet in octets {
            let class = classes.of(*octet);
            if class == Class::Stop {
                break;
            }
            if let Some(slot) = room.get_mut(taken) {
                *slot = *octet;
            }
            taken += class as usize;
            read += 1;
        }
        self.taken += taken;
        octets.get(read..).unwrap_or_default()
    }

    /// Moves what is behind `from` to the end of another.
    pub(super) fn move_to(&mut self, from: usize, other: &mut Self) {
        other.extend(self.octets.get(from..self.taken).unwrap_or_default());
        self.truncate(from);
    }

    /// Of what is before `end`, forgets all but the last so many, and keeps no more room than `most`; gives
    /// how many are gone.
    pub(super) fn leave(&mut self, end: usize, last: usize, most: usize) -> usize {
        let gone = end.min(self.taken).saturating_sub(last);
        if gone > 0 {
            self.octets.copy_within(gone..self.taken, 0);
            self.taken -= gone;
        }
        if self.octets.capacity() > most {
            self.octets.truncate(self.taken);
            self.octets.shrink_to_fit();
        }
        gone
    }

    /// Room for so many more.
    #[inline]
    fn room(&mut self, more: usize) -> &mut [u8] {
        let end = self.taken + more;
        if self.octets.len() < end {
            self.octets.resize(end, 0);
        }
        self.octets.get_mut(self.taken..).unwrap_or_default()
    }
}

/// What is left of a name when its letters' case and all that divides its words is gone.
pub(super) fn word(name: &[u8]) -> Vec<u8> {
    let letters = name.iter().filter(|octet| octet.is_ascii_alphanumeric());
    letters.map(u8::to_ascii_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STOPPING: Classes = Classes::stopping(b"%\"");

    proptest! {
        #[test]
        fn letters_are_taken_up_to_what_stops(
            before in "[a-z]{0,9}",
            octets in prop::collection::vec(prop_oneof![
                any::<u8>(), prop::sample::select(b"azAZ09/:@[`{%\"\x80\xe1".to_vec()),
            ], 0..300),
            last in 0_usize..20,
        ) {
            let mut letters = Letters::default();
            letters.extend(before.as_bytes());
            let rest = letters.add(&octets, &STOPPING);
            let stop = octets.iter().position(|octet| b"%\"".contains(octet));
            let (read, expected_rest) = octets.split_at(stop.unwrap_or(octets.len()));
            prop_assert_eq!(rest, expected_rest);
            let mut expected = before.clone().into_bytes();
            expected.extend(read.iter().filter(|octet| octet.is_ascii_alphanumeric()));
            prop_assert_eq!(letters.as_slice(), &expected);
            let mut other = Letters::default();
            letters.move_to(before.len(), &mut other);
            prop_assert_eq!(letters.as_slice(), before.as_bytes());
            prop_assert_eq!(other.as_slice(), &expected[before.len()..]);
            let gone = letters.leave(letters.len(), last, 0);
            prop_assert_eq!(gone, before.len().saturating_sub(last));
            prop_assert_eq!(letters.as_slice(), &before.as_bytes()[gone..]);
        }
    }
}
