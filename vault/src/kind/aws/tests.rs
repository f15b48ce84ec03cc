//! The spellings of an access key, and what a program gets for one.

use super::*;
use crate::kind::fake_fetch::{FakeFetch, mint};

const ID: &str = "AKIAIOSFODNN7EXAMPLE";
const SECRET: &str = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

fn variables(minted: &Minted) -> Vec<&str> {
    minted.parts.iter().map(|part| &*part.variable).collect()
}

#[tokio::test]
async fn a_key_that_lasts_has_two_parts() {
    let kind = Aws(AwsDefinition::default());
    let fake = Arc::new(FakeFetch::default());
    let minted = mint(&kind, &format!("{ID}:{SECRET}\n"), &fake)
        .await
        .unwrap();
    assert_eq!(variables(&minted), ["TOKEN", "TOKEN_SECRET_ACCESS_KEY"]);
    let values: Vec<_> = minted
        .parts
        .iter()
        .map(|part| part.value.expose())
        .collect();
    assert_eq!(values, [ID.as_bytes(), SECRET.as_bytes()]);
    let Shape::Like { prefix, length, .. } = &minted.parts[0].shape else {
        panic!("no look");
    };
    assert_eq!((prefix.as_str(), *length), ("AKIA", 16));
}

#[tokio::test]
async fn what_a_credential_process_prints_is_taken() {
    let kind = Aws(AwsDefinition::default());
    let fake = Arc::new(FakeFetch::default());
    let printed = format!(
        r#"{{"Version":1,"AccessKeyId":"ASIAIOSFODNN7EXAMPLE","SecretAccessKey":"{SECRET}",
            "SessionToken":"FwoG==","Expiration":"2026-01-02T04:04:05+00:00"}}"#
    );
    let minted = mint(&kind, &printed, &fake).await.unwrap();
    assert_eq!(minted.parts.len(), 3);
    assert_eq!(minted.expires.unwrap().to_string(), "2026-01-02T04:04:05Z");
    assert!(minted.parts[2].variable.ends_with("_SESSION_TOKEN"));
}

#[test]
fn what_is_no_access_key_is_refused() {
    let kind = Aws(AwsDefinition::default());
    for bad in [
        "",
        ID,
        "short:secret",
        &format!("{ID}:"),
        "{}",
        "{\"AccessKeyId\":1}",
    ] {
        assert!(kind.check(&bad.into()).is_err(), "{bad}");
    }
}
