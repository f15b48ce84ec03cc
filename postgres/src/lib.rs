//! A PostgreSQL that several gigs share, as `GIG_DATABASE_URL` names it: what its URL means, TLS, which of
//! its servers is spoken to, connections that threads wait for, and tables brought up to date by one node
//! at a time.
//!
//! What is kept there is its users': people and policies (`gig-web`), the record (`gig-audit`).
#![forbid(unsafe_code)]

mod address;
mod encryption;
mod link;
mod places;
mod server;
mod tables;

pub use address::ReadAddressError;
pub use encryption::EncryptionError;
pub use link::{Link, LinkError};
pub use server::{OpenPostgresError, Server};
pub use tables::{Tables, update};
