//! Attaching to a server: a program of its own for whoever asks, and its standard streams over a
//! WebSocket.
//!
//! Who attaches to what is recorded before anything starts, and that it is over before anything is let
//! go. What happens between is [`crate::attachment`]'s.

use std::{sync::Arc, time::Duration};

use axum::{
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::Response,
};
use gig_audit::{Entry, VerdictWord};
use gig_policy::SandboxId;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::sync::oneshot;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{handshake::derive_accept_key, protocol::Role},
};

use super::{Path, sandboxes::act};
use crate::{
    api_error::Problem,
    app::App,
    attachment::{Joined, Over, protocol},
    auth::{Caller, lapse::lapsed, origin},
    control::Attached,
    profile::Whose,
    role::Permission,
    store::{Name, Server},
};

/// Starts a program of this server for this client alone, beside the sandbox that `start` gives a profile, and
/// joins its standard streams to a WebSocket (`gig.attach.v1`). A binary message begins with an octet that names the stream (0 standard input, 1
/// standard output, 2 standard error); with nothing after it that stream has ended. The program's exit
/// status comes last, `{"exit": 0}`. The program ends with the connection.
#[utoipa::path(get, path = "/api/v1/servers/{name}/attach", tag = "servers",
    params(("Gig-Profile" = Option<String>, Header, description = "whose it is, where a token acts for others: \
        its scopes name `profiles:act`")),
    responses((status = 101, description = "the program runs; a WebSocket follows"),
              (status = 404, body = Problem), (status = 422, body = Problem), (status = 426, body = Problem),
              (status = 429, body = Problem), (status = 503, body = Problem)))]
pub(crate) async fn attach(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    mut request: Request,
) -> Result<Response, Problem> {
    caller.require(Permission::RunSandboxes)?;
    if caller.session.is_some() {
        // A browser sends the session from any page, and this is no form.
        origin::check(&app, request.headers())?;
    }
    let asked = Handshake::read(&request)?;
    let whose = Whose::of(&app, &caller, request.headers()).await?;
    let upgrade = request.extensions_mut().remove::<OnUpgrade>();
    let upgrade = upgrade.ok_or_else(not_a_websocket)?;
    let route = "GET /api/v1/servers/{name}/attach";
    let server = server_for(&app, (&caller, route), &name).await?;
    let (mut tell, told) = oneshot::channel();
    let attaching = Attaching {
        app: Arc::clone(&app),
        caller,
        whose,
        server: server.name,
        id: SandboxId::new(uuid::Uuid::now_v7()),
        by: None,
    };
    // By itself: whoever asked may go away at any moment, and what was begun is then ended and recorded.
    app.attachments.spawn(async move {
        let started = attaching.start(tell.closed()).await;
        let attached = match started {
            Ok(attached) => attached,
            Err(problem) => {
                // Nobody is there to hear it.
                let _gone = tell.send(Err(problem));
                return;
            }
        };
        let _gone = tell.send(Ok(()));
        attaching.live(attached, upgrade).await;
    });
    told.await.map_err(Problem::internal)??;
    asked.answer()
}

/// The server that somebody attaches to, if it is there for them; the route says where they asked.
///
/// # Errors
/// What is no name, and 404.
pub(crate) async fn server_for(
    app: &App,
    (caller, route): (&Caller, &str),
    name: &str,
) -> Result<Server, Problem> {
    // What is no server's name is not for the record, whoever sends it.
    let name: Name = name.parse()?;
    let wanted = name.to_string();
    let known = app.ask(move |store| store.server(&wanted)).await?;
    // To a token of other servers it is not there.
    if !caller.reaches(name.as_str()) {
        app.tell_hidden(caller, route);
        return Err(Problem::missing("server", name.as_str()));
    }
    known.ok_or_else(|| Problem::missing("server", name.as_str()))
}

/// What a client asked for, as RFC 6455 section 4.2.1 has it.
struct Handshake {
    accept: String,
    protocol: bool,
}

impl Handshake {
    fn read(request: &Request) -> Result<Self, Problem> {
        let headers = request.headers();
        let right = request.method() == Method::GET
            && holds(headers, header::CONNECTION, "upgrade")
            && holds(headers, header::UPGRADE, "websocket")
            && holds(headers, header::SEC_WEBSOCKET_VERSION, "13");
        let key = headers.get(header::SEC_WEBSOCKET_KEY);
        match key {
            Some(key) if right && key.len() == KEY => Ok(Self {
                accept: derive_accept_key(key.as_bytes()),
                protocol: holds(headers, header::SEC_WEBSOCKET_PROTOCOL, protocol::PROTOCOL),
            }),
            _ => Err(not_a_websocket()),
        }
    }

    fn answer(self) -> Result<Response, Problem> {
        let mut answer = Response::builder()
            .status(StatusCode::SWITCHING_PROTOCOLS)
            .header(header::CONNECTION, "upgrade")
            .header(header::UPGRADE, "websocket")
            .header(header::SEC_WEBSOCKET_ACCEPT, self.accept);
        if self.protocol {
            let ours = HeaderValue::from_static(protocol::PROTOCOL);
            answer = answer.header(header::SEC_WEBSOCKET_PROTOCOL, ours);
        }
        answer.body(Body::empty()).map_err(Problem::internal)
    }
}

/// Whether a list of words has this one.
fn holds(headers: &HeaderMap, name: header::HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter();
    let mut words = values
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    words.any(|one| one.trim().eq_ignore_ascii_case(word))
}

fn not_a_websocket() -> Problem {
    Problem::new(
        StatusCode::UPGRADE_REQUIRED,
        "no_websocket",
        "this is a WebSocket: `gig mcp NAME` speaks it, and so can your program",
    )
}

/// Who attaches to what.
pub(crate) struct Attaching {
    pub(crate) app: Arc<App>,
    pub(crate) caller: Caller,
    pub(crate) whose: Whose,
    pub(crate) server: String,
    pub(crate) id: SandboxId,
    /// In which other way than by [`attach`].
    pub(crate) by: Option<&'static str>,
}

impl Attaching {
    /// Starts it, unless whoever asked is gone before: then what was begun ends by itself.
    pub(crate) async fn start(&self, gone: impl Future<Output = ()>) -> Result<Attached, Problem> {
        let app = &self.app;
        app.starts(self.id, &self.caller);
        app.record(self.entry(VerdictWord::Allow, "attach asked for"))
            .await?;
        let profile = Arc::clone(&self.whose.profile);
        let attaching = app.attach(self.server.clone(), self.id, profile);
        let started = tokio::select! {
            started = attaching => started,
            () = gone => Err(Problem::unavailable("the client went away")),
        };
        if let Err(problem) = &started {
            let words = format!("not attached: {}", problem.detail);
            self.tell(VerdictWord::Deny, &words).await;
        }
        started
    }

    async fn live(&self, mut attached: Attached, upgrade: OnUpgrade) {
        let upgraded = tokio::time::timeout(UPGRADE_WITHIN, upgrade).await;
        let Ok(Ok(upgraded)) = upgraded else {
            let words = format!("detached: {}", Over::Gone.words());
            return self.tell(VerdictWord::Allow, &words).await;
        };
        let limits = Some(protocol::limits());
        let io = TokioIo::new(upgraded);
        let socket = WebSocketStream::from_raw_socket(io, Role::Server, limits).await;
        let mut joined = Joined::new(socket);
        let lapsed = lapsed(&self.app, &self.caller);
        let over = Box::pin(joined.pass(&mut attached, lapsed)).await;
        let words = format!("detached: {}", over.words());
        self.tell(VerdictWord::Allow, &words).await;
        drop(attached);
        joined.end(&over).await;
    }

    /// Records what cannot be refused any more.
    pub(crate) async fn tell(&self, verdict: VerdictWord, words: &str) {
        if let Err(problem) = self.app.record(self.entry(verdict, words)).await {
            let why = problem.detail;
            tracing::error!(why, "the end of an attachment is not in the record");
        }
    }

    fn entry(&self, verdict: VerdictWord, words: &str) -> Entry {
        let mut entry = act(&self.app, &self.caller, &self.server, Some(self.id), words);
        entry.verdict = Some(verdict);
        entry.findings.extend(self.whose.words());
        entry.findings.extend(self.by.map(Into::into));
        entry
    }
}

/// Sixteen octets in base64.
const KEY: usize = 24;
/// The answer is on its way already.
const UPGRADE_WITHIN: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
