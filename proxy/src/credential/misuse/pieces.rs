//! The values of a body, one after the other, as somebody would put pieces together.
//!
//! By the body's type: the values of a form, the strings and numbers of JSON (members and elements,
//! in JSON that says what it is and in text that begins like it), the parts of a multipart body. Only what
//! is at the ends of a value can be a piece that goes on in the next one, so that of a long one nothing
//! else is remembered. In forms and JSON this costs several times what all other looking does, so that it
//! is done for the first [`LOOKED_AT`] octets: whoever would write more before would as well encrypt.

use super::super::{
    bare::add_bare,
    letters::Letters,
    media::Beginning,
    unescape::escapes,
    watch::{Found, Watch},
};

mod form;
mod json;
mod multipart;

use self::{form::Form, json::Json, multipart::Multipart};

/// How pieces of one body are put together.
#[derive(Debug, Default)]
pub struct Pieces {
    way: Way,
    /// Octets of the body that are still looked at.
    left: usize,
}

/// By the body's type.
#[derive(Debug, Default)]
enum Way {
    #[default]
    Never,
    /// As JSON, if it begins like it.
    Untold(Beginning),
    /// As a form, and as JSON too if it begins like it: an origin may take it for either.
    FormOrJson(Beginning),
    Form(Form),
    Json(Json),
    Both(Box<(Form, Json)>),
    Multipart(Box<Multipart>),
}

impl Pieces {
    /// Not at all: nothing tells its values apart.
    #[must_use]
    pub const fn never() -> Self {
        Self::by(Way::Never)
    }

    /// Of a body that does not say what it is: as JSON, if it begins like it.
    #[must_use]
    pub const fn untold() -> Self {
        Self::by(Way::Untold(Beginning::Blank))
    }

    /// Of a form.
    #[must_use]
    pub fn form() -> Self {
        Self::by(Way::Form(Form::default()))
    }

    /// Of a form, or of JSON that is called one.
    #[must_use]
    pub const fn form_or_json() -> Self {
        Self::by(Way::FormOrJson(Beginning::Blank))
    }

    /// Of JSON.
    #[must_use]
    pub fn json() -> Self {
        Self::by(Way::Json(Json::default()))
    }

    /// Of a body in parts, with `boundary` between them.
    #[must_use]
    pub fn multipart(boundary: &[u8]) -> Self {
        Self::by(Way::Multipart(Box::new(Multipart::new(boundary))))
    }

    const fn by(way: Way) -> Self {
        let left = LOOKED_AT;
        Self { way, left }
    }

    /// Takes the next octets of the body and tells what is in pieces in it so far.
    pub(super) fn look<'a>(
        &mut self,
        octets: &[u8],
        watch: &'a Watch,
        mut tell: impl FnMut(&'a Found),
    ) {
        let told = match &mut self.way {
            Way::Untold(beginning) => beginning.read(octets).map(|json| match json {
                true => Way::Json(Json::default()),
                false => Way::Never,
            }),
            Way::FormOrJson(beginning) => beginning.read(octets).map(|json| match json {
                true => Way::Both(Box::default()),
                false => Way::Form(Form::default()),
            }),
            _ => None,
        };
        if let Some(way) = told {
            self.way = way;
        }
        let octets = self.near(octets);
        for octets in octets.chunks(AT_ONCE) {
            match &mut self.way {
                Way::Never | Way::Untold(_) | Way::FormOrJson(_) => return,
                Way::Form(form) => form.look(octets, watch, &mut tell),
                Way::Json(json) => json.look(octets, watch, &mut tell),
                Way::Both(both) => {
                    both.0.look(octets, watch, &mut tell);
                    both.1.look(octets, watch, &mut tell);
                }
                Way::Multipart(multipart) => multipart.look(octets, watch, &mut tell),
            }
        }
        if self.left == 0 {
            self.way = Way::Never;
        }
    }

    /// What of `octets` is to be looked at.
    fn near<'o>(&mut self, octets: &'o [u8]) -> &'o [u8] {
        if matches!(self.way, Way::Multipart(_)) {
            return octets;
        }
        let near = octets.get(..self.left).unwrap_or(octets);
        self.left -= near.len();
        near
    }

    /// Has all that is remembered looked at again: others may be looked for now.
    pub(super) fn renew(&mut self) {
        match &mut self.way {
            Way::Never | Way::Untold(_) | Way::FormOrJson(_) => {}
            Way::Form(form) => form.renew(),
            Way::Json(json) => json.renew(),
            Way::Both(both) => {
                both.0.renew();
                both.1.renew();
            }
            Way::Multipart(multipart) => multipart.renew(),
        }
    }

    /// Octets that are remembered.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        match &self.way {
            Way::Never | Way::Untold(_) | Way::FormOrJson(_) => 0,
            Way::Form(form) => form.kept(),
            Way::Json(json) => json.kept(),
            Way::Both(both) => both.0.kept() + both.1.kept(),
            Way::Multipart(multipart) => multipart.kept(),
        }
    }
}

/// Letters and digits of values, one after the other.
#[derive(Debug, Default)]
struct Row {
    bare: Letters,
    view: Vec<u8>,
    /// What stands behind the values: of a text that goes on, its letters as far as it came.
    open: Option<Open>,
}

/// What was looked at of a text that goes on.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Letters before it, which stay.
    before: usize,
    /// Octets of it that were read, none of which may begin an escape.
    read: usize,
}

impl Row {
    /// Adds a value, or its ends where it is long.
    fn add(&mut self, value: &[u8], end: usize) {
        self.settle();
        if value.len() <= 2 * end {
            return add_bare(value, &mut self.view, &mut self.bare);
        }
        let (head, _) = value.split_at(end);
        let (_, tail) = value.split_at(value.len() - end);
        add_bare(head, &mut self.view, &mut self.bare);
        self.part();
        add_bare(tail, &mut self.view, &mut self.bare);
    }

    /// Adds a value of which `head` was left apart, if it is long.
    fn add_ends(&mut self, head: &[u8], text: &[u8], end: usize) {
        if head.is_empty() {
            return self.add(text, end);
        }
        self.add(head, end);
        self.part();
        self.add(
            text.get(text.len().saturating_sub(end)..)
                .unwrap_or_default(),
            end,
        );
    }

    /// Of a value that goes on, takes what it begins with and leaves what may be its end.
    fn shorten(&mut self, value: &mut Vec<u8>, end: usize) {
        let mut head = Vec::new();
        if leave_ends(&mut head, value, end) {
            self.add(&head, end);
            self.part();
        }
    }

    /// What follows goes together with nothing before.
    fn part(&mut self) {
        self.bare.push(b'\n');
    }

    /// The text that went on is over, or is another one now: what was read of it is read anew.
    fn settle(&mut self) {
        if let Some(open) = self.open.take() {
            self.bare.truncate(open.before);
        }
    }

    /// Tells what stands in it and in `pending` (behind `head`, if that was left apart), of which more may
    /// come, and forgets what nothing can come of. A text that only grew since is not read from its
    /// beginning: octets that come one by one would have all of it read as often.
    fn tell<'a>(
        &mut self,
        (head, pending, end): (&[u8], &[u8], usize),
        watch: &'a Watch,
        tell: &mut impl FnMut(&'a Found),
    ) {
        let known = self.bare.len();
        let longest = watch.longest_piece();
        let plain = head.is_empty() && !escapes(pending);
        let grown = match self.open {
            Some(open) if plain => pending.get(open.read..),
            _ => None,
        };
        if let Some(grown) = grown {
            add_bare(grown, &mut self.view, &mut self.bare);
        } else {
            self.settle();
            let before = self.bare.len();
            self.add_ends(head, pending, end);
            self.open = Some(Open { before, read: 0 });
        }
        let from = match grown {
            Some(_) => known.saturating_sub(longest),
            None => 0,
        };
        let letters = self.bare.as_slice().get(from..).unwrap_or_default();
        watch.find_bare(letters, tell);
        match &mut self.open {
            Some(open) if plain && pending.len() <= 2 * end => {
                open.read = pending.len();
                open.before -= self.bare.leave(open.before, longest, ROOMY);
            }
            _ => {
                self.settle();
                self.bare.leave(self.bare.len(), longest, ROOMY);
            }
        }
    }
}

/// Of a text that goes on, leaves what it begins with in `head` and what may be its end in `text`, and
/// says whether it is long enough for that. Whoever does not know yet what the text is keeps both.
fn leave_ends(head: &mut Vec<u8>, text: &mut Vec<u8>, end: usize) -> bool {
    if text.len() <= 2 * end.max(1) {
        return false;
    }
    if head.is_empty() {
        head.extend_from_slice(text.get(..end).unwrap_or_default());
    }
    drop(text.drain(..text.len() - end));
    if text.capacity() > 4 * MOST {
        text.shrink_to(2 * MOST);
    }
    true
}

/// Octets at either end of a value that may be a piece.
fn end(watch: &Watch) -> usize {
    watch.longest_piece().saturating_mul(SPREAD).min(MOST)
}

/// Octets that may stand for a letter or a digit, with what stands between two.
const SPREAD: usize = 8;
/// What is remembered is looked at again with whatever comes, be it an octet: longer texts are put together
/// where they come at once.
const MOST: usize = 4096;
/// Octets of a body in which pieces are put together.
pub(super) const LOOKED_AT: usize = 1024 * 1024;
/// Octets that are taken before what they came to is looked at.
const AT_ONCE: usize = 16 * 1024;
/// A body that waits keeps no more room than this.
const ROOMY: usize = 2 * AT_ONCE;

#[cfg(test)]
mod tests;
