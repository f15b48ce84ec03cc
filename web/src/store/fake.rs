//! A store that fails when it is told to, counts what it is asked, and is a database of its own else: what
//! happens to a real one too seldom to wait for.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{
    ChangeError, News, SqliteStore, StoreError,
    tables::{DatabaseError, Refused, Tables, Transaction},
};

/// A database in a folder that goes with it.
pub(crate) struct FakeStore {
    kept: SqliteStore,
    _folder: tempfile::TempDir,
    /// Questions so far.
    pub(crate) asked: AtomicU64,
    /// Whether it answers none.
    pub(crate) failing: AtomicBool,
    /// Whether nothing can be written, as on a full disk.
    pub(crate) read_only: AtomicBool,
    /// How many it panics at next.
    pub(crate) panics: AtomicU64,
}

impl FakeStore {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let kept = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
        // No machine fails under a test that waits for its disk some thousand times.
        let unsynced = |db: &Transaction<'_>| db.execute_batch("PRAGMA synchronous = OFF");
        kept.read(unsynced).unwrap();
        Self {
            kept,
            _folder: folder,
            asked: AtomicU64::default(),
            failing: AtomicBool::default(),
            read_only: AtomicBool::default(),
            panics: AtomicU64::default(),
        }
    }

    /// What waits was put up by a gig that never says that it lives (`None`), or said so last at this second.
    pub(crate) fn held_seen(&self, seen: Option<i64>) {
        let set = |db: &Transaction<'_>| db.execute("UPDATE held SET seen = ?1", [seen]);
        self.kept.read(set).unwrap();
    }

    /// What waits is another node's.
    pub(crate) fn held_of(&self, node: &str) {
        let set = |db: &Transaction<'_>| db.execute("UPDATE held SET node = ?1", [node]);
        self.kept.read(set).unwrap();
    }

    /// As if another node had done so.
    pub(crate) fn take_for_dead(&self, node: &str) {
        let sql = "UPDATE nodes SET gone = seen WHERE name = ?1";
        let bury = |db: &Transaction<'_>| db.execute(sql, [node]);
        assert_eq!(self.kept.read(bury).unwrap(), 1);
    }
}

impl Tables for FakeStore {
    fn read<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        let less = |left: u64| left.checked_sub(1);
        let panics = self
            .panics
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, less);
        assert!(panics.is_err(), "as it was told to");
        if self.failing.load(Ordering::SeqCst) {
            return Err(StoreError {
                attempted: "read",
                place: "a store that fails".into(),
                source: "as it was told to".into(),
            });
        }
        let read_only = self.read_only.load(Ordering::SeqCst);
        self.kept.read(|db| {
            // SQLite says so itself, of whatever would write.
            db.execute_batch(&format!("PRAGMA query_only = {read_only}"))?;
            ask(db)
        })
    }

    fn snapshot<R>(
        &self,
        ask: impl Fn(&Transaction<'_>) -> Result<R, DatabaseError>,
    ) -> Result<R, StoreError> {
        self.read(ask)
    }

    fn change<R>(
        &self,
        policies: bool,
        make: impl FnOnce(&Transaction<'_>) -> Result<R, Refused>,
    ) -> Result<R, ChangeError> {
        self.kept.change(policies, make)
    }

    fn follow(&self) -> Option<Box<dyn News>> {
        None
    }
}
