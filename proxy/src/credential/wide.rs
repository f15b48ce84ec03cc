//! Texts in UTF-16 and UTF-32, in either order of octets.
//!
//! Of each encoding the zero octets at both ends are left out: so the text is the same in either order where
//! it is ASCII, and what stands around it belongs to its neighbours either way. Escapes within such text, and
//! Base64 of it, are not looked for.

use zeroize::{Zeroize as _, Zeroizing};

/// A text in one encoding.
pub(super) struct WideText {
    pub(super) octets: Zeroizing<Vec<u8>>,
    pub(super) wide: Wide,
}

/// How it is encoded, and what was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wide {
    /// Octets of a unit.
    width: usize,
    little: bool,
    /// Zero octets that stand before it.
    before: usize,
    /// Zero octets that stand behind it.
    behind: usize,
}

/// A text in every encoding, each once; in none if it is not text.
pub(super) fn wide(text: &[u8]) -> impl Iterator<Item = WideText> {
    let mut forms: Vec<WideText> = Vec::new();
    let text = std::str::from_utf8(text).unwrap_or_default();
    // Line breaks count in no text, and would leave half of their letter at its end.
    let text = text.trim_matches(['\r', '\n']);
    for (width, little) in [(2, true), (2, false), (4, true), (4, false)] {
        let form = WideText::new(text, width, little);
        let known = forms.iter().any(|known| known.octets == form.octets);
        if !known && !form.octets.is_empty() {
            forms.push(form);
        }
    }
    forms.into_iter()
}

impl WideText {
    fn new(text: &str, width: usize, little: bool) -> Self {
        let mut octets = Zeroizing::new(Vec::with_capacity(text.len() * width));
        for character in text.chars() {
            if width == 4 {
                add_unit(u32::from(character), width, little, &mut octets);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    add_unit(u32::from(*unit), width, little, &mut octets);
                }
            }
        }
        let zero = |octet: &&u8| **octet == 0;
        let before = octets.iter().take(width - 1).take_while(zero).count();
        let ends = octets.iter().rev().take(width - 1);
        let behind = ends.take_while(zero).count();
        let left = octets.len() - behind;
        octets.truncate(left);
        drop(octets.drain(..before));
        Self {
            octets,
            wide: Wide {
                width,
                little,
                before,
                behind,
            },
        }
    }
}

impl Wide {
    /// How many units so many octets of it are.
    pub(super) const fn units(self, octets: usize) -> usize {
        (octets + self.before + self.behind) / self.width
    }

    /// Writes ASCII so that it stands where the text did.
    pub(super) fn write(self, text: &[u8], out: &mut Vec<u8>) {
        let begun = out.len();
        for octet in text {
            add_unit(u32::from(*octet), self.width, self.little, out);
        }
        let written = out.len() - begun;
        out.truncate(begun + written.saturating_sub(self.behind));
        let left = out.len() - begun;
        drop(out.drain(begun..begun + self.before.min(left)));
    }
}

/// Appends a unit; a character that needs more than it has stands for itself nowhere.
fn add_unit(unit: u32, width: usize, little: bool, out: &mut Vec<u8>) {
    let mut octets = unit.to_le_bytes();
    if let Some(octets) = octets.get_mut(..width) {
        if !little {
            octets.reverse();
        }
        out.extend_from_slice(octets);
    }
    octets.zeroize();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(text: &str, width: usize, little: bool) -> Vec<u8> {
        let mut out = Vec::new();
        for character in text.chars() {
            if width == 4 {
                add_unit(u32::from(character), 4, little, &mut out);
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    let octets = if little {
                        unit.to_le_bytes()
                    } else {
                        unit.to_be_bytes()
                    };
                    out.extend(octets);
                }
            }
        }
        out
    }

    #[test]
    fn ascii_is_one_text_in_either_order_and_stands_in_each() {
        let forms: Vec<WideText> = wide(b"abc").collect();
        let octets: Vec<&[u8]> = forms.iter().map(|form| &**form.octets).collect();
        assert_eq!(octets, [&b"a\0b\0c"[..], b"a\0\0\0b\0\0\0c"]);
        assert_eq!(wide(b"\xff\xfe").count(), 0);
    }

    #[test]
    fn what_is_written_in_its_place_leaves_its_neighbours_what_they_are() {
        for text in ["key-4711", "k\u{e9}y-4711\u{20ac}", "\u{20ac}\u{1f511}key"] {
            for (width, little) in [(2, true), (2, false), (4, true), (4, false)] {
                let around = |text: &str| encoded(&format!("<{text}>"), width, little);
                let hay = around(text);
                let found = wide(text.as_bytes()).find_map(|form| {
                    let length = form.octets.len();
                    let at = hay.windows(length).position(|at| at == &**form.octets)?;
                    Some((at, at + length, form.wide))
                });
                let (start, end, wide) = found.expect("it stands there");
                let mut out = hay[..start].to_vec();
                wide.write(b"gigph-0", &mut out);
                out.extend_from_slice(&hay[end..]);
                assert_eq!(out, around("gigph-0"), "{text} {width} {little}");
                let units = encoded(text, width, little).len() / width;
                assert_eq!(wide.units(end - start), units);
            }
        }
    }
}
