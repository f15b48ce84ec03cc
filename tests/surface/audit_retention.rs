//! `gig audit key`, `prune` and `export`: old records go, and the rest is proved, here and elsewhere.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{SHA256, digest};
use gig_audit::{
    Record, SigningKey, SqliteStore,
    store::{Group, Store as _},
};
use gig_tests::lab::place;
use serde_json::Value;

use super::{Answer, answer};

/// gig with a data directory of its own.
pub(super) struct Machine {
    folder: tempfile::TempDir,
}

impl Machine {
    pub(super) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(place::gig());
        command
            .args(words)
            .env("GIG_DATA_DIR", self.folder.path().join("data"));
        command
    }

    pub(super) fn gig(&self, words: &[&str]) -> Answer {
        answer(self.command(words), "")
    }

    fn begin(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    pub(super) fn key(&self) -> String {
        let answer = self.gig(&["audit", "key"]);
        assert_eq!(answer.status, 0, "{answer:?}");
        answer.output.trim().to_owned()
    }

    /// A database with `count` records of January 2026, every third of DNS, signed by this machine.
    pub(super) fn old_records(&self, count: u64) -> String {
        self.key();
        let file = self.folder.path().join("data/audit-signing.key");
        let seed = SigningKey::seed_of(fs::read_to_string(file).unwrap().trim()).unwrap();
        let key = Arc::new(SigningKey::from_seed(&seed).unwrap());
        let path = self.folder.path().join("old.db");
        write(&path, key, count);
        path.to_str().unwrap().to_owned()
    }
}

fn write(path: &Path, key: Arc<SigningKey>, count: u64) {
    let mut prev = "0".repeat(64);
    let (mut lines, mut records) = (String::new(), Vec::<Record>::new());
    for n in 1..=count {
        let event = if n % 3 == 0 { "dns" } else { "request" };
        let body = format!(
            "{{\"seq\":{n},\"time\":\"2026-01-02T03:04:05.{n:06}Z\",\"node\":\"n\",\"event\":\"{event}\",\
             \"conn\":{n},\"prev\":\"{prev}\""
        );
        let hash: String = digest(&SHA256, body.as_bytes())
            .as_ref()
            .iter()
            .map(|octet| format!("{octet:02x}"))
            .collect();
        let line = format!("{body},\"hash\":\"{hash}\"}}\n");
        records.push(serde_json::from_str(&line).unwrap());
        lines += &line;
        prev = hash;
    }
    let mut store = SqliteStore::open_signing(path, "n", Some(key), true).unwrap();
    store.begin().unwrap();
    let group = Group {
        records: &records,
        lines: lines.as_bytes(),
    };
    store.append(group).unwrap();
    store.close();
}

#[test]
fn a_machines_key_is_made_once_and_is_its_owners_alone() {
    let machine = Machine::new();
    let key = machine.key();
    assert_eq!((key.len(), machine.key()), (64, key.clone()));
    let answer = machine.gig(&["audit", "key", "--json"]);
    let document: Value = serde_json::from_str(&answer.output).unwrap();
    assert_eq!(document["public_key"], key);
    let file = fs::metadata(document["file"].as_str().unwrap()).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
}

#[test]
fn old_records_are_removed_by_class_and_the_rest_is_proved() {
    let machine = Machine::new();
    let database = machine.old_records(90);
    let key = machine.key();
    let prune = |options: &[&str]| {
        let mut words = vec!["audit", "prune", &database, "--json"];
        words.extend(options);
        let answer = machine.gig(&words);
        let document: Value = serde_json::from_str(&answer.output).unwrap();
        assert_eq!(answer.status, 0, "{answer:?}");
        document["chains"][0]["removed"].clone()
    };
    let keep = ["--keep", "request=forever", "--keep", "dns=30"];
    let went = prune(&[&keep[..], &["--dry-run"]].concat());
    assert_eq!(went, serde_json::json!({ "dns": 29 }));
    assert_eq!(prune(&keep), serde_json::json!({ "dns": 29 }));
    assert_eq!(prune(&keep), serde_json::json!({}));
    let answer = machine.gig(&["audit", "verify", &database, "--key", &key]);
    assert_eq!(answer.status, 0, "{answer:?}");
    for part in ["29 records were removed since", "(this machine's)"] {
        assert!(answer.output.contains(part), "{part}: {answer:?}");
    }
    let shown = machine.gig(&["audit", "search", &database, "--event", "dns", "--json"]);
    assert!(
        shown.output.contains("\"conn\":90,"),
        "the end stays: {shown:?}"
    );
    assert!(!shown.output.contains("\"conn\":3,"), "{shown:?}");
    // By the defaults all of it is old, but for its end.
    assert_eq!(prune(&[]), serde_json::json!({ "request": 60 }));
    let answer = machine.gig(&["audit", "verify", &database, "--key", &key]);
    assert_eq!(answer.status, 0, "{answer:?}");

    for wrong in ["dns", "dns=0", "all=7"] {
        let answer = machine.gig(&["audit", "prune", &database, "--keep", wrong]);
        assert_eq!(answer.status, 125, "{wrong}: {answer:?}");
    }
    let stranger = Machine::new();
    let answer = stranger.gig(&["audit", "prune", &database]);
    assert_eq!(answer.status, 1, "another machine's record: {answer:?}");
    let other = stranger.key();
    let answer = machine.gig(&["audit", "verify", &database, "--key", &other]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let answer = stranger.gig(&["audit", "verify", &database]);
    assert!(answer.output.contains("not this machine's"), "{answer:?}");
}

/// A receiver that has seen the first ten is told of what came next by nobody: gig says so, once, here and in the
/// record of its machine. One that begins now waits for nothing of before; one that was away when delivery to it
/// began, for all that was there then.
#[test]
fn what_is_removed_before_it_was_delivered_is_told_and_recorded() {
    let machine = Machine::new();
    let database = machine.old_records(30);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("syslog+tcp://{}", listener.local_addr().unwrap());
    let cursor = |name: &str| machine.folder.path().join(name).display().to_string();
    // Nobody reads yet.
    let away = cursor("away");
    let mut delivery =
        machine.begin(&["audit", "export", &database, "--to", &to, "--cursor", &away]);
    let begun = Instant::now();
    while !Path::new(&away).exists() {
        assert!(begun.elapsed() < PATIENCE, "no cursor");
        thread::sleep(Duration::from_millis(20));
    }
    delivery.kill().unwrap();
    delivery.wait().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let mut stream = stream;
            let _read = std::io::copy(&mut stream, &mut std::io::sink());
        }
    });
    let send = |cursor: &str| {
        machine.gig(&[
            "audit", "export", &database, "--to", &to, "--cursor", cursor,
        ])
    };
    let (old, new, some) = (cursor("old"), cursor("new"), cursor("some"));
    let standing = cursor("standing");
    let seen = serde_json::json!({ "to": to, "marks": "1:10", "last": {} });
    fs::write(&old, seen.to_string()).unwrap();
    fs::write(&some, seen.to_string()).unwrap();
    // It stood when delivery began: what was there then is awaited as well.
    let mut before = seen.clone();
    before["began"] = "1:30".into();
    before["awaited"] = serde_json::json!({ "1": 20 });
    fs::write(&standing, before.to_string()).unwrap();
    let pruned = machine.gig(&["audit", "prune", &database]);
    assert_eq!(pruned.status, 0, "{pruned:?}");
    // What is asked for by event may be none of it, which nobody knows.
    let answer = machine.gig(&[
        "audit", "export", &database, "--to", &to, "--cursor", &some, "--event", "admin",
    ]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let told = "19 records were removed before they were delivered";
    let perhaps = format!("{told} to {to} (whether what this delivery asks for");
    assert!(answer.errors.contains(&perhaps), "{answer:?}");
    let record = machine.folder.path().join("data/audit.jsonl");
    let gap = fs::read_to_string(record).unwrap();
    assert!(gap.contains("audit.gap") && gap.contains(&perhaps), "{gap}");
    let answer = send(&old);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.errors.contains(told), "{answer:?}");
    let record = machine.folder.path().join("data/audit.jsonl");
    let record = fs::read_to_string(record).unwrap();
    assert!(
        record.contains("audit.gap") && record.contains(told),
        "{record}"
    );
    let kept: Value = serde_json::from_str(&fs::read_to_string(&old).unwrap()).unwrap();
    assert_eq!(kept["missed"], 19, "{kept}");
    let answer = send(&standing);
    assert!(
        answer.status == 1 && answer.errors.contains(told),
        "{answer:?}"
    );
    // So does one that nothing came of where it was sent at first.
    let elsewhere = cursor("elsewhere");
    let mut kept: Value = serde_json::from_str(&fs::read_to_string(&away).unwrap()).unwrap();
    kept["to"] = "syslog+tcp://127.0.0.1:1".into();
    fs::write(&elsewhere, kept.to_string()).unwrap();
    let told = "29 records were removed before they were delivered";
    for cursor in [&away, &elsewhere] {
        let answer = send(cursor);
        let is_told = answer.errors.contains(told);
        assert!(answer.status == 1 && is_told, "{answer:?}");
    }
    for cursor in [&old, &new, &standing, &away, &elsewhere] {
        let answer = send(cursor);
        assert_eq!((answer.status, answer.errors.as_str()), (0, ""), "{cursor}");
    }
}

#[test]
fn an_export_is_proved_where_there_is_no_database() {
    let machine = Machine::new();
    let database = machine.old_records(90);
    let key = machine.key();
    let pruned = machine.gig(&["audit", "prune", &database, "--keep", "request=forever"]);
    assert_eq!(pruned.status, 0, "{pruned:?}");
    let file = machine.folder.path().join("export.jsonl");
    let name = file.to_str().unwrap();
    let export = [
        "audit",
        "export",
        &database,
        "--with-checkpoints",
        "--output",
        name,
    ];
    let answer = machine.gig(&export);
    assert_eq!(
        (answer.status, answer.output.as_str()),
        (0, ""),
        "{answer:?}"
    );
    assert_eq!(machine.gig(&export).status, 125, "nothing is written over");
    let elsewhere = Machine::new();
    let verify = |options: &[&str]| elsewhere.gig(&[&["audit", "verify", name], options].concat());
    let answer = verify(&["--key", &key]);
    assert_eq!(answer.status, 0, "{answer:?}");
    assert!(
        answer.output.contains("chain of n: whole: 90 records"),
        "{answer:?}"
    );
    let document: Value = serde_json::from_str(&verify(&["--json"]).output).unwrap();
    assert_eq!(document["chains"][0]["checkpoints"]["removed"], 29);

    let text = fs::read_to_string(&file).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 1 + 2 + 61);
    let with = |lines: &[&str]| {
        fs::write(&file, lines.join("\n") + "\n").unwrap();
        verify(&["--key", &key]).status
    };
    assert_eq!(with(&lines), 0);
    assert_eq!(with(&lines[..lines.len() - 1]), 1, "cut off");
    assert_eq!(
        with(&[&lines[..2], &lines[3..]].concat()),
        1,
        "what was removed is not told"
    );
    assert_eq!(
        with(&[&lines[..10], &lines[11..]].concat()),
        1,
        "one more is gone"
    );
    assert_eq!(with(&lines[3..]), 1, "no checkpoint at all");

    // Records alone, and only some: as they were written.
    let answer = machine.gig(&["audit", "export", &database, "--event", "dns"]);
    assert_eq!(answer.output.lines().count(), 1, "{answer:?}");
    let part = [
        "audit",
        "export",
        &database,
        "--with-checkpoints",
        "--event",
        "dns",
    ];
    assert_eq!(machine.gig(&part).status, 125);
}

impl Machine {
    /// Old records where an appliance has its own.
    fn old_appliance(&self, count: u64) -> String {
        let old = self.old_records(count);
        let audit = self.folder.path().join("data/audit");
        fs::create_dir(&audit).unwrap();
        let record = audit.join("record.db");
        // Without one beside its record an appliance does not begin: an empty file is an empty database.
        let people = self.folder.path().join("data/gig.db");
        fs::write(&people, "").unwrap();
        fs::set_permissions(&people, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&old, &record).unwrap();
        // It served until now: the clock is not ahead.
        let clock = self.folder.path().join("data/retention.clock");
        let now = Command::new("date")
            .args(["-u", "+%FT%TZ"])
            .output()
            .unwrap();
        fs::write(clock, now.stdout).unwrap();
        record.to_str().unwrap().to_owned()
    }

    fn found(&self, record: &str, event: &str) -> Vec<Value> {
        let words = ["audit", "search", record, "--event", event];
        let answer = self.gig(&[&words[..], &["--limit", "5000", "--json"]].concat());
        assert!(answer.status <= 1, "{answer:?}");
        let document: Value = serde_json::from_str(&answer.output).unwrap();
        document["records"].as_array().unwrap().clone()
    }

    /// What retention records first when an appliance serves with these options.
    fn serves_until_told(&self, record: &str, options: &[&str]) -> Value {
        let told = || {
            let admin = self.found(record, "admin").into_iter();
            let told = admin.filter(|one| one["profile"] == "retention");
            told.collect::<Vec<_>>()
        };
        let before = told().len();
        let mut appliance = Command::new(place::gig())
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(options)
            .env("GIG_DATA_DIR", self.folder.path().join("data"))
            .env_remove("GIG_DATABASE_URL")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        while told().len() == before {
            assert!(begun.elapsed() < PATIENCE, "nothing was told");
            thread::sleep(Duration::from_millis(50));
        }
        appliance.kill().unwrap();
        appliance.wait().unwrap();
        // Newest first.
        told().remove(0)
    }
}

#[test]
fn an_appliance_removes_old_records_by_itself_and_says_so() {
    let machine = Machine::new();
    let record = &*machine.old_appliance(5000);
    assert!(!machine.found(record, "dns").is_empty());
    let options = ["--keep", "dns=7", "--keep", "request=forever"];
    let told = machine.serves_until_told(record, &options);
    assert!(
        told["findings"][0].as_str().unwrap().contains("dns 1"),
        "{told}"
    );
    // Only what is signed goes: the end of the chain is not yet.
    let dns = machine.found(record, "dns");
    assert!(
        dns.iter().all(|one| one["seq"].as_u64() > Some(4096)),
        "{dns:?}"
    );
    assert!(!machine.found(record, "request").is_empty());
    let whole = machine.gig(&["audit", "verify", record]);
    assert_eq!(whole.status, 0, "{whole:?}");
}

#[test]
fn an_appliance_with_another_key_than_before_says_so_and_goes_on_when_the_former_is_named() {
    let machine = Machine::new();
    let record = &*machine.old_appliance(5000);
    let former = machine.key();
    fs::remove_file(machine.folder.path().join("data/audit-signing.key")).unwrap();
    let keep = ["--keep", "dns=7", "--keep", "request=forever"];
    let told = machine.serves_until_told(record, &keep);
    let why = told["findings"][0].as_str().unwrap();
    assert!(
        told["verdict"] == "deny" && why.contains(&format!("--audit-key {former}")),
        "{told}"
    );
    assert_ne!(machine.key(), former);
    assert!(machine.found(record, "dns").len() > 1000);
    let named = [&keep[..], &["--audit-key", &former]].concat();
    let told = machine.serves_until_told(record, &named);
    let what = told["findings"][0].as_str().unwrap();
    assert!(
        told["verdict"] == "allow" && what.contains("dns 1"),
        "{told}"
    );
    let whole = machine.gig(&["audit", "verify", record]);
    assert_eq!(whole.status, 0, "{whole:?}");
}

/// What is removed by hand from an appliance's record is told there before, and how much it was after.
#[test]
fn what_is_removed_by_hand_is_told_by_the_appliance_that_it_is_taken_from() {
    let machine = Machine::new();
    let record = &*machine.old_appliance(50);
    let keep = ["--keep", "dns=7", "--keep", "request=forever"];
    let prune = |machine: &Machine, more: &[&str]| {
        let words = [&["audit", "prune", record], &keep[..], more].concat();
        machine.gig(&words)
    };
    assert_eq!(prune(&machine, &["--dry-run"]).status, 0);
    assert!(
        machine.found(record, "admin").is_empty(),
        "nothing was done"
    );
    let unknown = prune(&machine, &["--node", "another"]);
    assert!(
        unknown.status == 125 && unknown.errors.contains("no chain of another"),
        "{unknown:?}"
    );
    assert!(
        machine.found(record, "admin").is_empty(),
        "nothing was done"
    );
    let pruned = prune(&machine, &[]);
    assert_eq!(pruned.status, 0, "{pruned:?}");
    assert!(pruned.output.contains("(dns 16)"), "{pruned:?}");
    let told = machine.found(record, "admin");
    assert!(
        told.iter().all(|one| one["deed"] == "record.prune"),
        "{told:?}"
    );
    let said: Vec<_> = told.iter().map(|one| one["findings"].to_string()).collect();
    let [after, before] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(
        before.contains("are being removed by hand, kept are: dns 7 days"),
        "{before}"
    );
    assert!(
        after.contains("old records of n removed by hand: 16 records (dns 16)"),
        "{after}"
    );
    let whole = machine.gig(&["audit", "verify", record]);
    assert_eq!(whole.status, 0, "{whole:?}");
    // Nobody who has another directory does so untold.
    let stranger = Machine::new();
    let refused = prune(&stranger, &["--key", &machine.key()]);
    assert!(
        refused.status == 125 && refused.errors.contains("set GIG_DATA_DIR="),
        "{refused:?}"
    );
}

/// By a clock that runs far ahead of when anything was recorded last, everything is old.
#[test]
fn a_clock_that_is_ahead_at_a_start_removes_nothing_and_that_is_told() {
    let machine = Machine::new();
    let record = &*machine.old_appliance(5000);
    fs::remove_file(machine.folder.path().join("data/retention.clock")).unwrap();
    let before = machine.found(record, "dns").len();
    // What it recorded by that clock is no reason to believe it the next time.
    for _ in 0..2 {
        let told = machine.serves_until_told(record, &["--keep", "dns=7"]);
        let what = told["findings"][0].as_str().unwrap();
        assert!(
            told["verdict"] == "deny" && what.contains("hours ahead"),
            "{told}"
        );
        assert_eq!(machine.found(record, "dns").len(), before);
    }
}

const PATIENCE: Duration = Duration::from_secs(120);
