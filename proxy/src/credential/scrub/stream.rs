//! Finds values in what streams by and writes sentinels in their place.
//!
//! What ends a piece and may be the beginning of a value is held back, never more than the longest form.
//! When it is released before it was complete (because nothing more came, or an event was over) it is
//! still remembered: what completes it later is replaced nevertheless.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use gig_policy::SecretName;

use super::{
    Scrub,
    pattern::{Form, Hit, Pattern},
    run::{Fed, Run},
    view::View,
};
use crate::credential::rewrite::{Rewrite, RewriteError};

/// Whether a body's length is its own affair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit {
    /// A sentinel takes the room that it needs.
    Free,
    /// As [`Fit::Free`], in a stream of events (text/event-stream): none of them spans a blank line.
    Events,
    /// As many octets come out as went in: a sentinel is cut or repeated.
    Exact,
}

/// Replaces values in one body.
pub struct Scrubber {
    scrub: Arc<Scrub>,
    fit: Fit,
    /// What may be the beginning of a value.
    held: Vec<u8>,
    /// How many of the held octets went already.
    sent: usize,
    run: Option<(Run, Style)>,
    found: BTreeSet<SecretName>,
    view: View,
    hits: Vec<Hit>,
}

/// How characters are escaped around a find.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    Bare,
    Percent,
    Backslash,
    Reference,
}

/// One piece of a body with its view.
struct Piece<'a> {
    raw: &'a [u8],
    view: &'a View,
    octets: &'a [u8],
    /// Octets at the beginning that went already.
    sent: usize,
}

impl Scrubber {
    pub(super) fn new(scrub: Arc<Scrub>, fit: Fit) -> Self {
        Self {
            scrub,
            fit,
            held: Vec::new(),
            sent: 0,
            run: None,
            found: BTreeSet::new(),
            view: View::default(),
            hits: Vec::new(),
        }
    }

    /// The names of the secrets whose values were replaced since the last call.
    pub fn take_found(&mut self) -> BTreeSet<SecretName> {
        std::mem::take(&mut self.found)
    }

    /// Whether a value was replaced since the last call of [`Scrubber::take_found`].
    #[must_use]
    pub fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// Whether `octets` may go on as they are, with nothing held back before or after them.
    pub fn is_clean(&mut self, octets: &[u8]) -> bool {
        if !self.held.is_empty() || self.run.is_some() {
            return false;
        }
        let patterns = Arc::clone(&self.scrub.patterns);
        let known = self.view.make(octets, false);
        let view = self.view.octets(octets);
        patterns.find(view, &mut self.hits);
        let clean = known == octets.len() && self.hits.is_empty();
        clean && patterns.begun(view) == view.len()
    }

    /// Replaces values in a whole text. Whether there were any; `out` is only complete then.
    pub(super) fn whole(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let mut view = std::mem::take(&mut self.view);
        view.make(text, true);
        let mut hits = std::mem::take(&mut self.hits);
        self.scrub.patterns.find(view.octets(text), &mut hits);
        let any = !hits.is_empty();
        (self.view, self.hits) = (view, hits);
        if !any {
            return false;
        }
        let before = self.found.len();
        self.work(text, true, out);
        self.found.len() > before || out != text
    }

    /// Takes one more piece: appends what may go, gives how much of it is dealt with.
    fn work(&mut self, raw: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let mut view = std::mem::take(&mut self.view);
        let mut hits = std::mem::take(&mut self.hits);
        let known = view.make(raw, last);
        let octets = view.octets(raw);
        let patterns = Arc::clone(&self.scrub.patterns);
        patterns.find(octets, &mut hits);
        let begun_after = |from: usize| {
            let rest = octets.get(from..).unwrap_or_default();
            from + if last {
                rest.len()
            } else {
                patterns.begun(rest)
            }
        };
        let mut begun = begun_after(0);
        let piece = Piece {
            raw,
            view: &view,
            octets,
            sent: self.sent,
        };
        let mut at = Cursor::default();
        for hit in &hits {
            if hit.start >= begun {
                // Something longer may begin here.
                break;
            }
            self.pass(&piece, &mut at, hit.start, out);
            self.put(&piece, &mut at, hit, out);
            if begun < at.view {
                begun = begun_after(at.view);
            }
        }
        self.pass(&piece, &mut at, begun, out);
        if begun == octets.len() {
            // Line breaks at the end are not in the view.
            piece.copy(at.raw, known, out);
            at.raw = known;
        }
        if last && let Some((run, style)) = self.run.take() {
            let mut letters = Vec::new();
            run.end(None, &mut letters);
            style.write(&letters, out);
        }
        (self.view, self.hits) = (view, hits);
        at.raw
    }

    /// Copies up to `to` of the view, written anew where a Base64 text moved.
    fn pass(&mut self, piece: &Piece<'_>, at: &mut Cursor, to: usize, out: &mut Vec<u8>) {
        while let Some((mut run, mut style)) = self.run.take() {
            if at.view >= to {
                self.run = Some((run, style));
                break;
            }
            let (start, end) = (piece.view.start(at.view), piece.view.end(at.view + 1));
            // Line breaks within the text stay where they are.
            piece.copy(at.raw, start, out);
            let octet = piece.octets.get(at.view).copied().unwrap_or(0);
            let spelled = piece.raw.get(start..end).unwrap_or_default();
            if spelled.len() > 1 {
                style = Style::of(spelled);
            }
            let mut letters = Vec::new();
            match run.feed(octet, &mut letters) {
                Fed::Taken => {
                    style.write(&letters, out);
                    (at.view, at.raw) = (at.view + 1, end);
                    if !run.is_level() {
                        self.run = Some((run, style));
                    }
                }
                Fed::Over => {
                    run.end(Some(octet), &mut letters);
                    style.write(&letters, out);
                    at.raw = start;
                }
            }
        }
        if at.view < to {
            // What is no longer in the view before `to` belongs before it.
            let end = piece.view.start(to).min(piece.raw.len());
            let end = if to == piece.octets.len() {
                piece.view.end(to)
            } else {
                end
            };
            piece.copy(at.raw, end, out);
            (at.view, at.raw) = (to, end);
        }
    }

    /// Writes a sentinel in a value's place.
    fn put(&mut self, piece: &Piece<'_>, at: &mut Cursor, hit: &Hit, out: &mut Vec<u8>) {
        let scrub = Arc::clone(&self.scrub);
        let Some(pattern) = scrub.patterns.pattern(hit.pattern) else {
            return;
        };
        let Some(sentinel) = scrub.standing(pattern.value) else {
            self.pass(piece, at, hit.end, out);
            return;
        };
        if let Some(name) = scrub.name(pattern.value) {
            self.found.insert(name.clone());
        }
        let (start, end) = (piece.view.start(hit.start), piece.view.end(hit.end));
        piece.copy(at.raw, start, out);
        let written = out.len();
        self.write(piece, hit, (pattern, sentinel), out);
        if self.fit == Fit::Exact {
            // Some of the room is taken by what went before anybody knew.
            let gone = piece.sent.saturating_sub(start).min(out.len() - written);
            drop(out.drain(written..written + gone));
        }
        (at.view, at.raw) = (hit.end, end);
    }

    /// Writes a sentinel as the value in its place was written.
    fn write(
        &mut self,
        piece: &Piece<'_>,
        hit: &Hit,
        (pattern, sentinel): (&Pattern, &str),
        out: &mut Vec<u8>,
    ) {
        let spelled = piece.spelled(hit);
        let style = Style::of(spelled);
        let value = self.scrub.patterns.guarded().values.get(pattern.value);
        let length = value.map_or(0, |value| value.value.len());
        let exact = self.fit == Fit::Exact;
        if exact && (style != Style::Bare || spelled.len() != hit.end - hit.start) {
            out.extend_from_slice(&fitted(sentinel, spelled.len()));
            return;
        }
        let new = if exact && pattern.form == Form::Plain {
            fitted(sentinel, spelled.len())
        } else if exact {
            fitted(sentinel, length)
        } else {
            Cow::Borrowed(sentinel.as_bytes())
        };
        match pattern.form {
            Form::Plain => style.write(&new, out),
            Form::Hex => hex(&new, spelled, out),
            Form::Base64 {
                skipped, url_safe, ..
            } => {
                let known = self.run.take().filter(|(run, _)| run.is_at(skipped));
                let (mut run, _) = known.unwrap_or_else(|| (Run::new(skipped, url_safe), style));
                let lead = (pattern.form.lead() == 1)
                    .then(|| piece.octets.get(hit.start).copied())
                    .flatten();
                let read = hit.end - hit.start - pattern.form.lead();
                let mut letters = Vec::new();
                run.replace(lead, &new, read, &mut letters);
                style.write(&letters, out);
                if !run.is_level() {
                    self.run = Some((run, style));
                }
            }
        }
    }

    /// Whether what is held back ends with an event, so that it must not wait.
    fn event_over(&self) -> bool {
        self.fit == Fit::Events && {
            let held = self.held.as_slice();
            held.ends_with(b"\n\n") || held.ends_with(b"\r\n\r\n") || held.ends_with(b"\r\r")
        }
    }

    /// Keeps what is not dealt with, within bounds: nobody writes a value between thousands of line
    /// breaks.
    fn keep(&mut self, raw: &[u8], done: usize, out: &mut Vec<u8>) {
        self.sent = self.sent.saturating_sub(done);
        let rest = raw.get(done..).unwrap_or_default();
        if rest.len() > self.scrub.patterns.longest() * SPREAD + FEW {
            out.extend_from_slice(rest.get(self.sent..).unwrap_or_default());
            self.sent = 0;
            return;
        }
        self.held = rest.to_vec();
    }
}

/// How far a piece is dealt with.
#[derive(Debug, Default, Clone, Copy)]
struct Cursor {
    view: usize,
    raw: usize,
}

impl Piece<'_> {
    /// Copies what did not go already.
    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let from = from.max(self.sent);
        out.extend_from_slice(self.raw.get(from..to).unwrap_or_default());
    }

    /// A find as it stands in the original.
    fn spelled(&self, hit: &Hit) -> &[u8] {
        let (start, end) = (self.view.start(hit.start), self.view.end(hit.end));
        self.raw.get(start..end).unwrap_or_default()
    }
}

impl Rewrite for Scrubber {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if self.held.is_empty() {
            let done = self.work(octets, false, out);
            self.keep(octets, done, out);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(octets);
            let done = self.work(&held, false, out);
            self.keep(&held, done, out);
        }
        if self.event_over() {
            self.release(out)?;
        }
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let held = std::mem::take(&mut self.held);
        self.work(&held, true, out);
        self.sent = 0;
        Ok(())
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        out.extend_from_slice(self.held.get(self.sent..).unwrap_or_default());
        self.sent = self.held.len();
        Ok(())
    }

    fn held(&self) -> usize {
        self.held.len() - self.sent
    }
}

impl Style {
    /// As a find is spelled.
    fn of(spelled: &[u8]) -> Self {
        let first = spelled
            .iter()
            .find(|octet| matches!(octet, b'%' | b'\\' | b'&'));
        match first {
            Some(b'%') => Self::Percent,
            Some(b'\\') => Self::Backslash,
            Some(b'&') => Self::Reference,
            _ => Self::Bare,
        }
    }

    /// Writes what would not stand for itself with an escape.
    fn write(self, octets: &[u8], out: &mut Vec<u8>) {
        for octet in octets {
            match (self, *octet) {
                (Self::Percent, octet) if !is_unreserved(octet) => {
                    out.extend_from_slice(format!("%{octet:02X}").as_bytes());
                }
                (Self::Backslash, octet @ (b'"' | b'\\')) => out.extend_from_slice(&[b'\\', octet]),
                (Self::Reference, octet @ (b'&' | b'<' | b'>' | b'"' | b'\'')) => {
                    out.extend_from_slice(format!("&#{octet};").as_bytes());
                }
                (_, octet) => out.push(octet),
            }
        }
    }
}

/// RFC 3986 §2.3.
const fn is_unreserved(octet: u8) -> bool {
    octet.is_ascii_alphanumeric() || matches!(octet, b'-' | b'.' | b'_' | b'~')
}

/// A sentinel in so many octets, of which none needs an escape anywhere.
fn fitted(sentinel: &str, length: usize) -> Cow<'_, [u8]> {
    if sentinel.len() == length {
        return Cow::Borrowed(sentinel.as_bytes());
    }
    let sound = |octet: u8| if is_unreserved(octet) { octet } else { b'x' };
    Cow::Owned(sentinel.bytes().map(sound).cycle().take(length).collect())
}

/// Two digits for an octet, in the letter case of what they stand for.
fn hex(octets: &[u8], like: &[u8], out: &mut Vec<u8>) {
    let upper = like.iter().any(u8::is_ascii_uppercase);
    for octet in octets {
        let digits = if upper {
            format!("{octet:02X}")
        } else {
            format!("{octet:02x}")
        };
        out.extend_from_slice(digits.as_bytes());
    }
}

/// Octets that may stand for one: `%2525XX`, and a line break here and there.
const SPREAD: usize = 16;
/// Room for an escape or two.
const FEW: usize = 256;

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber")
            .field("fit", &self.fit)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}
