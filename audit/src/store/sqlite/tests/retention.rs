//! Old records go, and what stays is proved; in the database and in an export of it.

use jiff::{SignedDuration, Timestamp};

use super::*;
use crate::{
    log::ChainProof,
    retention::{Class, Keep, Retention},
    search::term,
    signing::SigningKey,
    verify::verify_lines,
};

fn key(n: u8) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[n; 32]).unwrap())
}

fn start_signing(path: &Path) -> (Recorder, RecorderOwner) {
    let store = SqliteStore::open_signing(path, "n", Some(key(1))).unwrap();
    Recorder::start(Box::new(store), RecorderSettings::new("n")).unwrap()
}

/// Every seventh is of DNS, all others are requests.
async fn record(path: &Path, count: u64) {
    let (recorder, owner) = start_signing(path);
    for n in 1..count {
        while recorder.queue(numbered(n)).is_err() {
            tokio::task::yield_now().await;
        }
    }
    recorder.record(numbered(count)).await.unwrap();
    owner.close(PATIENCE);
}

fn in_days(days: i64, said: &[Keep]) -> Retention {
    let now = Timestamp::now() + SignedDuration::from_hours(24 * days);
    Retention::at(now, said)
}

fn pruned(path: &Path, retention: &Retention) -> std::collections::BTreeMap<Class, u64> {
    let key = key(1);
    let what = Prune {
        key: &key,
        trusted: &[],
        retention,
        dry_run: false,
    };
    let mut chains = prune(path, &what).unwrap();
    assert_eq!(chains.len(), 1);
    chains.remove(0).outcome.unwrap()
}

fn whole(path: &Path) -> crate::Verified {
    let mut log = SqliteLog::open(path).unwrap();
    let mut verdict = log.verify(&[key(1).public()]).unwrap();
    assert!(verdict.is_whole(), "{verdict:?}");
    verdict.chains.remove(0).outcome.unwrap()
}

fn exported(path: &Path) -> Vec<u8> {
    let mut log = SqliteLog::open(path).unwrap();
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

#[tokio::test]
async fn every_4096_records_are_signed_and_so_is_the_end() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    record(&path, 9000).await;
    let signed = whole(&path).signed.unwrap();
    assert_eq!((signed.covered, signed.pruned), (9000, 0));
    assert_eq!(signed.keys, [key(1).public()]);
    // Those that had not been signed when the end came are signed then.
    assert_eq!(signed.checkpoints, 3);
    // The next run goes on.
    record(&path, 10).await;
    let signed = whole(&path).signed.unwrap();
    assert_eq!((signed.covered, signed.checkpoints), (9010, 4));
    let mut log = SqliteLog::open(&path).unwrap();
    let verdict = log.verify(&[key(2).public()]).unwrap();
    assert!(!verdict.is_whole(), "signed by another key");
}

#[tokio::test]
async fn old_records_go_by_their_class_and_the_rest_stays_proved() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    record(&path, 9000).await;
    let (_recorder, owner) = start_signing(&path);
    indexed(&path);
    owner.close(PATIENCE);
    let other = Connection::open(&path).unwrap();
    let terms = || -> u64 {
        let dns = term::term(term::Field::Event, "dns");
        let count = "SELECT count(*) FROM posting WHERE term = ?1";
        other.query_row(count, [dns], |row| row.get(0)).unwrap()
    };
    assert_eq!(terms(), 2);
    assert!(pruned(&path, &in_days(6, &[])).is_empty(), "too young");
    let went = pruned(&path, &in_days(8, &[]));
    assert_eq!(
        went.into_iter().collect::<Vec<_>>(),
        [(Class::Dns, 9000 / 7)]
    );
    let verified = whole(&path);
    assert_eq!(verified.head.seq, 9000);
    assert_eq!(verified.signed.unwrap().pruned, 9000 / 7);
    assert!(pruned(&path, &in_days(8, &[])).is_empty(), "they are gone");
    // Others are found as before, and recording goes on.
    let mut log = SqliteLog::open(&path).unwrap();
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
    record(&path, 10).await;
    assert_eq!(whole(&path).head.seq, 9010);
    // All of them: the last one stays, and the chain goes on from it.
    let everything = pruned(&path, &in_days(4000, &[]));
    assert_eq!(everything.values().sum::<u64>(), 9009 - 9000 / 7);
    assert_eq!(whole(&path).signed.unwrap().pruned, 9009);
    record(&path, 5).await;
    assert_eq!(whole(&path).head.seq, 9015);
    let kept = "request=forever".parse().unwrap();
    let went = pruned(&path, &in_days(8000, &[kept]));
    assert_eq!(went.keys().collect::<Vec<_>>(), Vec::<&Class>::new());
}

#[tokio::test]
async fn an_export_with_its_checkpoints_is_proved_without_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    record(&path, 5000).await;
    pruned(&path, &in_days(8, &[]));
    let export = exported(&path);
    let trusted = [key(1).public()];
    let verdict = verify_lines(export.as_slice(), &trusted);
    assert!(verdict.is_whole(), "{verdict:?}");
    assert_eq!(verdict.chains[0].node.as_deref(), Some("n"));
    let lines: Vec<&[u8]> = export.split_inclusive(|octet| *octet == b'\n').collect();
    let broken = |file: Vec<u8>| !verify_lines(file.as_slice(), &trusted).is_whole();
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
    assert!(!verify_lines(export.as_slice(), &[key(2).public()]).is_whole());
    assert!(broken(Vec::new()), "nothing is not what the key signed");
}

#[tokio::test]
async fn a_database_without_the_keys_word_is_broken_and_is_not_pruned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    record(&path, 5000).await;
    pruned(&path, &in_days(8, &[]));
    let trusted = [key(1).public()];
    let harm = [
        "DELETE FROM record WHERE position % 4096 = 100",
        "DELETE FROM checkpoint WHERE number > 2",
        "DELETE FROM checkpoint",
        "UPDATE checkpoint SET line = replace(line, '\"last\":4095', '\"last\":4094')",
        "DELETE FROM record; DELETE FROM chain",
        "DELETE FROM record WHERE position % 1099511627776 > 4990;
         UPDATE chain SET seq = 4990, hash = (SELECT unhex(substr(line, -66, 64)) FROM record
         WHERE position % 1099511627776 = 4990)",
    ];
    for (n, harm) in harm.into_iter().enumerate() {
        let harmed = folder.path().join(format!("harmed-{n}.db"));
        fs::copy(&path, &harmed).unwrap();
        let other = Connection::open(&harmed).unwrap();
        other.execute_batch(harm).unwrap();
        drop(other);
        let verdict = SqliteLog::open(&harmed).unwrap().verify(&trusted).unwrap();
        assert!(!verdict.is_whole(), "{harm}");
    }
    // What does not hold is not signed anew.
    let other = Connection::open(&path).unwrap();
    other
        .execute_batch("UPDATE record SET line = replace(line, '/item/4\"', '/item/5\"')")
        .unwrap();
    drop(other);
    let retention = in_days(40, &[]);
    let key = key(1);
    let what = Prune {
        key: &key,
        trusted: &[],
        retention: &retention,
        dry_run: false,
    };
    let chains = prune(&path, &what).unwrap();
    let fault = chains[0].outcome.as_ref().unwrap_err();
    assert!(
        matches!(fault, chain::ChainFault::Changed { .. }),
        "{fault}"
    );
}

#[tokio::test]
async fn two_who_prune_at_once_do_not_contradict_each_other() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    record(&path, 9000).await;
    let barrier = std::sync::Barrier::new(4);
    let total: u64 = std::thread::scope(|scope| {
        let prune = || {
            barrier.wait();
            pruned(&path, &in_days(40, &[])).values().sum::<u64>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(prune)).collect();
        threads.into_iter().map(|one| one.join().unwrap()).sum()
    });
    assert_eq!(total, 8999);
    assert_eq!(whole(&path).signed.unwrap().pruned, 8999);
}
