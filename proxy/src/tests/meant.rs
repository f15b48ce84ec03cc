//! A request that tells its origin another method or path than it was decided on.

use gig_audit::Event;
use gig_policy::DenyReason;
use http::{HeaderName, Method, Request};

use super::lab::{
    Arrangement, Lab,
    client::{Answer, Body, get},
    keeper::Keeper,
    origin::{Origin, hello},
};

const VALUE: &str = "the-value-that-is-never-shown";

/// An allowed host with these further rules, and a secret.
async fn lab(more: &str, entries: &str) -> (Lab, Origin, String) {
    let policy = format!(
        "version: 1\nname: test\n{more}\negress:\n{}",
        entries.replace(
            "HERE",
            "host: api.test, ports: [443], allow_private: [127.0.0.0/8]"
        )
    );
    let origin = Origin::https("api.test", &["http/1.1"], hello).await;
    let keeper = Keeper::with(&[("TOKEN", VALUE)]);
    let lab = Arrangement::new(&policy)
        .origin("api.test:443", &origin)
        .keeper(&keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    (lab, origin, sentinel)
}

fn asking(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let mut request = get(path);
    *request.method_mut() = Method::from_bytes(method.as_bytes()).unwrap();
    let headers = request.headers_mut();
    headers.insert("host", "api.test".parse().unwrap());
    for (name, value) in fields {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.insert(name, value.parse().unwrap());
    }
    request
}

async fn asked(lab: &Lab, request: Request<Body>) -> Answer {
    lab.https("api.test", "http/1.1").await.send(request).await
}

#[tokio::test]
async fn a_secret_of_a_narrow_rule_goes_with_no_override_whatever_else_is_open() {
    let narrow = "
  - {HERE, secrets: [TOKEN], rules: [{methods: [POST], paths: [/a]}]}
  - {HERE}
";
    for (path, field, refused) in [
        ("/a", Some(("x-http-method-override", "DELETE")), true),
        ("/a", Some(("x-original-url", "/admin")), true),
        ("/a", Some(("x.envoy.original_path", "/admin")), true),
        ("/a", Some(("x-checksum", "/admin")), false),
        ("/a", None, false),
        // Nothing that a narrow rule gives goes there.
        ("/b", Some(("x-http-method-override", "DELETE")), false),
    ] {
        let (lab, origin, sentinel) = lab("", narrow).await;
        let carried = [("authorization", sentinel.as_str())];
        let mut fields = Vec::from_iter(field);
        fields.extend(carried.iter().filter(|_| path == "/a"));
        let answer = asked(&lab, asking("POST", path, &fields)).await;
        let case = format!("{path} {field:?} {answer:?}");
        assert_eq!(
            answer.status.as_u16(),
            if refused { 400 } else { 200 },
            "{case}"
        );
        let seen = origin.seen.requests();
        assert_eq!(seen.len(), usize::from(!refused), "{case}");
        if refused {
            lab.assert_denied_once(DenyReason::MalformedRequest);
        }
    }
}

#[tokio::test]
async fn where_a_policy_observes_an_override_is_recorded_and_goes_without_secrets() {
    let narrow = "
  - {HERE, secrets: [TOKEN], rules: [{methods: [POST], paths: [/a]}]}
";
    let (lab, origin, _) = lab("mode: observe", narrow).await;
    let fields = [("x-http-method-override", "DELETE")];
    let answer = asked(&lab, asking("POST", "/a", &fields)).await;
    assert_eq!(answer.status.as_u16(), 200, "{answer:?}");
    assert_eq!(origin.seen.requests().len(), 1);
    let record = lab.until_records(Event::Request, 1).await.remove(0);
    let text = format!("{:?}", record.entry);
    assert!(text.contains("MalformedRequest"), "{text}");
    assert!(record.entry.secrets.is_empty(), "{text}");
}

#[tokio::test]
async fn what_is_moved_or_copied_goes_where_the_same_request_may() {
    let rules = "
  - {HERE, rules: [{methods: [MOVE, COPY, PUT], paths: ['/dav/**']}]}
";
    for (destination, refused) in [
        ("/dav/there", false),
        ("https://api.test/dav/there", false),
        ("https://api.test:443/dav/there", false),
        ("/elsewhere", true),
        ("/dav/../elsewhere", true),
        ("/dav/%2e%2e/elsewhere", true),
        ("https://api.test/elsewhere", true),
        ("https://other.test/dav/there", true),
        ("https://api.test:8443/dav/there", true),
        ("dav there", true),
    ] {
        for method in ["MOVE", "COPY"] {
            let (lab, origin, _) = lab("", rules).await;
            let fields = [("destination", destination)];
            let answer = asked(&lab, asking(method, "/dav/here", &fields)).await;
            let case = format!("{method} {destination} {answer:?}");
            assert_eq!(
                answer.status.as_u16(),
                if refused { 400 } else { 200 },
                "{case}"
            );
            assert_eq!(
                origin.seen.requests().len(),
                usize::from(!refused),
                "{case}"
            );
            if refused {
                lab.assert_denied_once(DenyReason::MalformedRequest);
            }
        }
    }
    // To who moves nothing the field is any other.
    let (lab, origin, _) = lab("", rules).await;
    let fields = [("destination", "Lisbon")];
    let answer = asked(&lab, asking("PUT", "/dav/here", &fields)).await;
    assert_eq!(
        (answer.status.as_u16(), origin.seen.requests().len()),
        (200, 1)
    );
}
