//! Addresses that are not public, among what was tried.
//!
//! A rule opens one only by `allow_private`, which no record can ask for: it is kept where the document that is
//! replaced opens that very address for that host and port, and else what was tried there is left out and told.

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
};

use ipnet::IpNet;

use crate::{
    attempt::{Asked, Attempt},
    host::Host,
    policy::Policy,
    special_purpose::{AddressClass, classify},
    verdict::Verdict,
};

/// Where hosts were found, and what opens that.
pub(super) struct Private<'a> {
    /// Of names that were found at no public address.
    known: HashMap<Host, IpAddr>,
    /// The document that is to be replaced.
    old: Option<&'a Policy>,
}

impl<'a> Private<'a> {
    pub(super) fn of(attempts: &[Attempt], old: Option<&'a Policy>) -> Self {
        let (mut known, mut public) = (HashMap::new(), HashSet::new());
        for attempt in attempts {
            let named_only = matches!(attempt.asked, Asked::Name(_));
            match attempt.address.map(|ip| (ip, classify(ip))) {
                Some((_, AddressClass::Global)) => {
                    public.insert(attempt.asked.host());
                }
                Some((ip, _)) => {
                    known.insert(attempt.asked.host(), ip);
                }
                // Only of an address that is not public is it sure to be told.
                None if attempt.outcome.passed() && !named_only => {
                    public.insert(attempt.asked.host());
                }
                None => {}
            }
        }
        known.retain(|host, _| !public.contains(host));
        Self { known, old }
    }

    /// The ranges that have to be opened for an attempt, which the old document opens for its host and port.
    ///
    /// # Errors
    /// The remark, where that may not be suggested.
    pub(super) fn opened(&self, attempt: &Attempt) -> Result<Vec<IpNet>, String> {
        let host = attempt.asked.host();
        // What was denied before it was dialled would have been dialled to where others were.
        let elsewhere = || self.known.get(&host).copied();
        let found = attempt.known_address();
        let Some(ip) = found.or_else(|| elsewhere().filter(|_| !attempt.outcome.passed())) else {
            return Ok(Vec::new());
        };
        let what = match &host {
            Host::Ip(ip) => format!("{ip} is"),
            Host::Name(name) => format!("{name} is at {ip}, which is"),
        };
        match classify(ip) {
            AddressClass::Global => Ok(Vec::new()),
            AddressClass::Special { name } => match self.grants(attempt, ip) {
                grants if grants.is_empty() => Err(format!(
                    "{what} not a public address ({name}): if it is meant, write its entry with \
                     `allow_private` yourself"
                )),
                grants => Ok(grants),
            },
            AddressClass::NeverOpenable { name } => Err(format!("{what} never opened ({name})")),
        }
    }

    fn grants(&self, attempt: &Attempt, ip: IpAddr) -> Vec<IpNet> {
        let (port, protocol) = match &attempt.asked {
            Asked::Name(_) => return Vec::new(),
            Asked::Connection { port, protocol, .. } => (*port, *protocol),
            Asked::Request { port, protocol, .. } => (*port, Some(*protocol)),
        };
        let decided = self
            .old
            .map(|old| old.decide_connect(&attempt.asked.host(), port, protocol));
        match decided {
            Some(Verdict::Allow(permit)) => {
                let nets = permit.allow_private().iter();
                nets.filter(|net| net.contains(&ip)).copied().collect()
            }
            Some(Verdict::Deny(_)) | None => Vec::new(),
        }
    }
}
