//! Removing counts keeps nobody waiting, and where it fails what is new is counted.

use super::*;
use crate::counts::{
    counting::Ledger as _,
    removing::{Kept, MOST_DROPPED, Old, Swept, drop_counts, sweep},
};

/// Attempts of long ago: requests, and others.
fn left(database: &Connection) -> (u32, u32) {
    let look = "SELECT count(*) FILTER (WHERE class = 'request'), count(*) FILTER (WHERE class <> 'request')
                FROM count_attempt WHERE day < '2021'";
    let left = database.query_row(look, [], |row| Ok((row.get(0)?, row.get(1)?)));
    left.unwrap()
}

fn add(database: &Connection, class: &str, count: u32) {
    let insert = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
         INSERT INTO count_attempt SELECT '2020-01-0' || (1 + i % 9), 1, 'docs', 1, randomblob(16), ?1, 'x', 1, '', '', 1 FROM n";
    database.execute(insert, (class, count)).unwrap();
}

#[tokio::test]
async fn counts_go_a_few_at_a_time_and_what_stays_keeps_nothing_from_being_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    write_one(&path).await;
    let other = Connection::open(&path).unwrap();
    add(&other, "request", 700);
    add(&other, "connect", 600);
    let connection = database::open_to_write(&path).unwrap();
    let mut log = SqliteLog::over(connection, Place::of(&path).unwrap());
    let old = Old {
        chain: Some(1),
        class: Some("request"),
        before: "2021-01-01T00:00:00.000000Z",
    };
    let newest = log.drop_some(Kept::Attempts, &old, "").unwrap().unwrap();
    assert!(newest.starts_with("2020-01-0"), "{newest}");
    assert_eq!(left(&other), (700 - MOST_DROPPED, 600));
    drop_counts(&mut log, &old).unwrap();
    assert_eq!(left(&other), (0, 600));
    other
        .execute_batch(
            "CREATE TRIGGER stays BEFORE DELETE ON count_attempt BEGIN SELECT RAISE(ABORT, 'stays'); END",
        )
        .unwrap();
    let (recorder, owner) = start(&path, "n");
    for n in 0..1100 {
        recorder.record(numbered(n)).await.unwrap();
    }
    let begun = crate::clock::Moment::now();
    let counted = || {
        let look = "SELECT coalesce(max(next), 0) FROM counted";
        let next: u32 = other.query_row(look, [], |row| row.get(0)).unwrap();
        next
    };
    while counted() < 1024 {
        assert!(begun.elapsed() < PATIENCE, "{}", counted());
        std::thread::sleep(Duration::from_millis(10));
    }
    owner.close(PATIENCE);
    assert_eq!(left(&other), (0, 600));
    other.execute_batch("DROP TRIGGER stays").unwrap();
    let mut swept = Swept::default();
    while sweep(&mut log, &mut swept) {}
    assert_eq!(left(&other), (0, 0));
}
