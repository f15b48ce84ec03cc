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
    /// The request, where it certainly did not go.
    pub request: Option<Box<Request<Upload>>>,
    /// The connection ended before any octet of an answer.
    pub unanswered: bool,
    /// What to tell.
    pub failure: Failure,
}

impl Unsent {
    fn by_http1(error: hyper::Error, request: Option<Box<Request<Upload>>>) -> Self {
        let reason = if error.is_parse() || error.is_parse_too_large() {
            DenyReason::OriginProtocol
        } else {
            DenyReason::DestinationUnavailable
        };
        Self {
            request,
            unanswered: error.is_incomplete_message() || error.is_closed() || error.is_canceled(),
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn by_http2(error: SendError, request: Option<Box<Request<Upload>>>) -> Self {
        let reason = if error.is_malformed() {
            DenyReason::OriginProtocol
        } else {
            DenyReason::DestinationUnavailable
        };
        Self {
            request,
            unanswered: error.is_unanswered(),
            failure: Failure::caused(Side::Upstream, reason, error),
        }
    }

    fn too_much() -> Self {
        Self {
            request: None,
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

    /// Sends one request and waits for the answer's header section; what comes before that goes to
    /// `interims`.
    ///
    /// # Errors
    /// With the request where it certainly did not go.
    pub async fn send(
        &mut self,
        request: Request<Upload>,
        interims: &Interims,
    ) -> Result<Response<Incoming>, Unsent> {
        match &mut self.line {
            Line::Http1 { sender, .. } => send_http1(sender, request, interims).await,
            Line::Http2(shared) => {
                if let Err(error) = shared.is_ready() {
                    let error = SendError::Frames(error);
                    return Err(Unsent::by_http2(error, Some(Box::new(request))));
                }
                let sent = shared.send(request, interims).await;
                sent.map_err(|error| Unsent::by_http2(error, None))
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
    mut request: Request<Upload>,
    interims: &Interims,
) -> Result<Response<Incoming>, Unsent> {
    if let Err(error) = sender.ready().await {
        return Err(Unsent::by_http1(error, Some(Box::new(request))));
    }
    let watching = interims.watch(&mut request);
    tokio::select! {
        biased;
        sent = sender.try_send_request(request) => match sent {
            Ok(response) => Ok(response.map(Incoming::Http1)),
            Err(mut error) => {
                let request = error.take_message().map(Box::new);
                Err(Unsent::by_http1(error.into_error(), request))
            }
        },
        () = watching.too_much() => Err(Unsent::too_much()),
    }
}
