//! Who is let in, by what handshake, and what the record says of it, over a connection of its own.

use futures_util::{SinkExt as _, StreamExt as _};
use gig_audit::Event;
use hyper_util::service::TowerToHyperService;
use tokio::io::duplex;
use tokio_tungstenite::tungstenite::{Error, Message, client::IntoClientRequest as _};
use tower::ServiceExt as _;

use super::*;
use crate::{
    app::tests::Lab, connections::Peer, credential::mint_token, role::Role, router::router,
    store::Change,
};

fn token(lab: &Lab, role: Role) -> String {
    narrowed(lab, role, crate::Narrowing::default())
}

fn narrowed(lab: &Lab, role: Role, narrowing: crate::Narrowing) -> String {
    let minted = mint_token().unwrap();
    lab.make(&Change::AddToken {
        id: minted.id,
        digest: minted.digest,
        name: format!("for-{role}").parse().unwrap(),
        role,
        narrowing,
        expires: None,
    });
    minted.text.to_string()
}

/// Attaches by a real connection; what was answered otherwise is the status.
async fn attach(
    lab: &Lab,
    server: &str,
    headers: &[(&'static str, String)],
) -> Result<WebSocketStream<tokio::io::DuplexStream>, StatusCode> {
    let (theirs, ours) = duplex(64 * 1024);
    let router = router(Arc::clone(&lab.app));
    let service = tower::service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        let peer = Peer::Network(([192, 0, 2, 1], 7).into());
        request.extensions_mut().insert(peer);
        router.clone().oneshot(request.map(Body::new))
    });
    lab.app.attachments.spawn(async move {
        let served = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(ours), TowerToHyperService::new(service));
        let _ended = served.with_upgrades().await;
    });
    let url = format!("ws://127.0.0.1/api/v1/servers/{server}/attach");
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        let value = HeaderValue::from_str(value).unwrap();
        request.headers_mut().insert(*name, value);
    }
    match tokio_tungstenite::client_async(request, theirs).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(answer)) => Err(answer.status()),
        Err(other) => panic!("{other}"),
    }
}

fn bearer(token: &str) -> (&'static str, String) {
    ("authorization", format!("Bearer {token}"))
}

fn told(lab: &Lab) -> Vec<String> {
    let entries = lab.log.records().into_iter().map(|record| record.entry);
    let admin = entries.filter(|entry| entry.event == Event::Admin && entry.server.is_some());
    admin.map(|entry| entry.findings[0].to_string()).collect()
}

#[tokio::test]
async fn who_may_run_sandboxes_is_attached_and_both_ends_are_recorded() {
    let lab = Lab::with(&["one"]);
    lab.control.gate.add_permits(10);
    let editor = token(&lab, Role::Editor);
    let protocol = ("sec-websocket-protocol", protocol::PROTOCOL.to_owned());
    let mut client = attach(&lab, "one", &[bearer(&editor), protocol])
        .await
        .unwrap();
    assert_eq!(told(&lab), ["attach asked for"]);
    assert_eq!(lab.app.control.sandboxes().len(), 1);
    client.send(Message::binary(&b"\0hello"[..])).await.unwrap();
    let mut heard = Vec::new();
    while heard.len() < 6 {
        if let Message::Binary(octets) = client.next().await.unwrap().unwrap()
            && octets.first() == Some(&protocol::STDOUT)
        {
            heard.extend_from_slice(&octets);
        }
    }
    assert_eq!(heard, b"\x01hello");
    drop(client);
    while told(&lab).len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(told(&lab)[1], "detached: the client went away");
    while !lab.app.control.sandboxes().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let records = lab.log.records().into_iter();
    let sandboxes: Vec<_> = records.map(|record| record.entry.sandbox).collect();
    assert!(
        sandboxes
            .iter()
            .all(|id| *id == sandboxes[0] && id.is_some())
    );
}

#[tokio::test]
async fn who_may_not_is_refused_before_anything_starts() {
    let lab = Lab::with(&["one"]);
    lab.control.gate.add_permits(10);
    let refused = async |server: &str, headers: &[(&'static str, String)]| {
        attach(&lab, server, headers).await.map(drop).unwrap_err()
    };
    assert_eq!(refused("one", &[]).await, StatusCode::UNAUTHORIZED);
    for role in [Role::Viewer, Role::Auditor, Role::Approver] {
        let token = token(&lab, role);
        let status = refused("one", &[bearer(&token)]).await;
        assert_eq!(status, StatusCode::FORBIDDEN, "{role}");
    }
    let admin = token(&lab, Role::Admin);
    let status = refused("two", &[bearer(&admin)]).await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(lab.app.control.sandboxes().is_empty());
    assert!(told(&lab).is_empty(), "{:?}", told(&lab));
}

#[tokio::test]
async fn what_is_no_websocket_starts_nothing() {
    let lab = Lab::with(&["one"]);
    let admin = token(&lab, Role::Admin);
    for (name, value) in [
        ("upgrade", "h2c"),
        ("connection", "close"),
        ("sec-websocket-version", "8"),
        ("sec-websocket-key", "c2hvcnQ="),
    ] {
        let request = http::Request::builder()
            .uri("/api/v1/servers/one/attach")
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {admin}"))
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "AAAAAAAAAAAAAAAAAAAAAA==");
        let mut request = request.body(Body::empty()).unwrap();
        request
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
        let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), StatusCode::UPGRADE_REQUIRED, "{name}");
    }
    assert!(told(&lab).is_empty(), "{:?}", told(&lab));
}

#[tokio::test]
async fn a_client_that_is_gone_leaves_the_line() {
    let lab = Lab::with(&["one"]);
    let editor = token(&lab, Role::Editor);
    // Its program is never started: the gate stays shut.
    let headers = [bearer(&editor)];
    let attaching = attach(&lab, "one", &headers);
    let late = tokio::time::timeout(Duration::from_millis(300), attaching).await;
    assert!(late.is_err());
    while told(&lab).len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let expected = ["attach asked for", "not attached: the client went away"];
    assert_eq!(told(&lab), expected);
    lab.control.gate.add_permits(1);
    assert!(lab.app.control.sandboxes().is_empty());
}

/// What an attached client is told at the end, and how long that took.
async fn let_go(mut client: WebSocketStream<tokio::io::DuplexStream>) -> (u16, Duration) {
    let begun = tokio::time::Instant::now();
    loop {
        if let Message::Close(frame) = client.next().await.unwrap().unwrap() {
            return (frame.unwrap().code.into(), begun.elapsed());
        }
    }
}

#[tokio::test]
async fn who_may_no_more_is_let_go_at_once_whoever_ended_it() {
    let lab = Lab::with(&["one"]);
    lab.control.gate.add_permits(10);
    let ended = async |end: &dyn Fn(String)| {
        let editor = token(&lab, Role::Editor);
        let mut client = attach(&lab, "one", &[bearer(&editor)]).await.unwrap();
        // It has been looked at once by then, and lives.
        for _ in 0..50 {
            client.send(Message::binary(&b"\0x"[..])).await.unwrap();
            while !client.next().await.unwrap().unwrap().is_binary() {}
        }
        end(crate::credential::read_token(&editor).unwrap().id);
        let_go(client).await
    };
    // As another node does, or a command beside: nobody here is told.
    let (code, took) = ended(&|id| lab.make(&Change::RemoveToken { id })).await;
    assert_eq!(code, protocol::LAPSED);
    assert!(took < Duration::from_secs(5), "{took:?}");
    let words = "detached: the client may be attached no more";
    while told(&lab).last().is_none_or(|last| last != words) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_token_of_one_server_reaches_no_other_and_its_tries_are_recorded() {
    let lab = Lab::with(&["one", "two"]);
    lab.control.gate.add_permits(10);
    let of_one = crate::Narrowing::kept("", "one").unwrap();
    let token = narrowed(&lab, Role::Admin, of_one);
    let ask = async |method: &str, path: &str| {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {token}"));
        let request = request.body(Body::empty()).unwrap();
        let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
        answer.status()
    };
    let attached = attach(&lab, "two", &[bearer(&token)]).await;
    assert_eq!(attached.map(drop).unwrap_err(), StatusCode::NOT_FOUND);
    let start = ask("POST", "/api/v1/servers/two/start").await;
    let log = ask("GET", "/api/v1/servers/two/log").await;
    assert_eq!((start, log), (StatusCode::NOT_FOUND, StatusCode::NOT_FOUND));
    assert!(lab.app.control.sandboxes().is_empty());
    assert!(told(&lab).is_empty(), "{:?}", told(&lab));
    let mut refused = Vec::new();
    while refused.len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let entries = lab.log.records().into_iter().map(|record| record.entry);
        let auth = entries.filter(|entry| entry.event == Event::Auth);
        refused = auth.map(|entry| entry.findings[0].to_string()).collect();
    }
    for (told, end) in refused.iter().zip(["/attach", "/start", "/log"]) {
        assert!(told.ends_with(end), "{refused:?}");
    }

    let log = ask("GET", "/api/v1/servers/one/log").await;
    let start = ask("POST", "/api/v1/servers/one/start").await;
    assert_eq!((log, start), (StatusCode::OK, StatusCode::CREATED));
    assert!(attach(&lab, "one", &[bearer(&token)]).await.is_ok());
}
