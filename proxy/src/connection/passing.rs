//! Connections whose bytes pass without a look: decided, recorded, dialled, spliced, recorded.

use std::sync::Arc;

use bytes::Bytes;
use gig_audit::Event;
use gig_policy::{AppProtocol, ConnectPermit, DenyReason, Handling, Verdict};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Sniffed, Stream, reset, reset_plain};
use crate::{
    authority::Destination,
    caller::Caller,
    credential::watched::{Entrusted, WatchedStream},
    enforce::{
        astray::Why,
        connect::{Attempt, Outcome},
        secret::{raise_alarm, shown_host},
    },
    opaque::{SpliceEnd, SpliceLimits, splice_until},
    subject::ConnectionFacts,
    upstream::dial::Dialed,
};

/// Either side may speak first: nothing is read before the origin is there.
pub(super) async fn opaque(caller: &Arc<Caller>, stream: Stream, destination: &Destination) {
    let attempt = caller.attempt(
        &destination.host,
        destination.port,
        Some(AppProtocol::Tcp),
        None,
    );
    let Ok(permit) = caller.permit(&attempt).await else {
        return reset_plain(stream);
    };
    match dial(caller, &permit, &attempt).await {
        Some(dialed) => pass(caller, stream, (permit, dialed), &attempt).await,
        None => reset_plain(stream),
    }
}

/// What is neither TLS nor HTTP, or waits for the server to speak, where a policy that only observes lets
/// it pass. Gives the stream back where it does not; nothing is recorded then.
pub(super) async fn observed(
    caller: &Arc<Caller>,
    stream: Sniffed,
    at: &Destination,
) -> Option<Sniffed> {
    let tcp = Some(AppProtocol::Tcp);
    let policy = caller.subject().policy();
    match policy.decide_connect(&at.host, at.port, tcp) {
        Verdict::Allow(permit) if permit.handling() == Handling::Opaque => {}
        Verdict::Allow(_) | Verdict::Deny(_) => return Some(stream),
    }
    let attempt = caller.attempt(&at.host, at.port, tcp, None);
    // Decided once more: this one is recorded.
    let dialed = match caller.permit(&attempt).await {
        Ok(permit) if permit.handling() == Handling::Opaque => {
            let dialed = dial(caller, &permit, &attempt).await;
            dialed.map(|dialed| (permit, dialed))
        }
        Ok(_) | Err(_) => None,
    };
    match dialed {
        Some(sides) => pass(caller, stream, sides, &attempt).await,
        None => return reset(stream),
    }
    None
}

/// Dials, and records a failure.
pub(super) async fn dial(
    caller: &Caller,
    permit: &ConnectPermit,
    attempt: &Attempt<'_>,
) -> Option<Dialed> {
    let dialling = caller.worker.shared.dialer.dial(caller.subject(), permit);
    let dialed = tokio::select! {
        dialed = dialling => dialed,
        _ = caller.guard.revoked() => return None,
    };
    match dialed {
        Ok(dialed) => Some(dialed),
        Err(error) => {
            tracing::info!(%error, error.type = %error.reason, "no connection to the origin");
            let outcome = Outcome::not_connected(&error);
            caller.outcome(attempt, outcome).await;
            None
        }
    }
}

/// Splices until both sides are done or the connection is cut, and records how it ended.
pub(super) async fn pass<S>(
    caller: &Arc<Caller>,
    stream: S,
    (permit, dialed): (ConnectPermit, Dialed),
    attempt: &Attempt<'_>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let facts =
        ConnectionFacts::new(&permit, attempt.protocol).to_private(dialed.reached.private());
    let mut outcome = Outcome {
        dst: dialed.reached.address,
        ..Outcome::default()
    };
    if let Err(reason) = caller.guard.permit(facts) {
        outcome.reason = Some(reason);
        return caller.outcome(attempt, outcome).await;
    }
    let limits = SpliceLimits {
        idle: caller.worker.deadlines().opaque_idle,
        subject: Arc::clone(caller.subject()),
    };
    let cut = async {
        tokio::select! {
            reason = caller.guard.revoked() => reason,
            reason = caller.drained() => reason,
        }
    };
    let spliced = match caller.subject().wallet() {
        None => {
            let sides = (stream, dialed.stream);
            Box::pin(splice_until(Bytes::new(), sides, &limits, cut)).await
        }
        Some(wallet) => {
            let encrypted = attempt.protocol == Some(AppProtocol::Https);
            let entrusted = Entrusted::of(caller.subject(), &permit);
            if let Some(readying) = entrusted.readied(wallet) {
                readying.await;
            }
            let mut stream = WatchedStream::new(stream, wallet, entrusted, encrypted);
            let sides = (&mut stream, dialed.stream);
            let mut spliced = Box::pin(splice_until(Bytes::new(), sides, &limits, cut)).await;
            for misuse in stream.misuses() {
                spliced.end = SpliceEnd::Refused(DenyReason::SecretMisuse);
                let entry = attempt.entry(Event::SecretMisuse);
                raise_alarm(caller.ledger(), entry, &misuse);
                outcome.why.get_or_insert_with(|| {
                    let host = shown_host(attempt.subject, &attempt.host.to_string());
                    Why::unopened(&misuse, &host, attempt.port)
                });
            }
            outcome.tally = Some(Arc::clone(stream.tally()));
            spliced
        }
    };
    (outcome.bytes_out, outcome.bytes_in) = (spliced.out, spliced.back);
    outcome.reason = spliced.end.reason();
    caller.outcome(attempt, outcome).await;
}
