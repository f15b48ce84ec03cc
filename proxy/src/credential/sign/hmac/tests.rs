//! Signatures as services publish them.

use gig_vault::{Part, SecretBytes, Shape, StoppedClock, Treatment};
use http::Method;

use super::*;

/// GitHub, "Validating webhook deliveries": its own values.
#[test]
fn githubs_webhook_signature() {
    let signed = sign(
        "{message: '{body}', header: X-Hub-Signature-256, value: 'sha256={signature}'}",
        "It's a Secret to Everybody",
        b"Hello, World!",
    );
    assert_eq!(
        signed["x-hub-signature-256"],
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    );
}

/// RFC 4231 §4.3 (SHA-256, SHA-512) and RFC 2202 §3 (SHA-1), test case 2 of each.
#[test]
fn the_rfcs_test_cases() {
    let of = |algorithm: &str, encoding: &str| {
        let yaml = format!(
            "{{algorithm: {algorithm}, message: '{{body}}', header: S, encoding: {encoding}}}"
        );
        let signed = sign(&yaml, "Jefe", b"what do ya want for nothing?");
        signed["s"].to_str().unwrap().to_owned()
    };
    assert_eq!(
        of("sha1", "hex"),
        "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79"
    );
    assert_eq!(
        of("sha256", "hex"),
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
    assert_eq!(
        of("sha256", "base64"),
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="
    );
    assert_eq!(
        of("sha256", "base64url"),
        "W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM"
    );
    assert!(of("sha512", "hex").starts_with("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd6"));
}

#[test]
fn a_timestamp_and_more_fields() {
    let signed = sign(
        "{message: '{timestamp}.{method}.{target}.{header:x-id}', header: Sig, \
         value: 't={timestamp},v1={signature}', fields: [{header: X-Nonce, value: '{nonce}'}]}",
        "key",
        b"",
    );
    let value = signed["sig"].to_str().unwrap();
    let expected = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, b"key"),
        b"1767323045.POST./hook?a=1.seven",
    );
    assert_eq!(value, format!("t=1767323045,v1={}", hex(expected.as_ref())));
    assert_eq!(signed["x-nonce"].len(), 32);
}

/// In HTTP/2 there is no such field, and in HTTP/1 the origin sees another than the program wrote.
#[test]
fn the_host_field_is_the_host_that_the_origin_sees() {
    for message in ["{header:host}", "{header:Host}", "{host}"] {
        let yaml = format!("{{message: '{message}', header: S}}");
        let signed = sign(&yaml, "key", b"");
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"key");
        let expected = hmac::sign(&key, b"hooks.example.com");
        assert_eq!(signed["s"], hex(expected.as_ref()), "{message}");
    }
}

#[test]
fn a_body_that_was_not_read_is_refused() {
    let treat = treat_of("{message: '{body}', header: S}", "key");
    assert_eq!(
        treat.wants_body(&HeaderMap::new(), &"/".parse().unwrap()),
        Some(1 << 20)
    );
    let error = run(&treat, None).unwrap_err();
    assert_eq!(error.reason, DenyReason::SecretUnplaceable);
    let treat = treat_of("{message: '{path}', header: S}", "key");
    assert_eq!(
        treat.wants_body(&HeaderMap::new(), &"/".parse().unwrap()),
        None
    );
    assert!(run(&treat, None).is_ok());
}

#[test]
fn a_signature_frames_and_directs_no_request() {
    for name in ["Content-Length", "transfer-encoding", "Host"] {
        let treat = treat_of(
            &format!("{{message: '{{path}}', header: {name}, value: '3'}}"),
            "key",
        );
        let error = run(&treat, None).unwrap_err();
        assert_eq!(error.reason, DenyReason::SecretUnplaceable, "{name}");
    }
}

#[test]
fn a_field_in_several_lines_is_not_signed_by_one_of_them() {
    for yaml in [
        "{message: '{header:x-id}', header: sig}",
        "{message: '{path}', header: sig, fields: [{header: more, value: '{header:x-id}'}]}",
    ] {
        let treat = treat_of(yaml, "key");
        assert!(run_with(&treat, None, &["seven"]).is_ok());
        let error = run_with(&treat, None, &["seven", "eight"]).unwrap_err();
        assert_eq!(error.reason, DenyReason::SecretUnplaceable, "{yaml}");
        assert!(
            error.why.contains("x-id") && error.why.contains("in one"),
            "{error}"
        );
    }
    // What it does not sign may come as it likes.
    let treat = treat_of("{message: '{path}', header: sig}", "key");
    assert!(run_with(&treat, None, &["seven", "eight"]).is_ok());
}

fn treat_of(yaml: &str, key: &str) -> Hmac {
    let yaml = format!("{{kind: {{hmac: {yaml}}}}}");
    let definition = gig_vault::Definition::parse(&yaml).unwrap();
    let gig_vault::KindDefinition::Hmac(definition) = definition.kind else {
        panic!("another kind");
    };
    let definition = Arc::new(*definition);
    let secret = Secret {
        name: "HOOK".parse().unwrap(),
        version: 1,
        parts: vec![Part {
            variable: "HOOK".into(),
            value: SecretBytes::from(key),
            shape: Shape::Plain,
        }],
        treatment: Treatment::Hmac(Arc::clone(&definition)),
        entrusted: false,
    };
    let mut treat = Hmac::new(&Arc::new(secret), &definition);
    treat.clock = Arc::new(StoppedClock::at("2026-01-02T03:04:05Z".parse().unwrap()));
    treat
}

fn run(treat: &Hmac, body: Option<&[u8]>) -> Result<HeaderMap, Untreatable> {
    run_with(treat, body, &["seven"])
}

fn run_with(
    treat: &Hmac,
    body: Option<&[u8]>,
    ids: &[&'static str],
) -> Result<HeaderMap, Untreatable> {
    let mut headers = HeaderMap::new();
    for id in ids {
        headers.append("x-id", HeaderValue::from_static(id));
    }
    headers.insert("sig", HeaderValue::from_static("the program's own"));
    let mut target = "/hook?a=1".parse().unwrap();
    let after = treat.treat(Signable {
        method: &Method::POST,
        scheme: "https",
        authority: &HeaderValue::from_static("hooks.example.com"),
        target: &mut target,
        headers: &mut headers,
        body,
        sent: None,
        changed: false,
        written: None,
        memory: &crate::credential::memory::Memory::of_sandbox(),
    })?;
    assert!(after.is_none());
    Ok(headers)
}

fn sign(yaml: &str, key: &str, body: &[u8]) -> HeaderMap {
    run(&treat_of(yaml, key), Some(body)).unwrap()
}
