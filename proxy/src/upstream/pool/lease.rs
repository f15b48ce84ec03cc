//! A connection that may carry one request, and how it carries it.

use std::sync::Arc;

use gig_policy::DenyReason;
use http::{
    HeaderValue, Request, Response,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING, UPGRADE},
};
use http_body::Body as _;
use hyper::client::conn::http1;

use super::{Origin, Origins};
use crate::{
    failure::{Failure, Side},
    http::{
        body::{KeptRoom, Upload},
        incoming::Incoming,
        interim::{Interims, TooMuch},
    },
    tls::downstream::Application,
    upstream::{
        dial::Reached,
        http1::{Came, Connection, NoAnswer, Sent},
        http2::{Http2, SendError},
    },
};

/// A connection that may carry one request.
#[derive(Debug)]
pub struct Lease {
    /// Whose pool it goes back to.
    pub(super) origins: Arc<Origins>,
    pub(super) origin: Origin,
    /// By which it is sent.
    pub line: Line,
    /// It has carried a request before: the origin may have closed it in the meantime.
    pub reused: bool,
    /// It carries no request after this one, where it carries one at a time.
    pub last: bool,
}

/// A request without an answer.
#[derive(Debug)]
pub struct Unsent {
    /// The request is where it was: it certainly did not go.
    pub kept: bool,
    /// The request is where it was, though it may have gone.
    pub left: bool,
    /// What the origin made of it.
    pub fate: Fate,
    /// What to tell.
    pub failure: Failure,
}

/// What an origin made of a request that it did not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It says that it did not look at it: repeating it is safe whatever it does.
    Unprocessed,
    /// The connection ended before any octet of an answer.
    Unanswered,
    /// It had begun to answer, or nobody knows.
    Unknown,
}

impl Fate {
    const fn of(unanswered: bool) -> Self {
        if unanswered {
            Self::Unanswered
        } else {
            Self::Unknown
        }
    }
}

impl Unsent {
    fn by_http1(error: hyper::Error, kept: bool) -> Self {
        let reason = if error.is_parse() || error.is_parse_too_large() {
            DenyReason::OriginProtocol
        } else {
            DenyReason::DestinationUnavailable
        };
        Self {
            kept,
            left: kept,
            fate: Fate::of(
                error.is_incomplete_message() || error.is_closed() || error.is_canceled(),
            ),
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn by_own(error: NoAnswer) -> Self {
        Self {
            kept: false,
            left: true,
            fate: Fate::of(!matches!(error, NoAnswer::Part(_))),
            failure: Failure::caused(Side::Upstream, DenyReason::DestinationUnavailable, error),
        }
    }

    fn by_http2(error: SendError, kept: bool) -> Self {
        let reason = match &error {
            SendError::NoStream => DenyReason::OriginTimeout,
            _ if error.is_malformed() => DenyReason::OriginProtocol,
            _ => DenyReason::DestinationUnavailable,
        };
        Self {
            kept,
            left: kept,
            fate: match error.is_unprocessed() {
                true => Fate::Unprocessed,
                false => Fate::of(error.is_unanswered()),
            },
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn too_much() -> Self {
        Self {
            kept: false,
            left: false,
            fate: Fate::Unknown,
            failure: Failure::caused(Side::Upstream, DenyReason::OriginProtocol, TooMuch),
        }
    }
}

/// By which a request is sent.
#[derive(Debug)]
pub enum Line {
    /// Of its own.
    Http1 {
        /// Sends one request at a time.
        carrier: Carrier,
        /// Where it goes.
        reached: Reached,
    },
    /// Shared.
    Http2(Http2),
}

/// Who speaks HTTP/1.1 on a connection.
#[derive(Debug)]
pub enum Carrier {
    /// Whoever sends a request.
    Own(Connection),
    /// hyper, in a task of the connection's.
    Hyper(http1::SendRequest<Upload>),
    /// Nobody: it broke on its way to hyper.
    Broken,
}

impl Carrier {
    /// Whether it may carry another request, as far as its last answer says.
    #[must_use]
    pub fn is_reusable(&self) -> bool {
        match self {
            Self::Own(connection) => connection.is_reusable(),
            Self::Hyper(sender) => !sender.is_closed(),
            Self::Broken => false,
        }
    }

    /// Whether it can take a request now.
    #[must_use]
    pub fn is_free(&self) -> bool {
        match self {
            Self::Own(connection) => connection.is_free(),
            Self::Hyper(_) | Self::Broken => self.is_reusable(),
        }
    }
}

impl Lease {
    /// A connection that was just opened.
    #[must_use]
    pub const fn fresh(origins: Arc<Origins>, origin: Origin, line: Line) -> Self {
        Self {
            origins,
            origin,
            line,
            reused: false,
            last: false,
        }
    }

    /// What the origin speaks on it.
    #[must_use]
    pub const fn application(&self) -> Application {
        match &self.line {
            Line::Http1 { .. } => Application::Http1,
            Line::Http2(_) => Application::Http2,
        }
    }

    /// Whether a request that is sent stays where it is until it is answered.
    #[must_use]
    pub const fn leaves_requests(&self) -> bool {
        matches!(
            &self.line,
            Line::Http1 {
                carrier: Carrier::Own(_),
                ..
            }
        )
    }

    /// Room for what is kept of a body while the origin may say that it did not look at it: only over HTTP/2 can it.
    #[must_use]
    pub fn kept(&self) -> Option<KeptRoom> {
        match &self.line {
            Line::Http1 { .. } => None,
            Line::Http2(shared) => Some(shared.kept()),
        }
    }

    /// Whether a WebSocket can be asked for: always over HTTP/1.1, over HTTP/2 where the origin says so.
    pub async fn takes_websockets(&self) -> bool {
        match &self.line {
            Line::Http1 { .. } => true,
            Line::Http2(shared) => shared.takes_websockets().await,
        }
    }

    /// Takes one request, sends it and waits for the answer's header section; what comes before that
    /// goes to `interims`.
    ///
    /// # Errors
    /// With the request in its place where it certainly did not go.
    pub async fn send(
        &mut self,
        request: &mut Request<Upload>,
        interims: &Interims,
    ) -> Result<Response<Incoming>, Unsent> {
        match &mut self.line {
            Line::Http1 { carrier, .. } => send_http1(carrier, request, interims).await,
            Line::Http2(shared) => {
                if let Err(error) = shared.is_ready() {
                    return Err(Unsent::by_http2(SendError::Frames(error), true));
                }
                let sent = shared.send(request, interims).await;
                sent.map_err(|error| Unsent::by_http2(error, false))
            }
        }
    }

    /// Where it goes.
    #[must_use]
    pub const fn reached(&self) -> Reached {
        match &self.line {
            Line::Http1 { reached, .. } => *reached,
            Line::Http2(shared) => shared.reached,
        }
    }
}

async fn send_http1(
    carrier: &mut Carrier,
    request: &mut Request<Upload>,
    interims: &Interims,
) -> Result<Response<Incoming>, Unsent> {
    let mut came = None;
    if let Carrier::Own(connection) = carrier
        && let Some(sending) = connection.send(request)
    {
        match sending.await {
            Ok(Sent::Answer(response)) => return Ok(response),
            Ok(Sent::Unusual(unusual)) => came = Some(unusual),
            Err(error) => return Err(Unsent::by_own(error)),
        }
    }
    // Boxed, so that most requests hold no room for it.
    Box::pin(send_by_hyper(carrier, came, request, interims)).await
}

/// Has hyper send a request, or read the answer to one that went already: then `came` says how far it is.
async fn send_by_hyper(
    carrier: &mut Carrier,
    came: Option<Came>,
    request: &mut Request<Upload>,
    interims: &Interims,
) -> Result<Response<Incoming>, Unsent> {
    let under_way = came.is_some();
    if matches!(carrier, Carrier::Own(_))
        && let Carrier::Own(connection) = std::mem::replace(carrier, Carrier::Broken)
    {
        let handed_over = connection.hand_over(came.unwrap_or_default()).await;
        *carrier = Carrier::Hyper(handed_over.map_err(|error| Unsent {
            // Where nothing was sent before.
            kept: !under_way,
            left: true,
            fate: Fate::Unknown,
            failure: match error {
                Some(error) => no_protocol(error),
                None => Unsent::by_own(NoAnswer::Cut).failure,
            },
        })?);
    }
    let Carrier::Hyper(sender) = carrier else {
        return Err(Unsent::by_own(NoAnswer::Cut));
    };
    let sent = send_on(sender, request, interims).await;
    sent.map_err(|mut unsent| {
        if under_way {
            // The origin had it, and has answered something.
            (unsent.kept, unsent.fate) = (false, Fate::Unknown);
        }
        unsent
    })
}

fn no_protocol(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::caused(Side::Upstream, DenyReason::OriginProtocol, error)
}

async fn send_on(
    sender: &mut http1::SendRequest<Upload>,
    request: &mut Request<Upload>,
    interims: &Interims,
) -> Result<Response<Incoming>, Unsent> {
    if let Err(error) = sender.ready().await {
        return Err(Unsent::by_http1(error, true));
    }
    frame_body(request);
    let watching = interims.watch(request);
    tokio::select! {
        biased;
        sent = sender.try_send_request(std::mem::take(request)) => match sent {
            Ok(response) => Ok(response.map(Incoming::Http1)),
            Err(mut error) => {
                let kept = error.take_message().map(|returned| *request = returned).is_some();
                Err(Unsent::by_http1(error.into_error(), kept))
            }
        },
        () = watching.too_much() => Err(Unsent::too_much()),
    }
}

/// Has a body of no known length sent in chunks whatever the method: of a GET hyper takes it for none, and the origin
/// would answer another question (RFC 9110 §9.3.1 leaves such a body to the origin).
fn frame_body(request: &mut Request<Upload>) {
    let body = request.body();
    let is_open = body.size_hint().exact().is_none() && !body.is_end_stream();
    let headers = request.headers_mut();
    if is_open && !headers.contains_key(CONTENT_LENGTH) && !headers.contains_key(UPGRADE) {
        headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
    }
}

#[cfg(test)]
mod tests;
