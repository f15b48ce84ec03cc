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

/// Says that a test could not be made here, and why: `tests/run` names and counts it.
///
/// # Panics
/// When it cannot be written where `tests/run` reads it.
pub fn skipped(why: &str) {
    use std::io::Write as _;

    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    println!("skipped: {name}: {why}");
    if let Some(file) = std::env::var_os("GIG_TEST_SKIPPED") {
        let file = std::fs::OpenOptions::new().append(true).open(&file);
        let line = format!("{name}: {why}\n");
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        written.expect("say that it was skipped");
    }
}

pub use audit_log::AuditLog;
pub use output::Finished;
pub use subject::{Live, Subject, Way};
pub use world::Lab;
