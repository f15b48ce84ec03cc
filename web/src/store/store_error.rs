//! That a database failed, for whoever asked it; what becomes of a change that it did not take is `change_error`'s.

use std::sync::Arc;

use thiserror::Error;

/// The database failed.
#[derive(Debug, Error)]
#[error("cannot {attempted} {place}")]
pub struct StoreError {
    /// `read`, `write`.
    pub attempted: &'static str,
    /// Which database.
    pub place: Arc<str>,
    /// What it said.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}
