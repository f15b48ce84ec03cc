//! A session's life: its program's lines to its streams and back, and what ends it.
//!
//! Promises that it ends with its program, with the right of who opened it, when they say so, when it was idle for as
//! long as its server may be, and with gig; that each end is in the record before the program is let go; and that a
//! line which is no message reaches nobody.

use std::{convert::Infallible, sync::Arc, time::Duration};

use gig_audit::VerdictWord;
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader},
    sync::{mpsc, oneshot},
};

use super::{
    LONGEST,
    message::{Id, Sent},
    session::{Owner, Session, ToProgram},
};
use crate::{
    api::attach::Attaching,
    api_error::Problem,
    auth::lapse::lapsed,
    control::{Attached, Ended},
    store::Server,
};

/// A session, and its id.
pub(super) type Begun = (Arc<Session>, String);

/// Why it is over.
enum Over {
    /// The program ended.
    Ended(Ended),
    /// Whoever opened it said so.
    Left,
    /// Nobody asked for anything.
    Idle,
    /// Whoever opened it may no more.
    Lapsed,
    /// gig goes down.
    Closed,
}

impl Over {
    fn words(&self) -> String {
        match self {
            Self::Ended(ended) => format!("{}, status {}", ended.words(), ended.status),
            Self::Left => "the client ended its session".to_owned(),
            Self::Idle => "its session was idle".to_owned(),
            Self::Lapsed => "the client may be attached no more".to_owned(),
            Self::Closed => "gig goes down".to_owned(),
        }
    }
}

/// Starts a program and lives as long as its session. Whoever asked may go away at any moment: what was begun is then
/// ended and recorded.
pub(super) async fn live(
    attaching: Attaching,
    (owner, opened_by): (Owner, Id),
    server: Server,
    mut tell: oneshot::Sender<Result<Begun, Problem>>,
) {
    let app = Arc::clone(&attaching.app);
    let place = match app.mcp.place(&owner) {
        Ok(place) => place,
        Err(problem) => {
            let _gone = tell.send(Err(problem));
            return;
        }
    };
    let started = attaching.start(tell.closed()).await;
    let mut attached = match started {
        Ok(attached) => attached,
        Err(problem) => {
            let _gone = tell.send(Err(problem));
            return;
        }
    };
    let (session, lines) = Session::new(owner, opened_by);
    let minted = match app.mcp.add(&session) {
        Ok(minted) => minted,
        Err(error) => {
            attaching
                .tell(VerdictWord::Allow, "detached: no session could be made")
                .await;
            let _gone = tell.send(Err(Problem::internal(error)));
            return;
        }
    };
    let begun = (Arc::clone(&session), minted.text.to_string());
    if tell.send(Ok(begun)).is_err() {
        session.left.cancel();
    }
    let over = tokio::select! {
        // Before anything else that is there.
        biased;
        () = lapsed(&app, &attaching.caller) => Over::Lapsed,
        () = session.left.cancelled() => Over::Left,
        () = app.mcp.closed().cancelled() => Over::Closed,
        ended = pass(&session, &mut attached, lines) => Over::Ended(ended),
        () = idle(&session, &server) => Over::Idle,
    };
    app.mcp.remove(&minted.digest);
    let words = over.words();
    let mut told = format!("detached: {words}");
    let lost = session.end(&words);
    if lost > 0 {
        told.push_str(&format!("; nobody came for {lost} of its messages"));
    }
    attaching.tell(VerdictWord::Allow, &told).await;
    drop(attached);
    drop(place);
}

/// Ends when nobody used a session for as long as its server says.
async fn idle(session: &Session, server: &Server) {
    let most = match server.spec.idle_seconds {
        None => IDLE,
        // Somebody who never ends a session is gone one day.
        Some(0) => DAY,
        Some(seconds) => Duration::from_secs(u64::from(seconds)).min(DAY),
    };
    loop {
        let idle = session.idle();
        if idle >= most {
            return;
        }
        tokio::time::sleep((most - idle).min(LOOK)).await;
    }
}

/// Passes lines until the program has ended and all that it printed is on its streams.
async fn pass(
    session: &Session,
    attached: &mut Attached,
    lines: mpsc::Receiver<ToProgram>,
) -> Ended {
    let Attached {
        stdin,
        stdout,
        stderr,
        ended,
        ..
    } = attached;
    let says = async {
        let mut reader = BufReader::with_capacity(AT_ONCE, stdout);
        let mut line = Vec::new();
        let mut bad = Bad::default();
        while let Some(read) = next(&mut reader, &mut line).await {
            match read {
                Read::Line if line.iter().all(u8::is_ascii_whitespace) => {}
                Read::Line => match Sent::read(&line) {
                    Ok(sent) => {
                        for message in sent.messages {
                            session.put(message).await;
                        }
                    }
                    Err(why) => bad.tell(session, why.why),
                },
                Read::TooLong => {
                    bad.tell(session, "it is longer than 4 MiB");
                    session.put_instead(&line).await;
                }
            }
        }
    };
    // It is in the server's log; and who reads nothing would hold the program up.
    let complains = async { while stderr.recv().await.is_some() {} };
    let hears = hears(stdin.take(), lines);
    let ends = ended.clone();
    let passing = async {
        let passed = async { tokio::join!(says, complains) };
        tokio::pin!(passed);
        tokio::select! {
            ended = ends.clone() => {
                // Read within moments, or never: something else holds its output open.
                let _rest = tokio::time::timeout(REST, &mut passed).await;
                ended
            }
            _ = &mut passed => ends.clone().await,
        }
    };
    tokio::select! {
        never = hears => match never {},
        ended = passing => ended,
    }
}

/// To the program; what it reads no more is its own affair.
async fn hears(
    mut stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    mut lines: mpsc::Receiver<ToProgram>,
) -> Infallible {
    while let Some(mut next) = lines.recv().await {
        let Some(open) = &mut stdin else { continue };
        next.line.push('\n');
        let written = open.write_all(next.line.as_bytes()).await;
        if written.is_err() || open.flush().await.is_err() {
            stdin = None;
        }
    }
    // The session has the other end: this is over with it.
    std::future::pending().await
}

/// Lines that are no messages: the first few are told, so that none fills gig's log.
#[derive(Default)]
struct Bad(u32);

impl Bad {
    fn tell(&mut self, session: &Session, why: &str) {
        self.0 = self.0.saturating_add(1);
        let server = session.server();
        if self.0 <= TOLD {
            tracing::warn!(
                server,
                why,
                "a line of an MCP server is no message: dropped"
            );
        }
        if self.0 == TOLD {
            tracing::warn!(server, "more such lines of this session are not told");
        }
    }
}

enum Read {
    Line,
    /// Its beginning alone is kept.
    TooLong,
}

/// Reads a line, of bounded length; `None` at the end. What is left without an end is a line, too.
async fn next(reader: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> Option<Read> {
    line.clear();
    let mut too_long = false;
    loop {
        let there = reader.fill_buf().await.ok()?;
        if there.is_empty() {
            let any = !line.is_empty() || too_long;
            return any.then_some(if too_long { Read::TooLong } else { Read::Line });
        }
        let mut parts = there.splitn(2, |octet| *octet == b'\n');
        let part = parts.next().unwrap_or_default();
        let ends = parts.next().is_some();
        if line.len() + part.len() > LONGEST {
            too_long = true;
            line.truncate(BEGINNING);
        }
        if !too_long {
            line.extend_from_slice(part);
        }
        let used = part.len() + usize::from(ends);
        reader.consume(used);
        if ends {
            return Some(if too_long { Read::TooLong } else { Read::Line });
        }
    }
}

/// As of sandboxes that nobody is attached to.
const IDLE: Duration = Duration::from_secs(300);
const DAY: Duration = Duration::from_hours(24);
/// Between two looks whether it is idle.
const LOOK: Duration = Duration::from_secs(5);
/// Of a line that is too long: where an answer says what it answers.
const BEGINNING: usize = 512;
/// Octets that are read of a program at once.
const AT_ONCE: usize = 32 * 1024;
/// Bad lines of a session.
const TOLD: u32 = 5;
/// For what a program that has ended printed last.
const REST: Duration = Duration::from_secs(5);
