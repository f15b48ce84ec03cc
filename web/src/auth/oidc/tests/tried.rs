//! What counts as a try of who comes back, and what does not.

use super::*;

#[tokio::test]
async fn what_fails_at_the_provider_is_nobodys_try_and_what_it_denies_is() {
    let round = Round::new();
    let app = &round.lab.app;
    // One is left: behind what stands in front nobody is told apart.
    for _ in 0..999 {
        app.limits
            .attempt(Tried::Provider, None, app.now())
            .unwrap();
    }
    for _ in 0..5 {
        // Its token endpoint is away.
        let (url, cookie) = round.begin().await;
        let refused = words(round.back(&url, &cookie).await);
        assert!(refused.contains("cannot be used"), "{refused}");
    }
    let refused = words(round.sign_on(json!({"nonce": "another"})).await);
    assert!(refused.contains("claim nonce"), "{refused}");
    let refused = round.sign_on(json!({})).await.err();
    assert!(matches!(refused, Some(Refused::TooMany(_))), "{refused:?}");
}
