//! What both targets about secrets share: one value, its sentinel, and texts made of both.
//!
//! Octets below 16 of an input stand for a spelling of the text that matters; all others for themselves. So
//! chance need not find spellings, and is free for what stands around them and where they are cut.

use std::fmt::Write as _;

use gig_vault::{Guarded, GuardedValue, SecretBytes};

/// A value; its full stop is in no Base64 text and in no hexadecimal one.
pub const VALUE: &str = "ghp_0123.Real/Value+xyz==";
/// What stands for it.
pub const SENTINEL: &str = "gigph-00112233445566778899aabbccddeeff";

/// The value as all that is guarded.
pub fn guarded() -> Guarded {
    Guarded {
        generation: 1,
        values: vec![GuardedValue {
            name: "T".parse().expect("a name"),
            version: 1,
            part: Some(0),
            value: std::sync::Arc::new(SecretBytes::new(VALUE.into())),
            current: true,
        }],
    }
}

/// The octets of an input with spellings of `text` in them.
pub fn spelled(data: &[u8], text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    for octet in data {
        match octet {
            0..16 => out.extend_from_slice(spelling(text, *octet).as_bytes()),
            _ => out.push(*octet),
        }
    }
    out
}

fn spelling(text: &str, how: u8) -> String {
    let each = |write: fn(&mut String, u8)| {
        text.bytes().fold(String::new(), |mut all, octet| {
            write(&mut all, octet);
            all
        })
    };
    match how {
        0 => each(|all, octet| write!(all, "{octet:02x}").expect("a string takes all")),
        1 => each(|all, octet| write!(all, "%{octet:02X}").expect("a string takes all")),
        2 => each(|all, octet| write!(all, "%25{octet:02x}").expect("a string takes all")),
        3 => each(|all, octet| write!(all, "\\u{octet:04x}").expect("a string takes all")),
        4 => each(|all, octet| write!(all, "&#{octet};").expect("a string takes all")),
        5 => text.replace('/', "\\/"),
        6..9 => {
            let skipped = usize::from(how - 6);
            base64(&format!("{}{text}", "x".repeat(skipped)))
        }
        9 => text.get(..text.len() / 2).unwrap_or(text).to_owned(),
        10 => text.replacen('0', "\r\n0", 1),
        _ => text.to_owned(),
    }
}

fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits: Vec<bool> = text
        .bytes()
        .flat_map(|octet| (0..8).rev().map(move |bit| octet >> bit & 1 == 1))
        .collect();
    let letters = bits.chunks(6).map(|six| {
        let number = (0..6).fold(0, |number, at| {
            number << 1 | usize::from(six.get(at) == Some(&true))
        });
        char::from(ALPHABET[number])
    });
    letters.collect()
}

/// Pieces of a text, cut as an input says.
pub fn pieces<'a>(text: &'a [u8], cuts: &[u8]) -> Vec<&'a [u8]> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    for cut in cuts {
        let (piece, more) = rest.split_at(rest.len().min(usize::from(*cut) % 48));
        pieces.push(piece);
        rest = more;
    }
    pieces.push(rest);
    pieces
}
