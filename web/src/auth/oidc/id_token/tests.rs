//! Tokens that a provider would make, and those that somebody else would.

use serde_json::json;

use super::*;
use crate::auth::oidc::signer::Signer;

const NOW: i64 = 1_800_000_000;

fn expected() -> Expected<'static> {
    Expected {
        issuer: "https://idp.example",
        client: "gig",
        nonce: "n1",
        now: Timestamp::from_second(NOW).unwrap(),
    }
}

fn claims() -> Value {
    json!({"iss": "https://idp.example", "aud": "gig", "sub": "u1", "nonce": "n1",
           "iat": NOW - 5, "exp": NOW + 300, "groups": ["a", "b"],
           "realm_access": {"roles": ["c"]}, "https://x.example/groups": "d"})
}

/// These claims with some of them changed; `null` takes one away.
fn with(changes: Value) -> Value {
    let mut claims = claims();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => drop(claims.as_object_mut().unwrap().remove(name)),
            value => claims[name] = value.clone(),
        }
    }
    claims
}

fn keys(signer: &Signer) -> Keys {
    Keys::parse(signer.published().to_string().as_bytes()).unwrap()
}

fn check(signer: &Signer, token: &str) -> Result<Claims, TokenRefused> {
    Unchecked::read(token)?.check(&keys(signer), &expected())
}

#[test]
fn a_token_of_each_algorithm_is_believed_and_read() {
    let signer = Signer::new();
    for (algorithm, key) in [("RS256", "r"), ("ES256", "e"), ("EdDSA", "o")] {
        let read = check(&signer, &signer.token(algorithm, key, &claims())).unwrap();
        assert_eq!(read.subject, "u1", "{algorithm}");
        assert_eq!(read.groups("groups"), Some(HashSet::from(["a", "b"])));
        assert_eq!(
            read.groups("realm_access.roles"),
            Some(HashSet::from(["c"]))
        );
        assert_eq!(
            read.groups("https://x.example/groups"),
            Some(HashSet::from(["d"]))
        );
        assert!(read.groups("nothing.here").is_none());
    }
    // One that names no key is tried with those of its kind.
    let header = json!({"alg": "RS256"});
    check(&signer, &signer.signed("RS256", &header, &claims())).unwrap();
    let several = with(json!({"aud": ["other", "gig"], "azp": "gig"}));
    check(&signer, &signer.token("RS256", "r", &several)).unwrap();
}

#[test]
fn what_no_key_of_the_provider_signed_is_refused() {
    let (signer, stranger) = (Signer::new(), Signer::new());
    for (algorithm, key) in [("RS256", "r"), ("ES256", "e"), ("EdDSA", "o")] {
        let forged = stranger.token(algorithm, key, &claims());
        assert_eq!(
            check(&signer, &forged).unwrap_err(),
            TokenRefused::Signature
        );
        // Claims of one token under the signature of another.
        let (honest, other) = (
            signer.token(algorithm, key, &claims()),
            signer.token(algorithm, key, &with(json!({"sub": "admin"}))),
        );
        let signature = honest.rsplit('.').next().unwrap();
        let body = other.rsplit_once('.').unwrap().0;
        let mixed = format!("{body}.{signature}");
        assert_eq!(check(&signer, &mixed).unwrap_err(), TokenRefused::Signature);
    }
    // A key is of one algorithm.
    let crossed = signer.signed("ES256", &json!({"alg": "RS256", "kid": "e"}), &claims());
    assert_eq!(
        check(&signer, &crossed).unwrap_err(),
        TokenRefused::Signature
    );
}

#[test]
fn no_algorithm_is_taken_that_was_not_asked_for() {
    let signer = Signer::new();
    for algorithm in ["none", "None", "HS256", "HS512", "RS512", "PS256", ""] {
        let forged = signer.token(algorithm, "r", &claims());
        let refused = check(&signer, &forged).unwrap_err();
        assert_eq!(refused, TokenRefused::Algorithm, "{algorithm}");
    }
    // Signed with the public key as a shared secret, and called what is taken.
    let forged = signer.signed("HS256", &json!({"alg": "RS256", "kid": "r"}), &claims());
    assert_eq!(
        check(&signer, &forged).unwrap_err(),
        TokenRefused::Signature
    );
    // Published by mistake, and no signature's key.
    let forged = signer.signed("HS256", &json!({"alg": "HS256", "kid": "s"}), &claims());
    assert_eq!(
        check(&signer, &forged).unwrap_err(),
        TokenRefused::Algorithm
    );
}

#[test]
fn every_claim_is_as_it_must_be() {
    let signer = Signer::new();
    for (changes, claim) in [
        (json!({"iss": "https://evil.example"}), "iss"),
        (json!({"iss": null}), "iss"),
        (json!({"aud": "other"}), "aud"),
        (json!({"aud": ["other"]}), "aud"),
        (json!({"aud": null}), "aud"),
        (json!({"aud": ["gig", "other"]}), "azp"),
        (json!({"azp": "other"}), "azp"),
        (json!({"exp": NOW - 60}), "exp"),
        (json!({"exp": "never"}), "exp"),
        (json!({"exp": null}), "exp"),
        (json!({"iat": NOW + 61}), "iat"),
        (json!({"iat": NOW - 3600}), "iat"),
        (json!({"nbf": NOW + 61}), "nbf"),
        (json!({"nonce": "n2"}), "nonce"),
        (json!({"nonce": null}), "nonce"),
        (json!({"sub": ""}), "sub"),
        (json!({"sub": "a\nb"}), "sub"),
        (json!({"sub": 7}), "sub"),
    ] {
        let token = signer.token("RS256", "r", &with(changes.clone()));
        let refused = check(&signer, &token).unwrap_err();
        assert_eq!(refused, TokenRefused::Claim(claim), "{changes}");
    }
    for changes in [
        json!({"exp": NOW - 59}),
        json!({"iat": NOW + 60}),
        json!({"nbf": NOW + 60}),
        json!({"exp": 1_800_000_300.5}),
    ] {
        let token = signer.token("RS256", "r", &with(changes.clone()));
        assert!(check(&signer, &token).is_ok(), "{changes}");
    }
}

#[test]
fn what_is_no_token_or_no_key_set_is_refused() {
    let signer = Signer::new();
    let honest = signer.token("RS256", "r", &claims());
    let five = format!("{honest}.x.y");
    for text in ["", ".", "..", "a.b", "a.b.c", "!.!.!", &five] {
        assert!(Unchecked::read(text).is_err(), "{text}");
    }
    let header = json!({"alg": "RS256", "kid": "r", "crit": ["exp"]});
    let critical = signer.signed("RS256", &header, &claims());
    assert_eq!(
        check(&signer, &critical).unwrap_err(),
        TokenRefused::Malformed
    );
    assert!(Keys::parse(b"[]").is_none() && Keys::parse(b"{\"keys\":3}").is_none());
    let many = json!({"keys": vec![json!({"kty": "oct"}); 101]});
    assert!(Keys::parse(many.to_string().as_bytes()).is_none());
}
