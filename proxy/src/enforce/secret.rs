//! A secret, or what stands for one, that is on its way to where it is not bound: the alarm.
//!
//! What was refused stays refused whether the record can be written or not; a lost one leaves a gap that
//! the recorder keeps. Names of hosts are looked at here, whoever asks for them: no secret belongs into
//! one.

use std::sync::Arc;

use gig_audit::{Entry, Event, TlsFacts, VerdictWord};
use gig_policy::DenyReason;

use super::ledger::Ledger;
use crate::{
    credential::{
        misuse::{hidden::without_values, in_name},
        tally::Misuse,
    },
    subject::Subject,
};

/// Records one misuse; `entry` says who, when and where to.
pub fn raise_alarm(ledger: &Ledger, mut entry: Entry, misuse: &Misuse) {
    entry.event = Event::SecretMisuse;
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(DenyReason::SecretMisuse);
    entry.secrets = vec![Arc::clone(misuse.name.shared())];
    // What it is comes first, and then why.
    entry.findings.insert(0, Arc::clone(&misuse.text));
    if !ledger.has_a_record(&mut entry) {
        return;
    }
    tracing::info!(
        secret = %misuse.name, server.address = entry.host.as_deref(),
        server.port = entry.port, what = %misuse.text, "a secret was misused"
    );
    // Told in the log where it is not.
    ledger.queue_as_it_is(entry).ok();
}

/// A host's name as records and the log have it: without real values.
#[must_use]
pub fn shown_host(subject: &Subject, host: &str) -> Arc<str> {
    let hidden = subject
        .wallet()
        .and_then(|wallet| without_values(&wallet.border().watch(), host, ('.', None)));
    hidden.map_or_else(|| host.into(), Into::into)
}

/// A TLS session as records have it: its name without real values.
#[must_use]
pub fn shown_tls(subject: &Subject, tls: Option<&TlsFacts>) -> Option<TlsFacts> {
    let mut shown = tls?.clone();
    if subject.wallet().is_some()
        && let Some(sni) = &mut shown.sni
    {
        *sni = shown_host(subject, sni);
    }
    Some(shown)
}

/// Whether a host's name holds a sentinel or a value; raises no alarm.
#[must_use]
pub fn name_holds_a_secret(subject: &Subject, host: &str) -> bool {
    subject.wallet().is_some_and(|wallet| {
        let watch = wallet.border().watch();
        in_name(&watch, wallet.sandbox(), host).is_some()
    })
}

/// What is told of such a name. Bound to it, a secret would be bound to another with the next run's sentinel.
pub const NO_PLACE: &str =
    "a host's name is no place for a secret: have the program send it in a field or a body";

/// Raises the alarm when a host's name holds a sentinel or a value. Whether it did.
#[must_use]
pub fn name_is_misused(
    ledger: &Ledger,
    subject: &Subject,
    host: &str,
    entry: impl FnOnce() -> Entry,
) -> bool {
    let Some(wallet) = subject.wallet() else {
        return false;
    };
    let watch = wallet.border().watch();
    match in_name(&watch, wallet.sandbox(), host) {
        Some(misuse) => {
            raise_alarm(ledger, entry(), &misuse);
            true
        }
        None => false,
    }
}
