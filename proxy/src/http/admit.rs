//! May this request go, and by which connection? Decided, and where only a rule is lacking, asked for.

use std::sync::Arc;

use gig_policy::{AppProtocol, Denial, DenyReason, Policy, RequestIntent, RequestPermit, Verdict};

use super::session::{Aim, Route, Session};
use crate::{
    authority::Destination,
    credential::inject::Stopped,
    enforce::{
        connect::denial,
        hold::{Outcome, Waiting, patience},
        request::{Asked, charge_request, decide_request},
    },
    hold::Held,
};

/// What a request goes by.
pub type Admitted = (Arc<Route>, RequestPermit);

/// Why it does not go; not recorded yet, and the request's own.
#[derive(Debug)]
pub enum Unadmitted {
    /// It is denied.
    Denied(Box<Denial>),
    /// It is denied, and what it holds is the worse news.
    Stopped(Box<Stopped>),
}

impl From<Box<Denial>> for Unadmitted {
    fn from(denial: Box<Denial>) -> Self {
        Self::Denied(denial)
    }
}

/// Decides, waiting for a person where the policy says so. `announced`: the length that the body says of
/// itself. `astray` finds secrets that no word would let go: what holds one towards a host that no rule names is
/// stopped for that, and nobody is asked about it elsewhere. What is allowed is not recorded yet, but for its connection.
///
/// # Errors
/// The denial, not recorded yet: it becomes the request's.
pub async fn admit(
    session: &Arc<Session>,
    asked: &mut Asked,
    at: &Destination,
    announced: Option<u64>,
    astray: impl FnOnce(&Asked) -> Option<Box<Stopped>>,
) -> Result<Admitted, Unadmitted> {
    let mut charged = false;
    let denied = match decide(session, asked, at, (announced, &mut charged)).await {
        Ok(admitted) => return Ok(admitted),
        Err(denied) => denied,
    };
    let unnamed = denied.reason == DenyReason::HostNotAllowed;
    let most = patience(session.caller(), &at.host, &denied);
    if (unnamed || most.is_some())
        && let Some(stopped) = astray(asked)
    {
        return Err(match unnamed {
            true => Unadmitted::Stopped(stopped),
            false => denied.into(),
        });
    }
    let Some(most) = most else {
        return Err(denied.into());
    };
    // Boxed, so that a request that nobody is asked for holds no room for it.
    Box::pin(async move {
        let mut busy = session.activity().enter();
        // It has a deadline of its own.
        busy.hold();
        asked.name_host();
        let mut entry = asked.entry(gig_audit::Event::Request);
        entry.tls = asked.shown_tls();
        let waiting = Waiting {
            caller: session.caller(),
            host: &at.host,
            held: held(asked, &denied, most),
            denial: denied,
            most,
            entry,
        };
        let decide_again = |policy: &Policy| allowed(policy, asked, at);
        // Who serves the connection drops this when the program goes away.
        session.set_asking(true);
        let outcome = waiting.wait(decide_again, std::future::pending()).await;
        session.set_asking(false);
        match outcome {
            Outcome::Again(heard) => {
                asked.heard = Some(Box::new(heard));
                let admitted = decide(session, asked, at, (announced, &mut charged)).await?;
                if matches!(session.aim(), Aim::Denied(..)) {
                    session.set_told();
                }
                Ok(admitted)
            }
            Outcome::Denied(denial, heard) => {
                asked.heard = Some(Box::new(heard));
                Err(denial.into())
            }
        }
    })
    .await
}

async fn decide(
    session: &Session,
    asked: &mut Asked,
    at: &Destination,
    (announced, charged): (Option<u64>, &mut bool),
) -> Result<Admitted, Box<Denial>> {
    let word = asked.word().cloned();
    let route = session.route(at, asked.protocol, word.as_ref()).await?;
    asked.host_word = Arc::clone(&route.host_word);
    if let Some(reason) = body_limit(asked, announced) {
        return Err(denial(&asked.subject.policy(), reason, String::new()));
    }
    if !std::mem::replace(charged, true) {
        charge_request(asked)?;
    }
    let permit = decide_request(asked)?;
    Ok((route, permit))
}

/// Whether a policy lets it pass by its rules alone.
fn allowed(policy: &Policy, asked: &Asked, at: &Destination) -> Result<(), Box<Denial>> {
    let (host, port, protocol) = (&at.host, at.port, asked.protocol);
    if let Verdict::Deny(denial) = policy.decide_connect(host, port, Some(protocol)) {
        return Err(denial);
    }
    let intent = RequestIntent {
        protocol: asked.protocol,
        method: &asked.method,
        path: &asked.path,
    };
    match policy.decide_request(host, port, &intent) {
        Verdict::Allow(_) => Ok(()),
        Verdict::Deny(denial) => Err(denial),
    }
}

/// A body that says itself that it is too large need not begin.
fn body_limit(asked: &Asked, announced: Option<u64>) -> Option<DenyReason> {
    let most = asked.subject.policy().limits().request_body?;
    (announced? > most.0).then_some(DenyReason::RequestBodyLimit)
}

fn held(asked: &Asked, denied: &Denial, most: std::time::Duration) -> Held {
    Held {
        id: Arc::clone(&asked.id),
        sandbox: asked.subject.id(),
        server: asked.subject.server().cloned(),
        profile: asked.subject.profile().cloned(),
        host: Arc::clone(asked.shown_host()),
        port: asked.port.get(),
        protocol: AppProtocol::as_str(asked.protocol),
        method: Some(Arc::clone(asked.shown_method())),
        path: Some(Arc::clone(asked.shown_path())),
        policy: (Arc::clone(&denied.policy.name), denied.policy.version),
        reason: denied.reason,
        most,
    }
}
