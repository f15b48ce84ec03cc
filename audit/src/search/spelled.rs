//! Words as a record may spell them: a letter that is not ASCII stands percent-encoded in a path (RFC 3986 §2.1), and as
//! an A-label in a host's name (RFC 5890 §2.3.2.1).
//!
//! Whoever looks for `straße` finds it in `/stra%C3%9Fe` and in `xn--strae-oqa.example`, too.

use gig_policy::Host;
use percent_encoding::{CONTROLS, utf8_percent_encode};

use super::term::{bare_words, words_in};

/// One word that is looked for: each of its spellings, as words that all have to be there.
pub(crate) type Spellings = Vec<Vec<String>>;

/// The words of a text with their spellings.
pub(crate) fn spelled(text: &str) -> impl Iterator<Item = Spellings> + '_ {
    let mut others = 0;
    bare_words(text).map(move |word| {
        others += usize::from(!word.is_ascii());
        // Records are compared with each spelling: nobody makes that long.
        match others > MOST_OTHERS || word.len() > LONGEST_OTHER {
            true => vec![words_in(word).collect()],
            false => of_word(word),
        }
    })
}

/// The word of each spelling that the fewest records have: by which it is looked for.
pub(crate) fn rarest(spellings: &Spellings) -> impl Iterator<Item = &String> {
    spellings
        .iter()
        .filter_map(|words| words.iter().max_by_key(|word| word.len()))
}

fn of_word(word: &str) -> Spellings {
    let mut spellings: Spellings = vec![words_in(word).collect()];
    if word.is_ascii() {
        return spellings;
    }
    let small = word.to_lowercase();
    for one in [word, &small] {
        let in_path = utf8_percent_encode(one, CONTROLS).to_string();
        spellings.push(words_in(&in_path).collect());
    }
    if let Ok(Host::Name(name)) = Host::parse(&small) {
        spellings.push(words_in(name.as_str()).collect());
    }
    spellings.dedup();
    spellings
}

/// Words of one text that are looked for in other spellings.
const MOST_OTHERS: usize = 16;
/// Of such a word, in octets.
const LONGEST_OTHER: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_words_and_short_ones_are_looked_for_in_other_spellings() {
        let many = "ä ".repeat(MOST_OTHERS + 1);
        let lengths: Vec<_> = spelled(&many).map(|word| word.len()).collect();
        assert!(lengths[..MOST_OTHERS].iter().all(|count| *count > 1));
        assert_eq!(lengths[MOST_OTHERS], 1);
        let long = "ä".repeat(LONGEST_OTHER / 2 + 1);
        assert_eq!(spelled(&long).next().unwrap().len(), 1);
        assert_eq!(spelled("plain").next().unwrap().len(), 1);
    }

    #[test]
    fn a_word_is_spelled_as_paths_and_names_do() {
        let of = |text: &str| spelled(text).collect::<Vec<_>>();
        assert_eq!(of("Items a1"), [[["items"]], [["a1"]]]);
        assert_eq!(
            of("Straße"),
            [vec![
                vec!["straße"],
                vec!["stra", "c3", "9fe"],
                vec!["xn", "strae", "oqa"]
            ]]
        );
        // A capital letter is another octet in a path.
        assert_eq!(
            of("ÜB")[0],
            [
                vec!["üb"],
                vec!["c3", "9cb"],
                vec!["c3", "bcb"],
                vec!["xn", "b", "dha"]
            ]
        );
        let found: Vec<_> = rarest(&of("Straße")[0]).cloned().collect();
        assert_eq!(found, ["straße", "stra", "strae"]);
    }
}
