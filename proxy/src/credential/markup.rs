//! XML and HTML: in which kind of place a sentinel stands, and how a value is written there.
//!
//! In text and between the marks of an attribute a value's own marks are written as entities, in a CDATA section
//! nothing is. Where no way of writing keeps a value what it is (in a comment, in a tag, in a script, between quotation
//! marks within a text, behind which there may be JSON), one that could end something is not placed. Read leniently,
//! as a browser does: what is refused for it would be broken elsewhere.

use memchr::{memchr, memchr3, memmem};
use zeroize::Zeroizing;

use super::{place::Escape, quoted::Quoted, tags};

/// Follows one document while it streams.
#[derive(Debug)]
pub(super) struct Markup {
    place: Place,
    /// Marks in the text, the attribute or the section.
    quoted: Quoted,
    /// Of an entity in it what came, without `&`.
    entity: Option<Vec<u8>>,
    /// What came of a tag's name, or of what ends the place.
    word: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Text,
    /// Behind `<`, as long as it does not show what begins.
    Opening,
    /// In a tag or a declaration, between its attributes.
    Tag,
    /// Between these marks.
    Attribute(u8),
    Comment,
    Section,
    /// In an element whose text is no markup.
    Script,
}

/// The value cannot be written there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unwritten;

impl Markup {
    pub(super) const fn new() -> Self {
        Self {
            place: Place::Text,
            quoted: Quoted::CLOSED,
            entity: None,
            word: Vec::new(),
        }
    }

    /// Takes the next octets. Where a step takes none, the next one is of another place or of no entity.
    pub(super) fn read(&mut self, octets: &[u8]) {
        let mut rest = octets;
        while !rest.is_empty() {
            let taken = match self.place {
                Place::Text => match tags::last_in_text(rest) {
                    Some(over @ 1..) => {
                        self.enter(Place::Text);
                        over
                    }
                    _ => self.text(rest, b'<'),
                },
                Place::Attribute(mark) => self.text(rest, mark),
                Place::Opening => self.opening(rest),
                Place::Tag => self.tag(rest),
                Place::Comment => self.until(rest, b"-->"),
                Place::Section => self.section(rest),
                Place::Script => self.script(rest),
            };
            rest = rest.get(taken..).unwrap_or_default();
        }
    }

    /// Whether what comes next stands in a comment.
    #[cfg(test)]
    pub(super) fn is_comment(&self) -> bool {
        self.place == Place::Comment
    }

    /// Appends `value` as it is written here.
    ///
    /// # Errors
    /// [`Unwritten`]: nothing was appended.
    pub(super) fn write(&self, value: &[u8], out: &mut Vec<u8>) -> Result<(), Unwritten> {
        if !needs_care(value) {
            Escape::Markup.write(value, out);
            return Ok(());
        }
        let blank = |octet: &u8| matches!(octet, b'\t' | b'\n' | b'\r');
        let control = |octet: &u8| octet.is_ascii_control() && !blank(octet);
        // XML 1.0 §2.2 has none of these, however they are written.
        if value.iter().any(control) || self.entity.is_some() {
            return Err(Unwritten);
        }
        let quoted = self.quoted.is_open() && super::quoted::needs_care(value);
        match self.place {
            _ if quoted => Err(Unwritten),
            Place::Text | Place::Attribute(_) => {
                let mut written = Zeroizing::new(Vec::with_capacity(2 * value.len()));
                Escape::Markup.write(value, &mut written);
                for octet in written.iter() {
                    match octet {
                        // XML 1.0 §2.11 and §3.3.3: as they are they would be read as others.
                        b'\r' => out.extend_from_slice(b"&#13;"),
                        b'\n' if self.place != Place::Text => out.extend_from_slice(b"&#10;"),
                        b'\t' if self.place != Place::Text => out.extend_from_slice(b"&#9;"),
                        octet => out.push(*octet),
                    }
                }
                Ok(())
            }
            // With what stands around it, either could be what ends the section.
            Place::Section if memchr3(b']', b'>', b'\r', value).is_none() => {
                out.extend_from_slice(value);
                Ok(())
            }
            Place::Section | Place::Opening | Place::Tag | Place::Comment | Place::Script => {
                Err(Unwritten)
            }
        }
    }

    fn enter(&mut self, place: Place) {
        self.place = place;
        self.quoted = Quoted::CLOSED;
        self.entity = None;
        self.word.clear();
    }

    /// Text with entities, up to what ends it.
    fn text(&mut self, rest: &[u8], end: u8) -> usize {
        // Of what is over nothing is left: neither marks nor half an entity.
        if let Some(at @ 1..) = memchr(end, rest) {
            return at;
        }
        let first = rest.first().copied().unwrap_or_default();
        if first == end {
            let next = match end {
                b'<' => Place::Opening,
                _ => Place::Tag,
            };
            // The tag whose attribute it was goes on.
            let word = std::mem::take(&mut self.word);
            self.enter(next);
            if next == Place::Tag {
                self.word = word;
            }
            return 1;
        }
        // None of what ends it is there: all of it is of this text, and it is searched for that once.
        let mut left = rest;
        while !left.is_empty() {
            let taken = self.within_text(left);
            left = left.get(taken..).unwrap_or_default();
        }
        rest.len()
    }

    /// The next step in text of which no end comes.
    fn within_text(&mut self, rest: &[u8]) -> usize {
        let first = rest.first().copied().unwrap_or_default();
        if let Some(entity) = &mut self.entity {
            let ends = first == b';' || entity.len() >= LONGEST_ENTITY;
            if ends || !(first.is_ascii_alphanumeric() || first == b'#') {
                let read = entity_of(entity);
                // `&amp;quot;` is `&quot;` to who reads what was read.
                self.entity = (read == b'&').then(Vec::new);
                if read != b'&' {
                    self.quoted.read(&[read]);
                }
                return usize::from(first == b';');
            }
            entity.push(first);
            return 1;
        }
        if first == b'&' {
            if let Some((read, length)) = whole_entity(rest) {
                self.quoted.read(&[read]);
                return length;
            }
            self.entity = Some(Vec::new());
            return 1;
        }
        let length = memchr(b'&', rest).unwrap_or(rest.len());
        self.quoted.read(rest.get(..length).unwrap_or_default());
        length
    }

    /// What `<` begins.
    fn opening(&mut self, rest: &[u8]) -> usize {
        let octet = rest.first().copied().unwrap_or_default();
        self.word.push(octet.to_ascii_lowercase());
        let word = self.word.as_slice();
        match word {
            b"!--" => self.enter(Place::Comment),
            b"![cdata[" => self.enter(Place::Section),
            _ if b"!--".starts_with(word) || b"![cdata[".starts_with(word) => {}
            // A sign that stands in a text.
            [first] if !(first.is_ascii_alphabetic() || matches!(first, b'/' | b'!' | b'?')) => {
                self.enter(Place::Text);
                return 0;
            }
            _ => {
                self.place = Place::Tag;
                self.word.pop();
                return 0;
            }
        }
        1
    }

    fn tag(&mut self, rest: &[u8]) -> usize {
        let Some(at) = memchr3(b'>', b'"', b'\'', rest) else {
            self.name(rest);
            return rest.len();
        };
        self.name(rest.get(..at).unwrap_or_default());
        self.end_name();
        match rest.get(at) {
            Some(b'>') if SCRIPTS.contains(&self.word.as_slice()) => self.enter(Place::Script),
            Some(b'>') => self.enter(Place::Text),
            Some(mark) => {
                self.place = Place::Attribute(*mark);
                self.quoted = Quoted::CLOSED;
            }
            None => {}
        }
        at + 1
    }

    /// Takes what belongs to the name of a tag.
    fn name(&mut self, octets: &[u8]) {
        for octet in octets {
            if self.word.last() == Some(&NAMED) || self.word.len() > LONGEST_NAME {
                return;
            }
            match octet.is_ascii_alphanumeric() || matches!(octet, b'/' | b'!' | b'?' | b':') {
                true => self.word.push(octet.to_ascii_lowercase()),
                false => self.end_name(),
            }
        }
    }

    fn end_name(&mut self) {
        if self.word.last() != Some(&NAMED) {
            self.word.push(NAMED);
        }
    }

    /// Up to behind `end`.
    fn until(&mut self, rest: &[u8], end: &[u8]) -> usize {
        let (kept, over) = (self.word.len(), end.len() - 1);
        let near = rest.get(..over).unwrap_or(rest);
        self.word.extend_from_slice(near);
        // Over the joint, or behind it.
        let joint = memmem::find(&self.word, end).map(|at| (at + end.len()).saturating_sub(kept));
        let found = joint.or_else(|| memmem::find(rest, end).map(|at| at + end.len()));
        if let Some(taken) = found {
            self.enter(Place::Text);
            return taken;
        }
        if let Some(last) = rest
            .len()
            .checked_sub(over)
            .and_then(|from| rest.get(from..))
        {
            self.word.clear();
            self.word.extend_from_slice(last);
        }
        let from = self.word.len().saturating_sub(over);
        drop(self.word.drain(..from));
        rest.len()
    }

    fn section(&mut self, rest: &[u8]) -> usize {
        let taken = self.until(rest, b"]]>");
        if self.place == Place::Section {
            self.quoted.read(rest);
        }
        taken
    }

    /// Up to the tag that ends it, whichever it is: what is no end of a script there is refused for nothing.
    fn script(&mut self, rest: &[u8]) -> usize {
        if self.word.is_empty() {
            return match memchr(b'<', rest) {
                Some(at) => {
                    self.word.push(b'<');
                    at + 1
                }
                None => rest.len(),
            };
        }
        let octet = rest.first().copied().unwrap_or_default();
        self.word.push(octet.to_ascii_lowercase());
        let name = self.word.strip_prefix(b"</").unwrap_or_default();
        let ends = |known: &&[u8]| known.strip_suffix(&[NAMED]) == Some(name);
        let begins = |known: &&[u8]| known.starts_with(name);
        if SCRIPTS.iter().any(ends) {
            self.enter(Place::Tag);
            self.word.push(b'/');
            return 1;
        }
        let goes_on = self.word == b"</" || !name.is_empty() && SCRIPTS.iter().any(begins);
        if !goes_on {
            self.word.clear();
            return usize::from(octet != b'<');
        }
        1
    }
}

/// Whether a value means something else in some place of a document than what it is.
pub(super) fn needs_care(value: &[u8]) -> bool {
    has_marks(value) || super::comments::needs_care(value)
}

/// The same of a place that is no comment.
pub(super) fn has_marks(value: &[u8]) -> bool {
    let special = |octet: &u8| matches!(octet, b'&' | b'<' | b'>' | b']');
    super::quoted::needs_care(value) || value.iter().any(special)
}

/// What an entity at the beginning of these stands for, and its length; `None` where it is not whole, or may be the
/// beginning of another one.
fn whole_entity(octets: &[u8]) -> Option<(u8, usize)> {
    let near = octets.get(1..)?;
    let near = near.get(..=LONGEST_ENTITY).unwrap_or(near);
    let length = memchr(b';', near)?;
    let name = near.get(..length)?;
    let is_name = |octet: &u8| octet.is_ascii_alphanumeric() || *octet == b'#';
    let read = entity_of(name);
    (name.iter().all(is_name) && read != b'&').then_some((read, length + 2))
}

/// What an entity stands for, as far as it matters; a letter for any other.
fn entity_of(name: &[u8]) -> u8 {
    let is = |(known, _): &&(&[u8], u8)| name.eq_ignore_ascii_case(known);
    if let Some((_, octet)) = ENTITIES.iter().find(is) {
        return *octet;
    }
    let text = std::str::from_utf8(name).unwrap_or_default();
    let number = text
        .strip_prefix('#')
        .and_then(|text| match text.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        });
    number
        .and_then(|number| u8::try_from(number).ok())
        .unwrap_or(b'x')
}

const ENTITIES: [(&[u8], u8); 5] = [
    (b"quot", b'"'),
    (b"apos", b'\''),
    (b"amp", b'&'),
    (b"newline", b'\n'),
    (b"bsol", b'\\'),
];
/// Ends the name of a tag in `word`: no name has it.
const NAMED: u8 = b' ';
/// Elements whose text is no markup (HTML, "Parsing HTML fragments").
pub(super) const SCRIPTS: [&[u8]; 8] = [
    b"script ",
    b"style ",
    b"xmp ",
    b"iframe ",
    b"noembed ",
    b"noframes ",
    b"noscript ",
    b"plaintext ",
];
const LONGEST_NAME: usize = 16;
/// `&NewLine;` and any octet by its number with some zeros.
const LONGEST_ENTITY: usize = 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_over_is_left_out_and_leaves_what_reading_leaves(
            pieces in prop::collection::vec(
                "(<a |<b>|<p c=\"d\">|<i |/>|</b>|<script>|</script>|<STYLE |<!--|-->|--|<!\\[CDATA\\[|\\]\\]>|\\]|\"|'|=|&amp;|&quot;|&#34;|&qu|;|&|<|>|<[?]|it|[ -~]|\n| |\\\\| {50}){0,30}",
                0..5,
            ),
        ) {
            let (mut skips, mut reads) = (Markup::new(), Markup::new());
            for piece in pieces {
                skips.read(piece.as_bytes());
                // Nothing is over within one octet.
                for octet in piece.as_bytes().chunks(1) {
                    reads.read(octet);
                }
                prop_assert_eq!(format!("{skips:?}"), format!("{reads:?}"), "{}", piece);
            }
        }
    }

    /// What becomes of `value` in the place of `@`, read in pieces of `size`.
    fn written(value: &str, text: &str, size: usize) -> Option<String> {
        let (before, _) = text.split_once('@').unwrap();
        let mut markup = Markup::new();
        for piece in before.as_bytes().chunks(size) {
            markup.read(piece);
        }
        let mut out = Vec::new();
        let written = markup.write(value.as_bytes(), &mut out);
        assert!(written.is_ok() || out.is_empty());
        written.ok().map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn each_place_has_its_own_way_of_writing_or_none() {
        let value = "a\"b&<\nc";
        let entities = Some("a&quot;b&amp;&lt;\nc");
        for (text, expected) in [
            ("@", entities),
            ("<k>@</k>", entities),
            ("<?xml version=\"1.0\"?>\n<a b='c>d'>e</a><k>@", entities),
            ("<k>1 < 2 and @", entities),
            ("<k a=\"@\"/>", Some("a&quot;b&amp;&lt;&#10;c")),
            ("<k a='\"' b='@'/>", Some("a&quot;b&amp;&lt;&#10;c")),
            ("<k><![CDATA[@]]></k>", Some(value)),
            ("<k><![CDATA[x]]>y<![CDATA[]]]]>@", entities),
            ("<!-- <k> \"-->@", entities),
            ("<script>if (a < b) \"</script><k>@", entities),
            ("<k>&quot;a&quot; @", entities),
            ("<k>\"a\" @", entities),
            ("<k>it's @", entities),
            // Between marks of a text there may be JSON.
            ("<k>{\"l\": \"@\"}</k>", None),
            ("<k>{&quot;l&quot;: &quot;@", None),
            ("<k>{&#34;l&#x22;: &#034;@", None),
            ("<k>{&amp;quot;l&amp;quot;: &amp;quot;@", None),
            ("<k a='{\"l\": \"@", None),
            ("<k a=\"{&quot;l&quot;: &quot;@", None),
            ("<k><![CDATA[{\"l\": \"@", None),
            // Nothing is written there otherwise than it is.
            ("<!-- @ -->", None),
            ("<@>", None),
            ("<k @>", None),
            ("<k a=@>", None),
            ("<script>@</script>", None),
            ("<SCRIPT type='a'>x</p>@", None),
            ("<style\n>x<@", None),
            ("<k>&@;", None),
        ] {
            for size in [1, 2, 3, 1000] {
                let found = written(value, text, size);
                assert_eq!(found.as_deref(), expected, "{text} by {size}");
            }
        }
    }

    #[test]
    fn a_value_that_is_one_anywhere_goes_anywhere() {
        for text in ["@", "<k>{\"l\": \"@", "<!-- @", "<@", "<script>@"] {
            assert_eq!(written("plain+/=", text, 2).as_deref(), Some("plain+/="));
        }
        for (value, text) in [
            ("a\u{1}b", "<k>@"),
            ("a]", "<![CDATA[@"),
            ("a>", "<![CDATA[@"),
            ("a-", "<!--@"),
        ] {
            assert_eq!(written(value, text, 2), None, "{value}");
        }
        assert_eq!(written("a\rb", "<k>@", 2).as_deref(), Some("a&#13;b"));
        assert_eq!(written("a\tb", "<k l='@", 2).as_deref(), Some("a&#9;b"));
    }
}
