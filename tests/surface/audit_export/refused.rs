//! Collectors that refuse what they are sent for what is in it.

use std::{
    collections::BTreeSet,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Place, log_records,
    receivers::{self, collect, eventually},
    seqs,
};

/// The file of the token that collectors here ask for.
fn token(place: &Place) -> String {
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    token
}

/// OTLP: what is rejected of what was answered with success is not sent again, and was not delivered.
#[test]
fn what_a_collector_rejects_counts_as_lost_and_is_not_sent_again() {
    for (rejected, spare) in [(4, "all"), (2, "some")] {
        let place = Place::new();
        let database = place.database(4);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("http://{}/v1/logs", listener.local_addr().unwrap());
        let collector = std::thread::spawn(move || {
            let partial = format!(
                r#"{{"partialSuccess":{{"rejectedLogRecords":"{rejected}","errorMessage":"too old"}}}}"#
            );
            assert_eq!(seqs(&collect(&listener, "200 OK", &partial)), [1, 2, 3, 4]);
        });
        let token = token(&place);
        let answer = place.send(&database, &to, &["--token", &token]);
        collector.join().unwrap();
        assert_eq!(answer.status, 1, "{spare}: {answer:?}");
        let told = format!("{rejected} records were rejected by {to}");
        assert!(answer.errors.contains(&told), "{spare}: {answer:?}");
        let record = fs::read_to_string(place.path("data/audit.jsonl")).unwrap();
        assert!(
            record.contains("audit.gap") && record.contains(&told),
            "{record}"
        );
        let cursor = fs::read_to_string(place.path("cursor")).unwrap();
        let cursor: serde_json::Value = serde_json::from_str(&cursor).unwrap();
        assert_eq!(cursor["missed"], rejected, "{spare}");
        // Nobody listens any more: nothing is sent again.
        let answer = place.send(&database, &to, &["--token", &token]);
        assert_eq!(answer.status, 0, "{spare}: {answer:?}");
    }
}

/// A collector that refuses all it is sent until it is told to be well; what it took.
struct Moody {
    well: Arc<AtomicBool>,
    taken: Arc<Mutex<BTreeSet<u64>>>,
    to: String,
}

impl Moody {
    fn start() -> Self {
        Self::saying("{}")
    }

    /// It says this of what it takes.
    fn saying(body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let to = format!("http://{}/v1/logs", listener.local_addr().unwrap());
        let (well, taken) = (Arc::<AtomicBool>::default(), Arc::<Mutex<_>>::default());
        let theirs = (Arc::clone(&well), Arc::clone(&taken));
        std::thread::spawn(move || {
            let (well, taken): (Arc<AtomicBool>, Arc<Mutex<BTreeSet<u64>>>) = theirs;
            loop {
                // What it is at this moment decides about the request that comes next.
                let is_well = well.load(Ordering::SeqCst);
                let status = if is_well { "200 OK" } else { "400 Bad Request" };
                let some = seqs(&collect(&listener, status, body));
                if is_well {
                    taken.lock().unwrap().extend(some);
                }
            }
        });
        Self { well, taken, to }
    }

    /// Sends a record to it, and goes on.
    fn follow(&self, place: &Place, database: &str) -> Following {
        let token = token(place);
        let mut command = place.sending(database, &self.to, &["--token", &token, "--follow"]);
        let errors = fs::File::create(place.path("errors")).unwrap();
        command.stdin(Stdio::null()).stderr(errors);
        Following(command.spawn().unwrap())
    }

    fn has_all(&self, count: u64) {
        eventually(|| (self.taken.lock().unwrap().len() as u64 == count).then_some(()));
        let all: BTreeSet<u64> = (1..=count).collect();
        assert_eq!(*self.taken.lock().unwrap(), all);
    }
}

/// The cursor, once something was settled.
fn moved(place: &Place) -> Option<serde_json::Value> {
    let cursor = fs::read_to_string(place.path("cursor")).ok()?;
    let cursor: serde_json::Value = serde_json::from_str(&cursor).unwrap();
    (cursor["marks"] != "start").then_some(cursor)
}

/// Ends with the test.
struct Following(Child);

impl Drop for Following {
    fn drop(&mut self) {
        let _gone = self.0.kill();
        let _status = self.0.wait();
    }
}

#[test]
fn what_waits_is_tried_again_though_nothing_comes() {
    let (place, collector) = (Place::new(), Moody::start());
    let database = place.database(3);
    let _following = collector.follow(&place, &database);
    let said = || fs::read_to_string(place.path("errors")).unwrap();
    eventually(|| said().contains("going on with what comes").then_some(()));
    collector.well.store(true, Ordering::SeqCst);
    collector.has_all(3);
    eventually(|| moved(&place));
}

#[test]
fn what_is_rejected_where_it_was_asked_again_is_lost_once() {
    let rejected = r#"{"partialSuccess":{"rejectedLogRecords":"1","errorMessage":"too old"}}"#;
    let (place, collector) = (Place::new(), Moody::saying(rejected));
    let database = place.database(1);
    let _following = collector.follow(&place, &database);
    let said = || fs::read_to_string(place.path("errors")).unwrap();
    eventually(|| said().contains("going on with what comes").then_some(()));
    collector.well.store(true, Ordering::SeqCst);
    let cursor = eventually(|| moved(&place));
    assert_eq!(cursor["missed"], 1, "{}", said());
}

#[test]
fn a_thousand_records_that_are_refused_stop_delivery_for_no_longer_than_that() {
    let (place, collector) = (Place::new(), Moody::start());
    let database = place.database(1100);
    let mut following = collector.follow(&place, &database);
    let record = || fs::read_to_string(place.path("data/audit.jsonl")).unwrap_or_default();
    eventually(|| record().contains("stands still").then_some(()));
    assert!(following.0.try_wait().unwrap().is_none(), "it goes on");
    assert!(moved(&place).is_none(), "nothing was delivered");
    collector.well.store(true, Ordering::SeqCst);
    collector.has_all(1100);
    eventually(|| moved(&place));
}

/// One attribute that a collector does not read makes it refuse all that came with it.
#[test]
fn a_record_that_a_collector_refuses_is_told_and_keeps_it_from_no_other() {
    let place = Place::new();
    let database = place.database(4);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/logs", listener.local_addr().unwrap());
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let data = place.name("data");
    let cursor = place.name("cursor");
    let send = || {
        let words = [
            "audit", "export", &database, "--to", &to, "--cursor", &cursor, "--token", &token,
        ];
        let mut command = Command::new(crate::place::gig());
        command.args(words).env("GIG_DATA_DIR", &data);
        crate::answer(command, "")
    };
    // Where it takes nothing at all, nothing is left out.
    let other = listener.try_clone().unwrap();
    let deaf = std::thread::spawn(move || {
        let bad = "400 Bad Request";
        assert_eq!(seqs(&collect(&other, bad, "")), [1, 2, 3, 4]);
        let all = [
            [1, 2].as_slice(),
            &[1],
            &[1],
            &[2],
            &[2],
            &[3, 4],
            &[3],
            &[3],
            &[4],
            &[4],
        ];
        for want in all {
            assert_eq!(seqs(&collect(&other, bad, "")), want);
        }
    });
    let answer = send();
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(
        answer.errors.contains("record 1 of n is not taken"),
        "{answer:?}"
    );
    deaf.join().unwrap();
    let collector = std::thread::spawn(move || {
        let bad = "400 Bad Request";
        assert_eq!(seqs(&collect(&listener, bad, "")), [1, 2, 3, 4]);
        assert_eq!(seqs(&collect(&listener, bad, "")), [1, 2]);
        assert_eq!(seqs(&collect(&listener, "200 OK", "{}")), [1]);
        assert_eq!(seqs(&collect(&listener, bad, "")), [2]);
        let short = collect(&listener, bad, "");
        let body = &log_records(&short)[0]["body"]["stringValue"];
        assert!(body.to_string().contains("octets left out"), "{body}");
        // It is refused for what is in it only while what was taken is taken again.
        for want in [1, 1, 2, 2] {
            assert_eq!(seqs(&collect(&listener, bad, "")), [want]);
        }
        assert_eq!(seqs(&collect(&listener, "200 OK", "{}")), [1]);
        assert_eq!(seqs(&collect(&listener, "200 OK", "{}")), [3, 4]);
    });
    let answer = send();
    collector.join().unwrap();
    let told = "record 2 of n is not taken by";
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.errors.contains(told), "{answer:?}");
    let record = fs::read_to_string(place.path("data/audit.jsonl")).unwrap();
    assert!(
        record.contains("audit.gap") && record.contains(told),
        "{record}"
    );
    // It is over: the cursor stands behind it.
    let answer = send();
    assert_eq!(
        (answer.status, answer.errors.as_str()),
        (0, ""),
        "{answer:?}"
    );
}

/// Of some records there is no span: that is no word of the collector's.
#[test]
fn a_collector_that_refuses_every_span_loses_none() {
    let place = Place::new();
    let database = place.database(6);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let token = place.name("token");
    fs::write(&token, "T0ken\n").unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    std::thread::spawn(move || {
        loop {
            receivers::take(&listener, "/v1/traces", ("400 Bad Request", ""));
        }
    });
    let answer = place.send(&database, &to, &["--token", &token]);
    assert_eq!(answer.status, 125, "{answer:?}");
    assert!(
        answer
            .errors
            .contains("the cursor stays before all of that"),
        "{answer:?}"
    );
    assert!(moved(&place).is_none(), "nothing was delivered");
}
