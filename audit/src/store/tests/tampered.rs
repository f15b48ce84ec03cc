//! A database that somebody changed: found, named, and not continued as if it were ours.

use super::*;
use crate::{
    chain::{self, Head},
    record::ChainHash,
    search::walk::key_of,
};

on_both! {
    a_changed_moved_or_cut_record_is_found_and_not_continued,
    a_strangers_head_with_our_number_is_told_and_not_continued,
    records_that_were_lost_are_told_and_the_chain_does_not_hold,
    records_behind_the_end_and_without_a_chain_are_named,
}

async fn a_changed_moved_or_cut_record_is_found_and_not_continued(place: Place) {
    let (recorder, owner) = place.start("n");
    for n in 1..=5 {
        recorder.record(numbered(n)).await.unwrap();
    }
    owner.close(PATIENCE);
    // The last handle moves the log into the file.
    drop(recorder);
    assert_eq!(place.verified(), [5]);
    let harm = [
        "UPDATE @record SET line = replace(line, 'h3.', 'x3.')",
        "DELETE FROM @record WHERE line LIKE '{\"seq\":3,%'",
        "DELETE FROM @record WHERE line LIKE '{\"seq\":5,%'",
        "DELETE FROM @record",
        "UPDATE @record SET position = position + 10 WHERE line LIKE '{\"seq\":5,%'",
        "UPDATE @chain SET node = 'another'",
    ];
    for (n, harm) in harm.into_iter().enumerate() {
        let harmed = place.copy();
        harmed.harm(harm);
        let verdict = harmed.log().verify(Expected::default()).unwrap();
        assert!(verdict.chains[0].outcome.is_err(), "{harm}");
        // These took the end away: nothing may be written behind it.
        if (2..=4).contains(&n) {
            let refused = harmed.home().store("n", key(1), true).map(drop);
            let refused = refused.unwrap_err().to_string();
            assert!(
                refused.contains("its end was changed or cut off"),
                "{harm}: {refused}"
            );
        }
    }
    assert_eq!(place.verified(), [5]);
}

/// The line of a record that anybody could have sealed behind `head`.
fn forged(head: Head) -> (String, ChainHash) {
    let node = "n".into();
    let stamp = chain::Stamp {
        time: "2026-11-21T09:30:00.000001Z",
        node: &node,
    };
    let mut lines = Vec::new();
    let record = chain::seal(head, numbered(99), stamp, &mut lines);
    let line = String::from_utf8(lines).unwrap();
    (line.trim_end().to_owned(), record.hash)
}

impl Place {
    fn octets(&self, hash: ChainHash) -> String {
        match self {
            Self::Sqlite(_) => format!("x'{hash}'"),
            Self::Postgres(_) => format!("decode('{hash}', 'hex')"),
        }
    }
}

async fn a_strangers_head_with_our_number_is_told_and_not_continued(place: Place) {
    let (recorder, owner) = place.start("n");
    for n in 1..=3 {
        recorder.record(numbered(n)).await.unwrap();
    }
    let second = place.all().remove(1);
    let (line, hash) = forged(Head {
        seq: 2,
        hash: ChainHash::parse(&second.row.hash).unwrap(),
    });
    place.harm(&format!(
        "UPDATE @record SET line = '{line}' WHERE position = {}; UPDATE @chain SET hash = {}",
        key_of(1, 3),
        place.octets(hash)
    ));
    assert_eq!(place.verified(), [3], "by itself the forgery is whole");
    recorder.record(numbered(4)).await.unwrap();
    owner.close(PATIENCE);
    told_and_broken(&place, "record 3, which was written before");
}

async fn records_that_were_lost_are_told_and_the_chain_does_not_hold(place: Place) {
    let (recorder, owner) = place.start("n");
    for n in 1..=5 {
        recorder.record(numbered(n)).await.unwrap();
    }
    // As a server that takes over and had not got everything.
    let third = place.all().remove(2);
    let hash = ChainHash::parse(&third.row.hash).unwrap();
    place.harm(&format!(
        "DELETE FROM @record WHERE position > {}; UPDATE @chain SET seq = 3, hash = {}",
        key_of(1, 3),
        place.octets(hash)
    ));
    recorder.record(numbered(6)).await.unwrap();
    owner.close(PATIENCE);
    told_and_broken(
        &place,
        "the database lost 2 records that were written before",
    );
}

fn told_and_broken(place: &Place, words: &str) {
    let all = place.all();
    let gap = all.iter().find(|found| found.row.event == "audit.gap");
    let told = gap.expect("a gap").row.findings.concat();
    assert!(told.contains(words), "{told}");
    let verdict = place.log().verify(Expected::default()).unwrap();
    assert!(verdict.chains[0].outcome.is_err(), "{verdict:?}");
}

async fn records_behind_the_end_and_without_a_chain_are_named(place: Place) {
    for node in ["n", "m"] {
        let (recorder, owner) = place.start(node);
        for n in 1..=3 {
            recorder.record(numbered(n)).await.unwrap();
        }
        owner.close(PATIENCE);
    }
    let mut log = place.log();
    assert!(log.verify(Expected::default()).unwrap().is_whole());
    let (line, _) = forged(Head::START);
    // In place of a first one, behind an end, far behind it, and where no chain is.
    let keys = [key_of(1, 0), key_of(1, 4), key_of(2, 500), key_of(9, 1)];
    for key in keys {
        place.harm(&format!("INSERT INTO @record VALUES ({key}, '{line}')"));
    }
    let verdict = log.verify(Expected::default()).unwrap();
    assert!(!verdict.is_whole());
    let named = verdict.strays.first.iter();
    let named: Vec<_> = named.map(|at| key_of(at.chain, at.seq)).collect();
    assert_eq!((verdict.strays.count, named), (4, keys.to_vec()));
    assert!(verdict.chains.iter().all(|chain| chain.outcome.is_ok()));
}
