//! Secrets with real clients: the program holds a sentinel, the origin gets the value.
//!
//! Every test asks both ends: what the origin received, and that the value was nowhere inside.

use gig_audit::Event;
use gig_tests::lab::{Finished, Lab, Subject, http_origin::greet};

const HOST: &str = "api.example.com";
const VALUE: &str = "real-value-7Qx2mZ0pLr";

/// A run with one secret, bound and allowed.
fn with_secret(lab: &Lab) -> Subject<'_> {
    let subject = lab.gig().allow(HOST).host_env("GITHUB_TOKEN", VALUE);
    subject.option(["--secret", "GITHUB_TOKEN@api.example.com"])
}

/// The program printed no value, and the record holds none but names the secret.
fn check(run: Finished) -> Finished {
    let run = run.success();
    assert!(!run.text().contains(VALUE), "{run}");
    assert!(!run.error_text().contains(VALUE), "{run}");
    let records = format!("{:?}", run.audit);
    assert!(!records.contains(VALUE), "{records}");
    for event in [Event::Request, Event::Response] {
        let named = |names: &[std::sync::Arc<str>]| names.iter().any(|n| &**n == "GITHUB_TOKEN");
        assert!(
            run.audit.of(event).any(|entry| named(&entry.secrets)),
            "no {event} record names the secret: {records}"
        );
    }
    run
}

#[test]
fn curl_with_a_bearer_token_sends_the_value_and_holds_the_sentinel() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let run = with_secret(&lab).sh(
        "curl -sS --fail -H \"Authorization: Bearer $GITHUB_TOKEN\" https://api.example.com/; \
         env",
    );
    let run = check(run)
        .says("GITHUB_TOKEN=gigph-")
        .says("GIG_PLACEHOLDER=gigph-");
    let requests = origin.requests();
    let bearer = format!("Bearer {VALUE}");
    assert_eq!(requests[0].field("authorization"), Some(&*bearer), "{run}");
}
