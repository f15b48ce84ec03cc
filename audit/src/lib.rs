//! The record: what every sandbox did, decided and written before the first byte leaves.
//!
//! An [`Entry`] says what happened; the [`Recorder`] gives it a place in one hash chain, writes it in
//! a group with its neighbours, and answers only when the kernel has it. Who cannot record must
//! refuse. Secret values, bodies, query strings and authorization headers have no field here.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

mod alarm;
pub mod attempts;
pub mod chain;
pub mod checkpoint;
mod clock;
mod counted;
pub mod counts;
pub mod deed;
pub mod entry;
pub mod event;
pub mod export;
pub mod home;
mod line;
pub mod log;
pub mod record;
pub mod recorder;
pub mod retention;
pub mod row;
pub mod search;
mod sha256;
pub mod signing;
pub mod store;
pub mod turn;
pub mod verify;
mod why;

pub use alarm::is_alarm;
pub use counted::{counted, hosts_of};
pub use deed::Deed;
pub use entry::{Entry, TlsFacts, VerdictWord};
pub use event::{Event, HELD};
pub use home::{Home, OpenHomeError};
pub use record::{ChainHash, Record};
pub use recorder::{
    Backlog, Durability, Observer, RecordRefused, Recorder, RecorderFigures, RecorderOwner,
    RecorderSettings, Sequence, StartRecorderError,
};
pub use signing::{PublicKey, SigningKey};
pub use store::{
    Store, StoreError,
    jsonl::{JsonlStore, OpenJsonlError},
    memory::MemoryLog,
    postgres::{CopyRecordError, OpenRecordError, PostgresLog, PostgresRecord, PostgresStore},
    sqlite::{OpenSqliteError, SqliteLog, SqliteStore},
};
pub use verify::{Signed, Verified, VerifyError, verify};
pub use why::{why, why_of};
