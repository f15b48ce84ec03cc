//! A database of a test's own in a real PostgreSQL, which tests that run at the same time share.

use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{AtomicU32, Ordering},
};

#[expect(
    unreachable_pub,
    dead_code,
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

static COUNT: AtomicU32 = AtomicU32::new(0);

impl Database {
    pub(in crate::store) fn new() -> Self {
        static SHARED: Mutex<Weak<Postgres>> = Mutex::new(Weak::new());
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let started = Arc::new(Postgres::start());
            *shared = Arc::downgrade(&started);
            started
        });
        drop(shared);
        Self::made(server, "")
    }

    fn made(server: Arc<Postgres>, how: &str) -> Self {
        let name = format!("test_{}", COUNT.fetch_add(1, Ordering::Relaxed));
        server.sql("postgres", &format!("CREATE DATABASE {name} {how}"));
        Self { server, name }
    }

    /// Another one that holds the same. Whoever uses this one is cut off.
    pub(in crate::store) fn copy(&self) -> Self {
        let cut = format!(
            "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
             WHERE datname = '{}' AND pid <> pg_backend_pid()",
            self.name
        );
        drop(self.server.ask("postgres", &cut));
        Self::made(Arc::clone(&self.server), &format!("TEMPLATE {}", self.name))
    }

    pub(in crate::store) fn url(&self) -> String {
        self.server.url(&self.name)
    }

    pub(in crate::store) fn sql(&self, text: &str) -> String {
        self.server.ask(&self.name, text)
    }
}
