//! Counts say what the records say: while they are written, after a crash, of several nodes, of what is older than
//! counts are, and when the old ones have gone.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    counts::{
        Decided, MOST_HOSTS, MOST_OF_DESTINATION, MOST_OF_PROFILE, Tried, TriedAsked,
        counting::{Ledger as _, Most},
    },
    retention::Keep,
    row::Row,
};

on_both! {
    counts_are_those_of_the_records_whatever_is_counted_yet,
    a_node_that_dies_between_two_counts_loses_none_and_doubles_none,
    who_counts_beside_another_counts_nothing_twice,
    what_is_older_than_counts_is_counted_from_the_newest_on,
    counts_of_several_nodes_are_added_up_and_a_gone_nodes_are_counted_too,
    names_without_end_are_counted_together_and_hide_nobody_elses,
    paths_without_end_hide_no_other_destination_of_their_server,
    attempts_are_read_up_to_so_many_octets,
    counts_go_with_the_records_that_they_are_of,
    counts_of_what_nobody_signed_yet_stay_with_their_records,
    counts_and_how_far_they_go_are_written_both_or_neither,
    what_a_gone_node_left_is_counted_to_its_end,
    what_came_too_late_is_counted_as_denied_alone,
}

fn decided(place: &Place) -> Decided {
    place.log().decided("2000-01-01T00", "2000-01-01").unwrap()
}

fn tried(place: &Place, denied: bool) -> Tried {
    let asked = TriedAsked {
        since: "2000-01-01".to_owned(),
        server: None,
        denied,
    };
    place.log().tried(&asked).unwrap()
}

/// Decisions by verdict, as the records have them and as they were counted.
fn sums(place: &Place) -> [BTreeMap<String, u64>; 2] {
    let mut of_records = BTreeMap::new();
    for found in place.all() {
        let Row { event, verdict, .. } = found.row;
        if matches!(event.as_str(), "dns" | "connect" | "request") {
            *of_records.entry(verdict.unwrap()).or_default() += 1;
        }
    }
    [of_records, by_verdict(&decided(place))]
}

fn by_verdict(decided: &Decided) -> BTreeMap<String, u64> {
    let mut counted = BTreeMap::new();
    for one in &decided.hours {
        *counted.entry(one.verdict.clone()).or_default() += one.count;
    }
    counted
}

impl Place {
    /// How far chains are counted: chain, first, next.
    fn counted(&self) -> Vec<(u32, u64, u64)> {
        match self.home() {
            Home::Sqlite(path) => {
                let other = rusqlite::Connection::open(path).unwrap();
                let look = "SELECT chain, first, next FROM counted ORDER BY chain";
                let mut look = other.prepare(look).unwrap();
                let rows = look.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
                rows.unwrap().map(Result::unwrap).collect()
            }
            Home::Postgres(record) => record.log().unwrap().counted(),
        }
    }

    /// Waits until a chain is counted from its beginning to near this place.
    fn until_counted(&self, chain: u32, end: u64) {
        let begun = crate::clock::Moment::now();
        loop {
            let marks = self.counted();
            let is_there = |(of, first, next): &(u32, u64, u64)| {
                *of == chain && *first == 0 && next + 1024 > end
            };
            if marks.iter().any(is_there) {
                return;
            }
            assert!(begun.elapsed() < PATIENCE, "{marks:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn counts_are_those_of_the_records_whatever_is_counted_yet(place: Place) {
    let (recorder, owner) = place.start("n");
    // Nothing is counted yet.
    fill(&recorder, 700).await;
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    assert_eq!(counted.values().sum::<u64>(), 700);
    fill(&recorder, 5000).await;
    // While it is being counted: what is not yet is said, and nothing is counted twice.
    let now = decided(&place);
    let counted = by_verdict(&now);
    let is_said = now.extent.since.is_some();
    assert_eq!(counted["deny"] < 2850, is_said, "{now:?}");
    assert!(counted["deny"] <= 2850, "{counted:?}");
    place.until_counted(1, 5700);
    let [records, counted] = sums(&place);
    assert_eq!((counted, records["deny"]), (records.clone(), 2850));
    let all = decided(&place);
    assert_eq!(all.hosts.len(), 10);
    assert!(all.hosts.iter().all(|one| one.sum() == 570), "{all:?}");
    assert!(all.extent.is_whole_from("2000"));
    // Of each attempt its newest record: what path it asked for was recorded twice at most.
    let kept = tried(&place, true);
    let one = &kept.attempts[0];
    let newest = place.log().found_at(one.newest).unwrap().unwrap();
    assert_eq!(newest.row.path, one.what.path);
    assert_eq!(newest.row.time, one.last);
    owner.close(PATIENCE);
}

async fn a_node_that_dies_between_two_counts_loses_none_and_doubles_none(place: Place) {
    for round in 1..=4 {
        let (recorder, owner) = place.start("n");
        fill(&recorder, 1500).await;
        // At whatever it is: nothing is counted twice, and what is not counted yet is said.
        owner.close(PATIENCE);
        drop(recorder);
        let [records, counted] = sums(&place);
        let is_said = decided(&place).extent.since.is_some();
        let missing = records["deny"].checked_sub(counted["deny"]).unwrap();
        assert_eq!(missing > 0, is_said, "{round}: {records:?} {counted:?}");
    }
    let (recorder, owner) = place.start("n");
    fill(&recorder, 1100).await;
    place.until_counted(1, 7100);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    assert_eq!(counted.values().sum::<u64>(), 7100);
    owner.close(PATIENCE);
}

async fn counts_and_how_far_they_go_are_written_both_or_neither(place: Place) {
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(1)).await.unwrap();
    // Attempts are written last of all.
    place.harm(match &place {
        Place::Sqlite(_) => {
            "CREATE TRIGGER fails BEFORE INSERT ON count_attempt BEGIN SELECT RAISE(ABORT, 'fails'); END"
        }
        Place::Postgres(_) => {
            "CREATE FUNCTION gig.fails() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN RAISE EXCEPTION 'fails'; END $$;
             CREATE TRIGGER fails BEFORE INSERT ON gig.audit_count_attempt EXECUTE FUNCTION gig.fails()"
        }
    });
    fill(&recorder, 2100).await;
    // It is tried with each thousand records, and comes to nothing.
    for _ in 0..20 {
        assert_eq!(place.counted(), []);
        let [records, counted] = sums(&place);
        assert_eq!(counted, records);
        std::thread::sleep(Duration::from_millis(10));
    }
    owner.close(PATIENCE);
    drop(recorder);
    assert_eq!(place.counted(), []);
    let hours = place
        .log()
        .decided("2000-01-01T00", "2000-01-01")
        .unwrap()
        .hours;
    assert!(!hours.is_empty(), "they are read line by line");
    place.harm(match &place {
        Place::Sqlite(_) => "DROP TRIGGER fails",
        Place::Postgres(_) => "DROP FUNCTION gig.fails() CASCADE",
    });
    let (recorder, owner) = place.start("n");
    fill(&recorder, 1100).await;
    place.until_counted(1, 3201);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    owner.close(PATIENCE);
}

async fn what_a_gone_node_left_is_counted_to_its_end(place: Place) {
    let (gone, owner) = place.start("gone");
    fill(&gone, 1500).await;
    place.until_counted(1, 1500);
    owner.close(PATIENCE);
    drop(gone);
    // Two minutes ago, as far as its last record says.
    let earlier = Timestamp::now() - SignedDuration::from_mins(2);
    let last = place.all().pop().unwrap();
    place.harm(&format!(
        "UPDATE @record SET line = replace(line, '{}', '{earlier:.6}') WHERE line LIKE '{{\"seq\":1500,%'",
        last.row.time
    ));
    let (recorder, owner) = place.start("n");
    fill(&recorder, 3000).await;
    let begun = crate::clock::Moment::now();
    while !place.counted().contains(&(1, 0, 1501)) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", place.counted());
        std::thread::sleep(Duration::from_millis(10));
    }
    place.until_counted(2, 3000);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    owner.close(PATIENCE);
}

async fn counts_of_what_nobody_signed_yet_stay_with_their_records(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 2100).await;
    place.until_counted(1, 2100);
    let later = Retention::at(Timestamp::now() + SignedDuration::from_hours(24 * 400), &[]);
    place.prune(&key(1), &later);
    let [records, counted] = sums(&place);
    assert_eq!((records.values().sum::<u64>(), counted), (2100, records));
    owner.close(PATIENCE);
}

async fn who_counts_beside_another_counts_nothing_twice(place: Place) {
    let (one, owner) = place.start("n");
    let (other, other_owner) = place.start_as("n", false);
    tokio::join!(fill(&one, 4000), fill(&other, 4000));
    place.until_counted(1, 8000);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    assert_eq!(counted.values().sum::<u64>(), 8000);
    owner.close(PATIENCE);
    other_owner.close(PATIENCE);
}

async fn what_is_older_than_counts_is_counted_from_the_newest_on(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 6000).await;
    place.until_counted(1, 6000);
    owner.close(PATIENCE);
    drop(recorder);
    for lost in ["count_hour", "count_host", "count_attempt"] {
        place.harm(&format!("DELETE FROM @{lost}"));
    }
    // Counted to here, and nothing of before.
    place.harm("UPDATE @counted SET first = 4096, next = 5120");
    let extent = decided(&place).extent;
    let all = place.all();
    assert_eq!(extent.since.as_deref(), Some(all[4095].row.time.as_str()));
    assert!(!extent.is_whole_from("2000"));
    place.harm("DELETE FROM @counted");
    let (recorder, owner) = place.start("n");
    fill(&recorder, 1).await;
    place.until_counted(1, 6001);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    assert_eq!(decided(&place).extent.since, None);
    owner.close(PATIENCE);
}

async fn counts_of_several_nodes_are_added_up_and_a_gone_nodes_are_counted_too(place: Place) {
    // One that counts nothing, as before there were counts, and is gone.
    let (gone, owner) = place.start("gone");
    fill(&gone, 2500).await;
    owner.close(PATIENCE);
    drop(gone);
    for lost in ["counted", "count_hour", "count_host", "count_attempt"] {
        place.harm(&format!("DELETE FROM @{lost}"));
    }
    let nodes = ["a", "b"].map(|node| place.start(node));
    for (recorder, _) in &nodes {
        fill(recorder, 1200).await;
    }
    place.until_counted(1, 2048);
    place.until_counted(2, 1200);
    place.until_counted(3, 1200);
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    assert_eq!(counted.values().sum::<u64>(), 4900);
    // Each attempt once, though two nodes saw it.
    let kept = tried(&place, false).attempts;
    let alike: Vec<_> = kept
        .iter()
        .filter(|one| one.what.path.as_deref() == Some("/item/1101"))
        .collect();
    assert_eq!((alike.len(), alike[0].count), (1, 3));
    for (_, owner) in nodes {
        owner.close(PATIENCE);
    }
}

async fn names_without_end_are_counted_together_and_hide_nobody_elses(place: Place) {
    let (recorder, owner) = place.start("n");
    let noisy = |n: usize| {
        let mut entry = numbered(14);
        entry.server = Some("noisy".into());
        entry.host = Some(format!("{n}.example").into());
        entry
    };
    let count = MOST_HOSTS + 2000;
    for n in 0..count {
        while recorder.queue(noisy(n)).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let mut calm = numbered(14);
    calm.server = Some("calm".into());
    calm.host = Some("wanted.example".into());
    recorder.record(calm).await.unwrap();
    fill(&recorder, 1100).await;
    place.until_counted(1, count as u64 + 1000);
    let all = decided(&place);
    let others = all.other_names;
    assert_eq!(others, 2000, "{}", all.hosts.len());
    assert!(all.hosts.iter().any(|one| one.host == "wanted.example"));
    let kept = tried(&place, true);
    let of = |server: &str| {
        kept.attempts
            .iter()
            .filter(|one| one.server == server)
            .count()
    };
    assert_eq!((of("noisy"), of("calm")), (MOST_OF_PROFILE, 1));
    let beyond = kept.beyond.iter().find(|(server, _)| server == "noisy");
    let rest = (count - MOST_OF_PROFILE) as u64;
    assert_eq!(beyond, Some(&("noisy".to_owned(), rest)));
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    owner.close(PATIENCE);
}

async fn counts_go_with_the_records_that_they_are_of(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 5000).await;
    place.until_counted(1, 5000);
    owner.close(PATIENCE);
    drop(recorder);
    let keep: Keep = "dns=2".parse().unwrap();
    let later = |days: i64| {
        let now = Timestamp::now() + SignedDuration::from_hours(24 * days);
        Retention::at(now, &[keep])
    };
    // Not yet: nothing is two days old.
    place.prune(&key(1), &later(1));
    let [records, counted] = sums(&place);
    assert_eq!(counted, records);
    place.prune(&key(1), &later(4));
    let counted = sums(&place)[1].values().sum::<u64>();
    // What is not counted yet is read: of the newest records, those that are there.
    let requests = (1..=5000_u64).filter(|n| !n.is_multiple_of(7)).count() as u64;
    let dns = 5000 - requests;
    assert!(
        (requests..requests + dns / 4).contains(&counted),
        "{counted}"
    );
    let kept = tried(&place, false).attempts.into_iter();
    let names = kept.filter(|one| one.what.event == "dns").count();
    assert!(names < 200, "{names}");
}

async fn paths_without_end_hide_no_other_destination_of_their_server(place: Place) {
    let (recorder, owner) = place.start("n");
    let denied = |host: &str, n: u64| {
        let mut entry = numbered(2 + 14 * n);
        entry.server = Some("docs".into());
        entry.host = Some(host.into());
        entry
    };
    // More than all that is kept, in steps that each begin with what was there.
    for n in 0..2100 {
        while recorder.queue(denied("h.example", n)).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    recorder.record(denied("wanted.example", 0)).await.unwrap();
    fill(&recorder, 1100).await;
    place.until_counted(1, 3201);
    let kept = tried(&place, true);
    let of = |host: &str| {
        let all = kept.attempts.iter();
        all.filter(|one| one.what.host.as_deref() == Some(host))
            .count()
    };
    assert_eq!(
        (of("h.example"), of("wanted.example")),
        (MOST_OF_DESTINATION, 1)
    );
    let beyond = kept.beyond.iter().find(|(server, _)| server == "docs");
    let rest = 2100 - MOST_OF_DESTINATION as u64;
    assert_eq!(beyond, Some(&("docs".to_owned(), rest)));
    owner.close(PATIENCE);
}

async fn attempts_are_read_up_to_so_many_octets(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 1100).await;
    place.until_counted(1, 1100);
    owner.close(PATIENCE);
    let asked = TriedAsked {
        since: "2000-01-01".to_owned(),
        ..TriedAsked::default()
    };
    let read = |rows, octets| {
        let most = Most { rows, octets };
        let lines = match place.home() {
            Home::Sqlite(path) => SqliteLog::open(&path).unwrap().attempts(&asked, most),
            Home::Postgres(record) => record.log().unwrap().attempts(&asked, most),
        };
        let lines = lines.unwrap();
        (lines.len(), most.is_reached(&lines))
    };
    let (all, reached) = read(10_000, 1 << 30);
    assert!(all > 500 && !reached, "{all}");
    assert_eq!(read(7, 1 << 30), (7, true));
    let (some, reached) = read(10_000, 1000);
    // Each has some hundred.
    assert!((2..20).contains(&some) && reached, "{some}");
}

async fn what_came_too_late_is_counted_as_denied_alone(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 2100).await;
    place.until_counted(1, 2100);
    // One that is counted, and one that is not yet.
    for seq in [1501, 2099] {
        let mut entry = numbered(seq);
        assert_eq!(
            entry.verdict.replace(VerdictWord::Deny),
            Some(VerdictWord::Allow)
        );
        entry.reason = Some(gig_policy::DenyReason::RecordUnavailable);
        entry.findings = vec![crate::counted::too_late(seq).into()];
        recorder.record(entry).await.unwrap();
    }
    let check = |count: u64| {
        let [records, counted] = sums(&place);
        assert_eq!(counted["allow"], records["allow"] - 2);
        assert_eq!(counted["deny"], records["deny"]);
        assert_eq!(records.values().sum::<u64>(), count);
        let hosts = decided(&place).hosts;
        let allowed: u64 = hosts.iter().map(|one| one.allowed).sum();
        assert_eq!(allowed, counted["allow"]);
    };
    check(2102);
    let kept = tried(&place, false).attempts;
    let of = |path: &str| {
        let alike = kept
            .iter()
            .filter(|one| one.what.path.as_deref() == Some(path));
        alike
            .map(|one| one.what.verdict.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(of("/item/1501"), ["deny"]);
    assert_eq!(of("/item/1503"), ["allow"]);
    fill(&recorder, 3000).await;
    place.until_counted(1, 5102);
    check(5102);
    // Counted anew, from the newest on.
    owner.close(PATIENCE);
    drop(recorder);
    for lost in ["counted", "count_hour", "count_host", "count_attempt"] {
        place.harm(&format!("DELETE FROM @{lost}"));
    }
    let (recorder, owner) = place.start("n");
    fill(&recorder, 1).await;
    place.until_counted(1, 5103);
    check(5103);
    owner.close(PATIENCE);
}
