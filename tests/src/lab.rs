//! Everything a test stands on, put together: networks, names, certificates, origins, subject.
//!
//! One [`Lab`] is one test's world. Its *host* namespace is the machine on which gig runs; its
//! *internet* namespace owns every other address there is, so that an origin, a resolver or a canary
//! can sit at any of them and what was sent to nobody is still counted.

pub mod audit_log;
pub mod authority;
pub mod denial;
pub mod fixture;
pub mod http_origin;
pub mod network;
pub mod nginx;
pub mod open_proxy;
pub mod openid_provider;
pub mod output;
pub mod place;
pub mod postgres;
pub mod raw_origin;
pub mod registry;
pub mod resolver;
pub mod service;
pub mod subject;

mod world;

pub use audit_log::AuditLog;
pub use output::Finished;
pub use subject::{Live, Subject, Way};
pub use world::Lab;
