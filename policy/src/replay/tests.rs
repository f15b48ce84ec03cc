//! `replay`: what it promises, tried.

use super::*;
use crate::{
    host::{Host, Port},
    intent::AppProtocol,
};

fn policy(egress: &str) -> Policy {
    Policy::compile(&format!("version: 1\nname: p\n{egress}"), "p").unwrap()
}

fn request(method: &str, url: &str, outcome: Outcome, time: &str) -> Attempt {
    let (host, path) = url.split_once('/').unwrap();
    Attempt {
        asked: Asked::Request {
            host: Host::parse(host).unwrap(),
            port: Port::HTTPS,
            protocol: AppProtocol::Https,
            method: method.into(),
            path: format!("/{path}").into(),
        },
        address: None,
        secrets: Vec::new(),
        entrusted: Vec::new(),
        outcome,
        first: time.into(),
        time: time.into(),
        count: 1,
    }
}

#[test]
fn each_attempt_is_decided_again() {
    let was = Outcome::Denied(DenyReason::HostNotAllowed);
    let limited = Outcome::Denied(DenyReason::RequestRate);
    let attempts = [
        request("GET", "new.example.com/a", was, "2"),
        request("GET", "new.example.com/a", was, "1"),
        request("POST", "new.example.com/a", was, "3"),
        request("GET", "kept.example.com/x", Outcome::Allowed, "4"),
        request("GET", "lost.example.com/y", Outcome::Allowed, "5"),
        request("GET", "new.example.com/a", limited, "6"),
    ];
    let draft = policy(
        "egress:\n\
         \x20 - {host: new.example.com, rules: [{methods: [GET]}]}\n\
         \x20 - {host: kept.example.com}\n",
    );
    let replay = draft.replay(&attempts);
    assert_eq!(
        (
            replay.still_allowed,
            replay.still_denied,
            replay.not_of_rules
        ),
        (1, 1, 1)
    );
    let [allowed] = replay.newly_allowed.as_slice() else {
        panic!("{replay:?}");
    };
    assert_eq!(
        (allowed.count, &*allowed.first, &*allowed.last),
        (2, "1", "2")
    );
    assert_eq!(
        allowed.rule.as_ref().unwrap().to_string(),
        "egress[0].rules[0]"
    );
    let [denied] = replay.newly_denied.as_slice() else {
        panic!("{replay:?}");
    };
    assert_eq!(denied.reason, DenyReason::HostNotAllowed);
    assert_eq!(
        denied.asked.to_string(),
        "GET https://lost.example.com:443/y"
    );
}

const NO_RULE: Outcome = Outcome::Denied(DenyReason::HostNotAllowed);
const OBSERVED: Outcome = Outcome::Observed(DenyReason::HostNotAllowed);

/// Newly allowed, newly denied, passing by observing alone, still passing, still denied.
fn counts(replay: &Replay) -> (usize, usize, usize, u64, u64) {
    (
        replay.newly_allowed.len(),
        replay.newly_denied.len(),
        replay.only_observed.len(),
        replay.still_allowed,
        replay.still_denied,
    )
}

#[test]
fn what_passed_or_passes_by_observing_is_told_from_both_sides() {
    let denied = request("GET", "a.example.com/", NO_RULE, "1");
    let seen = request("GET", "a.example.com/", OBSERVED, "1");
    let wiped = request("DELETE", "a.example.com/", OBSERVED, "2");
    let observing = policy("mode: observe\negress: []\n");
    let closed = policy("egress: []\n");
    // From enforcing to observing all of it passes, and by no rule.
    let replay = observing.replay([&denied]);
    assert_eq!(counts(&replay), (1, 0, 1, 0, 0));
    assert_eq!(replay.newly_allowed[0].rule, None);
    assert_eq!(replay.only_observed[0].reason, DenyReason::HostNotAllowed);
    assert_eq!(counts(&observing.replay([&seen])), (0, 0, 1, 1, 0));
    // From observing to enforcing what no rule lets pass is cut.
    let replay = closed.replay([&seen]);
    assert_eq!(counts(&replay), (0, 1, 0, 0, 0));
    let narrow = policy("egress:\n  - {host: a.example.com, rules: [{methods: [GET]}]}\n");
    let replay = narrow.replay([&seen, &wiped]);
    assert_eq!(counts(&replay), (0, 1, 0, 1, 0));
    assert_eq!(replay.newly_denied[0].reason, DenyReason::MethodNotAllowed);
    // No rule covers what merely passes.
    assert!(observing.covers(&seen.asked, None).is_err());
    // Nor does whoever waits for a person pass by observing.
    let name = Attempt {
        asked: Asked::Name(crate::Fqdn::parse("a.example.com").unwrap()),
        ..denied
    };
    let held = policy("hold: 60s\negress: []\n");
    assert_eq!(counts(&held.replay([&name])), (0, 0, 0, 0, 1));
    assert_eq!(counts(&observing.replay([&name])), (1, 0, 1, 0, 0));
}

#[test]
fn observing_opens_nothing_that_it_never_opens() {
    let observing = policy("mode: observe\negress: []\n");
    let at = |ip: [u8; 4], outcome| Attempt {
        address: Some(ip.into()),
        ..request("GET", "a.example.com/", outcome, "1")
    };
    let private = at([10, 1, 2, 3], Outcome::Denied(DenyReason::PrivateAddress));
    assert_eq!(counts(&observing.replay([&private])), (0, 0, 0, 0, 1));
    let core = at([169, 254, 169, 254], Outcome::Allowed);
    let replay = observing.replay([&core]);
    assert_eq!(replay.newly_denied[0].reason, DenyReason::NeverOpenable);
    let replay = observing.replay([&carrying("TOK", "a.example.com/")]);
    assert_eq!(replay.newly_denied[0].reason, DenyReason::SecretMisuse);
    // What observing let pass for a reason that no rule decides is none's doing where a rule lets it go.
    let meant = Outcome::Observed(DenyReason::MalformedRequest);
    let attempt = request("GET", "a.example.com/", meant, "1");
    let open = policy("egress:\n  - {host: a.example.com}\n");
    assert_eq!(open.replay([&attempt]).not_of_rules, 1);
    assert_eq!(counts(&policy("egress: []\n").replay([&attempt])).1, 1);
}

#[test]
fn a_cut_path_is_decided_as_far_as_it_does_not_matter() {
    let long = format!("a.example.com/{}…[4000 octets sha256:0]…x", "x".repeat(900));
    let (denied, passed) = (
        request("GET", &long, NO_RULE, "1"),
        request("GET", &long, Outcome::Allowed, "1"),
    );
    let both = [&denied, &passed];
    for (egress, want, unknown) in [
        ("egress: []\n", (0, 1, 0, 0, 1), 0),
        ("egress:\n  - {host: a.example.com}\n", (1, 0, 0, 1, 0), 0),
        (
            "egress:\n  - {host: a.example.com, rules: [{methods: [GET]}]}\n",
            (1, 0, 0, 1, 0),
            0,
        ),
        (
            "egress:\n  - {host: a.example.com, rules: [{methods: [PUT]}]}\n",
            (0, 1, 0, 0, 1),
            0,
        ),
        (
            "egress:\n  - {host: a.example.com, rules: [{paths: [\"/x*\", \"/**\"]}]}\n",
            (0, 0, 0, 0, 0),
            2,
        ),
        // It passes, and whether by a rule nobody knows.
        (
            "mode: observe\negress:\n  - {host: a.example.com, rules: [{paths: [/y]}]}\n",
            (1, 0, 0, 1, 0),
            0,
        ),
    ] {
        let replay = policy(egress).replay(both);
        assert_eq!(counts(&replay), want, "{egress}");
        assert_eq!(replay.path_unknown, unknown, "{egress}");
    }
}

#[test]
fn a_draft_of_a_floor_answers_for_what_it_denies_alone() {
    let named = |name: &str, host: &str| {
        let text = format!("version: 1\nname: {name}\negress:\n  - {{host: {host}.example.com}}\n");
        Policy::compile(&text, name).unwrap()
    };
    let attempts = ["a.example.com/x", "b.example.com/x", "c.example.com/x"];
    let attempts = attempts.map(|url| request("GET", url, Outcome::Allowed, "1"));
    let own = Policy::compile(
        "version: 1\nname: own\negress:\n  - {host: a.example.com}\n  - {host: b.example.com}\n",
        "own",
    )
    .unwrap();
    let with = own.under(vec![named("floor", "b")]);
    let replay = with.replay_beneath(&own, &attempts);
    assert_eq!(counts(&replay), (0, 1, 0, 1, 0));
    assert_eq!(
        replay.newly_denied[0].asked.host().to_string(),
        "a.example.com"
    );
    let others: Vec<_> = replay.by_others.into_iter().collect();
    let own_doing = Denier {
        policy: "own".into(),
        floor: false,
    };
    assert_eq!(others, [(own_doing, 1)]);
}

#[test]
fn two_comparisons_tell_of_the_same_once() {
    let attempt = |time| request("GET", "a.example.com/", Outcome::Allowed, time);
    let closed = policy("egress: []\n");
    let together = closed
        .replay([&attempt("5")])
        .and(closed.replay([&attempt("3")]));
    let [change] = together.newly_denied.as_slice() else {
        panic!("{together:?}");
    };
    assert_eq!((change.count, &*change.first, &*change.last), (2, "3", "5"));
}

#[test]
fn a_private_address_is_covered_only_where_it_is_opened() {
    let asked = Asked::Connection {
        host: Host::parse("10.1.2.3").unwrap(),
        port: Port::new(22).unwrap(),
        protocol: Some(AppProtocol::Tcp),
    };
    let closed = policy("egress:\n  - {ip: 10.1.2.3, ports: [22], protocol: tcp}\n");
    let open = policy(
        "egress:\n  - {ip: 10.1.2.3, ports: [22], protocol: tcp, allow_private: [10.1.2.3/32]}\n",
    );
    assert_eq!(
        closed.covers(&asked, None).is_ok(),
        closed
            .explain("CONNECT", "tcp://10.1.2.3:22")
            .unwrap()
            .passes()
    );
    assert!(open.covers(&asked, None).is_ok());
}

#[test]
fn a_refused_address_is_decided_again_where_it_is_known() {
    let refused = Outcome::Denied(DenyReason::PrivateAddress);
    let attempt = |address: Option<[u8; 4]>, outcome| Attempt {
        address: address.map(Into::into),
        ..request("GET", "db.example.com/", outcome, "1")
    };
    let attempts = [
        attempt(Some([10, 1, 2, 3]), refused),
        attempt(Some([10, 9, 9, 9]), refused),
        attempt(Some([10, 9, 9, 9]), Outcome::Allowed),
        attempt(None, refused),
    ];
    let draft = policy("egress:\n  - {host: db.example.com, allow_private: [10.1.0.0/16]}\n");
    let replay = draft.replay(&attempts);
    assert_eq!((replay.still_denied, replay.not_of_rules), (1, 1));
    assert_eq!(
        (replay.newly_allowed.len(), replay.newly_denied.len()),
        (1, 1)
    );
    assert_eq!(replay.newly_allowed[0].reason, DenyReason::PrivateAddress);
    assert_eq!(replay.newly_denied[0].reason, DenyReason::PrivateAddress);
}

#[test]
fn what_was_tried_often_is_one_change_and_counts_as_often() {
    let often = Attempt {
        first: "1".into(),
        count: 2000,
        ..request("GET", "a.example.com/", Outcome::Allowed, "5")
    };
    let once = request("GET", "a.example.com/", Outcome::Allowed, "3");
    let closed = policy("egress: []\n").replay([&once, &often]);
    let change = &closed.newly_denied[0];
    assert_eq!((closed.newly_denied.len(), change.count), (1, 2001));
    assert_eq!((&*change.first, &*change.last), ("1", "5"));
    let open = policy("egress:\n  - {host: a.example.com}\n").replay([&often]);
    assert_eq!(open.still_allowed, 2000);
}

fn carrying(secret: &str, url: &str) -> Attempt {
    Attempt {
        secrets: vec![secret.into()],
        entrusted: Vec::new(),
        ..request("GET", url, Outcome::Allowed, "1")
    }
}

#[test]
fn a_draft_that_merely_grants_a_secret_no_more_denies_what_carried_it() {
    let attempt = carrying("TOK", "api.example.com/a");
    let with = policy("egress:\n  - {host: api.example.com, secrets: [OTHER, TOK]}\n");
    assert_eq!(with.replay([&attempt]).still_allowed, 1);
    for without in [
        "egress:\n  - {host: api.example.com}\n",
        "egress:\n  - {host: api.example.com, secrets: [OTHER]}\n",
        "egress:\n  - {host: api.example.com, tls: passthrough}\n",
    ] {
        let replay = policy(without).replay([&attempt]);
        let [denied] = replay.newly_denied.as_slice() else {
            panic!("{without}: {replay:?}");
        };
        assert_eq!(denied.reason, DenyReason::SecretMisuse);
        assert_eq!(denied.rule.as_ref().unwrap().to_string(), "egress[0]");
    }
}

/// What a connection carried unopened goes on only where its rule entrusts it.
#[test]
fn a_draft_that_entrusts_a_value_no_more_denies_the_connection_that_carried_it() {
    let connection = Attempt {
        asked: Asked::Connection {
            host: Host::parse("db.example.com").unwrap(),
            port: Port::new(5432).unwrap(),
            protocol: Some(AppProtocol::Tcp),
        },
        entrusted: vec!["PW".into()],
        ..carrying("PW", "db.example.com/")
    };
    let rule = |more: &str| {
        policy(&format!(
            "egress:\n  - {{host: db.example.com, ports: [5432], protocol: tcp{more}}}\n"
        ))
    };
    let with = rule(", secrets: [{name: PW, entrusted: true}]");
    assert_eq!(with.replay([&connection]).still_allowed, 1);
    let replay = rule("").replay([&connection]);
    let [denied] = replay.newly_denied.as_slice() else {
        panic!("{replay:?}");
    };
    assert_eq!(denied.reason, DenyReason::SecretMisuse);
}

#[test]
fn what_a_floor_denies_already_is_not_the_drafts_doing() {
    let floor = Policy::compile(
        "version: 1\nname: company\negress:\n  - {host: a.example.com}\n",
        "f",
    )
    .unwrap();
    let draft = policy("egress:\n  - {host: b.example.com}\n").under(vec![floor]);
    let attempts = ["a.example.com/x", "b.example.com/x", "c.example.com/x"];
    let attempts = attempts.map(|url| request("GET", url, Outcome::Allowed, "1"));
    let replay = draft.replay(&attempts);
    let denied: Vec<_> = replay
        .newly_denied
        .iter()
        .map(|one| one.asked.host().to_string())
        .collect();
    assert_eq!(denied, ["a.example.com"]);
    let company = Denier {
        policy: "company".into(),
        floor: true,
    };
    assert_eq!(
        replay.by_others.into_iter().collect::<Vec<_>>(),
        [(company, 2)]
    );
}
