//! What every database of records promises: each of these runs on SQLite and on a real PostgreSQL.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::{
    postgres::PostgresRecord,
    prune::{Prune, PrunedChain},
    sqlite::SqliteLog,
};
use crate::{
    Entry, Event, Home, PublicKey, Recorder, RecorderOwner, RecorderSettings, Sequence, SigningKey,
    VerdictWord,
    counts::CountedLog,
    retention::Retention,
    search::{Filter, Marks, Query},
    verify::Expected,
};

/// Makes two tests of each function: one on either database.
macro_rules! on_both {
    ($($name:ident,)+) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                super::$name($crate::store::tests::Place::sqlite()).await;
            })+
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
            async fn $name() {
                super::$name($crate::store::tests::Place::postgres()).await;
            })+
        }
    };
}

mod bounded;
mod counts;
mod in_chain;
mod retention;
pub(super) mod server;
mod tampered;

use server::Database;

on_both! {
    an_answer_means_that_the_database_holds_the_record,
    many_writers_get_one_chain_and_each_its_own_place,
    who_writes_to_one_chain_continues_each_other_and_nobody_is_refused,
    a_search_finds_by_its_index_exactly_what_reading_every_line_finds,
    what_was_not_indexed_when_gig_died_is_indexed_by_the_next,
    pages_of_several_nodes_are_of_one_time_and_each_record_comes_once,
}

/// Each chain is signed by these, and by nobody else.
pub(super) const fn signed_by(keys: &[PublicKey]) -> Expected<'_> {
    Expected { keys, records: &[] }
}

pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// A database of a test's own.
pub(super) enum Place {
    Sqlite(tempfile::TempDir),
    Postgres(Database),
}

impl Place {
    pub(super) fn sqlite() -> Self {
        Self::Sqlite(tempfile::tempdir().unwrap())
    }

    pub(super) fn postgres() -> Self {
        Self::Postgres(Database::fresh())
    }

    fn file(&self) -> Option<PathBuf> {
        match self {
            Self::Sqlite(folder) => Some(folder.path().join("audit.db")),
            Self::Postgres(_) => None,
        }
    }

    pub(super) fn home(&self) -> Home {
        match self {
            Self::Sqlite(_) => Home::Sqlite(self.file().unwrap()),
            Self::Postgres(database) => {
                Home::Postgres(PostgresRecord::open(&database.url()).unwrap())
            }
        }
    }

    /// The appliance of that name.
    pub(super) fn start(&self, node: &str) -> (Recorder, RecorderOwner) {
        self.start_as(node, true)
    }

    /// A command beside it, where it does not serve.
    fn start_as(&self, node: &str, serves: bool) -> (Recorder, RecorderOwner) {
        let store = self.home().store(node, key(1), serves).unwrap();
        Recorder::start(store, RecorderSettings::new(node)).unwrap()
    }

    pub(super) fn log(&self) -> Box<dyn CountedLog> {
        self.home().log().unwrap()
    }

    /// Where each chain ends, all of them being whole.
    pub(super) fn verified(&self) -> Vec<u64> {
        let verdict = self.log().verify(Expected::default()).unwrap();
        assert_eq!(verdict.strays.count, 0);
        let ends = verdict.chains.into_iter();
        ends.map(|one| one.outcome.unwrap().head.seq).collect()
    }

    /// Everything, oldest first within each chain.
    pub(super) fn all(&self) -> Vec<crate::search::Found> {
        self.log().after(&Marks::default(), 100_000).unwrap()
    }

    /// Waits until every full block is indexed.
    fn indexed(&self) {
        let home = self.home();
        let unindexed = || match &home {
            Home::Sqlite(path) => SqliteLog::open(path).unwrap().unindexed().unwrap(),
            Home::Postgres(record) => record.log().unwrap().unindexed().unwrap(),
        };
        while unindexed() > 4096 {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn prune(&self, key: &SigningKey, retention: &Retention) -> Vec<PrunedChain> {
        self.prune_of(None, key, retention)
    }

    fn prune_of(
        &self,
        only: Option<&str>,
        key: &SigningKey,
        retention: &Retention,
    ) -> Vec<PrunedChain> {
        self.try_prune(only, key, retention).unwrap()
    }

    fn try_prune(
        &self,
        only: Option<&str>,
        key: &SigningKey,
        retention: &Retention,
    ) -> Result<Vec<PrunedChain>, super::prune::PruneError> {
        let what = Prune {
            key,
            trusted: &[],
            only,
            retention,
            dry_run: false,
        };
        self.home().prune(&what)
    }

    /// Another one that holds the same. Nobody may be using this one.
    fn copy(&self) -> Self {
        match self {
            Self::Sqlite(_) => {
                let copy = Self::sqlite();
                std::fs::copy(self.file().unwrap(), copy.file().unwrap()).unwrap();
                copy
            }
            Self::Postgres(database) => Self::Postgres(database.copy()),
        }
    }

    /// Does what somebody with the database's rights could do. A table's name begins with @.
    fn harm(&self, text: &str) {
        match self {
            Self::Sqlite(_) => {
                let text = text.replace('@', "");
                let other = rusqlite::Connection::open(self.file().unwrap()).unwrap();
                other.execute_batch(&text).unwrap();
            }
            Self::Postgres(database) => {
                let text = text.replace('@', "gig.audit_");
                drop(database.sql(&text));
            }
        }
    }
}

pub(super) fn key(n: u8) -> Arc<SigningKey> {
    Arc::new(SigningKey::from_seed(&[n; 32]).unwrap())
}

pub(super) fn numbered(n: u64) -> Entry {
    let mut entry = Entry::new(if n.is_multiple_of(7) {
        Event::Dns
    } else {
        Event::Request
    });
    entry.conn = Some(n);
    entry.host = Some(format!("h{}.example.com", n % 10).into());
    entry.verdict = Some(if n.is_multiple_of(2) {
        VerdictWord::Deny
    } else {
        VerdictWord::Allow
    });
    entry.path = Some(format!("/item/{n}").into());
    entry
}

/// Hands `count` entries in and waits for the last of them.
async fn fill(recorder: &Recorder, count: u64) {
    for n in 1..count {
        while recorder.queue(numbered(n)).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    recorder.record(numbered(count)).await.unwrap();
}

async fn an_answer_means_that_the_database_holds_the_record(place: Place) {
    let (recorder, owner) = place.start("n");
    for n in 1..=3 {
        assert_eq!(recorder.record(numbered(n)).await, Ok(Sequence(n)));
        assert_eq!(place.verified(), [n]);
    }
    owner.close(PATIENCE);
    drop(recorder);
    let (recorder, owner) = place.start("n");
    assert_eq!(recorder.record(numbered(4)).await, Ok(Sequence(4)));
    owner.close(PATIENCE);
    assert_eq!(place.verified(), [4]);
}

/// As many tasks on many threads make it: some find that another wrote their entry.
async fn many_writers_get_one_chain_and_each_its_own_place(place: Place) {
    let (recorder, owner) = place.start("n");
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..50 {
        let recorder = recorder.clone();
        tasks.spawn(async move {
            let mut places = Vec::new();
            for n in 0..100 {
                recorder.queue(numbered(1000 + n)).unwrap();
                places.push(recorder.record(numbered(task)).await.unwrap());
            }
            places
        });
    }
    let mut places = tasks.join_all().await.concat();
    owner.close(PATIENCE);
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 5000);
    assert_eq!(place.verified(), [10_000]);
}

async fn who_writes_to_one_chain_continues_each_other_and_nobody_is_refused(place: Place) {
    let (one, owner) = place.start("n");
    // Commands beside the appliance, and another machine.
    let (other, other_owner) = place.start_as("n", false);
    let (third, third_owner) = place.start("another machine");
    for n in 0..20 {
        assert_eq!(one.record(numbered(n)).await, Ok(Sequence(2 * n + 1)));
        assert_eq!(other.record(numbered(n)).await, Ok(Sequence(2 * n + 2)));
        assert_eq!(third.record(numbered(n)).await, Ok(Sequence(n + 1)));
    }
    // At once, too.
    let both = [one.clone(), other.clone()].map(|recorder| async move {
        for n in 0..100 {
            recorder.record(numbered(n)).await.unwrap();
        }
    });
    let [one_done, other_done] = both;
    tokio::join!(one_done, other_done);
    for owner in [owner, other_owner, third_owner] {
        owner.close(PATIENCE);
    }
    assert_eq!(place.verified(), [240, 20]);
    let gaps = place.all().into_iter();
    assert_eq!(gaps.filter(|one| one.row.event == "audit.gap").count(), 0);
}

async fn pages_of_several_nodes_are_of_one_time_and_each_record_comes_once(place: Place) {
    let nodes = ["a", "b", "c"].map(|node| place.start(node));
    for n in 0..50 {
        for (recorder, _) in &nodes {
            recorder.record(numbered(n)).await.unwrap();
        }
    }
    let mut log = place.log();
    let mut query = Query {
        filter: Filter::default(),
        before: None,
        limit: 7,
    };
    let mut found = Vec::new();
    loop {
        let page = log.search(&query).unwrap();
        found.extend(page.records);
        match page.next {
            Some(next) => query.before = Some(next),
            None => break,
        }
    }
    assert_eq!(found.len(), 150);
    assert!(found.is_sorted_by(|new, old| new.row.time >= old.row.time));
    let mut places: Vec<_> = found.iter().map(|one| one.at).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 150);
    query = Query {
        filter: Filter {
            node: vec!["b".to_owned()],
            ..Filter::default()
        },
        before: None,
        limit: 100,
    };
    let of_one = log.search(&query).unwrap().records;
    assert_eq!(of_one.len(), 50);
    assert!(of_one.iter().all(|one| one.row.node == "b"));
    for (_, owner) in nodes {
        owner.close(PATIENCE);
    }
}

async fn a_search_finds_by_its_index_exactly_what_reading_every_line_finds(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 10_000).await;
    recorder.record(numbered(10_001)).await.unwrap();
    place.indexed();
    let mut log = place.log();
    let all = place.all();
    assert_eq!(all.len(), 10_001);
    let list = |text: &str| vec![text.to_owned()];
    let none = Filter::default;
    let filters = [
        none(),
        Filter {
            event: list("dns"),
            ..none()
        },
        Filter {
            host: list("*.example.com"),
            verdict: list("deny"),
            ..none()
        },
        Filter {
            host: list("h3.example.com"),
            verdict: list("deny"),
            ..none()
        },
        Filter {
            conn: list("4242"),
            ..none()
        },
        Filter {
            text: list("item 77"),
            ..none()
        },
        Filter {
            since: Some(all[3000].row.time.clone()),
            until: Some(all[9000].row.time.clone()),
            event: list("dns"),
            ..none()
        },
        Filter {
            verdict: vec!["deny".into(), "allow".into()],
            event: list("dns"),
            ..none()
        },
    ];
    for filter in filters {
        let wanted = all.iter().rev().filter(|found| filter.matches(&found.row));
        let wanted: Vec<u64> = wanted.map(|found| found.row.seq).collect();
        for limit in [100_000, 173] {
            let mut query = Query {
                filter: filter.clone(),
                before: None,
                limit,
            };
            let mut found = Vec::new();
            loop {
                let page = log.search(&query).unwrap();
                found.extend(page.records.iter().map(|one| one.row.seq));
                match page.next {
                    // What is recorded meanwhile does not move the pages.
                    Some(next) => query.before = Some(next),
                    None => break,
                }
                recorder.record(numbered(14)).await.unwrap();
            }
            let found: Vec<u64> = found.into_iter().filter(|seq| *seq <= 10_001).collect();
            assert_eq!(found, wanted, "{filter:?}");
        }
    }
    owner.close(PATIENCE);
}

async fn what_was_not_indexed_when_gig_died_is_indexed_by_the_next(place: Place) {
    let (recorder, owner) = place.start("n");
    fill(&recorder, 5001).await;
    owner.close(PATIENCE);
    drop(recorder);
    // As a crash before a block is told of leaves it.
    place.harm("DELETE FROM @block; DELETE FROM @posting");
    let (_recorder, owner) = place.start("n");
    place.indexed();
    let query = Query {
        filter: Filter {
            text: vec!["item 77".into()],
            ..Filter::default()
        },
        before: None,
        limit: 10,
    };
    assert_eq!(place.log().search(&query).unwrap().records.len(), 1);
    owner.close(PATIENCE);
}
