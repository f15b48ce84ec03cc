//! The API, held to its OpenAPI document by schemathesis: whatever it is asked, it answers as written there.

use std::process::Command;

use gig_tests::lab::place;
use serde_json::json;

use super::{Appliance, Ask};

/// Asked for all that it knows, and then for what it should not.
fn asked(appliance: &Appliance, token: &str, more: &[&str]) {
    let document = Ask::new("GET", "/api/v1/openapi.json").token(token);
    let document = document.send(appliance).body;
    let file = appliance.path("openapi.json");
    std::fs::write(&file, document).expect("written");
    let run = Command::new(place::client("schemathesis").join("bin/st"))
        .arg("run")
        .arg(&file)
        .args(["--url", &format!("http://{}", appliance.address)])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(["--checks", CHECKS, "--phases", "examples,coverage,fuzzing"])
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
}

#[test]
fn every_answer_of_the_api_is_as_its_document_says() {
    // Whatever is asked in a minute is answered.
    let appliance = Appliance::start_in(
        tempfile::tempdir().expect("a folder"),
        &["--changes-a-minute", "1000000"],
    );
    let token = appliance.token("admin");
    // Something of each kind to ask for.
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put.header("If-None-Match", "*");
    let put = put.json(&json!({"document": "version: 1\negress: []\n"}));
    assert_eq!(put.send(&appliance).status, 200);
    let words = ["server", "add", "one", "--policy", "web", "--", "/bin/true"];
    assert_eq!(appliance.gig(&words, "").status, 0);
    // Events do not end. It finds the ids of tokens, removes its own, and is nobody then.
    let endless = [
        "--exclude-path",
        "/api/v1/events",
        "--exclude-path",
        "/api/v1/tokens/{id}",
        "--max-examples",
        "10",
    ];
    asked(&appliance, &token, &endless);
}

/// Whoever answers by a webhook signs what they say; a token is nothing there.
const SIGNED: &str = "Authentication failed: 1 operation returned only 401/403 responses\n\n\
    401 Unauthorized (1 operation):\n  - POST /api/v1/webhooks/{name}/answer";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";
