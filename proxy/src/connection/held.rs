//! A connection that is neither TLS nor HTTP and that no rule allows: it waits for a person.

use std::{sync::Arc, time::Duration};

use gig_audit::VerdictWord;
use gig_policy::{AppProtocol, Denial, Handling, Policy, Verdict};
use tokio::{io::Interest, net::TcpStream};

use super::{Sniffed, passing, reset};
use crate::{
    authority::Destination,
    caller::Caller,
    enforce::{
        connect::fill_policy,
        hold::{Outcome, Waiting, patience},
    },
    hold::Held,
};

/// Waits for a word about `at` and passes the connection's bytes if it comes. Gives the stream back where
/// nobody is to be asked.
pub(super) async fn wait(
    caller: &Arc<Caller>,
    stream: Sniffed,
    at: &Destination,
    denial: Box<Denial>,
) -> Option<Sniffed> {
    let Some(most) = patience(caller, &at.host, &denial) else {
        return Some(stream);
    };
    let (host, port) = (&at.host, at.port);
    let mut attempt = caller.attempt(host, port, Some(AppProtocol::Tcp), None);
    let waiting = Waiting {
        caller,
        host,
        held: held(caller, at, &denial, most),
        denial,
        most,
        entry: attempt.entry(gig_audit::Event::Connect),
    };
    let decide = |policy: &Policy| match policy.decide_connect(host, port, Some(AppProtocol::Tcp)) {
        Verdict::Allow(_) => Ok(()),
        Verdict::Deny(denial) => Err(denial),
    };
    let outcome = waiting.wait(decide, gone(stream.get_ref().get_ref())).await;
    match outcome {
        Outcome::Denied(denial, heard) => {
            let mut entry = attempt.entry(gig_audit::Event::Connect);
            fill_policy(&mut entry, &denial.policy, denial.rule.as_ref());
            entry.verdict = Some(VerdictWord::Deny);
            entry.reason = Some(denial.reason);
            entry.findings = heard.findings;
            // Told in the log where it is not.
            caller.ledger().record(entry).await.ok();
        }
        Outcome::Again(heard) => {
            attempt.heard = Some(Box::new(heard));
            match caller.permit(&attempt).await {
                Ok(permit) if permit.handling() == Handling::Opaque => {
                    if let Some(dialed) = passing::dial(caller, &permit, &attempt).await {
                        passing::pass(caller, stream, (permit, dialed), &attempt).await;
                        return None;
                    }
                }
                // What was read already says that these bytes are none that can be looked into.
                Ok(_) | Err(_) => {}
            }
        }
    }
    reset(stream)
}

/// Completes when the program's end is closed, in a direction or in both: nobody waits for an answer
/// any more.
async fn gone(stream: &TcpStream) {
    loop {
        match stream.ready(Interest::READABLE | Interest::ERROR).await {
            Ok(ready) if ready.is_read_closed() || ready.is_error() => return,
            // Something is there to be read, and stays there.
            Ok(_) => tokio::time::sleep(LOOK_EVERY).await,
            Err(_) => return,
        }
    }
}

fn held(caller: &Caller, at: &Destination, denial: &Denial, most: Duration) -> Held {
    let subject = caller.subject();
    Held {
        id: caller.worker.shared.ids.next(),
        sandbox: subject.id(),
        server: subject.server().cloned(),
        profile: subject.profile().cloned(),
        host: at.host.to_string().into(),
        port: at.port.get(),
        protocol: AppProtocol::Tcp.as_str(),
        method: None,
        path: None,
        policy: (Arc::clone(&denial.policy.name), denial.policy.version),
        reason: denial.reason,
        most,
    }
}

/// How soon it is seen that a program went away which had sent something.
const LOOK_EVERY: Duration = Duration::from_millis(250);
