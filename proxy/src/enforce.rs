//! Decide by policy and record, as one step: what cannot be recorded is refused.

pub mod astray;
pub mod connect;
pub mod datagram;
pub mod hold;
pub mod ledger;
pub mod name;
pub mod request;
pub mod secret;
pub mod uses;
