//! One record with what stands around it: what holds is said to hold, and what somebody changed is named.

use super::{
    retention::{in_days, pruned, record},
    *,
};
use crate::{
    chain::ChainFault,
    log::{ReadLogError, in_chain::InChain},
    search::Position,
};

on_both! {
    a_record_holds_with_its_neighbours_and_its_checkpoint,
    what_was_removed_by_its_age_is_no_hole,
    what_somebody_changed_or_took_away_does_not_hold,
    a_search_that_nobody_waits_for_ends,
}

fn look(place: &Place, seq: u64) -> InChain {
    let at = Position { chain: 1, seq };
    place.log().in_chain(at).unwrap().unwrap()
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
        let before = one
            .before
            .map(|one| (one.found.row.seq, one.between, one.link));
        assert_eq!(before, (seq > 1).then(|| (seq - 1, 0, Ok(()))), "{seq}");
        let behind = one
            .behind
            .map(|one| (one.found.row.seq, one.between, one.link));
        assert_eq!(behind, (seq < 5000).then(|| (seq + 1, 0, Ok(()))), "{seq}");
        let sealed = one.sealed.unwrap().unwrap();
        let signed = &sealed.checkpoint;
        assert_eq!((signed.first, signed.last), segment);
        assert_eq!(signed.key, key(1).public());
        assert_eq!((sealed.removed, sealed.whole), (0, Ok(())));
    }
    let nowhere = Position {
        chain: 1,
        seq: 5001,
    };
    assert!(place.log().in_chain(nowhere).unwrap().is_none());
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(5001)).await.unwrap();
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
        (behind.found.row.seq, behind.between, behind.link),
        (gap[1], 1, Ok(()))
    );
    let sealed = earlier.sealed.unwrap().unwrap();
    assert_eq!((sealed.removed, sealed.whole), (100 / 7, Ok(())));
    // All that came before the last one is gone: it begins what is left.
    pruned(&place, &in_days(4000, &[]));
    let last = look(&place, 100);
    assert!(last.before.is_none() && last.own.is_ok(), "{last:?}");
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
    assert!(next.sealed.unwrap().unwrap().whole.is_err());

    let holed = place.copy();
    holed.harm("DELETE FROM @record WHERE line LIKE '{\"seq\":7,%'");
    let before = look(&holed, 8).before.unwrap();
    assert_eq!((before.found.row.seq, before.between), (6, 1));
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
