//! Egress that must be refused, each with three witnesses: client, origin, record.

mod authority;
mod datagrams;
mod dns;
mod explicit_proxy;
mod fronting;
mod limits;
mod metadata;
mod own_root;
mod paths;
mod private_addresses;
mod rules;
mod secrets;
pub(crate) mod smuggling;
mod upgrade;
