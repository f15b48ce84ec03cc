//! Messages of one connection as they follow one another: a value may be cut into several, each of which holds
//! too little of it.
//!
//! Letters and digits alone count, as in [`super::pieces`], and what begins and ends in one message is for the others
//! to tell. No more is remembered than the longest piece; nothing waits.

use std::fmt;

use crate::credential::{
    bare::add_bare,
    letters::Letters,
    watch::{Found, Watch},
};

/// The end of what was sent.
#[derive(Default)]
pub struct Strand {
    letters: Letters,
    /// Where the message begins that is on its way.
    joint: usize,
    view: Vec<u8>,
}

impl Strand {
    /// Another message begins.
    pub(super) const fn begin(&mut self) {
        self.joint = self.letters.len();
    }

    /// Tells what begins in a message before and goes on in the next octets of this one.
    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        tell: impl FnMut(&'a Found),
    ) {
        let longest = watch.longest_piece();
        let known = self.letters.len();
        add_bare(octets, &mut self.view, &mut self.letters);
        // What is that far into its message began in it.
        if known < self.joint + longest {
            watch.find_bare_across(self.letters.as_slice(), self.joint, tell);
        }
        let gone = self.letters.leave(self.letters.len(), longest, ROOMY);
        self.joint = self.joint.saturating_sub(gone);
    }
}

impl fmt::Debug for Strand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Strand({} letters)", self.letters.len())
    }
}

/// A connection that waits keeps no more room than this.
const ROOMY: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::credential::misuse::tests::{guard, watch_of};

    /// As a program may send it, letter by letter or in three.
    const VALUE: &str = "r3al-value/of+it-that.is+long";

    /// Whether any of these messages, each in these pieces, is refused.
    fn refused(messages: &[&[&str]]) -> bool {
        let watch = watch_of(VALUE.as_bytes());
        let strand = Arc::new(Mutex::new(Strand::default()));
        messages.iter().any(|pieces| {
            let mut guard = guard(&watch).behind(&strand);
            pieces
                .iter()
                .any(|piece| guard.look(piece.as_bytes()).is_err())
        })
    }

    #[test]
    fn a_value_over_messages_is_refused_wherever_it_is_cut() {
        for cut in 1..VALUE.len() {
            let (head, tail) = VALUE.split_at(cut);
            assert!(refused(&[&["text ", head], &[tail, " text"]]), "{cut}");
            assert!(refused(&[&[head], &["\n", "- ", tail]]), "{cut}");
        }
        let letters: Vec<String> = VALUE.chars().map(String::from).collect();
        let letters: Vec<[&str; 1]> = letters.iter().map(|letter| [&**letter]).collect();
        let letters: Vec<&[&str]> = letters.iter().map(|letter| &letter[..]).collect();
        assert!(refused(&letters));
        // A long message before or behind changes nothing.
        let long = "other words ".repeat(1000);
        let (head, tail) = VALUE.split_at(20);
        assert!(refused(&[&[&long, head], &[tail, &long]]));
    }

    #[test]
    fn what_is_between_and_what_is_within_one_is_for_others_to_tell() {
        let (head, tail) = VALUE.split_at(12);
        assert!(!refused(&[&[head], &["something else"], &[tail]]));
        assert!(!refused(&[&[head, ". And ", tail]]));
        // Nothing tells the pieces of one text apart; see SECURITY.md.
        assert!(!refused(&[&[head, "; ", tail], &["more"]]));
        let long = "other words ".repeat(1000);
        assert!(!refused(&[&[head], &[&long, tail]]));
    }
}
