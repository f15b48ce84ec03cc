//! Sessions of the endpoint: each a program of its own, its streams, and whose it is.
//!
//! Promises that a session is there for who opened it, for whom they did and for its server alone; that its id
//! cannot be guessed and is nowhere kept as it is; that nobody has more than so many; and that a message goes to
//! the program as one line, all of it or nothing. What ends a session is [`super::life`]'s.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    message::{Id, Kind, Message, Sent, unanswered},
    stream::{Board, Mark, Next, Placed, Reader, Refused},
};
use crate::{
    api_error::Problem,
    auth::Caller,
    counts::{Counts, Place},
    credential::{Digest, Minted, NoRandomness, mint_mcp},
    profile::Whose,
    store::folded,
};

/// All of this node.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    open: Mutex<HashMap<[u8; 32], Arc<Session>>>,
    places: Counts<(String, String)>,
    /// What is asked and not answered whole yet, each of which has a connection.
    asks: Counts<(String, String)>,
    closed: CancellationToken,
}

/// Whose a session is, and of which server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Owner {
    caller: String,
    profile: String,
    server: String,
}

/// One session.
#[derive(Debug)]
pub(super) struct Session {
    owner: Owner,
    /// By what it was asked for.
    opened_by: Id,
    revision: OnceLock<String>,
    board: Mutex<Board>,
    changed: watch::Sender<u64>,
    to_program: mpsc::Sender<ToProgram>,
    /// Octets that may be on their way to the program.
    room: Arc<Semaphore>,
    /// And those that may wait for that, in memory.
    waiting: Semaphore,
    used: Mutex<Instant>,
    pub(super) left: CancellationToken,
}

/// A line on its way to the program, and the room that it takes until it is written.
#[derive(Debug)]
pub(super) struct ToProgram {
    pub(super) line: String,
    _room: Option<OwnedSemaphorePermit>,
}

/// Reads a stream until it is dropped.
#[derive(Debug)]
pub(super) struct Listener {
    session: Arc<Session>,
    reader: Reader,
    /// What it waits for has reached the program, or is on its way.
    asked: bool,
    changes: watch::Receiver<u64>,
    asks: Option<Place<(String, String)>>,
}

impl Owner {
    pub(super) fn new(caller: &Caller, whose: &Whose, server: &str) -> Self {
        Self {
            caller: caller.known_as(),
            profile: folded(&whose.profile),
            server: server.to_owned(),
        }
    }

    /// For whom sessions and streams are counted.
    fn person(&self) -> (String, String) {
        (self.caller.clone(), self.profile.clone())
    }
}

impl Sessions {
    /// A place for one more of the same person.
    ///
    /// # Errors
    /// 429 where there are as many as may be.
    pub(super) fn place(&self, owner: &Owner) -> Result<Place<(String, String)>, Problem> {
        let words = "as many sessions are open as may be: end one (DELETE), or wait until one was idle for long enough";
        let place = self.places.take(owner.person(), MOST_OF_ONE, MOST);
        place.ok_or_else(|| too_many("sessions", words))
    }

    /// A place for one more request of the same person: the connections that they have are had by nobody else.
    ///
    /// # Errors
    /// 429 where there are as many as may be.
    pub(super) fn asks(&self, owner: &Owner) -> Result<Place<(String, String)>, Problem> {
        let words = "as many of your requests and streams are open as may be: end some, or wait for their answers";
        let place = self.asks.take(owner.person(), MOST_ASKS_OF_ONE, MOST_ASKS);
        place.ok_or_else(|| too_many("streams", words))
    }

    /// Its id, by which it is found from now on.
    pub(super) fn add(&self, session: &Arc<Session>) -> Result<Minted, NoRandomness> {
        let minted = mint_mcp()?;
        let key = minted.digest.octets();
        self.open.lock().insert(key, Arc::clone(session));
        Ok(minted)
    }

    pub(super) fn remove(&self, digest: &Digest) {
        self.open.lock().remove(&digest.octets());
    }

    /// The session of this id, where it is the asker's own. It is found by the digest: how long that takes says nothing
    /// of any id.
    pub(super) fn find(&self, id: &str, owner: &Owner) -> Option<Arc<Session>> {
        let open = self.open.lock();
        let found = open.get(&Digest::of(id).octets())?;
        (found.owner == *owner && !found.left.is_cancelled()).then(|| Arc::clone(found))
    }

    /// gig goes down: all end, and none begins.
    pub(crate) fn close(&self) {
        self.closed.cancel();
    }

    pub(super) const fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.open.lock().is_empty() && self.places.is_empty()
    }
}

impl Session {
    /// And what goes to its program, line by line.
    pub(super) fn new(owner: Owner, opened_by: Id) -> (Arc<Self>, mpsc::Receiver<ToProgram>) {
        let (to_program, lines) = mpsc::channel(LINES);
        let session = Self {
            owner,
            opened_by,
            revision: OnceLock::new(),
            board: Mutex::default(),
            changed: watch::Sender::new(0),
            to_program,
            room: Arc::new(Semaphore::new(ROOM)),
            waiting: Semaphore::new(2 * ROOM),
            used: Mutex::new(Instant::now()),
            left: CancellationToken::new(),
        };
        (Arc::new(session), lines)
    }

    /// The revision that the program named, once it did.
    pub(super) fn revision(&self) -> Option<&str> {
        self.revision.get().map(String::as_str)
    }

    /// Since when nobody asks for anything nor listens.
    pub(super) fn idle(&self) -> Duration {
        let mut used = self.used.lock();
        if self.board.lock().is_read() {
            *used = Instant::now();
        }
        used.elapsed()
    }

    pub(super) fn server(&self) -> &str {
        &self.owner.server
    }

    fn changes(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Sends messages to the program; whoever asked something listens to its answers. `whole`: to nothing else.
    ///
    /// # Errors
    /// Where nothing can be asked now, or the program takes nothing.
    pub(super) async fn send(
        self: &Arc<Self>,
        sent: Sent,
        whole: bool,
    ) -> Result<Option<Listener>, Problem> {
        *self.used.lock() = Instant::now();
        let asked = self.board.lock().ask(&sent, whole);
        let reader = asked.map_err(refused)?;
        self.changes();
        let mut listener = reader.map(|reader| self.listener(reader));
        if let Some(listener) = &mut listener {
            listener.asked = false;
        }
        if self.pass(sent).await.is_none() {
            let words = "the server's program takes nothing at the moment";
            return Err(Problem::unavailable(words).retried_after(AGAIN));
        }
        if let Some(listener) = &mut listener {
            listener.asked = true;
        }
        Ok(listener)
    }

    /// All of it or nothing: `None`, where there is no room for it in time.
    async fn pass(&self, sent: Sent) -> Option<()> {
        let octets: usize = sent.messages.iter().map(|one| one.line.len()).sum();
        let octets = u32::try_from(octets).ok()?;
        // More than that is turned away at once.
        let _waits = self.waiting.try_acquire_many(octets).ok()?;
        let room = async {
            let room = Arc::clone(&self.room).acquire_many_owned(octets).await;
            let places = self.to_program.reserve_many(sent.messages.len()).await;
            Some((room.ok()?, places.ok()?))
        };
        let room = tokio::time::timeout(TAKEN_WITHIN, room).await;
        let (mut room, places) = room.ok()??;
        for (place, message) in places.zip(sent.messages) {
            let line = message.line;
            let _room = room.split(line.len());
            place.send(ToProgram { line, _room });
        }
        Some(())
    }

    /// Listens to what nobody asked for, or on where a stream broke off.
    pub(super) fn listen(self: &Arc<Self>, after: Option<Mark>) -> Result<Listener, Problem> {
        *self.used.lock() = Instant::now();
        let mut board = self.board.lock();
        let reader = match after {
            Some(after) => board.resume(after),
            None => board.stand(),
        };
        drop(board);
        let reader = reader.map_err(refused)?;
        self.changes();
        Ok(self.listener(reader))
    }

    fn listener(self: &Arc<Self>, reader: Reader) -> Listener {
        Listener {
            session: Arc::clone(self),
            reader,
            asked: true,
            changes: self.changed.subscribe(),
            asks: None,
        }
    }

    /// Puts what the program says on its stream, once there is room: whoever reads nothing for so long misses it.
    pub(super) async fn put(&self, message: Message) {
        if let Kind::Response {
            id,
            revision: Some(revision),
        } = &message.kind
            && *id == self.opened_by
        {
            // Of an id that is asked by again the first answer counts.
            let _known = self.revision.set(revision.clone());
        }
        let mut changes = self.changed.subscribe();
        let patience = tokio::time::sleep(READ_WITHIN);
        tokio::pin!(patience);
        let mut force = false;
        loop {
            let placed = self.board.lock().place(&message, force);
            match placed {
                Placed::There => break,
                Placed::Unasked => {
                    tracing::debug!("an MCP server answered what nobody asked");
                    return;
                }
                Placed::Full => {}
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = &mut patience => force = true,
            }
        }
        self.changes();
    }

    /// Tells whoever waits for a message that is too long, as far as its beginning says who that is.
    pub(super) async fn put_instead(&self, beginning: &[u8]) {
        let asked = self.board.lock().asked_by(beginning);
        let Some(id) = asked else { return };
        let line = unanswered(&id, "the server's answer is longer than 4 MiB");
        let revision = None;
        let kind = Kind::Response { id, revision };
        self.put(Message { kind, line }).await;
    }

    /// No more is said: all streams end, with the reason where somebody waits.
    /// Answers how many messages nobody came for.
    pub(super) fn end(&self, why: &str) -> u64 {
        self.left.cancel();
        let mut board = self.board.lock();
        board.end(why);
        let lost = board.lost();
        drop(board);
        self.changes();
        lost
    }
}

impl Listener {
    /// With the place of who listens, for as long as they do.
    pub(super) fn in_place(mut self, place: Place<(String, String)>) -> Self {
        self.asks = Some(place);
        self
    }

    /// The next message, or its end. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Option<(Mark, Arc<str>)> {
        loop {
            self.changes.mark_unchanged();
            match self.session.board.lock().read(&mut self.reader) {
                Next::Message(mark, text) => {
                    // There may be room now.
                    self.session.changes();
                    return Some((mark, text));
                }
                Next::End => return None,
                Next::Nothing => {}
            }
            self.changes.changed().await.ok()?;
        }
    }

    /// Where it is.
    pub(super) const fn at(&self) -> Mark {
        self.reader.at()
    }

    pub(super) fn session(&self) -> &Session {
        &self.session
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut board = self.session.board.lock();
        if !self.asked {
            board.forget(self.reader);
        }
        board.left(self.reader);
        drop(board);
        *self.session.used.lock() = Instant::now();
        self.session.changes();
    }
}

fn too_many(word: &'static str, words: &str) -> Problem {
    Problem::new(http::StatusCode::TOO_MANY_REQUESTS, word, words).retried_after(AGAIN)
}

fn refused(why: Refused) -> Problem {
    let conflict = |word, detail| Problem::new(http::StatusCode::CONFLICT, word, detail);
    match why {
        Refused::Over => super::no_session(),
        Refused::Asked => {
            Problem::invalid("a request of this id is not answered yet: give each its own")
        }
        Refused::Full => too_many("too_many", "as many requests wait for answers as may"),
        Refused::Read => conflict(
            "stream_open",
            "this session's stream is open already: one listens at a time, or goes on with Last-Event-ID",
        ),
        Refused::Gone => Problem::invalid("what followed Last-Event-ID is not kept: leave it out"),
    }
}

/// Of one token or person, for one profile; an editor and its windows have some each.
const MOST_OF_ONE: usize = 32;
/// Of all.
const MOST: usize = 1024;
/// Requests and streams of one: an assistant asks some at once in each of its sessions.
pub(super) const MOST_ASKS_OF_ONE: usize = 64;
/// Of all: half of the connections that gig takes.
const MOST_ASKS: usize = 256;
/// Seconds.
const AGAIN: u64 = 10;
/// Lines on their way to a program: a batch at least.
const LINES: usize = 64;
/// And their octets: one message of the longest, with what a batch has around its own.
const ROOM: usize = super::LONGEST;
/// A program that reads nothing for so long is busy with something else.
const TAKEN_WITHIN: Duration = Duration::from_secs(20);
/// Whoever reads nothing for so long is not waited for.
const READ_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
