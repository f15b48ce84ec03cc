//! Sentinels to values in a body, while it streams.
//!
//! What may be the beginning of a sentinel is held back until it is one or is none. An interactive
//! stream does not wait for that for ever: who sends the octets on says when it was long enough.

use std::sync::Arc;

use super::{
    exact::Exact,
    media::Beginning,
    needles::SHORTEST,
    parts::Parts,
    place::{Escape, Replacement},
    rewrite::{Rewrite, RewriteError},
    tally::Tally,
};

/// Replaces sentinels.
#[derive(Debug)]
pub struct Swap {
    /// Exact spellings of them.
    spellings: Exact,
    /// By spelling: which of `replacements` it stands for.
    stands_for: Vec<usize>,
    /// Octets that a spelling begins with.
    firsts: [bool; 256],
    replacements: Vec<Swappable>,
    escape: Escape,
    /// What it is does not show yet.
    unknown: Option<Beginning>,
    tally: Arc<Tally>,
    held: Vec<u8>,
    /// In a multipart body: what stands where.
    parts: Option<Parts>,
}

/// A sentinel that may stand in the body.
#[derive(Debug, Clone)]
pub enum Swappable {
    /// With its value.
    Ready(Replacement),
    /// Its secret cannot be had now: a body that holds it is stopped.
    Unavailable(Arc<str>),
}

impl Swappable {
    fn sentinel(&self) -> &Arc<str> {
        match self {
            Self::Ready(replacement) => &replacement.sentinel,
            Self::Unavailable(sentinel) => sentinel,
        }
    }
}

impl Swap {
    /// Replaces these, with values written as `escape` says.
    #[must_use]
    pub fn new(replacements: Vec<Swappable>, escape: Escape, tally: &Arc<Tally>) -> Self {
        let mut spellings = Vec::new();
        for (number, swappable) in replacements.iter().enumerate() {
            for spelling in escape.spellings(swappable.sentinel()) {
                // Minted sentinels are longer by far.
                if spelling.len() >= SHORTEST {
                    spellings.push((spelling, number));
                }
            }
        }
        // In order, so that the beginning of one is found without looking at all.
        spellings.sort_unstable();
        let mut firsts = [false; 256];
        for (octet, known) in (0..=u8::MAX).zip(&mut firsts) {
            *known = spellings
                .iter()
                .any(|(spelling, _)| spelling.first() == Some(&octet));
        }
        let (spellings, stands_for) = spellings.into_iter().unzip();
        Self {
            firsts,
            spellings: Exact::new(spellings),
            stands_for,
            replacements,
            escape,
            unknown: None,
            tally: Arc::clone(tally),
            held: Vec::new(),
            parts: None,
        }
    }

    /// The same in parts that `boundary` divides: in JSON a value is written as such, and none ends the head
    /// that it stands in.
    #[must_use]
    pub fn in_parts(mut self, boundary: &Arc<[u8]>) -> Self {
        self.parts = Some(Parts::of(boundary));
        self
    }

    /// The same for text that may be something else than it says, or says nothing: what begins like JSON is
    /// taken for it, so that no value ends the string that it stands in; all else is as `otherwise` has it.
    #[must_use]
    pub fn untold(replacements: Vec<Swappable>, otherwise: Escape, tally: &Arc<Tally>) -> Self {
        Self {
            unknown: Some(Beginning::Blank),
            ..Self::new(replacements, otherwise, tally)
        }
    }

    /// Looks at how the text begins, behind what says in which Unicode encoding it is.
    fn recognise(&mut self, octets: &[u8]) {
        let Some(json) = self.unknown.as_mut().and_then(|begun| begun.read(octets)) else {
            return;
        };
        self.unknown = None;
        if json {
            // Nothing is held back yet: no sentinel begins with what may stand before.
            let replacements = std::mem::take(&mut self.replacements);
            *self = Self::new(replacements, Escape::Json, &self.tally);
        }
    }

    /// The exact occurrences in `octets`, in order.
    fn occurrences(&self, octets: &[u8]) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        self.spellings.find_each(octets, |spelling, at| {
            if let Some(replacement) = self.stands_for.get(spelling) {
                found.push((at.start, at.end, *replacement));
            }
        });
        found.sort_unstable();
        found
    }

    /// How a value is written whose sentinel ends with the octet at `at` of the last ones.
    fn escape_at(&self, at: usize, value: &[u8]) -> Result<Escape, RewriteError> {
        let Some(parts) = &self.parts else {
            return Ok(self.escape);
        };
        let spot = parts.spot(at);
        if spot.head && value.iter().any(|octet| ENDS_HEAD.contains(octet)) {
            return Err(RewriteError::Unplaceable);
        }
        Ok(if spot.json { Escape::Json } else { self.escape })
    }

    /// Appends `octets`, of which the last ones that came begin at `joint`, with what is replaced, up to where
    /// a sentinel may have begun; gives how far.
    fn replace(
        &mut self,
        (octets, joint): (&[u8], usize),
        out: &mut Vec<u8>,
        last: bool,
    ) -> Result<usize, RewriteError> {
        let occurrences = self.occurrences(octets);
        if let Some(parts) = &mut self.parts {
            let new = octets.get(joint..).unwrap_or_default();
            match occurrences.is_empty() {
                true => parts.skip(new),
                false => parts.read(new),
            }
        }
        let mut from = 0;
        for (start, end, number) in occurrences {
            if start < from {
                continue;
            }
            out.extend_from_slice(octets.get(from..start).unwrap_or_default());
            match self.replacements.get(number) {
                Some(Swappable::Ready(replacement)) => {
                    let value = replacement.value();
                    let value = value.map_err(|_| RewriteError::Unavailable)?;
                    let escape = self.escape_at(end.saturating_sub(joint + 1), value)?;
                    escape.write(value, out);
                    let secret = &replacement.secret;
                    self.tally.swapped(&secret.name, secret.version);
                    self.tally.changed_body();
                }
                Some(Swappable::Unavailable(_)) | None => return Err(RewriteError::Unavailable),
            }
            from = end;
        }
        let rest = octets.get(from..).unwrap_or_default();
        let kept = if last { 0 } else { self.begun(rest) };
        let goes = rest.len() - kept;
        out.extend_from_slice(rest.get(..goes).unwrap_or_default());
        Ok(from + goes)
    }

    /// How many of the last octets may be the beginning of a sentinel.
    fn begun(&self, octets: &[u8]) -> usize {
        let longest = self.spellings.longest();
        let most = longest.saturating_sub(1).min(octets.len());
        let tail = octets.get(octets.len() - most..).unwrap_or_default();
        let begins = |tail: &[u8]| {
            let first = tail
                .first()
                .and_then(|octet| self.firsts.get(usize::from(*octet)));
            first == Some(&true) && self.spellings.begins_with(tail)
        };
        let at = (0..tail.len()).find(|at| tail.get(*at..).is_some_and(begins));
        at.map_or(0, |at| tail.len() - at)
    }
}

impl Rewrite for Swap {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if self.unknown.is_some() {
            self.recognise(octets);
        }
        if self.held.is_empty() {
            let gone = self.replace((octets, 0), out, false)?;
            self.held
                .extend_from_slice(octets.get(gone..).unwrap_or_default());
            return Ok(());
        }
        let mut held = std::mem::take(&mut self.held);
        let joint = held.len();
        held.extend_from_slice(octets);
        let gone = self.replace((&held, joint), out, false)?;
        drop(held.drain(..gone));
        self.held = held;
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let held = std::mem::take(&mut self.held);
        self.replace((&held, held.len()), out, true)?;
        Ok(())
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.finish(out)
    }

    fn held(&self) -> usize {
        self.held.len()
    }
}

/// What would end a field of a part's head, or a quoted word in it.
const ENDS_HEAD: [u8; 4] = *b"\r\n\"\0";

#[cfg(test)]
mod tests {
    use gig_vault::{Part, Secret, SecretBytes, Shape, Treatment};
    use proptest::prelude::*;

    use super::*;
    use crate::credential::place::Places;

    const SENTINEL: &str = "gigph-0123456789abcdef/+=";

    fn swap(value: &str, escape: Escape) -> Swap {
        Swap::new(swappable(value), escape, &Arc::default())
    }

    fn swappable(value: &str) -> Vec<Swappable> {
        let secret = Secret {
            name: "T".parse().unwrap(),
            version: 1,
            parts: vec![Part {
                variable: "T".into(),
                value: SecretBytes::new(value.as_bytes().to_vec()),
                shape: Shape::Plain,
            }],
            treatment: Treatment::Replace,
            entrusted: false,
        };
        let replacement = Replacement {
            sentinel: SENTINEL.into(),
            secret: Arc::new(secret),
            part: 0,
            places: Places::default(),
        };
        let unavailable = Swappable::Unavailable("gigph-unavailable".into());
        vec![Swappable::Ready(replacement), unavailable]
    }

    #[test]
    fn what_begins_like_json_is_written_as_json_wherever_it_is_cut() {
        let told = SENTINEL.replace('/', "\\/");
        for (text, expected) in [
            (
                format!("{{\"k\":\"{SENTINEL}\"}}"),
                "{\"k\":\"a\\\"b\\\\c\"}",
            ),
            (format!(" \r\n\t[\"{told}\"]"), " \r\n\t[\"a\\\"b\\\\c\"]"),
            (
                format!("\u{feff}{{\"k\":\"{SENTINEL}\"}}"),
                "\u{feff}{\"k\":\"a\\\"b\\\\c\"}",
            ),
            (
                format!("\u{feff} \n[\"{SENTINEL}\"]"),
                "\u{feff} \n[\"a\\\"b\\\\c\"]",
            ),
            (format!("\u{feff}k={SENTINEL}"), "\u{feff}k=a\"b\\c"),
            (format!("k={SENTINEL}"), "k=a\"b\\c"),
            (SENTINEL.to_owned(), "a\"b\\c"),
            (format!("  {SENTINEL} {{"), "  a\"b\\c {"),
            (format!("[default]\nk={SENTINEL}"), "[default]\nk=a\"b\\c"),
        ] {
            for cut in 0..=text.len() {
                let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
                let (one, two) = text.as_bytes().split_at(cut);
                assert_eq!(pushed(&mut swap, &[one, two]), expected, "{text} at {cut}");
            }
        }
    }

    #[test]
    fn a_value_is_written_as_its_part_wants_it_and_ends_no_head() {
        let boundary: Arc<[u8]> = b"b"[..].into();
        let of = |value: &str, text: &str, cut: usize| {
            let text = text.replace('<', SENTINEL);
            let mut swap =
                Swap::new(swappable(value), Escape::Raw, &Arc::default()).in_parts(&boundary);
            let (one, two) = text.as_bytes().split_at(cut.min(text.len()));
            let mut out = Vec::new();
            swap.push(one, &mut out)?;
            swap.push(two, &mut out)?;
            swap.finish(&mut out)?;
            Ok(String::from_utf8(out).unwrap())
        };
        let plain = "--b\r\nA: b\r\n\r\n<\r\n--b--";
        let json = "--b\r\nContent-Type: application/json\r\n\r\n{\"k\":\"<\"}\r\n--b--";
        let head = "--b\r\nA: b; filename=\"<\"\r\n\r\nx\r\n--b--";
        for cut in 0..80 {
            assert_eq!(
                of("a\"b", plain, cut),
                Ok(plain.replace('<', "a\"b")),
                "{cut}"
            );
            assert_eq!(
                of("a\"b", json, cut),
                Ok(json.replace('<', "a\\\"b")),
                "{cut}"
            );
            assert_eq!(of("a-b", head, cut), Ok(head.replace('<', "a-b")), "{cut}");
            for value in ["a\"b", "a\r\nX: y", "a\nb"] {
                assert_eq!(
                    of(value, head, cut),
                    Err(RewriteError::Unplaceable),
                    "{cut}"
                );
            }
        }
    }

    #[test]
    fn in_utf_16_no_sentinel_is_found_and_none_ends_a_string() {
        for little in [true, false] {
            let wide = |text: &str| -> Vec<u8> {
                let units = text.encode_utf16();
                let octets = units.map(|u| {
                    if little {
                        u.to_le_bytes()
                    } else {
                        u.to_be_bytes()
                    }
                });
                octets.flatten().collect()
            };
            for begin in ["\u{feff}{\"k\":\"", "{\"k\":\""] {
                let begun = wide(begin);
                let text = [&begun[..], &wide(SENTINEL)].concat();
                let mut out = Vec::new();
                let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
                swap.push(&text, &mut out).unwrap();
                swap.finish(&mut out).unwrap();
                assert_eq!(out, text);
                // Octets that are none of it: JSON all the same, so that none of it ends a string.
                let text = [&begun[..], SENTINEL.as_bytes()].concat();
                let mut out = Vec::new();
                let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
                swap.push(&text, &mut out).unwrap();
                swap.finish(&mut out).unwrap();
                assert_eq!(out, [&begun[..], b"a\\\"b\\\\c"].concat());
            }
        }
    }

    fn pushed(swap: &mut Swap, pieces: &[&[u8]]) -> String {
        let mut out = Vec::new();
        for piece in pieces {
            swap.push(piece, &mut out).unwrap();
            assert!(swap.held() < 128);
        }
        swap.finish(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn wherever_two_cuts_are_each_escape_comes_out_right() {
        let cases = [
            (Escape::Raw, SENTINEL.to_owned(), "a\"b&/%"),
            (Escape::Json, SENTINEL.replace('/', "\\/"), "a\\\"b&/%"),
            (
                Escape::Percent,
                SENTINEL
                    .replace('/', "%2f")
                    .replace('+', "%2b")
                    .replace('=', "%3d"),
                "a%22b%26%2F%25",
            ),
            (
                Escape::Percent,
                SENTINEL
                    .replace('/', "%2F")
                    .replace('+', "%2B")
                    .replace('=', "%3D"),
                "a%22b%26%2F%25",
            ),
            (Escape::Markup, SENTINEL.to_owned(), "a&quot;b&amp;/%"),
        ];
        for (escape, written, value) in cases {
            let text = format!("gigph-0{written}gigph-{written}{written}gig");
            let expected = format!("gigph-0{value}gigph-{value}{value}gig");
            let octets = text.as_bytes();
            for one in 0..octets.len() {
                for two in (one..octets.len()).step_by(3) {
                    let pieces = [&octets[..one], &octets[one..two], &octets[two..]];
                    let out = pushed(&mut swap("a\"b&/%", escape), &pieces);
                    assert_eq!(out, expected, "{escape:?} cut at {one} and {two}");
                }
            }
        }
    }

    #[test]
    fn what_is_held_back_is_let_go_when_nothing_comes() {
        let mut swap = swap("v", Escape::Raw);
        let mut out = Vec::new();
        swap.push(b"hello gig", &mut out).unwrap();
        assert_eq!((out.as_slice(), swap.held()), (&b"hello "[..], 3));
        swap.release(&mut out).unwrap();
        assert_eq!((out.as_slice(), swap.held()), (&b"hello gig"[..], 0));
        out.clear();
        assert_eq!(pushed(&mut swap, &[SENTINEL.as_bytes()]), "v");
    }

    #[test]
    fn a_sentinel_whose_secret_cannot_be_had_stops_the_body() {
        let mut swap = swap("v", Escape::Raw);
        let mut out = Vec::new();
        let refused = swap.push(b"..gigph-unavailable..", &mut out);
        assert_eq!(refused, Err(RewriteError::Unavailable));
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(
            text in prop::collection::vec(prop_oneof![
                Just(SENTINEL.to_owned()), Just("gigph-".to_owned()), "[a-g0-9-]{0,12}",
            ], 0..12).prop_map(|parts| parts.concat()),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
            let out = pushed(&mut swap("VALUE", Escape::Raw), &pieces);
            prop_assert_eq!(out, text.replace(SENTINEL, "VALUE"));
        }
    }
}
