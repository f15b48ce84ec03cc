//! Towards the origin: dialling, directly or through the host's own HTTP proxy.

pub mod connect_proxy;
pub mod dial;
pub mod http1;
pub mod http2;
pub mod last_words;
pub mod origin;
pub mod pool;
