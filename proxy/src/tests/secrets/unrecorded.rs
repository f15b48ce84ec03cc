//! No record holds a real value, wherever the program wrote it and whatever came of the request.

use gig_audit::{Event, VerdictWord};
use gig_policy::{DenyReason, Fqdn};
use http::{Method, Request, StatusCode};

use super::World;
use crate::{
    enforce::name::NameEnforcer,
    tests::lab::client::{empty, get},
};

const VALUE: &str = "v4lue-of-the-token-1";

#[tokio::test]
async fn a_method_holds_no_sentinel_and_no_value_wherever_it_goes() {
    for alpn in ["http/1.1", "h2"] {
        for host in ["other.test", "api.test"] {
            for real in [false, true] {
                let world = World::speaking(host, VALUE, alpn).await;
                let text = if real { VALUE } else { &world.sentinel };
                let method = Method::from_bytes(text.as_bytes()).unwrap();
                let mut request = get(&format!("https://{host}/"));
                if alpn != "h2" {
                    *request.uri_mut() = "/".parse().unwrap();
                    request.headers_mut().insert("host", host.parse().unwrap());
                }
                *request.method_mut() = method;
                let mut client = world.lab.https(host, alpn).await;
                let answer = client.send(request).await;
                let what = format!("{alpn} {host} {real}");
                world.assert_misuse(&answer, &what).await;
                let alarms = world.lab.records(Event::SecretMisuse);
                assert!(alarms[0].entry.findings[0].contains("the method"), "{what}");
                let told = alarms[0].entry.method.as_deref().unwrap();
                assert_eq!(told == "[value of TOKEN]", real, "{told}");
            }
        }
    }
}

#[tokio::test]
async fn a_path_towards_another_host_is_recorded_without_the_value() {
    let hexed: String = VALUE.bytes().map(|b| format!("{b:02x}")).collect();
    for (path, told) in [
        (format!("/collect/{VALUE}/x"), "/collect/[value of TOKEN]/x"),
        (format!("/collect/a{hexed}"), "/collect/[value of TOKEN]"),
        ("/a/v4lue-of/the-token-1".to_owned(), "/[value of TOKEN]"),
        (
            "/a/v4lue%252Dof-the-token-1".to_owned(),
            "/[value of TOKEN]",
        ),
    ] {
        let world = World::new("other.test", VALUE).await;
        let request = Request::get(&path).body(empty()).unwrap();
        let answer = world.send("other.test", request).await;
        world.assert_misuse(&answer, &path).await;
        for event in [Event::SecretMisuse, Event::Request] {
            let record = world.lab.records(event).remove(0);
            assert_eq!(record.entry.path.as_deref(), Some(told), "{path}");
        }
    }
}

#[tokio::test]
async fn what_is_not_allowed_at_all_is_recorded_without_the_value() {
    let world = World::new("other.test", VALUE).await;
    let mut client = world.lab.https("nowhere.test", "http/1.1").await;
    let path = format!("/x/{VALUE}");
    let method = Method::from_bytes(VALUE.as_bytes()).unwrap();
    let request = Request::builder().method(method).uri(&path);
    let request = request.header("host", "nowhere.test");
    let answer = client.send(request.body(empty()).unwrap()).await;
    assert_eq!(answer.json()["reason"], "secret_misuse");
    let denied = world.lab.until_records(Event::Request, 1).await.remove(0);
    assert_eq!(denied.entry.reason, Some(DenyReason::SecretMisuse));
    assert_eq!(denied.entry.path.as_deref(), Some("/x/[value of TOKEN]"));
    assert_eq!(denied.entry.method.as_deref(), Some("[value of TOKEN]"));
    world.assert_unrecorded("not allowed");
    assert!(world.origin.seen.requests().is_empty());
}

#[tokio::test]
async fn what_is_allowed_to_carry_the_value_in_its_path_is_recorded_without_it() {
    // As a program sends it that was handed the value itself.
    let world = World::new("api.test", VALUE).await;
    let request = Request::get(format!("/bot{VALUE}/getMe"));
    let answer = world.send("api.test", request.body(empty()).unwrap()).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(world.seen().uri.path(), format!("/bot{VALUE}/getMe"));
    for event in [Event::Request, Event::Response] {
        let record = world.lab.until_records(event, 1).await.remove(0);
        assert_eq!(record.entry.verdict, Some(VerdictWord::Allow));
        let told = Some("/[value of TOKEN]/getMe");
        assert_eq!(record.entry.path.as_deref(), told);
    }
    world.assert_unrecorded("allowed");
}

#[tokio::test]
async fn a_name_with_the_value_is_refused_and_recorded_without_it() {
    let world = World::new("other.test", VALUE).await;
    let name = format!("{VALUE}.other.test");
    // As the target of a tunnel, and as the name that TLS says.
    let (_, head) = world.lab.connect_by_proxy(&format!("{name}:443")).await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let mut client = world.lab.https(&name, "http/1.1").await;
    let mut request = get("/");
    let host = request.headers_mut();
    host.insert("host", name.parse().unwrap());
    let answer = client.send(request).await;
    assert_eq!(answer.json()["reason"], "secret_misuse");
    // As a question.
    let (recorder, log) = gig_audit::Recorder::in_memory();
    let enforcer = NameEnforcer::new(recorder.into());
    let name = Fqdn::parse(&name).unwrap();
    let denial = enforcer.enforce(&world.lab.subject, &name, "A").await;
    assert_eq!(denial.unwrap_err().reason, DenyReason::SecretMisuse);
    for record in world.lab.log.records().iter().chain(&log.records()) {
        let told = Some("[value of TOKEN].other.test");
        assert_eq!(record.entry.host.as_deref(), told, "{record:?}");
        let sni = record.entry.tls.as_ref().and_then(|tls| tls.sni.as_deref());
        assert!(sni.is_none() || sni == told, "{record:?}");
        assert!(!format!("{record:?}").contains(VALUE), "{record:?}");
    }
    assert!(world.origin.seen.requests().is_empty());
}
