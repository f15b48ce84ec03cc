//! A connection that may carry one request, and how it carries it.

use std::{net::SocketAddr, sync::Arc};

use gig_policy::DenyReason;
use http::{Request, Response};
use hyper::client::conn::http1;

use super::{Origin, Origins};
use crate::{
    failure::{Failure, Side},
    http::{
        body::Upload,
        incoming::Incoming,
        interim::{Interims, TooMuch},
    },
    tls::downstream::Application,
    upstream::http2::{Http2, SendError},
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
}

/// A request without an answer.
#[derive(Debug)]
pub struct Unsent {
    /// The request is where it was: it certainly did not go.
    pub kept: bool,
    /// The connection ended before any octet of an answer.
    pub unanswered: bool,
    /// What to tell.
    pub failure: Failure,
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
            unanswered: error.is_incomplete_message() || error.is_closed() || error.is_canceled(),
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn by_http2(error: SendError, kept: bool) -> Self {
        let reason = if error.is_malformed() {
            DenyReason::OriginProtocol
        } else {
            DenyReason::DestinationUnavailable
        };
        Self {
            kept,
            unanswered: error.is_unanswered(),
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn too_much() -> Self {
        Self {
            kept: false,
            unanswered: false,
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
        sender: http1::SendRequest<Upload>,
        /// Where it goes.
        address: Option<SocketAddr>,
    },
    /// Shared.
    Http2(Http2),
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
            Line::Http1 { sender, .. } => send_http1(sender, request, interims).await,
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
    pub const fn address(&self) -> Option<SocketAddr> {
        match &self.line {
            Line::Http1 { address, .. } => *address,
            Line::Http2(shared) => shared.address,
        }
    }
}

async fn send_http1(
    sender: &mut http1::SendRequest<Upload>,
    request: &mut Request<Upload>,
    interims: &Interims,
) -> Result<Response<Incoming>, Unsent> {
    if let Err(error) = sender.ready().await {
        return Err(Unsent::by_http1(error, true));
    }
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
