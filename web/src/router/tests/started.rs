//! Who has a sandbox started answers for what it asks, whoever it is for.

use std::time::Duration;

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
