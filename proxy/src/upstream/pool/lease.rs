//! A connection that may carry one request, and how it carries it.

use std::{net::SocketAddr, sync::Arc};

use gig_policy::DenyReason;
use http::{Request, Response};
use hyper::{
    body::Incoming,
    client::conn::{http1, http2},
};

use super::{Origin, Origins};
use crate::{
    failure::{Failure, Side},
    http::body::Upload,
    tls::downstream::Application,
    upstream::settled::Settled,
};

/// An HTTP/2 connection.
#[derive(Debug, Clone)]
pub struct Http2 {
    /// Sends requests; cloning shares the connection.
    pub sender: http2::SendRequest<Upload>,
    /// Where it goes.
    pub address: SocketAddr,
    /// Knows what its origin takes.
    pub settled: Settled,
}

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
    fn new(error: &hyper::Error, request: Option<Box<Request<Upload>>>) -> Self {
        let reason = if error.is_parse() || error.is_parse_too_large() {
            DenyReason::OriginProtocol
        } else {
            DenyReason::DestinationUnavailable
        };
        Self {
            request,
            unanswered: error.is_incomplete_message() || error.is_closed() || error.is_canceled(),
            failure: Failure::new(Side::Upstream, reason),
        }
    }

    fn because(mut self, error: hyper::Error) -> Self {
        self.failure.source = Some(Box::new(error));
        self
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
        address: SocketAddr,
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
            Line::Http2(shared) => shared.settled.takes_websockets().await,
        }
    }

    /// Sends one request and waits for the answer's header section.
    ///
    /// # Errors
    /// With the request where it certainly did not go.
    pub async fn send(&mut self, request: Request<Upload>) -> Result<Response<Incoming>, Unsent> {
        let sent = match &mut self.line {
            Line::Http1 { sender, .. } => {
                if let Err(error) = sender.ready().await {
                    return Err(Unsent::new(&error, Some(Box::new(request))).because(error));
                }
                sender.try_send_request(request).await
            }
            Line::Http2(shared) => {
                if let Err(error) = shared.sender.ready().await {
                    return Err(Unsent::new(&error, Some(Box::new(request))).because(error));
                }
                shared.sender.try_send_request(request).await
            }
        };
        sent.map_err(|mut error| {
            let request = error.take_message().map(Box::new);
            let error = error.into_error();
            Unsent::new(&error, request).because(error)
        })
    }

    /// Where it goes.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        match &self.line {
            Line::Http1 { address, .. } => *address,
            Line::Http2(shared) => shared.address,
        }
    }
}
