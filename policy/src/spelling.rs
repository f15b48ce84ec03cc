//! What a word was meant to be, where it is nearly another one.

/// The first of the words that differs from `written` in two letters at most.
#[must_use]
pub fn nearest<'a>(written: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mut words = words.into_iter();
    words.find(|word| distance(written, word) <= 2)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.chars().count()).collect();
    for (i, x) in a.chars().enumerate().take(LONGEST) {
        let mut diagonal = i;
        let mut left = i + 1;
        for (slot, y) in row.iter_mut().skip(1).zip(b.chars()) {
            let here = (*slot + 1)
                .min(left + 1)
                .min(diagonal + usize::from(x != y));
            diagonal = *slot;
            *slot = here;
            left = here;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(usize::MAX)
}

/// No field's name is longer; what is longer is far from all of them.
const LONGEST: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_nearly_another_is_known() {
        let words = ["command", "file", "environment"];
        assert_eq!(nearest("comand", words), Some("command"));
        assert_eq!(nearest("flie", words), Some("file"));
        assert_eq!(nearest("vault", words), None);
    }
}
