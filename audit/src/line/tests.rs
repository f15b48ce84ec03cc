//! The lines are those that serde would write of the same entry, octet by octet.

use std::io;

use gig_policy::{DenyReason, SandboxId};
use proptest::prelude::*;
use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter};

use super::*;
use crate::{deed::Deed, event::Event};

/// What serde makes of it.
#[derive(Serialize)]
struct Body<'a> {
    seq: u64,
    time: &'a str,
    node: &'a str,
    #[serde(flatten)]
    entry: &'a Entry,
    prev: ChainHash,
}

/// Compact JSON in which only `0x20..=0x7e` stands for itself.
struct PrintableAscii;

impl Formatter for PrintableAscii {
    fn write_string_fragment<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        for character in fragment.chars() {
            if matches!(character, ' '..='~') {
                write!(writer, "{character}")?;
            } else {
                let mut units = [0; 2];
                for unit in character.encode_utf16(&mut units) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }

    fn write_char_escape<W: io::Write + ?Sized>(
        &mut self,
        writer: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(writer, escape)
    }
}

fn by_serde(seq: u64, stamp: Stamp<'_>, entry: &Entry, prev: ChainHash) -> String {
    let body = Body {
        seq,
        time: stamp.time,
        node: stamp.node,
        entry,
        prev,
    };
    let mut out = Vec::new();
    body.serialize(&mut serde_json::Serializer::with_formatter(
        &mut out,
        PrintableAscii,
    ))
    .unwrap();
    assert_eq!(out.pop(), Some(b'}'));
    String::from_utf8(out).unwrap()
}

fn by_hand(seq: u64, stamp: Stamp<'_>, entry: &Entry, prev: ChainHash) -> String {
    let mut out = Vec::new();
    write(&mut out, seq, stamp, entry, prev);
    String::from_utf8(out).unwrap()
}

fn text() -> impl Strategy<Value = Option<Arc<str>>> {
    let octets = prop_oneof![".{0,30}", "[ -~]{0,30}", "[\\x00-\\x7f]{0,10}"];
    proptest::option::of(octets.prop_map(|text| text.as_str().into()))
}

fn texts() -> impl Strategy<Value = Vec<Arc<str>>> {
    proptest::collection::vec(".{0,10}".prop_map(|text| text.as_str().into()), 0..3)
}

/// Every field there is, present or not, with any content.
fn any_entry() -> impl Strategy<Value = Entry> {
    let tls = proptest::option::of(
        (text(), text(), text()).prop_map(|(version, alpn, sni)| TlsFacts { version, alpn, sni }),
    );
    let words = (
        prop_oneof![
            Just(Event::Dns),
            Just(Event::SandboxStart),
            Just(Event::AuditGap)
        ],
        proptest::option::of(any::<u128>()),
        proptest::option::of(prop_oneof![
            Just(VerdictWord::Allow),
            Just(VerdictWord::Deny),
            Just(VerdictWord::WouldDeny)
        ]),
        proptest::option::of(proptest::sample::select(DenyReason::ALL)),
        proptest::option::of(proptest::sample::select(Deed::ALL)),
    );
    let addresses = (any::<Option<SocketAddr>>(), any::<Option<IpAddr>>());
    let numbers = (
        any::<[Option<u64>; 5]>(),
        any::<Option<u16>>(),
        any::<Option<u16>>(),
    );
    let texts = (
        [text(), text(), text(), text(), text(), text()],
        [text(), text(), text(), text()],
        texts(),
        texts(),
    );
    (words, addresses, numbers, texts, tls).prop_map(|(words, addresses, numbers, texts, tls)| {
        let ([conn, policy_version, bytes_out, bytes_in, duration_ms], port, status) = numbers;
        let ([subject, server, profile, request, policy, rule], [host, protocol, method, path], ..) = &texts;
        Entry {
            event: words.0,
            deed: words.4,
            subject: subject.clone(),
            sandbox: words.1.map(|id| SandboxId::new(uuid::Uuid::from_u128(id))),
            server: server.clone(),
            profile: profile.clone(),
            conn,
            request: request.clone(),
            policy: policy.clone(),
            policy_version,
            rule: rule.clone(),
            verdict: words.2,
            reason: words.3,
            src: addresses.0,
            host: host.clone(),
            port,
            dst_ip: addresses.1,
            protocol: protocol.clone(),
            tls,
            method: method.clone(),
            path: path.clone(),
            status,
            bytes_out,
            bytes_in,
            duration_ms,
            secrets: texts.2,
            findings: texts.3,
        }
    })
}

#[test]
fn numbers_are_written_as_they_are_at_every_length() {
    let bounds = (0..20).flat_map(|power| {
        let bound = 10u64.pow(power);
        [bound - 1, bound, bound + 1]
    });
    for number in bounds.chain([u64::MAX]) {
        let mut out = Vec::new();
        decimal(&mut out, number);
        assert_eq!(out, number.to_string().into_bytes());
    }
}

proptest! {
    #[test]
    fn a_line_is_what_serde_would_write(
        entry in any_entry(), seq in any::<u64>(), node in ".{0,20}", prev in any::<[u8; 32]>(),
    ) {
        let node: Arc<str> = node.as_str().into();
        let stamp = Stamp { time: "2026-11-21T09:30:00.000001Z", node: &node };
        let prev = ChainHash(prev);
        prop_assert_eq!(by_hand(seq, stamp, &entry, prev), by_serde(seq, stamp, &entry, prev));
    }
}

#[test]
fn the_shortest_and_the_longest_number() {
    let mut out = Vec::new();
    decimal(&mut out, 0);
    out.push(b' ');
    decimal(&mut out, u64::MAX);
    assert_eq!(out, b"0 18446744073709551615");
}
