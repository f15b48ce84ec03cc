//! Old records go, and what stays is proved; in the database and in an export of it.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    chain::Head,
    log::ChainProof,
    record::ChainHash,
    retention::{Class, Keep},
    search::{Position, term},
    verify::verify_lines,
};

on_both! {
    every_4096_records_are_signed_and_so_is_the_end,
    what_a_run_left_unsigned_the_next_signs_as_found,
    old_records_go_by_their_class_and_the_rest_stays_proved,
    an_export_with_its_checkpoints_is_proved_without_the_database,
    a_database_without_the_keys_word_is_broken_and_is_not_pruned,
    two_who_prune_at_once_do_not_contradict_each_other,
    only_the_chain_that_is_named_loses_records,
    what_was_removed_leaves_the_index_also_where_that_was_interrupted,
    a_record_that_was_kept_elsewhere_is_missed_and_one_that_was_removed_is_not_believed,
}

/// Every seventh is of DNS, all others are requests.
pub(super) async fn record(place: &Place, count: u64) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, count).await;
    owner.close(PATIENCE);
}

pub(super) fn in_days(days: i64, said: &[Keep]) -> Retention {
    let now = Timestamp::now() + SignedDuration::from_hours(24 * days);
    Retention::at(now, said)
}

pub(super) fn pruned(
    place: &Place,
    retention: &Retention,
) -> std::collections::BTreeMap<Class, u64> {
    let mut chains = place.prune(&key(1), retention);
    assert_eq!(chains.len(), 1);
    chains.remove(0).outcome.unwrap()
}

fn whole(place: &Place) -> crate::Verified {
    let mut verdict = place.log().verify(signed_by(&[key(1).public()])).unwrap();
    assert!(verdict.is_whole(), "{verdict:?}");
    verdict.chains.remove(0).outcome.unwrap()
}

fn exported(place: &Place) -> Vec<u8> {
    let mut log = place.log();
    let mut out = Vec::new();
    for ChainProof {
        exported,
        checkpoints,
        ..
    } in log.proof().unwrap()
    {
        for line in [exported.line()].iter().chain(&checkpoints) {
            out.extend_from_slice(line.as_bytes());
            out.push(b'\n');
        }
    }
    for found in log.after(&Marks::default(), 100_000).unwrap() {
        out.extend_from_slice(found.line.as_bytes());
        out.push(b'\n');
    }
    out
}

impl Place {
    /// How many blocks say that some record of theirs has a term.
    fn blocks_with(&self, term: i64) -> usize {
        match self.home() {
            Home::Sqlite(path) => {
                let other = rusqlite::Connection::open(path).unwrap();
                let count = "SELECT count(*) FROM posting WHERE term = ?1";
                other.query_row(count, [term], |row| row.get(0)).unwrap()
            }
            Home::Postgres(record) => record.log().unwrap().blocks_with(term).unwrap(),
        }
    }

    fn unhex(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "unhex(substr(line, -66, 64))",
            Self::Postgres(_) => "decode(left(right(line, 66), 64), 'hex')",
        }
    }
}

async fn every_4096_records_are_signed_and_so_is_the_end(place: Place) {
    record(&place, 9000).await;
    let signed = whole(&place).signed.unwrap();
    assert_eq!((signed.covered, signed.pruned), (9000, 0));
    assert_eq!(signed.keys, [key(1).public()]);
    // Those that had not been signed when the end came are signed then.
    assert_eq!(signed.checkpoints, 3);
    // The next run goes on.
    record(&place, 10).await;
    let signed = whole(&place).signed.unwrap();
    assert_eq!((signed.covered, signed.checkpoints), (9010, 4));
    let verdict = place.log().verify(signed_by(&[key(2).public()])).unwrap();
    assert!(!verdict.is_whole(), "signed by another key");
}

async fn what_a_run_left_unsigned_the_next_signs_as_found(place: Place) {
    record(&place, 5).await;
    // As a run leaves it that was killed.
    place.harm("DELETE FROM @checkpoint");
    let signed = || {
        let mut verdict = place.log().verify(signed_by(&[])).unwrap();
        verdict.chains.remove(0).outcome.unwrap().signed
    };
    let (recorder, owner) = place.start_as("n", false);
    fill(&recorder, 1).await;
    owner.close(PATIENCE);
    drop(recorder);
    assert_eq!(signed(), None, "the appliance's own, which may still run");
    record(&place, 1).await;
    let found = signed().unwrap();
    assert_eq!((found.covered, found.inherited), (7, 6));
    // What was signed by who wrote it stays so, and what was found as well.
    record(&place, 3).await;
    let (recorder, owner) = place.start_as("n", false);
    fill(&recorder, 2).await;
    owner.close(PATIENCE);
    drop(recorder);
    let found = signed().unwrap();
    assert_eq!((found.covered, found.inherited), (12, 6));
    pruned(&place, &in_days(4000, &[]));
    let found = whole(&place).signed.unwrap();
    assert_eq!((found.pruned, found.inherited), (11, 6));
}

/// The same, and all of them are in the index.
async fn record_indexed(place: &Place, count: u64) {
    record(place, count).await;
    let (recorder, owner) = place.start("n");
    place.indexed();
    owner.close(PATIENCE);
    drop(recorder);
}

async fn old_records_go_by_their_class_and_the_rest_stays_proved(place: Place) {
    record_indexed(&place, 9000).await;
    let terms = || place.blocks_with(term::term(term::Field::Event, "dns"));
    assert_eq!(terms(), 2);
    assert!(pruned(&place, &in_days(6, &[])).is_empty(), "too young");
    let kept_until = |seq| place.log().kept_until(&Marks([(1, seq)].into())).unwrap();
    assert_eq!(kept_until(9000), [(1, 9000)].into());
    assert_eq!(kept_until(70), [(1, 70)].into());
    let removed = |classes: &[Class]| place.log().removed(classes).unwrap();
    assert_eq!(removed(Class::ALL), None);
    let all = place.all();
    let of_names = all.iter().filter(|found| found.row.event == "dns");
    let newest = of_names.map(|found| found.row.time.clone()).max();
    let went = pruned(&place, &in_days(8, &[]));
    assert_eq!(removed(Class::TRAFFIC), newest);
    assert_eq!(removed(&[Class::Connect, Class::Request]), None);
    assert_eq!(
        went.into_iter().collect::<Vec<_>>(),
        [(Class::Dns, 9000 / 7)]
    );
    let verified = whole(&place);
    assert_eq!(verified.head.seq, 9000);
    assert_eq!(kept_until(9000), [(1, 9000 - 9000 / 7)].into());
    assert_eq!(kept_until(70), [(1, 60)].into());
    assert_eq!(verified.signed.unwrap().pruned, 9000 / 7);
    assert!(pruned(&place, &in_days(8, &[])).is_empty(), "they are gone");
    // Others are found as before, and recording goes on.
    let mut log = place.log();
    let mut query = Query {
        filter: Filter {
            text: vec!["item 8".into()],
            ..Filter::default()
        },
        before: None,
        limit: 10,
    };
    assert_eq!(log.search(&query).unwrap().records.len(), 1);
    query.filter.text = vec!["item 7".into()];
    assert_eq!(log.search(&query).unwrap().records.len(), 0);
    assert_eq!(terms(), 0, "what went is not left in the index either");
    drop(log);
    record(&place, 10).await;
    assert_eq!(whole(&place).head.seq, 9010);
    // All of them: the last one stays, and the chain goes on from it.
    let everything = pruned(&place, &in_days(4000, &[]));
    assert_eq!(everything.values().sum::<u64>(), 9009 - 9000 / 7);
    assert_eq!(whole(&place).signed.unwrap().pruned, 9009);
    record(&place, 5).await;
    assert_eq!(whole(&place).head.seq, 9015);
    let kept = "request=forever".parse().unwrap();
    let went = pruned(&place, &in_days(8000, &[kept]));
    assert_eq!(went.keys().collect::<Vec<_>>(), Vec::<&Class>::new());
}

async fn an_export_with_its_checkpoints_is_proved_without_the_database(place: Place) {
    record(&place, 5000).await;
    pruned(&place, &in_days(8, &[]));
    let export = exported(&place);
    let trusted = [key(1).public()];
    let verdict = verify_lines(export.as_slice(), signed_by(&trusted));
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!(verdict.chains[0].node.as_deref(), Some("n"));
    let lines: Vec<&[u8]> = export.split_inclusive(|octet| *octet == b'\n').collect();
    let broken = |file: Vec<u8>| !verify_lines(file.as_slice(), signed_by(&trusted)).is_whole();
    // Any one line is missing: the header, a checkpoint, records here and there, the last one.
    for gone in [0, 1, 3, 5, 6, 2000, lines.len() - 1] {
        let rest = lines.iter().enumerate().filter(|(n, _)| *n != gone);
        let rest: Vec<&[u8]> = rest.map(|(_, line)| *line).collect();
        assert!(broken(rest.concat()), "line {gone}");
    }
    let text = String::from_utf8(export.clone()).unwrap();
    assert!(broken(text.replace("/item/4\"", "/item/5\"").into_bytes()));
    assert!(broken(
        text.replace("\"pruned\":[[", "\"pruned\":[[1,2],[")
            .into_bytes()
    ));
    assert!(!verify_lines(export.as_slice(), signed_by(&[key(2).public()])).is_whole());
    assert!(broken(Vec::new()), "nothing is not what the key signed");
}

async fn a_record_that_was_kept_elsewhere_is_missed_and_one_that_was_removed_is_not_believed(
    place: Place,
) {
    record(&place, 5000).await;
    let found = |seq| {
        let at = Position {
            chain: place.log().after(&Marks::default(), 1).unwrap()[0].at.chain,
            seq,
        };
        let found = place.log().found_at(at).unwrap().unwrap();
        Head {
            seq,
            hash: ChainHash::parse(found.row.hash.as_str()).unwrap(),
        }
    };
    // Of DNS, which goes; the last of its segment, which is of DNS, too; one that stays; the end.
    let known = [found(7), found(4095), found(8), found(5000)];
    let missing = |records: &[Head]| {
        let expected = Expected { keys: &[], records };
        let verdict = place.log().verify(expected).unwrap();
        assert!(verdict.is_whole());
        let missing = verdict.missing(records).into_iter();
        missing
            .map(|one| (one.record.seq, one.is_gone))
            .collect::<Vec<_>>()
    };
    assert_eq!(missing(&known), []);
    let other = Head {
        seq: 4095,
        ..known[0]
    };
    pruned(&place, &in_days(8, &[]));
    assert_eq!(missing(&known), [(7, true)]);
    assert_eq!(missing(&[other, known[3]]), [(4095, false)]);
}

async fn a_database_without_the_keys_word_is_broken_and_is_not_pruned(place: Place) {
    record(&place, 5000).await;
    pruned(&place, &in_days(8, &[]));
    let trusted = [key(1).public()];
    let harm = [
        "DELETE FROM @record WHERE position % 4096 = 100",
        "DELETE FROM @checkpoint WHERE number > 2",
        "DELETE FROM @checkpoint",
        "UPDATE @checkpoint SET line = replace(line, '\"last\":4095', '\"last\":4094')",
        "DELETE FROM @record; DELETE FROM @chain",
        "DELETE FROM @record WHERE position % 1099511627776 > 4990;
         UPDATE @chain SET seq = 4990, hash = (SELECT UNHEX FROM @record
         WHERE position % 1099511627776 = 4990)",
    ];
    for harm in harm {
        let harmed = place.copy();
        // The octets of 64 digits, as either database has it.
        harmed.harm(&harm.replace("UNHEX", harmed.unhex()));
        let verdict = harmed.log().verify(signed_by(&trusted)).unwrap();
        assert!(!verdict.is_whole(), "{harm}");
    }
    // What does not hold is not signed anew.
    place.harm("UPDATE @record SET line = replace(line, '/item/4\"', '/item/5\"')");
    let chains = place.prune(&key(1), &in_days(40, &[]));
    let fault = chains[0].outcome.as_ref().unwrap_err();
    assert!(
        matches!(fault, crate::chain::ChainFault::Changed { .. }),
        "{fault}"
    );
}

async fn two_who_prune_at_once_do_not_contradict_each_other(place: Place) {
    record(&place, 9000).await;
    let barrier = std::sync::Barrier::new(4);
    let total: u64 = std::thread::scope(|scope| {
        let prune = || {
            barrier.wait();
            pruned(&place, &in_days(40, &[])).values().sum::<u64>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(prune)).collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(total, 8999);
    assert_eq!(whole(&place).signed.unwrap().pruned, 8999);
}

async fn what_was_removed_leaves_the_index_also_where_that_was_interrupted(place: Place) {
    record_indexed(&place, 9000).await;
    let terms = || place.blocks_with(term::term(term::Field::Event, "dns"));
    assert_eq!(terms(), 2);
    // Ended behind the first segment's records, before its index.
    let (stop, go) = match &place {
        Place::Sqlite(_) => (
            "CREATE TRIGGER stop BEFORE DELETE ON posting BEGIN SELECT RAISE(ABORT, 'stopped'); END",
            "DROP TRIGGER stop",
        ),
        Place::Postgres(_) => (
            "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN RAISE EXCEPTION 'stopped'; END$$;
             CREATE TRIGGER stop BEFORE DELETE OR UPDATE ON @posting EXECUTE FUNCTION stop()",
            "DROP FUNCTION stop CASCADE",
        ),
    };
    place.harm(stop);
    let old = in_days(8, &[]);
    place.try_prune(None, &key(1), &old).unwrap_err();
    assert_eq!(terms(), 2);
    place.harm(go);
    // Nothing of that segment goes any more, and the index is tidied all the same.
    let went = pruned(&place, &old);
    assert!(
        went.get(&Class::Dns).is_some_and(|count| *count < 9000 / 7),
        "{went:?}"
    );
    assert_eq!(terms(), 0);
    assert_eq!(whole(&place).signed.unwrap().pruned, 9000 / 7);
}

/// The same key signs both.
async fn only_the_chain_that_is_named_loses_records(place: Place) {
    for node in ["n", "m"] {
        let (recorder, owner) = place.start(node);
        fill(&recorder, 50).await;
        owner.close(PATIENCE);
    }
    let old = in_days(40, &[]);
    assert!(place.prune_of(Some("nobody"), &key(1), &old).is_empty());
    let mut chains = place.prune_of(Some("m"), &key(1), &old);
    assert_eq!(chains.len(), 1);
    let gone: u64 = chains.remove(0).outcome.unwrap().values().sum();
    assert_eq!(gone, 49);
    let left = |node: &str| {
        let all = place.all();
        all.iter().filter(|found| found.row.node == node).count()
    };
    assert_eq!((left("n"), left("m")), (50, 1));
}
