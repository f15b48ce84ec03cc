//! The question as GitHub documents it.

use super::*;
use crate::kind::fake_fetch::{FakeFetch, NOW, claims, field, mint, rsa_pem};

fn app(yaml: &str) -> GithubApp {
    GithubApp(serde_saphyr::from_str(yaml).unwrap())
}

#[tokio::test]
async fn an_installation_token_is_asked_for_as_documented() {
    let pem = rsa_pem();
    let token = format!("ghs_{}", "aB3".repeat(12));
    let fake = FakeFetch::answering(
        201,
        &format!(r#"{{"token":"{token}","expires_at":"2026-01-02T04:04:05Z","permissions":{{}}}}"#),
    );
    let kind = app(
        "{app_id: Iv1.abc, installation_id: 42, api_url: https://ghes.example.com/api/v3/, \
         repositories: [gig], permissions: {contents: read}}",
    );
    let minted = mint(&kind, &pem, &fake).await.unwrap();
    let asked = fake.asked();
    assert_eq!(
        asked.url,
        "https://ghes.example.com/api/v3/app/installations/42/access_tokens"
    );
    assert_eq!(
        asked.body.expose(),
        br#"{"permissions":{"contents":"read"},"repositories":["gig"]}"#
    );
    let bearer = field(&asked, "authorization").unwrap();
    let (header, claims) = claims(bearer.strip_prefix("Bearer ").unwrap(), &pem);
    assert_eq!(header["alg"], "RS256");
    assert_eq!(claims["iss"], "Iv1.abc");
    assert_eq!(claims["iat"], NOW - 60);
    assert_eq!(claims["exp"], NOW + 540);
    assert_eq!(minted.expires.unwrap().as_second(), NOW + 3600);
    let part = minted.parts.first().unwrap();
    assert_eq!(part.value.expose(), token.as_bytes());
    let crate::Shape::Like { prefix, .. } = &part.shape else {
        panic!("{:?}", part.shape);
    };
    assert_eq!(prefix, "ghs_");
}

#[tokio::test]
async fn an_app_that_is_gone_is_final() {
    let kind = app("{app_id: '1', installation_id: 42}");
    let pem = rsa_pem();
    for (status, is_final) in [(404, true), (401, true), (502, false), (201, false)] {
        let fake = FakeFetch::answering(status, r#"{"message":"Not Found"}"#);
        let error = mint(&kind, &pem, &fake).await.unwrap_err();
        assert_eq!(
            matches!(error, MintError::Refused { .. }),
            is_final,
            "{error}"
        );
    }
    assert_eq!(kind.0.api_url, "https://api.github.com");
}

#[test]
fn a_value_that_is_no_key_is_refused() {
    let kind = app("{app_id: '1', installation_id: 42}");
    for bad in [
        "",
        "hunter2",
        "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
    ] {
        assert!(kind.check(&bad.into()).is_err());
    }
}
