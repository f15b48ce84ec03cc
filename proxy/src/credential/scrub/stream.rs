//! Finds values in what streams by and writes sentinels in their place.
//!
//! What ends a piece and may be the beginning of a value is held back, never more than the longest form.
//! When it is released before it was complete (because nothing more came, or an event was over) it is
//! still remembered: what completes it later is replaced nevertheless.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use bytes::Bytes;
use gig_policy::SecretName;

use super::{
    Scrub,
    pattern::{Form, Pattern},
    run::{Fed, Run},
    style::{Style, fitted, hex},
};
use crate::credential::{
    rewrite::{Rewrite, RewriteError},
    spelling::{
        Finds, Hit,
        unit::{DEPTH, unit},
    },
};

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
    finds: Finds,
}

/// One piece of a body.
#[derive(Clone, Copy)]
struct Piece<'a> {
    raw: &'a [u8],
    /// Octets at the beginning that went already.
    sent: usize,
    /// Nothing comes after it.
    last: bool,
}

impl Scrubber {
    pub(super) const fn new(scrub: Arc<Scrub>, fit: Fit) -> Self {
        Self {
            scrub,
            fit,
            held: Vec::new(),
            sent: 0,
            run: None,
            found: BTreeSet::new(),
            finds: Finds::empty(),
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

    /// Takes the next piece as [`Rewrite::push`] does; gives what may go on, uncopied where it can be.
    pub fn pass(&mut self, data: Bytes) -> Bytes {
        if self.held.is_empty() && self.run.is_none() {
            let finds = self.look(&data, false);
            let (clean, open) = (finds.hits.is_empty(), finds.open_from(0));
            self.finds = finds;
            if clean {
                let goes = open.unwrap_or(data.len());
                self.held
                    .extend_from_slice(data.get(goes..).unwrap_or_default());
                if self.event_over() {
                    self.sent = self.held.len();
                    return data;
                }
                return data.slice(..goes);
            }
        }
        let mut out = Vec::with_capacity(self.held.len() + data.len());
        self.take(&data, &mut out);
        out.into()
    }

    /// Replaces values in a whole text. Whether there were any; `out` is only complete then.
    pub(super) fn whole(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let finds = self.look(text, true);
        let any = !finds.hits.is_empty();
        self.finds = finds;
        if any {
            self.work(text, true, out);
        }
        any
    }

    /// What stands in `raw`, without what may be seen.
    fn look(&mut self, raw: &[u8], last: bool) -> Finds {
        let mut finds = std::mem::take(&mut self.finds);
        self.scrub.patterns.look(raw, last, &mut finds);
        if !finds.hits.is_empty() {
            let scrub = &self.scrub;
            finds.hits.retain(|hit| {
                let pattern = scrub.patterns.pattern(hit.text);
                pattern.is_some_and(|pattern| scrub.standing(pattern.value).is_some())
            });
        }
        finds
    }

    /// Takes one more piece: appends what may go, gives how much of it is dealt with.
    fn work(&mut self, raw: &[u8], last: bool, out: &mut Vec<u8>) -> usize {
        let finds = self.look(raw, last);
        let piece = Piece {
            raw,
            sent: self.sent,
            last,
        };
        let mut at = 0;
        for hit in &finds.hits {
            if hit.start < at {
                continue;
            }
            if finds.open_from(at).is_some_and(|open| open <= hit.start) {
                // Something longer may begin here.
                break;
            }
            self.copy(piece, &mut at, hit.start, out);
            self.put(piece, hit, out);
            at = hit.end;
        }
        let end = finds.open_from(at).unwrap_or(raw.len());
        self.copy_until_open(piece, &mut at, end, out);
        if last && let Some((run, style)) = self.run.take() {
            let mut letters = Vec::new();
            run.end(None, &mut letters);
            style.write(&letters, out);
        }
        self.finds = finds;
        at
    }

    /// Copies up to where a value begins, written anew where a Base64 text moved. An escape that lies
    /// over that place is none.
    fn copy(&mut self, piece: Piece<'_>, at: &mut usize, to: usize, out: &mut Vec<u8>) {
        while self.run.is_some() && *at < to {
            let unit = unit(piece.raw, *at, DEPTH, piece.last);
            let end = unit.map(|unit| unit.end).filter(|end| *end <= to);
            self.feed(piece, *at, end.unwrap_or(*at + 1), out);
            *at = end.unwrap_or(*at + 1);
        }
        piece.copy(*at, to, out);
        *at = to;
    }

    /// Copies up to where a value may begin; an escape that lies over that place is left.
    fn copy_until_open(&mut self, piece: Piece<'_>, at: &mut usize, to: usize, out: &mut Vec<u8>) {
        while self.run.is_some() && *at < to {
            let unit = unit(piece.raw, *at, DEPTH, piece.last);
            let Some(end) = unit.map(|unit| unit.end).filter(|end| *end <= to) else {
                return;
            };
            self.feed(piece, *at, end, out);
            *at = end;
        }
        piece.copy(*at, to, out);
        *at = to;
    }

    /// Writes the next character of a Base64 text that moved, or finds that it is over.
    fn feed(&mut self, piece: Piece<'_>, start: usize, end: usize, out: &mut Vec<u8>) {
        let spelled = piece.raw.get(start..end).unwrap_or_default();
        let unit = unit(spelled, 0, DEPTH, true);
        let octet = unit
            .as_ref()
            .and_then(|unit| unit.octets().first().copied());
        let octet = octet.unwrap_or(0);
        let Some((mut run, mut style)) = self.run.take() else {
            return;
        };
        if matches!(octet, b'\r' | b'\n') {
            // Line breaks within the text stay where they are.
            piece.copy(start, end, out);
            self.run = Some((run, style));
            return;
        }
        if spelled.len() > 1 {
            style = Style::of(spelled);
        }
        let mut letters = Vec::new();
        match run.feed(octet, &mut letters) {
            Fed::Taken => {
                style.write(&letters, out);
                if !run.is_level() {
                    self.run = Some((run, style));
                }
            }
            Fed::Over => {
                run.end(Some(octet), &mut letters);
                style.write(&letters, out);
                piece.copy(start, end, out);
            }
        }
    }

    /// Writes a sentinel in a value's place.
    fn put(&mut self, piece: Piece<'_>, hit: &Hit, out: &mut Vec<u8>) {
        let scrub = Arc::clone(&self.scrub);
        let Some(pattern) = scrub.patterns.pattern(hit.text) else {
            return;
        };
        let Some(sentinel) = scrub.standing(pattern.value) else {
            return;
        };
        if let Some(name) = scrub.name(pattern.value) {
            self.found.insert(name.clone());
        }
        let written = out.len();
        let spelled = piece.raw.get(hit.start..hit.end).unwrap_or_default();
        self.write(spelled, hit.lead, (pattern, sentinel), out);
        if self.fit == Fit::Exact {
            // Some of the room is taken by what went before anybody knew.
            let gone = piece
                .sent
                .saturating_sub(hit.start)
                .min(out.len() - written);
            drop(out.drain(written..written + gone));
        }
    }

    /// Writes a sentinel as the value in its place was written.
    fn write(
        &mut self,
        spelled: &[u8],
        lead: Option<u8>,
        (pattern, sentinel): (Pattern, &str),
        out: &mut Vec<u8>,
    ) {
        let bare = spelled.len() == pattern.length + usize::from(lead.is_some());
        let style = if bare {
            Style::Bare
        } else {
            Style::of(spelled)
        };
        let value = self.scrub.patterns.guarded().values.get(pattern.value);
        let length = value.map_or(0, |value| value.value.len());
        let exact = self.fit == Fit::Exact;
        if exact && !bare {
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
            Form::Base64 { skipped, url_safe } => {
                let known = self.run.take().filter(|(run, _)| run.is_at(skipped));
                let (mut run, _) = known.unwrap_or_else(|| (Run::new(skipped, url_safe), style));
                let mut letters = Vec::new();
                run.replace(lead, &new, pattern.length, &mut letters);
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

    fn take(&mut self, octets: &[u8], out: &mut Vec<u8>) {
        if self.held.is_empty() {
            let done = self.work(octets, false, out);
            let rest = octets.get(done..).unwrap_or_default();
            self.held.extend_from_slice(rest);
        } else {
            let mut held = std::mem::take(&mut self.held);
            held.extend_from_slice(octets);
            let done = self.work(&held, false, out);
            drop(held.drain(..done));
            self.sent = self.sent.saturating_sub(done);
            self.held = held;
        }
        if self.event_over() {
            out.extend_from_slice(self.held.get(self.sent..).unwrap_or_default());
            self.sent = self.held.len();
        }
    }
}

impl Piece<'_> {
    /// Copies what did not go already.
    fn copy(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        let from = from.max(self.sent);
        out.extend_from_slice(self.raw.get(from..to).unwrap_or_default());
    }
}

impl Rewrite for Scrubber {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.take(octets, out);
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

impl fmt::Debug for Scrubber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scrubber")
            .field("fit", &self.fit)
            .field("held", &self.held())
            .finish_non_exhaustive()
    }
}
