//! What only a server that others use, too, can do: two nodes of one name, a server that goes away, is slow or
//! full, a connection that is cut in the middle.

use std::time::Duration;

use super::*;
use crate::{
    Home, Recorder, RecorderOwner, RecorderSettings, Sequence,
    counted::takes_back,
    store::tests::{
        PATIENCE, Place, key, numbered,
        server::{Database, Postgres},
        signed_by,
    },
};

mod failover;

fn database(place: &Place) -> &Database {
    match place {
        Place::Postgres(database) => database,
        Place::Sqlite(_) => panic!("another one"),
    }
}

fn start(url: &str, settings: RecorderSettings) -> (Recorder, RecorderOwner) {
    let record = PostgresRecord::open(url).unwrap();
    let store = record.write(&settings.node, key(1), true).unwrap();
    Recorder::start(Box::new(store), settings).unwrap()
}

#[tokio::test]
async fn two_nodes_of_one_name_are_refused_and_commands_show_their_key() {
    let place = Place::postgres();
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(1)).await.unwrap();
    let home = place.home();
    let refused = |n: u8, serves: bool| {
        let opened = home.store("n", key(n), serves).map(drop);
        opened.unwrap_err().to_string()
    };
    for serves in [true, false] {
        let words = refused(2, serves);
        assert!(words.contains("another gig records as n"), "{words}");
        assert!(words.contains("GIG_NODE"), "{words}");
    }
    // Of the same data directory: a command.
    drop(home.store("n", key(1), false).unwrap());
    drop(home.store("m", key(2), true).unwrap());
    recorder.record(numbered(2)).await.unwrap();
    owner.close(PATIENCE);
    drop(recorder);
    // The name is free again; the last one who served has it.
    let mut taken = home.store("n", key(2), true);
    while taken.is_err() {
        std::thread::sleep(Duration::from_millis(20));
        taken = home.store("n", key(2), true);
    }
    drop(taken);
    assert_eq!(place.verified(), [2, 0]);
}

#[tokio::test]
async fn of_two_that_start_at_once_by_one_name_one_is_refused() {
    let place = Place::postgres();
    let home = place.home();
    let opened = std::thread::scope(|scope| {
        let open = |n: u8| {
            let home = &home;
            scope.spawn(move || home.store("n", key(n), true))
        };
        let threads = [open(1), open(2)];
        threads.map(|one| one.join().unwrap())
    });
    let served = opened.iter().filter(|one| one.is_ok()).count();
    assert_eq!(
        served,
        1,
        "{:?}",
        opened.iter().map(Result::is_ok).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_server_that_is_gone_refuses_and_the_gap_is_recorded_when_it_is_back() {
    let mut server = Postgres::start();
    let url = server.url("postgres");
    let (recorder, owner) = start(&url, RecorderSettings::new("n"));
    for n in 1..=3 {
        recorder.record(numbered(n)).await.unwrap();
    }
    server.crash();
    let refused = recorder.record(numbered(4)).await.unwrap_err();
    assert!(!refused.why.is_empty());
    assert!(!recorder.is_well());
    // It was waited for once; from then on whoever records is refused at once.
    let again = recorder.record(numbered(5)).await.unwrap_err();
    assert!(
        again.why.contains("cannot reach the record"),
        "{}",
        again.why
    );
    server.start_again();
    while !recorder.is_well() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    recorder.record(numbered(6)).await.unwrap();
    owner.close(PATIENCE);
    let home = Home::Postgres(PostgresRecord::open(&url).unwrap());
    let mut log = home.log().unwrap();
    assert!(
        log.verify(crate::verify::Expected::default())
            .unwrap()
            .is_whole()
    );
    let all = log.after(&crate::search::Marks::default(), 100).unwrap();
    let conns: Vec<u64> = all.iter().filter_map(|found| found.row.conn).collect();
    assert!(
        conns.starts_with(&[1, 2, 3]) && conns.ends_with(&[6]),
        "{conns:?}"
    );
    let gaps = all.iter().filter(|found| found.row.event == "audit.gap");
    let told: Vec<_> = gaps.map(|found| found.row.findings.concat()).collect();
    assert!(told.concat().contains("records were refused"), "{told:?}");
    // A log that was open all the time finds the server again.
    server.crash();
    assert!(log.end().is_err());
    server.start_again();
    assert!(log.end().is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_that_is_cut_under_load_loses_and_doubles_nothing() {
    let place = Place::postgres();
    let (recorder, owner) = place.start("n");
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
               WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..8_u64 {
        let recorder = recorder.clone();
        tasks.spawn(async move {
            let mut kept = Vec::new();
            for n in 0..300 {
                let number = task * 1000 + n;
                if let Ok(Sequence(seq)) = recorder.record(numbered(number)).await {
                    kept.push((seq, number));
                }
            }
            kept
        });
    }
    for _ in 0..15 {
        tokio::task::block_in_place(|| database(&place).sql(cut));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let acknowledged = tasks.join_all().await.concat();
    assert!(acknowledged.len() > 1000, "{}", acknowledged.len());
    owner.close(PATIENCE);
    let all = place.all();
    assert_eq!(place.verified(), [all.len() as u64]);
    for (seq, number) in acknowledged {
        let found = all.iter().find(|found| found.row.seq == seq);
        assert_eq!(found.unwrap().row.conn, Some(number));
    }
    // Nothing that was asked for once is there twice.
    let mut conns: Vec<_> = all.iter().filter_map(|found| found.row.conn).collect();
    let count = conns.len();
    conns.sort_unstable();
    conns.dedup();
    assert_eq!(conns.len(), count);
}

#[tokio::test]
async fn a_server_that_is_slow_or_full_refuses_and_tells_the_gap_later() {
    let place = Place::postgres();
    let settings = RecorderSettings {
        deadline: Duration::from_millis(300),
        ..RecorderSettings::new("n")
    };
    let (recorder, owner) = start(&database(&place).url(), settings);
    recorder.record(numbered(1)).await.unwrap();
    // As a full disk says it.
    database(&place).sql(
        "CREATE FUNCTION gig.no_room() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device'
            USING ERRCODE = 'disk_full'; END $$;
         CREATE TRIGGER no_room BEFORE INSERT ON gig.audit_record EXECUTE FUNCTION gig.no_room()",
    );
    let full = recorder.record(numbered(2)).await.unwrap_err();
    assert!(full.why.contains("No space left on device"), "{}", full.why);
    assert!(!recorder.is_well());
    // Slow: longer than whoever records waits.
    database(&place).sql(
        "CREATE OR REPLACE FUNCTION gig.no_room() RETURNS trigger LANGUAGE plpgsql AS
         $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$",
    );
    let slow = recorder.record(numbered(3)).await.unwrap_err();
    assert!(slow.why.contains("no answer"), "{}", slow.why);
    database(&place).sql("DROP TRIGGER no_room ON gig.audit_record");
    let mut tries = 0;
    while recorder.record(numbered(4)).await.is_err() && tries < 200 {
        tries += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    owner.close(PATIENCE);
    let all = place.all();
    assert_eq!(place.verified(), [all.len() as u64]);
    let gaps = all.iter().filter(|found| found.row.event == "audit.gap");
    let told: Vec<_> = gaps.map(|found| found.row.findings.concat()).collect();
    assert!(told.concat().contains("records were refused"), "{told:?}");
    // What sets the third right may come behind it, on a busy machine.
    let mut own = all
        .iter()
        .filter(|found| takes_back(&found.row.findings).is_none());
    assert_eq!(own.next_back().unwrap().row.conn, Some(4));
}

#[tokio::test]
async fn a_group_of_any_size_is_written_in_parts_and_whole() {
    let place = Place::postgres();
    let (recorder, owner) = place.start("n");
    // Some twenty megabytes that are handed in at once.
    let long: Arc<str> = "/x".repeat(4000).into();
    for n in 0..2500 {
        let mut entry = numbered(n);
        entry.path = Some(Arc::clone(&long));
        recorder.queue(entry).unwrap();
    }
    // Nobody waits for them, and a busy machine takes its time.
    recorder.record_unhurried(numbered(1)).await.unwrap();
    owner.close(PATIENCE);
    assert_eq!(place.verified(), [2501]);
}

#[tokio::test]
async fn a_record_goes_into_a_file_and_from_it_into_an_empty_database_and_proves_the_same() {
    let place = Place::postgres();
    for (node, count) in [("n", 5000), ("m", 30)] {
        let (recorder, owner) = place.start(node);
        for n in 1..count {
            recorder.queue(numbered(n)).unwrap();
        }
        recorder.record(numbered(count)).await.unwrap();
        owner.close(PATIENCE);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("copy.db");
    let record = PostgresRecord::open(&database(&place).url()).unwrap();
    record.save_to(&path).unwrap();
    let marks = crate::search::Marks::default();
    // A node that records much leaves the other its share of what is read at once.
    let some = place.home().log().unwrap().after(&marks, 100).unwrap();
    let mut of: [usize; 2] = [0; 2];
    for found in &some {
        of[usize::from(found.at.chain != some[0].at.chain)] += 1;
    }
    assert_eq!(of, [30, 70]);
    let lines = |home: &Home| {
        let mut log = home.log().unwrap();
        let verdict = log.verify(signed_by(&[key(1).public()])).unwrap();
        assert!(verdict.is_whole(), "{verdict:?}");
        let all = log.after(&marks, 100_000).unwrap().into_iter();
        all.map(|found| found.line).collect::<Vec<_>>()
    };
    let kept = lines(&place.home());
    assert_eq!(kept.len(), 5030);
    assert!(kept == lines(&Home::Sqlite(path.clone())));
    let mut copy = crate::SqliteLog::open(&path).unwrap();
    assert!(copy.unindexed().unwrap() <= 5030 - 4095);
    // What holds a record is evidence, and not written over.
    assert!(!record.load_from(&path).unwrap());
    let other = Place::postgres();
    let fresh = PostgresRecord::open(&database(&other).url()).unwrap();
    assert!(fresh.load_from(&path).unwrap());
    assert!(kept == lines(&other.home()));
    // The chain is continued, and a new node is the third.
    for (node, ends) in [("n", vec![5001, 30]), ("o", vec![5001, 30, 1])] {
        let (recorder, owner) = other.start(node);
        recorder.record(numbered(1)).await.unwrap();
        owner.close(PATIENCE);
        assert_eq!(other.verified(), ends);
    }
}
