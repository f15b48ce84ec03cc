//! What was tried, gathered by host, port, protocol and the secrets that it carried.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use ipnet::IpNet;

use super::{Private, Width, plural, widen};
use crate::{
    attempt::{Asked, Attempt},
    host::{Host, Port},
    http_match::Method,
    intent::AppProtocol,
};

/// All attempts at one place.
#[derive(Debug, Default)]
pub(super) struct Tried {
    /// By path, then by method.
    pub(super) requests: BTreeMap<Arc<str>, BTreeMap<Arc<str>, u64>>,
    /// Connections of which no request is known.
    pub(super) bare: u64,
    /// Questions for the name alone.
    pub(super) names: u64,
    /// Of all of them, how many were denied.
    pub(super) denied: u64,
    /// What must be opened for it, and is.
    pub(super) private: BTreeSet<IpNet>,
    /// Secrets whose value the program was handed, and sent.
    pub(super) entrusted: BTreeSet<Arc<str>>,
    /// What the entry guesses.
    pub(super) remark: Option<&'static str>,
    times: Option<(Arc<str>, Arc<str>)>,
}

impl Tried {
    /// `12 requests, 3 connections, 2026-11-21T10:00:00Z to 2026-11-21T10:05:00Z; 4 denied then`.
    pub(super) fn evidence(&self) -> String {
        let requests: u64 = self.requests.values().flat_map(BTreeMap::values).sum();
        let counts = [
            (requests, "request"),
            (self.bare, "connection"),
            (self.names, "question for the name"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts
            .map(|(count, word)| match word {
                "question for the name" if count != 1 => format!("{count} questions for the name"),
                word => plural(count, word),
            })
            .collect();
        let times = match &self.times {
            Some((first, last)) if first == last => format!(", {first}"),
            Some((first, last)) => format!(", {first} to {last}"),
            None => String::new(),
        };
        let denied = match self.denied {
            0 => String::new(),
            denied if denied == requests + self.bare + self.names => "; denied then".to_owned(),
            denied => format!("; {denied} denied then"),
        };
        format!("{}{times}{denied}", counts.join(", "))
    }
}

/// What an entry speaks of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) host: Host,
    pub(super) port: Port,
    pub(super) protocol: Option<AppProtocol>,
    /// What the same request carried, at one time or another.
    pub(super) secrets: BTreeSet<Arc<str>>,
}

/// Gathers attempts; what is left out is told in `notes`, once each.
pub(super) fn gather(
    attempts: &[&Attempt],
    width: Width,
    private: &Private<'_>,
    notes: &mut Vec<String>,
) -> BTreeMap<Place, Tried> {
    let carried = carried(attempts, width);
    let mut places: BTreeMap<Place, Tried> = BTreeMap::new();
    let mut told = BTreeSet::new();
    let mut left_out: BTreeMap<String, u64> = BTreeMap::new();
    for attempt in attempts {
        let host = attempt.asked.host();
        let opened = match private.opened(attempt) {
            Ok(opened) => opened,
            Err(note) => {
                told.insert(note);
                continue;
            }
        };
        if let Some(why) = unspeakable(&attempt.asked, width) {
            *left_out.entry(why).or_default() += attempt.count;
            continue;
        }
        let mut place = place(&attempt.asked, host);
        if let Some(secrets) = carried.get(&key(attempt, width)) {
            place.secrets.clone_from(secrets);
        }
        let tried = places.entry(place).or_default();
        tried.private.extend(opened);
        tried.entrusted.extend(attempt.entrusted.iter().cloned());
        widen(&mut tried.times, &attempt.first);
        widen(&mut tried.times, &attempt.time);
        tried.denied += attempt.denied();
        match &attempt.asked {
            Asked::Name(_) => {
                tried.names += attempt.count;
                tried.remark = Some(GUESSED_PORT);
            }
            Asked::Connection { protocol, .. } => {
                tried.bare += attempt.count;
                if protocol.is_none() {
                    tried.remark = Some(UNSEEN_PROTOCOL);
                } else if *protocol != Some(AppProtocol::Tcp) {
                    tried.remark = Some(UNSEEN_REQUEST);
                }
            }
            Asked::Request { method, path, .. } => {
                let methods = tried.requests.entry(Arc::clone(path)).or_default();
                *methods.entry(Arc::clone(method)).or_default() += attempt.count;
            }
        }
    }
    settle(&mut places);
    notes.extend(told);
    notes.extend(
        left_out
            .into_iter()
            .map(|(why, count)| format!("{} left out: {why}", plural(count, "attempt"))),
    );
    places
}

/// The secrets of each request, or of all to a host where an entry is as wide as that.
fn carried(attempts: &[&Attempt], width: Width) -> HashMap<Asked, BTreeSet<Arc<str>>> {
    let mut carried: HashMap<Asked, BTreeSet<Arc<str>>> = HashMap::new();
    for attempt in attempts
        .iter()
        .filter(|attempt| !attempt.secrets.is_empty())
    {
        let secrets = carried.entry(key(attempt, width)).or_default();
        secrets.extend(attempt.secrets.iter().cloned());
    }
    carried
}

fn key(attempt: &Attempt, width: Width) -> Asked {
    match (&attempt.asked, width) {
        (
            Asked::Request {
                host,
                port,
                protocol,
                ..
            },
            Width::Host,
        ) => Asked::Connection {
            host: host.clone(),
            port: *port,
            protocol: Some(*protocol),
        },
        (asked, _) => asked.clone(),
    }
}

fn place(asked: &Asked, host: Host) -> Place {
    let (port, protocol) = spoken(asked);
    Place {
        host,
        port,
        protocol,
        secrets: BTreeSet::new(),
    }
}

const fn spoken(asked: &Asked) -> (Port, Option<AppProtocol>) {
    match asked {
        Asked::Name(_) => (Port::HTTPS, Some(AppProtocol::Https)),
        // What is spoken at a well-known port is known before it was seen.
        Asked::Connection {
            port: Port::HTTPS,
            protocol: None,
            ..
        } => (Port::HTTPS, Some(AppProtocol::Https)),
        Asked::Connection {
            port: Port::HTTP,
            protocol: None,
            ..
        } => (Port::HTTP, Some(AppProtocol::Http)),
        Asked::Connection { port, protocol, .. } => (*port, *protocol),
        Asked::Request { port, protocol, .. } => (*port, Some(*protocol)),
    }
}

/// Why no document can allow an attempt.
fn unspeakable(asked: &Asked, width: Width) -> Option<String> {
    let Asked::Request { method, path, .. } = asked else {
        return None;
    };
    if let Err(error) = Method::parse(method) {
        return Some(error.to_string());
    }
    if path.contains('*') {
        // A pattern would take it for any text: whoever asks for it would widen the policy.
        return (&**path != "*").then(|| "its path holds a `*`".to_owned());
    }
    // An entry for the whole host takes it, whatever its path is.
    if width == Width::Path && asked.is_cut() {
        return Some("its path is longer than what is recorded of one".to_owned());
    }
    None
}

/// What says less than something else that is there is dropped: a question for the name where its
/// connection is known, a connection of unknown protocol where the protocol was seen later. Requests
/// explain the connections that carried them.
fn settle(places: &mut BTreeMap<Place, Tried>) {
    explain_by_requests(places);
    let mut at_host: HashMap<Host, usize> = HashMap::new();
    let mut seen: HashMap<(Host, Port), Seen> = HashMap::new();
    for Place {
        host,
        port,
        protocol,
        ..
    } in places.keys()
    {
        *at_host.entry(host.clone()).or_default() += 1;
        let seen = seen.entry((host.clone(), *port)).or_default();
        seen.something |= protocol.is_some();
        seen.http |= is_http(*protocol);
    }
    places.retain(|place, tried| {
        let Place {
            host,
            port,
            protocol,
            ..
        } = place;
        let named_only = tried.requests.is_empty() && tried.bare == 0;
        if named_only && at_host.get(host).is_some_and(|count| *count > 1) {
            return false;
        }
        let seen = seen.get(&(host.clone(), *port)).copied();
        let seen = seen.unwrap_or_default();
        match protocol {
            None => !seen.something,
            // One port is looked into or it is not: what is looked into is narrower.
            Some(AppProtocol::Tcp) => !seen.http,
            Some(AppProtocol::Https | AppProtocol::Http) => true,
        }
    });
    for tried in places.values_mut() {
        if !tried.requests.is_empty() {
            tried.remark = None;
        } else if tried.bare > 0 && tried.remark == Some(GUESSED_PORT) {
            tried.remark = Some(UNSEEN_REQUEST);
        }
    }
}

/// A connection or a name of which no request is known is told beside the requests of its place, if only some that
/// carried secrets are known: an entry of its own would allow every request.
fn explain_by_requests(places: &mut BTreeMap<Place, Tried>) {
    let known = places.iter();
    let alone = known.filter(|(place, tried)| {
        place.secrets.is_empty() && tried.requests.is_empty() && place.protocol.is_some()
    });
    let alone: Vec<Place> = alone.map(|(place, _)| place.clone()).collect();
    for place in alone {
        let beside = |other: &&Place| {
            let (host, port) = (&other.host, other.port);
            !other.secrets.is_empty()
                && (host, port, other.protocol) == (&place.host, place.port, place.protocol)
        };
        let Some(other) = places.keys().find(beside).cloned() else {
            continue;
        };
        if let Some(bare) = places.remove(&place)
            && let Some(tried) = places.get_mut(&other)
        {
            tried.private.extend(bare.private.iter().copied());
            tried.bare += bare.bare;
            tried.names += bare.names;
            if let Some((first, last)) = &bare.times {
                widen(&mut tried.times, first);
                widen(&mut tried.times, last);
            }
        }
    }
}

/// What was spoken at one port of a host.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    something: bool,
    http: bool,
}

const fn is_http(protocol: Option<AppProtocol>) -> bool {
    matches!(protocol, Some(AppProtocol::Https | AppProtocol::Http))
}

const GUESSED_PORT: &str = "only the name was asked for, since it was denied: the port is a guess";
const UNSEEN_PROTOCOL: &str =
    "what is spoken there was not seen: add `protocol: tcp` if it is not HTTP";
const UNSEEN_REQUEST: &str =
    "no request was seen: every method and path is allowed until you narrow it";
