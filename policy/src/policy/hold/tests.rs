//! What waits for a word, and what a word lets pass.

use super::*;
use crate::{fqdn::Fqdn, verdict::Handling};

const HOLDING: &str = "version: 1
name: own
hold: 30s
egress:
  - {host: api.example.com, rules: [{methods: [GET], paths: [/a]}], secrets: [TOKEN]}
";

fn policy(text: &str) -> Policy {
    Policy::compile(text, "p").unwrap()
}

fn host(text: &str) -> Host {
    Host::parse(text).unwrap()
}

fn word() -> RuleRef {
    RuleRef("once:1".into())
}

fn post(path: &str) -> RequestIntent<'_> {
    RequestIntent {
        protocol: AppProtocol::Https,
        method: "POST",
        path,
    }
}

#[test]
fn a_name_that_could_be_allowed_is_answered_and_said_to_be_denied() {
    let name = Fqdn::parse("new.example").unwrap();
    let Verdict::Allow(permit) = policy(HOLDING).decide_name(&name) else {
        panic!("not answered");
    };
    let denial = permit.would_deny().unwrap();
    assert_eq!(denial.reason, DenyReason::HostNotAllowed);
    let silent = HOLDING.replace("hold: 30s\n", "");
    assert!(matches!(
        policy(&silent).decide_name(&name),
        Verdict::Deny(_)
    ));
    // A floor's no is final: nothing needs to arrive.
    let floor = policy("version: 1\negress: []\n");
    let under = policy(HOLDING).under(vec![floor]);
    assert!(matches!(under.decide_name(&name), Verdict::Deny(_)));
    // That a floor holds holds nothing.
    let under = policy(&silent).under(vec![policy(HOLDING)]);
    assert!(matches!(under.decide_name(&name), Verdict::Deny(_)));
}

#[test]
fn a_word_is_heard_by_no_policy_that_asks_nobody() {
    let new = host("new.example");
    let https = Some(AppProtocol::Https);
    let silent = policy(&HOLDING.replace("hold: 30s\n", ""));
    for policy in [silent, Policy::deny_all("nothing")] {
        let connect = policy.release_connect(&new, Port::HTTPS, https, &word());
        assert!(matches!(connect, Verdict::Deny(_)), "{connect:?}");
        let request = policy.release_request(&new, Port::HTTPS, &post("/a"), &word());
        assert!(matches!(request, Verdict::Deny(_)), "{request:?}");
    }
    let heard = policy(HOLDING).release_connect(&new, Port::HTTPS, https, &word());
    assert!(matches!(heard, Verdict::Allow(_)), "{heard:?}");
}

#[test]
fn a_word_lets_one_thing_pass_without_secrets_and_private_ranges() {
    let policy = policy(HOLDING);
    let new = host("new.example");
    let https = Some(AppProtocol::Https);
    assert!(matches!(
        policy.decide_connect(&new, Port::HTTPS, https),
        Verdict::Deny(_)
    ));
    let Verdict::Allow(permit) = policy.release_connect(&new, Port::HTTPS, https, &word()) else {
        panic!("denied");
    };
    assert!(permit.released() && permit.allow_private().is_empty());
    assert_eq!(permit.handling(), Handling::Inspect);
    assert_eq!(permit.rule(), Some(&word()));
    let known = host("api.example.com");
    let Verdict::Allow(permit) = policy.release_request(&known, Port::HTTPS, &post("/b"), &word())
    else {
        panic!("denied");
    };
    assert!(permit.released() && permit.secrets().is_empty());
    // What goes anyway goes by its rule.
    let get = RequestIntent {
        method: "GET",
        ..post("/a")
    };
    let Verdict::Allow(permit) = policy.release_request(&known, Port::HTTPS, &get, &word()) else {
        panic!("denied");
    };
    assert!(!permit.released() && permit.secrets().len() == 1);
}

#[test]
fn no_word_passes_a_floor_or_the_core_that_nothing_opens() {
    let floor = policy("version: 1\nname: company\negress:\n  - {host: '*.example.com'}\n");
    let under = policy(HOLDING).under(vec![floor]);
    let new = host("new.example");
    let https = Some(AppProtocol::Https);
    let Verdict::Deny(denial) = under.release_connect(&new, Port::HTTPS, https, &word()) else {
        panic!("passes the floor");
    };
    assert!(denial.floor && under.holds(&new, &denial).is_none());
    let Verdict::Deny(_) = under.release_request(&new, Port::HTTPS, &post("/"), &word()) else {
        panic!("passes the floor");
    };
    let core = host("169.254.169.254");
    let policy = policy(HOLDING);
    let Verdict::Deny(denial) = policy.release_connect(&core, Port::HTTP, None, &word()) else {
        panic!("opens the core");
    };
    assert_eq!(denial.reason, DenyReason::NeverOpenable);
    assert!(policy.holds(&core, &denial).is_none());
}

#[test]
fn only_what_a_word_could_change_waits() {
    let policy = policy(HOLDING);
    let waits = |text: &str| {
        let host = host(text);
        match policy.decide_connect(&host, Port::HTTPS, None) {
            Verdict::Deny(denial) => policy.holds(&host, &denial).is_some(),
            Verdict::Allow(_) => panic!("allowed"),
        }
    };
    assert!(waits("new.example") && waits("203.0.114.7"));
    assert!(!waits("10.1.2.3") && !waits("127.0.0.1"));
    // An address that a rule opens, and a path of it that none does.
    let opened = "  - {ip: 10.1.2.3, allow_private: [10.1.2.3/32], rules: [{paths: [/a]}]}\n";
    let opened = Policy::compile(&format!("{HOLDING}{opened}"), "p").unwrap();
    let own = host("10.1.2.3");
    let Verdict::Deny(denial) = opened.decide_request(&own, Port::HTTPS, &post("/b")) else {
        panic!("allowed");
    };
    assert!(opened.holds(&own, &denial).is_some());
    let denial = |reason| Denial {
        reason,
        policy: policy.reference().clone(),
        rule: None,
        hint: String::new(),
        floor: false,
    };
    for reason in DenyReason::ALL {
        let held = policy
            .holds(&host("new.example"), &denial(*reason))
            .is_some();
        assert_eq!(held, reason.is_of_rules(), "{reason}");
    }
    let told = policy.explain("GET", "https://new.example/").unwrap();
    assert_eq!(told.verdict, "deny");
    assert!(
        told.notes.iter().any(|note| note.contains("30 seconds")),
        "{told}"
    );
}
