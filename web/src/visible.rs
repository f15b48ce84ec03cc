//! What characters on a page may not do: speak to the browser's layout unseen.
//!
//! askama escapes what is HTML; this shows what is left: control characters, and those that turn, join
//! or hide text (the bidirectional and invisible ones). It runs over each whole page, so that no
//! template can forget it.

use std::fmt::Write as _;

/// `page` with every control, bidirectional and invisible character written as `⟨U+202E⟩`.
pub(crate) fn visible(page: String) -> String {
    if !page.chars().any(is_unseen) {
        return page;
    }
    let mut shown = String::with_capacity(page.len() + 64);
    for character in page.chars() {
        if is_unseen(character) {
            // Writing to a string does not fail.
            let _infallible = write!(shown, "⟨U+{:04X}⟩", u32::from(character));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Not seen, or changing how others are seen. Line ends and tabs are the templates' own.
const fn is_unseen(character: char) -> bool {
    match character {
        '\n' | '\r' | '\t' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        // Soft hyphen, grapheme joiner, Arabic letter mark, Hangul fillers, Mongolian vowel separator.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{3164}' => {
            true
        }
        // Zero width, directional marks, embeddings, overrides, isolates, invisible operators.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' => true,
        // Variation selectors and tags: invisible text can be written with them.
        '\u{fe00}'..='\u{fe0f}' | '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unseen_characters_are_seen_and_others_stay() {
        let page = "<p>a\u{202e}b\u{200b}\u{1b}[31m\u{e0041}</p>\n\tÄ 漢 🦀".to_owned();
        let shown = "<p>a⟨U+202E⟩b⟨U+200B⟩⟨U+001B⟩[31m⟨U+E0041⟩</p>\n\tÄ 漢 🦀";
        assert_eq!(visible(page), shown);
        assert_eq!(visible("plain".to_owned()), "plain");
    }
}
