//! Attempts as the counts keep them, made ready for a replay and a suggestion as [`super::Gathering`] does it
//! with records.
//!
//! Which connection a record was of is not kept: of each server and host a name that passed says nothing
//! beside a connection, nor a connection that passed beside a request. What was denied stays.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
};

use gig_policy::{AppProtocol, Asked, Attempt, DenyReason, Fqdn, Host, Outcome, Port};

use super::{Traffic, is_unopened};
use crate::counts::{KeptAttempt, What};

/// Where an outcome tells an address of.
type Place<'a> = (&'a str, Host, Option<Port>);

/// Where it was dialled, and how often that was refused.
#[derive(Default)]
struct Dialled<'a> {
    reached: Option<IpAddr>,
    refused: Option<(IpAddr, Outcome)>,
    times: u64,
    /// When it was refused last.
    last: Option<&'a str>,
}

/// All attempts, and how many records this gig cannot read.
#[must_use]
pub fn of_kept(kept: &[KeptAttempt]) -> (Traffic, u64) {
    let mut traffic = Traffic::default();
    let mut unreadable = 0;
    let mut dialled: HashMap<Place<'_>, Dialled<'_>> = HashMap::new();
    let mut known: Vec<(&KeptAttempt, Asked, Outcome)> = Vec::new();
    let mut carried: HashMap<(&str, Asked), BTreeSet<&str>> = HashMap::new();
    let opened = |one: &&KeptAttempt| {
        one.what.event != "connect" || !is_unopened(one.what.protocol.as_deref())
    };
    for one in kept.iter().filter(opened) {
        let (Some(outcome), what) = (outcome(&one.what), &one.what) else {
            unreadable += one.count;
            continue;
        };
        if what.event == "response" {
            if let Some((place, found)) = told(one, outcome) {
                let known = dialled.entry(place).or_default();
                known.reached = known.reached.or(found.reached);
                known.refused = known.refused.or(found.refused);
                known.times += found.times;
                known.last = known.last.max(found.last);
            }
            continue;
        }
        match asked(what) {
            Some(asked) if what.event == SECRET_USE => {
                let names = carried.entry((&one.server, asked)).or_default();
                names.extend(what.secrets.iter().map(String::as_str));
            }
            Some(asked) => {
                traffic.records += one.count;
                known.push((one, asked, outcome));
            }
            None => unreadable += one.count,
        }
    }
    let mut connected: HashSet<(&str, Host)> = HashSet::new();
    let mut requested: HashSet<Place<'_>> = HashSet::new();
    for (one, asked, _) in &known {
        if !matches!(asked, Asked::Name(_)) {
            connected.insert((&one.server, asked.host()));
        }
        if matches!(asked, Asked::Request { .. }) {
            requested.insert((&one.server, asked.host(), asked.port()));
        }
    }
    traffic.guessed = guessed(&known, &dialled);
    // What was refused was more likely asked early: a rule may have opened the address since.
    known.sort_by(|(one, ..), (other, ..)| one.first.cmp(&other.first));
    for (one, asked, outcome) in known {
        let place = (one.server.as_str(), asked.host(), asked.port());
        let is_told = match &asked {
            Asked::Name(_) => connected.contains(&(place.0, place.1.clone())),
            Asked::Connection { .. } => requested.contains(&place),
            Asked::Request { .. } => false,
        };
        if is_told && outcome.passed() {
            continue;
        }
        // Which of several that are alike carried it behind the head is not kept: each is taken to have.
        let beside = carried.get(&(place.0, asked.clone())).into_iter().flatten();
        let secrets = one
            .what
            .secrets
            .iter()
            .map(String::as_str)
            .chain(beside.copied());
        let secrets: BTreeSet<&str> = secrets.collect();
        let secrets: Vec<Arc<str>> = secrets.into_iter().map(Into::into).collect();
        for (outcome, address, count) in parted(one, outcome, dialled.get_mut(&place)) {
            traffic.attempts.push(Attempt {
                asked: asked.clone(),
                address,
                secrets: secrets.clone(),
                entrusted: Vec::new(),
                outcome,
                first: one.first.as_str().into(),
                time: one.last.as_str().into(),
                count,
            });
        }
    }
    (traffic, unreadable)
}

/// Refusals that are told of a place, where several requests were let go there and not all of them refused.
fn guessed(
    known: &[(&KeptAttempt, Asked, Outcome)],
    dialled: &HashMap<Place<'_>, Dialled<'_>>,
) -> u64 {
    let mut let_go: HashMap<Place<'_>, (u64, u64)> = HashMap::new();
    for (one, asked, outcome) in known {
        if outcome.passed() && matches!(asked, Asked::Request { .. }) {
            let place = (one.server.as_str(), asked.host(), asked.port());
            let (several, times) = let_go.entry(place).or_default();
            *several += 1;
            *times += one.count;
        }
    }
    let unsure = let_go.iter().filter_map(|(place, (several, times))| {
        let refused = dialled.get(place)?.times;
        (*several > 1 && refused < *times).then_some(refused)
    });
    unsure.sum()
}

/// What was let pass and refused where it was dialled was denied, as often as that is told; the rest passed.
fn parted(
    one: &KeptAttempt,
    outcome: Outcome,
    dialled: Option<&mut Dialled<'_>>,
) -> Vec<(Outcome, Option<IpAddr>, u64)> {
    let count = one.count;
    let Some(found) = dialled else {
        return vec![(outcome, None, count)];
    };
    let refused_at = found.refused.map(|(address, _)| address);
    if !outcome.passed() {
        return vec![(outcome, found.reached.or(refused_at), count)];
    }
    // Not what was asked for only later.
    let refused = match found.last {
        Some(last) if one.first.as_str() <= last => found.times.min(count),
        _ => 0,
    };
    found.times -= refused;
    let denied = found.refused.map(|(_, denied)| denied);
    let parts = [
        (denied.unwrap_or(outcome), refused_at, refused),
        (outcome, found.reached, count - refused),
    ];
    parts
        .into_iter()
        .filter(|(_, _, count)| *count > 0)
        .collect()
}

/// What an outcome tells of an address that is not public.
fn told(one: &KeptAttempt, outcome: Outcome) -> Option<(Place<'_>, Dialled<'_>)> {
    let host = Host::parse(one.what.host.as_deref()?).ok()?;
    let address: IpAddr = one.what.address.as_deref()?.parse().ok()?;
    let is_refused = outcome.is_of_address();
    let found = Dialled {
        reached: Some(address).filter(|_| !is_refused),
        refused: Some((address, outcome)).filter(|_| is_refused),
        times: if is_refused { one.count } else { 0 },
        last: is_refused.then_some(one.last.as_str()),
    };
    Some((
        (&one.server, host, one.what.port.and_then(Port::new)),
        found,
    ))
}

fn asked(what: &What) -> Option<Asked> {
    let host = what.host.as_deref()?;
    let protocol = what.protocol.as_deref().and_then(AppProtocol::of_word);
    let port = what.port.and_then(Port::new);
    Some(match what.event.as_str() {
        "dns" => Asked::Name(Fqdn::parse(host).ok()?),
        "request" | SECRET_USE => Asked::Request {
            host: Host::parse(host).ok()?,
            port: port?,
            protocol: protocol?,
            method: what.method.as_deref()?.into(),
            path: what.path.as_deref()?.into(),
        },
        "connect" => Asked::Connection {
            host: Host::parse(host).ok()?,
            port: port?,
            protocol,
        },
        _ => return None,
    })
}

fn outcome(what: &What) -> Option<Outcome> {
    let reason = match &what.reason {
        None => Some(DenyReason::Internal),
        Some(word) => DenyReason::of_word(word),
    };
    match what.verdict.as_str() {
        "allow" => Some(Outcome::Allowed),
        "would_deny" if !(what.event == "dns" && what.held) => reason.map(Outcome::Observed),
        "deny" | "would_deny" => reason.map(Outcome::Denied),
        _ => None,
    }
}

/// A secret went into what follows the head of a request.
const SECRET_USE: &str = "secret.use";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Position;

    fn kept(event: &str, verdict: &str, host: &str, path: Option<&str>) -> KeptAttempt {
        KeptAttempt {
            server: "docs".to_owned(),
            what: What {
                event: event.to_owned(),
                verdict: verdict.to_owned(),
                reason: (verdict != "allow").then(|| "host_not_allowed".to_owned()),
                host: Some(host.to_owned()),
                port: (event != "dns").then_some(443),
                protocol: (event != "dns").then(|| "https".to_owned()),
                method: path.map(|_| "GET".to_owned()),
                path: path.map(str::to_owned),
                ..What::default()
            },
            count: 3,
            first: "1".to_owned(),
            last: "2".to_owned(),
            newest: Position { chain: 1, seq: 1 },
        }
    }

    fn words(kept: &[KeptAttempt]) -> Vec<String> {
        let attempts = of_kept(kept).0.attempts;
        let words = attempts
            .iter()
            .map(|one| format!("{} {:?}", one.asked, one.outcome));
        words.collect()
    }

    #[test]
    fn what_says_less_is_left_out_and_what_was_denied_stays() {
        let all = [
            kept("dns", "allow", "a.example", None),
            kept("connect", "allow", "a.example", None),
            kept("request", "deny", "a.example", Some("/x")),
            kept("dns", "deny", "b.example", None),
            kept("connect", "deny", "a.example", None),
            kept("connect", "allow", "c.example", None),
        ];
        assert_eq!(
            words(&all),
            [
                "GET https://a.example:443/x Denied(HostNotAllowed)",
                "name b.example Denied(HostNotAllowed)",
                "https a.example:443 Denied(HostNotAllowed)",
                "https c.example:443 Allowed"
            ]
        );
        assert_eq!(of_kept(&all).0.records, 18);
    }

    #[test]
    fn a_request_carried_what_its_head_and_what_followed_carried() {
        let mut head = kept("request", "allow", "a.example", Some("/x"));
        head.what.secrets = vec!["HEAD".to_owned()];
        let mut body = kept(SECRET_USE, "allow", "a.example", Some("/x"));
        body.what.secrets = vec!["BODY".to_owned()];
        let plain = kept("request", "allow", "a.example", Some("/y"));
        let (traffic, unreadable) = of_kept(&[body, head, plain]);
        let secrets = |at: usize| traffic.attempts[at].secrets.join(" ");
        assert_eq!(
            (secrets(0).as_str(), secrets(1).as_str()),
            ("BODY HEAD", "")
        );
        assert_eq!(
            (traffic.attempts.len(), traffic.records, unreadable),
            (2, 6, 0)
        );
    }

    #[test]
    fn of_refusals_that_are_told_of_a_place_it_is_said_where_they_are_a_guess() {
        let mut outcome = kept("response", "deny", "a.example", None);
        outcome.what.address = Some("10.1.2.3".to_owned());
        outcome.what.reason = Some("private_address".to_owned());
        let asked = |path| kept("request", "allow", "a.example", Some(path));
        let guessed = |all: &[KeptAttempt]| of_kept(all).0.guessed;
        let all = |times, paths: &[&'static str]| {
            let refused = KeptAttempt {
                count: times,
                ..outcome.clone()
            };
            let requests = paths.iter().map(|path| asked(path));
            std::iter::once(refused).chain(requests).collect::<Vec<_>>()
        };
        assert_eq!(guessed(&all(2, &["/x"])), 0, "there is one that it can be");
        assert_eq!(guessed(&all(6, &["/x", "/y"])), 0, "it was each of them");
        assert_eq!(guessed(&all(2, &["/x", "/y"])), 2);
    }

    /// They are read newest first.
    #[test]
    fn refusals_at_an_address_are_of_what_was_asked_for_before_them() {
        let at = |one: KeptAttempt, first: &str, last: &str| KeptAttempt {
            count: 1,
            first: first.to_owned(),
            last: last.to_owned(),
            ..one
        };
        let asked = |path| kept("request", "allow", "a.example", Some(path));
        let mut refused = kept("response", "deny", "a.example", None);
        refused.what.address = Some("10.1.2.3".to_owned());
        refused.what.reason = Some("private_address".to_owned());
        let mut all = [
            at(asked("/after"), "9", "9"),
            at(asked("/second"), "2", "2"),
            at(asked("/first"), "1", "1"),
            at(refused, "1", "3"),
        ];
        let denied = |all: &[KeptAttempt]| {
            let told = words(all).into_iter().filter(|one| one.contains("Denied"));
            told.filter_map(|one| one.split_whitespace().nth(1).map(str::to_owned))
                .collect::<Vec<_>>()
        };
        assert_eq!(denied(&all), ["https://a.example:443/first"]);
        // However many they are, what came behind the last of them is none.
        all[3].count = 3;
        let both = [
            "https://a.example:443/first",
            "https://a.example:443/second",
        ];
        assert_eq!(denied(&all), both);
    }

    #[test]
    fn an_address_that_is_not_public_is_that_of_what_was_asked_for() {
        let mut outcome = kept("response", "deny", "a.example", None);
        outcome.what.address = Some("10.1.2.3".to_owned());
        outcome.what.reason = Some("private_address".to_owned());
        let all = [outcome, kept("request", "allow", "a.example", Some("/x"))];
        let attempts = of_kept(&all).0.attempts;
        assert_eq!(attempts.len(), 1);
        assert_eq!(attempts[0].address, Some([10, 1, 2, 3].into()));
        assert_eq!(
            attempts[0].outcome,
            Outcome::Denied(DenyReason::PrivateAddress)
        );
        assert_eq!((attempts[0].count, &*attempts[0].first), (3, "1"));
    }

    #[test]
    fn one_refused_address_leaves_what_passed_as_it_was() {
        let mut outcome = kept("response", "deny", "a.example", None);
        outcome.what.address = Some("10.1.2.3".to_owned());
        outcome.what.reason = Some("private_address".to_owned());
        outcome.count = 1;
        let mut passed = kept("request", "allow", "a.example", Some("/x"));
        passed.count = 2_000_000;
        let attempts = of_kept(&[outcome, passed]).0.attempts;
        let told: Vec<_> = attempts
            .iter()
            .map(|one| (one.outcome, one.address, one.count))
            .collect();
        let denied = Outcome::Denied(DenyReason::PrivateAddress);
        assert_eq!(
            told,
            [
                (denied, Some([10, 1, 2, 3].into()), 1),
                (Outcome::Allowed, None, 1_999_999)
            ]
        );
    }

    #[test]
    fn what_passed_by_observing_is_told_from_what_was_denied() {
        let waiting = |held| {
            let mut name = kept("dns", "would_deny", "c.example", None);
            name.what.held = held;
            name
        };
        let all = [
            kept("dns", "would_deny", "a.example", None),
            kept("connect", "would_deny", "a.example", None),
            kept("request", "would_deny", "a.example", Some("/x")),
            kept("request", "deny", "b.example", Some("/x")),
        ];
        assert_eq!(
            words(&all),
            [
                "GET https://a.example:443/x Observed(HostNotAllowed)",
                "GET https://b.example:443/x Denied(HostNotAllowed)",
            ]
        );
        assert_eq!(
            words(&[waiting(false), waiting(true)]),
            [
                "name c.example Observed(HostNotAllowed)",
                "name c.example Denied(HostNotAllowed)",
            ]
        );
        // It was refused where it was dialled to, after all.
        let mut outcome = kept("response", "deny", "a.example", None);
        outcome.what.address = Some("169.254.169.254".to_owned());
        outcome.what.reason = Some("never_openable".to_owned());
        let [_, _, request, _] = all;
        assert_eq!(
            words(&[outcome, request]),
            ["GET https://a.example:443/x Denied(NeverOpenable)"]
        );
    }

    #[test]
    fn a_path_that_was_cut_is_read_all_the_same() {
        let path = format!("/{}…[4000 octets sha256:0]…x", "x".repeat(900));
        let cut = kept("request", "deny", "a.example", Some(&path));
        let (traffic, unreadable) = of_kept(&[cut]);
        assert_eq!((traffic.records, unreadable), (3, 0));
        assert!(traffic.attempts[0].asked.is_cut());
    }

    #[test]
    fn words_of_a_later_gig_are_counted_and_not_guessed() {
        let mut strange = kept("connect", "deny", "a.example", None);
        strange.what.reason = Some("a_reason_of_a_later_gig".to_owned());
        let (traffic, unreadable) = of_kept(&[strange, kept("dns", "allow", "not a name!", None)]);
        assert_eq!((traffic.attempts.len(), unreadable), (0, 6));
    }

    #[test]
    fn datagrams_are_for_no_rule() {
        let mut quic = kept("connect", "deny", "a.example", None);
        quic.what.protocol = Some("udp".to_owned());
        let (traffic, unreadable) = of_kept(&[quic.clone()]);
        assert_eq!((traffic.attempts.len(), unreadable), (0, 0));
        quic.what.protocol = None;
        assert_eq!(of_kept(&[quic]).0.attempts.len(), 1);
    }
}
