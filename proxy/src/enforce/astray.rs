//! Why a secret does not go, or a request that names two hosts, and what to do about it: for the program, the record and the end of a run.
//!
//! Never a value. A program is told of secrets alone whose sentinels it holds: not whose value it wrote by
//! chance, nor what another sandbox's sentinel stands for.

use std::{error::Error, sync::Arc};

use gig_audit::{Entry, why};
use gig_policy::{AppProtocol, DenyReason, Port, SecretGrant, SecretName, Verdict};
use gig_vault::SecretUnavailable;

use super::{
    ledger::Ledger,
    request::Asked,
    secret::{NO_PLACE, name_is_misused},
};
use crate::{
    authority::{Authority, names::Names},
    credential::{
        misuse::HOST_NAME,
        place::{Unplaceable, Unplaced},
        sign::certificate::PresentError,
        swap::TELLS_LENGTH,
        tally::{Misuse, Tally},
        treat::Untreatable,
    },
    failure::Failure,
    subject::Subject,
};

/// Why a request or its secret did not go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why {
    text: Arc<str>,
    own: bool,
    /// The same for programs that read records.
    findings: Vec<Arc<str>>,
}

impl Why {
    fn saying(text: String, own: bool) -> Self {
        Self {
            text: text.into(),
            own,
            findings: Vec::new(),
        }
    }

    /// Of what was on its way to where it is not bound.
    #[must_use]
    pub fn misused(asked: &Asked, misuse: &Misuse) -> Self {
        let cure = cure(asked, misuse);
        Self::saying(format!("{}: {cure}", misuse.text), misuse.own)
    }

    /// Of a value in a stream to `host` and `port` that is not opened.
    #[must_use]
    pub fn unopened(misuse: &Misuse, host: &str, port: Port) -> Self {
        let Misuse { name, text, .. } = misuse;
        let cure = match misuse.revoked {
            true => ended(name),
            false => format!(
                "unopened, it goes only where the rule of that host and port entrusts it; only if it belongs to \
                 {host}:{port}, write there: `secrets: [{{name: {name}, entrusted: true}}]`"
            ),
        };
        Self::saying(format!("{text}: {cure}"), misuse.own)
    }

    /// Of a value that cannot be written where its sentinel stands.
    #[must_use]
    pub fn unplaced(unplaced: &Unplaced) -> Self {
        Self::unplaceable(&unplaced.to_string(), unplaced.why)
    }

    /// Of a secret that cannot be had. What its provider says of itself is for whoever looks after it.
    #[must_use]
    pub fn unavailable(why: &SecretUnavailable) -> Self {
        let own = !matches!(why, SecretUnavailable::Provider { .. });
        Self::saying(why.to_string(), own)
    }

    /// Of a permitted request that was stopped on its way.
    #[must_use]
    pub fn stopped(
        asked: &Asked,
        failure: &Failure,
        (reason, tally): (DenyReason, &Tally),
    ) -> Option<Self> {
        let source = failure.source.as_deref();
        let untreated = source.and_then(|source| source.downcast_ref::<Untreatable>());
        match (reason, untreated) {
            (DenyReason::SecretUnplaceable, Some(untreated)) => {
                Some(Self::saying(untreated.to_string(), true))
            }
            (DenyReason::SecretUnplaceable, None) => match unpresented(source) {
                Some(text) => Some(Self::saying(text, true)),
                None => Self::unwritten(tally),
            },
            (DenyReason::SecretMisuse, _) => Self::astray(asked, tally),
            (DenyReason::SecretUnavailable, _) => {
                let unavailable = source.and_then(|source| source.downcast_ref());
                unavailable.map(Self::unavailable)
            }
            _ => None,
        }
    }

    /// Of the first in a body that was on its way to where it is not bound.
    #[must_use]
    pub fn astray(asked: &Asked, tally: &Tally) -> Option<Self> {
        let misuse = tally.first_misuse()?;
        Some(Self::misused(asked, &misuse))
    }

    /// Of a value that had no place in a body.
    #[must_use]
    pub fn unwritten(tally: &Tally) -> Option<Self> {
        let text = tally.why_unplaced()?;
        let why = match text.ends_with(TELLS_LENGTH) {
            true => Unplaceable::Resizes,
            false => Unplaceable::Ends,
        };
        Some(Self::unplaceable(&text, why))
    }

    fn unplaceable(text: &str, why: Unplaceable) -> Self {
        let cure = why.cure();
        Self::saying(format!("{text}: {cure}"), true)
    }

    /// Of names that do not agree. One that holds a sentinel or a value is an alarm, which `entry` is for, as if it had
    /// been asked for, and then the program is not told of whose.
    #[must_use]
    pub fn disagreeing(
        (ledger, subject): (&Ledger, &Subject),
        names: &Names,
        entry: impl Fn() -> Entry,
    ) -> Self {
        let is_misused = |(_, authority): &(_, Authority)| {
            name_is_misused(ledger, subject, &authority.host.to_string(), &entry)
        };
        let misused = [&names.first, &names.then].map(is_misused);
        Self {
            text: names.text(subject).into(),
            own: !misused.contains(&true),
            findings: names.findings(subject),
        }
    }

    /// All that records hold of it.
    pub fn findings(&self) -> impl Iterator<Item = Arc<str>> {
        let words = self.findings.iter().map(Arc::clone);
        words.chain([why(&self.text)])
    }

    /// For records.
    #[must_use]
    pub const fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// For the program; `None` where it is told nothing of that secret.
    #[must_use]
    pub fn told(&self) -> Option<&str> {
        self.own.then_some(&*self.text)
    }
}

/// Where the secret may go in place of there, or what would bind it.
fn cure(asked: &Asked, misuse: &Misuse) -> String {
    let name = &misuse.name;
    let policy = asked.subject.policy();
    let here = format!("{}:{}", asked.shown_host(), asked.port);
    if misuse.revoked {
        return ended(name);
    }
    if misuse.text.contains(HOST_NAME) {
        return NO_PLACE.to_owned();
    }
    let granted: Vec<SecretGrant> = match asked.decided_by(&policy) {
        Verdict::Allow(permit) => match asked.subject.wallet() {
            Some(wallet) => wallet.placed(permit.secrets()).into_owned(),
            None => permit.secrets().to_vec(),
        },
        Verdict::Deny(_) => Vec::new(),
    };
    let of = |grant: &&SecretGrant| grant.name == *name && !grant.captures;
    let granted: Vec<&SecretGrant> = granted.iter().filter(of).collect();
    match granted.as_slice() {
        [] => unbound(asked, name, &policy.bound_to(name)),
        some if some.iter().any(|grant| grant.places.is_none()) => format!(
            "{name} goes to {here} by the sentinel that this sandbox holds for it, and by nothing else"
        ),
        some => {
            let places = some.iter().filter_map(|grant| grant.places.as_deref());
            let mut places: Vec<String> = places.flatten().map(ToString::to_string).collect();
            places.dedup();
            let option = match asked.subject.server() {
                Some(_) => "of the rule".to_owned(),
                None => format!("(--secret {name}:PLACE@HOST)"),
            };
            format!(
                "at {here} {name} is taken in {} alone: send it there, or add the place to `in` {option}",
                listed(&places)
            )
        }
    }
}

/// Of a client certificate that the TLS library does not take.
fn unpresented(source: Option<&(dyn Error + Send + Sync + 'static)>) -> Option<String> {
    let mut next = source.map(|source| source as &(dyn Error + 'static));
    while let Some(error) = next {
        if let Some(unpresented) = error.downcast_ref::<PresentError>() {
            let why = unpresented.source().map(|why| format!(": {why}"));
            let why = why.unwrap_or_default();
            return Some(format!(
                "{unpresented}{why}; store another (gig secret set)"
            ));
        }
        next = error.source();
    }
    None
}

/// Of a value that is none any more.
fn ended(name: &SecretName) -> String {
    format!(
        "it was replaced, revoked or has expired, and goes nowhere any more; the sentinel that a sandbox gets for \
         {name} stands for the value of now"
    )
}

/// Of a request that may carry no such secret at all.
fn unbound(asked: &Asked, name: &SecretName, bound: &[String]) -> String {
    let policy = asked.subject.policy();
    let (host, port) = (asked.shown_host(), asked.port);
    let here = format!("{host}:{port}");
    let known = match bound {
        [] => format!("the policy binds {name} to no host"),
        _ if bound.contains(&here) => {
            format!("{name} is bound to other requests to {here}, by method or path")
        }
        some => format!("{name} is bound to {}, not to {here}", listed(some)),
    };
    if asked.protocol == AppProtocol::Http {
        let is_here = |one: &String| {
            let name = one.rsplit_once(':').map_or(one.as_str(), |(name, _)| name);
            name == &**host
        };
        let known = match bound.iter().any(is_here) {
            true => format!("{name} is bound to {}", listed(bound)),
            false => known,
        };
        return format!(
            "{known}, and in clear text no secret goes unless the host's rule says `protocol: http` and names it: use https"
        );
    }
    // A login made inside: what would bind a secret of that name is refused beside it.
    let is_captured = policy
        .captured_names()
        .iter()
        .any(|one| one == name || one.of_grants().is_ok_and(|grants| grants == *name));
    if is_captured {
        return format!("{known}; only if it belongs there, name it under `secrets` of its rule");
    }
    let port = match port.get() {
        443 => String::new(),
        port => format!(":{port}"),
    };
    if asked.subject.server().is_some() {
        return format!(
            "{known}; only if it belongs there, name it under `secrets` of the rule for {host}{port}"
        );
    }
    format!(
        "{known}; only if it belongs there, bind it: --secret {name}@{host}{port}, or under `secrets` of its rule"
    )
}

/// Some of them.
fn listed(all: &[String]) -> String {
    let some: Vec<&str> = all.iter().take(MOST).map(String::as_str).collect();
    let more = if all.len() > MOST { ", …" } else { "" };
    format!("{}{more}", some.join(", "))
}

/// A line stays one.
const MOST: usize = 4;
