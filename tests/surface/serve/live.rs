//! The record as it is written: server-sent events, read by curl.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::Value;

use super::{Appliance, Ask};

/// Events of a path, as they come; ends with its handle.
struct Events {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Events {
    fn of(appliance: &Appliance, token: &str, path: &str, last: Option<&str>) -> Self {
        let mut curl = Command::new("curl");
        curl.args(["-sN", "-m", "120", "-H"]);
        curl.arg(format!("Authorization: Bearer {token}"));
        if let Some(last) = last {
            curl.args(["-H", &format!("Last-Event-ID: {last}")]);
        }
        curl.arg(format!("http://{}{path}", appliance.address));
        let child = curl.stdout(Stdio::piped()).spawn();
        let mut child = child.expect("curl");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, lines }
    }

    /// The next event: its kind, its id, and what it says; `None` at the end.
    fn next(&mut self) -> Option<(String, String, Value)> {
        let (mut kind, mut id) = (String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).expect("a line") == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(text) = line.strip_prefix("event: ") {
                text.clone_into(&mut kind);
            } else if let Some(text) = line.strip_prefix("id: ") {
                text.clone_into(&mut id);
            } else if let Some(text) = line.strip_prefix("data: ") {
                let said = serde_json::from_str(text).expect("JSON");
                return Some((kind, id, said));
            }
        }
    }

    /// The next record; nothing else comes before it.
    fn record(&mut self) -> (String, Value) {
        let (kind, id, said) = self.next().expect("an event");
        assert_eq!(kind, "record", "{said}");
        (id, said)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// Makes a policy, which is recorded.
fn save(appliance: &Appliance, token: &str, name: &str) {
    let path = format!("/api/v1/policies/{name}");
    let put = Ask::new("PUT", &path).token(token);
    let put = put.header("If-None-Match", "*");
    let document = serde_json::json!({"document": "version: 1\negress: []\n"});
    let reply = put.json(&document).send(appliance);
    assert_eq!(reply.status, 201, "{reply:?}");
}

#[test]
fn records_are_told_as_they_are_written_and_from_where_a_reader_was() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let path = "/api/v1/events?event=policy.change";
    // From the record's beginning on, so that nothing depends on when curl got there.
    let mut events = Events::of(&appliance, &token, path, Some("start"));
    save(&appliance, &token, "one");
    let (id, said) = events.record();
    assert_eq!(
        (&said["event"], &said["policy"]),
        (&"policy.change".into(), &"one".into())
    );
    // The same record, by the id in it.
    let one = format!("/api/v1/audit/{}", said["id"].as_str().expect("an id"));
    let found = Ask::new("GET", &one).token(&token).send(&appliance);
    assert_eq!(found.json(), said);
    save(&appliance, &token, "two");
    assert_eq!(events.record().1["policy"], "two");
    let mut again = Events::of(&appliance, &token, path, Some(&id));
    assert_eq!(
        again.record().1["policy"],
        "two",
        "and the first no second time"
    );
    save(&appliance, &token, "three");
    for events in [&mut events, &mut again] {
        assert_eq!(events.record().1["policy"], "three");
    }
}

#[test]
fn who_may_not_read_the_record_does_not_watch_it_and_who_may_no_more_is_cut() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let viewer = appliance.token("viewer");
    for path in ["/api/v1/events", "/live", "/live/events"] {
        let refused = Ask::new("GET", path).token(&viewer).send(&appliance);
        assert_eq!(refused.status, 403, "{path}: {refused:?}");
    }
    for query in ["limit=5", "cursor=nonsense", "hots=a"] {
        let path = format!("/api/v1/events?{query}");
        let refused = Ask::new("GET", &path).token(&token).send(&appliance);
        assert_eq!(refused.status, 400, "{query}: {refused:?}");
    }
    let auditor = appliance.token("auditor");
    let mut events = Events::of(
        &appliance,
        &auditor,
        "/api/v1/events?event=policy.change",
        Some("start"),
    );
    save(&appliance, &token, "one");
    assert_eq!(events.record().1["policy"], "one");
    let tokens = Ask::new("GET", "/api/v1/tokens")
        .token(&token)
        .send(&appliance);
    let tokens = tokens.json()["items"].as_array().expect("tokens").clone();
    let own = tokens.iter().find(|one| one["name"] == "for-auditor");
    let path = format!(
        "/api/v1/tokens/{}",
        own.expect("it")["id"].as_str().expect("an id")
    );
    assert_eq!(
        Ask::new("DELETE", &path)
            .token(&token)
            .send(&appliance)
            .status,
        204
    );
    let (kind, _, said) = events.next().expect("an event");
    assert_eq!(kind, "end", "{said}");
    assert!(events.next().is_none());
}

#[test]
fn a_page_with_a_script_has_our_own_alone() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let get = |path: &str| Ask::new("GET", path).cookie(&cookie).send(&appliance);
    for path in ["/live", "/policies/p/edit"] {
        let head = get(path).head.to_lowercase();
        assert!(
            head.contains("script-src 'self'; connect-src 'self'"),
            "{path}: {head}"
        );
        assert!(!head.contains("unsafe"), "{path}: {head}");
    }
    let audit = get("/audit").head.to_lowercase();
    assert!(
        audit.contains("default-src 'none'") && !audit.contains("script-src"),
        "{audit}"
    );
    for path in ["/live.js", "/edit.js", "/copy.js", "/waiting.js"] {
        let script = get(path);
        assert!(script.head.contains("text/javascript"), "{script:?}");
        assert!(
            !script.body.contains("innerHTML") && !script.body.contains("eval("),
            "{script:?}"
        );
    }
}
