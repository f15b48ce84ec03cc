//! `gig audit export`: what other programs read, and that nothing is lost on the way to them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _},
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use gig_audit::{Entry, Event, Recorder, RecorderSettings, SqliteStore, VerdictWord};
use gig_policy::DenyReason;
use serde_json::Value;

pub(crate) mod receivers;
mod refused;
pub(crate) mod traces;

use receivers::{Rsyslog, collect};

use super::{Answer, gig, gig_with};

const PATIENCE: Duration = Duration::from_secs(120);

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn name(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A database of `count` requests, some of them hostile.
    fn database(&self, count: u64) -> String {
        let path = self.path("audit.db");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let store = Box::new(SqliteStore::open(&path, "n").unwrap());
        let (recorder, owner) = Recorder::start(store, RecorderSettings::new("n")).unwrap();
        runtime.block_on(async {
            for n in 1..count {
                while recorder.queue(request(n)).is_err() {
                    tokio::task::yield_now().await;
                }
            }
            recorder.record(request(count)).await.unwrap();
        });
        owner.close(PATIENCE);
        self.name("audit.db")
    }

    fn send(&self, database: &str, to: &str, options: &[&str]) -> Answer {
        crate::answer(self.sending(database, to, options), "")
    }

    /// The same as a command; what is lost it takes down in a data directory of its own.
    fn sending(&self, database: &str, to: &str, options: &[&str]) -> Command {
        let cursor = self.name("cursor");
        let words = ["audit", "export", database, "--to", to, "--cursor", &cursor];
        let mut command = Command::new(crate::place::gig());
        command.args([&words[..], options].concat());
        command.env("GIG_DATA_DIR", self.name("data"));
        command
    }
}

const SANDBOX: &str = "01a2074d-2201-74d4-a6c5-d1d0e331e5de";

fn request(n: u64) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.sandbox = serde_json::from_value(SANDBOX.into()).unwrap();
    entry.conn = Some(n);
    entry.src = Some("10.200.0.2:4000".parse().unwrap());
    entry.host = Some(format!("h{n}.example.com").into());
    entry.port = Some(443);
    entry.protocol = Some("https".into());
    entry.method = Some("GET".into());
    entry.path = Some(match n % 3 {
        0 => "=cmd|' /C calc'!A0".into(),
        1 => "/a,\"b\"]\n<13>1 \u{1b}[2J\u{202e}".into(),
        _ => format!("/item/{n}").into(),
    });
    let denied = n.is_multiple_of(2);
    entry.verdict = Some(if denied {
        VerdictWord::Deny
    } else {
        VerdictWord::Allow
    });
    entry.reason = denied.then_some(DenyReason::HostNotAllowed);
    entry
}

fn export(database: &str, format: &str) -> String {
    let answer = gig(&["audit", "export", database, "--format", format]);
    assert_eq!((answer.status, answer.errors.as_str()), (0, ""), "{format}");
    let odd = |c: char| !matches!(c, ' '..='~' | '\n' | '\r');
    assert!(!answer.output.contains(odd), "{format}");
    answer.output
}

#[test]
fn an_export_whose_reader_has_enough_ends_quietly() {
    let place = Place::new();
    // More than a pipe holds, so that there is something left to write when nobody reads.
    let database = place.database(2000);
    let mut child = Command::new(crate::place::gig())
        .args(["audit", "export", &database])
        .env("GIG_DATA_DIR", place.name("data"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start gig");
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("its output"));
    reader.read_line(&mut first).expect("a line");
    assert!(first.contains(SANDBOX), "{first}");
    // As `head -1` does.
    drop(reader);
    let ended = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!((ended.status.code(), &*said), (Some(0), ""));
}

#[test]
fn what_was_written_is_told_to_programs_too() {
    let place = Place::new();
    let database = place.database(30);
    let file = place.name("export");
    for (options, format, records) in [
        (&["--with-checkpoints"][..], "jsonl", 30),
        (&["--format", "csv", "--verdict", "deny"], "csv", 15),
    ] {
        let words = ["audit", "export", &database, "-o", &file, "--json"];
        let answer = gig(&[&words[..], options].concat());
        assert_eq!(answer.status, 0, "{answer:?}");
        let told: Value = serde_json::from_str(&answer.output).unwrap();
        let want = serde_json::json!({ "file": &file, "format": format, "records": records });
        assert_eq!(told, want);
        fs::remove_file(&file).unwrap();
    }
    // Beside the records themselves there is no place for it.
    let refused = gig(&["audit", "export", &database, "--json"]);
    assert_eq!(
        (refused.status, refused.output.as_str()),
        (125, ""),
        "{refused:?}"
    );
    assert!(refused.errors.contains("--output"), "{refused:?}");
}

#[test]
fn every_format_holds_every_record_and_no_sandbox_speaks_in_it() {
    let place = Place::new();
    let database = place.database(30);
    for format in ["jsonl", "ocsf", "syslog"] {
        let text = export(&database, format);
        assert_eq!(text.lines().count(), 30, "{format}: {text}");
    }
    for line in export(&database, "ocsf").lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&event["class_uid"], &event["type_uid"]),
            (&4002.into(), &400_203.into())
        );
    }
    let otlp = export(&database, "otlp-json");
    assert_eq!(log_records(&serde_json::from_str(&otlp).unwrap()).len(), 30);
    assert_eq!(traces::read("logs", "Logs", "log_records", &otlp), 30);
    // A span for each denial.
    let spans = export(&database, "otlp-traces-json");
    assert_eq!(traces::read("trace", "Trace", "spans", &spans), 15);
    // As another program reads it: each record is one row of so many fields, and no formula.
    let read = "import csv, sys; rows = list(csv.reader(sys.stdin, strict=True)); \
                print(len(rows), {len(r) for r in rows}, sum(f[:1] in '=+-@' and f != '' for r in rows for f in r))";
    let csv = place.path("export.csv");
    let named = csv.to_str().unwrap();
    let answer = gig(&["audit", "export", &database, "--format", "csv", "-o", named]);
    assert_eq!((answer.status, answer.output.as_str()), (0, ""));
    let output = Command::new("/usr/bin/python3")
        .args(["-c", read])
        .stdin(fs::File::open(csv).unwrap())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "31 {33} 0\n");
    let answer = gig(&[
        "audit",
        "export",
        &database,
        "--verdict",
        "deny",
        "--host",
        "h4.example.com",
    ]);
    assert_eq!(answer.output.lines().count(), 1, "{answer:?}");
}

fn log_records(request: &Value) -> Vec<&Value> {
    let resources = request["resourceLogs"].as_array().unwrap();
    let scopes = resources
        .iter()
        .flat_map(|resource| resource["scopeLogs"].as_array().unwrap());
    scopes
        .flat_map(|scope| scope["logRecords"].as_array().unwrap())
        .collect()
}

/// The sequence numbers of octet-counted messages.
fn messages(mut octets: &[u8]) -> Vec<u64> {
    let mut seqs = Vec::new();
    while !octets.is_empty() {
        let space = octets.iter().position(|octet| *octet == b' ').unwrap();
        let length: usize = std::str::from_utf8(&octets[..space])
            .unwrap()
            .parse()
            .unwrap();
        let message = std::str::from_utf8(&octets[space + 1..][..length]).unwrap();
        let seq = message.split_once(" seq=\"").unwrap().1;
        seqs.push(seq.split_once('"').unwrap().0.parse().unwrap());
        octets = &octets[space + 1 + length..];
    }
    seqs
}

#[test]
fn what_a_receiver_did_not_read_to_its_end_is_sent_again() {
    let place = Place::new();
    let database = place.database(2500);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("syslog+tcp://{}", listener.local_addr().unwrap());
    // Takes the first batch, and breaks off in the second as often as it is tried.
    let receiver = std::thread::spawn(move || {
        let mut first = Vec::new();
        listener
            .accept()
            .unwrap()
            .0
            .read_to_end(&mut first)
            .unwrap();
        for _ in 0..7 {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 1000]).unwrap();
            // Unread octets: closing resets the connection.
            drop(stream);
        }
        messages(&first)
    });
    let answer = place.send(&database, &to, &[]);
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(answer.errors.contains("were not taken"), "{answer:?}");
    let mut taken = receiver.join().unwrap();
    assert_eq!(taken, (1..=1000).collect::<Vec<_>>());

    // Somebody listens at another port now: the cursor is of the old one.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = format!("syslog+tcp://{}", listener.local_addr().unwrap());
    let answer = place.send(&database, &other, &[]);
    assert!(
        answer.errors.contains("another file for each destination"),
        "{answer:?}"
    );
    let cursor = fs::read_to_string(place.path("cursor")).unwrap();
    fs::write(place.path("cursor"), cursor.replace(&to, &other)).unwrap();
    let receiver = std::thread::spawn(move || {
        let mut all = Vec::new();
        for _ in 0..2 {
            let mut batch = Vec::new();
            listener
                .accept()
                .unwrap()
                .0
                .read_to_end(&mut batch)
                .unwrap();
            all.extend(messages(&batch));
        }
        all
    });
    let answer = place.send(&database, &other, &[]);
    assert_eq!(answer.status, 0, "{answer:?}");
    taken.extend(receiver.join().unwrap());
    assert_eq!(taken, (1..=2500).collect::<Vec<_>>());
    // Nothing is new: nobody has to listen.
    assert_eq!(place.send(&database, &other, &[]).status, 0);

    // Another record in its place is not taken for a continuation.
    for beside in ["", "-wal", "-shm"] {
        let _not_there = fs::remove_file(format!("{database}{beside}"));
    }
    place.database(2600);
    let answer = place.send(&database, &other, &[]);
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(answer.errors.contains("not the one that"), "{answer:?}");
}

fn seqs(request: &Value) -> Vec<u64> {
    let of = |record: &Value| {
        let attributes = record["attributes"].as_array().unwrap().clone();
        let mut found = attributes.into_iter().filter(|one| one["key"] == "gig.seq");
        found.next().unwrap()["value"]["intValue"]
            .as_str()
            .unwrap()
            .parse()
            .unwrap()
    };
    log_records(request).into_iter().map(of).collect()
}

#[test]
fn a_collector_gets_every_record_and_is_asked_again_only_where_it_says_so() {
    let place = Place::new();
    let database = place.database(1500);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/logs", listener.local_addr().unwrap());
    let rejecting = r#"{"partialSuccess":{"rejectedLogRecords":"3","errorMessage":"too old"}}"#;
    let collector = std::thread::spawn(move || {
        let refused = seqs(&collect(&listener, "503 Busy", ""));
        let mut taken = seqs(&collect(&listener, "200 OK", "{}"));
        assert_eq!(refused, taken);
        while taken.len() < 1000 {
            let some = collect(&listener, "200 OK", "{}");
            assert!(some.to_string().len() <= 512 * 1024);
            taken.extend(seqs(&some));
        }
        // One that takes less at once gets less at once.
        let many = seqs(&collect(&listener, "413 Content Too Large", ""));
        let half = seqs(&collect(&listener, "200 OK", "{}"));
        assert!(
            many.starts_with(&half) && half.len() <= many.len() / 2,
            "{half:?}"
        );
        taken.extend(half);
        let wrong = seqs(&collect(&listener, "403 Forbidden", ""));
        assert_eq!(Some(&wrong[0]), taken.last().map(|last| last + 1).as_ref());
        // What was not taken whole is sent whole.
        let mut again = seqs(&collect(&listener, "200 OK", rejecting));
        while again.len() < 500 {
            again.extend(seqs(&collect(&listener, "200 OK", "{}")));
        }
        assert_eq!(again, (1001..=1500).collect::<Vec<_>>());
        taken.truncate(1000);
        taken
    });
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let options = ["--token", &token];
    let answer = place.send(&database, &to, &options);
    assert_eq!(
        answer.status, 125,
        "a wrong request is not repeated: {answer:?}"
    );
    assert!(answer.errors.contains("answered 403"), "{answer:?}");
    let answer = place.send(&database, &to, &options);
    assert_eq!(answer.status, 1, "some were not taken: {answer:?}");
    assert!(
        answer.errors.contains("rejected 3 records: too old"),
        "{answer:?}"
    );
    assert_eq!(collector.join().unwrap(), (1..=1000).collect::<Vec<_>>());
}

#[test]
fn a_record_that_is_too_long_for_a_collector_keeps_it_from_no_other() {
    let place = Place::new();
    let database = place.database(3);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/logs", listener.local_addr().unwrap());
    let collector = std::thread::spawn(move || {
        let long = "413 Content Too Large";
        assert_eq!(seqs(&collect(&listener, long, "")), [1, 2, 3]);
        assert_eq!(seqs(&collect(&listener, long, "")), [1]);
        let short = collect(&listener, "200 OK", "{}");
        let body = &log_records(&short)[0]["body"]["stringValue"];
        assert!(body.to_string().contains("octets left out"), "{body}");
        assert_eq!(seqs(&short), [1]);
        assert_eq!(seqs(&collect(&listener, "200 OK", "{}")), [2, 3]);
    });
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let answer = place.send(&database, &to, &["--token", &token]);
    assert_eq!(answer.status, 0, "{answer:?}");
    collector.join().unwrap();
}

#[test]
fn rsyslog_reads_every_message_over_tcp_and_tls() {
    let certified = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    for tls in [None, Some(&certified)] {
        let place = Place::new();
        let database = place.database(1200);
        let receiver = Rsyslog::start(place.folder.path(), tls);
        let ca = place.name("ca.pem");
        fs::write(&ca, certified.cert.pem()).unwrap();
        let scheme = if tls.is_some() { "tls" } else { "tcp" };
        let to = format!("syslog+{scheme}://localhost:{}", receiver.port);
        if tls.is_some() {
            let answer = place.send(&database, &to, &[]);
            assert_eq!(answer.status, 125, "nobody vouches for it: {answer:?}");
        }
        let answer = place.send(&database, &to, &["--ca", &ca]);
        assert_eq!(answer.status, 0, "{scheme}: {answer:?}");
        let lines = receiver.lines(1200);
        assert_eq!(lines.len(), 1200, "{scheme}");
        for (n, line) in (1..).zip(&lines) {
            let parts: Vec<&str> = line.splitn(7, '|').collect();
            let severity = if n % 2 == 0 { 4 } else { 6 };
            assert_eq!(parts[0], (13 * 8 + severity).to_string(), "{line}");
            assert_eq!(parts[1..5], ["1", "n", "gig", "request"], "{line}");
            assert!(
                parts[5].starts_with(&format!("[gig@32473 seq=\"{n}\" ")),
                "{line}"
            );
            let record: Value = serde_json::from_str(parts[6].trim()).unwrap();
            assert_eq!(record["seq"], n, "{line}");
        }
    }
}

#[test]
fn sending_needs_a_place_for_its_cursor_and_a_destination_that_is_one() {
    let place = Place::new();
    let database = place.database(1);
    for words in [
        &["--to", "syslog+tcp://127.0.0.1:1"][..],
        &["--to", "ftp://127.0.0.1/x", "--cursor", "c"],
        &["--cursor", "c"],
        &["--follow"],
        &[
            "--to",
            "syslog+tcp://127.0.0.1:1",
            "--cursor",
            "c",
            "--format",
            "csv",
        ],
    ] {
        let answer = gig_with(&[&["audit", "export", &database], words].concat(), "");
        assert_eq!(
            (answer.status, answer.output.as_str()),
            (125, ""),
            "{words:?}: {answer:?}"
        );
    }
}
