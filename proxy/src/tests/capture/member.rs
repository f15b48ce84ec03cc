//! A token in a member of the answer's body whose name says nothing: the policy says that it holds one.

use super::*;

#[tokio::test]
async fn a_member_that_the_policy_names_gets_a_sentinel() {
    let world = World::new("http/1.1").await;
    let answer = world.send("auth.test", "http/1.1", post("/token/key", "code=b"));
    let json = answer.await.json();
    let token = json["key"].as_str().unwrap();
    assert!(
        token.starts_with("gigph-") && json["user_id"] == "u",
        "{json}"
    );
    let used = world.send("api.test", "http/1.1", bearing(token)).await;
    let seen = world.api.seen.requests().pop().unwrap();
    assert_eq!(seen.header("authorization"), format!("Bearer {ACCESS}"));
    assert_eq!(used.body, format!("Bearer {token}"));
    world.assert_nothing_recorded();
}
