//! A run that records to a database.

use gig_audit::Event;
use gig_tests::lab::{Lab, http_origin::greet, network::text};

use super::{verify, without_room};

const HOST: &str = "api.example.com";

#[test]
fn a_run_records_to_a_database_as_to_a_file() {
    let lab = Lab::new();
    let _origin = lab.https(HOST, greet);
    let file = lab.fresh_path("record.db");
    for durability in ["kernel", "strict"] {
        let run = lab
            .gig()
            .recording_to(&file)
            .option(["--audit-durability", durability])
            .allow(HOST);
        let run = run
            .sh("curl -sS https://api.example.com/a/b; curl -sS https://evil.example.net/; true");
        assert!(run.audit.of(Event::SandboxExit).count() >= 1, "{run}");
        let asked = run
            .audit
            .of(Event::Request)
            .filter(|e| e.host.as_deref() == Some(HOST));
        assert!(asked.count() >= 1, "{run}");
        let _run = run.complains("evil.example.net").complains("record.db");
    }
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
}

#[test]
fn a_database_beside_which_the_program_may_write_is_refused() {
    let lab = Lab::new();
    let file = lab.fresh_path("record.db");
    let folder = text(file.parent().expect("its folder"));
    let run = lab
        .gig()
        .recording_to(&file)
        .option(["--rw", &folder])
        .run(["true"]);
    let _run = run
        .exits(125)
        .complains("may write beside the audit database");
    assert!(!file.exists(), "nothing was made");
    // Nor through a link that stands elsewhere: SQLite's journal is beside what it names.
    let made = lab.fresh_path("made.db");
    let _run = lab.gig().recording_to(&made).run(["true"]).success();
    let link = lab.fresh_path("link.db");
    std::os::unix::fs::symlink(&made, &link).expect("a link");
    let folder = text(made.parent().expect("its folder"));
    let run = lab
        .gig()
        .recording_to(&link)
        .option(["--rw", &folder])
        .run(["true"]);
    let _run = run
        .exits(125)
        .complains("may write beside the audit database");
}

/// No file may grow beyond some megabytes: as a disk that is full does, but for this gig alone.
#[test]
fn a_database_without_room_refuses_egress_and_says_so() {
    let lab = Lab::new();
    let origin = lab.https(HOST, greet);
    let file = lab.fresh_path("record.db");
    let path = "x".repeat(7000);
    let asked = 1500;
    let script = format!(
        "curl -sS -o /dev/null -w '%{{http_code}}\\n' 'https://api.example.com/{path}[1-{asked}]' | sort | uniq -c"
    );
    let gig = lab
        .gig()
        .recording_to(&file)
        .allow(HOST)
        .command(["sh", "-c", &script]);
    let output = without_room(&lab, &gig);
    let said = format!("{output:?}");
    let counts = String::from_utf8_lossy(&output.stdout).into_owned();
    let with = |status: &str| -> usize {
        let line = counts
            .lines()
            .find(|line| line.trim_end().ends_with(status));
        line.and_then(|line| line.split_whitespace().next()?.parse().ok())
            .unwrap_or(0)
    };
    assert!(with("200") > 0 && with("200") < asked, "{said}");
    assert_eq!(
        origin.requests().len(),
        with("200"),
        "what was refused did not go; {said}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("record"),
        "{said}"
    );
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
    // There is room again.
    let run = lab.gig().recording_to(&file).allow(HOST);
    let _run = run
        .run(["curl", "-sS", "--fail", "https://api.example.com/"])
        .success();
    let (status, text) = verify(&file);
    assert_eq!(status, 0, "{text}");
}
