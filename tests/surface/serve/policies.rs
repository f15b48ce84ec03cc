//! Policies: versions that only grow, documents that are right, text that cannot harm a page.

use serde_json::{Value, json};

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
    assert_eq!(made.status, 201, "{made:?}");
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
    let back = back.header("If-Match", "\"2\"");
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
fn what_a_change_is_built_on_is_compared_as_http_says() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let ask = |method: &str, field: Option<(&str, &str)>| {
        let path = match method {
            "POST" => "/api/v1/policies/web/rollback",
            _ => "/api/v1/policies/web",
        };
        let mut ask = Ask::new(method, path).token(&token);
        if let Some((name, value)) = field {
            ask = ask.header(name, value);
        }
        let body = match method {
            "PUT" => json!({"document": ONE}),
            "POST" => json!({"version": 1}),
            _ => json!({}),
        };
        ask.json(&body).send(&appliance).status
    };
    assert_eq!(
        ask("PUT", Some(("If-Match", "\"0\""))),
        412,
        "nothing is there"
    );
    assert_eq!(ask("PUT", Some(("If-Match", "*"))), 412);
    assert_eq!(ask("PUT", Some(("If-None-Match", "*"))), 201);
    assert_eq!(ask("PUT", Some(("If-Match", "\"1\", \"7\""))), 200);
    assert_eq!(ask("PUT", Some(("If-Match", "*"))), 200);
    for stale in ["\"1\"", "W/\"3\"", "\"abc\"", "\"2\", W/\"3\""] {
        for method in ["PUT", "POST", "DELETE"] {
            assert_eq!(
                ask(method, Some(("If-Match", stale))),
                412,
                "{method} {stale}"
            );
        }
    }
    for method in ["PUT", "POST", "DELETE"] {
        assert_eq!(ask(method, None), 428, "{method}");
    }
    assert_eq!(ask("DELETE", Some(("If-Match", "3"))), 400);
    assert_eq!(ask("DELETE", Some(("If-None-Match", "*"))), 412);
    assert_eq!(ask("POST", Some(("If-Match", "\"3\""))), 200);
    assert_eq!(ask("DELETE", Some(("If-Match", "\"4\""))), 204);
    assert_eq!(ask("DELETE", None), 404);
    // What it was is read on, and brought back.
    let get = |path: &str| {
        let ask = Ask::new("GET", path).token(&token);
        ask.send(&appliance)
    };
    assert_eq!(get("/api/v1/policies/web").status, 404);
    let old = get("/api/v1/policies/web/versions/1");
    assert_eq!(old.json()["document"], ONE, "{old:?}");
    assert_eq!(ask("POST", None), 200);
    assert_eq!(get("/api/v1/policies/web").json()["version"], 5);
}

#[test]
fn a_policy_and_where_it_is_in_force_are_one_change() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let ask = |method: &str, path: &str, body: &Value| {
        let ask = Ask::new(method, path).token(&token);
        ask.header("If-None-Match", "*").json(body).send(&appliance)
    };
    let put = |server: &str| {
        let body = json!({"document": ONE, "server": server});
        ask("PUT", "/api/v1/policies/web", &body)
    };
    let missing = put("docs");
    assert_eq!(missing.status, 404, "{missing:?}");
    let none = Ask::new("GET", "/api/v1/policies/web").token(&token);
    assert_eq!(none.send(&appliance).status, 404, "half of it was made");
    let server = json!({"command": ["/bin/true"]});
    let made = Ask::new("PUT", "/api/v1/servers/docs").token(&token);
    let made = made.header("If-None-Match", "*");
    assert_eq!(made.json(&server).send(&appliance).status, 201);
    assert_eq!(put("docs").status, 201);
    let assigned = Ask::new("GET", "/api/v1/assignments").token(&token);
    let assigned = assigned.send(&appliance).json();
    assert_eq!(
        assigned["items"],
        json!([{"server": "docs", "policy": "web"}])
    );
    let told = appliance.records(&token, "event=policy.change");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(
        (&told[0]["policy"], &told[0]["server"]),
        (&json!("web"), &json!("docs"))
    );
    // Out of force and gone, by the command line; what is in use is not.
    let gig = |words: &[&str]| appliance.gig(words, "");
    let used = gig(&["policy", "rm", "web"]);
    assert_eq!(used.status, 125, "{used:?}");
    assert!(used.errors.contains("in use by server docs"), "{used:?}");
    assert_eq!(gig(&["policy", "unassign", "--server", "docs"]).status, 0);
    assert_eq!(gig(&["policy", "rm", "web", "--on", "7"]).status, 125);
    let removed = gig(&["policy", "rm", "web", "--on", "1"]);
    assert_eq!(removed.status, 0, "{removed:?}");
    assert_eq!(gig(&["policy", "get", "web"]).status, 125);
    assert_eq!(gig(&["policy", "get", "web", "--version", "1"]).status, 0);
}

#[test]
fn the_console_takes_out_of_force_removes_and_brings_back() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    assert_eq!(put(&appliance, &token, None, ONE).status, 201);
    assert!(
        appliance
            .gig(&["policy", "assign", "web", "--all"], "")
            .status
            == 0
    );
    let page = |path: &str| {
        let page = Ask::new("GET", path).cookie(&cookie).send(&appliance);
        assert_eq!(page.status, 200, "{path}: {page:?}");
        page.body
    };
    let send = |path: &str, fields: &str| {
        let form = appliance.form(path, fields).cookie(&cookie);
        form.send(&appliance).status
    };
    assert!(!page("/policies/web").contains("Remove this policy"));
    assert_eq!(send("/policies/web/remove", "on=1"), 409, "it is in force");
    assert_eq!(
        send("/policies/web/unassign", "server=docs"),
        409,
        "not there"
    );
    assert_eq!(send("/policies/web/unassign", "server="), 303);
    assert!(page("/policies/web").contains("Remove this policy"));
    assert_eq!(send("/policies/web/remove", "on=7"), 412);
    assert_eq!(send("/policies/web/remove", "on=1"), 303);
    assert!(!page("/policies").contains("/policies/web"));
    let removed = page("/policies/web");
    assert!(removed.contains("was removed") && removed.contains("one.example"));
    let version = page("/policies/web/versions/1?rule=egress%5B0%5D");
    assert!(version.contains("id=\"rule\"") && version.contains("stands in line 3"));
    assert_eq!(send("/policies/web/versions/1", "on=0"), 303);
    assert!(page("/policies/web").contains("Version 2"));
    // Nobody else's to do.
    let viewer = appliance.token("viewer");
    for (path, fields) in [
        ("/policies/web/remove", "on=2"),
        ("/policies/web/unassign", "server="),
    ] {
        let form = appliance.form(path, fields).token(&viewer);
        assert_eq!(form.send(&appliance).status, 403, "{path}");
    }
}

#[test]
fn a_word_of_the_api_is_no_policys_name() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    for (path, fields) in [
        ("/policies", "name=check"),
        (
            "/policies/check/edit",
            "version=0&act=save&document=egress:+[]",
        ),
    ] {
        let refused = appliance.form(path, fields).cookie(&cookie);
        let refused = refused.send(&appliance);
        assert_eq!(refused.status, 422, "{path}: {refused:?}");
        assert!(
            refused.body.contains("has that word for itself"),
            "{refused:?}"
        );
    }
    let edit = Ask::new("GET", "/policies/check/edit").cookie(&cookie);
    assert_eq!(edit.send(&appliance).status, 422);
}

#[test]
fn what_was_acknowledged_is_there_after_kill_9() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let mut acknowledged = 0;
    for version in 0..20_u64 {
        let on = Some(version).filter(|version| *version > 0);
        let saved = put(&appliance, &token, on, &format!("{ONE}# {version}\n"));
        if matches!(saved.status, 200 | 201) {
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
    let verified = again.gig(&["audit", "verify", &again.record()], "");
    assert_eq!(verified.status, 0, "{verified:?}");
}

/// What it prints, and the hosts and paths that it asks for.
fn what_a_sandbox_says_is_harmless(appliance: &Appliance, cookie: &str, token: &str) {
    let script = "printf 'log <script>alert(2)</script>\\342\\200\\256<img src=x>\\n'; \
        for at in 'http://evil.example/<script>alert(3)</script><img>' 'http://<script>.evil.example/'; do \
        curl -s -g -m 20 -o /dev/null --path-as-is -x \"$HTTP_PROXY\" \"$at\"; \
        curl -s -g -m 20 -o /dev/null --request-target \"$at\" -x \"$HTTP_PROXY\" http://evil.example/; done";
    appliance.server("talker", script);
    let sandbox = appliance.run("talker");
    appliance.until("it has said all", |one| one.ended(&sandbox).is_some());
    let about = format!("sandbox={sandbox}&verdict=deny");
    let denied = appliance.records(token, &about);
    assert!(!denied.is_empty(), "it is told what it may not");
    let hostile = |one: &&Value| one.to_string().contains("script");
    assert!(denied.iter().any(|one| hostile(&one)), "{denied:?}");
    let ids = denied.iter().map(|one| one["id"].as_str().expect("an id"));
    let mut pages: Vec<String> = ids.map(|id| format!("/audit/{id}")).collect();
    pages.push(format!("/audit?sandbox={sandbox}"));
    pages.push(format!("/sandboxes/{sandbox}"));
    pages.push("/servers/talker/log".to_owned());
    pages.push("/servers/talker".to_owned());
    pages.push("/".to_owned());
    let mut told = String::new();
    for path in pages {
        let page = Ask::new("GET", &path).cookie(cookie).send(appliance);
        assert!([200, 303].contains(&page.status), "{path}: {page:?}");
        for harm in ["<script>", "<img", "\u{202e}"] {
            assert!(
                !page.body.contains(harm),
                "{path} has {harm}: {}",
                page.body
            );
        }
        told += &page.body;
    }
    for shown in ["alert(2)", "⟨U+202E⟩", "evil.example"] {
        assert!(told.contains(shown), "{shown} is on no page");
    }
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
    assert_eq!(put.status, 201, "{put:?}");
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
        let mut page = Ask::new("GET", path).cookie(&cookie).send(&appliance);
        assert!(page.status == 200 || page.status == 404, "{path}: {page:?}");
        // Our own, from our own address.
        let own = "<script src=\"/edit.js\" defer></script>";
        page.body = page.body.replace(own, "");
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
    what_a_sandbox_says_is_harmless(&appliance, &cookie, &token);
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

#[test]
fn a_secret_that_the_vault_does_not_have_is_told_where_a_policy_names_it() {
    const NAMES: &str = "version: 1\negress:\n  - {host: a.example, secrets: [HERE]}\n  - \
                         {host: b.example, secrets: [GONE, HERE]}\n";
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "HERE"], "a-value-of-some-length");
    assert_eq!(set.status, 0, "{set:?}");
    let ok = |words: &[&str], input: &str| {
        let done = appliance.gig(words, input);
        assert_eq!(done.status, 0, "{words:?}: {done:?}");
        done.output
    };
    let told = |said: &str| {
        let mut lines = said.lines().filter(|line| line.contains("secret_not_set"));
        let line = lines.next().expect("a finding").to_owned();
        assert!(lines.next().is_none(), "{said}");
        assert!(
            line.contains(":4:5: secret_not_set: egress[1]: ") && line.contains("no secret GONE"),
            "{line}"
        );
    };
    told(&ok(&["policy", "apply", "web", "-"], NAMES));
    told(&ok(&["policy", "check", "-", "--appliance"], NAMES));
    let checked = ok(&["policy", "check", "-", "--appliance", "--json"], NAMES);
    let checked: Value = serde_json::from_str(&checked).expect("JSON");
    let findings = checked["findings"].as_array().expect("a list");
    let mut findings = findings.iter();
    let finding = findings.find(|one| one["kind"] == "secret_not_set");
    let finding = finding.expect("a finding");
    assert_eq!(
        (&finding["kind"], &finding["line"], &finding["column"]),
        (&json!("secret_not_set"), &json!(4), &json!(5)),
        "{checked}"
    );
    // Without the appliance nobody knows what its vault has.
    assert!(!ok(&["policy", "check", "-"], NAMES).contains("secret_not_set"));
    let wrong = appliance.gig(
        &["policy", "check", "-", "--appliance"],
        "version: 1\negress: 7\n",
    );
    assert!(
        wrong.status == 1 && wrong.output.contains(":2:9: "),
        "{wrong:?}"
    );
    let cookie = appliance.first_admin();
    let page = Ask::new("GET", "/policies/web/edit").cookie(&cookie);
    let page = page.send(&appliance);
    assert!(page.body.contains("no secret GONE"), "{page:?}");
    // Once it is set there is nothing to say.
    let set = appliance.gig(&["secret", "set", "GONE"], "another-value-of-some-length");
    assert_eq!(set.status, 0, "{set:?}");
    assert!(!ok(&["policy", "apply", "web", "-"], NAMES).contains("secret_not_set"));
    // A secret whose only version is revoked is not one that a server could be given.
    let revoked = appliance.gig(&["secret", "rm", "GONE", "--version", "1"], "");
    assert_eq!(revoked.status, 0, "{revoked:?}");
    told(&ok(&["policy", "check", "-", "--appliance"], NAMES));
}
