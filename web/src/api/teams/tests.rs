//! What the API asks of who changes a team or an assignment, and what it answers.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use gig_policy::SandboxId;
use serde_json::{Value, json};
use tower::ServiceExt as _;

use crate::{
    Narrowing,
    app::tests::{Lab, saved},
    credential::mint_token,
    role::Role,
    router::router,
    store::Change,
};

fn token(lab: &Lab, role: Role, scopes: &str) -> String {
    let minted = mint_token().unwrap();
    lab.make(&Change::AddToken {
        name: format!("t{}", minted.id).parse().unwrap(),
        id: minted.id,
        digest: minted.digest,
        role,
        narrowing: Narrowing::kept(scopes, "").unwrap(),
        expires: None,
    });
    minted.text.to_string()
}

/// Status, ETag and body.
async fn ask(
    lab: &Lab,
    token: &str,
    what: &str,
    field: Option<(&str, &str)>,
    body: Option<Value>,
) -> (u16, String, Value) {
    let (method, path) = what.split_once(' ').unwrap();
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("host", "127.0.0.1")
        .header("content-type", "application/json")
        .header("authorization", format!("Bearer {token}"));
    if let Some((name, value)) = field {
        request = request.header(name, value);
    }
    let body = body.map_or_else(Body::empty, |body| Body::from(body.to_string()));
    let request = request.body(body).unwrap();
    let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let tag = answer
        .headers()
        .get("etag")
        .map(|tag| tag.to_str().unwrap().to_owned());
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    let body = serde_json::from_slice(&body).unwrap_or_default();
    (status, tag.unwrap_or_default(), body)
}

#[tokio::test]
async fn a_team_is_changed_by_who_says_what_they_have_seen() {
    let lab = Lab::with(&[]);
    let admin = token(&lab, Role::Admin, "");
    let put = "PUT /api/v1/teams/data";
    let of = |names: &[&str]| Some(json!({ "members": names }));
    let new = Some(("if-none-match", "*"));
    assert_eq!(ask(&lab, &admin, put, None, of(&["ana"])).await.0, 428);
    let (status, tag, team) = ask(&lab, &admin, put, new, of(&["Ben", "ana", "BEN"])).await;
    assert_eq!(
        (status, &team["members"]),
        (201, &json!(["ana", "ben"])),
        "{team}"
    );
    assert_eq!(ask(&lab, &admin, put, new, of(&["ana"])).await.0, 412);
    let (status, same, _) = ask(&lab, &admin, "GET /api/v1/teams/data", None, None).await;
    assert_eq!((status, &same), (200, &tag));
    let on = |tag: &'static str| Some(("if-match", tag));
    let tag: &'static str = tag.leak();
    let (status, other, _) = ask(&lab, &admin, put, on(tag), of(&["ana"])).await;
    assert!(status == 200 && other != tag);
    for late in ["PUT", "DELETE"] {
        let asked = format!("{late} /api/v1/teams/data");
        let (status, _, problem) = ask(&lab, &admin, &asked, on(tag), of(&["cem"])).await;
        assert_eq!(
            (status, &problem["title"]),
            (412, &json!("changed meanwhile")),
            "{late}"
        );
    }
    for (name, members) in [
        ("a%20b", json!(["ana"])),
        ("data", json!(["a b"])),
        ("data", json!([""])),
    ] {
        let asked = format!("PUT /api/v1/teams/{name}");
        let body = Some(json!({ "members": members }));
        let status = ask(&lab, &admin, &asked, Some(("if-match", "*")), body)
            .await
            .0;
        assert!([412, 422].contains(&status), "{name} {members} {status}");
    }
    let listed = ask(&lab, &admin, "GET /api/v1/teams", None, None).await.2;
    assert_eq!(listed["items"][0]["members"], json!(["ana"]));
    assert_eq!(
        ask(&lab, &admin, "DELETE /api/v1/teams/data", None, None)
            .await
            .0,
        204
    );
    assert_eq!(
        ask(&lab, &admin, "GET /api/v1/teams/data", None, None)
            .await
            .0,
        404
    );
}

#[tokio::test]
async fn who_may_not_say_who_is_of_a_team_does_not() {
    let lab = Lab::with(&[]);
    let new = Some(("if-none-match", "*"));
    let body = || Some(json!({"members": ["ana"]}));
    for role in [Role::Viewer, Role::Auditor, Role::Editor, Role::Approver] {
        let theirs = token(&lab, role, "");
        assert_eq!(
            ask(&lab, &theirs, "PUT /api/v1/teams/x", new, body())
                .await
                .0,
            403,
            "{role}"
        );
        assert_eq!(
            ask(&lab, &theirs, "DELETE /api/v1/teams/x", None, None)
                .await
                .0,
            403
        );
        assert_eq!(
            ask(&lab, &theirs, "GET /api/v1/teams", None, None).await.0,
            200
        );
    }
    let narrow = token(&lab, Role::Admin, "read policies:assign");
    assert_eq!(
        ask(&lab, &narrow, "PUT /api/v1/teams/x", new, body())
            .await
            .0,
        403
    );
    let directory = token(&lab, Role::Admin, "teams:write");
    assert_eq!(
        ask(&lab, &directory, "PUT /api/v1/teams/x", new, body())
            .await
            .0,
        201
    );
}

#[tokio::test]
async fn an_assignment_is_of_one_place_and_of_the_list_that_was_seen_and_holds_at_once() {
    let lab = Lab::with(&["docs"]);
    lab.control.gate.add_permits(10);
    lab.make(&saved("q"));
    let admin = token(&lab, Role::Admin, "");
    let put = "PUT /api/v1/assignments";
    let (_, tag, listed) = ask(&lab, &admin, "GET /api/v1/assignments", None, None).await;
    assert_eq!(listed["items"], json!([{"server": null, "policy": "p"}]));
    for wrong in [
        json!({"server": "docs", "team": "data", "policy": "q"}),
        json!({"team": "data", "profile": "ana", "policy": "q"}),
        json!({"profile": "ana", "server": "docs", "policy": "q"}),
        json!({"scope": "all", "policy": "q"}),
        json!({"profile": "a b", "policy": "q"}),
        json!({"team": "nobody", "policy": "q"}),
    ] {
        let any = Some(("if-match", "*"));
        let status = ask(&lab, &admin, put, any, Some(wrong.clone())).await.0;
        assert!([400, 404, 422].contains(&status), "{wrong} {status}");
    }
    // Ana's and Ben's sandboxes of one server: only hers is decided again.
    for who in ["ana", "ben"] {
        let id = SandboxId::new(uuid::Uuid::now_v7());
        lab.app
            .start("docs".to_owned(), id, who.into())
            .await
            .unwrap();
    }
    let seen = Some(("if-match", &*tag));
    let anas = || Some(json!({"profile": "Ana", "policy": "q"}));
    assert_eq!(ask(&lab, &admin, put, None, anas()).await.0, 428);
    let known = Some(("if-none-match", &*tag));
    let list = "GET /api/v1/assignments";
    assert_eq!(ask(&lab, &admin, list, known, None).await.0, 304);
    assert_eq!(ask(&lab, &admin, put, seen, anas()).await.0, 204);
    assert_eq!(ask(&lab, &admin, list, known, None).await.0, 200);
    assert_eq!(ask(&lab, &admin, put, seen, anas()).await.0, 412);
    let shown = ask(&lab, &admin, "GET /api/v1/sandboxes", None, None)
        .await
        .2;
    let of = |who: &str| {
        let mut items = shown["items"].as_array().unwrap().iter();
        let one = items.find(|one| one["profile"] == who).unwrap();
        (one["policy"].clone(), one["policy_by"].clone())
    };
    assert_eq!(of("ana"), (json!("q"), json!("profile ana")));
    assert_eq!(of("ben"), (json!("p"), json!("all servers")));
    let listed = ask(&lab, &admin, "GET /api/v1/assignments", None, None)
        .await
        .2;
    let ours = json!({"server": null, "profile": "ana", "policy": "q"});
    assert!(
        listed["items"].as_array().unwrap().contains(&ours),
        "{listed}"
    );
    let floors = "PUT /api/v1/floors";
    let (_, tag, _) = ask(&lab, &admin, "GET /api/v1/floors", None, None).await;
    let of_all = || Some(json!({"policy": "p"}));
    assert_eq!(ask(&lab, &admin, floors, None, of_all()).await.0, 428);
    assert_eq!(
        ask(&lab, &admin, floors, Some(("if-match", &tag)), of_all())
            .await
            .0,
        204
    );
    assert_eq!(
        ask(&lab, &admin, floors, Some(("if-match", &tag)), of_all())
            .await
            .0,
        412
    );
}
