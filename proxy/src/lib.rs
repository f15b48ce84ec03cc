//! The only way out of a sandbox: identity, names, TLS, HTTP, the record.
//!
//! The proxy is handed listening sockets and an [`identity::Identity`] look-up. For every connection
//! it learns who calls (source address), where to (original destination, ClientHello, Host), lets
//! `policy` decide, has the decision recorded, resolves and vets the address, dials it and passes
//! bytes. Namespaces, programs and documents are left to others.
#![forbid(unsafe_code)]

pub mod accept;
pub mod authority;
pub mod budget;
pub mod caller;
pub mod client_hello;
pub mod connection;
pub mod credential;
pub mod deadlines;
pub mod descriptors;
pub mod detect;
pub mod dns;
pub mod enforce;
pub mod failure;
pub mod hold;
pub mod http;
pub mod identity;
pub mod opaque;
pub mod orig_dst;
pub mod pipeline;
pub mod queues;
pub mod resolve;
mod seldom;
pub mod settings;
pub mod start;
pub mod subject;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod upstream;
mod wall_clock;
pub mod worker;
mod writes;

pub use deadlines::Deadlines;
pub use enforce::ledger::Ledger;
pub use identity::Identity;
pub use queues::{EmptyQueuesError, Queues};
pub use resolve::{Announced, Elsewhere, NeverOpen, ResolveOverride, reached_at};
pub use settings::{ProxyListeners, Settings};
pub use start::{ListenError, Listening, Proxy, StartProxyError, start};
pub use subject::Subject;
pub use upstream::connect_proxy::UpstreamProxy;
