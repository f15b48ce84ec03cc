//! What Health says of the provider: nothing before it was asked, then as it was last.

use super::*;

async fn part(lab: &Lab) -> Option<(bool, String)> {
    let parts = lab.app.health().await.into_iter();
    let mut parts = parts.filter(|one| &*one.part == "single sign-on");
    parts
        .next()
        .map(|one| (one.works, one.words.as_ref().to_owned()))
}

#[tokio::test]
async fn health_says_how_the_provider_was_when_it_was_asked_last() {
    let mut round = Round::new();
    assert_eq!(part(&round.lab).await, None);
    round.sign_on(json!({})).await.ok().unwrap();
    let (works, words) = part(&round.lab).await.unwrap();
    assert!(
        works && words.starts_with("idp.example vouched for"),
        "{words}"
    );
    // Somebody without a role is no fault of it; nor is a token that is not to be believed.
    let nobody = round.sign_on(json!({"sub": "u2", "groups": ["none"]}));
    assert!(nobody.await.is_err());
    assert!(
        round
            .sign_on(json!({"iss": "https://evil.example"}))
            .await
            .is_err()
    );
    assert!(part(&round.lab).await.unwrap().0);
    let (url, cookie) = round.begin().await;
    round.lab.outbound.answer(TOKEN, |_| {
        Err(OutboundError::Large {
            host: "idp.example".to_owned(),
            largest: 1,
        })
    });
    assert!(round.back(&url, &cookie).await.is_err());
    let (works, words) = part(&round.lab).await.unwrap();
    assert!(!works && words.contains("more than 1 octets"), "{words}");
    round.sign_on(json!({})).await.ok().unwrap();
    assert!(part(&round.lab).await.unwrap().0);
    // Where it cannot even be begun.
    round = Round::new();
    let mut wrong = described();
    wrong["issuer"] = json!("https://evil.example");
    round.lab.outbound.json(DISCOVERY, &wrong);
    for _ in 0..2 {
        let refused = super::words(round.sso.begin(&round.lab.app, "/").await);
        let (works, words) = part(&round.lab).await.unwrap();
        assert!(!works && words.contains("idp.example cannot be used"));
        // Why, not that it was asked a moment ago.
        let why = words.split_once("Z: ").unwrap().1;
        let why = why.split(';').next().unwrap();
        assert!(refused.ends_with(why), "{refused}: {why}");
    }
}
