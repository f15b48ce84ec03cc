//! The question as Google documents it.

use super::*;
use crate::kind::fake_fetch::{FakeFetch, NOW, claims, form, mint, rsa_pem};

#[tokio::test]
async fn a_token_is_asked_for_as_documented() {
    let pem = rsa_pem();
    let file = json!({
        "type": "service_account", "project_id": "p", "private_key_id": "k9",
        "private_key": pem, "client_email": "robot@p.iam.gserviceaccount.com",
        "token_uri": "https://oauth2.example.com/token",
    });
    let kind = GoogleServiceAccount(
        serde_saphyr::from_str("{scopes: [https://a/x, https://a/y], subject: ann@example.com}")
            .unwrap(),
    );
    let fake = FakeFetch::answering(200, r#"{"access_token":"ya29.x","expires_in":3599}"#);
    let minted = mint(&kind, &file.to_string(), &fake).await.unwrap();
    let asked = fake.asked();
    assert_eq!(asked.url, "https://oauth2.example.com/token");
    assert_eq!(
        form(&asked, "grant_type").as_deref(),
        Some("urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer")
    );
    let (header, claims) = claims(&form(&asked, "assertion").unwrap(), &pem);
    assert_eq!(header["kid"], "k9");
    assert_eq!(claims["iss"], "robot@p.iam.gserviceaccount.com");
    assert_eq!(claims["scope"], "https://a/x https://a/y");
    assert_eq!(claims["aud"], "https://oauth2.example.com/token");
    assert_eq!(claims["sub"], "ann@example.com");
    assert_eq!(claims["exp"], NOW + 3600);
    assert_eq!(minted.expires.unwrap().as_second(), NOW + 3599);
}

#[test]
fn a_value_that_is_no_key_file_is_refused() {
    let kind = GoogleServiceAccount(serde_saphyr::from_str("{scopes: []}").unwrap());
    for bad in ["", "{}", r#"{"client_email":"a","private_key":"b"}"#] {
        assert!(kind.check(&bad.into()).is_err());
    }
}
