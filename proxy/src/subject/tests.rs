//! Opening, cutting and closing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt as _;
use gig_policy::{AppProtocol, DenyReason, Host, Moment, Policy, Port, SandboxId, Verdict};

use super::{ConnectionFacts, Subject};

fn subject() -> Arc<Subject> {
    Subject::new(
        SandboxId::new(uuid::Uuid::nil()),
        [10, 200, 0, 2].into(),
        [10, 200, 0, 1].into(),
        Policy::deny_all("none"),
    )
}

#[test]
fn a_connection_over_the_limit_is_refused_and_a_dropped_one_makes_room() {
    let subject = subject();
    let mut open: Vec<_> = (0..64).map(|_| subject.accept().unwrap()).collect();
    assert_eq!(subject.accept().unwrap_err(), DenyReason::ConnectionLimit);
    open.pop();
    assert_eq!(subject.connections(), 63);
    assert!(subject.accept().is_ok());
}

#[test]
fn connection_numbers_differ() {
    let subject = subject();
    let (a, b) = (subject.accept().unwrap(), subject.accept().unwrap());
    assert_ne!(a.id(), b.id());
}

#[tokio::test(start_paused = true)]
async fn closing_cuts_and_waits_for_the_last_guard() {
    let subject = subject();
    let guard = subject.accept().unwrap();
    let closing = subject.close();
    tokio::pin!(closing);
    let early = tokio::time::timeout(Duration::from_secs(1), closing.as_mut()).await;
    assert!(early.is_err(), "returned while a guard lives");
    assert_eq!(guard.revoked().await, DenyReason::ShuttingDown);
    assert_eq!(subject.accept().unwrap_err(), DenyReason::ShuttingDown);
    drop(guard);
    tokio::time::timeout(Duration::from_secs(1), closing)
        .await
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_for_nobody_yet_survives_a_policy_change() {
    let subject = subject();
    let guard = subject.accept().unwrap();
    subject.set_policy(Policy::deny_all("other"));
    assert_eq!(guard.cut_for(), None);
    assert_eq!(&*subject.policy().reference().name, "other");
}

fn compiled(rules: &str) -> Policy {
    Policy::compile(&format!("version: 1\nname: p\negress:\n{rules}"), "p.yaml").unwrap()
}

fn facts(policy: &Policy, host: &str, protocol: AppProtocol) -> ConnectionFacts {
    let host = Host::parse(host).unwrap();
    match policy.decide_connect(&host, Port::HTTPS, Some(protocol)) {
        Verdict::Allow(permit) => ConnectionFacts::new(&permit, Some(protocol)),
        Verdict::Deny(denial) => panic!("{denial}"),
    }
}

const HTTPS: AppProtocol = AppProtocol::Https;

#[tokio::test(start_paused = true)]
async fn a_changed_policy_cuts_what_it_no_longer_allows_and_nothing_else() {
    let subject = subject();
    let both = compiled("  - {host: a.example}\n  - {host: b.example}\n");
    subject.set_policy(both.clone());
    let (a, b) = (subject.accept().unwrap(), subject.accept().unwrap());
    a.permit(facts(&both, "a.example", HTTPS)).unwrap();
    b.permit(facts(&both, "b.example", HTTPS)).unwrap();
    subject.set_policy(compiled("  - {host: b.example}\n"));
    assert_eq!(a.revoked().await, DenyReason::Revoked);
    assert_eq!(b.cut_for(), None);
    // Decided before the change, told after it.
    let late = subject.accept().unwrap();
    assert_eq!(
        late.permit(facts(&both, "a.example", HTTPS)),
        Err(DenyReason::Revoked)
    );
}

#[test]
fn an_unopened_connection_is_cut_when_it_must_be_opened() {
    let subject = subject();
    let passed = compiled("  - {host: a.example, tls: passthrough}\n");
    subject.set_policy(passed.clone());
    let guard = subject.accept().unwrap();
    guard.permit(facts(&passed, "a.example", HTTPS)).unwrap();
    subject.set_policy(passed);
    assert_eq!(guard.cut_for(), None);
    subject.set_policy(compiled("  - {host: a.example}\n"));
    assert_eq!(guard.cut_for(), Some(DenyReason::Revoked));
}

#[test]
fn a_connection_to_a_private_address_is_cut_when_its_range_is_closed() {
    let subject = subject();
    let open = compiled("  - {host: a.example, allow_private: [10.0.0.0/8]}\n");
    subject.set_policy(open.clone());
    let guard = subject.accept().unwrap();
    let to_ten = facts(&open, "a.example", HTTPS).to_private(Some([10, 0, 0, 1].into()));
    guard.permit(to_ten).unwrap();
    subject.set_policy(compiled(
        "  - {host: a.example, allow_private: [10.1.0.0/16]}\n",
    ));
    assert_eq!(guard.cut_for(), Some(DenyReason::Revoked));
}

#[test]
fn a_running_request_is_cut_alone() {
    let subject = subject();
    let wide = compiled("  - {host: a.example}\n");
    subject.set_policy(wide.clone());
    let guard = subject.accept().unwrap();
    guard.permit(facts(&wide, "a.example", HTTPS)).unwrap();
    let running = |method: &str, path: &str| {
        let facts = facts(&wide, "a.example", HTTPS).with_request(method.into(), path.into());
        guard.open(facts).unwrap()
    };
    let (stays, goes) = (running("GET", "/in"), running("GET", "/out"));
    let rules = "  - {host: a.example, rules: [{methods: [GET], paths: [/in]}]}\n";
    subject.set_policy(compiled(rules));
    assert_eq!(goes.cut_for(), Some(DenyReason::Revoked));
    assert_eq!(stays.cut_for(), None);
    assert_eq!(guard.cut_for(), None);
    // A request does not count as a connection.
    assert_eq!(subject.connections(), 1);
    // What cuts the connection cuts its requests.
    subject.set_policy(Policy::deny_all("none"));
    assert_eq!(stays.cut_for(), Some(DenyReason::Revoked));
}

#[test]
fn what_the_reach_opened_stays_until_the_reach_changes() {
    let subject = subject();
    let reaching = |reach| {
        let builder = gig_policy::PolicyBuilder::new("p")
            .reach(reach)
            .allow("a.example")
            .unwrap();
        builder.build().unwrap()
    };
    let local = reaching(gig_policy::Reach::Local);
    subject.set_policy(local.clone());
    let guard = subject.accept().unwrap();
    let to_ten = facts(&local, "a.example", HTTPS).to_private(Some([10, 0, 0, 1].into()));
    guard.permit(to_ten).unwrap();
    subject.set_policy(local);
    assert_eq!(guard.cut_for(), None);
    subject.set_policy(reaching(gig_policy::Reach::External));
    assert_eq!(guard.cut_for(), Some(DenyReason::Revoked));
}

#[test]
fn a_request_is_cut_when_its_secret_is_no_longer_granted() {
    let subject = subject();
    let text = |secrets: &str| {
        let rules = format!("  - {{host: a.example, secrets: [{secrets}]}}\n");
        Policy::compile(&format!("version: 1\nname: p\negress:\n{rules}"), "p").unwrap()
    };
    let both = text("ONE, TWO");
    subject.set_policy(both.clone());
    let guard = subject.accept().unwrap();
    let intent = gig_policy::RequestIntent {
        protocol: AppProtocol::Https,
        method: "GET",
        path: "/",
    };
    let host = Host::parse("a.example").unwrap();
    let Verdict::Allow(permit) = both.decide_request(&host, Port::HTTPS, &intent) else {
        panic!("not allowed");
    };
    let granted = |secrets: &[gig_policy::SecretGrant]| {
        facts(&both, "a.example", HTTPS)
            .with_request("GET".into(), "/".into())
            .with_secrets(secrets)
    };
    let carries_both = guard.open(granted(permit.secrets())).unwrap();
    let carries_none = guard.open(granted(&[])).unwrap();
    subject.set_policy(text("TWO, ONE"));
    assert_eq!(carries_both.cut_for(), None);
    subject.set_policy(text("'TWO'"));
    assert_eq!(carries_both.cut_for(), Some(DenyReason::Revoked));
    assert_eq!((carries_none.cut_for(), guard.cut_for()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_rule_ends_in_time_and_what_it_alone_allowed_is_cut() {
    // What time it is, as this test says.
    static NOW: AtomicI64 = AtomicI64::new(0);
    let mut subject = subject();
    Arc::get_mut(&mut subject).unwrap().clock = || Moment::from_unix(NOW.load(Ordering::Relaxed));
    let policy = compiled(
        "  - {host: a.example, expires: \"1970-01-01T00:01:40Z\"}\n  - {host: b.example}\n",
    );
    subject.set_policy(policy.clone());
    let (a, b) = (subject.accept().unwrap(), subject.accept().unwrap());
    a.permit(facts(&policy, "a.example", HTTPS)).unwrap();
    b.permit(facts(&policy, "b.example", HTTPS)).unwrap();
    let within = |seconds| tokio::time::timeout(Duration::from_secs(seconds), a.revoked());
    assert!(within(3600).await.is_err(), "it ended before its time");
    NOW.store(100, Ordering::Relaxed);
    assert_eq!(within(1).await, Ok(DenyReason::Revoked));
    assert_eq!(b.cut_for(), None);
    let host = Host::parse("a.example").unwrap();
    let decided = subject.policy().decide_connect(&host, Port::HTTPS, None);
    assert!(matches!(decided, Verdict::Deny(_)));
    let late = subject.accept().unwrap();
    let late = late.permit(facts(&policy, "a.example", HTTPS));
    assert_eq!(late, Err(DenyReason::Revoked));
}

#[test]
fn a_rule_that_has_ended_is_never_decided_by_whoever_asks_first() {
    let subject = subject();
    let ended = compiled("  - {host: a.example, expires: \"2020-01-01T00:00:00Z\"}\n");
    subject.set_policy(ended.clone());
    let guard = subject.accept().unwrap();
    let permitted = guard.permit(facts(&ended, "a.example", HTTPS));
    assert_eq!(permitted, Err(DenyReason::Revoked));
    subject.set_policy(ended);
    assert_eq!(subject.policy().until(), None);
    let host = Host::parse("a.example").unwrap();
    let decided = subject.policy().decide_connect(&host, Port::HTTPS, None);
    assert!(matches!(decided, Verdict::Deny(_)));
}

#[tokio::test(start_paused = true)]
async fn a_sandbox_is_through_when_none_of_its_own_connections_is_left() {
    let subject = subject();
    subject.set_policy(compiled("  - {host: api.example.com}\n"));
    // One to an origin is kept for the next request: nobody waits for it.
    let policy = subject.policy();
    let _kept = subject
        .open(facts(&policy, "api.example.com", HTTPS))
        .unwrap();
    let (guard, arriving) = (subject.accept().unwrap(), subject.arriving());
    subject.end();
    let drained = subject.drained();
    tokio::pin!(drained);
    for left in [Some(guard), None] {
        let early = tokio::time::timeout(Duration::from_secs(1), drained.as_mut()).await;
        assert!(early.is_err(), "through while something is left");
        drop(left);
    }
    drop(arriving);
    tokio::time::timeout(Duration::from_secs(1), drained)
        .await
        .unwrap();
    // What it wrote is no reason to let anything new in or out.
    subject.close().now_or_never();
    assert!(subject.accept().is_err());
}
