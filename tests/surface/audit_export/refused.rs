//! Collectors that refuse what they are sent for what is in it.

use std::{fs, net::TcpListener, os::unix::fs::PermissionsExt as _, process::Command};

use super::{
    Place, log_records,
    receivers::{self, collect},
    seqs,
};

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
    assert!(!place.path("cursor").exists(), "nothing was delivered");
}
