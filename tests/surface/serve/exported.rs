//! What is exported by hand is in the record, as what the console exports is.

use std::{io, net::TcpListener, thread};

use super::{Appliance, answer, command};

impl Appliance {
    /// What the record tells of exports, newest first.
    fn exports(&self, token: &str) -> Vec<String> {
        let mut told = self.records(token, "event=admin&text=record&limit=50");
        told.retain(|one| one["deed"] == "record.export");
        told.iter()
            .map(|one| one["findings"][0].as_str().expect("words").to_owned())
            .collect()
    }
}

#[test]
fn an_export_by_hand_is_recorded_before_it_is_written_and_a_delivery_when_it_begins() {
    let appliance = Appliance::start();
    let token = appliance.token("auditor");
    let record = appliance.record();
    let file = appliance.path("taken.csv");
    let file = file.to_str().expect("UTF-8");
    let words = [
        "audit", "export", &record, "--format", "csv", "--event", "admin", "-o", file,
    ];
    let exported = appliance.gig(&words, "");
    assert_eq!(exported.status, 0, "{exported:?}");
    let first = format!("record exported as csv to {file}: event=admin");
    assert_eq!(appliance.exports(&token), [first]);
    let written = std::fs::read_to_string(file).expect("the export");
    assert!(
        written.contains("record exported as csv"),
        "it holds itself: {written}"
    );
    let again = appliance.gig(&words[..words.len() - 2], "");
    assert_eq!(again.status, 0, "{again:?}");
    assert_eq!(appliance.exports(&token).len(), 2);

    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || io::copy(&mut stream, &mut io::sink()));
        }
    });
    let to = format!("syslog+tcp://127.0.0.1:{port}");
    let cursor = appliance.path("cursor");
    let cursor = cursor.to_str().expect("UTF-8");
    let words = ["audit", "export", &record, "--to", &to, "--cursor", cursor];
    let narrow = [&words[..], &["--verdict", "deny"]].concat();
    // It goes on as what it began as.
    for _ in 0..2 {
        let sent = appliance.gig(&words, "");
        assert_eq!(sent.status, 0, "{sent:?}");
    }
    // Nothing was left out then that would be asked for now.
    let other = appliance.gig(&narrow, "");
    assert_eq!(other.status, 125, "{other:?}");
    let why = "is of all records: name another file for other records";
    assert!(other.errors.contains(why), "{other:?}");
    let told = appliance.exports(&token);
    assert_eq!(told.len(), 3, "{told:?}");
    assert_eq!(told[0], format!("record sent to {to}: all of it"));
    if appliance.database.is_none() {
        // By the data directory of nobody it cannot be told.
        let elsewhere = tempfile::tempdir().expect("a folder");
        let mut command = command(&elsewhere, None);
        command.args(["audit", "export", &record]);
        let refused = answer(command, "");
        assert_eq!(refused.status, 125, "{refused:?}");
        assert!(
            refused.errors.contains("GIG_DATA_DIR") && refused.output.is_empty(),
            "{refused:?}"
        );
    }
}
