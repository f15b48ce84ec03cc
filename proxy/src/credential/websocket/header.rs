//! The header of a WebSocket frame (RFC 6455 §5.2).

use super::{CONTROL_MOST, FrameError, Sender};

/// What a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

impl Opcode {
    const fn parse(number: u8) -> Option<Self> {
        Some(match number {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xa => Self::Pong,
            _ => return None,
        })
    }

    const fn number(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    /// Whether it stands between the frames of messages.
    pub(super) const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A header, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// The last frame of its message.
    pub(super) last: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: Option<[u8; 4]>,
    /// Octets of payload.
    pub(super) length: u64,
}

/// What could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parsed {
    /// More octets are needed.
    Short,
    /// A header, and its own length.
    Whole(Header, usize),
}

impl Header {
    /// Reads a header that `sender` wrote.
    pub(super) fn parse(octets: &[u8], sender: Sender) -> Result<Parsed, FrameError> {
        let [first, second, rest @ ..] = octets else {
            return Ok(Parsed::Short);
        };
        if first & 0x70 != 0 {
            return Err(FrameError::Protocol("an extension that was not agreed on"));
        }
        let opcode =
            Opcode::parse(first & 0x0f).ok_or(FrameError::Protocol("an unknown opcode"))?;
        let last = first & 0x80 != 0;
        let masked = second & 0x80 != 0;
        if masked != (sender == Sender::Client) {
            return Err(FrameError::Protocol("a mask on the wrong side"));
        }
        let (length, rest, width) = match (second & 0x7f, rest) {
            (126, [a, b, rest @ ..]) => (u64::from(u16::from_be_bytes([*a, *b])), rest, 2),
            (127, [a, b, c, d, e, f, g, h, rest @ ..]) => {
                let length = u64::from_be_bytes([*a, *b, *c, *d, *e, *f, *g, *h]);
                (length, rest, 8)
            }
            (126 | 127, _) => return Ok(Parsed::Short),
            (short, rest) => (u64::from(short), rest, 0),
        };
        // "The minimal number of bytes MUST be used", "the most significant bit MUST be 0".
        if width == 2 && length < 126 || width == 8 && (length < 1 << 16 || length >> 63 == 1) {
            return Err(FrameError::Protocol("a length that is written too long"));
        }
        if opcode.is_control() && (!last || length > CONTROL_MOST as u64) {
            return Err(FrameError::Protocol("a control frame, long or in pieces"));
        }
        let mask = match (masked, rest) {
            (false, _) => None,
            (true, [a, b, c, d, ..]) => Some([*a, *b, *c, *d]),
            (true, _) => return Ok(Parsed::Short),
        };
        let header = Self {
            last,
            opcode,
            mask,
            length,
        };
        Ok(Parsed::Whole(header, 2 + width + 4 * usize::from(masked)))
    }
}

/// Appends a header.
pub(super) fn write_header(
    (last, opcode): (bool, Opcode),
    length: usize,
    mask: Option<[u8; 4]>,
    out: &mut Vec<u8>,
) {
    out.push(u8::from(last) << 7 | opcode.number());
    let masked = u8::from(mask.is_some()) << 7;
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short), _) if short < 126 => out.push(masked | short),
        (_, Ok(middle)) => {
            out.push(masked | 126);
            out.extend_from_slice(&middle.to_be_bytes());
        }
        _ => {
            out.push(masked | 127);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
    if let Some(key) = mask {
        out.extend_from_slice(&key);
    }
}
