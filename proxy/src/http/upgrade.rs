//! WebSocket (RFC 6455), over HTTP/1.1 upgrades and HTTP/2 extended CONNECT (RFC 8441).
//!
//! The handshake is a request like any other, decided as the GET that it is. Only when the origin
//! accepts does HTTP end; a refusal is passed back as an ordinary answer and the connection goes on
//! as HTTP, so that nothing written after a refused upgrade reaches anybody. No other upgrade exists
//! here: others are sent on as plain requests, without `Upgrade`. Towards an origin that speaks nothing
//! but HTTP/2 it is an extended CONNECT, if the origin's SETTINGS allow that.

use std::{pin::pin, sync::Arc};

use aws_lc_rs::{digest, rand};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use gig_policy::{DenyReason, RequestPermit};
use h2::ext::Protocol;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Version,
    header::{
        CONNECTION, CONTENT_LENGTH, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_VERSION,
        UPGRADE,
    },
};
use hyper::upgrade::{OnUpgrade, Upgraded};
use hyper_util::rt::TokioIo;
use tokio_util::either::Either;

use super::{
    body::Download,
    duplex::Duplex,
    exchange::Exchange,
    explicit::Tunnelled,
    forward::{Outgoing, Ready, answer, fail, pass_back, send},
    headers,
    incoming::Incoming,
    live::Live,
    session::Session,
    streams::Accepted,
};
use crate::{
    caller::Caller,
    credential::{
        body::BodyPlan,
        memory::Memory,
        scrub::answer::Returning,
        websocket::{FrameError, Sender, stream::RewrittenStream, without_extensions},
    },
    enforce::request::Asked,
    failure::{Failure, Side},
    opaque::{SpliceLimits, splice_until},
    subject::places::Place,
    tls::downstream::Application,
    upstream::{origin::Need, pool::Lease},
};

mod messages;

/// What follows an HTTP/1 connection that ended by an accepted upgrade.
#[derive(Debug)]
pub enum Tunnel {
    /// `CONNECT` to an explicit proxy.
    Connect(Box<Tunnelled>),
    /// A WebSocket.
    WebSocket(Box<WebSocket>),
}

/// An accepted WebSocket, before its bytes pass.
#[derive(Debug)]
pub struct WebSocket {
    down: Accepting,
    up: Octets,
    exchange: Box<Exchange>,
    session: Arc<Session>,
    /// What happens to what the program sends, where it has secrets.
    plan: Option<BodyPlan>,
    /// The origin's connection is its own from now on, unless it is shared.
    _place: Option<Place>,
}

/// The program's side, until it lets it go.
#[derive(Debug)]
enum Accepting {
    Http1(OnUpgrade),
    Http2(Box<Duplex>),
}

/// What passes in a WebSocket, by either HTTP.
type Octets = Either<TokioIo<Upgraded>, Box<Duplex>>;

impl Accepting {
    /// Waits until HTTP is through with it.
    async fn open(self) -> Option<Octets> {
        match self {
            Self::Http1(down) => Some(Either::Left(TokioIo::new(down.await.ok()?))),
            Self::Http2(mut down) => {
                down.ready().await.ok()?;
                Some(Either::Right(down))
            }
        }
    }
}

/// Whether the request is a WebSocket handshake in either form.
#[must_use]
pub fn wanted(request: &Request<Incoming>) -> bool {
    is_extended_connect(request) || is_upgrade(request)
}

/// RFC 8441 §4: `:method` CONNECT with `:protocol` websocket.
#[must_use]
pub fn is_extended_connect(request: &Request<Incoming>) -> bool {
    request.method() == Method::CONNECT
        && request
            .extensions()
            .get::<Protocol>()
            .is_some_and(|protocol| protocol.as_str() == "websocket")
}

/// RFC 6455 §4.1.
fn is_upgrade(request: &Request<Incoming>) -> bool {
    request.method() == Method::GET
        && request.version() == Version::HTTP_11
        && headers::connection_has(request.headers(), "upgrade")
        && names_websocket(request.headers())
}

fn names_websocket(headers: &HeaderMap) -> bool {
    headers
        .get(UPGRADE)
        .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// The method that policy decides on.
#[must_use]
pub fn effective_method(request: &Request<Incoming>) -> &Method {
    if is_extended_connect(request) {
        return &Method::GET;
    }
    request.method()
}

/// Forwards a handshake; the tunnel begins when the origin accepted it.
///
/// # Errors
/// What was asked and why there is no answer; recorded.
pub async fn forward(
    permit: RequestPermit,
    session: &Arc<Session>,
    mut exchange: Box<Exchange>,
    mut outgoing: Outgoing,
) -> Result<Response<Download>, (Asked, DenyReason)> {
    let extended = is_extended_connect(&outgoing.request);
    let announced = headers::content_length(outgoing.request.headers());
    let has_body = !http_body::Body::is_end_stream(outgoing.request.body());
    if has_body || extended && announced.is_some_and(|length| length > 0) {
        let failure = Failure::new(Side::Downstream, DenyReason::MalformedRequest);
        return Err(fail(*exchange, failure));
    }
    let down = match outgoing.request.body_mut().take_tunnel() {
        Some(duplex) => Accepting::Http2(duplex),
        None => Accepting::Http1(hyper::upgrade::on(&mut outgoing.request)),
    };
    let route = Arc::clone(&outgoing.route);
    let plan = outgoing
        .carried
        .as_mut()
        .and_then(|carried| carried.body.take());
    let (ready, interims) = &mut Ready::new(session, &mut exchange, outgoing);
    if exchange.capture().is_some() {
        // What passes is no answer that tokens could be found in.
        let failure = Failure::new(Side::Downstream, DenyReason::TokenUnreadable);
        return Err(fail(*exchange, failure));
    }
    if plan.is_some() {
        // Compressed messages could not be looked into.
        without_extensions(ready.request.headers_mut());
    }
    let key = match key(&ready.request, extended) {
        Ok(key) => key,
        Err(failure) => return Err(fail(*exchange, failure)),
    };
    // Secrets and signatures find it as it was decided on.
    shape(&mut ready.request, Application::Http1, &key);
    ready.for_websocket(key.clone());
    let sent = send(permit, session, &route, Need::Upgrade, ready, interims);
    let (mut response, lease) = match exchange.unless_revoked(pin!(sent)).await {
        Ok(answered) => answered,
        Err(failure) => return Err(fail(*exchange, failure)),
    };
    let over_http2 = lease.application() == Application::Http2;
    let accepted = if over_http2 {
        StatusCode::OK
    } else {
        StatusCode::SWITCHING_PROTOCOLS
    };
    if response.status() != accepted {
        // Refused: an ordinary answer. The connection of an HTTP/1 client goes on as HTTP.
        return match refusal(session, &response) {
            Ok(()) => pass_back(exchange, response, lease).await,
            Err(failure) => Err(fail(*exchange, failure)),
        };
    }
    if !over_http2 && !is_proven(response.headers(), &key) {
        // Said by who did not understand the handshake: what the program sends next may be read as a request.
        let failure = Failure::new(Side::Upstream, DenyReason::OriginProtocol);
        return Err(fail(*exchange, failure));
    }
    let up = match response.body_mut().take_tunnel() {
        Some(duplex) => Either::Right(duplex),
        None => match hyper::upgrade::on(&mut response).await {
            Ok(up) => Either::Left(TokioIo::new(up)),
            Err(error) => {
                let failure = Failure::caused(Side::Upstream, DenyReason::OriginProtocol, error);
                return Err(fail(*exchange, failure));
            }
        },
    };
    if over_http2 {
        // RFC 8441 §5: HTTP/2 accepts without the proof that HTTP/1.1 wants.
        let headers = response.headers_mut();
        headers.remove(SEC_WEBSOCKET_ACCEPT);
        if let Ok(proof) = HeaderValue::try_from(proof(&key)) {
            headers.insert(SEC_WEBSOCKET_ACCEPT, proof);
        }
    }
    Ok(accept(
        session,
        (exchange, plan),
        (down, up),
        response,
        &lease,
    ))
}

/// An answer that accepts nothing and can be passed on as what it is.
fn refusal(session: &Session, response: &Response<Incoming>) -> Result<(), Failure> {
    if session.application() == Application::Http2 && response.status().is_success() {
        // RFC 9110 §9.3.6: as the answer to a CONNECT it would accept.
        return Err(Failure::new(Side::Upstream, DenyReason::OriginProtocol));
    }
    answer(response)
}

/// The one field of this name.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    let mut values = headers.get_all(name).iter();
    values.next().filter(|_| values.next().is_none())
}

/// RFC 6455 §4.1: whether an answer over HTTP/1.1 accepts this very handshake.
fn is_proven(headers: &HeaderMap, key: &HeaderValue) -> bool {
    let accepted = only(headers, &SEC_WEBSOCKET_ACCEPT);
    names_websocket(headers)
        && accepted.is_some_and(|accepted| accepted.as_bytes() == proof(key).as_bytes())
}

/// The handshake's key, where it is one of the only version that there is (RFC 6455 §4.1): the program's, or, as
/// HTTP/2 has none (RFC 8441 §5), one of ours.
fn key<B>(request: &Request<B>, extended: bool) -> Result<HeaderValue, Failure> {
    if !extended {
        let malformed = || Failure::new(Side::Downstream, DenyReason::MalformedRequest);
        let headers = request.headers();
        let version = only(headers, &SEC_WEBSOCKET_VERSION).ok_or_else(malformed)?;
        let key = only(headers, &SEC_WEBSOCKET_KEY).ok_or_else(malformed)?;
        let sixteen = STANDARD.decode(key).is_ok_and(|nonce| nonce.len() == 16);
        return match version.as_bytes() == b"13" && sixteen {
            true => Ok(key.clone()),
            false => Err(malformed()),
        };
    }
    let mut nonce = [0; 16];
    rand::fill(&mut nonce).map_err(|_| Failure::new(Side::Internal, DenyReason::Internal))?;
    HeaderValue::try_from(STANDARD.encode(nonce))
        .map_err(|error| Failure::caused(Side::Internal, DenyReason::Internal, error))
}

/// RFC 6455 §4.2.2: what shows that the handshake was understood.
pub(crate) fn proof(key: &HeaderValue) -> String {
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    STANDARD.encode(hash.finish())
}

/// The request as an HTTP/1.1 upgrade, or as an extended CONNECT.
pub(super) fn shape<B>(request: &mut Request<B>, application: Application, key: &HeaderValue) {
    let headers = request.headers_mut();
    headers.remove(CONTENT_LENGTH);
    match application {
        Application::Http1 => {
            headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(SEC_WEBSOCKET_KEY, key.clone());
            *request.method_mut() = Method::GET;
            request.extensions_mut().remove::<Protocol>();
        }
        Application::Http2 => {
            headers.remove(CONNECTION);
            headers.remove(UPGRADE);
            headers.remove(SEC_WEBSOCKET_KEY);
            *request.method_mut() = Method::CONNECT;
            let websocket = Protocol::from_static("websocket");
            request.extensions_mut().insert(websocket);
        }
    }
}

/// The origin accepted: so does our answer, in the form that the client asked in.
fn accept(
    session: &Arc<Session>,
    (mut exchange, plan): (Box<Exchange>, Option<BodyPlan>),
    (down, up): (Accepting, Octets),
    response: Response<Incoming>,
    lease: &Lease,
) -> Response<Download> {
    let (mut parts, _) = response.into_parts();
    headers::incoming(&mut parts.headers);
    parts.headers.remove(CONTENT_LENGTH);
    parts.extensions.clear();
    if let Some(returning) = exchange.returning() {
        returning.fields(&mut parts.headers);
    }
    if plan.is_some() {
        without_extensions(&mut parts.headers);
    }
    parts.version = Version::HTTP_11;
    exchange.upgraded(StatusCode::SWITCHING_PROTOCOLS.as_u16(), lease);
    let own = matches!(up, Either::Left(_));
    let websocket = Box::new(WebSocket {
        _place: own.then(|| session.caller().subject().places().keep()),
        down,
        up,
        exchange,
        session: Arc::clone(session),
        plan,
    });
    match session.application() {
        Application::Http1 => {
            parts.status = StatusCode::SWITCHING_PROTOCOLS;
            parts
                .headers
                .insert(CONNECTION, HeaderValue::from_static("Upgrade"));
            parts
                .headers
                .insert(UPGRADE, HeaderValue::from_static("websocket"));
            session.set_tunnel(Tunnel::WebSocket(websocket));
        }
        Application::Http2 => {
            parts.status = StatusCode::OK;
            parts.headers.remove(SEC_WEBSOCKET_ACCEPT);
            drop(session.worker().tasks.spawn(websocket.run()));
        }
    }
    let mut accepted = Response::from_parts(parts, Download::Told(None));
    accepted.extensions_mut().insert(Accepted);
    accepted
}

impl WebSocket {
    /// Passes bytes until both sides are done, the policy changes, or nothing moves for long.
    pub async fn run(mut self: Box<Self>) {
        let caller: &Arc<Caller> = self.session.caller();
        let deadlines = caller.worker.deadlines().clone();
        let mut down = match tokio::time::timeout(deadlines.detect, self.down.open()).await {
            Ok(Some(down)) => down,
            // It went away before it heard that it may begin.
            Ok(None) => return self.exchange.spliced(0, 0, None),
            Err(_) => {
                let late = Some(DenyReason::RequestTimeout);
                return self.exchange.spliced(0, 0, late);
            }
        };
        let limits = SpliceLimits {
            idle: deadlines.opaque_idle,
            subject: Arc::clone(caller.subject()),
        };
        let plan = self.plan.filter(|plan| !plan.is_idle());
        let returning = self.exchange.returning().cloned();
        let revoked = self.exchange.revoked();
        let live = Live::new(self.exchange.asked());
        let cut = async {
            tokio::select! {
                reason = revoked => reason,
                reason = caller.guard.revoked() => reason,
                reason = caller.drained() => reason,
            }
        };
        let mut up = self.up;
        if plan.is_none() && returning.is_none() {
            let spliced = splice_until(Bytes::new(), (down, up), &limits, cut).await;
            let end = spliced.end.reason();
            self.exchange.spliced(spliced.out, spliced.back, end);
            return;
        }
        let memory = plan.as_ref().map(BodyPlan::memory);
        let memory = memory.or_else(|| returning.as_deref().map(Returning::memory));
        let memory = memory.map_or_else(Memory::of_sandbox, Arc::clone);
        let outgoing = messages::outgoing(plan, live.clone());
        let mut down = RewrittenStream::new(&mut down, outgoing).counted(&memory);
        if let Some(uses) = self.exchange.uses() {
            down = down.telling(Box::new(move || uses.telling()));
        }
        if let Some(live) = live {
            down = down.when(Box::new(move || live.readied()));
        }
        let incoming = messages::incoming(returning);
        let mut up = RewrittenStream::new(&mut up, incoming).counted(&memory);
        let spliced = splice_until(Bytes::new(), (&mut down, &mut up), &limits, cut).await;
        let stopped =
            |side: Sender, why: Option<FrameError>| why.map(|why| messages::reason(side, why));
        messages::close(&mut down, &mut up, &deadlines).await;
        let end = stopped(Sender::Client, down.stopped())
            .or_else(|| stopped(Sender::Server, up.stopped()))
            .or_else(|| spliced.end.reason());
        self.exchange.spliced(spliced.out, spliced.back, end);
    }
}
