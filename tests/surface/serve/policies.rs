//! Policies: versions that only grow, documents that are right, text that cannot harm a page.

use serde_json::json;

use super::{Appliance, Ask, Reply};

fn put(appliance: &Appliance, token: &str, on: Option<u64>, document: &str) -> Reply {
    let ask = Ask::new("PUT", "/api/v1/policies/web").token(token);
    let ask = match on {
        Some(version) => ask.header("If-Match", &format!("\"{version}\"")),
        None => ask.header("If-None-Match", "*"),
    };
    let body = json!({"document": document, "reason": "for the test"});
    ask.json(&body).send(appliance)
}

const ONE: &str = "version: 1\negress:\n  - host: one.example\n";
const TWO: &str = "version: 1\negress:\n  - host: two.example\n";

#[test]
fn versions_grow_and_nobody_overwrites_what_they_have_not_seen() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let made = put(&appliance, &token, None, ONE);
    assert_eq!(made.status, 200, "{made:?}");
    assert!(made.head.contains("etag: \"1\""), "{made:?}");
    assert_eq!(put(&appliance, &token, None, TWO).status, 412);
    assert_eq!(put(&appliance, &token, Some(2), TWO).status, 412);
    assert_eq!(put(&appliance, &token, Some(1), TWO).status, 200);
    let blind = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    assert_eq!(
        blind
            .json(&json!({"document": ONE}))
            .send(&appliance)
            .status,
        428
    );
    let wrong = put(
        &appliance,
        &token,
        Some(2),
        "version: 1\negress:\n  - hots: a\n",
    );
    assert_eq!(wrong.status, 422, "{wrong:?}");
    assert!(wrong.head.contains("application/problem+json"), "{wrong:?}");
    assert_eq!(wrong.json()["problems"][0]["line"], 3, "{wrong:?}");
    let back = Ask::new("POST", "/api/v1/policies/web/rollback").token(&token);
    let back = back.json(&json!({"version": 1})).send(&appliance);
    assert_eq!(
        (back.status, &back.json()["version"]),
        (200, &json!(3)),
        "{back:?}"
    );
    let page = |query: &str| {
        let path = format!("/api/v1/policies/web/versions?limit=2{query}");
        Ask::new("GET", &path).token(&token).send(&appliance).json()
    };
    let (first, second) = (page(""), page("&cursor=2"));
    assert_eq!(first["items"][0]["reason"], "back to version 1");
    assert_eq!(
        (&first["next"], &second["items"][0]["version"]),
        (&json!(2), &json!(1))
    );
    assert!(second["next"].is_null(), "{second}");
    let changes = appliance.records(&token, "event=policy.change&policy=web");
    let versions: Vec<_> = changes
        .iter()
        .map(|one| one["policy_version"].clone())
        .collect();
    assert_eq!(versions, [json!(3), json!(2), json!(1)]);
    assert!(
        changes[0]["profile"]
            .as_str()
            .expect("who")
            .starts_with("token for-admin")
    );
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let mut acknowledged = 0;
    for version in 0..20_u64 {
        let on = Some(version).filter(|version| *version > 0);
        if put(&appliance, &token, on, &format!("{ONE}# {version}\n")).status == 200 {
            acknowledged = version + 1;
        }
    }
    assert_eq!(acknowledged, 20);
    let again = appliance.kill_and_start_again();
    let kept = Ask::new("GET", "/api/v1/policies/web")
        .cookie(&cookie)
        .send(&again);
    assert_eq!(
        (kept.status, &kept.json()["version"]),
        (200, &json!(20)),
        "{kept:?}"
    );
    let recorded = again.records(&token, "event=policy.change&limit=100");
    assert_eq!(recorded.len(), 20);
    let record = again.path("audit/record.db");
    let verified = again.gig(&["audit", "verify", record.to_str().expect("UTF-8")], "");
    assert_eq!(verified.status, 0, "{verified:?}");
}

#[test]
fn hostile_text_is_shown_and_never_obeyed() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let reason = "<script>alert(1)</script>\u{202e}\"'><img src=x>";
    let document = format!("{ONE}# </textarea></pre><script>\u{200b}\n");
    let body = json!({"document": document, "reason": reason});
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put
        .header("If-None-Match", "*")
        .json(&body)
        .send(&appliance);
    assert_eq!(put.status, 200, "{put:?}");
    for path in [
        "/policies",
        "/policies/web",
        "/policies/web/edit",
        "/policies/web/versions/1",
        "/audit",
        "/audit?text=%3Cscript%3E%22%27",
        "/sign-in?next=%22%3E%3Cscript%3E",
        "/no/%3Cscript%3E",
    ] {
        let page = Ask::new("GET", path).cookie(&cookie).send(&appliance);
        assert!(page.status == 200 || page.status == 404, "{path}: {page:?}");
        for harm in [
            "<script",
            "</textarea></pre>",
            "<img",
            "\u{202e}",
            "\u{200b}",
        ] {
            assert!(
                !page.body.contains(harm),
                "{path} has {harm}: {}",
                page.body
            );
        }
    }
    let shown = Ask::new("GET", "/policies")
        .cookie(&cookie)
        .send(&appliance)
        .body;
    assert!(
        shown.contains("⟨U+202E⟩") && shown.contains("&#60;script"),
        "{shown}"
    );
}

#[test]
fn the_openapi_document_is_served_and_names_what_there_is() {
    let appliance = Appliance::start();
    let token = appliance.token("viewer");
    let served = Ask::new("GET", "/api/v1/openapi.json")
        .token(&token)
        .send(&appliance);
    let document = served.json();
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().expect("paths");
    // Each path without a name in it answers.
    for (path, operations) in paths {
        if operations.get("get").is_some() && !path.contains('{') {
            let reply = Ask::new("GET", path).token(&token).send(&appliance);
            assert!(matches!(reply.status, 200 | 403 | 503), "{path}: {reply:?}");
        }
    }
}

#[test]
fn the_command_line_applies_shows_and_rolls_back() {
    let appliance = Appliance::start();
    let ok = |words: &[&str], input: &str| {
        let answer = appliance.gig(words, input);
        assert_eq!(answer.status, 0, "{words:?}: {answer:?}");
        answer.output
    };
    assert!(ok(&["policy", "apply", "web", "-", "--reason", "first"], ONE).contains("version 1"));
    assert!(ok(&["policy", "apply", "web", "-"], TWO).contains("version 2"));
    let stale = appliance.gig(&["policy", "apply", "web", "-", "--on", "1"], ONE);
    assert_eq!(stale.status, 125, "{stale:?}");
    assert!(stale.errors.contains("at version 2 now"), "{stale:?}");
    let wrong = appliance.gig(&["policy", "apply", "web", "-"], "version: 1\negress: 7\n");
    assert_eq!(wrong.status, 125, "{wrong:?}");
    assert_eq!(ok(&["policy", "get", "web"], ""), TWO);
    assert_eq!(ok(&["policy", "get", "web", "--version", "1"], ""), ONE);
    ok(&["policy", "rollback", "web", "1"], "");
    assert_eq!(ok(&["policy", "get", "web"], ""), ONE);
    let history = ok(&["policy", "history", "web"], "");
    assert!(
        history.starts_with("v3") && history.contains("first"),
        "{history}"
    );
    ok(&["policy", "assign", "web", "--all"], "");
    assert!(ok(&["policy", "ls"], "").contains("web"));
}

#[test]
fn a_policy_that_is_refused_says_every_mistake_with_its_place() {
    let appliance = Appliance::start();
    let file = appliance.folder.path().join("policy.yaml");
    std::fs::write(&file, "version: 1\nname: web\negress:\n  - hosts: a.test\n").expect("a file");
    let file = file.display().to_string();
    let refused = appliance.gig(&["policy", "apply", "web", &file], "");
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(
        refused.errors.contains("4:") && refused.errors.contains("hosts"),
        "{refused:?}"
    );
}
