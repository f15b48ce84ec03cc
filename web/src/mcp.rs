//! The endpoint of the Model Context Protocol, by its Streamable HTTP transport: what `gig mcp` is to programs
//! on this machine, for those that speak HTTP. A session is an attachment: a program of its own, and who may attach may
//! open one. The transport is all that is spoken here: what the messages ask is between client and server.
//!
//! Promises that it is opened with a token (or at the owner's socket) and never with a cookie; that nothing
//! of a request reaches the program but its messages, each as one line; and that a session is there for nobody but who opened it.

use std::sync::Arc;

use axum::{
    body::{Body, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use gig_policy::SandboxId;
use tokio::sync::oneshot;

mod answer;
mod asked;
mod life;
mod message;
mod session;
mod stream;

pub(crate) use self::session::Sessions;
use self::{
    asked::Form,
    message::{Id, Kind, NoMessage, Sent},
    session::{Owner, Session},
};
use crate::{
    api::{
        Path,
        attach::{Attaching, server_for},
    },
    api_error::Problem,
    app::App,
    auth::{Caller, is_long},
    counts::Place,
    profile::Whose,
    role::Permission,
    store::Server,
};

/// Who asks for what, let in.
struct Let {
    caller: Caller,
    whose: Whose,
    server: Server,
    owner: Owner,
}

impl Let {
    async fn in_to(
        app: &App,
        caller: Caller,
        (name, method): (&str, &Method),
        headers: &HeaderMap,
    ) -> Result<Self, Problem> {
        asked::is_ours(app, headers)?;
        caller.require(Permission::RunSandboxes)?;
        let route = format!("{method} {PATH}");
        let whose = Whose::of(app, &caller, headers).await?;
        let server = server_for(app, (&caller, &route), name).await?;
        let owner = Owner::new(&caller, &whose, &server.name);
        Ok(Self {
            caller,
            whose,
            server,
            owner,
        })
    }

    /// The session that is asked in.
    ///
    /// # Errors
    /// 400 where none is named, or not in its revision; 404 where it is not there for who asks.
    fn session(&self, app: &App, headers: &HeaderMap) -> Result<Arc<Session>, Problem> {
        let named = asked::session(headers)?.ok_or_else(|| {
            Problem::invalid("name your session in Mcp-Session-Id, or open one with `initialize`")
        })?;
        let session = app.mcp.find(named, &self.owner).ok_or_else(no_session)?;
        asked::revision(headers, Some(&session))?;
        Ok(session)
    }
}

/// `POST /sandbox/{server}/mcp`: messages to the server; with `initialize` and no session, opens one.
pub(crate) async fn send(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let asks = Let::in_to(&app, caller, (&name, &parts.method), headers).await?;
    asked::is_json(headers)?;
    let form = Form::taken(headers)?;
    let place = app.mcp.asks(&asks.owner)?;
    let known = match asked::session(headers)? {
        Some(_) => Some(asks.session(&app, headers)?),
        None => None,
    };
    let sent = match read(&app, headers, body).await? {
        Ok(sent) => sent,
        Err(why) => return Ok(answer::no_message(why)),
    };
    let opens = opens(&sent);
    if opens.is_some() && sent.batch {
        return Err(Problem::invalid("`initialize` comes by itself"));
    }
    let (session, id) = match (known, opens) {
        (Some(session), None) => (session, None),
        (None, Some(opened_by)) => {
            asked::revision(headers, None)?;
            let (session, id) = open(&app, asks, opened_by).await?;
            (session, Some(id))
        }
        (Some(_), Some(_)) => {
            return Err(Problem::invalid(
                "this session is open: `initialize` opens another one, without Mcp-Session-Id",
            ));
        }
        (None, None) => {
            return Err(Problem::invalid(
                "name your session in Mcp-Session-Id: `initialize` opens one",
            ));
        }
    };
    if sent.batch && !asked::takes_batches(&session) {
        return Err(Problem::invalid(
            "one message at a time: this revision of the protocol has no batches",
        ));
    }
    // One of which nobody is told, also since they went away meanwhile, ends.
    let unknown = id.is_some().then(|| session.left.clone().drop_guard());
    let mut answer = pass(&session, sent, (form, place)).await?;
    if let Some(unknown) = unknown {
        unknown.disarm();
    }
    if let Some(id) = id {
        let id = HeaderValue::from_str(&id).map_err(Problem::internal)?;
        answer.headers_mut().insert(asked::SESSION, id);
    }
    Ok(answer)
}

/// Reads a body; long ones few at once.
async fn read(
    app: &App,
    headers: &HeaderMap,
    body: Body,
) -> Result<Result<Sent, NoMessage>, Problem> {
    let _place = match is_long(headers) {
        true => Some(app.bodies.take().await?),
        false => None,
    };
    let body = to_bytes(body, LONGEST).await.map_err(|_| too_long())?;
    Ok(Sent::read(&body))
}

async fn pass(
    session: &Arc<Session>,
    sent: Sent,
    (form, place): (Form, Place<(String, String)>),
) -> Result<Response, Problem> {
    let batch = sent.batch;
    let listener = session.send(sent, form == Form::Whole).await?;
    match (listener, form) {
        (None, _) => Ok(answer::taken()),
        (Some(listener), Form::Events) => Ok(answer::events(listener.in_place(place))),
        (Some(listener), Form::Whole) => answer::whole(listener, batch).await,
    }
}

/// `GET /sandbox/{server}/mcp`: what the server says without being asked, and what is left of a stream that broke off.
pub(crate) async fn listen(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    if request.method() != Method::GET {
        // A HEAD would take the stream from who reads it.
        let allowed = [(header::ALLOW, "GET, POST, DELETE")];
        return Ok((StatusCode::METHOD_NOT_ALLOWED, allowed).into_response());
    }
    let headers = request.headers();
    let asks = Let::in_to(&app, caller, (&name, request.method()), headers).await?;
    asked::takes_events(headers)?;
    let place = app.mcp.asks(&asks.owner)?;
    let session = asks.session(&app, headers)?;
    let after = asked::last_event(headers)?.map(str::parse).transpose();
    let after = after.map_err(|_| Problem::invalid("Last-Event-ID is none of this session's"))?;
    Ok(answer::events(session.listen(after)?.in_place(place)))
}

/// `DELETE /sandbox/{server}/mcp`: ends a session.
pub(crate) async fn leave(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let headers = request.headers();
    let asks = Let::in_to(&app, caller, (&name, request.method()), headers).await?;
    asks.session(&app, headers)?.left.cancel();
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The id of the request that opens a session, where one is asked for.
fn opens(sent: &Sent) -> Option<Id> {
    let mut each = sent.messages.iter();
    each.find_map(|message| match &message.kind {
        Kind::Request {
            id,
            initialize: true,
            ..
        } => Some(id.clone()),
        _ => None,
    })
}

async fn open(app: &Arc<App>, asks: Let, opened_by: Id) -> Result<life::Begun, Problem> {
    let (tell, told) = oneshot::channel();
    let attaching = Attaching {
        app: Arc::clone(app),
        caller: asks.caller,
        whose: asks.whose,
        server: asks.server.name.clone(),
        id: SandboxId::new(uuid::Uuid::now_v7()),
        by: Some("by the MCP endpoint"),
    };
    let life = life::live(attaching, (asks.owner, opened_by), asks.server, tell);
    app.attachments.spawn(life);
    told.await.map_err(Problem::internal)?
}

fn no_session() -> Problem {
    let words = "there is no such session, or it is over: open one with `initialize`";
    Problem::new(StatusCode::NOT_FOUND, "no_session", words)
}

fn too_long() -> Problem {
    let words = "a message has 4 MiB at most, and comes whole";
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_long", words)
}

/// Where it is, as the router has it.
pub(crate) const PATH: &str = "/sandbox/{server}/mcp";
/// Of a message: arguments and results hold whole files.
const LONGEST: usize = 4 * 1024 * 1024;

#[cfg(test)]
mod tests;
