//! Packets of UDP that the hub's firewall refused: all that is no question for a name.
//!
//! The kernel refused them at once, whatever any policy says. They are told here so that the record has every attempt
//! and a person sees why a program does not get out: to which name, where the program had looked one up.

use std::net::Ipv4Addr;

use gig_audit::{Entry, Event, RecordRefused, VerdictWord};
use gig_policy::DenyReason;

use super::{connect::fill_policy, ledger::Ledger, secret::shown_host};
use crate::subject::Subject;

/// Where refused packets of a sandbox were for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// As the program wrote it.
    pub destination: Ipv4Addr,
    /// The destination's.
    pub port: u16,
}

/// Hands it in as a connection that was denied, at the pace of such, and waits until it is recorded.
///
/// # Errors
/// When it could not be recorded. Nothing left all the same.
pub fn record_refused<'a>(
    ledger: &'a Ledger,
    subject: &Subject,
    refused: Refused,
) -> impl Future<Output = Result<(), RecordRefused>> + Send + use<'a> {
    let name = subject.synthetic().name_of(refused.destination);
    let host = name.map_or_else(|| refused.destination.to_string(), |name| name.to_string());
    let mut entry = Entry::new(Event::Connect);
    entry.sandbox = Some(subject.id());
    entry.server = subject.server().cloned();
    entry.profile = subject.profile().cloned();
    entry.src = Some((subject.address(), 0).into());
    entry.host = Some(shown_host(subject, &host));
    entry.protocol = Some("udp".into());
    entry.port = Some(refused.port);
    fill_policy(&mut entry, subject.policy().reference(), None);
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(DenyReason::UnsupportedProtocol);
    ledger.record(entry)
}
