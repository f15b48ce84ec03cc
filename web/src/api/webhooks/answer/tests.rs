//! Answers by webhook: who is heard, once, and how far it goes.

use aws_lc_rs::hmac;
use base64::{Engine as _, prelude::BASE64_STANDARD};
use jiff::SignedDuration;
use serde_json::json;

use super::*;
use crate::{
    app::tests::{Lab, SLACK_SECRET, WEBHOOK_SECRET, saved},
    role::Role,
    store::{Change, HeldFacts, HeldRow, Telling, ToldState},
};

const SLACK: &str = "https://hooks.slack.example/T0/B0/x";

fn set_up(lab: &Lab, name: &str, kind: WebhookKind, answerers: &[&str]) {
    lab.make(&Change::SaveWebhook {
        name: name.parse().unwrap(),
        kind,
        url: SLACK.to_owned(),
        answerers: answerers.iter().map(|one| (*one).to_owned()).collect(),
        rules: false,
        new: false,
    });
}

/// This webhook was told what waits.
fn told(lab: &Lab, name: &str, ids: &[&str]) {
    for id in ids {
        lab.told(name, id, SignedDuration::ZERO);
    }
}

/// A lab where these wait.
fn lab(ids: &[&str]) -> Lab {
    let lab = Lab::new();
    lab.make(&saved("p"));
    let created = lab.app.now();
    let row = |id: &&str| HeldRow {
        id: (*id).to_owned(),
        node: "lab".to_owned(),
        facts: HeldFacts {
            sandbox: "s".to_owned(),
            server: "docs".to_owned(),
            profile: "ana".to_owned(),
            started_by: Vec::new(),
            host: "new.example".to_owned(),
            port: 443,
            protocol: "https".to_owned(),
            method: Some("GET".to_owned()),
            path: Some("/x".to_owned()),
            policy: "p".to_owned(),
            policy_version: 1,
            reason: "host_not_allowed".to_owned(),
        },
        created,
        expires: created + SignedDuration::from_mins(5),
        lost: false,
    };
    let rows: Vec<_> = ids.iter().map(row).collect();
    lab.app.store.put_held(&rows).unwrap();
    lab.store.held_seen(None);
    lab
}

fn tag(key: &[u8], message: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
}

fn headers(fields: &[(&'static str, String)]) -> HeaderMap {
    let fields = fields.iter();
    fields
        .map(|(name, value)| ((*name).try_into().unwrap(), value.parse().unwrap()))
        .collect()
}

/// A button, as Slack sends it.
fn pressed(lab: &Lab, button: &str, id: &str, user: &str) -> (HeaderMap, String) {
    let payload = json!({
        "type": "block_actions",
        "user": {"id": user, "username": "ana"},
        "response_url": "https://hooks.slack.example/actions/T0/1/y",
        "actions": [{"action_id": button, "block_id": "gig", "value": id, "type": "button"}],
    });
    let payload = payload.to_string();
    let escaped: String = payload
        .bytes()
        .map(|octet| format!("%{octet:02X}"))
        .collect();
    let body = format!("payload={escaped}");
    let at = lab.app.now().as_second();
    let octets = tag(SLACK_SECRET.as_bytes(), &format!("v0:{at}:{body}"));
    let hex: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    let fields = [
        ("x-slack-request-timestamp", at.to_string()),
        ("x-slack-signature", format!("v0={hex}")),
    ];
    (headers(&fields), body)
}

/// What a program of one's own sends.
fn said(lab: &Lab, id: &str, body: &Value) -> (HeaderMap, String) {
    let (at, body) = (lab.app.now().as_second(), body.to_string());
    let key = BASE64_STANDARD.decode(WEBHOOK_SECRET.strip_prefix("whsec_").unwrap());
    let octets = tag(&key.unwrap(), &format!("{id}.{at}.{body}"));
    let fields = [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        (
            "webhook-signature",
            format!("v1,{}", BASE64_STANDARD.encode(octets)),
        ),
    ];
    (headers(&fields), body)
}

async fn sent(lab: &Lab, name: &str, (headers, body): &(HeaderMap, String)) -> Result<String, u16> {
    let (app, body) = (Arc::clone(&lab.app), Bytes::from(body.clone()));
    let name = Path(name.to_owned());
    let done = answer(State(app), None, name, headers.clone(), body).await;
    done.map(|Json(done)| done.done)
        .map_err(|problem| problem.status().as_u16())
}

fn words(lab: &Lab) -> Vec<(String, bool, String)> {
    let words = lab.app.store.words_for("lab").unwrap().into_iter();
    words.map(|one| (one.id, one.allow, one.by)).collect()
}

#[tokio::test]
async fn who_is_on_the_list_answers_by_a_button_once_and_is_named() {
    let lab = lab(&["a", "b"]);
    set_up(&lab, "slack", WebhookKind::Slack, &["U1"]);
    told(&lab, "slack", &["a", "b"]);
    lab.outbound.json(
        "https://hooks.slack.example/actions/T0/1/y",
        &json!({"ok": true}),
    );
    let stranger = pressed(&lab, "gig_once", "a", "U2");
    assert_eq!(sent(&lab, "slack", &stranger).await, Err(403));
    let other = pressed(&lab, "gig_all", "a", "U1");
    assert_eq!(sent(&lab, "slack", &other).await, Err(400));
    // Of one that is not set up for it.
    let ever = pressed(&lab, "gig_ever", "a", "U1");
    assert_eq!(sent(&lab, "slack", &ever).await, Err(403));
    let mut unsigned = pressed(&lab, "gig_once", "a", "U1");
    unsigned.1.push('x');
    assert_eq!(sent(&lab, "slack", &unsigned).await, Err(401));
    assert!(words(&lab).is_empty());
    let once = pressed(&lab, "gig_once", "a", "U1");
    assert_eq!(
        sent(&lab, "other", &once).await,
        Err(401),
        "of another webhook"
    );
    let done = sent(&lab, "slack", &once).await;
    assert_eq!(done, Ok("allowed once by U1".to_owned()));
    assert_eq!(sent(&lab, "slack", &once).await, Err(409), "a replay");
    let by = "webhook slack (U1)".to_owned();
    assert_eq!(words(&lab), [("a".to_owned(), true, by.clone())]);
    let entry = lab.log.records().into_iter().map(|record| record.entry);
    let mut acts = entry.filter(|entry| entry.request.as_deref() == Some("a"));
    let act = acts.next().unwrap();
    assert_eq!(act.profile.as_deref(), Some(by.as_str()));
    assert!(
        act.findings[0].starts_with("waiting request allowed once"),
        "{act:?}"
    );
    let deny = pressed(&lab, "gig_deny", "b", "U1");
    assert_eq!(
        sent(&lab, "slack", &deny).await,
        Ok("denied by U1".to_owned())
    );
    assert!(words(&lab).contains(&("b".to_owned(), false, by)));
    let late = pressed(&lab, "gig_deny", "a", "U1");
    assert_eq!(
        sent(&lab, "slack", &late).await,
        Err(409),
        "nobody says twice"
    );
    lab.app.attachments.close();
    lab.app.attachments.wait().await;
    let seen = lab.outbound.seen.lock();
    let told: Vec<_> = seen
        .iter()
        .map(|one| String::from_utf8_lossy(&one.body))
        .collect();
    assert!(
        told.iter().any(|body| body.contains("allowed once by U1")),
        "{told:?}"
    );
    // Who is told that nothing was done is so alone: the message stays for who may answer it.
    for body in &told {
        let (replaces, alone) = match body.contains(" by U1") {
            true => ("\"replace_original\":true", false),
            false => ("\"replace_original\":false", true),
        };
        assert!(body.contains(replaces), "{body}");
        assert_eq!(
            body.contains("\"response_type\":\"ephemeral\""),
            alone,
            "{body}"
        );
    }
    assert!(told.len() > 1, "{told:?}");
}

#[tokio::test]
async fn a_member_of_slack_who_writes_policies_here_writes_rules_from_there_and_no_other() {
    let lab = lab(&["a", "b", "c"]);
    // `eve` of Slack is not the `eve` who is a user here.
    for (name, role) in [
        ("ben", Role::Editor),
        ("cem", Role::Approver),
        ("eve", Role::Editor),
    ] {
        lab.make(&Change::AddUser {
            name: name.parse().unwrap(),
            role,
            password: "x".to_owned(),
        });
    }
    lab.make(&Change::SaveWebhook {
        name: "slack".parse().unwrap(),
        kind: WebhookKind::Slack,
        url: SLACK.to_owned(),
        answerers: ["U1=ben", "U2=cem", "U3", "U4=gone", "eve"]
            .map(str::to_owned)
            .to_vec(),
        rules: true,
        new: true,
    });
    told(&lab, "slack", &["a", "b"]);
    let back = "https://hooks.slack.example/actions/T0/1/y";
    lab.outbound.json(back, &json!({"ok": true}));
    let version = || lab.app.store.policy("p", None).unwrap().unwrap();
    for user in ["U2", "U3", "U4", "U9", "ben", "U1=ben", "eve"] {
        for button in ["gig_ever", "gig_host_hour", "gig_host_ever"] {
            let refused = sent(&lab, "slack", &pressed(&lab, button, "a", user)).await;
            assert_eq!(refused, Err(403), "{user} {button}");
        }
    }
    assert_eq!(version().head.version, 1);
    let ever = sent(&lab, "slack", &pressed(&lab, "gig_ever", "a", "U1")).await;
    assert!(ever.unwrap().ends_with(" by U1"));
    let kept = version();
    assert_eq!(kept.head.author, "webhook slack (U1, ben here)");
    let rule = "{host: new.example, ports: [443], rules: [{methods: [GET], paths: [/x]}]}";
    assert!(kept.document.contains(rule), "{}", kept.document);
    let wide = sent(&lab, "slack", &pressed(&lab, "gig_host_ever", "b", "U1")).await;
    assert!(wide.is_ok(), "{wide:?}");
    let rule = "- {host: new.example, ports: [443]}";
    assert!(version().document.contains(rule), "{}", version().document);
    // Who is said to be a user here, and is none, answers nothing at all; nor who was one.
    told(&lab, "slack", &["c"]);
    for user in ["U4", "U1", "U2"] {
        if user != "U4" {
            let name = if user == "U1" { "ben" } else { "cem" };
            lab.make(&Change::RemoveUser {
                name: name.to_owned(),
            });
        }
        for button in ["gig_once", "gig_hour", "gig_deny"] {
            let refused = sent(&lab, "slack", &pressed(&lab, button, "c", user)).await;
            assert_eq!(refused, Err(403), "{user} {button}");
        }
    }
    // Who is nobody here goes on.
    let denied = sent(&lab, "slack", &pressed(&lab, "gig_deny", "c", "U3")).await;
    assert!(denied.is_ok(), "{denied:?}");
    lab.app.attachments.close();
    lab.app.attachments.wait().await;
}

#[tokio::test]
async fn a_program_allows_for_an_hour_and_no_longer() {
    let lab = lab(&["a"]);
    set_up(&lab, "bot", WebhookKind::Generic, &["ana"]);
    told(&lab, "bot", &["a"]);
    for (id, body) in [
        (
            "1",
            json!({"id": "a", "record": "1-1", "answer": "hour", "user": "ana"}),
        ),
        (
            "2",
            json!({"id": "a", "answer": "once", "user": "ana", "role": "admin"}),
        ),
        ("3", json!({"type": "held.waiting", "data": {}})),
    ] {
        assert_eq!(
            sent(&lab, "bot", &said(&lab, id, &body)).await,
            Err(400),
            "{body}"
        );
    }
    let ever = json!({"id": "a", "answer": "ever", "user": "ana"});
    assert_eq!(sent(&lab, "bot", &said(&lab, "e", &ever)).await, Err(403));
    let hour = json!({"id": "a", "answer": "hour", "user": "ana"});
    let done = sent(&lab, "bot", &said(&lab, "4", &hour)).await;
    assert_eq!(done, Ok("allowed for an hour by ana".to_owned()));
    let kept = lab.app.store.policy("p", None).unwrap().unwrap();
    assert_eq!(kept.head.author, "webhook bot (ana)");
    assert!(kept.document.contains("expires:") && kept.document.contains("paths: [/x]"));
}

#[tokio::test]
async fn under_the_two_person_rule_a_webhook_denies_and_no_more() {
    let lab = lab(&["a"]);
    set_up(&lab, "bot", WebhookKind::Generic, &["ana"]);
    told(&lab, "bot", &["a"]);
    for name in ["ana", "ben"] {
        let named = || name.parse().unwrap();
        lab.make(&Change::AddUser {
            name: named(),
            role: Role::Admin,
            password: "x".to_owned(),
        });
        let own = crate::store::Actor {
            name: name.into(),
            person: Some(name.into()),
            owner: false,
            ..crate::app::tests::owner()
        };
        let change = Change::SetPassword {
            code: None,
            name: name.to_owned(),
            password: "y".to_owned(),
            end_tokens: false,
        };
        lab.app.store.apply(&change, &own, &|_| Ok(())).unwrap();
    }
    lab.make(&Change::TwoPersonRule { on: true });
    for (id, word) in [("1", "once"), ("2", "hour")] {
        let body = json!({"id": "a", "answer": word, "user": "ana"});
        assert_eq!(
            sent(&lab, "bot", &said(&lab, id, &body)).await,
            Err(409),
            "{word}"
        );
    }
    assert!(words(&lab).is_empty());
    let deny = json!({"id": "a", "answer": "deny", "user": "ana"});
    assert!(sent(&lab, "bot", &said(&lab, "3", &deny)).await.is_ok());
    assert_eq!(words(&lab).len(), 1);
}

#[tokio::test]
async fn who_was_taken_off_the_list_meanwhile_changes_nothing() {
    let lab = lab(&["a"]);
    set_up(&lab, "bot", WebhookKind::Generic, &["ana"]);
    let bot = lab.app.store.webhooks().unwrap().remove(0);
    let caller = Caller::of_webhook(&bot, ("ana", false), None);
    set_up(&lab, "bot", WebhookKind::Generic, &["ben"]);
    let refused = answer_held(&lab.app, &caller, ("a".to_owned(), &Sight::All), true).await;
    assert_eq!(refused.unwrap_err().status(), StatusCode::FORBIDDEN);
    assert!(caller.still(&lab.app).await.is_err() && words(&lab).is_empty());
    // Nobody is on the list of one that has none.
    set_up(&lab, "bot", WebhookKind::Generic, &[]);
    let body = json!({"id": "a", "answer": "once", "user": ""});
    assert_eq!(sent(&lab, "bot", &said(&lab, "1", &body)).await, Err(403));
}

#[tokio::test]
async fn an_answer_is_to_what_its_webhook_was_told_within_a_day_and_to_nothing_else() {
    let lab = lab(&["a", "b", "c", "d"]);
    for name in ["bot", "other"] {
        set_up(&lab, name, WebhookKind::Generic, &["ana"]);
    }
    told(&lab, "other", &["a"]);
    lab.told("bot", "b", SignedDuration::from_hours(25));
    let failed = Telling {
        webhook: "bot".to_owned(),
        about: "c".to_owned(),
        what: String::new(),
    };
    let (store, now) = (&lab.app.store, lab.app.now());
    assert!(store.begin_telling(&failed, now).unwrap().is_some());
    store.end_telling(&failed, ToldState::Failed, now).unwrap();
    for (number, about) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let body = json!({"id": about, "answer": "once", "user": "ana"});
        let answer = said(&lab, &format!("m{number}"), &body);
        assert_eq!(sent(&lab, "bot", &answer).await, Err(409), "{about}");
    }
    let body = json!({"record": "1-1", "answer": "hour", "user": "ana"});
    assert_eq!(sent(&lab, "bot", &said(&lab, "r", &body)).await, Err(409));
    assert!(words(&lab).is_empty());
    assert_eq!(store.policy("p", None).unwrap().unwrap().head.version, 1);
    let records = lab.log.records().into_iter().map(|record| record.entry);
    let refused: Vec<_> = records
        .filter(|entry| {
            entry
                .findings
                .iter()
                .any(|one| one.starts_with("refused to answer"))
        })
        .collect();
    assert_eq!(refused.len(), 5, "{refused:?}");
    assert_eq!(refused[0].profile.as_deref(), Some("webhook bot (ana)"));
    assert!(refused[4].findings[0].contains("record:1-1"), "{refused:?}");
    // Also while it is being told: a program may answer before it says that it took it.
    lab.app
        .store
        .begin_telling(&failed, now + SignedDuration::from_mins(2))
        .unwrap();
    let body = json!({"id": "c", "answer": "once", "user": "ana"});
    assert!(sent(&lab, "bot", &said(&lab, "c2", &body)).await.is_ok());
    let again = sent(&lab, "bot", &said(&lab, "c3", &body)).await;
    assert_eq!((again, words(&lab).len()), (Err(409), 1));
}

#[test]
fn what_a_payload_names_leads_nowhere_else() {
    let slack = "https://hooks.slack.com/services/x";
    assert!(same_place(slack, "https://hooks.slack.com/actions/y"));
    for other in [
        "https://hooks.slack.com.evil.example/",
        "http://hooks.slack.com/",
        "https://hooks.slack.com:8443/",
        "https://a@hooks.slack.com/",
        "",
    ] {
        assert!(!same_place(slack, other), "{other}");
    }
    assert!(!same_place("", ""));
}
