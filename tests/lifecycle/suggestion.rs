//! From what a program tried to the policy that lets it pass: observe, suggest, simulate, enforce.

use std::{fs, path::Path, process::Command};

use gig_audit::Event;
use gig_policy::DenyReason;
use gig_tests::lab::{Lab, Way, http_origin::greet, network::text, place};

const HOST: &str = "api.example.com";

/// `gig policy …`: status, standard output, standard error.
fn policy<const N: usize>(words: [&str; N]) -> (i32, String, String) {
    let output = Command::new(place::gig())
        .arg("policy")
        .args(words)
        .output();
    let output = output.expect("gig");
    (
        output.status.code().unwrap_or(-1),
        String::from_utf8_lossy(&output.stdout).into_owned(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

/// The document that `gig policy suggest` writes for a record.
fn suggested(record: &Path) -> String {
    let (status, document, errors) = policy(["suggest", "--audit", &text(record)]);
    assert_eq!((status, errors.as_str()), (0, ""), "{document}");
    document
}

#[test]
fn what_was_observed_is_suggested_and_then_enforced() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    for way in Way::BOTH {
        let record = lab.fresh_path("observed.jsonl");
        let run = lab.gig().option(["--observe"]).recording_to(&record);
        let seen = "curl -sS --fail https://api.example.com/a -d x; \
                    for i in 1 2 3; do curl -sS --fail https://api.example.com/items/$i; done";
        let _run = run.going(way).sh(seen).success();
        let document = suggested(&record);
        let file = lab.file("suggested.yaml", &document);
        let simulated = |file: &Path| {
            let (status, told, _) = policy(["simulate", &text(file), "--audit", &text(&record)]);
            (status, told)
        };
        let (status, told) = simulated(&file);
        assert_eq!(status, 0, "{told}");
        // What passed because nobody enforced is cut by who does, and not by who goes on observing.
        let closed = lab.file("closed.yaml", "version: 1\negress: []\n");
        let (status, told) = simulated(&closed);
        assert_eq!(status, 1, "{told}");
        assert!(told.contains("newly denied: 4"), "{told}");
        let watching = lab.file("watching.yaml", "version: 1\nmode: observe\negress: []\n");
        let (status, told) = simulated(&watching);
        assert_eq!(status, 0, "{told}");
        assert!(
            told.contains("observing alone, and denied under `mode: enforce`: 4"),
            "{told}"
        );

        let before = origin.requests().len();
        let run = lab.gig().policy(&document).going(way);
        let again = "curl -sS --fail https://api.example.com/a -d x && \
                     curl -sS --fail https://api.example.com/items/77";
        let _run = run.sh(again).success();
        assert_eq!(origin.requests().len(), before + 2);

        let run = lab.gig().policy(&document).going(way);
        let other = "curl -sS -X DELETE https://api.example.com/a; curl -sS https://api.example.com/items/7/x; true";
        let run = run
            .sh(other)
            .says("method_not_allowed")
            .says("path_not_allowed");
        assert_eq!(origin.requests().len(), before + 2, "{run}");
        assert_eq!(
            run.audit.denials(DenyReason::MethodNotAllowed).count(),
            1,
            "{run}"
        );
        assert_eq!(
            run.audit.denials(DenyReason::PathNotAllowed).count(),
            1,
            "{run}"
        );
    }
}

#[test]
fn what_was_denied_is_suggested_too() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let record = lab.fresh_path("denied.jsonl");
    let run = lab.gig().recording_to(&record).going(Way::Straight);
    let run = run.sh("curl -sS https://api.example.com/a; true");
    assert!(run.audit.of(Event::Dns).count() > 0, "{run}");
    assert_eq!(origin.requests().len(), 0, "{run}");
    let document = suggested(&record);
    assert!(document.contains("the port is a guess"), "{document}");
    let run = lab.gig().policy(&document).going(Way::Straight);
    let _run = run
        .run(["curl", "-sS", "--fail", "https://api.example.com/a"])
        .success();
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_database_of_records_serves_as_a_file_does() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let told = |record: &Path| {
        let run = lab.gig().allow(HOST).going(Way::ByProxy);
        let run = run.recording_to(record);
        let _run = run.run(["curl", "-sS", "--fail", "https://api.example.com/a"]);
        let document = suggested(record);
        // All but the times.
        let lines = document.lines().filter(|line| !line.contains('#'));
        lines.collect::<Vec<_>>().join("\n")
    };
    let file = told(&lab.fresh_path("records.jsonl"));
    assert!(file.contains("paths: [/a]"), "{file}");
    assert_eq!(told(&lab.fresh_path("records.db")), file);
}

#[test]
fn a_draft_is_tried_on_recorded_traffic() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let record = lab.fresh_path("traffic.jsonl");
    let run = lab
        .gig()
        .allow(HOST)
        .recording_to(&record)
        .going(Way::ByProxy);
    let run = run.sh("curl -sS https://api.example.com/a; curl -sS https://new.example.net/; true");
    let draft = lab.file(
        "draft.yaml",
        "version: 1\negress:\n  - {host: new.example.net}\n  - {host: api.example.com, rules: [{paths: [/b]}]}\n",
    );
    let (status, told, errors) = policy(["simulate", &text(&draft), "--audit", &text(&record)]);
    assert_eq!((status, errors.as_str()), (1, ""), "{told}; {run}");
    for line in [
        "newly allowed: 1",
        "new.example.net:443",
        "newly denied: 1",
        "GET https://api.example.com:443/a",
        "path_not_allowed",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    // The chain is another command's, and what is no record is refused.
    let torn = fs::read_to_string(&record)
        .expect("the record")
        .replace("\"seq\":2,", "\"seq\":x,");
    let torn = lab.file("torn.jsonl", &torn);
    let (status, _, errors) = policy(["simulate", &text(&draft), "--audit", &text(&torn)]);
    assert_eq!(status, 125, "{errors}");
    assert!(
        errors.contains("line 2") && errors.contains("gig audit verify"),
        "{errors}"
    );
}

#[test]
fn an_address_that_was_refused_is_tried_again_by_a_draft_that_opens_it() {
    let lab = Lab::new();
    let record = lab.fresh_path("private.jsonl");
    let run = lab
        .gig()
        .allow("db.example.com:8080")
        .option(["--resolve", "db.example.com:8080:10.1.2.3"])
        .recording_to(&record)
        .going(Way::ByProxy);
    let run = run.sh("curl -sS http://db.example.com:8080/; true");
    assert!(
        run.audit.denials(DenyReason::PrivateAddress).count() > 0,
        "{run}"
    );
    let opening = "{host: db.example.com, ports: [8080], allow_private: [10.1.0.0/16]}";
    let closed = "{host: db.example.com, ports: [8080]}";
    for (entry, status, line) in [
        (opening, 1, "newly allowed: 1"),
        (closed, 0, "newly allowed: 0"),
    ] {
        let draft = format!("version: 1\negress:\n  - {entry}\n");
        let draft = lab.file("draft.yaml", &draft);
        let told = policy(["simulate", &text(&draft), "--audit", &text(&record)]);
        assert_eq!(told.0, status, "{told:?}; {run}");
        assert!(told.1.contains(line), "{told:?}; {run}");
        assert!(
            told.1.contains("0 denied for a reason that no rule"),
            "{told:?}; {run}"
        );
    }
}

/// What it allowed is denied as what no rule allows: the cure that is told for that is another one.
#[test]
fn a_rule_that_has_ended_is_told_at_the_start() {
    let lab = Lab::new();
    let document =
        "version: 1\negress:\n  - host: api.example.com\n    expires: 2020-01-01T00:00:00Z\n";
    let file = lab.file("ended.yaml", document);
    let run = lab
        .gig()
        .option(["--policy".as_ref(), file.as_os_str()])
        .run(["true"]);
    let _run = run
        .success()
        .complains(":3:5: expired: egress[0]: it ended at 2020-01-01");
}
