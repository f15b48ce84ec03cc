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

#[test]
fn observing_covers_nothing() {
    let observing = policy("mode: observe\negress: []\n");
    let attempt = request("GET", "a.example.com/", Outcome::Allowed, "1");
    assert_eq!(observing.replay([&attempt]).newly_denied.len(), 1);
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
    assert_eq!(
        replay.by_floor.into_iter().collect::<Vec<_>>(),
        [("company".into(), 2)]
    );
}
