//! Traces: read by the field's own code, and taken by a collector.

use std::{
    fs, io::Write as _, net::TcpListener, os::unix::fs::PermissionsExt as _, process::Command,
};

use gig_tests::lab::place;

use super::{Place, receivers::take};

/// How many items OpenTelemetry's own description of a signal finds in a line; a field that it does not know is
/// an error to it.
pub(crate) fn read(package: &str, signal: &str, items: &str, line: &str) -> usize {
    let script = format!(
        "import sys\n\
         from google.protobuf.json_format import Parse\n\
         from opentelemetry.proto.collector.{package}.v1.{package}_service_pb2 import Export{signal}ServiceRequest\n\
         from opentelemetry.proto.{package}.v1 import {package}_pb2\n\
         asked = Parse(sys.stdin.read(), Export{signal}ServiceRequest())\n\
         each = lambda one, kind: next(value for field, value in one.ListFields() if field.name.startswith(kind))\n\
         print(sum(len(getattr(scope, '{items}')) for resource in each(asked, 'resource_') for scope in each(resource, 'scope_')))"
    );
    let mut child = Command::new(place::client("venv").join("bin/python"))
        .args(["-c", &script])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(line.as_bytes()).unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.trim().parse().unwrap_or_else(|_| panic!("{text}"))
}

#[test]
fn a_collector_gets_a_span_for_each_denial_and_what_it_rejects_is_told() {
    let place = Place::new();
    let database = place.database(10);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || {
        let refused = take(&listener, "/v1/traces", ("503 Busy", ""));
        let rejecting = r#"{"partialSuccess":{"rejectedSpans":"1","errorMessage":"too old"}}"#;
        let taken = take(&listener, "/v1/traces", ("200 OK", rejecting));
        // Sent twice, they are the same.
        assert_eq!(refused, taken);
        taken
    });
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let answer = place.send(&database, &to, &["--token", &token]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(
        answer.errors.contains("rejected 1 spans: too old"),
        "{answer:?}"
    );
    let taken = collector.join().unwrap();
    assert_eq!(read("trace", "Trace", "spans", &taken.to_string()), 5);
    let span = &taken["resourceSpans"][0]["scopeSpans"][0]["spans"][0];
    assert_eq!(span["status"]["message"], "host_not_allowed");
    // Where there is nothing to tell, nobody is asked.
    let answer = place.send(&database, &to, &["--token", &token, "--json"]);
    assert_eq!(answer.status, 0, "{answer:?}");
    let told: serde_json::Value = serde_json::from_str(&answer.output).unwrap();
    assert_eq!(
        told,
        serde_json::json!({ "to": to, "records": 0, "missed": 0 })
    );
}
