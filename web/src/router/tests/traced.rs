//! What a request to the API is told as, and whose trace it is of.

use serde_json::Value;
use tokio::sync::mpsc;

use super::furnished::{Ask, Furnished};
use crate::{
    role::Role,
    spans::{ApiSpan, otlp},
};

const THEIRS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// The spans of what was asked, as a collector is told.
fn told(spans: &mut mpsc::Receiver<ApiSpan>) -> Vec<Value> {
    let all: Vec<_> = std::iter::from_fn(|| spans.try_recv().ok()).collect();
    let request: Value = serde_json::from_str(&otlp(&all, "here")).unwrap();
    let scope = &request["resourceSpans"][0]["scopeSpans"][0];
    scope["spans"].as_array().unwrap().clone()
}

fn attribute(span: &Value, key: &str) -> Option<String> {
    let all = span["attributes"].as_array().unwrap();
    let found = all.iter().find(|one| one["key"] == key)?;
    let value = &found["value"];
    let text = value["stringValue"]
        .as_str()
        .or_else(|| value["intValue"].as_str());
    text.map(str::to_owned)
}

#[tokio::test]
async fn a_request_is_told_by_its_route_and_who_asked_and_by_nothing_that_is_secret() {
    let appliance = Furnished::new().await;
    let mut spans = appliance.lab.app.spans.taken(8);
    let token = appliance.token("ana", Role::Viewer, ("", ""));
    let ask = |what, token, field| Ask {
        token,
        field,
        ..Ask::of(what)
    };
    let parent = Some(("traceparent", THEIRS));
    let there = "GET /api/v1/servers/docs";
    assert_eq!(appliance.ask(ask(there, &token, parent)).await.status, 200);
    assert_eq!(
        appliance
            .ask(ask("DELETE /api/v1/users/cem", &token, None))
            .await
            .status,
        403
    );
    assert_eq!(appliance.ask(ask(there, "", parent)).await.status, 401);
    assert_eq!(
        appliance
            .ask(ask("GET /api/v1/nowhere/x", &token, None))
            .await
            .status,
        404
    );
    // A page of the console is none of the API.
    appliance.ask(ask("GET /sign-in", "", None)).await;
    let told = told(&mut spans);
    assert_eq!(told.len(), 4, "{told:#?}");
    let named: Vec<_> = told
        .iter()
        .map(|span| span["name"].as_str().unwrap())
        .collect();
    let route = "GET /api/v1/servers/{name}";
    assert_eq!(named, [route, "DELETE /api/v1/users/{name}", route, "GET"]);
    let statuses: Vec<_> = told
        .iter()
        .map(|span| attribute(span, "http.response.status_code").unwrap())
        .collect();
    assert_eq!(statuses, ["200", "403", "401", "404"]);
    let [known, refused, stranger, _] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!(known["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_eq!(known["parentSpanId"], "00f067aa0ba902b7");
    assert_ne!(known["spanId"], known["parentSpanId"]);
    let who = attribute(known, "enduser.id").unwrap();
    assert!(who.starts_with("token t"), "{who}");
    assert_eq!(attribute(refused, "enduser.id").as_ref(), Some(&who));
    // What a stranger says of traces is nobody's.
    assert_ne!(stranger["traceId"], known["traceId"]);
    assert_eq!(stranger["parentSpanId"], Value::Null);
    assert_eq!(attribute(stranger, "enduser.id"), None);
    let text = format!("{told:?}");
    for secret in [&*token, "docs\"", "cem", "nowhere"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    let took = |at: &str| known[at].as_str().unwrap().parse::<u128>().unwrap();
    assert!(took("endTimeUnixNano") >= took("startTimeUnixNano"));
}

#[tokio::test]
async fn spans_that_nobody_takes_hold_no_request_up_and_are_counted() {
    let appliance = Furnished::new().await;
    let spans = appliance.lab.app.spans.taken(1);
    let token = appliance.token("ana", Role::Viewer, ("", ""));
    for _ in 0..3 {
        let ask = Ask {
            token: &token,
            ..Ask::of("GET /api/v1/me")
        };
        assert_eq!(appliance.ask(ask).await.status, 200);
    }
    let app = &appliance.lab.app;
    assert_eq!(app.spans.dropped(), Some(2));
    drop(spans);
    // What was passed on and not taken in the end is counted with them, and said until something is taken again.
    let traces = || async {
        let parts = app.health().await.into_iter();
        let part = { parts }.find(|part| &*part.part == "traces").unwrap();
        (part.works, part.words.to_string())
    };
    assert!(traces().await.0);
    app.spans_arrived(Some((5, "it answered 400")));
    assert_eq!(app.spans.dropped(), Some(7));
    let (works, words) = traces().await;
    assert!(!works && words.contains("it answered 400"), "{words}");
    assert!(words.contains("7 were dropped"), "{words}");
    app.spans_arrived(None);
    let (works, words) = traces().await;
    assert!(works && words.contains("7 were dropped"), "{words}");
}
