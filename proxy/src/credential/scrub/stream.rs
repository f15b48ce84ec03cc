//! Finds values in what streams by and writes sentinels in their place.
//!
//! What ends a piece and may be the beginning of a value is held back where that value is one to wait for,
//! never more than the longest form. Whatever passes before it was complete (because its value is none to
//! wait for, because nothing more came, or because an event was over) is still remembered: what completes
//! it later is replaced nevertheless. So is what makes a replaced value the beginning of a longer one.

use std::{borrow::Cow, collections::BTreeSet, fmt, sync::Arc};

use bytes::Bytes;
use gig_policy::SecretName;

use super::{
    Scrub,
    moved::{Moved, Next},
    pattern::{Form, Pattern},
    piece::{Done, Piece, When},
    run::Run,
    style::{Style, fitted, hex},
    wrap::{BEHIND, Wrap},
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
    kept: Vec<u8>,
    /// How many of these went already; the others are held back.
    sent: usize,
    /// How many of these, the last, were not looked at yet.
    unlooked: usize,
    /// What [`Scrubber::leaving`] said of what is kept.
    leaves: Option<usize>,
    run: Option<Moved>,
    /// The last that went and is not kept.
    behind: Vec<u8>,
    /// What is kept was not looked at for what is looked for now.
    renewed: bool,
    found: BTreeSet<SecretName>,
    finds: Finds,
}

impl Scrubber {
    pub(super) fn new(scrub: Arc<Scrub>, fit: Fit) -> Self {
        Self {
            finds: Finds::waiting(Arc::clone(&scrub.granted.waiting)),
            scrub,
            fit,
            kept: Vec::new(),
            sent: 0,
            unlooked: 0,
            leaves: None,
            run: None,
            behind: Vec::new(),
            renewed: false,
            found: BTreeSet::new(),
        }
    }

    /// Whether it looks for the same and waits for the same.
    pub(super) fn is_of(&self, scrub: &Scrub) -> bool {
        self.scrub.is_of(scrub)
    }

    /// Looks for something else from here on. What was kept of the last is looked at again.
    pub(super) fn renew(&mut self, scrub: &Arc<Scrub>) {
        if !self.scrub.is_of(scrub) {
            self.finds = Finds::waiting(Arc::clone(&scrub.granted.waiting));
            self.scrub = Arc::clone(scrub);
            (self.renewed, self.leaves) = (!self.kept.is_empty(), None);
        }
    }

    /// How many octets are held back that may go although a value may go on behind them: where so little of
    /// one went, and would go, that it tells nothing. What is one already is replaced. Who makes an origin stop
    /// within a value, once or at each of its octets, would otherwise be shown all but its end.
    #[must_use]
    pub fn leaving(&mut self) -> usize {
        if self.unlooked > 0 {
            // Little, so that it is soon looked at.
            return 1;
        }
        if let Some(leaves) = self.leaves {
            return leaves;
        }
        let leaves = self.leaving_of_kept();
        self.leaves = Some(leaves);
        leaves
    }

    fn leaving_of_kept(&mut self) -> usize {
        // What waits in a Base64 text that is written anew would be forgotten, but for a line break.
        if let Some(moved) = &self.run {
            return moved.wrap.waiting.len();
        }
        let held = self.held();
        if held == 0 {
            return 0;
        }
        let kept = std::mem::take(&mut self.kept);
        let finds = self.look(&kept, false);
        let from = finds.waits_from(0).unwrap_or(kept.len());
        let (mut at, mut bare) = (from, kept.len() - from);
        for hit in finds.hits.iter().filter(|hit| hit.end > from) {
            bare -= hit.end.saturating_sub(hit.start.max(at));
            at = at.max(hit.end);
        }
        let few = finds.few();
        (self.kept, self.finds) = (kept, finds);
        if bare <= few { held } else { 0 }
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
        if self.kept.is_empty() && self.run.is_none() {
            let finds = self.look(&data, false);
            let goes = finds.waits_from(0).unwrap_or(data.len());
            let kept = finds.open_from(0).unwrap_or(goes).min(goes);
            let clean = finds.hits.is_empty();
            self.finds = finds;
            if clean {
                self.forget(data.get(..kept).unwrap_or_default());
                self.keep(data.get(kept..).unwrap_or_default(), goes - kept);
                if self.event_over() {
                    self.sent = self.kept.len();
                    return data;
                }
                return data.slice(..goes);
            }
        }
        let mut out = Vec::with_capacity(self.kept.len() + data.len());
        self.take(&data, &mut out);
        out.into()
    }

    /// Remembers the last of what went and is not kept.
    fn forget(&mut self, gone: &[u8]) {
        let new = gone.len().min(BEHIND);
        let room = BEHIND - new;
        let old = self.behind.len().saturating_sub(room);
        drop(self.behind.drain(..old));
        self.behind
            .extend_from_slice(gone.get(gone.len() - new..).unwrap_or_default());
    }

    fn keep(&mut self, octets: &[u8], sent: usize) {
        self.leaves = None;
        self.kept.extend_from_slice(octets);
        self.sent = sent;
    }

    /// Replaces values in a whole text. Whether there were any; `out` is only complete then.
    pub(super) fn whole(&mut self, text: &[u8], out: &mut Vec<u8>) -> bool {
        let finds = self.look(text, true);
        let any = !finds.hits.is_empty();
        self.finds = finds;
        if any {
            self.work(text, When::Last, out);
        }
        any
    }

    /// What stands in `raw`.
    fn look(&mut self, raw: &[u8], last: bool) -> Finds {
        let mut finds = std::mem::replace(&mut self.finds, Finds::empty());
        self.scrub.own.patterns.look(raw, last, &mut finds);
        finds
    }

    /// Takes one more piece: appends what may go.
    fn work(&mut self, raw: &[u8], when: When, out: &mut Vec<u8>) -> Done {
        (self.unlooked, self.leaves) = (0, None);
        let finds = self.look(raw, when == When::Last);
        let piece = Piece {
            raw,
            sent: self.sent,
            when,
        };
        let waits_from = |at| match when {
            When::More => finds.waits_from(at),
            When::Now | When::Last => None,
        };
        let (mut at, mut longer) = (0, None);
        for hit in &finds.hits {
            if hit.start < at {
                continue;
            }
            if waits_from(at).is_some_and(|waits| waits <= hit.start) {
                // Something longer may begin here.
                break;
            }
            self.copy(piece, &mut at, hit.start, out);
            self.put(piece, hit, out);
            at = hit.end;
            let longer_here = finds.open_from(hit.start) == Some(hit.start);
            longer = longer.or_else(|| longer_here.then_some(hit.start));
        }
        let (free, end) = (at, waits_from(at).unwrap_or(raw.len()));
        if when == When::More {
            self.copy_until_open(piece, &mut at, end, out);
        } else {
            self.copy(piece, &mut at, end, out);
        }
        if when == When::Last
            && let Some(moved) = self.run.take()
        {
            moved.end(None, out);
        }
        let open = longer.or_else(|| finds.open_from(free));
        self.finds = finds;
        Done {
            kept: open.unwrap_or(at).min(at),
            gone: at,
        }
    }

    /// Copies up to where a value begins, written anew where a Base64 text moved. An escape that lies
    /// over that place is none.
    fn copy(&mut self, piece: Piece<'_>, at: &mut usize, to: usize, out: &mut Vec<u8>) {
        *at = piece.unsent(*at, to);
        while self.run.is_some() && *at < to {
            let unit = unit(piece.raw, *at, DEPTH, piece.when == When::Last);
            let end = unit.map(|unit| unit.end).filter(|end| *end <= to);
            self.feed(piece, *at, end.unwrap_or(*at + 1), out);
            *at = end.unwrap_or(*at + 1);
        }
        piece.copy(*at, to, out);
        *at = to;
    }

    /// Copies up to where a value may begin; an escape that lies over that place is left.
    fn copy_until_open(&mut self, piece: Piece<'_>, at: &mut usize, to: usize, out: &mut Vec<u8>) {
        *at = piece.unsent(*at, to);
        while self.run.is_some() && *at < to {
            let unit = unit(piece.raw, *at, DEPTH, piece.when == When::Last);
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
        let Some(moved) = self.run.take() else {
            return;
        };
        let unsent = piece.raw.get(piece.unsent(start, end)..end);
        let spelled = (spelled, unsent.unwrap_or_default());
        match moved.feed(octet, spelled, self.fit, out) {
            Next::On(moved) => self.run = Some(moved),
            Next::Level => {}
            Next::Over => piece.copy(start, end, out),
        }
    }

    /// Writes a sentinel in a value's place, where that was not done before.
    fn put(&mut self, piece: Piece<'_>, hit: &Hit, out: &mut Vec<u8>) {
        let gone = hit.end <= piece.sent;
        if gone && !self.renewed {
            return;
        }
        if hit.start < piece.sent && !gone {
            // A run took what went of it for something else.
            self.run = None;
        }
        let scrub = Arc::clone(&self.scrub);
        let Some(pattern) = scrub.own.patterns.pattern(hit.text) else {
            return;
        };
        let meant = scrub.granted.meant(pattern.value);
        let Some(sentinel) = scrub.own.sentinel(meant) else {
            return;
        };
        if let Some(name) = scrub.own.name(meant) {
            self.found.insert(name.clone());
        }
        if gone {
            // It went before anybody knew what it is: all that is left is to tell.
            return;
        }
        let written = out.len();
        let spelled = piece.raw.get(hit.start..hit.end).unwrap_or_default();
        let before = piece.raw.get(..hit.start).unwrap_or_default();
        self.write((spelled, before), hit.lead, (pattern, sentinel), out);
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
        (spelled, before): (&[u8], &[u8]),
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
        let length = pattern.octets;
        let exact = self.fit == Fit::Exact;
        if exact && !bare {
            out.extend_from_slice(&fitted(sentinel, spelled.len()));
            return;
        }
        let new = if exact && pattern.form == Form::Plain {
            fitted(sentinel, spelled.len())
        } else if let (true, Form::Wide(wide)) = (exact, pattern.form) {
            fitted(sentinel, wide.units(spelled.len()))
        } else if exact {
            fitted(sentinel, length)
        } else {
            Cow::Borrowed(sentinel.as_bytes())
        };
        match pattern.form {
            Form::Plain => style.write(&new, out),
            Form::Hex => hex(&new, spelled, out),
            Form::Wide(wide) => {
                let begun = out.len();
                let mut letters = Vec::new();
                wide.write(&new, &mut letters);
                style.write(&letters, out);
                if exact {
                    out.resize(begun + spelled.len(), 0);
                }
            }
            Form::Base64 { skipped, url_safe } => {
                let known = self.run.take().filter(|moved| moved.run.is_at(skipped));
                let (mut run, mut wrap) = match known {
                    Some(moved) => (moved.run, moved.wrap),
                    None => {
                        let wrap = Wrap::after(&self.behind, before);
                        (Run::new(skipped, url_safe), wrap)
                    }
                };
                wrap.passed(spelled);
                out.append(&mut wrap.waiting);
                let mut letters = Vec::new();
                run.replace(lead, &new, pattern.length, &mut letters);
                style.write(&letters, out);
                if !run.is_level() {
                    self.run = Some(Moved { run, style, wrap });
                }
            }
        }
    }

    /// Whether what is held back ends with an event, so that it must not wait.
    fn event_over(&self) -> bool {
        self.fit == Fit::Events && {
            let kept = self.kept.as_slice();
            kept.ends_with(b"\n\n") || kept.ends_with(b"\r\n\r\n") || kept.ends_with(b"\r\r")
        }
    }

    fn take(&mut self, mut octets: &[u8], out: &mut Vec<u8>) {
        if self.may_join(octets) {
            self.kept.extend_from_slice(octets);
            self.unlooked += octets.len();
            if !self.event_over() {
                return;
            }
            octets = &[];
        }
        self.add(octets, When::More, out);
        if self.event_over() {
            self.add(&[], When::Now, out);
        }
    }

    /// Whether so little may join what is held back without a look: all of that is looked at again with each piece,
    /// which in small ones costs the square of a long value's length. Whatever is not held back has no part in it,
    /// so that nothing waits for a value that is none to wait for.
    fn may_join(&self, octets: &[u8]) -> bool {
        let looked = self.kept.len() - self.sent - self.unlooked;
        self.run.is_none() && looked >= MUCH && self.unlooked + octets.len() <= looked / PART
    }

    /// Takes what is kept and these octets.
    fn add(&mut self, octets: &[u8], when: When, out: &mut Vec<u8>) {
        if self.kept.is_empty() {
            let done = self.work(octets, when, out);
            self.forget(octets.get(..done.kept).unwrap_or_default());
            let rest = octets.get(done.kept..).unwrap_or_default();
            self.keep(rest, done.gone - done.kept);
            return;
        }
        let mut kept = std::mem::take(&mut self.kept);
        kept.extend_from_slice(octets);
        let done = self.work(&kept, when, out);
        // What went before stays gone, also where a wait begins within it.
        self.sent = self.sent.max(done.gone).saturating_sub(done.kept);
        self.renewed = false;
        self.forget(kept.get(..done.kept).unwrap_or_default());
        drop(kept.drain(..done.kept));
        self.kept = kept;
    }
}

impl Rewrite for Scrubber {
    fn push(&mut self, octets: &[u8], out: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.take(octets, out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        let kept = std::mem::take(&mut self.kept);
        self.work(&kept, When::Last, out);
        self.sent = 0;
        Ok(())
    }

    fn release(&mut self, out: &mut Vec<u8>) -> Result<(), RewriteError> {
        if self.unlooked > 0 {
            self.add(&[], When::More, out);
        }
        if let Some(moved) = &mut self.run {
            out.append(&mut moved.wrap.waiting);
            self.leaves = None;
        } else if self.leaving() > 0 {
            self.add(&[], When::Now, out);
        }
        Ok(())
    }

    fn held(&self) -> usize {
        let waiting = self
            .run
            .as_ref()
            .map_or(0, |moved| moved.wrap.waiting.len());
        self.kept.len() - self.sent + waiting
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

/// Hardly any value is longer, and to look at so much is nothing.
const MUCH: usize = 256;
/// A quarter more is looked at together: all looks come to a few times what is looked at.
const PART: usize = 4;
