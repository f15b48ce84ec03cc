//! The rest of a Base64 text that is written anew, as it is spelled and in its lines.

use super::{
    run::{Fed, Run},
    stream::Fit,
    style::{Style, fitted},
    wrap::Wrap,
};

/// A text of which something was replaced by something of another length.
pub(super) struct Moved {
    pub(super) run: Run,
    pub(super) style: Style,
    pub(super) wrap: Wrap,
}

/// What becomes of a text behind a character.
pub(super) enum Next {
    /// It goes on.
    On(Moved),
    /// What follows can stay as it is.
    Level,
    /// It was over before this character, which is as it was and is not written yet.
    Over,
}

impl Moved {
    /// Writes the next character, which stands for `octet` and is spelled so; of `unsent` of that it is not written
    /// yet. Line breaks within the text stay where they are.
    pub(super) fn feed(
        mut self,
        octet: u8,
        (spelled, unsent): (&[u8], &[u8]),
        fit: Fit,
        out: &mut Vec<u8>,
    ) -> Next {
        let over = match octet {
            // Each line of an event is a field of it.
            b'\r' | b'\n' if fit != Fit::Events || spelled.len() > 1 => {
                let owes = self.run.owes();
                if !self.run.is_padded() && self.wrap.goes_on_over(octet, unsent, owes) {
                    return Next::On(self);
                }
                true
            }
            // As the last line of PEM begins.
            b'-' => !self.wrap.waiting.is_empty() && !self.run.is_url_safe(),
            _ => false,
        };
        if spelled.len() > 1 {
            self.style = Style::of(spelled);
        }
        let mut letters = Vec::new();
        if over || self.run.feed(octet, &mut letters) == Fed::Over {
            self.end(Some(octet), out);
            return Next::Over;
        }
        out.append(&mut self.wrap.waiting);
        self.wrap.letter();
        // Its room is that of the escape.
        if fit == Fit::Exact && spelled.len() > 1 {
            out.extend_from_slice(&fitted("", spelled.len()));
            return Next::Level;
        }
        self.style.write(&letters, out);
        if self.run.is_level() {
            Next::Level
        } else {
            Next::On(self)
        }
    }

    /// Writes what is left when the text is over; `next` is what follows it.
    pub(super) fn end(self, next: Option<u8>, out: &mut Vec<u8>) {
        let mut letters = Vec::new();
        self.run.end(next, &mut letters);
        self.style.write(&letters, out);
        out.extend(self.wrap.waiting);
    }
}
