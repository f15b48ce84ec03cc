//! `gig audit verify`: whole, broken, unreadable; for people and for programs.

use std::{fs, path::Path, process::Command, time::Duration};

use gig_audit::{Entry, Event, JsonlStore, Recorder, RecorderSettings};
use gig_tests::lab::place;

fn record_three(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let store = Box::new(JsonlStore::open(path).unwrap());
        let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
        for host in ["a.example", "b.example", "c.example"] {
            let mut entry = Entry::new(Event::Connect);
            entry.host = Some(host.into());
            recorder.record(entry).await.unwrap();
        }
        owner.close(Duration::from_secs(120));
    });
}

/// Status, standard output, standard error.
fn verify(path: &str, options: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(place::gig());
    command.args(["audit", "verify", path]).args(options);
    let output = command.output().unwrap();
    let text = |octets| String::from_utf8(octets).unwrap();
    let status = output.status.code().unwrap();
    (status, text(output.stdout), text(output.stderr))
}

#[test]
fn a_whole_file_is_proved_and_a_changed_one_is_named_by_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    record_three(&path);
    let name = path.to_str().unwrap();
    let (status, text, _) = verify(name, &[]);
    assert_eq!(status, 0);
    assert!(text.contains("whole: 3 records"), "{text}");
    let (status, text, _) = verify(name, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &document["records"]), (0, &3.into()));
    assert_eq!(document["whole"], true);

    let changed = fs::read_to_string(&path)
        .unwrap()
        .replace("b.example", "x.example");
    fs::write(&path, changed).unwrap();
    let (status, text, _) = verify(name, &[]);
    assert_eq!(status, 1);
    assert!(text.contains("broken at line 2"), "{text}");
    let (status, text, _) = verify(name, &["--json"]);
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((status, &document["line"]), (1, &2.into()));
    assert_eq!(document["whole"], false);
}

#[test]
fn a_file_that_cannot_be_read_is_neither_whole_nor_broken() {
    let (status, text, errors) = verify("/nowhere/audit.jsonl", &[]);
    assert_eq!((status, text.as_str()), (125, ""));
    assert!(errors.contains("cannot open the audit file"), "{errors}");
}

#[test]
fn what_is_printed_of_a_hostile_file_cannot_speak_to_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    fs::write(&path, "{\"seq\":1,\"\u{1b}[2J\":\"\u{202e}\"}\n").unwrap();
    let (status, text, _) = verify(path.to_str().unwrap(), &[]);
    assert_eq!(status, 1);
    assert!(!text.contains(['\u{1b}', '\u{202e}']), "{text:?}");
}
