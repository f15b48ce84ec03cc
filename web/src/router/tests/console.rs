//! Every form of the console, sent by each role from its own page and by an admin from another site: a second door to
//! what the API does, with the same lock. Whoever adds a form adds a line to the table.

use std::collections::BTreeSet;

use super::furnished::{Answer, Furnished, by};
use crate::{
    app::tests::owner,
    control::Control as _,
    credential::mint_session,
    role::Role,
    store::{Change, Store as _},
};

/// A form: its route, where it is sent, with what, and which roles are let, least first.
type Form = (&'static str, &'static str, &'static str, [bool; 5]);

const ALL: [bool; 5] = [true; 5];
const READERS: [bool; 5] = [false, true, true, true, true];
pub(super) const EDITORS: [bool; 5] = [false, false, true, false, true];
pub(super) const DECIDERS: [bool; 5] = [false, false, true, true, true];
const APPROVERS: [bool; 5] = [false, false, false, true, true];
pub(super) const ADMINS: [bool; 5] = [false, false, false, false, true];

const FORMS: &[Form] = &[
    ("/sign-out", "/sign-out", "", ALL),
    ("/policies", "/policies", "name=fresh", EDITORS),
    (
        "/policies/{name}/edit",
        "/policies/p/edit",
        // For all servers: its author was shown what it changes.
        "version=1&act=save&seen=Id5vzGhcsMzmqd0x7DWJJ2oODMrs9MHRBwfa1sEi_-I&document=version%3A+1%0Aegress%3A+%5B%5D%0A",
        EDITORS,
    ),
    (
        "/policies/{name}/assign",
        "/policies/p/assign",
        "server=docs",
        DECIDERS,
    ),
    (
        "/policies/{name}/unassign",
        "/policies/p/unassign",
        "server=",
        DECIDERS,
    ),
    (
        "/policies/{name}/remove",
        "/policies/spare/remove",
        "on=1",
        EDITORS,
    ),
    (
        "/policies/{name}/floor",
        "/policies/spare/floor",
        "act=set&server=docs",
        ADMINS,
    ),
    (
        "/policies/{name}/versions/{version}",
        "/policies/p/versions/1",
        "on=1",
        EDITORS,
    ),
    ("/approvals/rule", "/approvals/rule", "rule=on", ADMINS),
    (
        "/approvals/held/{id}",
        "/approvals/held/h1",
        "act=deny",
        DECIDERS,
    ),
    ("/approvals/{id}", "/approvals/1", "act=approve", APPROVERS),
    (
        "/audit/{id}/allow",
        "/audit/{record}/allow",
        "on=x&width=host&for=ever",
        ADMINS,
    ),
    (
        "/searches",
        "/searches",
        "title=x&query=verdict%3Ddeny",
        READERS,
    ),
    ("/searches/{id}/remove", "/searches/s1/remove", "", ADMINS),
    // An editor stops their own: another's is not there for them.
    (
        "/sandboxes/{id}/stop",
        "/sandboxes/{sandbox}/stop",
        "",
        ADMINS,
    ),
    (
        "/servers",
        "/servers",
        "name=fresh&command=%2Fbin%2Ftrue",
        ADMINS,
    ),
    (
        "/servers/{name}",
        "/servers/docs",
        "command=%2Fbin%2Ffalse&on=x",
        ADMINS,
    ),
    ("/servers/{name}/start", "/servers/docs/start", "", EDITORS),
    ("/servers/{name}/remove", "/servers/idle/remove", "", ADMINS),
    (
        "/secrets",
        "/secrets",
        "name=FRESH&kind=static&value=x",
        ADMINS,
    ),
    (
        "/secrets/{name}",
        "/secrets/MAIL_TOKEN",
        "act=remove",
        ADMINS,
    ),
    ("/settings", "/settings", "", ADMINS),
    (
        "/settings/webhooks",
        "/settings/webhooks",
        "name=fresh&kind=generic",
        ADMINS,
    ),
    (
        "/settings/webhooks/{name}",
        "/settings/webhooks/ops",
        "act=remove",
        ADMINS,
    ),
    (
        "/people/second-factor",
        "/people/second-factor",
        "act=none",
        ALL,
    ),
    (
        "/people/factor-rule",
        "/people/factor-rule",
        "role=viewer",
        ADMINS,
    ),
    (
        "/people/teams",
        "/people/teams",
        "name=fresh&members=ana&act=save",
        ADMINS,
    ),
    (
        "/people/users",
        "/people/users",
        "name=eve&role=viewer&password=correct+horse+battery",
        ADMINS,
    ),
    // Their own, and by their password: what is typed here is not it.
    (
        "/people/password",
        "/people/password",
        "current=x&password=y&again=z",
        ALL,
    ),
    (
        "/people/users/{name}",
        "/people/users/cem",
        "act=role&role=viewer",
        ADMINS,
    ),
    (
        "/people/tokens",
        "/people/tokens",
        "name=fresh&role=viewer",
        ADMINS,
    ),
    (
        "/people/tokens/{id}/remove",
        "/people/tokens/spare/remove",
        "",
        ADMINS,
    ),
    (
        "/people/sessions/{id}/end",
        "/people/sessions/sess1/end",
        "",
        ADMINS,
    ),
];

/// Somebody of each role who is signed in, least first: their cookies.
pub(super) fn signed_in(appliance: &Furnished) -> [String; 5] {
    Role::ALL.map(|role| {
        let (name, lab) = (format!("one-{role}"), &appliance.lab);
        lab.make(&Change::AddUser {
            name: name.parse().unwrap(),
            role,
            password: "first".to_owned(),
        });
        let own = Change::SetPassword {
            name: name.clone(),
            password: "own".to_owned(),
            end_tokens: false,
            code: None,
        };
        lab.store.apply(&own, &by(&name), &|_| Ok(())).unwrap();
        let minted = mint_session().unwrap();
        lab.make(&Change::StartSession {
            id: minted.id,
            digest: minted.digest,
            user: name,
            password: "own".to_owned(),
            code: None,
            expires: owner().at + jiff::SignedDuration::from_hours(1),
            agent: String::new(),
        });
        format!("gig={}", *minted.text)
    })
}

async fn send(appliance: &Furnished, form: &Form, (cookie, origin): (&str, &str)) -> Answer {
    let fields = [
        ("cookie", cookie),
        ("origin", origin),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let what = format!("POST {}", form.1);
    appliance.send(&what, &fields, form.2).await
}

#[tokio::test]
async fn another_site_exports_nothing_in_somebodys_name() {
    let appliance = Furnished::new().await;
    let [_, auditor, ..] = signed_in(&appliance);
    let exports = async |site: &str| {
        let fields = [("cookie", auditor.as_str()), ("sec-fetch-site", site)];
        let what = "GET /api/v1/audit/export/jsonl";
        appliance.send(what, &fields, "").await.status
    };
    for (site, status) in [
        ("cross-site", 403),
        ("same-site", 403),
        ("same-origin", 200),
        ("none", 200),
    ] {
        assert_eq!(exports(site).await, status, "{site}");
    }
}

/// All that a form may change, as far as it is told from what it was.
pub(super) fn all(appliance: &Furnished) -> String {
    let (store, now) = (&appliance.lab.store, appliance.lab.app.now());
    let people: Vec<_> = store
        .users()
        .unwrap()
        .into_iter()
        .map(|one| (one.name, one.role))
        .collect();
    let tokens = store.tokens().unwrap().len();
    let policies: Vec<_> = store
        .policies()
        .unwrap()
        .into_iter()
        .map(|one| (one.name, one.version))
        .collect();
    let assigned = store.assignments().unwrap().len() + store.floors().unwrap().len();
    let servers: Vec<_> = store
        .servers()
        .unwrap()
        .into_iter()
        .map(|one| (one.name, one.spec.command))
        .collect();
    let sessions = store.sessions(now).unwrap().len();
    let kept = (
        store.searches().unwrap().len(),
        store.teams().unwrap().len(),
    );
    let waits = (
        store.held(now).unwrap().len(),
        store.webhooks().unwrap().len(),
    );
    let running = appliance.lab.control.sandboxes().len();
    format!(
        "{people:?} {tokens} {policies:?} {assigned} {servers:?} {sessions} {kept:?} {waits:?} {running}"
    )
}

#[test]
fn every_form_of_the_console_is_in_the_table() {
    let router = include_str!("../../router.rs");
    let begins = router.find("fn console()").unwrap();
    let ends = router.find("async fn missing").unwrap();
    let routes = router.get(begins..ends).unwrap().split(".route(").skip(1);
    let forms = routes.filter(|route| route.contains("post("));
    let forms: BTreeSet<&str> = forms
        .map(|route| route.split('"').nth(1).unwrap())
        .collect();
    let table: BTreeSet<&str> = FORMS.iter().map(|form| form.0).collect();
    assert_eq!(forms, table);
}

#[tokio::test]
async fn every_form_lets_whom_it_should_and_nobody_from_another_site() {
    let appliance = Furnished::ruled().await;
    let cookies = signed_in(&appliance);
    let before = all(&appliance);
    let mut wrong = Vec::new();
    for form in FORMS {
        for (role, cookie) in Role::ALL.into_iter().zip(&cookies) {
            let is_let = form.3[Role::ALL.iter().position(|one| *one == role).unwrap()];
            if is_let {
                continue;
            }
            let answer = send(&appliance, form, (cookie, "http://127.0.0.1")).await;
            if !matches!(answer.status, 403 | 404) {
                wrong.push(format!("{} {role}: {}", form.0, answer.status));
            }
        }
        for origin in ["http://evil.example", "null"] {
            let answer = send(&appliance, form, (&cookies[4], origin)).await;
            if answer.status != 403 {
                wrong.push(format!("{} from {origin}: {}", form.0, answer.status));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(all(&appliance), before, "who is refused changes nothing");
    // Whoever is let is: a form that is never taken proves nothing of who is refused.
    for form in FORMS {
        let own = Furnished::new().await;
        let cookies = signed_in(&own);
        let least = form.3.iter().position(|is_let| *is_let).unwrap();
        let answer = send(&own, form, (&cookies[least], "http://127.0.0.1")).await;
        if matches!(answer.status, 401 | 403 | 415 | 422 | 500..) {
            wrong.push(format!(
                "{} {}: {}",
                form.0,
                Role::ALL[least],
                answer.status
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn a_service_that_is_asked_in_clear_text_is_told_of_after_the_form() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let fields = [
        ("cookie", cookies[4].as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    for (name, service, told) in [
        ("OPEN", "http://auth.example/token", true),
        ("SHUT", "https://auth.example/token", false),
    ] {
        let form = format!("name={name}&kind=defined&value=of-some-length&definition={service}");
        let sent = appliance.send("POST /secrets", &fields, &form).await;
        assert_eq!(sent.status, 303, "{sent:?}");
        let page = format!("GET {}", sent.headers["location"].to_str().unwrap());
        let page = appliance.page(&page, &cookies[4]).await.body;
        assert_eq!(page.contains("in clear text"), told, "{page}");
    }
}
