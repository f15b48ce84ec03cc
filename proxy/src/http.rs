//! HTTP as the sandbox speaks it: one connection, many requests, each decided by itself.

pub mod activity;
pub mod admit;
pub mod body;
pub mod calm;
mod captured;
mod digests;
pub mod duplex;
pub mod exchange;
pub mod explicit;
mod finishing;
pub mod forward;
pub mod gather;
pub mod headers;
pub mod heads;
pub mod incoming;
pub mod interim;
pub mod interject;
pub mod limits;
pub mod linger;
pub mod pipe;
pub mod refuse;
pub mod service;
pub mod session;
pub mod standing;
pub mod streams;
pub mod target;
pub mod upgrade;
