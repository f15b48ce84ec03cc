//! The only name server a sandbox can reach: every name is decided, recorded, then answered.
//!
//! Nothing a sandbox asks here is ever sent upstream: an allowed name gets a synthetic address, and
//! the real look-up happens when a connection to it is permitted.

pub mod answer;
pub mod server;
pub mod synthetic;
