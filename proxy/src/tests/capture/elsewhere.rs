//! A captured token where its secret is not bound: on its way there, and on its way back from there.

use gig_audit::Event;
use gig_policy::DenyReason;
use http::StatusCode;

use super::{ACCESS, World, bearing, post};
use crate::tests::lab::client::get;

#[tokio::test]
async fn a_captured_token_is_sent_to_no_other_host() {
    let world = World::new("http/1.1").await;
    // Before there is a token this host is reached like any other.
    let plain = world.send("other.test", "http/1.1", bearing("none")).await;
    assert_eq!(plain.status, StatusCode::OK, "{plain:?}");
    assert_eq!(world.other.seen.requests().len(), 1);
    let (access, _) = world.log_in().await;
    let refused = world.send("other.test", "http/1.1", bearing(&access)).await;
    assert_eq!(refused.json()["reason"], "secret_misuse");
    // `--secret` of a name that logins take is refused.
    let hint = refused.json()["hint"].to_string();
    assert!(
        hint.contains("under `secrets`") && !hint.contains("--secret"),
        "{hint}"
    );
    let alarms = world.lab.until_records(Event::SecretMisuse, 1).await;
    assert_eq!(&*alarms[0].entry.secrets[0], "LOGIN");
    // The value itself, however the program came by it.
    let refused = world.send("other.test", "http/1.1", bearing(ACCESS)).await;
    assert_eq!(refused.json()["reason"], "secret_misuse");
    // Another sandbox's wallet has none of it.
    let neighbour = world
        .keeper
        .wallet(gig_policy::SandboxId::new(uuid::Uuid::from_u128(9)));
    assert!(neighbour.held().is_empty());
    world.lab.assert_denied_for(DenyReason::SecretMisuse);
    assert_eq!(world.other.seen.requests().len(), 1, "neither arrived");
}

#[tokio::test]
async fn a_captured_token_that_comes_back_elsewhere_is_its_sentinel() {
    let world = World::new("http/1.1").await;
    let (access, _) = world.log_in().await;
    let answer = world
        .send(
            "auth.test",
            "http/1.1",
            post("/other", &format!("seen: {ACCESS}")),
        )
        .await;
    // It was refused on its way out already.
    assert_eq!(answer.json()["reason"], "secret_misuse");
    // An answer that has it unasked, at a place that captures nothing.
    for alpn in ["http/1.1", "h2"] {
        let said = world.send("auth.test", alpn, get("/other/said")).await;
        assert_eq!(said.status, StatusCode::OK, "{said:?}");
        assert_eq!(said.json()["session"], access.as_str(), "{said:?}");
    }
    world.assert_nothing_recorded();
    let used = world.send("api.test", "http/1.1", bearing(&access)).await;
    assert_eq!(used.body, format!("Bearer {access}"));
}
