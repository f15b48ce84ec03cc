//! From what was denied to the rule that lets the next one pass: by the API, by a request that waits, and by a webhook.

use std::sync::atomic::Ordering::Relaxed;

use gig_audit::Event;
use serde_json::{Value, json};

use super::furnished::{Answer, Ask, Furnished};
use crate::{
    app::tests::{Lab, WEBHOOK_SECRET, saved},
    role::Role,
    store::{Change, Place, Store as _, ToldState, WebhookKind},
    webhooks::{
        News,
        denied::{Looked, fresh},
        signature::Key,
    },
};

mod lasting;
mod narrow;
mod proposed;

const ALLOW: &str = "POST /api/v1/audit/{record}/allow";

async fn allow(appliance: &Furnished, what: &str, token: &str, body: &Value) -> Answer {
    let body = body.to_string();
    let ask = Ask {
        token,
        body: Some(&body),
        ..Ask::of(what)
    };
    appliance.ask(ask).await
}

fn document(appliance: &Furnished, policy: &str) -> String {
    let kept = appliance.lab.store.policy(policy, None).unwrap();
    kept.map(|kept| kept.document).unwrap_or_default()
}

fn assign(appliance: &Furnished, place: Place, policy: Option<&str>) {
    appliance.lab.make(&Change::Assign {
        place,
        policy: policy.map(str::to_owned),
        expected: None,
    });
}

#[tokio::test]
async fn one_operation_writes_the_rule_where_it_is_in_force() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let held = appliance.ask(Ask {
        token: &editor,
        ..Ask::of("GET /api/v1/held")
    });
    let held = held.await.json();
    let place = held["denied"][0]["allow"].as_str().unwrap().to_owned();
    assert_eq!(format!("POST {place}"), appliance.filled(ALLOW));
    for wrong in [
        json!({}),
        json!({"for": "once"}),
        json!({"for": "ever", "width": "all"}),
    ] {
        assert_eq!(
            allow(&appliance, ALLOW, &editor, &wrong).await.status,
            422,
            "{wrong}"
        );
    }
    let ever = json!({"for": "ever", "reason": "docs reads it"});
    let made = allow(&appliance, ALLOW, &editor, &ever).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert!(made.headers.contains_key("etag"));
    let rule = "{host: new.example, ports: [443], rules: [{methods: [GET], paths: [/x]}]}";
    assert!(document(&appliance, "p").contains(rule));
    assert_eq!(made.json()["reason"], "docs reads it");
    // It passes now: there is nothing to write, however it is asked for.
    for again in [ever, json!({"for": "hour", "width": "host"})] {
        let again = allow(&appliance, ALLOW, &editor, &again).await;
        assert_eq!(
            (again.status, &again.json()["title"]),
            (409, &json!("no rule")),
            "{again:?}"
        );
    }
    let missing = "POST /api/v1/audit/1-99999/allow";
    let missing = allow(&appliance, missing, &editor, &json!({"for": "ever"})).await;
    assert_eq!(missing.status, 404);
}

#[tokio::test]
async fn where_nothing_is_in_force_a_new_policy_is_and_it_takes_who_may_assign() {
    let appliance = Furnished::new().await;
    assign(&appliance, Place::All, None);
    let hour = json!({"for": "hour", "width": "host"});
    let scopes = ("read audit policies:write", "");
    let narrow = appliance.token("dan", Role::Editor, scopes);
    assert_eq!(allow(&appliance, ALLOW, &narrow, &hour).await.status, 403);
    assert_eq!(document(&appliance, "docs"), "");
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let made = allow(&appliance, ALLOW, &editor, &hour).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert!(
        document(&appliance, "docs").contains("expires:"),
        "{made:?}"
    );
    let assigned = appliance.lab.store.assignments().unwrap();
    assert!(
        assigned
            .iter()
            .any(|one| one.policy == "docs" && one.place.server() == Some("docs"))
    );
}

#[tokio::test]
async fn a_request_that_waits_is_allowed_where_it_would_be_decided_now() {
    let appliance = Furnished::new().await;
    appliance.lab.make(&saved("q"));
    assign(&appliance, Place::Server("docs".to_owned()), Some("q"));
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let (before, what) = (document(&appliance, "p"), "POST /api/v1/held/h1/allow");
    let made = allow(&appliance, what, &editor, &json!({"for": "ever"})).await;
    assert_eq!(
        (made.status, &made.json()["name"]),
        (200, &json!("q")),
        "{made:?}"
    );
    assert_eq!(
        document(&appliance, "p"),
        before,
        "it is not widened for others"
    );
    assert!(document(&appliance, "q").contains("new.example"));
}

/// Tells webhook `ops`, or says that it did not take it.
fn ends(lab: &Lab, news: &News, state: ToldState) {
    let telling = news.telling(&lab.store.webhooks().unwrap()[0]);
    let now = lab.app.now();
    assert!(lab.store.begin_telling(&telling, now).unwrap().is_some());
    assert!(
        lab.store.begin_telling(&telling, now).unwrap().is_none(),
        "one node"
    );
    lab.store.end_telling(&telling, state, now).unwrap();
}

fn records(news: &[News]) -> Vec<&str> {
    news.iter().map(record).collect()
}

fn record(news: &News) -> &str {
    match news {
        News::Denied(one, _) => &one.record,
        News::Held(_) | News::Alarm(..) => "",
    }
}

#[tokio::test]
async fn a_denial_is_told_once_a_day_by_one_node() {
    let appliance = Furnished::new().await;
    let (lab, app) = (&appliance.lab, &appliance.lab.app);
    app.traffic.denied.store(1, Relaxed);
    let none = fresh(app.clone(), Looked::default(), 0).await;
    assert!(
        none.0 == Looked::default() && none.1.is_empty(),
        "no room: it is told later"
    );
    let (upto, told) = fresh(app.clone(), Looked::default(), 9).await;
    assert_eq!(
        (upto.counted, records(&told)),
        (Some(1), vec![appliance.record.as_str()])
    );
    assert!(
        fresh(app.clone(), upto, 9).await.1.is_empty(),
        "nothing was denied since"
    );
    ends(lab, &told[0], ToldState::Told);
    // Denied again, here or at another node, or started anew.
    app.traffic.denied.store(2, Relaxed);
    for looked in [upto, Looked::default()] {
        let (upto, told) = fresh(app.clone(), looked, 9).await;
        assert!(upto.counted == Some(2) && told.is_empty(), "{told:?}");
    }
}

#[tokio::test]
async fn a_denial_that_was_not_delivered_is_told_again() {
    let appliance = Furnished::new().await;
    let (lab, app) = (&appliance.lab, &appliance.lab.app);
    app.traffic.denied.store(1, Relaxed);
    let (_, told) = fresh(app.clone(), Looked::default(), 9).await;
    ends(lab, &told[0], ToldState::Failed);
    let (looked, none) = fresh(app.clone(), Looked::default(), 9).await;
    assert!(none.is_empty(), "in a minute: {none:?}");
    let due = looked.again.unwrap();
    let wait = due.duration_since(app.now());
    assert!((50..=60).contains(&wait.as_secs()), "{wait:?}");
    // It failed two minutes ago.
    let telling = told[0].telling(&lab.store.webhooks().unwrap()[0]);
    let before = app.now() - jiff::SignedDuration::from_mins(2);
    let end = |state| lab.store.end_telling(&telling, state, before).unwrap();
    end(ToldState::Failed);
    let due = Looked {
        again: Some(before),
        ..looked
    };
    let (_, told) = fresh(app.clone(), due, 9).await;
    assert_eq!(
        records(&told),
        [appliance.record.as_str()],
        "nothing was denied since"
    );
    ends(lab, &told[0], ToldState::Told);
    assert!(fresh(app.clone(), due, 9).await.1.is_empty());
}

#[tokio::test]
async fn what_was_told_or_denied_by_a_person_takes_no_place_of_what_is_to_be_told() {
    let appliance = Furnished::new().await;
    let app = &appliance.lab.app;
    // More than are listed at once; every third by a person.
    appliance.denied_hosts(60, |number| number % 3 == 0).await;
    app.traffic.denied.store(61, Relaxed);
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..9 {
        let (_, told) = fresh(app.clone(), Looked::default(), 10).await;
        for one in &told {
            ends(&appliance.lab, one, ToldState::Told);
        }
        seen.extend(records(&told).into_iter().map(str::to_owned));
    }
    assert_eq!(seen.len(), 41, "{seen:?}");
}

#[tokio::test]
async fn what_people_denied_keeps_nothing_behind_it_from_being_told() {
    let appliance = Furnished::new().await;
    let app = &appliance.lab.app;
    // More than are read in one go; the one that nobody decided on is the oldest.
    appliance.denied_hosts(230, |number| number > 0).await;
    app.traffic.denied.store(231, Relaxed);
    let mut looked = Looked::default();
    let mut seen = 0;
    for _ in 0..3 {
        let (upto, told) = fresh(app.clone(), looked, 10).await;
        for one in &told {
            ends(&appliance.lab, one, ToldState::Told);
        }
        (looked, seen) = (upto, seen + told.len());
    }
    assert_eq!((seen, looked.counted), (2, Some(231)));
}

/// Webhook `ops`, by which three people answer.
fn set_up(appliance: &Furnished, rules: bool) {
    appliance.lab.make(&Change::SaveWebhook {
        name: "ops".parse().unwrap(),
        kind: WebhookKind::Generic,
        url: "https://hooks.example/x".to_owned(),
        answerers: ["ben", "cem", "pat"].map(str::to_owned).to_vec(),
        rules,
        new: false,
    });
}

#[tokio::test]
async fn a_denial_is_answered_where_it_was_told_and_once() {
    let appliance = Furnished::new().await;
    set_up(&appliance, false);
    let say = async || {
        let hour = json!({"record": appliance.record, "answer": "hour", "user": "ben"});
        let answer = answered(&appliance, hour).await;
        (answer.status, answer.json()["title"].clone())
    };
    assert_eq!(say().await, (409, json!("not told")));
    assert!(!document(&appliance, "p").contains("new.example"));
    let about = format!("record:{}", appliance.record);
    appliance
        .lab
        .told("ops", &about, jiff::SignedDuration::ZERO);
    assert_eq!(say().await.0, 200);
    assert!(document(&appliance, "p").contains("new.example"));
    // Also when its rule has ended.
    appliance.lab.make(&saved("p"));
    assert_eq!(say().await, (409, json!("answered")));
}

#[tokio::test]
async fn a_webhook_answers_for_an_hour_and_for_ever_where_it_and_its_user_may() {
    let appliance = Furnished::new().await;
    let rules = |rules: bool| set_up(&appliance, rules);
    rules(false);
    let about = format!("record:{}", appliance.record);
    let told = || {
        appliance
            .lab
            .told("ops", &about, jiff::SignedDuration::ZERO)
    };
    told();
    let say = |answer: &str, width: &str, user: &str| {
        let mut body = json!({"record": appliance.record, "answer": answer, "user": user});
        if !width.is_empty() {
            body["width"] = json!(width);
        }
        answered(&appliance, body)
    };
    for (answer, width, status) in [
        ("once", "", 409),
        ("deny", "", 409),
        // They write no rule: how wide one would be is not taken for nothing.
        ("once", "path", 400),
        ("deny", "host", 400),
        ("ever", "path", 403),
        ("hour", "host", 403),
    ] {
        assert_eq!(
            say(answer, width, "ben").await.status,
            status,
            "{answer} {width}"
        );
    }
    // A connection has no path: any rule for it is for all of the host.
    appliance.put_held("tcp", None);
    appliance.lab.told("ops", "tcp", jiff::SignedDuration::ZERO);
    let tcp = json!({"id": "tcp", "answer": "hour", "user": "ben"});
    assert_eq!(answered(&appliance, tcp).await.status, 403);
    rules(true);
    // Nobody here, and somebody here who writes no policies.
    for user in ["pat", "cem"] {
        assert_eq!(say("ever", "host", user).await.status, 403, "{user}");
    }
    assert!(!document(&appliance, "p").contains("new.example"));
    let done = say("hour", "path", "pat").await;
    assert_eq!(
        (done.status, &done.json()["done"]),
        (200, &json!("allowed for an hour by pat"))
    );
    let rule = "rules: [{methods: [GET], paths: [/x]}], expires:";
    assert!(document(&appliance, "p").contains(rule));
    // As it was before, and told anew.
    appliance.lab.make(&saved("p"));
    appliance.lab.make(&Change::RemoveWebhook {
        name: "ops".to_owned(),
    });
    rules(true);
    told();
    let done = say("ever", "host", "ben").await;
    assert_eq!(done.status, 200, "{done:?}");
    let document = document(&appliance, "p");
    assert!(
        document.contains("{host: new.example, ports: [443]}"),
        "{document}"
    );
    let author = appliance
        .lab
        .store
        .policy("p", None)
        .unwrap()
        .unwrap()
        .head
        .author;
    assert_eq!(author, "webhook ops (ben)");
    // Both and none of both is no answer.
    let both = json!({"record": appliance.record, "id": "h1", "answer": "hour", "user": "ben"});
    for wrong in [both, json!({"answer": "hour", "user": "ben"})] {
        assert_eq!(answered(&appliance, wrong).await.status, 400);
    }
}

/// What a program says, signed with the webhook's secret.
async fn answered(appliance: &Furnished, body: Value) -> Answer {
    let key = Key::read(WebhookKind::Generic, WEBHOOK_SECRET).unwrap();
    let (body, now) = (body.to_string(), appliance.lab.app.now());
    let id = uuid::Uuid::now_v7().to_string();
    let signature = key.sign(&id, now, body.as_bytes());
    let at = now.as_second().to_string();
    let fields = [
        ("webhook-id", id.as_str()),
        ("webhook-timestamp", at.as_str()),
        ("webhook-signature", signature.as_str()),
    ];
    appliance
        .send("POST /api/v1/webhooks/ops/answer", &fields, &body)
        .await
}

#[tokio::test]
async fn what_policy_and_floor_both_deny_is_allowed_in_both_by_one_sheet() {
    let appliance = Furnished::new().await;
    appliance.lab.make(&Change::SetFloor {
        place: Place::All,
        policy: Some("base".to_owned()),
        expected: None,
    });
    let [_, _, editor, _, admin] = super::console::signed_in(&appliance);
    let record = format!("/audit/{}", appliance.record);
    let sheet = format!("{record}/allow?width=path");
    let page = async |what: &str, cookie: &str| appliance.page(what, cookie).await;
    let offered = page(&format!("GET {record}"), &admin).await.body;
    assert!(offered.contains(&format!("href=\"{sheet}\"")), "{offered}");
    assert!(
        offered.contains("goes into p and base at once"),
        "{offered}"
    );
    // Who may not open the floor is offered nothing that would not help.
    let theirs = page(&format!("GET {record}"), &editor).await.body;
    assert!(!theirs.contains("/allow?width"), "{theirs}");
    assert_eq!(page(&format!("GET {sheet}"), &editor).await.status, 403);
    let token = appliance.token("dan", Role::Editor, ("", ""));
    let refused = allow(&appliance, ALLOW, &token, &json!({"for": "ever"})).await;
    assert!(
        refused.body.contains("the floor base denies it"),
        "{refused:?}"
    );

    let shown = page(&format!("GET {sheet}"), &admin).await.body;
    let rule = "{host: new.example, ports: [443], rules: [{methods: [GET], paths: [/x]}]}";
    assert_eq!(shown.matches(rule).count(), 2, "{shown}");
    assert!(shown.contains(">base</a>, a floor"), "{shown}");
    let on = shown.split("name=\"on\" value=\"").nth(1).unwrap();
    let on = on.split('"').next().unwrap().replace(' ', "+");
    let save = async |on: &str| {
        let fields = [
            ("cookie", admin.as_str()),
            ("origin", "http://127.0.0.1"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let what = format!("POST {record}/allow");
        let form = format!("on={on}&width=path&for=ever&reason=docs");
        appliance.send(&what, &fields, &form).await
    };
    let before = (document(&appliance, "p"), document(&appliance, "base"));
    let stale = save("p:99+base:99").await;
    assert_eq!(stale.status, 412, "{stale:?}");
    let after = (document(&appliance, "p"), document(&appliance, "base"));
    assert_eq!(after, before, "nothing is saved on what was not shown");
    let saved = save(&on).await;
    assert_eq!(saved.status, 303, "{saved:?}");
    for policy in ["p", "base"] {
        assert!(document(&appliance, policy).contains(rule), "{policy}");
    }
    // It passes now: the sheet leads back.
    let again = page(&format!("GET {sheet}"), &admin).await;
    assert_eq!(again.headers["location"], record.as_str());
}

#[tokio::test]
async fn an_answer_for_one_request_takes_no_width_and_needs_no_body_and_a_rule_names_its_request() {
    let appliance = Furnished::new().await;
    let admin = appliance.token("dan", Role::Admin, ("", ""));
    let held = "POST /api/v1/held/h1/allow";
    for width in ["path", "host"] {
        let wide = json!({"for": "once", "width": width});
        let refused = allow(&appliance, held, &admin, &wide).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        let detail = refused.json()["detail"].to_string();
        assert!(detail.contains("writes none"), "{detail}");
    }
    let hour = json!({"for": "hour", "width": "path"});
    let made = allow(&appliance, held, &admin, &hour).await;
    assert_eq!(made.status, 200, "{made:?}");
    let records = appliance.lab.log.records().into_iter();
    let mut changes = records.filter(|one| one.entry.event == Event::PolicyChange);
    let found = changes.next_back().unwrap();
    assert_eq!(found.entry.request.as_deref(), Some("h1"), "{found:?}");
    // Nothing at all is once.
    appliance.put_held("h2", Some("/y"));
    let token = format!("Bearer {admin}");
    let bare = [("authorization", token.as_str())];
    let nothing = appliance
        .send("POST /api/v1/held/h2/allow", &bare, "")
        .await;
    assert_eq!(nothing.status, 204, "{nothing:?}");
    let form = [
        bare[0],
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let form = appliance.send(held, &form, "").await;
    assert_eq!(form.status, 415, "{form:?}");
    // Of what is needed something stays needed.
    let rule = appliance.send(ALLOW, &bare, "").await;
    assert_eq!(rule.status, 415, "{rule:?}");
    // Where a policy is put is said, always.
    let put = appliance.send("PUT /api/v1/assignments", &bare, "").await;
    assert_eq!(put.status, 415, "{put:?}");
}
