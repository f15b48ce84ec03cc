//! `gig audit verify`: whole, broken, unreadable; for people and for programs.

use std::{fs, path::Path, process::Command, time::Duration};

use gig_audit::{
    Entry, Event, JsonlStore, Recorder, RecorderSettings, SqliteStore, store::Store as _,
};
use gig_tests::lab::place;

use super::audit_retention::Machine;

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
fn a_key_for_a_file_that_is_never_signed_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    record_three(&path);
    let key = "0".repeat(64);
    let (status, text, errors) = verify(path.to_str().unwrap(), &["--key", &key]);
    let told = text.contains("a file of --audit is never signed: leave --key out");
    assert!(status == 1 && told, "{text}{errors}");
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
fn who_kept_the_last_records_place_and_hash_sees_that_the_end_was_cut_off() {
    let machine = Machine::new();
    let database = machine.old_records(5);
    let folder = tempfile::tempdir().unwrap();
    let (file, export) = (
        folder.path().join("audit.jsonl"),
        folder.path().join("export.jsonl"),
    );
    record_three(&file);
    let (file, export) = (file.to_str().unwrap(), export.to_str().unwrap());
    let exported = ["audit", "export", &database, "-o", export];
    assert_eq!(machine.gig(&exported).status, 0);
    for place in [file, database.as_str(), export] {
        let verify = |last: Option<&str>| {
            let mut words = vec!["audit", "verify", place, "--json"];
            last.iter().for_each(|last| words.extend(["--last", last]));
            let answer = machine.gig(&words);
            let document: serde_json::Value = serde_json::from_str(&answer.output).unwrap();
            (answer.status, document)
        };
        let (status, whole) = verify(None);
        assert_eq!(status, 0, "{whole}");
        let chain = whole["chains"].get(0).unwrap_or(&whole);
        let (count, hash) = (&chain["records"], chain["last_hash"].as_str().unwrap());
        let last = format!("{count}:{hash}");
        let (status, told) = verify(Some(&last));
        assert_eq!((status, &told["whole"]), (0, &true.into()), "{told}");
        assert_eq!(told["last"][0]["found"], true);
        // Another that had this place, and one behind the end.
        let other = format!("{count}:{}", "0".repeat(64));
        let behind = format!("{}:{hash}", count.as_u64().unwrap() + 1);
        for missing in [other, behind] {
            let (status, told) = verify(Some(&missing));
            assert_eq!((status, &told["whole"]), (1, &false.into()), "{told}");
            let one = &told["last"][0];
            assert_eq!(
                (&one["found"], &one["removed"]),
                (&false.into(), &false.into())
            );
        }
        if place == database {
            continue;
        }
        // Cut at the end it is a whole chain still, and only who kept its end sees it.
        let text = fs::read_to_string(place).unwrap();
        let kept: Vec<&str> = text.split_inclusive('\n').collect();
        fs::write(place, kept[..kept.len() - 1].concat()).unwrap();
        assert_eq!(verify(None).0, 0);
        let cut = machine.gig(&["audit", "verify", place, "--last", &last]);
        assert_eq!(cut.status, 1, "{cut:?}");
        assert!(cut.output.contains("the end was cut off"), "{cut:?}");
    }
    let wrong = machine.gig(&["audit", "verify", file, "--last", "3"]);
    assert!(wrong.status != 0 && wrong.status != 1, "{wrong:?}");
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

#[test]
fn a_named_key_is_missed_where_all_that_it_signed_was_taken_away() {
    let machine = Machine::new();
    let database = machine.old_records(5);
    let key = machine.key();
    // Two nodes' records, as an export of a fleet's has them.
    let other = Machine::new();
    let theirs = other.old_records(7);
    let foreign = other.key();
    let export = |machine: &Machine, database: &str| {
        let words = ["audit", "export", database, "--with-checkpoints"];
        let answer = machine.gig(&words);
        assert_eq!(answer.status, 0, "{answer:?}");
        answer.output
    };
    let (own, theirs) = (export(&machine, &database), export(&other, &theirs));
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("fleet.jsonl");
    let name = file.to_str().unwrap();
    let verify = |keys: &[&str], json: bool| {
        let mut words = vec!["audit", "verify", name];
        keys.iter().for_each(|key| words.extend(["--key", key]));
        words.extend(json.then_some("--json"));
        machine.gig(&words)
    };
    fs::write(&file, format!("{own}{theirs}")).unwrap();
    let both = verify(&[&key, &foreign], false);
    assert_eq!(both.status, 0, "{both:?}");
    assert!(both.output.contains("(named by --key)"), "{both:?}");
    assert!(!both.output.contains("name it with"), "{both:?}");
    fs::write(&file, &own).unwrap();
    let one = verify(&[&key, &foreign], false);
    assert_eq!(one.status, 1, "{one:?}");
    let said = format!("no checkpoint is signed by key {foreign}");
    assert!(one.output.contains(&said), "{one:?}");
    let document: serde_json::Value =
        serde_json::from_str(&verify(&[&key, &foreign], true).output).unwrap();
    assert_eq!(document["whole"], false);
    assert_eq!(document["missed_keys"], serde_json::json!([foreign]));
    assert_eq!(verify(&[&key], false).status, 0);
    // Where it is broken is said as whoever looks counts: by line in a file.
    let changed = own.replacen("\"conn\":3,", "\"conn\":4,", 1);
    let line = changed.lines().position(|line| line.contains("\"seq\":3,"));
    let line = line.unwrap() + 1;
    fs::write(&file, changed).unwrap();
    let broken = verify(&[&key], false);
    assert_eq!(broken.status, 1, "{broken:?}");
    let said = format!("broken at line {line}: ");
    assert!(broken.output.contains(&said), "{broken:?}");
    let document: serde_json::Value = serde_json::from_str(&verify(&[], true).output).unwrap();
    assert_eq!(document["chains"][0]["line"], line, "{document}");

    // All of a database.
    let verify = |keys: &[&str]| machine.gig(&[&["audit", "verify", &database][..], keys].concat());
    assert_eq!(verify(&["--key", &key]).status, 0);
    let strange = verify(&["--key", &foreign]);
    assert!(
        strange.output.contains(": broken: checkpoint 1 "),
        "{strange:?}"
    );
    fs::remove_file(&database).unwrap();
    SqliteStore::open(Path::new(&database), "n")
        .unwrap()
        .close();
    let empty = verify(&["--key", &key]);
    assert_eq!(empty.status, 1, "{empty:?}");
    assert!(!empty.output.contains("whole"), "{empty:?}");
    assert_eq!(verify(&[]).status, 0, "nobody is named");
}
