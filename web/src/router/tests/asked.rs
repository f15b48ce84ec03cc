//! What is asked about before it is done: the pages that ask, who is asked, what they say, and what Enter presses.

use super::{
    console::{ADMINS, DECIDERS, EDITORS, all, signed_in},
    furnished::{Ask, Furnished},
};
use crate::{
    role::Role,
    store::{Change, Place, Store as _, Vouched},
};

/// What asks before: the page that leads to it, its place, where its form goes, and who is let.
const ASKS: &[(&str, &str, &str, [bool; 5])] = &[
    (
        "/people",
        "/people/users/cem/remove",
        "/people/users/cem",
        ADMINS,
    ),
    (
        "/people",
        "/people/users/ben/factor",
        "/people/users/ben",
        ADMINS,
    ),
    (
        "/people",
        "/people/tokens/spare/remove",
        "/people/tokens/spare/remove",
        ADMINS,
    ),
    (
        "/people",
        "/people/sessions/sess1/end",
        "/people/sessions/sess1/end",
        ADMINS,
    ),
    (
        "/people",
        "/people/teams/data/remove",
        "/people/teams",
        ADMINS,
    ),
    (
        "/secrets/MAIL_TOKEN",
        "/secrets/MAIL_TOKEN/remove?version=1",
        "/secrets/MAIL_TOKEN",
        ADMINS,
    ),
    (
        "/secrets/MAIL_TOKEN",
        "/secrets/MAIL_TOKEN/remove",
        "/secrets/MAIL_TOKEN",
        ADMINS,
    ),
    // Before that server goes.
    (
        "/policies/base",
        "/policies/base/floor?server=idle&act=take",
        "/policies/base/floor",
        ADMINS,
    ),
    (
        "/servers/idle",
        "/servers/idle/remove",
        "/servers/idle/remove",
        ADMINS,
    ),
    (
        "/policies/spare",
        "/policies/spare/remove?on=1",
        "/policies/spare/remove",
        EDITORS,
    ),
    (
        "/policies/p/versions/1",
        "/policies/p/versions/1/back",
        "/policies/p/versions/1",
        EDITORS,
    ),
    (
        "/policies/p",
        "/policies/p/unassign?server=",
        "/policies/p/unassign",
        DECIDERS,
    ),
    (
        "/sandboxes/{sandbox}",
        "/sandboxes/{sandbox}/stop",
        "/sandboxes/{sandbox}/stop",
        ADMINS,
    ),
    (
        "/audit",
        "/searches/s1/remove",
        "/searches/s1/remove",
        ADMINS,
    ),
    (
        "/settings",
        "/settings/webhooks/ops/remove",
        "/settings/webhooks/ops",
        ADMINS,
    ),
];

/// The fields that a page of these sends, as its form does.
fn sends(page: &str) -> String {
    let hidden = page.split("<input type=\"hidden\" name=\"").skip(1);
    let fields = hidden.map(|one| {
        let mut parts = one.split('"');
        let name = parts.next().unwrap();
        format!("{name}={}", parts.nth(1).unwrap())
    });
    fields.collect::<Vec<_>>().join("&")
}

#[tokio::test]
async fn what_destroys_something_is_asked_about_first() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let fields = [
        ("cookie", cookies[4].as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    // One version of it can end without the other.
    let second = "act=rotate&value=second&grace=5";
    let rotated = appliance
        .send("POST /secrets/MAIL_TOKEN", &fields, second)
        .await;
    assert_eq!(rotated.status, 303, "{}", rotated.body);
    // A version of it that is not what the newest says.
    write(&appliance, "version: 1\negress: []\n");
    let before = all(&appliance);
    let mut forms = Vec::new();
    for (page, asks, action, lets) in ASKS {
        let leads = appliance.page(&format!("GET {page}"), &cookies[4]).await;
        assert!(
            leads
                .body
                .contains(&appliance.filled(&format!("href=\"{}\"", asks.replace('&', "&amp;")))),
            "{page}: {}",
            leads.body
        );
        for (place, cookie) in cookies.iter().enumerate() {
            let asked = appliance.page(&format!("GET {asks}"), cookie).await;
            match lets[place] {
                true => assert_eq!(asked.status, 200, "{asks} {place}: {}", asked.body),
                false => assert!(
                    matches!(asked.status, 403 | 404),
                    "{asks} {place}: {}",
                    asked.status
                ),
            }
            if place == 4 {
                let form = format!("method=\"post\" action=\"{action}\"");
                let form = appliance.filled(&form);
                assert!(asked.body.contains(&form), "{asks}: {}", asked.body);
                forms.push((asks, format!("POST {action}"), sends(&asked.body)));
            }
        }
    }
    assert_eq!(all(&appliance), before, "who looks changes nothing");
    for (asks, what, body) in forms {
        let done = appliance.send(&what, &fields, &body).await;
        assert_eq!(done.status, 303, "{what} {body}: {}", done.body);
        if asks.starts_with("/secrets/") && asks.contains("version") {
            let left = appliance.page("GET /secrets/MAIL_TOKEN", fields[0].1).await;
            let ends = |version| left.body.contains(&format!("End version {version}<"));
            assert_eq!((ends(1), ends(2)), (false, true), "{}", left.body);
            continue;
        }
        let gone = appliance.page(&format!("GET {asks}"), &cookies[4]).await;
        let kept = asks.ends_with("/factor");
        assert!(
            kept || matches!(gone.status, 404 | 409),
            "{asks}: {} {}",
            gone.status,
            gone.body
        );
    }
}

#[tokio::test]
async fn going_back_is_asked_about_with_what_it_changes_now_and_for_whom() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    write(
        &appliance,
        "version: 1\negress:\n  - host: second.example\n",
    );
    write(&appliance, "version: 1\negress:\n  - host: third.example\n");
    let newest = appliance.lab.store.policy("p", None).unwrap().unwrap();
    let (on, second) = (newest.head.version, newest.head.version - 1);
    let what = format!("GET /policies/p/versions/{second}/back");
    let asked = appliance.page(&what, admin).await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    for said in [
        &*format!("against version {on}, which is in force now"),
        "class=\"removed\">-   - host: third.example",
        "class=\"added\">+   - host: second.example",
        "It is in force for: all servers that have none of their own",
        &*format!("name=\"on\" value=\"{on}\""),
    ] {
        assert!(asked.body.contains(said), "{said}: {}", asked.body);
    }
    let itself = format!("GET /policies/p/versions/{on}/back");
    assert_eq!(appliance.page(&itself, admin).await.status, 409);
    // A floor is set by way of the same question.
    let asked = appliance.page("GET /policies/spare/floor?server=&profile=&act=set", admin);
    let asked = asked.await;
    assert!(
        [
            "Make spare the floor of all servers",
            "registered later",
            "class=\"added\">"
        ]
        .iter()
        .all(|words| asked.body.contains(words)),
        "{}",
        asked.body
    );
    assert!(
        asked
            .body
            .contains("method=\"post\" action=\"/policies/spare/floor\"")
    );
    // One that another set meanwhile is not taken away by the page of this one.
    let fields = [
        ("cookie", admin.as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let take = "act=take&server=idle";
    let taken = appliance
        .send("POST /policies/spare/floor", &fields, take)
        .await;
    assert_eq!(taken.status, 409, "{}", taken.body);
    assert_eq!(appliance.lab.store.floors().unwrap().len(), 1);
}

#[tokio::test]
async fn putting_in_force_is_asked_about_with_what_that_changes_there() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    let fields = [
        ("cookie", admin.as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    write(
        &appliance,
        "version: 1\negress:\n  - host: second.example\n",
    );
    let leads = appliance.page("GET /policies/spare", admin).await;
    let form = "method=\"get\" action=\"/policies/spare/assign\"";
    assert!(leads.body.contains(form), "{}", leads.body);
    let what = "GET /policies/spare/assign?server=&profile=";
    for (place, cookie) in cookies.iter().enumerate() {
        let status = appliance.page(what, cookie).await.status;
        assert_eq!(status == 200, DECIDERS[place], "{place}: {status}");
    }
    let asked = appliance.page(what, admin).await;
    for said in [
        "Put spare in force for all servers that have none of their own?",
        "It takes the place of p.",
        "class=\"removed\">-   - host: second.example",
        "method=\"post\" action=\"/policies/spare/assign\"",
    ] {
        assert!(asked.body.contains(said), "{said}: {}", asked.body);
    }
    let itself = appliance.page("GET /policies/p/assign?server=&profile=", admin);
    assert_eq!(itself.await.status, 409);
    let in_force = || {
        let assigned = appliance.lab.store.assignments().unwrap().into_iter();
        let mut all = { assigned }.filter(|one| one.place == Place::All);
        all.next().map(|one| one.policy)
    };
    assert_eq!(
        in_force().as_deref(),
        Some("p"),
        "who looks changes nothing"
    );
    // Somebody puts another in force meanwhile: what was looked at is not so any more.
    appliance.lab.make(&Change::Assign {
        place: Place::Server("docs".to_owned()),
        policy: Some("p".to_owned()),
        expected: None,
    });
    let late = appliance
        .send("POST /policies/spare/assign", &fields, &sends(&asked.body))
        .await;
    assert_eq!(late.status, 412, "{}", late.body);
    let asked = appliance.page(what, admin).await;
    let done = appliance
        .send("POST /policies/spare/assign", &fields, &sends(&asked.body))
        .await;
    assert_eq!(done.status, 303, "{}", done.body);
    assert_eq!(in_force().as_deref(), Some("spare"));
}

#[tokio::test]
async fn what_is_in_force_for_all_is_saved_by_who_was_shown_what_that_changes() {
    let appliance = Furnished::new().await;
    let words = "for all servers that have none of their own as soon as it is saved";
    is_saved_by_who_was_shown(&appliance, ("p", words)).await;
}

#[tokio::test]
async fn what_bounds_all_is_saved_by_who_was_shown_what_that_changes() {
    let appliance = Furnished::new().await;
    appliance.lab.make(&Change::SetFloor {
        place: Place::All,
        policy: Some("spare".to_owned()),
        expected: None,
    });
    let words = "It bounds all servers, whatever is assigned there, as soon as it is saved";
    is_saved_by_who_was_shown(&appliance, ("spare", words)).await;
}

async fn is_saved_by_who_was_shown(appliance: &Furnished, (policy, words): (&str, &str)) {
    let cookies = signed_in(appliance);
    let fields = [
        ("cookie", cookies[4].as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let newest = || {
        let newest = appliance.lab.store.policy(policy, None).unwrap().unwrap();
        (newest.head.version, newest.document)
    };
    let (version, _) = newest();
    let save = |host: &str, seen: &str| {
        format!(
            "version={version}&act=save&document=version%3A+1%0Aegress%3A%0A++-+host%3A+{host}%0A{seen}"
        )
    };
    let edit = format!("POST /policies/{policy}/edit");
    let edit = edit.as_str();
    let asked = appliance
        .send(edit, &fields, &save("new.example", ""))
        .await;
    assert_eq!(asked.status, 200, "{}", asked.body);
    assert_eq!(newest().0, version, "nothing is saved");
    for said in [words, "class=\"added\">+   - host: new.example"] {
        assert!(asked.body.contains(said), "{said}: {}", asked.body);
    }
    let seen = sends(&asked.body);
    let seen = seen.split('&').find(|one| one.starts_with("seen="));
    let seen = format!("&{}", seen.unwrap());
    // Of another document nothing was shown.
    let other = appliance
        .send(edit, &fields, &save("other.example", &seen))
        .await;
    assert_eq!((other.status, newest().0), (200, version));
    let saved = appliance
        .send(edit, &fields, &save("new.example", &seen))
        .await;
    assert_eq!(saved.status, 303, "{}", saved.body);
    assert!(newest().1.contains("new.example"));
}

#[tokio::test]
async fn where_a_policy_is_in_force_names_floors_and_all_servers() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let list = appliance.page("GET /policies", &cookies[4]).await;
    assert!(list.body.contains("floor of server idle"), "{}", list.body);
    let edit = appliance.page("GET /policies/base/edit", &cookies[4]).await;
    let floor = "It is the floor of server idle: what it does not allow is denied there";
    assert!(edit.body.contains(floor), "{}", edit.body);
    let edit = appliance.page("GET /policies/p/edit", &cookies[4]).await;
    let all = "in force for all servers that have none of their own";
    assert!(edit.body.contains(all), "{}", edit.body);
}

/// What Enter presses in a field: the form's first button that sends it.
fn presses(form: &str) -> &str {
    let button = form.split("<button").nth(1).unwrap_or_default();
    button.split('>').next().unwrap_or_default()
}

#[tokio::test]
async fn enter_in_no_field_saves_a_policy_or_approves() {
    let appliance = Furnished::ruled().await;
    let cookies = signed_in(&appliance);
    let edit = format!("/policies/p/edit?record={}", appliance.record);
    let waits = "/approvals/held/h1/allow?width=host";
    for path in ["/policies/p/edit", &edit, "/approvals/1", waits] {
        let page = appliance.page(&format!("GET {path}"), &cookies[4]).await;
        assert_eq!(page.status, 200, "{path}: {}", page.body);
        let forms: Vec<&str> = page.body.split("<form").skip(1).collect();
        let typed = forms.iter().filter(|form| {
            let form = form.split("</form>").next().unwrap_or_default();
            form.contains("name=\"document\"") || form.contains("name=\"why\"")
        });
        let pressed: Vec<&str> = typed.map(|form| presses(form)).collect();
        let [one] = pressed.as_slice() else {
            panic!("{path}: {pressed:?}");
        };
        let harmless = one.contains("value=\"check\"") || one.contains(" disabled");
        assert!(harmless, "{path}: {one}");
    }
}

/// The next version of policy `p`.
fn write(appliance: &Furnished, document: &str) {
    appliance.lab.make(&Change::SavePolicy {
        name: "p".parse().unwrap(),
        expected: None,
        document: document.to_owned(),
        reason: String::new(),
        secrets: Vouched::Freely,
    });
}

#[tokio::test]
async fn a_button_that_would_be_refused_is_not_offered() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let (editor, admin) = (&cookies[2], &cookies[4]);
    // Of a floor its editing; of another person's request its sandbox.
    let edit = "href=\"/policies/base/edit\"";
    let sandbox = appliance.filled("href=\"/sandboxes/{sandbox}\"");
    for (cookie, may) in [(editor, false), (admin, true)] {
        let floor = appliance.page("GET /policies/base", cookie).await;
        assert_eq!(floor.body.contains(edit), may, "{}", floor.body);
        let waits = appliance.page("GET /approvals", cookie).await;
        assert!(waits.body.contains("/approvals/held/h1"), "{}", waits.body);
        assert_eq!(waits.body.contains(&sandbox), may, "{}", waits.body);
    }
    let own = appliance.page("GET /policies/p", editor).await;
    assert!(
        own.body.contains("href=\"/policies/p/edit\""),
        "{}",
        own.body
    );
}

#[tokio::test]
async fn the_switch_of_the_two_person_rule_says_what_it_takes() {
    let appliance = Furnished::new().await;
    let token = appliance.token("dan", Role::Editor, ("", ""));
    for (what, body) in [
        ("PUT /api/v1/two-person-rule", r#"{"on": true}"#),
        ("PUT /api/v1/second-factor-rule", r#"{"roles": ["admin"]}"#),
    ] {
        let ask = Ask {
            token: &token,
            body: Some(body),
            ..Ask::of(what)
        };
        let refused = appliance.ask(ask).await;
        assert_eq!(refused.status, 403, "{refused:?}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("turn the two-person rule"), "{detail}");
        assert!(!detail.contains("sessions"), "{detail}");
    }
}

#[tokio::test]
async fn who_is_removed_and_answers_by_a_webhook_is_told_with_it() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let page = async |name: &str| {
        let path = format!("GET /people/users/{name}/remove");
        appliance.page(&path, &cookies[4]).await.body
    };
    assert!(page("ana").await.contains("By webhook ops they go on"));
    assert!(!page("cem").await.contains("By webhook"));
}
