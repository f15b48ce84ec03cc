//! Sends a permitted request to its origin and hands the answer back.
//!
//! The [`RequestPermit`] is consumed here. A request that was not sent because a kept connection had
//! gone is sent on another; one that may have been seen by the origin is repeated once at most, and
//! only if repeating it changes nothing (RFC 9110 §9.2.2) or the origin says that it did not look at it
//! (RFC 9113 §8.7). Of a body that streams its beginning is kept for that. Over HTTP/1.1 a body that its origin might
//! leave unread is the last thing on its connection: what it holds would be the next request there.

use std::{future::Future, pin::pin, sync::Arc};

use gig_audit::turn::others_first;
use gig_policy::{AppProtocol, DenyReason, Port, RequestPermit};
use http::{
    HeaderValue, Method, Request, Response, StatusCode, Uri, Version,
    header::{CONNECTION, COOKIE, EXPECT, HOST},
    uri::{Authority, PathAndQuery, Scheme},
};
use http_body::Body;
use hyper::ext::ReasonPhrase;

use super::{
    body::{Download, Passing, Upload},
    captured::pass_captured,
    digests,
    exchange::Exchange,
    finishing::{Finishing, Unsent},
    headers,
    incoming::Incoming,
    interim::{Gate, Interims},
    live::Live,
    scrubbed::pass_scrubbed,
    session::{Route, Session},
    standing::Standing,
    upgrade,
};
use crate::{
    credential::{
        body::BodyPlan,
        capture::Capture,
        inject::{Carried, late::Late},
        scrub::answer::Returning,
        sign::certificate::ClientIdentity,
    },
    enforce::request::Asked,
    failure::{Failure, Side},
    tls::downstream::Application,
    upstream::{
        origin::{Need, Wanted, lease},
        pool::{Fate, Lease},
    },
};

/// A request with what was agreed and decided about it.
#[derive(Debug)]
pub struct Outgoing {
    /// As it came.
    pub request: Request<Incoming>,
    /// The decided path with the query.
    pub target: PathAndQuery,
    /// The port, where the program wrote one.
    pub port_written: Option<Port>,
    /// Where it goes.
    pub route: Arc<Route>,
    /// What it does with secrets, where gig keeps any.
    pub carried: Option<Box<Carried>>,
}

/// A request readied for any origin connection; shaped for the one it gets.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) request: Request<Upload>,
    standing: Arc<Standing>,
    target: PathAndQuery,
    authority: HeaderValue,
    protocol: AppProtocol,
    secrets: Option<Box<Finishing>>,
    /// What its connection shows the origin.
    identity: Option<ClientIdentity>,
    late: Option<Late>,
    /// The key of a WebSocket handshake.
    websocket: Option<HeaderValue>,
    /// Over HTTP/1.1 nothing goes behind it on its connection.
    last: bool,
}

/// Forwards, and answers with the origin's header section and a body that streams.
///
/// Not an `async fn`, and what is beneath it takes the request by reference: each would keep room for
/// a request that it handed on long ago, which every request then moves, and pushes out of the cache.
///
/// # Errors
/// What was asked and why there is no answer; recorded.
pub fn forward(
    permit: RequestPermit,
    session: &Arc<Session>,
    mut exchange: Box<Exchange>,
    outgoing: Outgoing,
) -> impl Future<Output = Result<Response<Download>, (Asked, DenyReason)>> + Send {
    let route = Arc::clone(&outgoing.route);
    let (mut ready, interims) = Ready::new(session, &mut exchange, outgoing);
    let need = match session.application() {
        Application::Http1 => Need::Http1,
        Application::Http2 => Need::Http2,
    };
    async move {
        let ready = &mut ready;
        let sent = pin!(send(permit, session, &route, need, ready, &interims));
        let outcome = exchange.unless_revoked(sent).await;
        // Answers that came with this one wake their programs together: one wake-up costs as much as a
        // system call, and many at once cost less than as many apart.
        others_first().await;
        match outcome.and_then(|(response, lease)| answer(&response).map(|()| (response, lease))) {
            Ok((response, lease)) => pass_back(exchange, response, lease).await,
            Err(failure) => Err(fail(*exchange, failure)),
        }
    }
}

impl Ready {
    pub(super) fn new(
        session: &Session,
        exchange: &mut Exchange,
        outgoing: Outgoing,
    ) -> (Self, Interims) {
        let (mut parts, incoming) = outgoing.request.into_parts();
        // What it says of its trailer section ends here.
        let digested = outgoing.carried.is_some() && digests::announced(&parts.headers);
        headers::outgoing(&mut parts.headers);
        let expects = parts
            .headers
            .get(EXPECT)
            .is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"100-continue"));
        let (gate, opening) = if expects && !incoming.is_end_stream() {
            let (gate, opening) = Gate::new();
            (Some(gate), Some(opening))
        } else {
            (None, None)
        };
        let subject = session.caller().subject();
        let reply = incoming.reply().cloned();
        let (mut identity, mut late, mut places) = (None, None, false);
        let (credentials, secrets) = match outgoing.carried {
            Some(mut carried) => {
                (identity, late) = (carried.identity.take(), carried.late.take());
                places = carried.body.as_ref().is_some_and(BodyPlan::may_place);
                exchange.carrying(Arc::clone(&carried.tally));
                if let Some(capture) = carried.capture.take() {
                    Capture::ready(&parts.method, &mut parts.headers);
                    exchange.capturing(capture);
                }
                if let Some(scrub) = carried.scrub.take() {
                    let headers = &mut parts.headers;
                    let newest = Live::new(exchange.asked()).map(Live::newest);
                    let looked_for = (scrub, newest);
                    let returning = Returning::new(looked_for, &carried, &parts.method, headers);
                    exchange.watching(Arc::new(returning));
                }
                let (credentials, finishing) = Finishing::new(*carried, digested);
                (credentials, Some(Box::new(finishing)))
            }
            None => (None, None),
        };
        let passing = Passing {
            subject: Arc::clone(subject),
            activity: Arc::clone(session.activity()),
            standing: Arc::clone(exchange.standing()),
            uses: places.then(|| exchange.uses()).flatten(),
        };
        let (upload, progress) = Upload::new(incoming, passing, opening, credentials);
        exchange.uploading(progress);
        let mut request = Request::new(upload);
        *request.method_mut() = parts.method;
        *request.headers_mut() = parts.headers;
        let returning = exchange.returning();
        let mut interims = Interims::new(reply.as_ref(), session.interjections(), gate, returning);
        if exchange.capture().is_some() {
            interims = interims.leave_only();
        }
        let ready = Self {
            request,
            standing: Arc::clone(exchange.standing()),
            target: outgoing.target,
            authority: outgoing.route.authority(outgoing.port_written),
            protocol: outgoing.route.protocol,
            secrets,
            identity,
            late,
            websocket: None,
            last: false,
        };
        (ready, interims)
    }

    /// Does what can only be done when all else is: reads short bodies whole, so that their length is
    /// known, and signs. Boxed, since most requests carry no secret and should hold no room for it.
    async fn finish(&mut self, interims: &Interims) -> Result<(), Failure> {
        let Some(finishing) = self.secrets.take() else {
            return Ok(());
        };
        let mut unsent = Unsent {
            request: std::mem::take(&mut self.request),
            target: &mut self.target,
            authority: &self.authority,
            protocol: self.protocol,
        };
        Box::pin(finishing.finish(&mut unsent, interims)).await?;
        self.request = unsent.request;
        Ok(())
    }

    /// Has it ask for a WebSocket, with `key` where one is needed.
    pub(super) fn for_websocket(&mut self, key: HeaderValue) {
        self.websocket = Some(key);
    }

    /// Whether its origin is told to end the connection behind it (RFC 9112 §9.6). One that answers without reading a
    /// body takes what that holds for the next request, which nobody decided: many do where content means nothing
    /// (RFC 9110 §9.3.1), and where a rule takes not every method and path it would be a way around it.
    fn is_last(&self, narrow: bool) -> bool {
        let means_nothing = matches!(
            *self.request.method(),
            Method::GET | Method::HEAD | Method::DELETE | Method::OPTIONS | Method::TRACE
        );
        !self.is_bodiless() && (narrow || means_nothing)
    }

    /// It may have waited: for its body, or for a connection.
    fn look_again(&self) -> Result<(), Failure> {
        let looked = self.late.as_ref().map_or(Ok(()), Late::look);
        let reason = DenyReason::SecretUnavailable;
        looked.map_err(|error| Failure::caused(Side::Internal, reason, error))
    }

    /// The form that `application` wants: origin-form with Host, or pseudo-header fields.
    fn shape(&mut self, application: Application) {
        let request = &mut self.request;
        if let Some(key) = &self.websocket {
            upgrade::shape(request, application, key);
        }
        match application {
            Application::Http1 => {
                *request.version_mut() = Version::HTTP_11;
                *request.uri_mut() = Uri::from(self.target.clone());
                let mut headers = std::mem::take(request.headers_mut());
                headers.insert(HOST, self.authority.clone());
                join_cookies(&mut headers);
                if self.last {
                    headers.insert(CONNECTION, HeaderValue::from_static("close"));
                }
                request.body_mut().over_http1(&mut headers);
                *request.headers_mut() = headers;
            }
            Application::Http2 => {
                *request.version_mut() = Version::HTTP_2;
                let scheme = if self.protocol == AppProtocol::Https {
                    Scheme::HTTPS
                } else {
                    Scheme::HTTP
                };
                let mut parts = http::uri::Parts::default();
                parts.scheme = Some(scheme);
                parts.authority = Authority::try_from(self.authority.as_bytes()).ok();
                parts.path_and_query = Some(self.target.clone());
                *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
                request.headers_mut().remove(HOST);
                if self.last {
                    request.headers_mut().remove(CONNECTION);
                }
                request.body_mut().over_http2();
            }
        }
    }

    /// Whether repeating changes nothing where it may have gone.
    fn is_idempotent(&self) -> bool {
        self.request.method().is_idempotent()
    }

    /// Whether it can be sent once more: it has no body, or one that is here whole. Others come from the
    /// program as they go, and only their beginning is kept.
    fn is_repeatable(&self) -> bool {
        !matches!(self.request.body(), Upload::Streaming(_))
    }

    /// Whether nothing of a body goes with it.
    fn is_bodiless(&self) -> bool {
        matches!(self.request.body(), Upload::Empty)
    }

    /// A copy to repeat; a body is shared.
    fn copy(&self) -> Request<Upload> {
        let request = &self.request;
        let mut copy = Request::new(match request.body() {
            Upload::Whole(gathered) => Upload::Whole(gathered.clone()),
            Upload::Empty | Upload::Streaming(_) => Upload::Empty,
        });
        *copy.method_mut() = request.method().clone();
        *copy.headers_mut() = request.headers().clone();
        copy
    }
}

/// RFC 9113 §8.2.3: cookie crumbs are one field for who speaks HTTP/1.
fn join_cookies(headers: &mut http::HeaderMap) {
    let mut crumbs = headers.get_all(COOKIE).iter();
    if crumbs.next().is_none() || crumbs.next().is_none() {
        return;
    }
    let joined = headers
        .get_all(COOKIE)
        .iter()
        .map(HeaderValue::as_bytes)
        .collect::<Vec<_>>()
        .join(&b"; "[..]);
    if let Ok(joined) = HeaderValue::from_bytes(&joined) {
        headers.insert(COOKIE, joined);
    }
}

/// Finishes the request and finds connections until one takes it.
pub(super) async fn send(
    permit: RequestPermit,
    session: &Session,
    route: &Route,
    need: Need,
    ready: &mut Ready,
    interims: &Interims,
) -> Result<(Response<Incoming>, Lease), Failure> {
    ready.finish(interims).await?;
    ready.last = need != Need::Upgrade && ready.is_last(permit.decided_on().either);
    let worker = session.worker();
    let identity = ready.identity.take();
    let wanted = Wanted {
        subject: session.caller().subject(),
        permit: &route.permit,
        protocol: route.protocol,
        need,
        identity: identity.as_ref(),
    };
    let mut repeated = false;
    loop {
        let mut lease = lease(worker, wanted).await?;
        ready
            .standing
            .reached(lease.reached().private())
            .map_err(|reason| Failure::new(Side::Internal, reason))?;
        // Over HTTP/2 an origin may say also on a new connection that it did not look at a request.
        let may_refuse = lease.application() == Application::Http2;
        let repeatable = (lease.reused || may_refuse) && !repeated && ready.is_repeatable();
        let leaves = need != Need::Upgrade && lease.leaves_requests();
        let room = lease.kept().filter(|_| !repeated);
        let kept =
            need != Need::Upgrade && room.is_some_and(|room| ready.request.body_mut().keep(room));
        let copy = (repeatable && !leaves || kept).then(|| ready.copy());
        if need == Need::Upgrade && !lease.takes_websockets().await {
            // It speaks HTTP/2 alone, and without RFC 8441.
            return Err(Failure::new(Side::Upstream, DenyReason::OriginProtocol));
        }
        ready.look_again()?;
        ready.shape(lease.application());
        lease.last = ready.last;
        let (reused, harmless) = (lease.reused, ready.is_idempotent() && ready.is_bodiless());
        if need == Need::Http1 && ready.is_repeatable() {
            session.activity().hand();
        }
        let sending = lease.send(&mut ready.request, interims);
        let sent = if interims.is_gated() {
            Box::pin(interims.going_on_late(sending)).await
        } else {
            sending.await
        };
        match sent {
            Ok(response) => {
                // The permit was for this one request, which is now with the origin.
                drop(permit);
                return Ok((response, lease));
            }
            Err(unsent) if unsent.kept && reused => {}
            Err(unsent) if kept && unsent.fate == Fate::Unprocessed && !ready.is_repeatable() => {
                // What went of the body is at its beginning again.
                repeated = true;
                let body = std::mem::take(ready.request.body_mut());
                ready.request = copy.unwrap_or_default().map(|_| body);
            }
            Err(unsent)
                if (unsent.fate == Fate::Unprocessed
                    || unsent.fate == Fate::Unanswered && harmless && reused)
                    && repeatable
                    && (unsent.left || copy.is_some()) =>
            {
                repeated = true;
                if let Some(copy) = copy {
                    ready.request = copy;
                }
            }
            Err(unsent) => return Err(unsent.failure),
        }
    }
}

/// An answer that can be passed on.
pub(super) fn answer(response: &Response<Incoming>) -> Result<(), Failure> {
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        // Nobody asked to: what follows is not HTTP.
        return Err(Failure::new(Side::Upstream, DenyReason::OriginProtocol));
    }
    if headers::framing_is_ambiguous(response.headers()) {
        // RFC 9112 §6.1: where it ends depends on who reads it.
        return Err(Failure::new(Side::Upstream, DenyReason::OriginProtocol));
    }
    Ok(())
}

/// The answer as the sandbox gets it.
pub(super) async fn pass_back(
    mut exchange: Box<Exchange>,
    response: Response<Incoming>,
    lease: Lease,
) -> Result<Response<Download>, (Asked, DenyReason)> {
    let (mut parts, incoming) = response.into_parts();
    headers::incoming(&mut parts.headers);
    parts.version = Version::HTTP_11;
    parts.extensions.clear();
    if parts.status.canonical_reason().is_none() {
        // RFC 9112 §4: it may be empty; hyper writes `<none>` where it knows none.
        parts.extensions.insert(ReasonPhrase::from_static(b""));
    }
    let empty = incoming.is_end_stream();
    exchange.ended_with(&parts.headers);
    if let Some(capture) = exchange.capture().cloned() {
        let answer = Response::from_parts(parts, incoming);
        return Box::pin(pass_captured(exchange, answer, lease, capture)).await;
    }
    if let Some(returning) = exchange.returning().cloned() {
        let plan = match returning.answer(parts.status, &mut parts.headers, empty) {
            Ok(plan) => plan,
            Err(error) => {
                let reason = error.reason();
                returning.untold(&error);
                return Err(fail(
                    *exchange,
                    Failure::caused(Side::Upstream, reason, error),
                ));
            }
        };
        if let Some(plan) = plan {
            let answer = Response::from_parts(parts, incoming);
            // Boxed, so that an answer without secrets holds no room for it.
            return Box::pin(pass_scrubbed(exchange, answer, lease, (&returning, plan))).await;
        }
    }
    exchange.answered(parts.status.as_u16(), lease);
    if empty {
        exchange.finish();
    }
    Ok(Response::from_parts(
        parts,
        Download::Origin { incoming, exchange },
    ))
}

/// Records and tells why there is no answer.
pub(super) fn fail(mut exchange: Exchange, failure: Failure) -> (Asked, DenyReason) {
    let reason = exchange.ended_for().unwrap_or(failure.reason);
    let mut asked = exchange.asked().clone();
    asked.why = exchange.why(&failure, reason).map(Box::new);
    tracing::info!(
        req.id = %asked.id, server.address = %asked.shown_host(), server.port = %asked.port,
        error.type = %reason, side = failure.side.as_str(),
        cause = failure.causes().map(tracing::field::display), "no answer from the origin"
    );
    if let Some(alert) = failure.alert().and_then(|alert| alert.as_str()) {
        exchange.alerted(alert);
    }
    exchange.failed(reason.http_status(), reason, &failure);
    (asked, reason)
}

/// The shared text of a method.
#[must_use]
pub fn method_word(method: &Method) -> Arc<str> {
    thread_local! {
        static WORDS: [(Method, Arc<str>); 7] = [
            Method::GET, Method::POST, Method::HEAD, Method::PUT,
            Method::DELETE, Method::PATCH, Method::OPTIONS,
        ]
        .map(|method| (method.clone(), method.as_str().into()));
    }
    WORDS.with(|words| {
        words
            .iter()
            .find(|(known, _)| known == method)
            .map_or_else(|| method.as_str().into(), |(_, word)| Arc::clone(word))
    })
}
