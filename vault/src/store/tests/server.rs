//! A database of a test's own in a real PostgreSQL, which tests that run at the same time share.

#[expect(
    unreachable_pub,
    dead_code,
    clippy::disallowed_methods,
    reason = "what the suites use: a test of this crate cannot depend on theirs"
)]
#[path = "../../../../tests/src/lab/postgres.rs"]
mod postgres;

pub(in crate::store) use postgres::{Database, Postgres};
