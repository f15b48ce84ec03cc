//! Whether a value may be longer or shorter than its sentinel where that stands.
//!
//! What is no text (MQTT, MessagePack, CBOR or Protocol Buffers in the binary messages of a WebSocket) mostly says how
//! long each of its fields is, and what is a part of something longer (`Content-Range`) has its place in that: a value
//! of another length would make of it what nobody wrote. Text has no such lengths.

use http::{HeaderMap, HeaderName, header::CONTENT_RANGE};

use super::rewrite::RewriteError;

/// What a body says of lengths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Lengths {
    /// Nothing that is not made anew.
    #[default]
    Free,
    /// Its own, or its place in something longer.
    Told,
    /// Those of its fields, unless it is text.
    TextAlone,
}

/// Whether a header section says that the body is a part of something longer: those of RFC 9110 §14.4, and of what goes
/// on with an upload (tus.io, and what the IETF makes of it).
pub(super) fn is_part_of_more(headers: &HeaderMap) -> bool {
    PLACES.iter().any(|name| headers.contains_key(name))
}

const PLACES: [HeaderName; 3] = [
    CONTENT_RANGE,
    HeaderName::from_static("upload-offset"),
    HeaderName::from_static("upload-length"),
];

/// Whether what begins so is text, as far as that shows.
pub(crate) fn begins_as_text(octets: &[u8]) -> bool {
    let mut text = Text::default();
    text.read(octets);
    !text.broken
}

/// Follows one body or message.
#[derive(Debug, Default)]
pub(super) struct Room {
    lengths: Lengths,
    text: Text,
    resized: bool,
}

impl Room {
    /// In what says this.
    pub(super) fn of(lengths: Lengths) -> Self {
        Self {
            lengths,
            ..Self::default()
        }
    }

    /// Takes the next octets as they came.
    pub(super) fn read(&mut self, octets: &[u8]) {
        if self.lengths == Lengths::TextAlone {
            self.text.read(octets);
        }
    }

    /// A value of another length took its sentinel's place.
    ///
    /// # Errors
    /// [`RewriteError::Unplaceable`], where it may not; the next calls say so, too, where that shows later.
    pub(super) fn resized(&mut self) -> Result<(), RewriteError> {
        self.resized = true;
        self.holds()
    }

    /// Whether what was placed fits what came so far.
    ///
    /// # Errors
    /// [`RewriteError::Unplaceable`].
    pub(super) fn holds(&self) -> Result<(), RewriteError> {
        let fits = match self.lengths {
            Lengths::Free => true,
            Lengths::Told => false,
            Lengths::TextAlone => !self.text.broken,
        };
        match fits || !self.resized {
            true => Ok(()),
            false => Err(RewriteError::Unplaceable),
        }
    }

    /// The same at the end.
    ///
    /// # Errors
    /// [`RewriteError::Unplaceable`].
    pub(super) fn ends(&mut self) -> Result<(), RewriteError> {
        self.text.broken |= !self.text.letter.is_empty();
        self.holds()
    }
}

/// Whether octets are text: UTF-8 without control characters, but for tabs and line ends within.
#[derive(Debug, Default)]
struct Text {
    begun: bool,
    broken: bool,
    /// Of a letter that is not whole yet.
    letter: Vec<u8>,
}

impl Text {
    fn read(&mut self, octets: &[u8]) {
        if self.broken || octets.is_empty() {
            return;
        }
        // A line end before all else is a field's number in Protocol Buffers.
        let first = octets.first().is_some_and(u8::is_ascii_control);
        self.broken = first && !self.begun || octets.iter().any(is_control);
        self.begun = true;
        if self.letter.is_empty() {
            self.letters(octets);
            return;
        }
        let mut letter = std::mem::take(&mut self.letter);
        letter.extend_from_slice(octets);
        self.letters(&letter);
    }

    fn letters(&mut self, octets: &[u8]) {
        let Err(error) = std::str::from_utf8(octets) else {
            return;
        };
        match error.error_len() {
            Some(_) => self.broken = true,
            None => {
                let rest = octets.get(error.valid_up_to()..);
                self.letter = rest.unwrap_or_default().to_vec();
            }
        }
    }
}

fn is_control(octet: &u8) -> bool {
    octet.is_ascii_control() && !matches!(octet, b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_told_from_what_has_lengths_wherever_it_is_cut() {
        let long = "g".repeat(45);
        let cases: [(Vec<u8>, bool); 9] = [
            (b"{\"k\":\"v\"}\n".to_vec(), true),
            ("{\"k\":\"v\u{e4}\u{1f511}\"}".into(), true),
            (b"SEND\ntoken:v\n\nbody".to_vec(), true),
            // MQTT (3.1.1 §3.1), MessagePack, CBOR, Protocol Buffers, Latin-1, a letter that is cut off.
            (
                [b"\x10\x37\0\x04MQTT\x04\xc2\0\x3c\0\x2d", long.as_bytes()].concat(),
                false,
            ),
            ([b"\x81\xa1k\xd9\x2d", long.as_bytes()].concat(), false),
            ([b"\xa1\x61k\x78\x2d", long.as_bytes()].concat(), false),
            ([b"\n-", long.as_bytes()].concat(), false),
            (b"caf\xe9 au lait".to_vec(), false),
            (b"v\xc3".to_vec(), false),
        ];
        for (octets, text) in cases {
            for size in 1..=octets.len() {
                let mut room = Room::of(Lengths::TextAlone);
                let late = room.resized();
                assert!(late.is_ok());
                for piece in octets.chunks(size) {
                    room.read(piece);
                }
                assert_eq!(room.ends().is_ok(), text, "{octets:?} by {size}");
            }
        }
    }

    #[test]
    fn nothing_is_said_of_what_keeps_its_length() {
        let mut room = Room::of(Lengths::Told);
        assert!(room.holds().is_ok() && room.ends().is_ok());
        assert!(room.resized().is_err() && room.ends().is_err());
        let mut room = Room::of(Lengths::TextAlone);
        room.read(b"\0");
        assert!(room.ends().is_ok());
        assert!(room.resized().is_err());
    }
}
