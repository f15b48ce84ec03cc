//! What a program sends where no rule lets it go: denied anyway, and told of as the theft of a key that it is.

use gig_audit::Event;
use gig_policy::DenyReason;
use http::{Request, StatusCode};

use super::{World, with};
use crate::tests::lab::client::empty;

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
