//! The explicit proxy: `CONNECT host:port`, and absolute-form requests for `http` and `https`.
//!
//! For programs that honour `HTTPS_PROXY`. It opens no other way out: what runs inside an accepted
//! tunnel is looked at like any transparent connection, with the CONNECT target as its destination.

use std::sync::{Arc, OnceLock};

use gig_audit::Event;
use gig_policy::{AppProtocol, ConnectPermit, DenyReason, Handling, Verdict};
use http::{Request, Response, uri::Scheme};
use hyper::upgrade::OnUpgrade;

use super::{
    body::Download,
    forward::method_word,
    incoming::Incoming,
    refuse::Refusal,
    session::{Aim, Session},
    target::TargetError,
    upgrade::Tunnel,
};
use crate::{
    authority::{
        Authority, Destination,
        names::{Names, Place},
    },
    enforce::{
        astray::Why,
        connect::{Outcome, denial, refuse_connect},
        hold::patience,
        request::{Asked, refuse_request},
    },
    upstream::dial::Dialed,
};

/// A tunnel that was accepted.
#[derive(Debug)]
pub struct Tunnelled {
    /// The sandbox's side, when hyper lets it go.
    pub down: OnUpgrade,
    /// Where it goes.
    pub destination: Destination,
    /// The origin's side, where bytes pass without a look.
    pub opaque: Option<(ConnectPermit, Dialed)>,
}

/// Whether the request's form fits the connection that it came by.
///
/// # Errors
/// The reason, when it does not.
pub fn check_form(session: &Session, request: &Request<Incoming>) -> Result<(), DenyReason> {
    let scheme = request.uri().scheme();
    if matches!(session.aim(), Aim::Explicit(_)) {
        return match scheme {
            Some(scheme) if *scheme == Scheme::HTTP || *scheme == Scheme::HTTPS => Ok(()),
            Some(_) => Err(DenyReason::ProtocolNotAllowed),
            None => Err(DenyReason::MalformedRequest),
        };
    }
    let own = match session.protocol() {
        AppProtocol::Https => Scheme::HTTPS,
        _ => Scheme::HTTP,
    };
    match scheme {
        Some(scheme) if *scheme != own => Err(DenyReason::MalformedRequest),
        _ => Ok(()),
    }
}

/// What a request is sent on by. Some clients know no CONNECT (axios among them) and ask the proxy for `https://…` itself: their way to it has no wire, and
/// to the origin gig opens and verifies TLS as for any request.
#[must_use]
pub fn protocol(session: &Session, request: &Request<Incoming>) -> AppProtocol {
    match (session.aim(), request.uri().scheme()) {
        (Aim::Explicit(_), Some(scheme)) if *scheme == Scheme::HTTPS => AppProtocol::Https,
        _ => session.protocol(),
    }
}

/// Answers `CONNECT`: decides, and leaves a tunnel to follow the answer.
///
/// # Errors
/// The refusal to tell; recorded.
pub async fn connect(
    session: &Arc<Session>,
    mut request: Request<Incoming>,
) -> Result<Response<Download>, Box<Refusal>> {
    let named = connect_authority(&request).or_else(|error| by_target(session, error));
    let named = named.and_then(|authority| match authority.port {
        Some(port) => Ok((authority, port)),
        None => Err(TargetError::Malformed),
    });
    let target = match &named {
        Ok((authority, port)) => Some((&authority.host, Some(*port))),
        Err(TargetError::Differ(names)) => Some((&names.first.1.host, names.first.1.port)),
        Err(TargetError::Missing | TargetError::Malformed) => None,
    };
    let destination = match (target, session.aim()) {
        (Some((host, Some(port))), Aim::Explicit(_)) => {
            session.caller().destination(host.clone(), port)
        }
        _ => session.nominal().clone(),
    };
    let mut asked = asked(session, &destination);
    let refused = match (named, session.aim()) {
        (Ok(_), Aim::Explicit(_)) => None,
        (Err(error), Aim::Explicit(_)) => {
            if let TargetError::Differ(names) = &error {
                let by = (session.worker().ledger(), &*asked.subject);
                let alarm = || asked.entry(Event::SecretMisuse);
                asked.why = Some(Box::new(Why::disagreeing(by, names, alarm)));
            }
            Some(DenyReason::from(error))
        }
        // A proxy behind an origin would hide where the request really goes.
        _ => Some(DenyReason::ProtocolNotAllowed),
    };
    if let Some(reason) = refused {
        let denial = denial(&asked.subject.policy(), reason, asked.told_why());
        let ledger = session.worker().ledger();
        let denial = refuse_request(ledger, &asked, denial).await;
        return Err(refusal(asked, denial));
    }
    let opaque = match decide(session, &destination).await {
        Ok(opaque) => opaque,
        Err(denial) => return Err(refusal(asked, denial)),
    };
    session.set_tunnel(Tunnel::Connect(Box::new(Tunnelled {
        down: hyper::upgrade::on(&mut request),
        destination,
        opaque,
    })));
    Ok(Response::new(Download::Told(None)))
}

/// A tunnel whose bytes pass without a look is dialled before it is accepted, so that a failure can
/// be told; one that is looked into is decided again by what it speaks.
async fn decide(
    session: &Session,
    destination: &Destination,
) -> Result<Option<(ConnectPermit, Dialed)>, Box<gig_policy::Denial>> {
    let caller = session.caller();
    let (host, port) = (&destination.host, destination.port);
    let policy = caller.subject().policy();
    let attempt = caller.attempt(host, port, None, None);
    match policy.decide_connect(host, port, None) {
        // What is asked for inside waits for a person, who is told of it and not of a tunnel.
        Verdict::Deny(denial) if patience(caller, host, &denial).is_some() => Ok(None),
        Verdict::Deny(denial) => {
            let mut recorded = refuse_connect(caller.ledger(), &attempt, denial.reason).await;
            if recorded.reason == denial.reason {
                recorded = denial;
            }
            Err(recorded)
        }
        Verdict::Allow(permit) if permit.handling() == Handling::Opaque => {
            let permit = caller.permit(&attempt).await?;
            match caller
                .worker
                .shared
                .dialer
                .dial(caller.subject(), &permit)
                .await
            {
                Ok(dialed) => Ok(Some((permit, dialed))),
                Err(error) => {
                    let outcome = Outcome::not_connected(&error);
                    caller.outcome(&attempt, outcome).await;
                    Err(caller.denial(error.reason))
                }
            }
        }
        Verdict::Allow(_) => Ok(None),
    }
}

/// What the target alone names, where the Host that differs names the proxy itself, as the Host of a request to a proxy
/// does in some clients (node's `http` by itself, tunnel-agent; RFC 9112, section 3.2.2).
///
/// # Errors
/// The same where that is not so.
pub(crate) fn by_target(session: &Session, error: TargetError) -> Result<Authority, TargetError> {
    let (own, aim) = (session.nominal(), session.aim());
    let is_own =
        |said: &Authority| said.host == own.host && said.port.is_none_or(|port| port == own.port);
    match error {
        TargetError::Differ(names) if matches!(aim, Aim::Explicit(_)) && is_own(&names.then.1) => {
            Ok(names.first.1)
        }
        error => Err(error),
    }
}

/// `host:port` of the request target, which has one; a Host header must not say otherwise.
fn connect_authority(request: &Request<Incoming>) -> Result<Authority, TargetError> {
    let target = request.uri().authority().ok_or(TargetError::Missing)?;
    let authority = Authority::parse(target.as_str()).map_err(|_| TargetError::Malformed)?;
    let port = authority.port.ok_or(TargetError::Malformed)?;
    let mut hosts = request.headers().get_all(http::header::HOST).iter();
    if let Some(host) = hosts.next() {
        let text = host.to_str().map_err(|_| TargetError::Malformed)?;
        let said = Authority::parse(text).map_err(|_| TargetError::Malformed)?;
        if said.host != authority.host || said.port.is_some_and(|said| said != port) {
            return Err(TargetError::Differ(Box::new(Names {
                first: (Place::Target, authority),
                then: (Place::Host, said),
            })));
        }
    }
    if hosts.next().is_some() {
        return Err(TargetError::Malformed);
    }
    Ok(authority)
}

fn asked(session: &Session, destination: &Destination) -> Asked {
    let caller = session.caller();
    Asked {
        subject: Arc::clone(caller.subject()),
        conn: caller.guard.id(),
        src: caller.src,
        id: session.worker().shared.ids.next(),
        host: destination.host.clone(),
        host_word: destination.host.to_string().into(),
        port: destination.port,
        protocol: session.protocol(),
        method: method_word(&http::Method::CONNECT),
        path: "".into(),
        tls: None,
        changes: caller.subject().changes(),
        heard: None,
        why: None,
        told: OnceLock::new(),
    }
}

fn refusal(asked: Asked, denial: Box<gig_policy::Denial>) -> Box<Refusal> {
    Box::new(Refusal {
        denial,
        asked,
        grpc: false,
    })
}
