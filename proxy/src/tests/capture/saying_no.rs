//! Answers that are no success and cannot be taken apart: what may be a token in them does not come in.

use super::*;

/// Answers that are no success and hold a token all the same.
pub(super) fn answer(path: &str) -> http::Result<Response<Body>> {
    let json = format!("{{\"access_token\":\"{ACCESS}\"}}");
    let wide: Vec<u8> = json.bytes().flat_map(|octet| [octet, 0]).collect();
    let (status, kind, body) = match path.trim_start_matches("/token/no/") {
        "marked" => (400, "application/json", format!("\u{feff}{json}").into()),
        "wide" => (400, "application/json", Bytes::from(wide)),
        "lines" => (
            400,
            "application/x-ndjson",
            format!("{json}\n{json}\n").into(),
        ),
        "page" => (500, "text/html", format!("<p>{ACCESS}").into()),
        "events" => (401, "text/event-stream", format!("data: {json}\n\n").into()),
        "text" => (403, "text/plain", format!("it is {ACCESS} (a=b)").into()),
        "moved" => (302, "text/html", format!("<p>{ACCESS}").into()),
        _ => (
            302,
            "text/html",
            Bytes::from_static(b"<p>Found: <a href=\"/in\">here</a>"),
        ),
    };
    let answer = Response::builder().status(status);
    answer
        .header("content-type", kind)
        .header("location", "/in")
        .body(full(body))
}

#[tokio::test]
async fn an_answer_that_says_no_shows_no_token_either() {
    let world = World::new("http/1.1").await;
    let get = async |path: &str| {
        let path = format!("/token/no/{path}");
        world.send("auth.test", "http/1.1", get(&path)).await
    };
    for path in ["marked", "wide", "lines", "page", "events", "text"] {
        let answer = get(path).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{path}");
        assert_eq!(answer.json()["reason"], "token_unreadable", "{path}");
        assert!(!format!("{answer:?}").contains("r3al"), "{path}");
    }
    // A redirect leads on without its text.
    let moved = get("moved").await;
    let place = (moved.status, moved.header("location"));
    assert_eq!(place, (StatusCode::FOUND, "/in"));
    assert!(moved.body.is_empty(), "{moved:?}");
    let shown = get("shown").await;
    assert_eq!(shown.body, "<p>Found: <a href=\"/in\">here</a>");
    let records = world.lab.until_records(Event::Response, 8).await;
    let left = format!("{:?}", records[6].entry.findings);
    assert!(
        left.contains("the text of a redirect was left out"),
        "{left}"
    );
    world.assert_nothing_recorded();
}
