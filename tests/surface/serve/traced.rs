//! Requests to the API as a collector is told of them.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _};

use serde_json::Value;

use super::{Appliance, Ask};
use crate::audit_export::{receivers::take, traces::read};

#[test]
fn a_collector_gets_a_span_of_each_request_to_the_api_also_after_it_was_away() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a listener");
    let to = format!(
        "http://{}/v1/traces",
        listener.local_addr().expect("its address")
    );
    let folder = tempfile::tempdir().expect("a folder");
    let token = tempfile::NamedTempFile::new().expect("a file");
    fs::write(token.path(), "T0ken\n").expect("write it");
    fs::set_permissions(token.path(), fs::Permissions::from_mode(0o600)).expect("its mode");
    let file = token.path().to_str().expect("text");
    let appliance = Appliance::start_in(folder, &["--traces", &to, "--traces-token", file]);
    let secret = appliance.token("viewer");
    let collector = std::thread::spawn(move || {
        let refused = take(&listener, "/v1/traces", ("503 Busy", ""));
        let taken = take(&listener, "/v1/traces", ("200 OK", "{}"));
        assert_eq!(refused, taken, "the same spans again");
        (listener, taken)
    });
    let theirs = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let asked = Ask::new("GET", "/api/v1/servers/nothing").token(&secret);
    let asked = asked.header("traceparent", theirs).send(&appliance);
    assert_eq!(asked.status, 404, "{asked:?}");
    let (listener, mut taken) = collector.join().expect("a collector");
    let is_it = |span: &Value| span["traceId"] == "4bf92f3577b34da6a3ce929d0e0e4736";
    let found = loop {
        let text = taken.to_string();
        assert!(read("trace", "Trace", "spans", &text) > 0, "{text}");
        assert!(
            !text.contains(&secret) && !text.contains("nothing"),
            "{text}"
        );
        let spans = &taken["resourceSpans"][0]["scopeSpans"][0]["spans"];
        let found = spans
            .as_array()
            .expect("spans")
            .iter()
            .find(|span| is_it(span));
        if let Some(found) = found {
            break found.clone();
        }
        // What `gig` itself asked when it started came first.
        taken = take(&listener, "/v1/traces", ("200 OK", "{}"));
    };
    assert_eq!(found["name"], "GET /api/v1/servers/{name}");
    assert_eq!(found["parentSpanId"], "00f067aa0ba902b7");
    assert!(
        found["attributes"].to_string().contains("enduser.id"),
        "{found}"
    );
    // What is refused for good is counted, and not as if it had arrived.
    let asked = Ask::new("GET", "/api/v1/me").token(&secret);
    assert_eq!(asked.send(&appliance).status, 200);
    let refused = take(&listener, "/v1/traces", ("400 Bad Request", ""));
    let refused = &refused["resourceSpans"][0]["scopeSpans"][0]["spans"];
    let refused = refused.as_array().expect("spans").len();
    let counted = format!("gig_spans_dropped_total {refused}\n");
    appliance.until("counts what was refused", |appliance| {
        let figures = Ask::new("GET", "/metrics").token(&secret).send(appliance);
        figures.body.contains(&counted)
    });
}
