//! What the first page shows of the record.

use gig_audit::{Entry, Event, VerdictWord};

use super::furnished::{Ask, Furnished};
use crate::role::Role;

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
