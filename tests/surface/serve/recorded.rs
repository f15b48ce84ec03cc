//! Recorded traffic for who writes policies: a draft is simulated on it, and made of it.

use serde_json::{Value, json};

use super::{Appliance, Ask, Reply};

const NOTHING: &str = "version: 1\negress: []\n";
const WANTED: &str = "version: 1\negress:\n  - {host: wanted.test, ports: [80]}\n";

fn ask(appliance: &Appliance, token: &str, path: &str, body: &Value) -> Reply {
    let ask = Ask::new("POST", path).token(token).json(body);
    ask.send(appliance)
}

#[test]
fn what_would_be_in_force_for_nobody_is_not_simulated() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    save(&appliance, &token, "web", NOTHING);
    for place in [
        json!({"server": "another", "policy": "web"}),
        json!({"team": "another", "policy": "web"}),
    ] {
        let absent = ask(&appliance, &token, "/api/v1/assignments/simulate", &place);
        assert_eq!(absent.status, 404, "{absent:?}");
    }
}

#[test]
fn what_was_denied_is_simulated_suggested_and_shown_to_who_approves() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    save(&appliance, &token, "web", NOTHING);
    save(&appliance, &token, "wide", WANTED);
    let script = "curl -s -m 20 -o /dev/null http://wanted.test/a; echo done";
    let words = [
        "server", "add", "asker", "--policy", "web", "--", "/bin/sh", "-c", script,
    ];
    assert_eq!(appliance.gig(&words, "").status, 0);
    let started = appliance.gig(&["server", "start", "asker"], "");
    assert_eq!(started.status, 0, "{started:?}");
    let sandbox = started.output.trim().to_owned();
    let denied = format!("sandbox={sandbox}&verdict=deny&host=wanted.test");
    appliance.until("it is denied", |one| {
        !one.records(&token, &denied).is_empty()
    });

    let simulate = |document: &str, server: Option<&str>| {
        let body = json!({"document": document, "days": 1, "server": server});
        let reply = ask(&appliance, &token, "/api/v1/policies/web/simulate", &body);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()
    };
    for server in [None, Some("asker")] {
        let simulated = simulate(WANTED, server);
        let allowed = simulated["newly_allowed"].to_string();
        assert!(allowed.contains("wanted.test"), "{simulated}");
        assert_eq!(simulated["newly_denied"], json!([]), "{simulated}");
        assert_eq!(simulated["complete"], true, "{simulated}");
    }
    assert_eq!(simulate(NOTHING, None)["newly_allowed"], json!([]));
    assert_eq!(simulate(WANTED, Some("another"))["records"], 0);
    let body = json!({"document": WANTED});
    for role in ["viewer", "auditor"] {
        let token = appliance.token(role);
        let refused = ask(&appliance, &token, "/api/v1/policies/web/simulate", &body);
        assert_eq!(refused.status, 403, "{refused:?}");
    }
    let wrong = json!({"document": WANTED, "days": 0});
    let wrong = ask(&appliance, &token, "/api/v1/policies/web/simulate", &wrong);
    assert_eq!(wrong.status, 400, "{wrong:?}");

    let body = json!({"sandbox": sandbox, "days": 1});
    let made = ask(&appliance, &token, "/api/v1/policies/web/suggest", &body).json();
    let document = made["document"].as_str().expect("a document").to_owned();
    assert!(document.contains("host: wanted.test"), "{document}");
    assert!(document.contains("# "), "no evidence: {document}");
    let again = simulate(&document, None);
    assert_eq!(again["still_denied"], 0, "{again}");

    // The same in the console.
    let path = format!("/policies/web/edit?suggest=1&sandbox={sandbox}");
    let page = Ask::new("GET", &path).cookie(&cookie).send(&appliance);
    assert!(page.body.contains("host: wanted.test"), "{page:?}");
    let encoded: String = WANTED
        .bytes()
        .map(|octet| format!("%{octet:02X}"))
        .collect();
    let fields = format!("version=1&act=simulate&days=1&server=&document={encoded}");
    let page = appliance
        .form("/policies/web/edit", &fields)
        .cookie(&cookie);
    let page = page.send(&appliance).body;
    assert!(page.contains("It would newly allow: 1"), "{page}");

    // And to who approves.
    let cem = appliance.member(&cookie, "cem", "approver");
    let on = ["policy", "two-person", "on"];
    assert_eq!(appliance.gig(&on, "").status, 0);
    let put = Ask::new("PUT", "/api/v1/policies/web").cookie(&cookie);
    let put = put.header("Origin", &format!("http://{}", appliance.address));
    let put = put.header("If-Match", "\"1\"");
    let put = put.json(&json!({"document": WANTED})).send(&appliance);
    let id = put.json()["id"].to_string();
    let path = format!("/approvals/{id}");
    let page = Ask::new("GET", &path).cookie(&cem).send(&appliance);
    assert!(page.body.contains("It would newly allow: 1"), "{page:?}");
    let path = format!("/api/v1/proposals/{id}/simulation");
    let same = Ask::new("GET", &path).token(&token).send(&appliance).json();
    assert!(
        same["newly_allowed"].to_string().contains("wanted.test"),
        "{same}"
    );
    assert_places_are_simulated(&appliance, [&cookie, &cem, &token]);
}

fn save(appliance: &Appliance, token: &str, name: &str, document: &str) {
    let path = format!("/api/v1/policies/{name}");
    let put = Ask::new("PUT", &path).token(token);
    let put = put.header("If-None-Match", "*");
    let put = put.json(&json!({"document": document}));
    assert_eq!(put.send(appliance).status, 201);
}

/// Also where no document is proposed, but where one is to be in force or to bound what is.
fn assert_places_are_simulated(appliance: &Appliance, [admin, approver, token]: [&str; 3]) {
    let proposed = |path: &str, policy: &str| {
        let put = Ask::new("PUT", path).cookie(admin).header("If-Match", "*");
        let put = put.header("Origin", &format!("http://{}", appliance.address));
        let put = put.json(&json!({"server": "asker", "policy": policy}));
        let id = put.send(appliance).json()["id"].to_string();
        let path = format!("/approvals/{id}");
        let page = Ask::new("GET", &path).cookie(approver).send(appliance).body;
        let path = format!("/api/v1/proposals/{id}/simulation");
        let same = Ask::new("GET", &path).token(token).send(appliance);
        assert_eq!(same.status, 200, "{same:?}");
        (page, same.json())
    };
    let (page, same) = proposed("/api/v1/assignments", "wide");
    for part in [
        "policy wide in place of policy web",
        "wanted.test",
        "It would newly allow: 1",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert_eq!(same["newly_allowed_total"], 1, "{same}");
    let (page, same) = proposed("/api/v1/floors", "wide");
    assert!(page.contains("policy wide in place of no floor"), "{page}");
    assert!(page.contains("It would newly deny: 0"), "{page}");
    assert_eq!(same["newly_allowed_total"], 0, "{same}");
    assert!(same["records"].as_u64() > Some(0), "{same}");
}

#[test]
fn what_a_search_finds_is_exported_and_who_took_it_is_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let appliance = Appliance::start_in(folder, &["--changes-a-minute", "1000"]);
    let token = appliance.token("admin");
    // More than one page of the record.
    for version in 0..510 {
        let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
        let put = match version {
            0 => put.header("If-None-Match", "*"),
            on => put.header("If-Match", &format!("\"{on}\"")),
        };
        let put = put.json(&json!({"document": NOTHING}));
        let made = if version == 0 { 201 } else { 200 };
        assert_eq!(put.send(&appliance).status, made);
    }
    let export = |token: &str, format: &str, query: &str| {
        let path = format!("/api/v1/audit/export/{format}?{query}");
        Ask::new("GET", &path).token(token).send(&appliance)
    };
    let auditor = appliance.token("auditor");
    let all = export(&auditor, "jsonl", "event=policy.change");
    assert_eq!(all.status, 200, "{}", all.head);
    let name = "content-disposition: attachment; filename=\"gig-record.jsonl\"";
    assert!(all.head.contains(name), "{}", all.head);
    let lines = all
        .body
        .lines()
        .filter(|line| line.starts_with("{\"seq\":"));
    let lines: Vec<Value> = lines
        .map(|line| serde_json::from_str(line).expect("a record"))
        .collect();
    let versions: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["policy_version"].as_u64())
        .collect();
    assert_eq!(versions, (1..=510).rev().collect::<Vec<_>>());
    let narrow = export(&auditor, "csv", "event=admin&profile=nobody");
    assert_eq!(narrow.status, 200, "{narrow:?}");
    let rows = narrow.body.lines().filter(|line| line.contains(','));
    assert_eq!(rows.count(), 1, "its line of names alone: {narrow:?}");
    let ocsf = export(&auditor, "ocsf", "event=policy.change");
    assert!(ocsf.body.contains("\"class_uid\":"), "{ocsf:?}");

    let taken = appliance.records(&auditor, "event=admin&text=exported");
    let said: Vec<String> = taken
        .iter()
        .map(|one| one["findings"].to_string())
        .collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(
        said[1].contains("csv: event=admin&profile=nobody"),
        "{said:?}"
    );
    let who = taken[0]["profile"].as_str().expect("who");
    assert!(who.starts_with("token for-auditor"), "{who}");
    // Not for those who may not read it, nor in a form that is none, nor what is no search.
    let viewer = appliance.token("viewer");
    assert_eq!(export(&viewer, "jsonl", "").status, 403);
    for (format, query, status) in [
        ("xml", "", 404),
        ("jsonl", "since=never", 400),
        ("jsonl", "hots=a", 400),
    ] {
        let refused = export(&auditor, format, query);
        assert_eq!(refused.status, status, "{refused:?}");
    }
    let taken = appliance.records(&auditor, "event=admin&text=exported");
    assert_eq!(taken.len(), 3, "nothing was taken");
    let part = export(&auditor, "jsonl", "event=policy.change");
    assert_proved_away_from_here(&appliance, &auditor, &part.body);
}

/// All of the record, that is, and no `part` of it.
fn assert_proved_away_from_here(appliance: &Appliance, auditor: &str, part: &str) {
    let proof = Ask::new("GET", "/api/v1/audit/proof").token(auditor);
    let proof = proof.send(appliance);
    assert_eq!(proof.status, 200, "{}", proof.head);
    let file = appliance.path("proof.jsonl");
    // Between its parts stand their lengths (RFC 9112 §7.1).
    let lines = |body: &str| {
        let lines = body.lines().filter(|line| line.starts_with('{'));
        lines.map(|line| format!("{line}\n")).collect::<Vec<_>>()
    };
    let verified = |lines: &[String]| {
        std::fs::write(&file, lines.concat()).expect("a file");
        appliance.gig(&["audit", "verify", file.to_str().expect("UTF-8")], "")
    };
    let all = lines(&proof.body);
    let whole = verified(&all);
    assert_eq!(whole.status, 0, "{whole:?}");
    assert!(proof.body.contains("jsonl with its checkpoints: all of it"));
    let (_last, cut) = all.split_last().expect("lines");
    assert_eq!(verified(cut).status, 1, "the last record is missing");
    // What is newest first, or a part, is told from what somebody changed.
    let part = verified(&lines(part));
    assert_eq!(part.status, 1, "{part:?}");
    assert!(part.output.contains("with its proof"), "{part:?}");
}

#[test]
fn a_teams_members_its_policy_and_its_floor_are_simulated_before_they_are_changed() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let put = |path: &str, body: Value| {
        let put = Ask::new("PUT", path).token(&token).header("If-Match", "*");
        put.json(&body).send(&appliance)
    };
    save(&appliance, &token, "web", WANTED);
    save(&appliance, &token, "closed", NOTHING);
    let script = "curl -s -m 20 http://wanted.test/; exec sleep 1000";
    let words = [
        "server", "add", "asker", "--policy", "web", "--", "/bin/sh", "-c", script,
    ];
    let added = appliance.gig(&words, "");
    assert_eq!(added.status, 0, "{added:?}");
    let started = appliance.gig(&["server", "start", "asker", "--for", "ana"], "");
    assert_eq!(started.status, 0, "{started:?}");
    appliance.until("it asked", |one| {
        !one.records(&token, "host=wanted.test").is_empty()
    });
    let simulate = |path: &str, body: Value| -> Value {
        let reply = ask(&appliance, &token, path, &body);
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    };
    let denies = |told: &Value| told["newly_denied"].to_string().contains("wanted.test");
    let [all, floors] = ["assignments", "floors"].map(|what| format!("/api/v1/{what}/simulate"));
    for path in [&all, &floors] {
        let told = simulate(path, json!({"profile": "ana", "policy": "closed"}));
        assert!(denies(&told), "{path}: {told}");
        let told = simulate(path, json!({"profile": "ben", "policy": "closed"}));
        assert_eq!(told["records"], 0, "{path}: {told}");
        let lost = ask(&appliance, &token, path, &json!({"policy": "lost"}));
        assert_eq!(lost.status, 404, "{path}: {lost:?}");
    }
    let team = "/api/v1/teams/data";
    let made = Ask::new("PUT", team)
        .token(&token)
        .header("If-None-Match", "*");
    let made = made.json(&json!({"members": ["ben"]})).send(&appliance);
    assert_eq!(made.status, 201, "{made:?}");
    let simulate_team =
        |members: Value| simulate(&format!("{team}/simulate"), json!({"members": members}));
    assert_eq!(
        simulate_team(json!(["ana"]))["records"],
        0,
        "it has nothing"
    );
    for what in ["assignments", "floors"] {
        let path = format!("/api/v1/{what}");
        let done = put(&path, json!({"team": "data", "policy": "closed"}));
        assert_eq!(done.status, 204, "{done:?}");
        let told = simulate_team(json!(["ana", "ben"]));
        assert!(denies(&told), "{what}: {told}");
        assert_eq!(simulate_team(json!([]))["records"], 0, "{what}");
        let done = put(&path, json!({"team": "data", "policy": null}));
        assert_eq!(done.status, 204, "{done:?}");
    }
    // Nothing of it was done.
    let kept = Ask::new("GET", team).token(&token).send(&appliance).json();
    assert_eq!(kept["members"], json!(["ben"]), "{kept}");
}
