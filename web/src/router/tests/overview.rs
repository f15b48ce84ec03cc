//! What the first page shows of the record.

use gig_audit::{Entry, Event, VerdictWord};

use super::furnished::{Ask, Furnished, denial};
use crate::{
    role::Role,
    store::{Change, Vouched},
};

#[tokio::test]
async fn what_was_denied_last_is_of_traffic_alone() {
    let appliance = Furnished::new().await;
    // As many as fit, and newer than the one of traffic: somebody who is refused fills it with nothing.
    let refused = (0..50).map(|_| {
        let mut entry = Entry::new(Event::Auth);
        entry.verdict = Some(VerdictWord::Deny);
        entry.profile = Some("mallory".into());
        entry.findings = vec!["refused what mallory presented".into()];
        entry
    });
    appliance.record(refused).await;
    let token = appliance.token("dan", Role::Admin, ("", ""));
    let page = async |what: &str| {
        let ask = Ask {
            token: &token,
            ..Ask::of(what)
        };
        let shown = appliance.ask(ask).await;
        assert_eq!(shown.status, 200, "{what}: {shown:?}");
        shown.body
    };
    let overview = page("GET /").await;
    let denial = format!("/audit/{}\"", appliance.record);
    assert!(overview.contains(&denial), "{overview}");
    assert!(!overview.contains("mallory"), "{overview}");
    let all = page("GET /audit?verdict=deny").await;
    assert!(all.contains("mallory") && !all.contains(&denial), "{all}");
}

#[tokio::test]
async fn of_a_destination_that_waits_the_denials_of_its_host_are_counted_that_would_be_denied_still()
 {
    let appliance = Furnished::new().await;
    let token = appliance.token("dan", Role::Admin, ("", ""));
    let others = ["/y", "/y", "/z"];
    let others = others.map(|path| denial(&appliance.sandbox, ("ana", "new.example", path)));
    appliance.record(others).await;
    let ask = async |what: &str| {
        let ask = Ask {
            token: &token,
            ..Ask::of(what)
        };
        let shown = appliance.ask(ask).await;
        assert_eq!(shown.status, 200, "{what}: {shown:?}");
        shown
    };
    let count = async || ask("GET /api/v1/held").await.json()["denied"][0]["count"].clone();
    assert_eq!(count().await, 4);
    let page = ask("GET /").await.body;
    assert!(page.contains("since=24h\">4<span"), "{page}");
    // What a rule lets pass by now is no part of what a button would open.
    let passes = "version: 1\nname: p\negress:\n  - {host: new.example, ports: [443], rules: [{methods: [GET], paths: [/y]}]}\n";
    appliance.lab.make(&Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected: None,
        document: passes.to_owned(),
        reason: String::new(),
        secrets: Vouched::Freely,
    });
    assert_eq!(count().await, 2);
}
