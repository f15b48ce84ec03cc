//! A request's way, on one page.
//!
//! ```text
//! accept      whose connection is it                         accept
//! detect      TLS, HTTP or neither; which name               connection, detect, client_hello
//! agree       one name: destination, SNI, Host, :authority   authority, http::target
//! connect     decide and record the connection               enforce::connect
//! terminate   TLS with a minted leaf                         tls::downstream
//! request     decide, or ask a person; put secrets in;       http::admit, enforce::{request, hold},
//!             record the request                             credential::inject
//! forward     resolve, vet, dial, verify, send               http::forward, upstream
//! answer      stream back, record the outcome                http::body, http::exchange
//! ```

use std::sync::{Arc, LazyLock, OnceLock};

use gig_audit::Event;
use gig_policy::{AppProtocol, Denial, DenyReason, RequestIntent, RequestPermit};
use http::{Method, Request, Response, uri::PathAndQuery};
use http_body::Body;

use crate::{
    authority::{
        Authority, Destination,
        names::{Names, Place},
    },
    credential::{
        inject::{self, Carried, Head, Stopped},
        tally::Misuse,
    },
    enforce::{
        astray::Why,
        connect::denial,
        request::{Asked, charge_head, record_request, refuse_request},
        secret::raise_alarm,
    },
    http::{
        admit::{Unadmitted, admit},
        body::Download,
        exchange::Exchange,
        explicit, forward, headers,
        heads::Framing,
        incoming::Incoming,
        meant::{Decided, is_meant},
        refuse::Refusal,
        session::{Aim, Session},
        target::{self, TargetError},
        upgrade,
    },
};

/// Takes one request from its header section to the answer's. Dropping the future abandons the
/// request; its outcome is recorded all the same.
///
/// # Errors
/// The refusal to tell; recorded.
pub async fn exchange(
    session: Arc<Session>,
    mut request: Request<Incoming>,
) -> Result<Response<Download>, Box<Refusal>> {
    let session = &session;
    // Which request is this?
    if request.method() == Method::CONNECT && !upgrade::is_extended_connect(&request) {
        return Box::pin(explicit::connect(session, request)).await;
    }
    let path = target::path(request.uri());
    let mut asked = asked(session, &request);
    // To a CONNECT, gRPC's way to tell a refusal (200) would accept.
    let grpc = request.method() != Method::CONNECT && headers::is_grpc(request.headers());
    let refused = Refuser { session, grpc };

    // Does it have one meaning? Agree on one name, one path, one length.
    let length_beside_coding = request.extensions().get() == Some(&Framing::Length);
    if length_beside_coding || headers::framing_is_ambiguous(request.headers()) {
        let why = "its length is told in two ways, or in one that is not known".to_owned();
        return refused.malformed(asked, why).await;
    }
    let (authority, destination) = match agree(session, &request, asked.protocol) {
        Ok(agreed) => agreed,
        Err(unagreed) => {
            asked.path = match path {
                Ok((path, _)) => path.into(),
                Err(_) => target::shown(request.uri()).into(),
            };
            return refused.disagreeing(asked, unagreed).await;
        }
    };
    (asked.host, asked.port) = (destination.host.clone(), destination.port);
    let mut target = match path {
        Ok((path, target)) => {
            asked.path = path.into();
            target
        }
        Err(error) => {
            asked.path = target::shown(request.uri()).into();
            return refused.malformed(asked, error.to_string()).await;
        }
    };

    // May the connection be made, may the request be sent? Recorded before anything leaves.
    let announced = headers::content_length(request.headers());
    let astray = |asked: &_| astray(asked, &mut request, &mut target);
    let admitted = admit(session, &mut asked, &destination, announced, astray).await;
    let (route, mut permit) = match admitted {
        Ok(admitted) => admitted,
        Err(Unadmitted::Denied(denial)) => return refused.recording(asked, denial).await,
        Err(Unadmitted::Stopped(stopped)) => return refused.stopping(asked, stopped).await,
    };
    if let Err(denial) = meant(&request, &asked, &mut permit) {
        return refused.recording(asked, denial).await;
    }
    if let Err(denial) = charge_head(&asked, headers::head_octets(&request)) {
        return refused.recording(asked, denial).await;
    }
    let carried = match carry(session, &permit, &mut request, &mut target).await {
        Ok(carried) => carried,
        Err(stopped) => return refused.stopping(asked, stopped).await,
    };
    let ledger = session.worker().ledger();
    let used = carried.as_ref().map(|carried| carried.used());
    let used = used.unwrap_or_default();
    let granted = match record_request(ledger, &asked, &permit, used).await {
        Ok(granted) => granted,
        Err(denial) => return Err(refused.told(asked, denial)),
    };

    // Send it and stream the answer.
    let exchange = Exchange::new(session, &route, asked, granted);
    let outgoing = forward::Outgoing {
        request,
        target,
        port_written: authority.port,
        route,
        carried,
    };
    let answer = if upgrade::wanted(&outgoing.request) {
        Box::pin(upgrade::forward(permit, session, exchange, outgoing)).await
    } else {
        forward::forward(permit, session, exchange, outgoing).await
    };
    answer.map_err(|(asked, reason)| refused.failed(asked, reason))
}

/// Whether it tells its origin what it was decided as.
fn meant(
    request: &Request<Incoming>,
    asked: &Asked,
    permit: &mut RequestPermit,
) -> Result<(), Box<Denial>> {
    let decided = Decided {
        policy: &asked.subject.policy(),
        host: &asked.host,
        port: asked.port,
        intent: RequestIntent {
            protocol: asked.protocol,
            method: &asked.method,
            path: &asked.path,
        },
    };
    is_meant(request.headers(), decided, permit)
}

/// Puts the secrets in that the permit names, where gig keeps any.
async fn carry(
    session: &Session,
    permit: &RequestPermit,
    request: &mut Request<Incoming>,
    target: &mut PathAndQuery,
) -> Result<Option<Box<Carried>>, Box<Stopped>> {
    let Some(wallet) = session.caller().subject().wallet() else {
        return Ok(None);
    };
    let method = request.method().clone();
    let head = head(&method, request, target);
    // Boxed, so that a request without secrets holds no room for them.
    let carried = Box::pin(inject::carry(
        wallet,
        (permit.secrets(), permit.bound()),
        head,
    ))
    .await;
    carried
        .map(|carried| Some(Box::new(carried)))
        .map_err(Box::new)
}

/// What a request holds that is denied, and that no rule for it alone would let go: a secret, unless it is bound to
/// that host by an option and only the rule is lacking.
fn astray(
    asked: &Asked,
    request: &mut Request<Incoming>,
    target: &mut PathAndQuery,
) -> Option<Box<Stopped>> {
    let wallet = asked.subject.wallet()?;
    let method = request.method().clone();
    let mut misuses = inject::carried_astray(wallet, &head(&method, request, target))?;
    let policy = asked.subject.policy();
    let belongs = |misuse: &Misuse| {
        let mut bindings = policy.bindings().iter();
        misuse.own && bindings.any(|bound| bound.name() == &misuse.name && bound.names(&asked.host))
    };
    misuses.retain(|misuse| !belongs(misuse));
    (!misuses.is_empty()).then(|| Box::new(Stopped::Misuse(misuses)))
}

/// The parts of a request that may hold secrets.
fn head<'a>(
    method: &'a Method,
    request: &'a mut Request<Incoming>,
    target: &'a mut PathAndQuery,
) -> Head<'a> {
    Head {
        method,
        // The messages of a WebSocket are planned for like a body.
        has_body: !request.body().is_end_stream() || upgrade::wanted(request),
        written: request.uri().path_and_query().cloned(),
        headers: request.headers_mut(),
        target,
    }
}

/// The words for the records, as far as they are known before anything is agreed.
fn asked(session: &Session, request: &Request<Incoming>) -> Asked {
    let caller = session.caller();
    let nominal = session.nominal();
    Asked {
        subject: Arc::clone(caller.subject()),
        conn: caller.guard.id(),
        src: caller.src,
        id: session.worker().shared.ids.next(),
        host: nominal.host.clone(),
        host_word: Arc::clone(&UNKNOWN),
        port: nominal.port,
        protocol: explicit::protocol(session, request),
        method: forward::method_word(upgrade::effective_method(request)),
        path: Arc::clone(&UNKNOWN),
        tls: session.tls().cloned(),
        changes: caller.subject().changes(),
        heard: None,
        why: None,
        told: OnceLock::new(),
    }
}

/// One name from every place that names one.
fn agree(
    session: &Session,
    request: &Request<Incoming>,
    protocol: AppProtocol,
) -> Result<(Authority, Destination), Box<Unagreed>> {
    let form = "the form of its target is not the one of its connection";
    let said = |reason| Unagreed::bare(reason, form.to_owned());
    explicit::check_form(session, request).map_err(said)?;
    let authority = target::authority(request.uri(), request.headers(), session.reader());
    let authority = authority.or_else(|error| explicit::by_target(session, error));
    let authority = authority.map_err(|error| Unagreed::by_target(session, protocol, error))?;
    match session.destination(&authority, protocol) {
        Ok(destination) => Ok((authority, destination)),
        Err(disagreement) => {
            let at = session.nominal();
            let place = match session.tls().and_then(|tls| tls.sni.as_ref()) {
                Some(_) => Place::Sni,
                None => Place::Destination,
            };
            let said = match request.uri().authority() {
                Some(_) => Place::Target,
                None => Place::Host,
            };
            let named = (place, at.host.clone(), at.port);
            Err(Box::new(Unagreed {
                reason: disagreement.reason(),
                why: String::new(),
                names: Some(Names::of_request(named, (said, authority))),
                at: None,
            }))
        }
    }
}

/// A request that does not name one host.
struct Unagreed {
    reason: DenyReason,
    /// What is wrong with it, where it is malformed.
    why: String,
    names: Option<Box<Names>>,
    /// Where its target would go, where the connection goes nowhere by itself.
    at: Option<Destination>,
}

impl Unagreed {
    fn bare(reason: DenyReason, why: String) -> Box<Self> {
        Box::new(Self {
            reason,
            why,
            names: None,
            at: None,
        })
    }

    fn by_target(session: &Session, protocol: AppProtocol, error: TargetError) -> Box<Self> {
        let why = error.to_string();
        let TargetError::Differ(names) = error else {
            return Self::bare(error.into(), why);
        };
        let at = match session.aim() {
            Aim::Explicit(_) => session.destination(&names.first.1, protocol).ok(),
            Aim::Fixed(_) | Aim::Denied(..) | Aim::ByHost(_) => None,
        };
        Box::new(Self {
            reason: DenyReason::NamesDisagree,
            why,
            names: Some(names),
            at,
        })
    }
}

/// A word that is not known yet.
static UNKNOWN: LazyLock<Arc<str>> = LazyLock::new(|| "".into());

/// Makes refusals, recorded.
struct Refuser<'a> {
    session: &'a Session,
    grpc: bool,
}

impl Refuser<'_> {
    /// For a reason that no rule gave.
    async fn because<T>(&self, asked: Asked, reason: DenyReason) -> Result<T, Box<Refusal>> {
        let denial = denial(&asked.subject.policy(), reason, asked.told_why());
        self.recording(asked, denial).await
    }

    /// For what no rule was asked about; says what is wrong with it.
    async fn malformed<T>(&self, asked: Asked, why: String) -> Result<T, Box<Refusal>> {
        let denial = denial(&asked.subject.policy(), DenyReason::MalformedRequest, why);
        self.recording(asked, denial).await
    }

    /// For what does not name one host; says which it names.
    async fn disagreeing<T>(
        &self,
        mut asked: Asked,
        unagreed: Box<Unagreed>,
    ) -> Result<T, Box<Refusal>> {
        if unagreed.reason == DenyReason::MalformedRequest {
            return self.malformed(asked, unagreed.why).await;
        }
        if let Some(at) = unagreed.at {
            (asked.host, asked.port) = (at.host, at.port);
        }
        let why = unagreed.names;
        asked.why = why.map(|names| {
            let by = (self.session.worker().ledger(), &*asked.subject);
            let alarm = || asked.entry(Event::SecretMisuse);
            Box::new(Why::disagreeing(by, &names, alarm))
        });
        self.because(asked, unagreed.reason).await
    }

    /// For a decision that is not recorded yet.
    async fn recording<T>(&self, mut asked: Asked, denial: Box<Denial>) -> Result<T, Box<Refusal>> {
        asked.name_host();
        let ledger = self.session.worker().ledger();
        let denial = refuse_request(ledger, &asked, denial).await;
        Err(self.told(asked, denial))
    }

    /// For a request whose secrets must not, or cannot, go.
    async fn stopping<T>(
        &self,
        mut asked: Asked,
        stopped: Box<Stopped>,
    ) -> Result<T, Box<Refusal>> {
        asked.name_host();
        let reason = match &*stopped {
            Stopped::Misuse(misuses) => {
                let ledger = self.session.worker().ledger();
                for misuse in misuses {
                    raise_alarm(ledger, asked.alarm(misuse), misuse);
                }
                // What is the program's own business first: it can do something about it.
                let first = misuses.iter().find(|misuse| misuse.own);
                let first = first.or_else(|| misuses.first());
                asked.why = first.map(|misuse| Box::new(Why::misused(&asked, misuse)));
                DenyReason::SecretMisuse
            }
            Stopped::Unavailable(why) => {
                asked.why = Some(Box::new(Why::unavailable(why)));
                tracing::warn!(req.id = %asked.id, %why, "a secret cannot be had");
                DenyReason::SecretUnavailable
            }
            Stopped::Unplaceable(unplaced) => {
                asked.why = Some(Box::new(Why::unplaced(unplaced)));
                tracing::warn!(
                    req.id = %asked.id, secret = %unplaced.name, place = %unplaced.place,
                    "a secret's value cannot stand where its sentinel stands"
                );
                DenyReason::SecretUnplaceable
            }
        };
        self.because(asked, reason).await
    }

    /// For a decision that is recorded.
    fn told(&self, asked: Asked, denial: Box<Denial>) -> Box<Refusal> {
        if matches!(self.session.aim(), Aim::Denied(..)) {
            self.session.set_told();
        }
        tracing::info!(
            req.id = %asked.id, deny.reason = %denial.reason, server.address = %asked.shown_host(),
            server.port = %asked.port, http.request.method = %asked.shown_method(), "denied"
        );
        Box::new(Refusal {
            denial,
            asked,
            grpc: self.grpc,
        })
    }

    /// For a failure after the decision; its outcome is recorded.
    fn failed(&self, asked: Asked, reason: DenyReason) -> Box<Refusal> {
        let denial = denial(&asked.subject.policy(), reason, asked.told_why());
        Box::new(Refusal {
            denial,
            asked,
            grpc: self.grpc,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made<A, B, R>(_: impl FnOnce(A, B) -> R) -> usize {
        size_of::<R>()
    }

    #[test]
    fn a_running_request_takes_little_room() {
        let size = made(exchange);
        assert!(size <= 5 * 1024, "{size} octets");
    }
}
