//! Requests that wait for a person: a real curl in a real sandbox under `gig serve`, an origin
//! that counts, and every door that a person can answer by.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
};

use gig_tests::lab::postgres::Postgres;
use serde_json::{Value, json};

use super::{Appliance, Ask, Reply, nodes::node};

mod alarms;
mod bounds;
mod webhooks;

/// On this machine's loopback; counts what it is asked for.
struct Origin {
    port: u16,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let theirs = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { continue };
                let mut head = BufReader::new(&stream).lines().map_while(Result::ok);
                let line = head.next().unwrap_or_default();
                head.take_while(|line| !line.is_empty()).for_each(drop);
                theirs.lock().expect("what was seen").push(line);
                let answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
                let _gone = stream.write_all(answer.as_bytes());
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().expect("what was seen").clone()
    }
}

/// `/open` of the origin is allowed, and people are asked about all else.
fn holding(port: u16, hold: &str) -> String {
    format!(
        "version: 1\nhold: {hold}\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, \
         allow_private: [127.0.0.1/32], rules: [{{methods: [GET], paths: [/open]}}]}}\n"
    )
}

/// Asks for a path by the explicit proxy, and says what it got.
fn curl(port: u16, path: &str) -> String {
    format!(
        "NO_PROXY= no_proxy= curl -s -m 60 -x $HTTPS_PROXY -w ' %{{http_code}}\\n' \
         http://127.0.0.1:{port}{path}"
    )
}

impl Appliance {
    fn held(&self, token: &str) -> Vec<Value> {
        let reply = Ask::new("GET", "/api/v1/held").token(token).send(self);
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.json()["items"].as_array().expect("items").clone()
    }

    /// The id of the one that waits for this path.
    fn waits(&self, token: &str, path: &str) -> String {
        let found = |one: &Self| {
            let held = one.held(token);
            let found = held.into_iter().find(|held| held["path"] == path);
            found.map(|held| held["id"].as_str().expect("an id").to_owned())
        };
        self.until("it waits", |one| found(one).is_some());
        found(self).expect("it waits")
    }

    fn allow(&self, token: &str, id: &str, body: &Value) -> Reply {
        let path = format!("/api/v1/held/{id}/allow");
        Ask::new("POST", &path).token(token).json(body).send(self)
    }

    fn printed(&self, sandbox: &str) -> String {
        self.gig(&["logs", sandbox], "").output
    }

    fn until_printed(&self, sandbox: &str, words: &str) {
        self.until(words, |one| one.printed(sandbox).contains(words));
    }
}

#[test]
fn a_request_waits_for_a_word_that_is_for_it_alone() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "5m"));
    let (open, shut) = (curl(origin.port, "/open"), curl(origin.port, "/shut"));
    let script = format!("{open}; {shut}; {shut}; echo over");
    appliance.server("asker", &script);
    let sandbox = appliance.run("asker");
    let id = appliance.waits(&token, "/shut");
    assert_eq!(origin.seen(), ["GET /open HTTP/1.1"]);
    // Who may not is not heard, and who may sees what it is.
    let auditor = appliance.token("auditor");
    assert_eq!(appliance.allow(&auditor, &id, &json!({})).status, 403);
    let viewer = appliance.token("viewer");
    let list = Ask::new("GET", "/api/v1/held").token(&viewer);
    assert_eq!(list.send(&appliance).status, 403);
    let held = &appliance.held(&token)[0];
    assert_eq!(held["sandbox"], sandbox.as_str(), "{held}");
    assert_eq!(
        (&held["server"], &held["policy"]),
        (&json!("asker"), &json!("web"))
    );
    assert_eq!(held["reason"], "path_not_allowed");
    assert_eq!(
        appliance.allow(&token, &id, &json!({"for": "once"})).status,
        204
    );
    appliance.until_printed(&sandbox, "ok 200\nok 200\n");
    // The same again waits again; nobody says twice.
    let again = appliance.waits(&token, "/shut");
    assert_ne!(again, id);
    assert_eq!(appliance.allow(&token, &id, &json!({})).status, 404);
    assert_eq!(origin.seen().len(), 2);
    let denied = appliance.gig(&["approvals", "deny", &again], "");
    assert_eq!(denied.status, 0, "{denied:?}");
    appliance.until_printed(&sandbox, "over");
    let printed = appliance.printed(&sandbox);
    assert!(
        printed.contains("a person was asked and denied it"),
        "{printed}"
    );
    assert!(printed.contains(" 403\nover"), "{printed}");
    assert_eq!(origin.seen().len(), 2);
    // The record: that it waited, who said what, and what went.
    let about = |query: &str| appliance.records(&token, &format!("sandbox={sandbox}&{query}"));
    let begun = about("event=finding");
    assert_eq!(begun.len(), 2, "{begun:?}");
    assert_eq!(begun[0]["findings"], json!(["held"]));
    let mut went = about("event=request&verdict=allow");
    went.retain(|one| one["path"] == "/shut");
    assert_eq!(went.len(), 1, "{went:?}");
    assert_eq!(went[0]["rule"], format!("once:{id}"));
    assert!(
        went[0]["findings"][1]
            .as_str()
            .expect("who")
            .starts_with("allowed_by:")
    );
    let refused = about("event=request&verdict=deny");
    assert_eq!(refused.len(), 1, "{refused:?}");
    allowed_by_its_record(&appliance, &refused[0]);
    assert_eq!(
        (&refused[0]["reason"], &refused[0]["status"]),
        (&json!("path_not_allowed"), &json!(403))
    );
    assert!(
        refused[0]["findings"][1]
            .as_str()
            .expect("who")
            .starts_with("denied_by:")
    );
    let acts = appliance.records(&token, "event=admin&text=waiting");
    assert_eq!(acts.len(), 2, "{acts:?}");
    assert_eq!(acts[1]["request"], id.as_str());
}

/// What was denied is over: a rule lets the next one pass, by the record that the list names.
fn allowed_by_its_record(appliance: &Appliance, denied: &Value) {
    let record = denied["id"].as_str().expect("its record");
    let once = appliance.gig(&["approvals", "allow", record], "");
    assert!(
        once.status != 0 && once.errors.contains("--for hour"),
        "{once:?}"
    );
    let hour = appliance.gig(&["approvals", "allow", record, "--for", "hour"], "");
    assert_eq!(hour.status, 0, "{hour:?}");
    assert!(
        hour.output.contains("is allowed by a rule of web"),
        "{hour:?}"
    );
}

#[test]
fn what_nobody_answers_is_denied_and_what_is_given_up_waits_no_more() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "3s"));
    appliance.server(
        "asker",
        &format!("{}; echo over", curl(origin.port, "/late")),
    );
    let sandbox = appliance.run("asker");
    let _waits = appliance.waits(&token, "/late");
    appliance.until_printed(&sandbox, "over");
    let printed = appliance.printed(&sandbox);
    assert!(
        printed.contains("did not answer within 3 seconds"),
        "{printed}"
    );
    assert!(printed.contains(" 403"), "{printed}");
    assert!(appliance.held(&token).is_empty());
    let refused = appliance.records(&token, &format!("sandbox={sandbox}&verdict=deny"));
    assert_eq!(refused[0]["findings"], json!(["held", "unanswered:3s"]));
    // A program that goes away.
    let body = json!({"document": holding(origin.port, "5m")});
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    assert_eq!(
        put.header("If-Match", "\"1\"")
            .json(&body)
            .send(&appliance)
            .status,
        200
    );
    let asked = curl(origin.port, "/gone").replace("-m 60", "-m 3");
    appliance.server("quitter", &format!("{asked}; echo over; sleep 1000"));
    let quitter = appliance.run("quitter");
    let id = appliance.waits(&token, "/gone");
    appliance.until_printed(&quitter, "over");
    appliance.until("it waits no more", |one| one.held(&token).is_empty());
    assert_eq!(appliance.allow(&token, &id, &json!({})).status, 404);
    let gone = format!("sandbox={quitter}&verdict=deny");
    appliance.until("it is recorded", |one| {
        !one.records(&token, &gone).is_empty()
    });
    let record = &appliance.records(&token, &gone)[0];
    assert_eq!(record["findings"], json!(["held", "client_gone"]));
    assert!(origin.seen().is_empty());
}

#[test]
fn a_rule_for_an_hour_or_for_ever_lets_what_waits_pass_and_all_that_is_like_it() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "5m"));
    let ask = |path: &str| curl(origin.port, path);
    let script = format!(
        "{}; {}; {}; {}; {}; echo over",
        ask("/a"),
        ask("/a"),
        ask("/b"),
        ask("/c"),
        ask("/d")
    );
    appliance.server("asker", &script);
    let sandbox = appliance.run("asker");
    // By the console, this path for an hour: 127.0.0.1 stays closed but for rules that open it, so
    // that a person is told what is lacking.
    let a = appliance.waits(&token, "/a");
    let page = Ask::new("GET", "/approvals")
        .cookie(&cookie)
        .send(&appliance)
        .body;
    assert!(page.contains(&format!("/approvals/held/{a}")), "{page}");
    let place = format!("/approvals/held/{a}");
    let form = appliance.form(&place, "act=hour-path");
    let answered = form.cookie(&cookie).send(&appliance);
    assert_eq!(answered.status, 303, "{answered:?}");
    let kept = Ask::new("GET", "/api/v1/policies/web").token(&token);
    let document = kept.send(&appliance).json()["document"].clone();
    let document = document.as_str().expect("a document");
    assert!(
        document.contains("paths: [/a]") && document.contains("expires:"),
        "{document}"
    );
    appliance.until_printed(&sandbox, "ok 200\nok 200\n");
    // By the command, once; by the API, the host for ever.
    let b = appliance.waits(&token, "/b");
    // Once opens nothing: how much is no question, and is not passed over.
    let wide = appliance.gig(&["approvals", "allow", &b, "--width", "host"], "");
    assert!(
        wide.status != 0 && wide.errors.contains("writes none"),
        "{wide:?}"
    );
    let allowed = appliance.gig(&["approvals", "allow", &b], "");
    assert_eq!(allowed.status, 0, "{allowed:?}");
    assert!(allowed.output.contains("allowed once"), "{allowed:?}");
    let c = appliance.waits(&token, "/c");
    let ever = appliance.allow(&token, &c, &json!({"for": "ever", "width": "host"}));
    assert_eq!(ever.status, 200, "{ever:?}");
    assert_eq!(ever.json()["version"], 3, "{ever:?}");
    appliance.until_printed(&sandbox, "over");
    let printed = appliance.printed(&sandbox);
    assert_eq!(printed, "ok 200\n".repeat(5) + "over\n");
    assert_eq!(origin.seen().len(), 5);
    let by_rule = format!("sandbox={sandbox}&event=request&verdict=allow");
    let records = appliance.records(&token, &by_rule);
    let record = records.iter().find(|one| one["path"] == "/c");
    let record = record.expect("its record");
    assert_eq!(record["findings"], json!(["held", "allowed_by:policy"]));
    assert_eq!(record["policy_version"], 3);
}

#[test]
fn under_the_two_person_rule_an_editor_alone_lets_nothing_pass() {
    let appliance = Appliance::start();
    let ana = appliance.first_admin();
    let ben = appliance.member(&ana, "ben", "editor");
    let cem = appliance.member(&ana, "cem", "approver");
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "5m"));
    let on = appliance.form("/approvals/rule", "rule=on").cookie(&ana);
    assert_eq!(on.send(&appliance).status, 303);
    appliance.server("asker", &format!("{}; echo over", curl(origin.port, "/x")));
    let sandbox = appliance.run("asker");
    let id = appliance.waits(&token, "/x");
    let place = format!("/approvals/held/{id}");
    let answer = |cookie: &str, act: &str| {
        let form = appliance.form(&place, act).cookie(cookie);
        form.send(&appliance)
    };
    assert_eq!(answer(&ben, "act=once").status, 403);
    // What stands for ever is looked at first.
    let sheet = format!("{place}/allow?width=path");
    let looked = answer(&ben, "act=ever-path");
    assert!(
        looked.head.contains(&format!("location: {sheet}")),
        "{looked:?}"
    );
    let page = Ask::new("GET", &sheet).cookie(&ben).send(&appliance).body;
    assert!(page.contains("Propose to allow it for ever"), "{page}");
    let (_, shown) = page.split_once("name=\"shown\" value=\"").unwrap();
    let (shown, _) = shown.split_once('"').unwrap();
    let rule = answer(&ben, &format!("act=ever-path&shown={shown}"));
    let proposal = "location: /approvals/1";
    assert!(rule.head.contains(proposal), "{rule:?}");
    assert!(origin.seen().is_empty());
    assert_eq!(answer(&cem, "act=once").status, 303);
    appliance.until_printed(&sandbox, "over");
    assert!(appliance.printed(&sandbox).starts_with("ok 200"));
    assert_eq!(origin.seen().len(), 1);
}

#[test]
fn what_waits_at_one_node_is_answered_at_another() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    let origin = Origin::start();
    one.policy(&token, &holding(origin.port, "5m"));
    one.server(
        "asker",
        &format!("{}; echo over", curl(origin.port, "/far")),
    );
    let sandbox = one.run("asker");
    let id = two.waits(&token, "/far");
    assert!(origin.seen().is_empty());
    let word = two.allow(&token, &id, &json!({}));
    assert_eq!(word.status, 204, "{word:?}");
    one.until_printed(&sandbox, "over");
    assert!(one.printed(&sandbox).starts_with("ok 200"));
    assert_eq!(origin.seen().len(), 1);
    assert!(two.held(&token).is_empty());
}

#[test]
fn an_answer_just_after_its_node_was_killed_is_told_and_recorded_as_heard_by_nobody() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    let origin = Origin::start();
    one.policy(&token, &holding(origin.port, "5m"));
    one.server("asker", &curl(origin.port, "/far"));
    one.run("asker");
    let id = two.waits(&token, "/far");
    // As `kill -9` does: nothing says yet that it is gone.
    drop(one);
    let word = two.allow(&token, &id, &json!({}));
    assert_eq!(word.status, 410, "{word:?}");
    assert!(origin.seen().is_empty());
    let told = two.records(&token, &format!("request={id}&event=admin"));
    let verdicts: Vec<_> = told.iter().map(|one| one["verdict"].clone()).collect();
    assert_eq!(verdicts, ["deny", "allow"], "newest first: {told:?}");
    let said = told[0]["findings"][0].as_str().expect("words");
    assert!(said.starts_with("nobody heard the answer"), "{said}");
}
