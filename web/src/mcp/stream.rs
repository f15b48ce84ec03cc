//! Which message of a program goes along which stream of a session, and what is kept of it.
//!
//! Promises that each message is on one stream only; that an answer goes where it was asked for, progress with it,
//! and all else to the standing stream, or, where nobody listens there, to a request's that is open; that a stream
//! never leaves anything out without ending; and that what is kept is bounded. A stream that breaks off can be
//! taken up again where it was, for as long as what followed is kept. No clock, no socket.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use super::message::{Id, Kind, Sent};

mod place;

/// All streams of a session.
#[derive(Debug)]
pub(super) struct Board {
    kept: VecDeque<Kept>,
    octets: usize,
    lines: BTreeMap<u64, Line>,
    /// Of the next stream, and of the next reader.
    next: u64,
    over: bool,
    /// What nobody came for.
    lost: u64,
}

/// A message on its way.
#[derive(Debug)]
struct Kept {
    at: Mark,
    text: Arc<str>,
}

/// A place on a stream: what the id of an event says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Mark {
    pub(super) stream: u64,
    pub(super) number: u64,
}

/// One stream.
#[derive(Debug, Default)]
struct Line {
    /// The requests that are answered on it.
    waits: Vec<Waits>,
    /// The number of its last message.
    last: u64,
    /// Up to where it was read.
    read: u64,
    /// Up to where nothing is kept.
    gone: u64,
    reader: Option<u64>,
    /// Only answers go here: what reads it has one body for all.
    whole: bool,
}

#[derive(Debug)]
struct Waits {
    id: Id,
    progress: Option<Id>,
}

/// Whoever reads a stream; who takes it up after them reads in their place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reader {
    reader: u64,
    at: Mark,
}

/// What is next for a reader.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// This, there.
    Message(Mark, Arc<str>),
    /// Nothing yet.
    Nothing,
    /// Nothing any more.
    End,
}

/// Why there is no such stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refused {
    /// The session is over.
    Over,
    /// A request of this id is not answered yet.
    Asked,
    /// As many are asked as may be.
    Full,
    /// Somebody reads the standing stream.
    Read,
    /// There is no such place, or what followed it is gone.
    Gone,
}

/// What became of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Placed {
    /// It is on a stream.
    There,
    /// Nobody asked for it.
    Unasked,
    /// As much waits for who reads as may.
    Full,
}

impl Default for Board {
    fn default() -> Self {
        Self {
            kept: VecDeque::new(),
            octets: 0,
            lines: BTreeMap::from([(STANDING, Line::default())]),
            next: STANDING + 1,
            over: false,
            lost: 0,
        }
    }
}

impl Board {
    /// A stream for the answers to what was sent; `None` where it asks for nothing.
    pub(super) fn ask(&mut self, sent: &Sent, whole: bool) -> Result<Option<Reader>, Refused> {
        if self.over {
            return Err(Refused::Over);
        }
        let (mut waits, mut unwanted): (Vec<Waits>, Vec<&Id>) = Default::default();
        for message in &sent.messages {
            match &message.kind {
                Kind::Request { id, progress, .. } => {
                    let asked = |one: &Waits| one.id == *id;
                    let before = self.lines.values().flat_map(|line| &line.waits).any(asked);
                    if before || waits.iter().any(asked) {
                        return Err(Refused::Asked);
                    }
                    let (id, progress) = (id.clone(), progress.clone());
                    waits.push(Waits { id, progress });
                }
                // A program need not answer it any more: nobody waits for that.
                Kind::Notification {
                    cancels: Some(of), ..
                } => unwanted.push(of),
                Kind::Notification { cancels: None, .. } | Kind::Response { .. } => {}
            }
        }
        if !waits.is_empty() {
            self.make_room(waits.len())?;
        }
        for line in self.lines.values_mut() {
            line.waits.retain(|one| !unwanted.contains(&&one.id));
        }
        if waits.is_empty() {
            return Ok(None);
        }
        let stream = self.number();
        let line = Line {
            waits,
            whole,
            ..Line::default()
        };
        self.lines.insert(stream, line);
        Ok(self.reader(Mark { stream, number: 0 }))
    }

    /// Room for so many more requests, at the cost of those whose askers went away first.
    fn make_room(&mut self, wanted: usize) -> Result<(), Refused> {
        let mut asked: usize = self.lines.values().map(|line| line.waits.len()).sum();
        for line in self.lines.values_mut() {
            if asked + wanted > MOST_ASKED && line.reader.is_none() {
                asked -= line.waits.len();
                line.waits.clear();
            }
        }
        if asked + wanted > MOST_ASKED {
            return Err(Refused::Full);
        }
        Ok(())
    }

    /// The standing stream, from the oldest that nobody has read.
    pub(super) fn stand(&mut self) -> Result<Reader, Refused> {
        if self.over {
            return Err(Refused::Over);
        }
        let line = self.lines.get(&STANDING).ok_or(Refused::Over)?;
        if line.reader.is_some() {
            return Err(Refused::Read);
        }
        let number = line.read.max(line.gone);
        let stream = STANDING;
        self.reader(Mark { stream, number }).ok_or(Refused::Over)
    }

    /// A stream that broke off, after what was read of it last. Whoever read it before does so no more.
    pub(super) fn resume(&mut self, after: Mark) -> Result<Reader, Refused> {
        if self.over {
            return Err(Refused::Over);
        }
        let line = self.lines.get(&after.stream).ok_or(Refused::Gone)?;
        let missed = after.number < line.gone && after.stream != STANDING;
        if after.number > line.last || missed || line.whole {
            return Err(Refused::Gone);
        }
        let number = match after.stream {
            // What was dropped for want of a reader was told to the log: the rest is no less worth.
            STANDING => after.number.max(line.gone),
            _ => after.number,
        };
        let at = Mark { number, ..after };
        self.reader(at).ok_or(Refused::Gone)
    }

    fn reader(&mut self, at: Mark) -> Option<Reader> {
        let reader = self.number();
        self.lines.get_mut(&at.stream)?.reader = Some(reader);
        Some(Reader { reader, at })
    }

    fn number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    /// What is next for this reader, who is then further.
    pub(super) fn read(&mut self, reader: &mut Reader) -> Next {
        let Mark { stream, number } = reader.at;
        let over = self.over;
        let Some(line) = self.lines.get_mut(&stream) else {
            return Next::End;
        };
        if line.reader != Some(reader.reader) || line.gone > number {
            return Next::End;
        }
        let is_next = |one: &&Kept| one.at.stream == stream && one.at.number > number;
        if let Some(next) = self.kept.iter().find(is_next) {
            line.read = line.read.max(next.at.number);
            reader.at = next.at;
            return Next::Message(next.at, Arc::clone(&next.text));
        }
        if over || (stream != STANDING && line.waits.is_empty()) {
            return Next::End;
        }
        Next::Nothing
    }

    /// The request that an answer of this beginning is to, where it names one that waits.
    pub(super) fn asked_by(&self, beginning: &[u8]) -> Option<Id> {
        let named = Id::begun(beginning)?;
        let mut waits = self.lines.values().flat_map(|line| &line.waits);
        waits.any(|one| one.id == named).then_some(named)
    }

    /// A reader went away. What one asked who takes one body for all is answered to nobody then.
    pub(super) fn left(&mut self, reader: Reader) {
        let stream = reader.at.stream;
        let Some(line) = self.lines.get_mut(&stream) else {
            return;
        };
        if line.reader == Some(reader.reader) {
            line.reader = None;
            if line.whole {
                self.lines.remove(&stream);
                self.kept.retain(|one| one.at.stream != stream);
                self.octets = self.kept.iter().map(|one| one.text.len()).sum();
            }
        }
        self.tidy();
    }

    /// What was asked on it did not reach the program.
    pub(super) fn forget(&mut self, reader: Reader) {
        self.lines.remove(&reader.at.stream);
    }

    /// Whether somebody reads.
    pub(super) fn is_read(&self) -> bool {
        self.lines.values().any(|line| line.reader.is_some())
    }

    /// How many messages nobody came for.
    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }
}

impl Reader {
    /// Where they are.
    pub(super) const fn at(&self) -> Mark {
        self.at
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.stream, self.number)
    }
}

impl std::str::FromStr for Mark {
    type Err = Refused;

    fn from_str(text: &str) -> Result<Self, Refused> {
        let (stream, number) = text.split_once('-').ok_or(Refused::Gone)?;
        let read = |text: &str| text.parse().map_err(|_| Refused::Gone);
        Ok(Self {
            stream: read(stream)?,
            number: read(number)?,
        })
    }
}

/// The stream of whoever listens to what they did not ask for.
const STANDING: u64 = 0;
/// Requests that are not answered yet.
const MOST_ASKED: usize = 128;
#[cfg(test)]
mod tests;
