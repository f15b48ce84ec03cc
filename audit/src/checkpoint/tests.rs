//! Checkpoints against everybody who can write to the database and does not have the key.

use proptest::prelude::*;

use super::{segments::Segments, *};
use crate::{
    chain::{ChainFault, Stamp, seal},
    entry::Entry,
    event::Event,
    record::Record,
};

const TIME: &str = "2026-11-21T09:30:00.000001Z";

fn key(n: u8) -> SigningKey {
    SigningKey::from_seed(&[n; 32]).unwrap()
}

fn records(count: u64) -> Vec<Record> {
    let node: Arc<str> = "n".into();
    let mut head = Head::START;
    let mut records = Vec::new();
    for n in 1..=count {
        let mut entry = Entry::new(Event::Dns);
        entry.conn = Some(n);
        let stamp = Stamp {
            time: TIME,
            node: &node,
        };
        let record = seal(head, entry, stamp, &mut Vec::new());
        head = Head {
            seq: record.seq,
            hash: record.hash,
        };
        records.push(record);
    }
    records
}

/// Checkpoints that grow.
struct Signed {
    key: SigningKey,
    lines: Vec<String>,
}

impl Signed {
    fn add(&mut self, statement: &Statement) {
        let prev = self.lines.last().map_or(ChainHash::NONE, |l| digest(l));
        let number = self.lines.len() as u64 + 1;
        self.lines
            .push(sign(&self.key, (number, prev), "n", TIME, statement));
    }

    /// Segments of four records.
    fn over(records: &[Record]) -> Self {
        let mut signed = Self {
            key: key(1),
            lines: Vec::new(),
        };
        for four in records.chunks(4) {
            signed.add(&statement(four, &[]));
        }
        signed
    }
}

/// Of a segment, from which these places go.
fn statement(segment: &[Record], goes: &[u64]) -> Statement {
    let mut kept = KeptDigest::default();
    let mut pruned: Vec<(u64, u64)> = Vec::new();
    for record in segment {
        if !goes.contains(&record.seq) {
            kept.add(Head {
                seq: record.seq,
                hash: record.hash,
            });
        } else if let Some((_, last)) = pruned.last_mut().filter(|(_, last)| last + 1 == record.seq)
        {
            *last = record.seq;
        } else {
            pruned.push((record.seq, record.seq));
        }
    }
    let last = segment.last().unwrap();
    Statement {
        first: segment[0].seq,
        last: last.seq,
        hash: last.hash,
        inherited: None,
        kept: (!pruned.is_empty()).then(|| kept.finish()),
        pruned,
    }
}

fn proved(lines: &[String], records: &[Record]) -> Result<u64, ChainFault> {
    let mut segments = Segments::new(&[key(1).public()]);
    for (number, line) in (1..).zip(lines) {
        let taken = segments.take(line);
        taken.map_err(|why| ChainFault::Checkpoint { number, why })?;
    }
    let mut prover = Prover::new(segments);
    records.iter().try_for_each(|record| prover.take(record))?;
    prover.finish()?;
    Ok(prover.head().seq)
}

fn without(records: &[Record], goes: &[u64]) -> Vec<Record> {
    let stays = records.iter().filter(|record| !goes.contains(&record.seq));
    stays.cloned().collect()
}

#[test]
fn what_was_removed_is_accepted_only_as_it_was_signed() {
    let all = records(14);
    let mut signed = Signed::over(&all[..12]);
    assert_eq!(proved(&signed.lines, &all), Ok(14));
    let gone = [5, 7, 8, 9, 10, 11, 12];
    signed.add(&statement(&all[4..8], &[5, 7, 8]));
    signed.add(&statement(&all[8..12], &[9, 10, 11, 12]));
    let left = without(&all, &gone);
    assert_eq!(proved(&signed.lines, &left), Ok(14));
    // One more is missing, one is back, nothing was removed after all.
    for other in [
        &[5, 6, 7, 8, 9, 10, 11, 12][..],
        &[5, 8, 9, 10, 11, 12],
        &[],
    ] {
        proved(&signed.lines, &without(&all, other)).unwrap_err();
    }
    // Without the word of the key.
    proved(&signed.lines[..3], &left).unwrap_err();
    proved(&[], &left).unwrap_err();
    // The end was cut off, between two checkpoints or on one.
    for end in [3, 5, 7] {
        let cut = proved(&signed.lines, &left[..left.len() - end]).unwrap_err();
        assert!(matches!(cut, ChainFault::CutOff { .. }), "{end}: {cut}");
    }
}

/// Between two removed records the chain alone vouches for nothing.
#[test]
fn a_record_between_removed_ones_cannot_be_replaced() {
    let all = records(12);
    let mut signed = Signed::over(&all);
    signed.add(&statement(&all[4..8], &[5, 7]));
    let mut left = without(&all, &[5, 7]);
    assert_eq!(proved(&signed.lines, &left), Ok(12));
    let node: Arc<str> = "n".into();
    let stamp = Stamp {
        time: TIME,
        node: &node,
    };
    let before = Head {
        seq: 5,
        hash: left[4].prev,
    };
    // Its own hash is right, it names the same predecessor, and its successor is gone.
    left[4] = seal(before, Entry::new(Event::Connect), stamp, &mut Vec::new());
    let fault = proved(&signed.lines, &left).unwrap_err();
    assert_eq!(fault, ChainFault::NotAsSigned { first: 5, last: 8 });
}

#[test]
fn checkpoints_are_a_chain_of_their_own() {
    let all = records(12);
    let signed = Signed::over(&all);
    let lines = &signed.lines;
    let swapped = [lines[1].clone(), lines[0].clone(), lines[2].clone()];
    let missing = [lines[0].clone(), lines[2].clone()];
    for wrong in [&swapped[..], &missing[..], &lines[1..]] {
        let fault = proved(wrong, &all).unwrap_err();
        assert!(
            matches!(
                fault,
                ChainFault::Checkpoint {
                    why: CheckpointFault::Order { .. },
                    ..
                }
            ),
            "{fault}"
        );
    }
    // Somebody else's signature is one, but nobody trusts it.
    let mut theirs = Signed {
        key: key(2),
        lines: lines.clone(),
    };
    theirs.add(&statement(&all[4..8], &[5]));
    let fault = proved(&theirs.lines, &without(&all, &[5])).unwrap_err();
    let why = CheckpointFault::ForeignKey(key(2).public());
    assert_eq!(fault, ChainFault::Checkpoint { number: 4, why });
}

#[test]
fn statements_that_contradict_those_before_are_refused() {
    let all = records(12);
    let told = |statement: &Statement| {
        let mut signed = Signed::over(&all[..8]);
        signed.add(&tests::statement(&all[4..8], &[5, 6]));
        signed.add(statement);
        let fault = proved(&signed.lines, &without(&all, &[5, 6])).unwrap_err();
        matches!(
            fault,
            ChainFault::Checkpoint {
                why: CheckpointFault::Contradiction { .. },
                ..
            }
        )
    };
    // A range that overlaps, one that leaves a hole, one that never was, one that is turned round.
    assert!(told(&statement(&all[6..10], &[])));
    assert!(told(&statement(&all[9..12], &[])));
    assert!(told(&statement(&all[5..8], &[6])));
    // What was removed does not come back, and a new segment has nothing removed.
    assert!(told(&statement(&all[4..8], &[5])));
    assert!(told(&statement(&all[8..12], &[9])));
    let sound = statement(&all[4..8], &[5, 6, 7]);
    for runs in [
        vec![(5, 9)],
        vec![(6, 5)],
        vec![(7, 7), (5, 5)],
        vec![(5, 5), (6, 6)],
        vec![],
    ] {
        let pruned = runs.clone();
        assert!(
            told(&Statement {
                pruned,
                ..sound.clone()
            }),
            "{runs:?}"
        );
    }
    assert!(told(&Statement {
        hash: ChainHash::NONE,
        ..sound
    }));
}

proptest! {
    #[test]
    fn no_octet_of_a_checkpoint_can_be_another(at in 0_usize..600, octet in 0x20_u8..0x7f) {
        let all = records(4);
        let line = &Signed::over(&all).lines[0];
        let mut changed = line.clone().into_bytes();
        let at = at % changed.len();
        prop_assume!(changed[at] != octet);
        changed[at] = octet;
        prop_assert!(open(&String::from_utf8(changed).unwrap()).is_err());
    }

    #[test]
    fn any_choice_of_what_goes_is_proved(goes in proptest::collection::btree_set(1_u64..=20, 0..20)) {
        let goes: Vec<u64> = goes.into_iter().collect();
        let all = records(21);
        let mut signed = Signed::over(&all[..20]);
        for four in all[..20].chunks(4) {
            let here: Vec<u64> = goes.iter().copied().filter(|seq| four.iter().any(|r| r.seq == *seq)).collect();
            if !here.is_empty() {
                signed.add(&statement(four, &here));
            }
        }
        let left = without(&all, &goes);
        prop_assert_eq!(proved(&signed.lines, &left), Ok(21));
        // And no other record is missing.
        for n in 0..left.len() - 1 {
            let mut fewer = left.clone();
            fewer.remove(n);
            prop_assert!(proved(&signed.lines, &fewer).is_err());
        }
    }
}
