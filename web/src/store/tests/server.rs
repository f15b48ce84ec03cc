//! A database of a test's own in a real PostgreSQL, which tests that run at the same time share.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU32, Ordering},
};

#[expect(
    unreachable_pub,
    clippy::disallowed_methods,
    reason = "what the suites use: a test of this crate cannot depend on theirs"
)]
#[path = "../../../../tests/src/lab/postgres.rs"]
mod postgres;

pub(in crate::store) use postgres::Postgres;

/// A database that nobody else uses.
pub(in crate::store) struct Database {
    server: Arc<Postgres>,
    name: String,
}

impl Database {
    pub(in crate::store) fn new() -> Self {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Postgres::start());
            *shared = Arc::downgrade(&started);
            started
        });
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.sql("postgres", &format!("CREATE DATABASE {name}"));
        Self { server, name }
    }

    pub(in crate::store) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub(in crate::store) fn sql(&self, text: &str) -> String {
        self.server.ask(&self.name, text)
    }
}
