//! One record with what stands around it: what holds is said to hold, and what somebody changed is named.

use super::{
    retention::{in_days, pruned, record},
    *,
};
use crate::{
    chain::ChainFault,
    checkpoint::CheckpointFault,
    log::{
        ReadLogError,
        in_chain::{self, InChain, Known},
    },
    search::{Position, walk::Shelf},
};

pub(super) mod counting;

use counting::Counting;

on_both! {
    a_record_holds_with_its_neighbours_and_its_checkpoint,
    what_was_removed_by_its_age_is_no_hole,
    what_somebody_changed_or_took_away_does_not_hold,
    a_neighbour_that_is_no_record_any_more_is_told,
    whoever_signs_with_a_key_of_their_own_is_not_believed,
    of_a_long_chain_no_more_is_read_than_one_record_needs,
    what_is_missing_in_a_long_row_is_looked_at_as_far_as_a_bound,
    a_neighbour_beyond_what_is_missing_is_proved_by_its_own_segment_alone,
    a_record_that_nobody_waits_for_is_not_proved,
    a_search_that_nobody_waits_for_ends,
}

fn look(place: &Place, seq: u64) -> InChain {
    look_as(place, seq, &known("n", 1))
}

fn look_as(place: &Place, seq: u64, known: &Known) -> InChain {
    let at = Position { chain: 1, seq };
    let found = place.log().in_chain(at, known, &|| false);
    found.unwrap().unwrap()
}

/// Who asks is `node`, and believes the key of that number.
fn known(node: &str, n: u8) -> Known {
    Known {
        node: node.to_owned(),
        keys: vec![key(n).public()],
    }
}

/// What is said of one record, and how many rows and octets were read for that.
fn counted(place: &Place, seq: u64, most: u32) -> (InChain, usize, usize) {
    fn of(shelf: impl Shelf, seq: u64, most: u32) -> (InChain, usize, usize) {
        let mut shelf = Counting::new(shelf);
        let at = Position { chain: 1, seq };
        let asked = (&known("n", 1), &(|| false) as &dyn Fn() -> bool);
        let found = in_chain::of_segments(&mut shelf, at, asked, most);
        (found.unwrap().unwrap(), shelf.rows, shelf.octets)
    }
    match place.home() {
        Home::Sqlite(path) => of(SqliteLog::open(&path).unwrap(), seq, most),
        Home::Postgres(record) => of(record.log().unwrap(), seq, most),
    }
}

async fn a_record_holds_with_its_neighbours_and_its_checkpoint(place: Place) {
    record(&place, 5000).await;
    for (seq, segment) in [
        (1, (1, 4095)),
        (4095, (1, 4095)),
        (4096, (4096, 5000)),
        (5000, (4096, 5000)),
    ] {
        let one = look(&place, seq);
        assert_eq!((one.found.row.seq, &one.own), (seq, &Ok(())));
        let before = one.before.map(|one| (one.at.seq, one.gap.places, one.link));
        assert_eq!(before, (seq > 1).then(|| (seq - 1, 0, Ok(()))), "{seq}");
        // What is behind it is proved where it is signed together with it.
        let is_signed = seq < segment.1;
        assert!(
            one.behind
                .as_ref()
                .is_none_or(|one| one.is_proved == is_signed),
            "{seq}"
        );
        let behind = one.behind.map(|one| (one.at.seq, one.gap.places, one.link));
        assert_eq!(behind, (seq < 5000).then(|| (seq + 1, 0, Ok(()))), "{seq}");
        let sealed = one.sealed.unwrap().unwrap();
        let signed = &sealed.checkpoint;
        assert_eq!((signed.first, signed.last), segment);
        assert_eq!(signed.key, key(1).public());
        assert_eq!((sealed.removed, sealed.whole), (0, Some(Ok(()))));
        assert!(sealed.is_known);
    }
    let nowhere = Position {
        chain: 1,
        seq: 5001,
    };
    assert!(
        place
            .log()
            .in_chain(nowhere, &known("n", 1), &|| false)
            .unwrap()
            .is_none()
    );
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(5001)).await.unwrap();
    let last = look(&place, 5000);
    let behind = last.behind.unwrap();
    assert!(
        behind.link.is_ok() && !behind.is_proved,
        "it follows, and nothing more is known"
    );
    let newest = look(&place, 5001);
    assert!(newest.before.unwrap().is_proved, "it is named");
    let newest = look(&place, 5001);
    assert!(
        newest.own.is_ok() && newest.sealed.unwrap().is_none(),
        "not signed yet"
    );
    owner.close(PATIENCE);
}

async fn what_was_removed_by_its_age_is_no_hole(place: Place) {
    record(&place, 100).await;
    pruned(&place, &in_days(8, &[]));
    let there: Vec<u64> = place.all().iter().map(|found| found.row.seq).collect();
    let gap = there.windows(2).find(|two| two[1] - two[0] > 1).unwrap();
    let earlier = look(&place, gap[0]);
    let behind = earlier.behind.unwrap();
    assert_eq!(
        (behind.at.seq, behind.gap.places, behind.link),
        (gap[1], 1, Ok(()))
    );
    let sealed = earlier.sealed.unwrap().unwrap();
    assert_eq!((sealed.removed, sealed.whole), (100 / 7, Some(Ok(()))));
    // All that came before the last one is gone: it begins what is left.
    pruned(&place, &in_days(4000, &[]));
    let last = look(&place, 100);
    assert!(last.before.is_none() && last.own.is_ok(), "{last:?}");
    assert_eq!((last.begins.places, last.begins.is_long), (99, false));
}

async fn what_somebody_changed_or_took_away_does_not_hold(place: Place) {
    record(&place, 20).await;
    let harmed = place.copy();
    harmed.harm("UPDATE @record SET line = replace(line, '/item/5\"', '/item/6\"')");
    let wrong = harmed.all().into_iter();
    let wrong = wrong.filter(|found| look(&harmed, found.at.seq).own.is_err());
    let wrong: Vec<u64> = wrong.map(|found| found.row.seq).collect();
    let [seq] = wrong.as_slice() else {
        panic!("{wrong:?}")
    };
    assert!(matches!(
        look(&harmed, *seq).own,
        Err(ChainFault::Changed { .. })
    ));
    let next = look(&harmed, seq + 1);
    assert!(next.own.is_ok() && next.before.unwrap().link.is_err());
    assert!(next.sealed.unwrap().unwrap().whole.unwrap().is_err());

    let holed = place.copy();
    holed.harm("DELETE FROM @record WHERE line LIKE '{\"seq\":7,%'");
    let before = look(&holed, 8).before.unwrap();
    assert_eq!((before.at.seq, before.gap.places), (6, 1));
    assert!(matches!(before.link, Err(ChainFault::Order { .. })));

    let unsigned = place.copy();
    unsigned.harm("UPDATE @checkpoint SET line = replace(line, '\"last\":20', '\"last\":19')");
    assert!(look(&unsigned, 8).sealed.is_err());

    let beheaded = place.copy();
    beheaded.harm("DELETE FROM @record WHERE line LIKE '{\"seq\":1,%'");
    assert!(
        look(&beheaded, 2).own.is_err(),
        "nothing says that one was removed"
    );
}

async fn a_neighbour_that_is_no_record_any_more_is_told(place: Place) {
    record(&place, 20).await;
    for nonsense in ["nonsense", "{\"seq\":5}", ""] {
        let harmed = place.copy();
        harmed.harm(&format!(
            "UPDATE @record SET line = '{nonsense}' WHERE line LIKE '{{\"seq\":5,%'"
        ));
        for (seq, is_before) in [(6, true), (4, false)] {
            let one = look(&harmed, seq);
            assert_eq!(one.own, Ok(()));
            let beside = if is_before { one.before } else { one.behind };
            let beside = beside.unwrap();
            assert_eq!((beside.at.seq, beside.found.is_none()), (5, true));
            assert!(
                matches!(beside.link, Err(ChainFault::NotARecord(_))),
                "{beside:?}"
            );
            assert!(one.sealed.unwrap().unwrap().whole.unwrap().is_err());
        }
    }
}

async fn whoever_signs_with_a_key_of_their_own_is_not_believed(place: Place) {
    record(&place, 20).await;
    let ours = |known: &Known| look_as(&place, 8, known).sealed;
    assert!(ours(&known("n", 1)).unwrap().unwrap().is_known);
    // Of the own chain nobody else signs.
    let foreign = ours(&known("n", 2)).unwrap_err();
    assert_eq!(foreign.foreign_key(), Some(key(1).public()));
    let nobody = Known::default();
    // Of another machine's chain it is told that nobody here knows who signed.
    for stranger in [known("another", 2), nobody] {
        let sealed = ours(&stranger).unwrap().unwrap();
        assert_eq!((sealed.is_known, sealed.whole), (false, Some(Ok(()))));
    }
    let former = Known {
        node: "n".to_owned(),
        keys: vec![key(2).public(), key(1).public()],
    };
    assert!(ours(&former).unwrap().unwrap().is_known);
    // Nor is what was removed believed on a stranger's word.
    pruned(&place, &in_days(8, &[]));
    let beside = |known: &Known| look_as(&place, 8, known).before.unwrap();
    assert_eq!(beside(&known("n", 1)).gap.stranger, None);
    let told = beside(&known("another", 2));
    assert_eq!(told.gap.stranger, Some(key(1).public()));
    let refused = beside(&known("n", 2)).link.unwrap_err();
    assert_eq!(refused.foreign_key(), Some(key(1).public()));
}

async fn of_a_long_chain_no_more_is_read_than_one_record_needs(place: Place) {
    for _ in 0..3 {
        record(&place, 30).await;
    }
    pruned(&place, &in_days(8, &[]));
    let alone = counted(&place, 40, 256);
    let sealed = alone.0.sealed.as_ref().unwrap().as_ref().unwrap();
    assert_eq!((sealed.checkpoint.first, sealed.checkpoint.last), (31, 60));
    assert!(alone.1 < 45 && alone.2 < 45 * 1000, "{alone:?}");
    // What years leave behind: 60 MB of checkpoints of other segments.
    let others = match &place {
        Place::Sqlite(_) => {
            "WITH RECURSIVE other (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM other WHERE n < 3000)
             INSERT INTO @checkpoint SELECT 1, 1000 + n, 1000000 + n, hex(zeroblob(10000)) FROM other"
        }
        Place::Postgres(_) => {
            "INSERT INTO @checkpoint
             SELECT 1, 1000 + n, 1000000 + n, repeat('x', 20000) FROM generate_series(1, 3000) n"
        }
    };
    place.harm(others);
    let beside = counted(&place, 40, 256);
    assert_eq!((beside.1, beside.2), (alone.1, alone.2));
    let sealed = beside.0.sealed.unwrap().unwrap();
    assert_eq!((sealed.removed, sealed.whole), (30 / 7, Some(Ok(()))));
    // All of them make the whole chain's proof, which they do not fit.
    assert!(!place.log().verify(Expected::default()).unwrap().is_whole());
}

async fn what_is_missing_in_a_long_row_is_looked_at_as_far_as_a_bound(place: Place) {
    for _ in 0..6 {
        record(&place, 3).await;
    }
    pruned(&place, &in_days(4000, &[]));
    let last = |most| counted(&place, 18, most);
    let (whole, ..) = last(256);
    assert_eq!((whole.own, whole.begins.places), (Ok(()), 17));
    assert!(!whole.begins.is_long);
    let (part, rows, _) = last(2);
    assert_eq!((part.own, part.begins.is_long), (Ok(()), true));
    assert!(rows < 10, "{rows}");
    // What is looked at has to be so.
    place.harm(
        "UPDATE @checkpoint SET line = replace(line, '\"pruned\":[[1,3]]', '\"pruned\":[[1,2]]')",
    );
    let (wrong, ..) = last(2);
    let why = wrong.own.unwrap_err();
    let is_signed = matches!(
        why,
        ChainFault::Checkpoint {
            why: CheckpointFault::Signature(_),
            ..
        }
    );
    assert!(is_signed, "{why}");
}

async fn a_neighbour_beyond_what_is_missing_is_proved_by_its_own_segment_alone(place: Place) {
    record(&place, 7).await;
    record(&place, 8).await;
    // The seventh of each is removed: the last of the first segment, and the last but one of the second.
    pruned(&place, &in_days(8, &[]));
    let own = look(&place, 15).before.unwrap();
    assert_eq!((own.at.seq, own.gap.places, own.is_proved), (13, 1, true));
    assert!(look(&place, 10).before.unwrap().is_proved, "one names it");
    let beyond = look(&place, 8).before.unwrap();
    assert_eq!((beyond.at.seq, beyond.link), (6, Ok(())));
    assert!(!beyond.is_proved, "whatever stands there now");
    assert!(!look(&place, 6).behind.unwrap().is_proved);
}

async fn a_record_that_nobody_waits_for_is_not_proved(place: Place) {
    record(&place, 20).await;
    let at = Position { chain: 1, seq: 8 };
    let given_up = place.log().in_chain(at, &known("n", 1), &|| true);
    assert!(matches!(given_up, Err(ReadLogError::Stopped)));
    let mut log = place.log();
    assert!(log.in_chain(at, &known("n", 1), &|| true).is_err());
    let again = log.in_chain(at, &known("n", 1), &|| false);
    assert!(again.unwrap().is_some(), "the moment was given back");
}

async fn a_search_that_nobody_waits_for_ends(place: Place) {
    record(&place, 3000).await;
    let query = Query {
        filter: Filter {
            text: vec!["nowhere".to_owned()],
            ..Filter::default()
        },
        before: None,
        limit: 10,
    };
    let looks = std::cell::Cell::new(0);
    let after = |most: u32| {
        looks.set(0);
        let stop = || {
            looks.set(looks.get() + 1);
            looks.get() > most
        };
        place.log().search_until(&query, &stop)
    };
    assert!(matches!(after(2), Err(ReadLogError::Stopped)));
    assert_eq!(looks.get(), 3, "it did not go on");
    assert!(after(u32::MAX).unwrap().records.is_empty());
}
