//! Where a message of a program goes, and for how long it is kept there.
//!
//! Promises that what waits is bounded and waits for who reads before anything of it is dropped; that what was read
//! is kept for a little while, for whoever breaks off; and that no answer is lost while its asker listens.

use std::sync::Arc;

use super::{Board, Kept, Line, Mark, Placed, STANDING};
use crate::mcp::message::{Id, Kind, Message, unanswered};

impl Board {
    /// Puts a message of the program on its stream. With `force` there is room for it, at the cost of what is oldest.
    pub(in crate::mcp) fn place(&mut self, message: &Message, force: bool) -> Placed {
        let stream = match &message.kind {
            Kind::Response { id, .. } => {
                let waits = |line: &Line| line.waits.iter().any(|one| one.id == *id);
                let found = self.lines.iter().find(|(_, line)| waits(line));
                match found {
                    Some((stream, _)) => *stream,
                    None => return Placed::Unasked,
                }
            }
            Kind::Notification {
                progress: Some(of), ..
            } => self.telling(of),
            Kind::Notification { progress: None, .. } | Kind::Request { .. } => self.listening(),
        };
        if !force && !self.has_room(message.line.len()) {
            return Placed::Full;
        }
        if let (Kind::Response { id, .. }, Some(line)) =
            (&message.kind, self.lines.get_mut(&stream))
        {
            line.waits.retain(|one| one.id != *id);
        }
        self.put(stream, message.line.as_str().into());
        Placed::There
    }

    /// Where progress with this is told.
    fn telling(&self, of: &Id) -> u64 {
        let tells = |line: &Line| {
            let mut waits = line.waits.iter();
            !line.whole && waits.any(|one| one.progress.as_ref() == Some(of))
        };
        let found = self.lines.iter().find(|(_, line)| tells(line));
        found.map_or_else(|| self.listening(), |(stream, _)| *stream)
    }

    /// Where somebody listens to what nobody asked for.
    fn listening(&self) -> u64 {
        let listens = |line: &Line| line.reader.is_some() && !line.whole && !line.waits.is_empty();
        let standing = self.lines.get(&STANDING);
        if standing.is_some_and(|line| line.reader.is_some()) {
            return STANDING;
        }
        let mut open = self.lines.iter().filter(|(_, line)| listens(line));
        open.next().map_or(STANDING, |(stream, _)| *stream)
    }

    fn put(&mut self, stream: u64, text: Arc<str>) {
        let Some(line) = self.lines.get_mut(&stream) else {
            return;
        };
        line.last += 1;
        let number = line.last;
        let at = Mark { stream, number };
        self.octets += text.len();
        self.kept.push_back(Kept { at, text });
        self.tidy();
    }

    /// Whether a message finds room without a reader's missing another one.
    fn has_room(&self, octets: usize) -> bool {
        let waited = |kept: &&Kept| {
            let line = self.lines.get(&kept.at.stream);
            line.is_some_and(|line| line.reader.is_some() && kept.at.number > line.read)
        };
        // What nobody reads at the moment makes room, up to the first that somebody does.
        let (mut most, mut count) = (self.octets + octets, self.kept.len() + 1);
        for goes in self.kept.iter().take_while(|kept| !waited(kept)) {
            if most <= MOST_OCTETS && count <= MOST_KEPT {
                break;
            }
            (most, count) = (most - goes.text.len(), count - 1);
        }
        most <= MOST_OCTETS && count <= MOST_KEPT
    }

    /// Lets go what need not be kept, and what cannot.
    pub(super) fn tidy(&mut self) {
        while let Some(oldest) = self.kept.front() {
            let line = self.lines.get_mut(&oldest.at.stream);
            let is_read = line
                .as_ref()
                .is_none_or(|line| oldest.at.number <= line.read);
            let full = self.octets > MOST_OCTETS || self.kept.len() > MOST_KEPT;
            let spare = self.octets > READ_OCTETS || self.kept.len() > READ_KEPT;
            let goes = full || (is_read && spare);
            if !goes {
                break;
            }
            if let Some(line) = line {
                line.gone = oldest.at.number;
            }
            self.lost += u64::from(!is_read);
            self.octets = self.octets.saturating_sub(oldest.text.len());
            self.kept.pop_front();
        }
        // A stream whose requests are answered is there as long as something of it is, or somebody.
        let kept = &self.kept;
        self.lines.retain(|stream, line| {
            let asks = !line.waits.is_empty() || line.reader.is_some();
            *stream == STANDING || asks || kept.iter().any(|one| one.at.stream == *stream)
        });
    }

    /// The program answers no more: whoever waits is told why, and all streams end.
    pub(in crate::mcp) fn end(&mut self, why: &str) {
        if std::mem::replace(&mut self.over, true) {
            return;
        }
        let mut answers = Vec::new();
        for (stream, line) in &mut self.lines {
            for one in line.waits.drain(..) {
                answers.push((*stream, unanswered(&one.id, why)));
            }
        }
        for (stream, answer) in answers {
            self.put(stream, answer.into());
        }
    }
}

/// Messages that wait to be read, and their octets: two of the longest.
pub(super) const MOST_KEPT: usize = 1024;
pub(super) const MOST_OCTETS: usize = 8 * 1024 * 1024;
/// Of what was read, for whoever breaks off and comes again.
pub(super) const READ_KEPT: usize = 128;
const READ_OCTETS: usize = 256 * 1024;
