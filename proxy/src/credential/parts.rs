//! The parts of a multipart body (RFC 2046 §5.1.1), while it streams: what is a head, and of what its content is.
//!
//! Read leniently, as recipients do: lines may end without a carriage return, and a head may be empty.

use std::sync::Arc;

use http::HeaderName;
use memchr::{
    memchr_iter,
    memmem::{self, Finder},
};

use super::{
    digested::DIGESTS,
    lanes::empty_line,
    media::{Beginning, is_json, is_text, is_xml},
};

/// What an octet of the body belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Spot {
    /// The head of a part.
    pub(super) head: bool,
    /// The value of a form's field (RFC 7578): no head, and no file.
    pub(super) field: bool,
    pub(super) holds: Holds,
    pub(super) told: Told,
}

/// What a content is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Holds {
    /// Text of some kind.
    #[default]
    Text,
    /// With the strings of JSON.
    Json,
    /// XML or HTML.
    Markup,
    /// A form, coded as in a URL.
    Form,
    /// No text.
    Binary,
}

/// What a part's head says of its content.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Told {
    #[default]
    Nothing,
    /// How long it is.
    Length,
    /// What it hashes to, and perhaps how long it is.
    Digest,
}

/// Follows the parts.
#[derive(Debug)]
pub(super) struct Parts {
    /// A line end and what divides parts.
    delimiter: Finder<'static>,
    /// What the last octet that was read belongs to.
    spot: Spot,
    /// What has to be read again with the next octets.
    rest: Vec<u8>,
    /// From where on in the octets that were read last it was what.
    turns: Vec<(usize, Spot)>,
    /// What was before the first of these.
    before: Spot,
    /// Nothing says what the part is in, and it does not show yet.
    untold: Option<Beginning>,
}

impl Parts {
    /// Of a body in which `boundary` divides parts.
    pub(super) fn of(boundary: &Arc<[u8]>) -> Self {
        Self {
            delimiter: delimiter(boundary),
            spot: Spot::default(),
            // The first boundary may be what the body begins with.
            rest: b"\n".to_vec(),
            turns: Vec::new(),
            before: Spot::default(),
            untold: None,
        }
    }

    /// Whether something that is written into a part would end it, at the beginning of a line or anywhere else: who
    /// makes a boundary of what a value holds means no part.
    pub(super) fn would_end(&self, written: &[u8]) -> bool {
        let divides = self.delimiter.needle().trim_ascii_start();
        memmem::find(written, divides).is_some()
    }

    /// Takes the next octets, before they are asked about.
    pub(super) fn read(&mut self, octets: &[u8]) {
        let kept = self.rest.len();
        let mut all = std::mem::take(&mut self.rest);
        all.extend_from_slice(octets);
        self.turns.clear();
        self.before = self.spot;
        let mut at = 0;
        // What was kept was read for how its part begins.
        let mut known = if self.untold.is_some() { kept } else { 0 };
        loop {
            let rest = all.get(at..).unwrap_or_default();
            if let Some(begins) = self.begins(rest.get(known..).unwrap_or_default()) {
                let turn = (at + known + begins).saturating_sub(kept);
                self.turns.push((turn, self.spot));
            }
            known = 0;
            let next = if self.spot.head {
                self.head(rest)
            } else {
                self.content(rest)
            };
            let Some(next) = next else {
                break;
            };
            at += next;
            self.turns.push((at.saturating_sub(kept), self.spot));
        }
        let rest = all.get(at..).unwrap_or_default();
        let keep = if self.spot.head {
            rest.len()
        } else {
            rest.len().min(self.delimiter.needle().len() - 1)
        };
        self.rest = rest.get(rest.len() - keep..).unwrap_or_default().to_vec();
    }

    /// The same for octets that nobody asks about: what is over with them is not looked at closer.
    pub(super) fn skip(&mut self, octets: &[u8]) {
        if self.goes_on(octets) {
            let keep = self.delimiter.needle().len() - 1;
            let from = octets.len().saturating_sub(keep);
            self.rest.clear();
            self.rest
                .extend_from_slice(octets.get(from..).unwrap_or_default());
            self.turns.clear();
            self.before = self.spot;
            return;
        }
        match self.last_part(octets) {
            Some(last) => {
                self.spot = Spot::default();
                self.untold = None;
                self.rest.clear();
                self.read(last);
                let over = octets.len() - last.len();
                self.turns.iter_mut().for_each(|(turn, _)| *turn += over);
            }
            None => self.read(octets),
        }
    }

    /// Whether all of these, and no few, belong to the content that is read.
    fn goes_on(&self, octets: &[u8]) -> bool {
        let length = self.delimiter.needle().len();
        let Some(first) = octets.get(..length) else {
            return false;
        };
        // What is kept of a content is shorter than a delimiter.
        !self.spot.head
            && self.untold.is_none()
            && self.delimiter.find(octets).is_none()
            && self
                .delimiter
                .find(&[self.rest.as_slice(), first].concat())
                .is_none()
    }

    /// From the last delimiter on, if it shows that it stands in no head: between it and the one before there
    /// is an empty line, at which a head ends that began there or before.
    fn last_part<'a>(&self, octets: &'a [u8]) -> Option<&'a [u8]> {
        NEAR.iter().find_map(|near| {
            let from = octets.len().saturating_sub(*near);
            self.last_part_of(octets.get(from..).unwrap_or_default())
        })
    }

    fn last_part_of<'a>(&self, near: &'a [u8]) -> Option<&'a [u8]> {
        let (mut before, mut last) = (None, None);
        for at in self.delimiter.find_iter(near) {
            before = last.replace(at);
        }
        let (before, last) = before.zip(last)?;
        let between = near.get(before + self.delimiter.needle().len()..=last)?;
        head(between).and_then(|_| near.get(last..))
    }

    /// What the octet at `at` of those that were read last belongs to.
    pub(super) fn spot(&self, at: usize) -> Spot {
        let past = self.turns.partition_point(|(turn, _)| *turn <= at);
        let last = past.checked_sub(1).and_then(|last| self.turns.get(last));
        last.map_or(self.before, |(_, spot)| *spot)
    }

    /// Where between these two of the octets that were read last something else began for the last time.
    pub(super) fn last_turn(&self, begin: usize, end: usize) -> Option<(usize, Spot)> {
        let past = self.turns.partition_point(|(turn, _)| *turn < end);
        let last = past.checked_sub(1).and_then(|last| self.turns.get(last));
        last.copied().filter(|(turn, _)| *turn >= begin)
    }

    /// Where in a content that does not say what it is it shows that it is JSON.
    fn begins(&mut self, new: &[u8]) -> Option<usize> {
        let (json, at) = self.untold.as_mut()?.read_to(new)?;
        self.untold = None;
        if !json {
            return None;
        }
        self.spot.holds = Holds::Json;
        Some(at)
    }

    /// Up to where a head begins.
    fn content(&mut self, rest: &[u8]) -> Option<usize> {
        let at = self.delimiter.find(rest)?;
        self.untold = None;
        self.spot = Spot {
            head: true,
            ..Spot::default()
        };
        Some(at + self.delimiter.needle().len())
    }

    /// Up to where a content begins; one octet before it is, since an empty one ends with the next line.
    fn head(&mut self, rest: &[u8]) -> Option<usize> {
        let end = match head(rest) {
            Some(length) => length - 1,
            None if rest.len() > LONGEST_HEAD => rest.len(),
            None => return None,
        };
        let head = rest.get(..end).unwrap_or_default();
        let media = media(head);
        let says_little = media.as_deref().is_none_or(|media| media == "text/plain");
        self.untold = says_little.then_some(Beginning::Blank);
        self.spot = Spot {
            head: false,
            field: !names_file(head),
            holds: media.as_deref().map_or(Holds::Text, holds),
            told: match () {
                () if says(head, is_digest) => Told::Digest,
                () if says(head, |name| name.eq_ignore_ascii_case(LENGTH)) => Told::Length,
                () => Told::Nothing,
            },
        };
        Some(end)
    }
}

/// Finds a line break and what begins the line between two parts.
pub(super) fn delimiter(boundary: &[u8]) -> Finder<'static> {
    Finder::new(&[b"\n--", boundary].concat()).into_owned()
}

/// Octets of a header section with the empty line that ends it.
pub(super) fn head(octets: &[u8]) -> Option<usize> {
    let ends = |at: usize| match octets.get(at + 1..)? {
        [b'\n', ..] => Some(at + 2),
        [b'\r', b'\n', ..] => Some(at + 3),
        _ => None,
    };
    // Most are short.
    if let Some(at) = octets.first_chunk().and_then(empty_line) {
        return ends(at);
    }
    // In one go: what has one kind of line break alone is not searched to its end for the other.
    memchr_iter(b'\n', octets).find_map(ends)
}

/// Whether a part's head says `filename=` or `filename*=` (RFC 7578 §4.2).
fn names_file(head: &[u8]) -> bool {
    let mut words = head.split(|octet| *octet == b';').map(<[u8]>::trim_ascii);
    words.any(|word| {
        let Some((name, rest)) = word.split_at_checked(8) else {
            return false;
        };
        let next = rest.trim_ascii_start().first().copied();
        name.eq_ignore_ascii_case(b"filename") && matches!(next, Some(b'=' | b'*'))
    })
}

/// Whether a part's head has a field of such a name.
fn says(head: &[u8], such: impl Fn(&[u8]) -> bool) -> bool {
    let mut lines = head.split(|octet| *octet == b'\n');
    lines.any(|line| {
        let name = line.split(|octet| *octet == b':').next();
        name.is_some_and(|name| such(name.trim_ascii()))
    })
}

/// What a content of this media type is.
fn holds(media: &str) -> Holds {
    let sub = media.split_once('/').map_or("", |(_, sub)| sub);
    match media {
        // A string in GraphQL has the escapes of one in JSON.
        "application/graphql" => Holds::Json,
        "application/x-www-form-urlencoded" => Holds::Form,
        "text/html" => Holds::Markup,
        _ if is_json(sub) => Holds::Json,
        _ if is_xml(sub) => Holds::Markup,
        media if is_binary(media) => Holds::Binary,
        _ => Holds::Text,
    }
}

/// What a body of its own would be called, but for messages: their heads are text, and take values (a batch of requests).
fn is_binary(media: &str) -> bool {
    let message = media == "application/http" || media.starts_with("message/");
    media.contains('/') && !message && !is_text(media)
}

fn is_digest(name: &[u8]) -> bool {
    let known = |digest: &HeaderName| name.eq_ignore_ascii_case(digest.as_str().as_bytes());
    DIGESTS.iter().any(known)
}

/// What a part's head says its content is, in small letters and without parameters.
fn media(head: &[u8]) -> Option<String> {
    head.split(|octet| *octet == b'\n').find_map(|line| {
        let (name, value) = line.trim_ascii().split_at_checked(TYPE.len())?;
        let media = value.split(|octet| *octet == b';').next()?.trim_ascii();
        let text = || String::from_utf8_lossy(media).to_ascii_lowercase();
        name.eq_ignore_ascii_case(TYPE).then(text)
    })
}

const TYPE: &[u8] = b"content-type:";
const LENGTH: &[u8] = b"content-length";
/// A longer head is taken for its end.
const LONGEST_HEAD: usize = 4096;
/// Octets in which two short parts are looked for; most are much shorter.
const NEAR: [usize; 2] = [512, 2048];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_section_ends_with_its_first_empty_line(parts in prop::collection::vec(prop_oneof![
            "[a-z:]{0,70}", Just("\n".to_owned()), Just("\r\n".to_owned()), Just("\r".to_owned()),
        ], 0..12)) {
            let text = parts.concat();
            let found = |end: &str| text.find(end).map(|at| (at, at + end.len()));
            let first = [found("\n\n"), found("\n\r\n")].into_iter().flatten().min();
            prop_assert_eq!(head(text.as_bytes()), first.map(|(_, end)| end));
        }

        #[test]
        fn what_is_skipped_leaves_what_reading_leaves(
            body in prop::collection::vec(prop_oneof![
                4 => Just("\r\n--b1"), 2 => Just("\n--b1"), 4 => Just("\r\n\r\n"), 1 => Just("\n\n"),
                2 => Just("\r\n"), 2 => Just("\n"), 1 => Just("\r"), 1 => Just("--b1"), 1 => Just("{\""),
                2 => Just("A: b; filename=x"), 1 => Just("Content-Type: application/json"),
                1 => Just("Content-Type: text/plain"), 1 => Just("text"), 1 => Just("long"),
            ], 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..4),
        ) {
            let body = body.concat().replace("long", &"l".repeat(LONGEST_HEAD / 2));
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(body.len() + 1)).collect();
            cuts.extend([0, body.len()]);
            cuts.sort_unstable();
            let mut pieces = cuts.windows(2).map(|cut| &body.as_bytes()[cut[0]..cut[1]]).rev();
            let last = pieces.next().unwrap();
            let (mut read, mut skipped) = (Parts::of(&b"b1"[..].into()), Parts::of(&b"b1"[..].into()));
            for piece in pieces.rev() {
                read.read(piece);
                skipped.skip(piece);
                prop_assert_eq!(skipped.spot, read.spot);
                prop_assert_eq!(skipped.untold, read.untold);
                prop_assert_eq!(&skipped.rest, &read.rest);
            }
            read.read(last);
            skipped.read(last);
            for at in 0..=last.len() {
                prop_assert_eq!(skipped.spot(at), read.spot(at));
            }
        }
    }

    /// What `<` belongs to, read in pieces of `size`.
    fn spot(text: &str, size: usize) -> Spot {
        let octets = text.as_bytes();
        let wanted = octets.iter().position(|octet| *octet == b'<').unwrap();
        let mut parts = Parts::of(&b"b1"[..].into());
        for (number, piece) in octets.chunks(size).enumerate() {
            parts.read(piece);
            let from = number * size;
            if (from..from + piece.len()).contains(&wanted) {
                return parts.spot(wanted - from);
            }
        }
        unreachable!();
    }

    #[test]
    fn fields_files_and_heads_are_told_apart_wherever_they_are_cut() {
        let (head, field, file) = ("head", "field", "file");
        for (text, expected) in [
            (
                "--b1\r\nA: form-data; name=\"p\"\r\n\r\n<\r\n--b1--\r\n",
                field,
            ),
            (
                "--b1\r\nA: b; name=\"f\"; filename=\"a\"\r\n\r\n<\r\n--b1--",
                file,
            ),
            (
                "--b1\r\nA: b; name=\"f\"; FileName*=utf-8''a\r\n\r\n<",
                file,
            ),
            ("--b1\r\nA: b; name=\"filename\"\r\n\r\n<", field),
            (
                "--b1\r\nA: b; filename=x\r\n\r\nt\r\n--b1\r\nA: b\r\n\r\n<",
                field,
            ),
            (
                "--b1\r\nA: b\r\n\r\nt\r\n--b1\r\nA: b; filename=x\r\n\r\n<",
                file,
            ),
            (
                "--b1\r\nA: b\r\n\r\n\r\n--b1\r\nA: b; filename=x\r\n\r\n<",
                file,
            ),
            ("before\r\n--b1\nA: b\n\n<", field),
            ("--b1\r\n\r\n<", field),
            ("--b1\r\nA: b; name=\"<\"\r\n\r\nx", head),
            ("no parts <", ""),
            (
                "--b1\r\nA: b\r\ncontent-type: application/JSON; a=b\r\n\r\n<",
                "field json",
            ),
            (
                "--b1\r\nA: b\r\n\r\n{}\r\n--b1\r\nContent-Type: text/plain\r\n\r\n<",
                field,
            ),
            ("--b1\r\nA: b\r\n\r\n\r\n {\"k\":\"<", "field json"),
            ("--b1\r\nContent-Type: text/plain\r\n\r\n[\"<", "field json"),
            ("--b1\r\nContent-Type: text/csv\r\n\r\n[\"<", field),
            (
                "--b1\r\nA: b\r\n\r\n\r\n--b1\r\nA: c\r\n\r\n {\"<",
                "field json",
            ),
            ("--b1\r\nA: b\r\n\r\n{}\r\n--b1\r\nA: c\r\n\r\na{<", field),
        ] {
            for size in [1, 3, 1000] {
                let found = spot(text, size);
                let mut told = match (found.head, found.field) {
                    (true, _) => head,
                    (false, true) => field,
                    (false, false) if text.starts_with("no") => "",
                    (false, false) => file,
                }
                .to_owned();
                if found.holds == Holds::Json {
                    told += " json";
                }
                assert_eq!(told, expected, "{text:?} by {size}");
            }
        }
    }
}
