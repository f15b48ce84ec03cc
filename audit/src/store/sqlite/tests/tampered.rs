//! A database that somebody changed: found, named, and not continued as if it were ours.

use super::*;

#[tokio::test]
async fn a_changed_moved_or_cut_record_is_found_and_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    for n in 1..=5 {
        recorder.record(numbered(n)).await.unwrap();
    }
    owner.close(PATIENCE);
    // The last handle moves the log into the database.
    drop(recorder);
    assert_eq!(verified(&path), [5]);
    let harm = [
        "UPDATE record SET line = replace(line, 'h3.', 'x3.')",
        "DELETE FROM record WHERE line LIKE '{\"seq\":3,%'",
        "DELETE FROM record WHERE line LIKE '{\"seq\":5,%'",
        "DELETE FROM record",
        "UPDATE record SET position = position + 10 WHERE line LIKE '{\"seq\":5,%'",
        "UPDATE chain SET node = 'another'",
    ];
    for (n, harm) in harm.into_iter().enumerate() {
        let harmed = folder.path().join(format!("harmed-{n}.db"));
        fs::copy(&path, &harmed).unwrap();
        let other = Connection::open(&harmed).unwrap();
        other.execute_batch(harm).unwrap();
        drop(other);
        let verdict = SqliteLog::open(&harmed).unwrap().verify(&[]).unwrap();
        assert!(verdict.chains[0].outcome.is_err(), "{harm}");
        // These took the end away: nothing may be written behind it.
        if (2..=4).contains(&n) {
            let refused = SqliteStore::open(&harmed, "n").unwrap_err();
            assert!(
                matches!(refused, OpenSqliteError::Continue { .. }),
                "{harm}: {refused:?}"
            );
        }
    }
    assert_eq!(verified(&path), [5]);
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

#[tokio::test]
async fn a_strangers_head_with_our_number_is_told_and_not_continued() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    let (recorder, owner) = start(&path, "n");
    for n in 1..=3 {
        recorder.record(numbered(n)).await.unwrap();
    }
    let other = Connection::open(&path).unwrap();
    let line: String = other
        .query_row(
            "SELECT line FROM record WHERE position = ?1",
            [key_of(1, 2)],
            |row| row.get(0),
        )
        .unwrap();
    let second = chain::open(format!("{line}\n").as_bytes()).unwrap();
    let (line, hash) = forged(Head {
        seq: 2,
        hash: second.hash,
    });
    other
        .execute(
            "UPDATE record SET line = ?2 WHERE position = ?1",
            (key_of(1, 3), &line),
        )
        .unwrap();
    other
        .execute("UPDATE chain SET hash = ?1", [hash.0])
        .unwrap();
    assert_eq!(verified(&path), [3], "by itself the forgery is whole");
    recorder.record(numbered(4)).await.unwrap();
    owner.close(PATIENCE);
    let mut log = SqliteLog::open(&path).unwrap();
    let all = log.after(&Marks::default(), 100).unwrap();
    let gap = all.iter().find(|found| found.row.event == "audit.gap");
    let told = gap.expect("a gap").row.findings.concat();
    assert!(
        told.contains("record 3, which was written before"),
        "{told}"
    );
    let verdict = log.verify(&[]).unwrap();
    assert!(verdict.chains[0].outcome.is_err(), "{verdict:?}");
}

#[tokio::test]
async fn records_behind_the_end_and_without_a_chain_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    for node in ["n", "m"] {
        let (recorder, owner) = start(&path, node);
        for n in 1..=3 {
            recorder.record(numbered(n)).await.unwrap();
        }
        owner.close(PATIENCE);
    }
    let mut log = SqliteLog::open(&path).unwrap();
    assert!(log.verify(&[]).unwrap().is_whole());
    let other = Connection::open(&path).unwrap();
    let (line, _) = forged(Head::START);
    // In place of a first one, behind an end, far behind it, and where no chain is.
    let keys = [key_of(1, 0), key_of(1, 4), key_of(2, 500), key_of(9, 1)];
    for key in keys {
        other
            .execute("INSERT INTO record VALUES (?1, ?2)", (key, &line))
            .unwrap();
    }
    let verdict = log.verify(&[]).unwrap();
    assert!(!verdict.is_whole());
    let named = verdict.strays.first.iter();
    let named: Vec<_> = named.map(|at| key_of(at.chain, at.seq)).collect();
    assert_eq!((verdict.strays.count, named), (4, keys.to_vec()));
    assert!(verdict.chains.iter().all(|chain| chain.outcome.is_ok()));
}

#[tokio::test]
async fn a_database_under_a_link_is_the_one_the_link_names() {
    let folder = tempfile::tempdir().unwrap();
    let (real, link) = (folder.path().join("real.db"), folder.path().join("link.db"));
    let (_recorder, owner) = start(&real, "n");
    owner.close(PATIENCE);
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let store = Box::new(SqliteStore::open(&link, "n").unwrap());
    let settings = RecorderSettings {
        durability: crate::Durability::Strict,
        ..RecorderSettings::new("n")
    };
    let (recorder, owner) = Recorder::start(store, settings).unwrap();
    recorder.record(numbered(1)).await.unwrap();
    owner.close(PATIENCE);
    assert_eq!(verified(&real), [1]);
    assert!(!folder.path().join("link.db-wal").exists());
    // A link that leads nowhere makes nothing there.
    let (nowhere, target) = (folder.path().join("to.db"), folder.path().join("made.db"));
    std::os::unix::fs::symlink(&target, &nowhere).unwrap();
    assert!(SqliteStore::open(&nowhere, "n").is_err());
    assert!(!target.exists());
}

#[tokio::test]
async fn another_database_in_its_place_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let (path, away) = (folder.path().join("a.db"), folder.path().join("b.db"));
    let (recorder, owner) = start(&path, "n");
    recorder.record(numbered(1)).await.unwrap();
    owner.close(PATIENCE);
    let mut log = SqliteLog::open(&path).unwrap();
    let end = log.end().unwrap();
    assert!(!log.replaced(&end).unwrap());
    fs::rename(&path, &away).unwrap();
    assert!(!log.replaced(&end).unwrap(), "nothing is there yet");
    let (_recorder, owner) = start(&path, "n");
    owner.close(PATIENCE);
    assert!(log.replaced(&end).unwrap());
}
