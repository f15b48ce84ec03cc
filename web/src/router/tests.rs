//! What stands before every handler, asked as a connection asks it.

use std::task::Poll;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use gig_audit::{Event, VerdictWord};
use http::{Request, StatusCode};
use tower::ServiceExt as _;

use super::*;
use crate::{
    app::tests::Lab,
    connections::Peer,
    control::Control as _,
    credential::mint_token,
    role::Role,
    store::{Change, Name, ServerKind, ServerSpec},
};

mod allowed;
mod asked;
mod bound;
mod console;
mod described;
mod endpoint;
mod furnished;
mod judged;
mod long;
mod lookalike;
mod overview;
mod paced;
mod paged;
mod record;
mod searched;
mod started;
mod told;
mod traced;
mod typed;
mod walled;

/// A token of this role.
fn token(lab: &Lab, role: Role) -> String {
    let minted = mint_token().unwrap();
    let name: Name = format!("for-{role}").parse().unwrap();
    lab.make(&Change::AddToken {
        id: minted.id,
        digest: minted.digest,
        name,
        role,
        expires: None,
        narrowing: crate::Narrowing::default(),
    });
    minted.text.to_string()
}

async fn ask(lab: &Lab, method: &str, path: &str, token: &str, body: Body) -> StatusCode {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {token}"))
        .header("content-type", "application/json")
        .extension(Peer::Network(([192, 0, 2, 1], 7).into()));
    let request = match method {
        "PUT" => request.header("content-length", LONGEST_BODY + 1),
        _ => request,
    };
    let request = request.body(body).unwrap();
    let answer = router(Arc::clone(&lab.app)).oneshot(request).await;
    answer.unwrap().status()
}

#[tokio::test]
async fn who_may_not_write_documents_is_not_heard_out() {
    let lab = Lab::new();
    let unread = || {
        let read = stream::poll_fn(|_| -> Poll<Option<Result<Bytes, std::io::Error>>> {
            panic!("it was read")
        });
        Body::from_stream(read)
    };
    let viewer = token(&lab, Role::Viewer);
    let refused = ask(&lab, "PUT", "/api/v1/policies/p", &viewer, unread()).await;
    assert_eq!(refused, StatusCode::FORBIDDEN);
    let editor = token(&lab, Role::Editor);
    let heard = ask(
        &lab,
        "PUT",
        "/api/v1/policies/p",
        &editor,
        Body::from("no JSON"),
    )
    .await;
    assert_eq!(heard, StatusCode::BAD_REQUEST);
}

#[tokio::test]
async fn who_is_not_the_owner_registers_nothing() {
    let lab = Lab::new();
    for (name, kind) in [("box", ServerKind::Foreign), ("own", ServerKind::Program)] {
        lab.make(&Change::SaveServer {
            name: name.parse().unwrap(),
            spec: ServerSpec {
                kind,
                ..ServerSpec::default()
            },
            new: true,
            expected: None,
        });
    }
    let admin = token(&lab, Role::Admin);
    let path = "/api/v1/servers/box/register";
    let body = || Body::from(r#"{"pid": 7}"#);
    let refused = ask(&lab, "POST", path, &admin, body()).await;
    assert_eq!(refused, StatusCode::FORBIDDEN);
    assert!(lab.control.sandboxes().is_empty());
    let started = ask(&lab, "POST", "/api/v1/servers/box/start", &admin, body()).await;
    assert_eq!(started, StatusCode::UNPROCESSABLE_ENTITY);
    for (server, expected) in [
        ("box", StatusCode::CREATED),
        ("own", StatusCode::UNPROCESSABLE_ENTITY),
        ("none", StatusCode::NOT_FOUND),
    ] {
        let request = Request::post(format!("/api/v1/servers/{server}/register"))
            .header("host", "gig")
            .header("content-type", "application/json")
            .extension(Peer::Owner(crate::local_user(7).into()));
        let request = request.body(body()).unwrap();
        let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), expected, "{server}");
    }
    assert_eq!(lab.control.sandboxes().len(), 1);
    let records = lab.log.records();
    let asked = |one: &&gig_audit::Record| {
        let found = one.entry.findings.first();
        found.is_some_and(|found| found.contains("network namespace asked for: process 7"))
    };
    assert_eq!(records.iter().filter(asked).count(), 1);
}

#[tokio::test]
async fn what_is_refused_to_somebody_is_recorded_once_a_minute() {
    let lab = Lab::new();
    let viewer = token(&lab, Role::Viewer);
    let wrong = mint_token().unwrap().text.to_string();
    for _ in 0..3 {
        let stranger = ask(&lab, "GET", "/api/v1/users", &wrong, Body::empty()).await;
        assert_eq!(stranger, StatusCode::UNAUTHORIZED);
        let known = ask(&lab, "GET", "/api/v1/users", &viewer, Body::empty()).await;
        assert_eq!(known, StatusCode::FORBIDDEN);
        let allowed = ask(&lab, "GET", "/api/v1/policies", &viewer, Body::empty()).await;
        assert_eq!(allowed, StatusCode::OK);
    }
    let told = lab.log.records().into_iter().map(|record| record.entry);
    let told: Vec<_> = told
        .inspect(|entry| {
            assert_eq!(
                (entry.event, entry.verdict),
                (Event::Auth, Some(VerdictWord::Deny))
            );
            assert_eq!(entry.src, Some(([192, 0, 2, 1], 7).into()));
        })
        .map(|entry| (entry.profile.is_some(), entry.findings[0].to_string()))
        .collect();
    // Another minute may begin meanwhile, on a machine that is busy.
    assert!((2..=6).contains(&told.len()), "{told:?}");
    let stranger = "refused what was presented: GET /api/v1/users".to_owned();
    assert_eq!(told[0], (false, stranger));
    let known = "refused by role: GET /api/v1/users".to_owned();
    assert_eq!(told[1], (true, known));
}

#[tokio::test]
async fn what_the_router_refuses_by_itself_is_a_problem_document_too() {
    let lab = Lab::new();
    let admin = token(&lab, Role::Admin);
    for (method, path, status) in [
        ("GET", "/api/v1/proposals/none", StatusCode::BAD_REQUEST),
        ("GET", "/api/v1/policies/%FF", StatusCode::BAD_REQUEST),
        ("POST", "/api/v1/me", StatusCode::METHOD_NOT_ALLOWED),
        ("GET", "/api/v1/nothing", StatusCode::NOT_FOUND),
        ("PUT", "/api/v1/servers/one", StatusCode::PAYLOAD_TOO_LARGE),
    ] {
        let long = "x".repeat(LONGEST_BODY + 1);
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .header("authorization", format!("Bearer {admin}"))
            .header("content-type", "application/json")
            .body(Body::from(if method == "PUT" {
                long
            } else {
                String::new()
            }))
            .unwrap();
        let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
        assert_eq!(answer.status(), status, "{path}");
        let kind = answer.headers().get("content-type").unwrap();
        assert_eq!(kind, "application/problem+json", "{path}");
        let allow = answer.headers().get("allow").is_some();
        assert_eq!(allow, status == StatusCode::METHOD_NOT_ALLOWED, "{path}");
    }
}
