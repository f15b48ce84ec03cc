//! Towards the origin: dialling, directly or through the host's own HTTP proxy.

pub mod connect_proxy;
pub mod dial;
pub mod last_words;
pub mod origin;
pub mod pool;
pub mod settled;
