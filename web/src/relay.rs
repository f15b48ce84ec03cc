//! What another node keeps, asked of that node: nodes listen for nobody, so question and answer go through the
//! database that they share.
//!
//! Promises that a node which lives answers within a second or so, that who asks waits ten at most, and that
//! what is asked is what whoever asked may see: their rights are looked at where they ask, and whose lines they
//! may read goes with the question. Where the store is this appliance's alone there is nobody to ask.

use std::{
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use axum::http::StatusCode;
use gig_policy::SandboxId;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::{
    api_error::Problem,
    app::App,
    control::{LogAsked, LogFrom, LogPage},
    one_sandbox::{has_others, seen},
    profile::Sight,
    store::{Question, WAITED_FOR},
};

/// Lines of a server's log that somebody wants to read.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct LinesWanted {
    pub(crate) server: String,
    pub(crate) sandbox: Option<SandboxId>,
    /// Whose are there for them; `None`: everybody's.
    pub(crate) profile: Option<String>,
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
    pub(crate) grep: Option<String>,
    pub(crate) from: LogFrom,
    pub(crate) limit: usize,
}

/// What a node may be asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Wanted {
    Lines(LinesWanted),
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Lines(LogPage),
    /// In words for people.
    Failed(String),
}

impl LinesWanted {
    /// For the machine of this node.
    fn asked(self, app: &Arc<App>) -> LogAsked {
        let sight = self
            .profile
            .map_or(Sight::All, |profile| Sight::Of(profile.into()));
        LogAsked {
            server: self.server,
            sandbox: self.sandbox,
            seen: seen(app, &sight),
            since: self.since,
            until: self.until,
            grep: self.grep,
            from: self.from,
            limit: self.limit,
        }
    }
}

/// Lines of `node`'s log, which is this node or one of `others`.
///
/// # Errors
/// 404 where no such node lives, 504 where it does not answer, and what it says itself.
pub(crate) async fn lines(
    app: &Arc<App>,
    (node, others): (&str, &[String]),
    wanted: LinesWanted,
) -> Result<LogPage, Problem> {
    if node == app.node {
        let (control, asked) = (Arc::clone(&app.control), wanted.asked(app));
        return Ok(app.aside(move || control.lines(&asked)).await??);
    }
    if !others.iter().any(|one| one == node) {
        return Err(Problem::missing("node", node));
    }
    match ask(app, node, &Wanted::Lines(wanted)).await? {
        Reply::Lines(page) => Ok(page),
        Reply::Failed(why) => Err(Problem::new(
            StatusCode::BAD_GATEWAY,
            "node_failed",
            format!("the gig on {node} says: {why}"),
        )),
    }
}

/// The nodes that live beside this one, by name.
pub(crate) async fn others(app: &App) -> Result<Vec<String>, Problem> {
    if !has_others(app) {
        return Ok(Vec::new());
    }
    let nodes = app.ask(|store| store.nodes()).await?.into_iter();
    let living = nodes.filter(|one| !one.gone && one.name != app.node);
    Ok(living.map(|one| one.name).collect())
}

async fn ask(app: &App, node: &str, wanted: &Wanted) -> Result<Reply, Problem> {
    let id = uuid::Uuid::now_v7().to_string();
    let question = Question {
        id: id.clone(),
        text: serde_json::to_string(wanted).map_err(Problem::internal)?,
    };
    let whom = node.to_owned();
    app.ask(move |store| store.put_question(&whom, &question))
        .await?;
    let asked = Instant::now();
    let mut reply = None;
    while reply.is_none() && asked.elapsed() < WAITED_FOR {
        tokio::time::sleep(LOOK_FOR_REPLY).await;
        let id = id.clone();
        reply = app.ask(move |store| store.reply(&id)).await?;
    }
    app.ask(move |store| store.forget_question(&id)).await?;
    let reply = reply.ok_or_else(|| {
        let seconds = WAITED_FOR.as_secs();
        let words = format!(
            "the gig on {node} did not answer within {seconds} seconds: it may be cut off from the database, busy, or \
             of another version; GET /api/v1/nodes says when each was seen"
        );
        Problem::new(StatusCode::GATEWAY_TIMEOUT, "node_silent", words)
    })?;
    serde_json::from_str(&reply).map_err(Problem::internal)
}

/// A thread that answers what other nodes ask of this one; ends when this is dropped.
#[derive(Debug)]
pub struct Relay {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Begins; `None` where nobody else is on the store.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(app: &Arc<App>) -> std::io::Result<Option<Self>> {
        if !has_others(app) {
            return Ok(None);
        }
        let (stop, told) = mpsc::channel();
        let app = Arc::clone(app);
        let thread = std::thread::Builder::new()
            .name("relay".to_owned())
            .spawn(move || {
                let is_over = || told.try_recv() != Err(mpsc::TryRecvError::Empty);
                while told.recv_timeout(LOOK) == Err(mpsc::RecvTimeoutError::Timeout) {
                    if !round(&app, is_over) {
                        break;
                    }
                }
            })?;
        let thread = Some(thread);
        Ok(Some(Self { stop, thread }))
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // One that has ended is told nothing.
        let _gone = self.stop.send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that answers other nodes panicked");
        }
    }
}

/// Answers what was asked, until it is over; what cannot be read or answered now is at the next look, if somebody still
/// waits for it. Whether it goes on.
fn round(app: &Arc<App>, is_over: impl Fn() -> bool) -> bool {
    let questions = match app.store.questions_for(&app.node) {
        Ok(questions) => questions,
        Err(error) => {
            tracing::debug!(%error, "what other nodes ask cannot be read now");
            return true;
        }
    };
    for question in questions {
        if is_over() {
            return false;
        }
        let reply = reply(app, &question.text);
        let Ok(text) = serde_json::to_string(&reply) else {
            tracing::error!("an answer to another node cannot be written");
            continue;
        };
        if let Err(error) = app.store.answer_question(&question.id, &text) {
            tracing::debug!(%error, "another node is not answered");
            return true;
        }
    }
    true
}

fn reply(app: &Arc<App>, question: &str) -> Reply {
    let Ok(Wanted::Lines(wanted)) = serde_json::from_str(question) else {
        return Reply::Failed("it is of another version and does not know what it is asked".into());
    };
    let mut asked = wanted.asked(app);
    loop {
        let page = match app.control.lines(&asked) {
            Ok(page) => page,
            Err(error) => return Reply::Failed(error.to_string()),
        };
        let size: usize = page.lines.iter().map(|line| line.text.len()).sum();
        if size <= MOST_OCTETS || asked.limit <= 1 {
            return Reply::Lines(page);
        }
        // Who asks goes on from where fewer lines end.
        asked.limit /= 2;
    }
}

/// Between two looks at what others ask.
const LOOK: Duration = Duration::from_millis(250);
/// Between two looks for an answer.
const LOOK_FOR_REPLY: Duration = Duration::from_millis(50);
/// A thousand lines of usual length are a tenth of it.
const MOST_OCTETS: usize = 4 << 20;

#[cfg(test)]
mod tests;
