//! Texts that came from a file, a sandbox or an origin, made fit to be shown: nothing in them speaks to
//! a terminal, turns a line round or hides.

/// Whether a character stands for itself: printable ASCII, letters and digits of any script that can be
/// seen, and the dashes, quotes and dots of typeset text. Controls, bidirectional overrides, spaces other than ` ` and invisible characters
/// do not.
#[must_use]
pub fn is_plain(character: char) -> bool {
    character.is_ascii_graphic()
        || character == ' '
        || (character.is_alphanumeric() && !INVISIBLE_LETTERS.contains(&character))
        || matches!(
            character,
            '\u{2013}' | '\u{2014}' | '\u{2018}'..='\u{201e}' | '\u{2026}'
        )
}

/// `text` with every other character escaped as `\u{…}`.
#[must_use]
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if is_plain(character) {
            out.push(character);
        } else {
            out.extend(character.escape_unicode());
        }
    }
    out
}

/// The Hangul fillers: letters by their category, of which nothing is seen (Unicode's
/// `Default_Ignorable_Code_Point` has no other letters).
const INVISIBLE_LETTERS: [char; 4] = ['\u{115f}', '\u{1160}', '\u{3164}', '\u{ffa0}'];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_seen_is_escaped_and_what_can_be_read_stays() {
        for hidden in [
            "\u{1b}",
            "\n",
            "\u{85}",
            "\u{202e}",
            "\u{2066}",
            "\u{200b}",
            "\u{ad}",
            "\u{feff}",
            "\u{a0}",
            "\u{2028}",
            "\u{e0041}",
            "\u{3164}",
            "\u{115f}",
            "\u{1160}",
            "\u{ffa0}",
            "\u{2800}",
            "\u{180e}",
            "\u{fe0f}",
        ] {
            assert!(printable(hidden).starts_with("\\u{"), "{hidden:?}");
        }
        for plain in ["a b/ä-猫 한글 7", "https://… – — “a” ‘b’"] {
            assert_eq!(printable(plain), plain);
        }
    }
}
