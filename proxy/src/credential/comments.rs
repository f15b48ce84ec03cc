//! Comments of XML and HTML: whether what comes next stands in one.
//!
//! For values whose only marks are hyphens, which many random ones have: nowhere but in a comment do two of them mean
//! something. What only looks like the beginning of a comment, in a script or an attribute, is taken for one: there a
//! value is refused for nothing, and none ends what it stands in. All else is [`super::markup`]'s.

use memchr::memmem;

/// Follows one document while it streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Comments {
    open: bool,
    /// The last octets: as many as show of the next ones what they go on with.
    tail: [u8; TAIL],
}

impl Comments {
    pub(super) const fn new() -> Self {
        Self {
            open: false,
            tail: [0; TAIL],
        }
    }

    /// Whether what comes next stands in a comment, or could begin one.
    pub(super) fn is_open(&self) -> bool {
        self.open || self.tail.ends_with(b"<!") || self.tail.ends_with(b"<!-")
    }

    /// Takes the next octets.
    pub(super) fn read(&mut self, octets: &[u8]) {
        let near = octets.get(..TAIL).unwrap_or(octets);
        let joint = [&self.tail, near].concat();
        // Of two hyphens in the tail, what comes now shows whether they end a comment; of two that begin among the
        // first octets, the tail shows whether they begin one.
        self.turns(&joint, (BEFORE, TAIL + BEFORE));
        self.turns(octets, (BEFORE, octets.len()));
        let last = octets.last_chunk().or_else(|| joint.last_chunk());
        self.tail = last.copied().unwrap_or(self.tail);
    }

    /// Takes what begins and ends comments with two hyphens between these places of `octets`.
    fn turns(&mut self, octets: &[u8], (mut from, to): (usize, usize)) {
        while let Some(at) = memmem::find(octets.get(from..).unwrap_or_default(), b"--") {
            let at = from + at;
            if at >= to {
                return;
            }
            let begins = octets.get(at - BEFORE..at) == Some(b"<!");
            if begins || octets.get(at + 2) == Some(&b'>') {
                self.open = begins;
            }
            from = at + 1;
        }
    }
}

/// Whether a value means something else in a comment than what it is.
pub(super) fn needs_care(value: &[u8]) -> bool {
    memmem::find(value, b"--").is_some() || value.ends_with(b"-")
}

/// Octets before the two hyphens that begin a comment.
const BEFORE: usize = 2;
const TAIL: usize = BEFORE + 2;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::markup::Markup, *};

    fn read(text: &str, size: usize) -> Comments {
        let mut comments = Comments::new();
        for piece in text.as_bytes().chunks(size) {
            comments.read(piece);
        }
        comments
    }

    #[test]
    fn a_comment_lasts_to_its_end() {
        for (text, open) in [
            ("", false),
            ("<p>a -- b", false),
            ("<!-- a", true),
            ("<!-- a -- b", true),
            ("<!-- a -->", false),
            ("<!-- a --->", false),
            ("<!-->", true),
            ("<!-- <!-- -->", false),
            ("--> <!--", true),
            ("<!", true),
            ("<!-", true),
            ("<p", false),
        ] {
            for size in 1..6 {
                assert_eq!(read(text, size).is_open(), open, "{text} by {size}");
            }
        }
    }

    proptest! {
        #[test]
        fn no_comment_is_missed(text in "(<!--|-->|--|[<!>-]|a|<s |<script>|</script>|\"|<!\\[CDATA\\[|\\]\\]>){0,12}", size in 1..20_usize) {
            let mut markup = Markup::new();
            markup.read(text.as_bytes());
            let comments = read(&text, size);
            prop_assert_eq!(comments, read(&text, 1000));
            prop_assert!(comments.is_open() || !markup.is_comment());
        }
    }
}
