//! Who has a sandbox started answers for what it asks, whoever it is for.

use std::time::Duration;

use gig_audit::VerdictWord;
use serde_json::Value;

use super::furnished::{Ask, Furnished};
use crate::{
    role::Role,
    store::{HeldFacts, HeldRow, Store as _},
};

/// What waits of this sandbox.
async fn put_up(appliance: &Furnished, id: &str, sandbox: &str) -> HeldRow {
    let facts = HeldFacts {
        sandbox: sandbox.to_owned(),
        server: "docs".to_owned(),
        profile: "zoe".to_owned(),
        started_by: vec!["somebody whom the proxy names".to_owned()],
        host: "new.example".to_owned(),
        port: 443,
        protocol: "https".to_owned(),
        method: None,
        path: None,
        policy: "p".to_owned(),
        policy_version: 2,
        reason: "host_not_allowed".to_owned(),
    };
    let (app, store) = (&appliance.lab.app, &appliance.lab.store);
    let most = Duration::from_secs(300);
    let place = app.held.put_up(id, facts, most, Box::new(drop));
    let _place = place.unwrap();
    loop {
        let rows = store.held(app.now()).unwrap();
        if let Some(row) = rows.into_iter().find(|row| row.id == id) {
            return row;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn what_waits_is_theirs_too_whose_token_had_it_started_for_another() {
    let appliance = Furnished::new().await;
    let token = |person| appliance.token(person, Role::Editor, ("servers:run profiles:act", ""));
    let start = |token: String| {
        let appliance = &appliance;
        async move {
            let ask = Ask {
                token: &token,
                field: Some(("gig-profile", "zoe")),
                ..Ask::of("POST /api/v1/servers/docs/start")
            };
            let answer = appliance.ask(ask).await;
            assert!(matches!(answer.status, 200 | 201), "{answer:?}");
            answer.json()["id"].as_str().unwrap().to_owned()
        }
    };
    let sandbox = start(token("dan")).await;
    let row = put_up(&appliance, "w1", &sandbox).await;
    assert_eq!(row.facts.started_by, ["dan"]);
    // Who uses it as well, and nobody twice.
    assert_eq!(start(token("ana")).await, sandbox);
    assert_eq!(start(token("dan")).await, sandbox);
    let row = put_up(&appliance, "w2", &sandbox).await;
    assert_eq!(row.facts.started_by, ["dan", "ana"]);
    let other = put_up(&appliance, "w3", &appliance.sandbox).await;
    assert!(other.facts.started_by.is_empty());
}

#[tokio::test]
async fn a_namespace_is_registered_by_a_token_that_names_that_and_by_no_other() {
    let appliance = Furnished::new().await;
    let register = |token: String, server: &'static str, profile: Option<&'static str>| {
        let appliance = &appliance;
        async move {
            let at = format!("POST /api/v1/servers/{server}/register");
            let ask = Ask {
                token: &token,
                body: Some(r#"{"pid": 7}"#),
                field: profile.map(|profile| ("gig-profile", profile)),
                ..Ask::of(&at)
            };
            let answer = appliance.ask(ask).await;
            (answer.status, answer.json())
        }
    };
    let token = |scopes, servers| appliance.token("ana", Role::Admin, (scopes, servers));
    for (scopes, servers) in [
        ("", ""),
        ("", "box"),
        ("servers:run servers:write profiles:act", ""),
    ] {
        let (status, refused) = register(token(scopes, servers), "box", None).await;
        assert_eq!(status, 403, "{scopes}: {refused}");
        let told = refused["detail"].as_str().unwrap();
        assert!(told.contains("namespaces:register"), "{told}");
    }
    let gateway = || token("namespaces:register", "box");
    let (status, made) = register(gateway(), "box", None).await;
    assert_eq!(status, 201, "{made}");
    assert_eq!(made["sandbox"]["server"], "box");
    assert_ne!(made["ca_pem"], Value::Null);
    assert_eq!(register(gateway(), "docs", None).await.0, 404);
    // For others it takes to act for them as well.
    assert_eq!(register(gateway(), "box", Some("zoe")).await.0, 403);
    let both = token("namespaces:register profiles:act", "box");
    assert_eq!(register(both, "box", Some("zoe")).await.0, 201);
    let told = appliance.lab.log.records().into_iter();
    let told = told.filter(|one| {
        let first = one.entry.findings.first().map(ToString::to_string);
        first.is_some_and(|first| first.contains("registration of a network namespace"))
    });
    assert_eq!(told.count(), 2, "each that was done, before it was");
    // It starts and stops nothing, and reads nothing.
    let start = Ask {
        token: &gateway(),
        ..Ask::of("POST /api/v1/servers/docs/start")
    };
    assert_eq!(appliance.ask(start).await.status, 403);
}

#[tokio::test]
async fn what_a_killed_gig_left_waiting_is_answered_with_the_reason() {
    let appliance = Furnished::new().await;
    appliance.lab.store.held_seen(Some(1));
    let [.., admin] = super::console::signed_in(&appliance);
    let page = appliance.page("GET /approvals", &admin).await.body;
    assert!(page.contains("nobody hears an answer"), "{page}");
    assert!(
        !page.contains("value=\"once\"") && !page.contains("value=\"deny\""),
        "{page}"
    );
    let form = [
        ("cookie", admin.as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let said = appliance
        .send("POST /approvals/held/h1", &form, "act=once")
        .await;
    assert_eq!(said.status, 410, "{said:?}");
    assert!(said.body.contains("request h1 waits no more"), "{said:?}");
    let token = appliance.token("dan", Role::Admin, ("", ""));
    for what in ["allow", "deny"] {
        let what = format!("POST /api/v1/held/h1/{what}");
        let ask = Ask {
            token: &token,
            body: Some("{}"),
            ..Ask::of(&what)
        };
        let said = appliance.ask(ask).await;
        assert_eq!(said.status, 410, "{what}: {said:?}");
    }
    let records = appliance.lab.log.records().into_iter();
    let told = records.filter(|record| record.entry.request.as_deref() == Some("h1"));
    assert_eq!(told.count(), 0, "nobody answered it");
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_gig_killed_just_now_never_heard_is_not_recorded_as_one() {
    let appliance = Furnished::new().await;
    let token = appliance.token("dan", Role::Admin, ("", ""));
    // It is another node's, which said a moment ago that it lives.
    appliance.lab.store.held_of("elsewhere");
    let ask = Ask {
        token: &token,
        body: Some("{}"),
        ..Ask::of("POST /api/v1/held/h1/allow")
    };
    let (said, ()) = tokio::join!(appliance.ask(ask), async {
        tokio::time::sleep(Duration::from_secs(2)).await;
        appliance.lab.store.held_seen(Some(1));
    });
    assert_eq!(said.status, 410, "{said:?}");
    let records = appliance.lab.log.records().into_iter();
    let told = records.filter(|record| record.entry.request.as_deref() == Some("h1"));
    let told: Vec<_> = told.map(|record| record.entry).collect();
    let last = told.last().unwrap();
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(last.verdict, Some(VerdictWord::Deny), "{last:?}");
    assert!(last.findings[0].contains("nobody heard"), "{last:?}");
    // Another node that hears it takes it off.
    appliance.put_held("h2", Some("/y"));
    appliance.lab.store.held_of("elsewhere");
    let ask = Ask {
        token: &token,
        body: Some("{}"),
        ..Ask::of("POST /api/v1/held/h2/allow")
    };
    let (said, ()) = tokio::join!(appliance.ask(ask), async {
        while appliance
            .lab
            .store
            .words_for("elsewhere")
            .unwrap()
            .is_empty()
        {
            tokio::time::sleep(Duration::from_millis(250)).await;
        }
        appliance.lab.store.end_held(&["h2".to_owned()]).unwrap();
    });
    assert_eq!(said.status, 204, "{said:?}");
}
