//! A server that fails over, is told otherwise, or comes back as another: nothing is acknowledged that is not
//! kept, and nothing is written among another chain's records.

use super::*;

/// Ends the connection that holds the chain's lock: the node's own.
const CUT: &str = "SELECT count(pg_terminate_backend(l.pid)) FROM pg_locks l
    JOIN pg_database d ON d.oid = l.database
    WHERE l.locktype = 'advisory' AND l.classid = 1734960993 AND l.granted AND d.datname = current_database()";

fn told_gaps(place: &Place) -> String {
    let all = place.all();
    let gaps = all.iter().filter(|found| found.row.event == "audit.gap");
    let told: Vec<_> = gaps.map(|found| found.row.findings.concat()).collect();
    told.concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_standby_has_not_got_is_not_acknowledged_when_the_connection_is_cut() {
    let server = Postgres::start();
    let (recorder, owner) = start(&server.url("postgres"), RecorderSettings::new("n"));
    recorder.record(numbered(1)).await.unwrap();
    // A standby that is waited for and does not come.
    server.sql(
        "postgres",
        "ALTER SYSTEM SET synchronous_standby_names = 'nobody'",
    );
    server.sql("postgres", "SELECT pg_reload_conf()");
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
    let mut number = 2;
    let asked = recorder.clone();
    let tasks = tokio::runtime::Handle::current();
    let mut writing = tasks.spawn(async move { asked.record(numbered(2)).await });
    for _ in 0..500 {
        if writing.is_finished() {
            // The server had not read its settings anew.
            writing.await.unwrap().unwrap();
            number += 1;
            let asked = recorder.clone();
            writing = tasks.spawn(async move { asked.record(numbered(number)).await });
        }
        if server.ask("postgres", waits) != "0" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_ne!(server.ask("postgres", CUT), "0");
    let answer = writing.await.unwrap();
    assert!(answer.is_err(), "acknowledged: {answer:?}");
    server.sql("postgres", "ALTER SYSTEM RESET synchronous_standby_names");
    server.sql("postgres", "SELECT pg_reload_conf()");
    while recorder.record(numbered(100)).await.is_err() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    owner.close(PATIENCE);
}

#[tokio::test]
async fn a_commit_waits_for_the_disk_whatever_the_server_is_told_later() {
    let server = Postgres::start();
    let record = PostgresRecord::open(&server.url("postgres")).unwrap();
    let link = record.connect(Duration::from_secs(5)).unwrap();
    let how = || {
        let asked = link.client().query_one("SHOW synchronous_commit", &[]);
        link.asked(asked).unwrap().get::<_, String>(0)
    };
    assert_eq!(how(), "on");
    server.sql("postgres", "ALTER SYSTEM SET synchronous_commit = off");
    server.sql("postgres", "SELECT pg_reload_conf()");
    let mut tries = 0;
    while server.ask("postgres", "SHOW synchronous_commit") != "off" && tries < 500 {
        tries += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    // By now the server's other processes were told, too.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(how(), "on");
}

#[tokio::test]
async fn a_chain_that_became_another_is_not_written_to() {
    let place = Place::postgres();
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(1)).await.unwrap();
    database(&place).sql("UPDATE gig.audit_chain SET chain = 77");
    assert_eq!(database(&place).sql(CUT), "1");
    let refused = recorder.record(numbered(2)).await.unwrap_err();
    let words = "no longer has this node's chain";
    assert!(refused.why.contains(words), "{}", refused.why);
    let rows = "SELECT count(*) FROM gig.audit_record";
    assert_eq!(database(&place).sql(rows), "1");
    owner.close(PATIENCE);
}

#[tokio::test]
async fn a_database_that_went_on_with_other_records_is_told_and_refuses_nothing_for_long() {
    let place = Place::postgres();
    let (recorder, owner) = place.start("n");
    for n in 1..=3 {
        recorder.record(numbered(n)).await.unwrap();
    }
    // As another server that was promoted: it has another third record, and two more.
    database(&place).sql(
        "UPDATE gig.audit_record SET line = replace(line, 'h3.', 'x3.');
         INSERT INTO gig.audit_record SELECT max(position) + 1, max(line) FROM gig.audit_record;
         INSERT INTO gig.audit_record SELECT max(position) + 1, max(line) FROM gig.audit_record;
         UPDATE gig.audit_chain SET seq = 5, hash = decode(repeat('ab', 32), 'hex')",
    );
    assert_eq!(database(&place).sql(CUT), "1");
    let Sequence(seq) = recorder.record(numbered(4)).await.unwrap();
    assert!(seq > 5, "{seq}");
    recorder.record(numbered(5)).await.unwrap();
    owner.close(PATIENCE);
    let told = told_gaps(&place);
    assert!(
        told.contains("record 3, which was written before, is another now"),
        "{told}"
    );
    let verdict = place
        .log()
        .verify(crate::verify::Expected::default())
        .unwrap();
    assert!(verdict.chains[0].outcome.is_err());
}

#[tokio::test]
async fn a_session_of_ours_that_the_server_has_yet_to_miss_is_waited_for() {
    let place = Arc::new(Place::postgres());
    let (recorder, owner) = place.start("n");
    recorder.record(numbered(1)).await.unwrap();
    let hold = "SET statement_timeout TO '20s'; SELECT pg_advisory_lock(1734960993, chain), pg_sleep(1) FROM gig.audit_chain";
    let other = Arc::clone(&place);
    let holding = std::thread::spawn(move || database(&other).sql(hold));
    // It stands in line for the lock, and has it for a second as soon as the node's session is gone.
    let waits = "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
                 WHERE NOT l.granted AND d.datname = current_database()";
    let mut tries = 0;
    while database(&place).sql(waits) == "0" && tries < 500 {
        tries += 1;
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(database(&place).sql(CUT), "1");
    recorder.record(numbered(2)).await.unwrap();
    holding.join().unwrap();
    owner.close(PATIENCE);
    assert_eq!(place.verified(), [2]);
}
