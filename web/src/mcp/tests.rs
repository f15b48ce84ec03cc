//! Who is let in, in which form, and what a session is. The program here says what it hears: what a client asks comes
//! back as the server's own question, and what it answers as the server's answer.

use std::time::Duration;

use axum::body::BodyDataStream;
use futures_util::StreamExt as _;
use gig_audit::Event;
use tower::ServiceExt as _;

use super::*;
use crate::{
    app::tests::{Lab, owner, registered},
    control::Control as _,
    credential::{mint_token, read_token},
    role::Role,
    router::router,
    store::{Change, ServerSpec, Store as _},
};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#;
const BOTH: (&str, &str) = ("accept", "application/json, text/event-stream");

/// Somebody with a token.
struct Client<'a> {
    lab: &'a Lab,
    token: String,
}

impl<'a> Client<'a> {
    fn new(lab: &'a Lab, role: Role, servers: &str) -> Self {
        Self::narrowed(lab, role, ("", servers))
    }

    fn narrowed(lab: &'a Lab, role: Role, (scopes, servers): (&str, &str)) -> Self {
        let minted = mint_token().unwrap();
        lab.make(&Change::AddToken {
            id: minted.id,
            digest: minted.digest,
            name: format!("for-{role}-{}", lab.store.tokens().unwrap().len())
                .parse()
                .unwrap(),
            role,
            narrowing: crate::Narrowing::kept(scopes, servers).unwrap(),
            expires: None,
        });
        let token = minted.text.to_string();
        Self { lab, token }
    }

    async fn ask(&self, what: &str, fields: &[(&str, &str)], body: impl Into<Body>) -> Response {
        let (method, path) = what.split_once(' ').unwrap();
        let mut request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {}", self.token));
        let has = |name: &str| fields.iter().any(|(field, _)| *field == name);
        if method == "POST" && !has("content-type") {
            request = request.header("content-type", "application/json");
        }
        if !has("accept") {
            request = request.header(BOTH.0, BOTH.1);
        }
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(body.into()).unwrap();
        router(Arc::clone(&self.lab.app))
            .oneshot(request)
            .await
            .unwrap()
    }

    async fn status(&self, what: &str, fields: &[(&str, &str)], body: &str) -> u16 {
        let answer = self.ask(what, fields, body.to_owned()).await;
        answer.status().as_u16()
    }

    /// Opens a session that agrees on a revision.
    async fn open(&self, server: &str, revision: &str) -> (String, BodyDataStream) {
        let path = format!("POST /sandbox/{server}/mcp");
        let opened = self.ask(&path, &[], INITIALIZE).await;
        assert_eq!(opened.status(), StatusCode::OK);
        let id = opened.headers()["mcp-session-id"].to_str().unwrap();
        let id = id.to_owned();
        let mut stream = opened.into_body().into_data_stream();
        assert!(event(&mut stream).await.unwrap().contains("initialize"));
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"protocolVersion":"{revision}"}}}}"#);
        let taken = self
            .status(&path, &[("mcp-session-id", &id)], &answer)
            .await;
        assert_eq!(taken, 202);
        assert!(event(&mut stream).await.unwrap().contains(revision));
        assert_eq!(event(&mut stream).await, None, "its answer was its last");
        (id, stream)
    }
}

/// The next of a stream; `None`: it ended.
async fn event(stream: &mut BodyDataStream) -> Option<String> {
    let next = tokio::time::timeout(Duration::from_secs(5), stream.next());
    let octets = next.await.unwrap()?.unwrap();
    Some(String::from_utf8(octets.to_vec()).unwrap())
}

fn lab(servers: &[&str]) -> Lab {
    let lab = Lab::with(servers);
    lab.control.gate.add_permits(100);
    lab
}

fn told(lab: &Lab) -> Vec<String> {
    let entries = lab.log.records().into_iter().map(|record| record.entry);
    let admin = entries.filter(|entry| entry.event == Event::Admin && entry.server.is_some());
    admin.map(|entry| entry.findings[0].to_string()).collect()
}

async fn until(is_so: impl Fn() -> bool) {
    let waiting = async {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), waiting)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_session_is_an_attachment_that_is_recorded_and_ends_when_its_opener_says_so() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let (id, _) = client.open("one", "2025-06-18").await;
    assert_eq!(told(&lab), ["attach asked for"]);
    assert!(id.len() > 40 && id.is_ascii(), "{id}");
    assert_eq!(lab.control.sandboxes().len(), 1);
    let named = [("mcp-session-id", id.as_str())];
    let mut standing = client
        .ask("GET /sandbox/one/mcp", &named, "")
        .await
        .into_body()
        .into_data_stream();
    let other = client.status("GET /sandbox/one/mcp", &named, "").await;
    assert_eq!(other, 409, "one listens at a time");
    let news = r#"{"jsonrpc":"2.0","method":"news"}"#;
    assert_eq!(
        client.status("POST /sandbox/one/mcp", &named, news).await,
        202
    );
    let heard = event(&mut standing).await.unwrap();
    assert_eq!(heard, format!("id: 0-1\ndata: {news}\n\n"));
    drop(standing);
    // Where it broke off it goes on.
    assert_eq!(
        client.status("POST /sandbox/one/mcp", &named, news).await,
        202
    );
    let resumed = [named[0], ("last-event-id", "0-0")];
    let again = client.ask("GET /sandbox/one/mcp", &resumed, "").await;
    let mut again = again.into_body().into_data_stream();
    assert!(event(&mut again).await.unwrap().starts_with("id: 0-1\n"));
    assert!(event(&mut again).await.unwrap().starts_with("id: 0-2\n"));
    let nowhere = [named[0], ("last-event-id", "0-77")];
    assert_eq!(
        client.status("GET /sandbox/one/mcp", &nowhere, "").await,
        400
    );

    assert_eq!(
        client.status("DELETE /sandbox/one/mcp", &named, "").await,
        204
    );
    assert_eq!(event(&mut again).await, None);
    for what in ["POST", "GET", "DELETE"] {
        let what = format!("{what} /sandbox/one/mcp");
        assert_eq!(client.status(&what, &named, news).await, 404, "{what}");
    }
    until(|| lab.app.mcp.is_empty() && lab.control.sandboxes().is_empty()).await;
    let expected = ["attach asked for", "detached: the client ended its session"];
    assert_eq!(told(&lab), expected);
    let records = lab.log.records().into_iter().map(|record| record.entry);
    for entry in records.filter(|entry| entry.event == Event::Admin) {
        let by = entry.findings.last().unwrap();
        assert_eq!(&**by, "by the MCP endpoint");
        assert!(entry.profile.unwrap().starts_with("token for-editor"));
        assert!(entry.sandbox.is_some());
    }
}

#[tokio::test]
async fn who_may_not_attach_opens_no_session() {
    let lab = lab(&["one", "two"]);
    let post = "POST /sandbox/one/mcp";
    let stranger = Client {
        lab: &lab,
        token: "gig_nothing".to_owned(),
    };
    let refused = stranger.ask(post, &[], INITIALIZE).await;
    assert_eq!(refused.status(), StatusCode::UNAUTHORIZED);
    assert_eq!(refused.headers()["www-authenticate"], "Bearer");
    assert_eq!(
        refused.headers()["content-type"],
        "application/problem+json"
    );
    for role in [Role::Viewer, Role::Auditor, Role::Approver] {
        let client = Client::new(&lab, role, "");
        assert_eq!(client.status(post, &[], INITIALIZE).await, 403, "{role}");
    }
    let narrow = Client::new(&lab, Role::Editor, "two");
    assert_eq!(narrow.status(post, &[], INITIALIZE).await, 404);
    let editor = Client::new(&lab, Role::Editor, "");
    let none = editor
        .status("POST /sandbox/none/mcp", &[], INITIALIZE)
        .await;
    assert_eq!(none, 404);
    let other = [("gig-profile", "ben")];
    assert_eq!(editor.status(post, &other, INITIALIZE).await, 403);
    for origin in ["http://a.test", "null", "http://127.0.0.1:1", "127.0.0.1"] {
        let from = [("origin", origin)];
        assert_eq!(
            editor.status(post, &from, INITIALIZE).await,
            403,
            "{origin}"
        );
    }
    assert!(lab.control.sandboxes().is_empty());
    assert!(told(&lab).is_empty(), "{:?}", told(&lab));
    let own = [("origin", "http://127.0.0.1")];
    assert_eq!(editor.status(post, &own, INITIALIZE).await, 200);
    let _opened = narrow.open("two", "2025-11-25").await;
}

#[tokio::test]
async fn a_session_is_there_for_nobody_but_who_opened_it() {
    let lab = lab(&["one", "two"]);
    let client = Client::new(&lab, Role::Admin, "");
    let other = Client::new(&lab, Role::Admin, "");
    let (id, _) = client.open("one", "2025-06-18").await;
    let (second, _) = client.open("one", "2025-06-18").await;
    assert_ne!(id, second);
    assert_eq!(
        lab.control.sandboxes().len(),
        2,
        "each has a program of its own"
    );
    let named = [("mcp-session-id", id.as_str())];
    let ask = r#"{"jsonrpc":"2.0","method":"news"}"#;
    for method in ["POST", "GET", "DELETE"] {
        let here = format!("{method} /sandbox/one/mcp");
        assert_eq!(other.status(&here, &named, ask).await, 404, "{method}");
        let there = format!("{method} /sandbox/two/mcp");
        assert_eq!(client.status(&there, &named, ask).await, 404, "{method}");
        let nobodys = [("mcp-session-id", "mcp_0")];
        assert_eq!(client.status(&here, &nobodys, ask).await, 404, "{method}");
        assert_eq!(client.status(&here, &[], ask).await, 400, "{method}");
        let twice = [named[0], ("mcp-session-id", second.as_str())];
        assert_eq!(client.status(&here, &twice, ask).await, 400, "{method}");
    }
    assert_eq!(
        client.status("POST /sandbox/one/mcp", &named, ask).await,
        202
    );

    // Nor for whom they did not open it.
    let gateway = Client::narrowed(&lab, Role::Editor, ("servers:run profiles:act", "one"));
    let here = "POST /sandbox/one/mcp";
    let opened = gateway
        .ask(here, &[("gig-profile", "ben")], INITIALIZE)
        .await;
    let id = opened.headers()["mcp-session-id"].to_str().unwrap();
    let named = ("mcp-session-id", id);
    for (whose, status) in [("ben", 202), ("BEN", 202), ("cem", 404)] {
        let fields = [named, ("gig-profile", whose)];
        assert_eq!(gateway.status(here, &fields, ask).await, status, "{whose}");
    }
    assert_eq!(gateway.status(here, &[named], ask).await, 404);
}

#[tokio::test]
async fn what_nobody_came_for_is_told_in_the_record_with_the_end() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let (id, _) = client.open("one", "2025-03-26").await;
    let named = [("mcp-session-id", id.as_str())];
    let here = "POST /sandbox/one/mcp";
    let batch = vec![r#"{"jsonrpc":"2.0","method":"news"}"#; 64].join(",");
    for _ in 0..20 {
        let sent = client.status(here, &named, &format!("[{batch}]")).await;
        assert_eq!(sent, 202);
    }
    // Once this is answered, all before it was said.
    let plain = [named[0], ("accept", "application/json")];
    let asking = client.ask(here, &plain, r#"{"jsonrpc":"2.0","id":9,"method":"last"}"#);
    let answering = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let answer = r#"{"jsonrpc":"2.0","id":9,"result":{}}"#;
        client.status(here, &named, answer).await
    };
    let (answered, taken) = tokio::join!(asking, answering);
    assert_eq!((answered.status().as_u16(), taken), (200, 202));
    client.status("DELETE /sandbox/one/mcp", &named, "").await;
    let ended = |word: &str| word.starts_with("detached: the client ended its session; ");
    until(|| told(&lab).last().is_some_and(|last| ended(last))).await;
    let words = told(&lab).pop().unwrap();
    // Of 1,280, the last and its answer 1,024 are kept.
    assert!(
        words.ends_with("nobody came for 258 of its messages"),
        "{words}"
    );
}

#[tokio::test]
async fn what_is_asked_in_another_form_is_told_which() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let (id, _) = client.open("one", "2025-03-26").await;
    let (later, _) = client.open("one", "2025-06-18").await;
    let post = "POST /sandbox/one/mcp";
    let named = ("mcp-session-id", id.as_str());
    let news = r#"{"jsonrpc":"2.0","method":"news"}"#;
    for (fields, body, status) in [
        (&[("accept", "text/html")][..], news, 406),
        (&[("content-type", "text/plain")], news, 415),
        (&[("mcp-protocol-version", "2025-06-18")], news, 400),
        (&[("mcp-protocol-version", "1999-01-01")], news, 400),
        (&[("mcp-protocol-version", "2025-03-26")], news, 202),
        (&[], INITIALIZE, 400),
    ] {
        let fields = [&[named], fields].concat();
        assert_eq!(
            client.status(post, &fields, body).await,
            status,
            "{fields:?}"
        );
    }
    let plain = [named, ("accept", "application/json")];
    let streams = client.status("GET /sandbox/one/mcp", &plain, "").await;
    assert_eq!(streams, 406);
    assert_eq!(
        client.status("HEAD /sandbox/one/mcp", &[named], "").await,
        405
    );
    assert_eq!(
        client.status("PUT /sandbox/one/mcp", &[named], "").await,
        405
    );
    for body in ["{", "{}", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#] {
        let refused = client.ask(post, &[named], body).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST);
        assert_eq!(refused.headers()["content-type"], "application/json");
        let told = to_bytes(refused.into_body(), 1000).await.unwrap();
        let told: serde_json::Value = serde_json::from_slice(&told).unwrap();
        assert!(
            told["id"].is_null() && told["error"]["code"].is_i64(),
            "{told}"
        );
    }
    let long = format!(r#"{{"jsonrpc":"2.0","method":"{}"}}"#, "m".repeat(LONGEST));
    let refused = client.ask(post, &[named], long).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
    let batch = format!("[{news}, {news}]");
    assert_eq!(client.status(post, &[named], &batch).await, 202);
    let later = [("mcp-session-id", later.as_str())];
    assert_eq!(client.status(post, &later, &batch).await, 400);
    let opening = format!("[{INITIALIZE}]");
    assert_eq!(client.status(post, &[], &opening).await, 400);
    assert_eq!(lab.control.sandboxes().len(), 2);
}

#[tokio::test]
async fn one_body_holds_the_answers_where_no_stream_is_taken() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let (id, _) = client.open("one", "2025-03-26").await;
    let post = "POST /sandbox/one/mcp";
    let named = ("mcp-session-id", id.as_str());
    let plain = [named, ("accept", "application/json")];
    let asked = r#"[{"jsonrpc":"2.0","id":7,"method":"a"},{"jsonrpc":"2.0","id":8,"method":"b"}]"#;
    let answers = r#"[{"jsonrpc":"2.0","id":8,"result":{}},{"jsonrpc":"2.0","id":7,"result":{}}]"#;
    let asking = client.ask(post, &plain, asked);
    let answering = async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let again = client.status(post, &plain, r#"{"jsonrpc":"2.0","id":7,"method":"a"}"#);
        assert_eq!(again.await, 400, "it is not answered yet");
        assert_eq!(client.status(post, &[named], answers).await, 202);
    };
    let (answer, ()) = tokio::join!(asking, answering);
    assert_eq!(answer.headers()["content-type"], "application/json");
    let body = to_bytes(answer.into_body(), 1000).await.unwrap();
    assert_eq!(body, answers);
}

#[tokio::test]
async fn a_revoked_token_a_stop_and_idleness_end_sessions_and_their_streams() {
    let lab = lab(&["one"]);
    let mut idle = registered("short", "/bin/true");
    if let Change::SaveServer { spec, .. } = &mut idle {
        *spec = ServerSpec {
            idle_seconds: Some(1),
            ..spec.clone()
        };
    }
    lab.make(&idle);
    let stand = async |client: &Client<'_>, server: &str| {
        let (id, _) = client.open(server, "2025-06-18").await;
        let path = format!("GET /sandbox/{server}/mcp");
        let named = [("mcp-session-id", id.as_str())];
        let answer = client.ask(&path, &named, "").await;
        answer.into_body().into_data_stream()
    };
    let client = Client::new(&lab, Role::Editor, "");
    let mut stream = stand(&client, "one").await;
    let id = read_token(&client.token).unwrap().id;
    let removed = Change::RemoveToken { id };
    lab.app.change(owner(), removed).await.unwrap();
    assert_eq!(event(&mut stream).await, None);
    let last = |words: &'static str| {
        let lab = &lab;
        until(move || told(lab).last().is_some_and(|last| last == words))
    };
    last("detached: the client may be attached no more").await;

    let client = Client::new(&lab, Role::Editor, "");
    let listens = stand(&client, "short").await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(lab.control.sandboxes().len(), 1, "who listens is not idle");
    drop(listens);
    last("detached: its session was idle").await;

    let mut stream = stand(&client, "one").await;
    lab.app.mcp.close();
    assert_eq!(event(&mut stream).await, None);
    last("detached: gig goes down").await;
    until(|| lab.app.mcp.is_empty() && lab.control.sandboxes().is_empty()).await;
}

#[tokio::test]
async fn nobody_has_more_sessions_than_so_many() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let mut open = Vec::new();
    let post = "POST /sandbox/one/mcp";
    loop {
        let answer = client.ask(post, &[], INITIALIZE).await;
        if answer.status() != StatusCode::OK {
            assert_eq!(answer.status(), StatusCode::TOO_MANY_REQUESTS);
            assert!(answer.headers().contains_key("retry-after"));
            break;
        }
        open.push(answer);
    }
    assert_eq!(open.len(), 32);
    let other = Client::new(&lab, Role::Editor, "");
    assert_eq!(other.status(post, &[], INITIALIZE).await, 200);
    let id = open[0].headers()["mcp-session-id"].to_str().unwrap();
    let named = [("mcp-session-id", id)];
    let left = client.status("DELETE /sandbox/one/mcp", &named, "").await;
    assert_eq!(left, 204);
    until(|| lab.control.sandboxes().len() == 32).await;
    assert_eq!(client.status(post, &[], INITIALIZE).await, 200);
}

#[tokio::test]
async fn where_a_stream_begins_is_told_to_who_knows_what_that_is() {
    let lab = lab(&["one"]);
    let client = Client::new(&lab, Role::Editor, "");
    let (id, _) = client.open("one", "2025-11-25").await;
    let named = [("mcp-session-id", id.as_str())];
    let answer = client.ask("GET /sandbox/one/mcp", &named, "").await;
    let mut stream = answer.into_body().into_data_stream();
    assert_eq!(event(&mut stream).await.unwrap(), "id: 0-0\ndata: \n\n");
    drop(stream);

    // By which an answer is had that came while its asker was away.
    let post = "POST /sandbox/one/mcp";
    let asked = r#"{"jsonrpc":"2.0","id":5,"method":"m"}"#;
    let asking = client.ask(post, &named, asked).await;
    let mut stream = asking.into_body().into_data_stream();
    let first = event(&mut stream).await.unwrap();
    let mark = first.strip_prefix("id: ").unwrap();
    let mark = mark.strip_suffix("\ndata: \n\n").unwrap().to_owned();
    drop(stream);
    let answer = r#"{"jsonrpc":"2.0","id":5,"result":{}}"#;
    assert_eq!(client.status(post, &named, answer).await, 202);
    let resumed = [named[0], ("last-event-id", mark.as_str())];
    let again = client.ask("GET /sandbox/one/mcp", &resumed, "").await;
    let mut stream = again.into_body().into_data_stream();
    assert!(event(&mut stream).await.unwrap().contains(&mark));
    let told = loop {
        let told = event(&mut stream).await.expect("its answer");
        if told.contains("result") {
            break told;
        }
    };
    assert!(told.contains(answer), "{told}");
    assert_eq!(event(&mut stream).await, None);
}
