//! Sealing and opening: every entry comes back as it went in, and as safe text.

use proptest::prelude::*;

use super::*;
use crate::{
    entry::{TlsFacts, VerdictWord},
    event::Event,
};

const TIME: &str = "2026-11-21T09:30:00.000001Z";

fn sealed(entry: Entry) -> (Record, Vec<u8>) {
    let mut line = Vec::new();
    let node = "node-1".into();
    let stamp = Stamp {
        time: TIME,
        node: &node,
    };
    let record = seal(Head::START, entry, stamp, &mut line);
    (record, line)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let text = || proptest::option::of(".{0,40}".prop_map(|s| s.as_str().into()));
    let numbers = (
        any::<Option<u64>>(),
        any::<Option<u16>>(),
        any::<Option<u64>>(),
    );
    let findings = proptest::collection::vec(".{0,20}", 0..3);
    (text(), text(), text(), numbers, findings).prop_map(|(host, path, sni, numbers, findings)| {
        let mut entry = Entry::new(Event::Request);
        entry.verdict = Some(VerdictWord::WouldDeny);
        entry.src = Some("10.200.0.2:40000".parse().unwrap());
        entry.dst_ip = Some("2001:db8::1".parse().unwrap());
        entry.host = host;
        entry.path = path;
        entry.tls = Some(TlsFacts {
            sni,
            ..TlsFacts::default()
        });
        (entry.conn, entry.port, entry.bytes_in) = numbers;
        entry.findings = findings.iter().map(|s| s.as_str().into()).collect();
        entry
    })
}

proptest! {
    #[test]
    fn every_entry_round_trips(entry in any_entry()) {
        let (record, line) = sealed(entry.clone());
        prop_assert_eq!(&open(&line).unwrap(), &record);
        prop_assert_eq!(record.entry, entry);
    }

    #[test]
    fn a_line_is_printable_ascii_whatever_a_sandbox_sends(entry in any_entry()) {
        let (_, line) = sealed(entry);
        let (end, text) = line.split_last().unwrap();
        prop_assert_eq!(*end, b'\n');
        prop_assert!(text.iter().all(|b| matches!(b, 0x20..=0x7e)));
    }
}

#[test]
fn terminal_escapes_and_bidi_overrides_are_escaped() {
    let mut entry = Entry::new(Event::Dns);
    entry.host = Some("a\u{1b}]0;x\u{7}\u{9b}31m\u{7f}\u{202e}moc\u{2066}\u{1f4a9}".into());
    let (record, line) = sealed(entry);
    let text = String::from_utf8(line).unwrap();
    for escaped in [
        "\\u001b",
        "\\u0007",
        "\\u009b",
        "\\u007f",
        "\\u202e",
        "\\u2066",
        "\\ud83d\\udca9",
    ] {
        assert!(text.contains(escaped), "{escaped} in {text}");
    }
    assert_eq!(open(text.as_bytes()).unwrap(), record);
}

#[test]
fn the_hash_is_that_of_the_octets_before_it() {
    let (record, line) = sealed(Entry::new(Event::SandboxStart));
    let text = String::from_utf8(line).unwrap();
    let (covered, rest) = text.split_once(",\"hash\":\"").unwrap();
    assert_eq!(rest, format!("{}\"}}\n", record.hash));
    assert_eq!(digest(covered.as_bytes()), record.hash);
    assert_eq!(
        covered,
        format!(
            "{{\"seq\":1,\"time\":\"{}\",\"node\":\"node-1\",\"event\":\"sandbox.start\",\"prev\":\"{}\"",
            TIME,
            "0".repeat(64)
        )
    );
}

#[test]
fn each_octet_of_a_line_is_protected() {
    let mut entry = Entry::new(Event::Connect);
    entry.host = Some("api.example.com".into());
    entry.port = Some(443);
    let (_, line) = sealed(entry);
    for at in 0..line.len() {
        for flip in [0x01, 0x20] {
            let mut changed = line.clone();
            changed[at] ^= flip;
            assert!(open(&changed).is_err(), "octet {at} can be changed");
        }
    }
}
