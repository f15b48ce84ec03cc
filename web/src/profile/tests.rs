//! Who may ask for whom, and what the record says of it.

use std::sync::Arc;

use axum::body::{Body, to_bytes};
use gig_audit::Event;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::{
    Narrowing, app::tests::Lab, credential::mint_token, role::Role, router::router, store::Change,
};

/// A token that ana made.
fn token(lab: &Lab, scopes: &str, servers: &str) -> String {
    let minted = mint_token().unwrap();
    let change = Change::AddToken {
        name: format!("t{}", minted.id).parse().unwrap(),
        id: minted.id,
        digest: minted.digest,
        role: Role::Editor,
        narrowing: Narrowing::kept(scopes, servers).unwrap(),
        expires: None,
    };
    let actor = crate::store::Actor {
        name: "ana".into(),
        person: Some("ana".into()),
        ..crate::app::tests::owner()
    };
    lab.app.store.apply(&change, &actor, &|_| Ok(())).unwrap();
    minted.text.to_string()
}

async fn start(lab: &Lab, token: &str, server: &str, profiles: &[&str]) -> (u16, Value) {
    let mut request = http::Request::builder()
        .method("POST")
        .uri(format!("/api/v1/servers/{server}/start"))
        .header("host", "127.0.0.1")
        .header("authorization", format!("Bearer {token}"));
    for profile in profiles {
        request = request.header("gig-profile", *profile);
    }
    let request = request.body(Body::empty()).unwrap();
    let answer = router(Arc::clone(&lab.app)).oneshot(request).await.unwrap();
    let status = answer.status().as_u16();
    let body = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    (status, serde_json::from_slice(&body).unwrap())
}

fn lab() -> Lab {
    let lab = Lab::with(&["one", "two"]);
    lab.control.gate.add_permits(100);
    let add = |name: &str| Change::AddUser {
        name: name.parse().unwrap(),
        role: Role::Admin,
        password: "hash".to_owned(),
    };
    for name in ["ana", "Ben"] {
        lab.make(&add(name));
    }
    lab
}

#[tokio::test]
async fn a_token_acts_for_others_only_where_it_is_said_and_whose_it_is_is_told() {
    let lab = lab();
    let plain = token(&lab, "", "");
    let gateway = token(&lab, "servers:run profiles:act", "one");
    let (status, own) = start(&lab, &plain, "one", &[]).await;
    assert_eq!((status, own["profile"].as_str()), (201, Some("ana")));
    // By another token of hers, and by her own name: it is hers, and it runs.
    for (token, profiles) in [
        (&gateway, &[][..]),
        (&plain, &["ANA"]),
        (&gateway, &["ana"]),
    ] {
        let (status, same) = start(&lab, token, "one", profiles).await;
        assert_eq!((status, &same["id"]), (200, &own["id"]), "{profiles:?}");
    }
    let (status, refused) = start(&lab, &plain, "one", &["ben"]).await;
    assert_eq!(status, 403, "{refused}");
    assert!(refused["detail"].as_str().unwrap().contains("profiles:act"));
    let (status, bens) = start(&lab, &gateway, "one", &["BEN"]).await;
    assert_eq!((status, bens["profile"].as_str()), (201, Some("Ben")));
    assert_ne!(bens["id"], own["id"]);
    // Whom only the gateway knows has one spelling, too.
    let (_, first) = start(&lab, &gateway, "one", &["Cem@corp.example"]).await;
    let (_, again) = start(&lab, &gateway, "one", &["cem@corp.example"]).await;
    assert_eq!(first["id"], again["id"]);
    assert_eq!(first["profile"], "cem@corp.example");
    let records = lab.log.records().into_iter().map(|record| record.entry);
    let of_bens = records.filter(|entry| {
        let id = entry.sandbox.map(|id| id.to_string());
        entry.event == Event::Admin && id.as_deref() == bens["id"].as_str()
    });
    let of_bens: Vec<_> = of_bens.collect();
    assert_eq!(of_bens.len(), 1);
    assert_eq!(of_bens[0].server.as_deref(), Some("one"));
    assert!(
        of_bens[0]
            .profile
            .as_deref()
            .unwrap()
            .starts_with("token t")
    );
    assert_eq!(
        of_bens[0].findings[..],
        ["sandbox start asked for".into(), "for Ben".into()]
    );
}

#[tokio::test]
async fn a_right_to_act_for_others_opens_no_other_server_and_runs_nothing_by_itself() {
    let lab = lab();
    let gateway = token(&lab, "servers:run profiles:act", "one");
    assert_eq!(start(&lab, &gateway, "two", &["ben"]).await.0, 404);
    let act_alone = token(&lab, "profiles:act", "");
    assert_eq!(start(&lab, &act_alone, "one", &["ben"]).await.0, 403);
    assert!(lab.app.control.sandboxes().is_empty());
}

#[tokio::test]
async fn what_names_nobody_starts_nothing() {
    let lab = lab();
    let gateway = token(&lab, "servers:run profiles:act", "");
    let long = "x".repeat(65);
    for named in [
        &[""][..],
        &["a b"],
        &["owner of this machine"],
        &["../ben"],
        &["-x"],
        &[&long],
        &["ana", "ben"],
        &["ana", "ana"],
    ] {
        let (status, refused) = start(&lab, &gateway, "one", named).await;
        assert_eq!(status, 400, "{named:?} {refused}");
    }
    assert!(lab.app.control.sandboxes().is_empty());
}
