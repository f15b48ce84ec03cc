//! TLS of a sandbox: opened with a minted leaf, told why it is denied, or spliced unopened.

use std::sync::Arc;

use gig_audit::{Event, TlsFacts};
use gig_policy::{AppProtocol, ConnectPermit, Denial, DenyReason, DenyStyle, Handling, Verdict};

use super::{Serving, Sniffed, log_refusal, passing, refuse, reset};
use crate::{
    authority::{Destination, agree_handling, agree_tls, names::Names},
    caller::Caller,
    client_hello::ClientHelloFacts,
    enforce::{
        astray::Why,
        connect::{Attempt, CLIENT_DISTRUSTS, Outcome, refuse_connect, refuse_finding},
        secret::shown_host,
    },
    failure::words::Words,
    http::{
        linger::{Ending, Linger},
        session::{Aim, Session},
    },
    tls::downstream::{TerminateError, negotiated},
};

/// Agrees on the name and decides; what is opened is handed back to be served.
pub(super) async fn tls(
    caller: &Arc<Caller>,
    stream: Sniffed,
    at: Destination,
    hello: ClientHelloFacts,
) -> Option<Serving> {
    let host = match agree_tls(&at, &hello.sni) {
        Ok(host) => host,
        Err(disagreement) => {
            disagreeing(caller, &at, (disagreement.reason(), &hello)).await;
            return reset(stream);
        }
    };
    let destination = Destination {
        host,
        port: at.port,
    };
    let facts = facts(&hello);
    let (host, port) = (&destination.host, destination.port);
    let policy = caller.subject().policy();
    let changes = caller.subject().changes();
    let denial = match policy.decide_connect(host, port, Some(AppProtocol::Https)) {
        Verdict::Deny(denial) => denial,
        Verdict::Allow(_) => {
            let attempt = caller.attempt(host, port, Some(AppProtocol::Https), Some(facts));
            match caller.permit(&attempt).await {
                Ok(permit) if permit.handling() == Handling::Inspect => {
                    let aim = Aim::Fixed(destination.clone());
                    let opens = permit.rule().cloned();
                    let permit = Some((permit, changes));
                    let ended = terminate(caller, stream, &destination, (aim, permit)).await;
                    let error = match ended {
                        Ok(serving) => return Some(serving),
                        Err(error) => error,
                    };
                    let outcome = Outcome {
                        reason: error.reason(),
                        rule: opens.filter(|_| error.reason().is_some()),
                        finding: error.is_distrust().then_some(CLIENT_DISTRUSTS),
                        ..Outcome::default()
                    };
                    if outcome.reason.is_some() || outcome.finding.is_some() {
                        caller.outcome(&attempt, outcome).await;
                    }
                    return None;
                }
                Ok(permit) => {
                    return unopened(caller, stream, (permit, &hello), &attempt).await;
                }
                Err(denial) => denial,
            }
        }
    };
    denied(caller, stream, destination, denial).await
}

fn facts(hello: &ClientHelloFacts) -> TlsFacts {
    TlsFacts {
        sni: hello.sni.name().map(|name| name.as_str().into()),
        ..TlsFacts::default()
    }
}

/// Records that a hello does not name its destination, with both names.
async fn disagreeing(
    caller: &Caller,
    at: &Destination,
    (reason, hello): (DenyReason, &ClientHelloFacts),
) {
    let attempt = caller.attempt(
        &at.host,
        at.port,
        Some(AppProtocol::Https),
        Some(facts(hello)),
    );
    let sni = hello.sni.name().cloned();
    let names = sni.map(|sni| Names::of_tls(at.host.clone(), sni.into()));
    let alarm = || attempt.entry(Event::SecretMisuse);
    let by = (caller.ledger(), &**caller.subject());
    let why = names.map(|names| Why::disagreeing(by, &names, alarm));
    let findings = why.iter().flat_map(Why::findings).collect();
    let denial = refuse_finding(caller.ledger(), &attempt, reason, findings).await;
    log_refusal(caller, at, &denial);
}

/// A denied name: the handshake is completed so that a person sees why.
async fn denied(
    caller: &Arc<Caller>,
    stream: Sniffed,
    destination: Destination,
    denial: Box<Denial>,
) -> Option<Serving> {
    let why = (Some(AppProtocol::Https), denial.reason);
    if caller.subject().policy().deny_style() == DenyStyle::Reset {
        refuse(caller, &destination, why).await;
        return reset(stream);
    }
    let aim = Aim::Denied(destination.clone(), denial);
    let serving = terminate(caller, stream, &destination, (aim, None)).await;
    if serving.is_err() {
        refuse(caller, &destination, why).await;
    }
    serving.ok()
}

/// Completes the handshake with a minted leaf, or says why there is none.
async fn terminate(
    caller: &Arc<Caller>,
    stream: Sniffed,
    destination: &Destination,
    (aim, permit): (Aim, Option<(ConnectPermit, u64)>),
) -> Result<Serving, TerminateError> {
    let worker = &caller.worker;
    let deadline = worker.deadlines().downstream_handshake;
    let host = &destination.host;
    let terminator = &worker.shared.terminator;
    let ending = Ending::default();
    let stream = Linger::new(stream, worker.deadlines().linger, ending.clone());
    match terminator.terminate(stream, host, deadline).await {
        Ok(stream) => {
            let (application, facts) = negotiated(&stream, host);
            let mut session = Session::new(caller, aim, AppProtocol::Https, application)
                .with_tls(facts)
                .with_ending(ending);
            if let Some((permit, changes)) = permit {
                session = session.with_permit(permit, changes);
            }
            Ok(Serving::new(session, stream))
        }
        Err(error) => {
            tracing::info!(
                error = %Words::of(&error),
                server.address = %shown_host(caller.subject(), &host.to_string()),
                "no TLS with a sandbox"
            );
            Err(error)
        }
    }
}

/// TLS that is not opened: its name agrees, so its bytes pass.
async fn unopened(
    caller: &Arc<Caller>,
    stream: Sniffed,
    (permit, hello): (ConnectPermit, &ClientHelloFacts),
    attempt: &Attempt<'_>,
) -> Option<Serving> {
    if let Err(hidden) = agree_handling(hello, permit.handling()) {
        let denial = refuse_connect(caller.ledger(), attempt, hidden.reason()).await;
        tracing::info!(deny.reason = %denial.reason, "denied");
        return reset(stream);
    }
    match passing::dial(caller, &permit, attempt).await {
        Some(dialed) => passing::pass(caller, stream, (permit, dialed), attempt).await,
        None => return reset(stream),
    }
    None
}
