//! Tampering of every kind is found at its line.

use gig_policy::SandboxId;
use uuid::Uuid;

use super::*;
use crate::{
    chain::{Stamp, seal},
    entry::Entry,
    store::jsonl::LONGEST_LINE,
};

fn chain_of(entries: Vec<Entry>) -> Vec<Vec<u8>> {
    let mut head = Head::START;
    let stamp = Stamp {
        time: "2026-11-21T09:30:00.000001Z",
        node: &"n".into(),
    };
    let mut lines = Vec::new();
    for entry in entries {
        let mut line = Vec::new();
        let record = seal(head, entry, stamp, &mut line);
        head = chain::follow(head, &record).unwrap();
        lines.push(line);
    }
    lines
}

fn five() -> Vec<Vec<u8>> {
    let entry = |n: u64| {
        let mut entry = Entry::new(Event::Request);
        entry.host = Some(format!("h{n}.example").into());
        entry.conn = Some(n);
        entry
    };
    chain_of((1..=5).map(entry).collect())
}

fn broken_at(lines: &[Vec<u8>]) -> (u64, ChainFault) {
    match verify(lines.concat().as_slice()) {
        Err(VerifyError::BrokenAt { line, why }) => (line, why),
        other => panic!("not found: {other:?}"),
    }
}

#[test]
fn a_whole_chain_verifies() {
    let verified = verify(five().concat().as_slice()).unwrap();
    assert_eq!(verified.head.seq, 5);
    assert_eq!(verified.gaps, 0);
    assert_eq!(verify(&b""[..]).unwrap().head, Head::START);
}

#[test]
fn a_record_is_named_by_its_place_and_its_hash() {
    let head = verify(five().concat().as_slice()).unwrap().head;
    assert_eq!(head.to_string().parse(), Ok(head));
    let hash = head.hash.to_string();
    for wrong in [
        "",
        "5",
        "5:",
        &hash,
        &format!("0:{hash}"),
        &format!("-5:{hash}"),
        &format!("5:{}", hash.to_uppercase()),
        &format!("5:{hash}0"),
    ] {
        assert!(wrong.parse::<Head>().is_err(), "{wrong}");
    }
}

#[test]
fn a_changed_field_is_found() {
    let lines = five();
    for (from, to) in [
        ("\"seq\":3", "\"seq\":4"),
        ("2026-11-21", "2026-11-22"),
        ("\"node\":\"n\"", "\"node\":\"m\""),
        ("request", "connect"),
        ("h3.example", "hx.example"),
        ("\"conn\":3", "\"conn\":7"),
        ("\"prev\":\"", "\"prev\" :\""),
        ("\"hash\":\"", "\"hash\": \""),
    ] {
        let mut changed = lines.clone();
        let text = String::from_utf8(changed[2].clone()).unwrap();
        assert!(text.contains(from), "{from} in {text}");
        changed[2] = text.replacen(from, to, 1).into_bytes();
        assert_eq!(broken_at(&changed).0, 3, "{from} -> {to}");
    }
}

#[test]
fn a_dropped_doubled_or_moved_line_is_found() {
    let order = |expected, found| ChainFault::Order { expected, found };
    let mut dropped = five();
    dropped.remove(2);
    assert_eq!(broken_at(&dropped), (3, order(3, 4)));
    let mut first_dropped = five();
    first_dropped.remove(0);
    assert_eq!(broken_at(&first_dropped), (1, order(1, 2)));
    let mut doubled = five();
    doubled.insert(2, doubled[1].clone());
    assert_eq!(broken_at(&doubled), (3, order(3, 2)));
    let mut swapped = five();
    swapped.swap(1, 2);
    assert_eq!(broken_at(&swapped), (2, order(2, 3)));
}

#[test]
fn a_line_of_another_chain_is_found() {
    let mut entry = Entry::new(Event::Admin);
    entry.host = Some("other".into());
    let other = chain_of(vec![entry.clone(), entry.clone(), entry]);
    let mut spliced = five();
    spliced[2] = other[2].clone();
    let (line, why) = broken_at(&spliced);
    assert_eq!(line, 3);
    assert!(matches!(why, ChainFault::Predecessor { .. }));
}

#[test]
fn a_cut_line_and_a_foreign_line_are_found() {
    let mut cut = five();
    cut[4].truncate(20);
    assert_eq!(broken_at(&cut), (5, ChainFault::Unfinished));
    let mut foreign = five();
    foreign.push(b"hello\n".to_vec());
    assert!(matches!(
        broken_at(&foreign),
        (6, ChainFault::NotARecord(_))
    ));
    let endless = vec![vec![b'x'; usize::try_from(LONGEST_LINE).unwrap() + 2]];
    assert_eq!(broken_at(&endless), (1, ChainFault::TooLong));
}

#[test]
fn sandboxes_without_an_end_are_named() {
    let id = |n| SandboxId::new(Uuid::from_u128(n));
    let entry = |event, n| {
        let mut entry = Entry::new(event);
        entry.sandbox = Some(id(n));
        entry
    };
    let lines = chain_of(vec![
        entry(Event::SandboxStart, 1),
        entry(Event::SandboxStart, 2),
        entry(Event::SandboxExit, 1),
        Entry::new(Event::AuditGap),
    ]);
    let verified = verify(lines.concat().as_slice()).unwrap();
    assert_eq!(verified.unended, vec![id(2)]);
    assert_eq!(verified.gaps, 1);
}

#[test]
fn gaps_are_told_in_their_own_words() {
    let gap = |what: String| {
        let mut entry = Entry::new(Event::AuditGap);
        entry.findings = vec![what.into()];
        entry
    };
    let gaps = (1..=20).map(|n| gap(format!("{n} records were refused")));
    let verified = verify(chain_of(gaps.collect()).concat().as_slice()).unwrap();
    assert_eq!(verified.gaps, 20);
    assert_eq!(verified.gaps_told.len(), MOST_TOLD);
    assert_eq!(verified.gaps_told[1], (2, "2 records were refused".into()));
}
