//! Questions to token endpoints, as the RFCs write them, and what becomes of the answers.

use super::*;
use crate::kind::{
    Kind, MintError,
    fake_fetch::{FakeFetch, NOW, claims, field, form, mint, rsa_pem},
};

fn client_credentials(yaml: &str) -> Oauth2ClientCredentials {
    Oauth2ClientCredentials(serde_saphyr::from_str(yaml).unwrap())
}

const BASIC: &str = "
endpoint: {token_url: https://auth.example.com/token}
client: {client_id: s6BhdRkqt3}
scope: read write
audience: https://api.example.com
";

/// RFC 6749 §4.4.2, with its example's client.
#[tokio::test]
async fn a_client_asks_in_its_own_name() {
    let fake = FakeFetch::answering(
        200,
        r#"{"access_token":"2YotnFZFEjr1zCsicMWpAA","token_type":"example","expires_in":3600}"#,
    );
    let minted = mint(&client_credentials(BASIC), "7Fjfp0ZBr1KtDRbnfVdmIw", &fake)
        .await
        .unwrap();
    let asked = fake.asked();
    assert_eq!(asked.url, "https://auth.example.com/token");
    assert_eq!(
        field(&asked, "authorization"),
        Some("Basic czZCaGRSa3F0Mzo3RmpmcDBaQnIxS3REUmJuZlZkbUl3")
    );
    assert_eq!(
        asked.body.expose(),
        b"grant_type=client_credentials&scope=read+write&audience=https%3A%2F%2Fapi.example.com"
    );
    let part = minted.parts.first().unwrap();
    assert_eq!(part.value.expose(), b"2YotnFZFEjr1zCsicMWpAA");
    assert_eq!(&*part.variable, "TOKEN");
    assert_eq!(minted.expires.unwrap().as_second(), NOW + 3600);
}

#[tokio::test]
async fn a_secret_goes_into_the_form_where_that_is_asked_for() {
    let fake = FakeFetch::answering(200, r#"{"access_token":"t","expires_in":"60"}"#);
    let kind = client_credentials(
        "{endpoint: {token_url: https://a/t}, client: {client_id: me, authentication: client_secret_post}}",
    );
    let minted = mint(&kind, "a&b=c", &fake).await.unwrap();
    let asked = fake.asked();
    assert_eq!(field(&asked, "authorization"), None);
    assert_eq!(form(&asked, "client_secret").as_deref(), Some("a%26b%3Dc"));
    assert_eq!(minted.expires.unwrap().as_second(), NOW + 60);
}

#[tokio::test]
async fn a_token_of_no_seconds_does_not_end() {
    let fake = FakeFetch::answering(200, r#"{"access_token":"t","expires_in":0}"#);
    let kind = client_credentials("{endpoint: {token_url: https://a/t}, client: {client_id: me}}");
    let minted = mint(&kind, "s", &fake).await.unwrap();
    assert_eq!(minted.expires, None);
}

#[tokio::test]
async fn a_private_key_signs_an_assertion() {
    let pem = rsa_pem();
    let kind = client_credentials(
        "{endpoint: {token_url: https://a/t}, client: {client_id: me, authentication: private_key_jwt, key_id: k1}}",
    );
    let fake = FakeFetch::answering(200, r#"{"access_token":"t"}"#);
    let minted = mint(&kind, &pem, &fake).await.unwrap();
    assert_eq!(minted.expires, None);
    let asked = fake.asked();
    let assertion = form(&asked, "client_assertion").unwrap();
    let (header, claims) = claims(&assertion, &pem);
    assert_eq!(
        header,
        serde_json::json!({"alg": "RS256", "typ": "JWT", "kid": "k1"})
    );
    assert_eq!(
        (&claims["iss"], &claims["sub"]),
        (&"me".into(), &"me".into())
    );
    assert_eq!(claims["aud"], "https://a/t");
    assert_eq!(claims["exp"], NOW + 300);
    assert!(
        !asked
            .body
            .expose()
            .windows(7)
            .any(|part| part == b"PRIVATE")
    );
}

#[tokio::test]
async fn what_the_endpoint_refuses_is_final_and_what_passes_is_not() {
    let kind = client_credentials(BASIC);
    for (status, body, is_final) in [
        (
            401,
            r#"{"error":"invalid_client","error_description":"7Fjfp"}"#,
            true,
        ),
        (400, r#"{"error":"invalid_scope"}"#, true),
        (403, "", true),
        (503, r#"{"error":"temporarily_unavailable"}"#, false),
        (400, r#"{"error":"slow_down"}"#, false),
        (429, "", false),
        (500, "<html>", false),
        (200, "{}", false),
        (200, "not json 7Fjfp", false),
    ] {
        let fake = FakeFetch::answering(status, body);
        let error = mint(&kind, "7Fjfp", &fake).await.unwrap_err();
        let refused = matches!(error, MintError::Refused { .. });
        assert_eq!(refused, is_final, "{status} {body}: {error}");
        assert!(!error.to_string().contains("7Fjfp"), "{error}");
    }
}

fn refresh(authentication: &str) -> Oauth2RefreshToken {
    let yaml = format!(
        "{{endpoint: {{token_url: https://a/t}}, client: {{client_id: me, authentication: {authentication}}}}}"
    );
    Oauth2RefreshToken(serde_saphyr::from_str(&yaml).unwrap())
}

/// RFC 6749 §6: a new refresh token replaces the old one.
#[tokio::test]
async fn a_rotated_refresh_token_is_stored() {
    let fake = FakeFetch::answering(200, r#"{"access_token":"a","refresh_token":"second"}"#);
    let minted = mint(&refresh("none"), "first\n", &fake).await.unwrap();
    assert_eq!(minted.replacement.unwrap().expose(), b"second");
    let asked = fake.asked();
    assert_eq!(form(&asked, "grant_type").as_deref(), Some("refresh_token"));
    assert_eq!(form(&asked, "refresh_token").as_deref(), Some("first"));
    assert_eq!(form(&asked, "client_id").as_deref(), Some("me"));
}

#[tokio::test]
async fn a_refresh_token_that_stays_is_not_stored_again() {
    for answer in [
        r#"{"access_token":"a"}"#,
        r#"{"access_token":"a","refresh_token":"first"}"#,
    ] {
        let fake = FakeFetch::answering(200, answer);
        let minted = mint(&refresh("none"), "first", &fake).await.unwrap();
        assert!(minted.replacement.is_none());
    }
}

#[tokio::test]
async fn a_clients_secret_stays_beside_the_rotated_token() {
    let stored = r#"{"refresh_token":"first","client_secret":"s3cret"}"#;
    let fake = FakeFetch::answering(200, r#"{"access_token":"a","refresh_token":"second"}"#);
    let kind = refresh("client_secret_basic");
    let minted = mint(&kind, stored, &fake).await.unwrap();
    let replacement = minted.replacement.unwrap();
    assert!(kind.check(&replacement).is_ok());
    let json: serde_json::Value = serde_json::from_slice(replacement.expose()).unwrap();
    assert_eq!(json["refresh_token"], "second");
    assert_eq!(json["client_secret"], "s3cret");
    assert!(kind.check(&"first".into()).is_err());
}

#[test]
fn a_token_lends_its_look_to_its_sentinel() {
    let shape = |token: &str| shape_of(&token.into());
    assert_eq!(
        shape("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln"),
        Shape::Jwt
    );
    assert_eq!(shape("2YotnFZFEjr1zCsicMWpAA"), Shape::Plain);
}

#[test]
fn what_no_token_can_be_had_with_is_refused_when_it_is_defined() {
    let check = |endpoint: &str| {
        let text = format!(
            "{{kind: {{oauth2_client_credentials: {{endpoint: {endpoint}, client: {{client_id: me}}}}}}}}"
        );
        crate::Definition::parse(&text).unwrap().kind.check()
    };
    assert_eq!(check("{token_url: 'https://id.example/token'}"), Ok(()));
    assert!(check("{token_url: 'gopher://id.example/'}").is_err());
    assert!(check("{token_url: 'https://id.example/', ca: /etc/ca.pem}").is_err());
}
