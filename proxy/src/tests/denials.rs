//! What is denied does not go: three witnesses each.

use gig_audit::Event;
use gig_policy::{DenyReason, Policy};
use http::{Request, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Lab, Way,
    client::{Client, empty, get, raw, read_head},
    origin::{Origin, hello},
};

async fn lab_with(policy: &str) -> (Lab, Origin) {
    let origin = Origin::https("api.test", &["h2", "http/1.1"], hello).await;
    let lab = Arrangement::new(policy)
        .origin("api.test:443", &origin)
        .lab();
    (lab, origin)
}

#[tokio::test]
async fn connect_to_a_denied_host_is_told_why_and_nothing_leaves() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let mut stream = lab.connect(Way::Explicit).await;
    let request = b"CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let head = read_head(&mut stream).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    assert!(
        head.contains("proxy-status: gig; error=http_request_denied; details=\"host_not_allowed\""),
        "{head}"
    );
    let length: usize = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .unwrap()
        .parse()
        .unwrap();
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.unwrap();
    let told: serde_json::Value = serde_json::from_slice(&body).unwrap();
    assert_eq!(told["error"], "egress_denied");
    assert_eq!(told["reason"], "host_not_allowed");
    assert_eq!(told["host"], "evil.test");
    assert!(told["hint"].as_str().unwrap().starts_with("ask for: "));
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::HostNotAllowed);
}

#[tokio::test]
async fn denied_name_in_tls_gets_a_handshake_and_an_explanation_in_both_versions() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, origin) = lab_with(ALLOW_API).await;
        let stream = lab.connect(Way::to("203.0.113.9", 443)).await;
        let stream = lab.tls(stream, "evil.test", &[alpn]).await.unwrap();
        let mut client = lab.client(stream, alpn == "h2").await;
        let request = if alpn == "h2" {
            get("https://evil.test/x")
        } else {
            with_host("/x", "evil.test")
        };
        let answer = client.send(request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(answer.json()["path"], "/x");
        assert_eq!(answer.json()["reason"], "host_not_allowed");
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::HostNotAllowed);
        assert_eq!(lab.records(Event::Request)[0].entry.status, Some(403));
    }
}

#[tokio::test]
async fn denied_name_whose_client_asks_nothing_is_recorded_too() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let stream = lab.connect(Way::to("203.0.113.9", 443)).await;
    drop(lab.tls(stream, "evil.test", &["h2"]).await.unwrap());
    lab.until_records(Event::Connect, 1).await;
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::HostNotAllowed);
}

/// No octet, part of a request, the end of the run while it is silent: each has its record.
#[tokio::test]
async fn a_denied_connection_that_asks_nothing_is_recorded() {
    for said in ["", "GET / HT", "GET / HTTP/1.1\r\nHost: evil.t"] {
        for (to, reason) in [
            ("203.0.113.9", DenyReason::IpNotAllowed),
            ("evil.test", DenyReason::HostNotAllowed),
        ] {
            for revoked in [false, true] {
                let (lab, origin) = lab_with(ALLOW_API).await;
                let mut stream = lab.connect(Way::to(to, 2222)).await;
                stream.write_all(said.as_bytes()).await.unwrap();
                if revoked {
                    lab.subject.close().await;
                } else {
                    drop(stream);
                }
                lab.until_denied().await;
                lab.tasks.close();
                lab.tasks.wait().await;
                lab.assert_denied_once(reason);
                let record = &lab.records(Event::Connect)[0].entry;
                assert_eq!(record.host.as_deref(), Some(to), "{said:?}");
                assert_eq!(record.port, Some(2222));
                assert_eq!(origin.seen.connections(), 0);
            }
        }
    }
}

/// Nothing went anywhere, and nothing was refused.
#[tokio::test]
async fn an_allowed_connection_that_asks_nothing_is_no_denial() {
    for said in ["", "GET / HTTP/1.1\r\nHost: api.t"] {
        let (lab, origin) = lab_with(ALLOW_API).await;
        let mut stream = lab.connect(Way::to("api.test", 80)).await;
        stream.write_all(said.as_bytes()).await.unwrap();
        drop(stream);
        lab.tasks.close();
        lab.tasks.wait().await;
        assert!(lab.log.records().is_empty());
        assert_eq!(origin.seen.connections(), 0);
    }
}

#[tokio::test]
async fn deny_reset_gives_no_handshake() {
    let (lab, origin) = lab_with(&format!("{ALLOW_API}deny: reset\n")).await;
    let stream = lab.connect(Way::to("203.0.113.9", 443)).await;
    assert!(lab.tls(stream, "evil.test", &["h2"]).await.is_err());
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::HostNotAllowed);
}

#[tokio::test]
async fn deny_reset_holds_in_clear_text_and_at_the_explicit_proxy() {
    let policy = "
version: 1
deny: reset
egress:
  - host: api.test
    ports: [80, 443]
    allow_private: [127.0.0.0/8]
    rules: [{paths: [/open]}]
";
    for (way, request) in [
        (
            Way::to("evil.test", 80),
            "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        ),
        (
            Way::to("203.0.113.9", 80),
            "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        ),
        (
            Way::Explicit,
            "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n",
        ),
        (
            Way::Explicit,
            "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n",
        ),
    ] {
        let (lab, origin) = lab_with(policy).await;
        let mut stream = lab.connect(way).await;
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let ended = stream.read_to_end(&mut answer).await;
        let reset = ended.map_err(|error| error.kind());
        assert_eq!(reset, Err(std::io::ErrorKind::ConnectionReset), "{request}");
        assert!(answer.is_empty(), "{request}");
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::HostNotAllowed);
    }
    // The destination is allowed, so that it is no secret: what of it is not is told.
    let (lab, _origin) = lab_with(policy).await;
    let mut client = lab.http("api.test").await;
    let answer = client.send(with_host("/shut", "api.test")).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn sni_that_differs_from_the_destination_is_refused() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let (stream, head) = lab.connect_by_proxy("api.test:443").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(lab.tls(stream, "evil.test", &["h2"]).await.is_err());
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::NamesDisagree);
    let entry = lab.assert_named(["destination=api.test", "sni=evil.test"]);
    assert_eq!(entry.tls.unwrap().sni.as_deref(), Some("evil.test"));
}

#[tokio::test]
async fn host_that_differs_from_sni_is_misdirected_in_both_versions() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, origin) = lab_with(ALLOW_API).await;
        let mut client = lab.https("api.test", alpn).await;
        let request = if alpn == "h2" {
            get("https://evil.test/")
        } else {
            with_host("/", "evil.test")
        };
        let answer = client.send(request).await;
        assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST, "{alpn}");
        assert_eq!(answer.json()["reason"], "names_disagree");
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::NamesDisagree);
        let place = if alpn == "h2" { "target" } else { "host" };
        let entry = lab.assert_named(["sni=api.test", &format!("{place}=evil.test")]);
        assert_eq!(entry.path.as_deref(), Some("/"));
        let hint = answer.json()["hint"].to_string();
        assert!(
            hint.contains("api.test") && hint.contains("evil.test"),
            "{hint}"
        );
        // Nothing is wrong with the connection: the honest request still goes.
        let honest = if alpn == "h2" {
            get("https://api.test/")
        } else {
            with_host("/", "api.test")
        };
        assert_eq!(client.send(honest).await.status, StatusCode::OK);
    }
}

#[tokio::test]
async fn authority_and_host_of_one_request_must_agree() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let mut client = lab.https("api.test", "h2").await;
    let mut request = get("https://api.test/");
    request
        .headers_mut()
        .insert("host", "evil.test".parse().unwrap());
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::NamesDisagree);
    lab.assert_named(["target=api.test", "host=evil.test"]);
}

#[tokio::test]
async fn by_the_explicit_proxy_a_record_names_the_target_and_what_fronted_it() {
    for (line, path) in [
        ("GET http://api.test:443/x?q=1", Some("/x")),
        ("CONNECT api.test:443", None),
    ] {
        let (lab, origin) = lab_with(ALLOW_API).await;
        let mut stream = lab.connect(Way::Explicit).await;
        let request = format!("{line} HTTP/1.1\r\nHost: evil.test:8\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"HTTP/1.1 421", "{line}");
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::NamesDisagree);
        let entry = lab.assert_named(["target=api.test:443", "host=evil.test:8"]);
        assert_eq!(entry.host.as_deref(), Some("api.test"), "{line}");
        assert_eq!(entry.port, Some(443), "{line}");
        assert_eq!(entry.path.as_deref(), path, "{line}");
    }
}

#[tokio::test]
async fn methods_and_paths_are_enforced_on_the_normalised_path() {
    let policy = "
version: 1
egress:
  - host: api.test
    allow_private: [127.0.0.0/8]
    rules:
      - {methods: [GET], paths: [\"/open/**\"]}
";
    let cases = [
        ("GET", "/closed", DenyReason::PathNotAllowed),
        ("GET", "/open/../closed", DenyReason::PathNotAllowed),
        ("GET", "/open/%2e%2e/closed", DenyReason::PathNotAllowed),
        ("POST", "/open/x", DenyReason::MethodNotAllowed),
    ];
    for (method, path, reason) in cases {
        let (lab, origin) = lab_with(policy).await;
        let mut client = lab.https("api.test", "http/1.1").await;
        let mut request = with_host(path, "api.test");
        *request.method_mut() = method.parse().unwrap();
        let answer = client.send(request).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}");
        assert_eq!(origin.seen.connections(), 0, "{method} {path}");
        lab.assert_denied_once(reason);
    }
    let (lab, origin) = lab_with(policy).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(with_host("/open/./%61?q=1", "api.test")).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(origin.seen.requests()[0].uri, "/open/a?q=1");
}

#[tokio::test]
async fn grpc_learns_of_a_denial_in_its_own_words() {
    let (lab, origin) = lab_with("version: 1\negress:\n  - {host: other.test}\n").await;
    let stream = lab.connect(Way::to("203.0.113.9", 443)).await;
    let stream = lab.tls(stream, "api.test", &["h2"]).await.unwrap();
    let mut client = lab.client(stream, true).await;
    let mut request = Request::post("https://api.test/pkg.Service/Call")
        .body(empty())
        .unwrap();
    request
        .headers_mut()
        .insert("content-type", "application/grpc+proto".parse().unwrap());
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.header("grpc-status"), "7");
    assert!(answer.header("grpc-message").contains("host_not_allowed"));
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::HostNotAllowed);
}

#[tokio::test]
async fn what_cannot_be_recorded_does_not_go() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    lab.log.fail(true);
    let answer = client.send(with_host("/", "api.test")).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(answer.json()["reason"], "record_unavailable");
    assert_eq!(origin.seen.connections(), 0);
    lab.log.fail(false);
    assert_eq!(
        client.send(with_host("/", "api.test")).await.status,
        StatusCode::OK
    );
}

#[tokio::test]
async fn unknown_protocol_on_an_inspected_port_is_reset() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let stream = lab.connect(Way::to("api.test", 443)).await;
    assert_eq!(raw(stream, b"SSH-2.0-client\r\n").await, None);
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::UnsupportedProtocol);
}

#[tokio::test]
async fn a_new_policy_holds_from_the_next_request_and_cuts_the_connection() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    assert_eq!(
        client.send(with_host("/", "api.test")).await.status,
        StatusCode::OK
    );
    lab.subject.set_policy(Policy::deny_all("shut"));
    let after = client.start(with_host("/", "api.test")).await;
    assert!(after.is_err() || after.unwrap().status() == StatusCode::FORBIDDEN);
    assert_eq!(origin.seen.requests().len(), 1);
}

#[tokio::test]
async fn other_schemes_and_origin_form_are_refused_by_the_explicit_proxy() {
    let (lab, origin) = lab_with(ALLOW_API).await;
    for (target, host, status) in [
        ("https://other.test/", "other.test", 403),
        ("https://api.test:8443/", "api.test:8443", 403),
        ("https://api.test/", "other.test", 421),
        ("ftp://api.test/", "api.test", 403),
        ("/", "api.test", 400),
    ] {
        let stream = lab.connect(Way::Explicit).await;
        let text = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        let answer = raw(stream, text.as_bytes()).await.unwrap();
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{target}: {answer}"
        );
    }
    assert_eq!(origin.seen.connections(), 0);
    let refused = lab.records(Event::Request);
    assert!(refused.iter().all(|record| record.entry.reason.is_some()));
    assert_eq!(refused.len(), 5);
}

#[tokio::test]
async fn origin_with_a_certificate_for_another_name_is_told_as_502() {
    let origin = Origin::https("other.test", &["h2", "http/1.1"], hello).await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:443", &origin)
        .lab();
    let mut client: Client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(with_host("/", "api.test")).await;
    assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
    assert_eq!(answer.json()["reason"], "tls_certificate");
    assert_eq!(origin.seen.requests().len(), 0);
    let response = lab.until_records(Event::Response, 1).await.remove(0);
    assert_eq!(response.entry.reason, Some(DenyReason::TlsCertificate));
}

fn with_host(path: &str, host: &str) -> Request<super::lab::client::Body> {
    let mut request = get(path);
    request.headers_mut().insert("host", host.parse().unwrap());
    request
}

#[tokio::test]
async fn fields_that_override_method_or_path_do_not_pass_rules_about_them() {
    const RULES: &str = "
version: 1
name: test
egress:
  - host: api.test
    ports: [443]
    allow_private: [127.0.0.0/8]
    rules: [RULE]
";
    // Which fields each rule refuses, and whether both together.
    for (rule, method, path, both) in [
        ("{methods: [POST], paths: [/items]}", true, true, true),
        ("{methods: [POST]}", true, false, true),
        ("{paths: [/items]}", false, true, true),
        ("{methods: [POST]}, {paths: [/items]}", false, false, true),
    ] {
        let policy = RULES.replace("RULE", rule);
        for (fields, refused) in [
            (&["x-http-method-override"][..], method),
            (&["X-HTTP-Method"], method),
            (&["x_method_override"], method),
            (&["x-original-url"], path),
            (&["x-rewrite-url"], path),
            (&["x-forwarded-host"], false),
            (&["x-original-url", "x-http-method-override"], both),
        ] {
            for alpn in ["http/1.1", "h2"] {
                let (lab, origin) = lab_with(&policy).await;
                let mut request = with_host("/items", "api.test");
                if alpn == "h2" {
                    *request.uri_mut() = "https://api.test/items".parse().unwrap();
                    request.headers_mut().remove("host");
                }
                *request.method_mut() = http::Method::POST;
                for field in fields {
                    let name = http::HeaderName::from_bytes(field.as_bytes()).unwrap();
                    request
                        .headers_mut()
                        .insert(name, "DELETE".parse().unwrap());
                }
                let answer = lab.https("api.test", alpn).await.send(request).await;
                let case = format!("{rule} {fields:?} {alpn} {answer:?}");
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
                    assert!(
                        answer.json()["hint"].to_string().contains("overrides"),
                        "{case}"
                    );
                }
            }
        }
    }
}
