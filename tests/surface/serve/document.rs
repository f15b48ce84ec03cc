//! The API, held to its OpenAPI document by schemathesis: whatever it is asked, it answers as written there.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    process::Command,
};

use gig_tests::lab::place;
use serde_json::{Value, json};

use super::{Appliance, Ask, PASSWORD};

/// Names and ids of one of each kind that is there, by the kind's word in a path and the parameter's.
type Known = BTreeMap<(&'static str, &'static str), String>;

/// Something of each kind to ask for.
fn one_of_each(appliance: &Appliance, token: &str) -> Known {
    let put = |path: &str, body: Value| {
        let put = Ask::new("PUT", path).token(token);
        let put = put.header("If-None-Match", "*").json(&body).send(appliance);
        assert!(matches!(put.status, 200..=204), "{path}: {put:?}");
    };
    let post = |path: &str, body: Value| {
        let made = Ask::new("POST", path).token(token).json(&body);
        let made = made.send(appliance);
        assert_eq!(made.status, 201, "{path}: {made:?}");
        made.json()
    };
    put(
        "/api/v1/policies/web",
        json!({"document": "version: 1\negress: []\n"}),
    );
    put("/api/v1/teams/data", json!({"members": ["ana"]}));
    put("/api/v1/webhooks/ops", json!({"kind": "generic"}));
    let set = appliance.gig(&["secret", "set", "TOKEN"], "value-of-the-document-5Tp1");
    assert_eq!(set.status, 0, "{set:?}");
    let script = "curl -s -m 20 -o /dev/null http://wanted.test/; exec sleep 1000";
    appliance.server("one", script);
    let sandbox = appliance.run("one");
    let denied = format!("sandbox={sandbox}&verdict=deny");
    appliance.until("it is denied", |one| {
        !one.records(token, &denied).is_empty()
    });
    let found = Ask::new("GET", "/api/v1/audit?verdict=deny&limit=1").token(token);
    let record = found.send(appliance).json()["records"][0]["id"].clone();
    let password = json!({"name": "ben", "role": "viewer", "password": PASSWORD});
    post("/api/v1/users", password);
    let search = post(
        "/api/v1/searches",
        json!({"title": "x", "query": "verdict=deny"}),
    );
    let sessions = Ask::new("GET", "/api/v1/sessions").token(token);
    let session = sessions.send(appliance).json()["items"][0]["id"].clone();
    let text = |value: &Value| value.as_str().expect("an id").to_owned();
    let named = [
        (("policies", "name"), "web".to_owned()),
        (("policies", "version"), "1".to_owned()),
        (("servers", "name"), "one".to_owned()),
        (("teams", "name"), "data".to_owned()),
        (("webhooks", "name"), "ops".to_owned()),
        (("secrets", "name"), "TOKEN".to_owned()),
        (("users", "name"), "ben".to_owned()),
        (("sandboxes", "id"), sandbox),
        (("audit", "id"), text(&record)),
        (("audit", "format"), "jsonl".to_owned()),
        (("searches", "id"), text(&search["id"])),
        (("sessions", "id"), text(&session)),
    ];
    named.into_iter().collect()
}

/// The document as it is served, with what there is as examples.
fn document(appliance: &Appliance, token: &str, known: &Known) -> Value {
    let document = Ask::new("GET", "/api/v1/openapi.json").token(token);
    let mut document = document.send(appliance).json();
    let paths = document["paths"].as_object_mut().expect("paths");
    for (path, operations) in paths {
        let kind = path.split('/').nth(3).unwrap_or_default();
        // What stands in a path is said of all its operations at once.
        let parameters = operations.get_mut("parameters");
        let parameters = parameters.and_then(Value::as_array_mut);
        for parameter in parameters.into_iter().flatten() {
            let name = parameter["name"].as_str().unwrap_or_default();
            if let Some((_, id)) = known.iter().find(|(one, _)| **one == (kind, name)) {
                parameter["example"] = json!(id);
            }
        }
    }
    document
}

/// Asked for all that it knows, and then for what it should not; what was said of it.
fn asked(appliance: &Appliance, token: &str, (document, more): (&Value, &[&str])) -> String {
    let file = appliance.path("openapi.json");
    std::fs::write(&file, document.to_string()).expect("written");
    std::fs::write(appliance.path("schemathesis.toml"), STRICT).expect("written");
    let run = Command::new(place::client("schemathesis").join("bin/st"))
        .arg("run")
        .arg(&file)
        .args(["--url", &format!("http://{}", appliance.address)])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(["--checks", "all", "--exclude-checks", LEFT_OUT])
        // Each makes sandboxes of its own for some seconds; `the_doctor_examines…` asks it.
        .args(["--exclude-path", "/api/v1/doctor"])
        .args(["--seed", "1", "--workers", "1", "--no-color"])
        .args(more)
        .current_dir(appliance.path("."))
        .output()
        .expect("schemathesis");
    let said = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{said}");
    // One that could ask nothing would find nothing.
    assert!(said.contains(" passed"), "{said}");
    let failed = said.contains("Authentication failed");
    assert!(!failed || said.contains(SIGNED), "{said}");
    said.into_owned()
}

#[test]
fn every_answer_of_the_api_is_as_its_document_says() {
    // Whatever is asked in a minute is answered.
    let appliance = Appliance::start_in(
        tempfile::tempdir().expect("a folder"),
        &["--changes-a-minute", "1000000"],
    );
    // A program's token that somebody made who is signed in: one of this machine's owner is nobody's.
    let ana = appliance.first_admin();
    let body = json!({"name": "all", "role": "admin"});
    let made = Ask::new("POST", "/api/v1/tokens").cookie(&ana).json(&body);
    let made = made.header("Origin", &format!("http://{}", appliance.address));
    let made = made.send(&appliance);
    assert_eq!(made.status, 201, "{made:?}");
    let token = made.json()["token"].as_str().expect("a token").to_owned();
    let document = document(&appliance, &token, &one_of_each(&appliance, &token));
    // What there is is read, each of it, before anything of it goes.
    let taken = appliance.path("taken.har");
    let reads = [
        "--phases",
        "examples",
        "--include-method",
        "GET",
        "--report",
        "har",
        "--report-har-path",
        taken.to_str().expect("UTF-8"),
    ];
    asked(&appliance, &token, (&document, &reads));
    assert_eq!(
        unanswered(&document, &taken),
        UNREAD.map(str::to_owned).into()
    );
    // Events do not end. It finds the ids of tokens, removes its own, and is nobody then; and under the two-person rule
    // nothing would be changed any more.
    let endless = [
        "--phases",
        "examples,coverage,fuzzing,stateful",
        "--exclude-operation-id",
        "put_two_person_rule",
        "--request-timeout",
        "20",
        "--exclude-path",
        "/api/v1/events",
        "--exclude-path",
        "/api/v1/tokens/{id}",
        "--max-examples",
        "10",
    ];
    let said = asked(&appliance, &token, (&document, &endless));
    // From what one operation answers to the next one of the same thing.
    assert!(said.contains("✅ Stateful"), "{said}");
}

/// What is read by a name or an id, and was never answered with it.
fn unanswered(document: &Value, taken: &Path) -> BTreeSet<String> {
    let taken = std::fs::read_to_string(taken).expect("what was taken");
    let taken: Value = serde_json::from_str(&taken).expect("JSON");
    let entries = taken["log"]["entries"].as_array().expect("entries").iter();
    let answered: Vec<String> = entries
        .filter(|one| {
            one["response"]["status"]
                .as_u64()
                .is_some_and(|it| it / 100 == 2)
        })
        .filter_map(|one| one["request"]["url"].as_str().map(str::to_owned))
        .collect();
    let paths = document["paths"].as_object().expect("paths");
    let reads = paths
        .iter()
        .filter(|(path, operations)| path.contains('{') && operations.get("get").is_some());
    let is_of = |template: &str, url: &str| {
        let path = url.split_once("/api/v1/").map_or("", |(_, path)| path);
        let path: Vec<_> = path
            .split('?')
            .next()
            .unwrap_or_default()
            .split('/')
            .collect();
        let words: Vec<_> = template.split('/').skip(3).collect();
        let same = |(word, part): (&&str, &&str)| word.starts_with('{') || word == part;
        words.len() == path.len() && words.iter().zip(&path).all(same)
    };
    let unread = reads.filter(|(path, _)| !answered.iter().any(|url| is_of(path, url)));
    unread.map(|(path, _)| path.clone()).collect()
}

/// A WebSocket, and what there is only where two people change policies.
const UNREAD: [&str; 3] = [
    "/api/v1/proposals/{id}",
    "/api/v1/proposals/{id}/simulation",
    "/api/v1/servers/{name}/attach",
];

/// Whoever answers by a webhook signs what they say; a token is nothing there.
const SIGNED: &str = "Authentication failed: 1 operation returned only 401/403 responses\n\n\
    401 Unauthorized (1 operation):\n  - POST /api/v1/webhooks/{name}/answer";
/// What says whether what it made up fits is left to what it asks by hand: names and numbers have bounds that are not all in
/// the document.
const LEFT_OUT: &str = "positive_data_acceptance";
/// Where a check is stricter than HTTP is: what is asked without a field that it needs is also told so by 428 (RFC 6585), what
/// is wrong in one field may be refused for another one first, and versions of a removed policy stay readable.
const STRICT: &str = r#"
[checks.missing_required_header]
expected-statuses = [400, 401, 403, 404, 406, 409, 412, 415, 422, 428]
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 409, 412, 413, 415, 422, 426, 428, 429, "5xx"]

[[operations]]
include-path = "/api/v1/policies/{name}/versions"
checks.use_after_free.enabled = false

[[operations]]
include-path = "/api/v1/policies/{name}/versions/{version}"
checks.use_after_free.enabled = false
"#;
