//! What a program sends where no rule lets it go: denied anyway, and told of as the theft of a key that it is.

use std::sync::Arc;

use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, StatusCode};

use super::{Arrangement, Keeper, Origin, World, echo, with};
use crate::{
    enforce::name::NameEnforcer,
    tests::{held::FakeDesk, lab::client::empty},
};

const VALUE: &str = "v4lue-of-the-token-1";

#[tokio::test]
async fn a_secret_towards_a_host_that_no_rule_names_is_alarmed() {
    for real in [false, true] {
        for in_path in [false, true] {
            let world = World::new("elsewhere.test", VALUE).await;
            let text = if real { VALUE } else { &world.sentinel };
            let request = if in_path {
                Request::get(format!("/a/{text}")).body(empty()).unwrap()
            } else {
                with("authorization", &format!("Bearer {text}"))
            };
            let answer = world.send("elsewhere.test", request).await;
            let what = format!("real {real}, in the path {in_path}");
            world.assert_misuse(&answer, &what).await;
        }
    }
}

#[tokio::test]
async fn what_carries_no_secret_and_what_is_denied_at_its_own_host_is_no_misuse() {
    let world = World::new("elsewhere.test", VALUE).await;
    let answer = world.send("elsewhere.test", with("x-key", "plain")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.json()["reason"], "host_not_allowed");
    assert!(world.lab.records(Event::SecretMisuse).is_empty());
    world.lab.assert_denied_for(DenyReason::HostNotAllowed);

    let world = World::new("narrow.test", VALUE).await;
    let request = Request::get("/no-rule-has-this")
        .header("x-key", &world.sentinel)
        .body(empty())
        .unwrap();
    let answer = world.send("narrow.test", request).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_ne!(answer.json()["reason"], "secret_misuse");
    assert!(world.lab.records(Event::SecretMisuse).is_empty());
}

#[tokio::test]
async fn nobody_is_asked_to_let_out_what_would_be_stopped_for_its_secret() {
    const HOLDING: &str = "
version: 1
name: asks
hold: 5m
egress:
  - {host: api.test, ports: [443], secrets: [TOKEN], rules: [{paths: [/open]}]}
";
    let origin = Origin::https("new.test", &["http/1.1"], echo).await;
    let keeper = Keeper::with(&[("TOKEN", VALUE)]);
    let desk = Arc::<FakeDesk>::default();
    let lab = Arrangement::new(HOLDING)
        .origin("new.test:443", &origin)
        .origin("api.test:443", &origin)
        .keeper(&keeper)
        .desk(&desk)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let ask = async |host: &str, path: &str| {
        let mut request = with("authorization", &format!("Bearer {sentinel}"));
        *request.uri_mut() = path.parse().unwrap();
        request.headers_mut().insert("host", host.parse().unwrap());
        lab.https(host, "http/1.1").await.send(request).await
    };
    let answer = ask("new.test", "/").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.json()["reason"], "secret_misuse");
    assert_eq!(desk.asked(), 0);
    lab.until_records(Event::SecretMisuse, 1).await;
    // At its own host a word for one request would let the secret go no more.
    let answer = ask("api.test", "/held").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(answer.json()["reason"], "path_not_allowed");
    assert_eq!(desk.asked(), 0);
    assert!(origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_secret_in_a_question_to_dns_that_nobody_answers_is_alarmed() {
    let world = World::new("elsewhere.test", VALUE).await;
    let (recorder, log) = gig_audit::Recorder::in_memory();
    let enforcer = NameEnforcer::new(recorder.into());
    let name = format!("{}.evil.test", world.sentinel);
    let subject = &world.lab.subject;
    let reason = DenyReason::UnsupportedProtocol;
    let denial = enforcer.refuse(subject, &name, "ANY", reason).await;
    assert_eq!(denial.reason, DenyReason::SecretMisuse);
    let events: Vec<_> = log.records().iter().map(|r| r.entry.event).collect();
    assert!(events.contains(&Event::SecretMisuse), "{events:?}");
}
