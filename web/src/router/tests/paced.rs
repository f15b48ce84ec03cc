//! Who changes too much in a minute waits; nobody else does, and nothing is kept from being read or run.

use std::net::IpAddr;

use super::furnished::{Answer, Ask, Furnished};
use crate::{auth::limits::Tried, role::Role};

async fn ask(appliance: &Furnished, what: &str, token: &str) -> Answer {
    let ask = Ask {
        token,
        body: Some("{}"),
        ..Ask::of(what)
    };
    appliance.ask(ask).await
}

#[tokio::test(start_paused = true)]
async fn who_changes_too_much_in_a_minute_is_told_when_to_go_on() {
    let appliance = Furnished::new().await;
    let greedy = appliance.token("dan", Role::Admin, ("", ""));
    let other = appliance.token("dan", Role::Admin, ("", ""));
    const DENY: &str = "POST /api/v1/held/none/deny";
    let mut answers = Vec::new();
    for _ in 0..121 {
        answers.push(ask(&appliance, DENY, &greedy).await);
    }
    let refused: Vec<_> = answers.iter().filter(|one| one.status == 429).collect();
    // By a clock that stands still: a machine that is busy gives nobody more.
    assert_eq!(refused.len(), 1);
    assert!(answers.iter().take(120).all(|one| one.status == 404));
    let fields = &refused[0].headers;
    assert_eq!(fields["content-type"], "application/problem+json");
    assert_eq!(fields["retry-after"], "1");
    assert_eq!(refused[0].json()["title"], "too often");
    let pages = appliance.page("POST /searches", "gig=none").await;
    assert_ne!(pages.status, 429, "{pages:?}");
    // Everything is read, sandboxes are run, and who else changes something goes on.
    for what in [
        "GET /api/v1/me",
        "POST /api/v1/policies/check",
        "POST /api/v1/servers/docs/start",
        "DELETE /api/v1/sandboxes/none",
    ] {
        assert_ne!(ask(&appliance, what, &greedy).await.status, 429, "{what}");
    }
    assert_eq!(ask(&appliance, DENY, &other).await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_makes_others_buys_one_more_turn_and_the_person_keeps_theirs() {
    let appliance = Furnished::new().await;
    let first = appliance.token("ana", Role::Admin, ("", ""));
    let mut made = Vec::new();
    for name in ["one", "two", "three"] {
        let body = format!(r#"{{"name": "{name}", "role": "admin"}}"#);
        let ask = Ask {
            token: &first,
            body: Some(&body),
            ..Ask::of("POST /api/v1/tokens")
        };
        let answer = appliance.ask(ask).await;
        assert_eq!(answer.status, 201, "{answer:?}");
        made.push(answer.json()["token"].as_str().unwrap().to_owned());
    }
    const DENY: &str = "POST /api/v1/held/none/deny";
    let mut changes = 0;
    for token in &made {
        for _ in 0..50 {
            let answer = ask(&appliance, DENY, token).await;
            changes += usize::from(answer.status == 404);
        }
    }
    assert_eq!(changes, 120, "together as many as one token makes");
    assert_eq!(ask(&appliance, DENY, &first).await.status, 404);
    let hers = appliance.page("POST /searches", "gig=none").await;
    assert_ne!(hers.status, 429, "{hers:?}");
}

#[tokio::test]
async fn who_may_not_sign_in_for_a_while_is_told_how_long_by_the_page_too() {
    let appliance = Furnished::new().await;
    let app = &appliance.lab.app;
    let from = Some(IpAddr::from([192, 0, 2, 1]));
    let mut tries = 0;
    while app
        .limits
        .attempt(Tried::Name("ana"), from, app.now())
        .is_ok()
    {
        tries += 1;
        assert!(tries < 1000, "nobody is ever told to wait");
    }
    let fields = [
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let form = "name=ana&password=wrong";
    let page = appliance.send("POST /sign-in", &fields, form).await;
    assert_eq!(page.status, 429, "{page:?}");
    let seconds: u64 = page.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(
        page.body.contains(&format!("wait {seconds} seconds")),
        "{page:?}"
    );
}
