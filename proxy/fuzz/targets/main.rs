//! One libFuzzer program with all targets; `GIG_FUZZ_TARGET` says which.
//!
//! Each target takes octets that a sandbox, an origin, a policy's author or a damaged disk could have
//! written. Promises: a target panics only when one of its properties does not hold. Started by
//! `proxy/fuzz/run`, which also builds it with coverage in our crates and nowhere else.

#![no_main]

mod answers;
mod audit;
mod capture;
mod client_hello;
mod detect;
mod dns;
mod http_request;
mod hub;
mod layers;
mod names;
mod paths;
mod planted;
mod policy;
mod scrubber;
mod secrets;
mod substituter;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;

/// One input in, nothing out.
type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 15] = [
    ("answers", answers::run),
    ("audit", audit::run),
    ("capture", capture::run),
    ("client_hello", client_hello::run),
    ("detect", detect::run),
    ("dns", dns::run),
    ("http_request", http_request::run),
    ("hub", hub::run),
    ("layers", layers::run),
    ("names", names::run),
    ("paths", paths::run),
    ("planted", planted::run),
    ("policy", policy::run),
    ("scrubber", scrubber::run),
    ("substituter", substituter::run),
];

static CHOSEN: OnceLock<Target> = OnceLock::new();

fn choose() -> Target {
    let name = std::env::var("GIG_FUZZ_TARGET").unwrap_or_default();
    let found = TARGETS.iter().find(|(known, _)| *known == name);
    let names = TARGETS.map(|(known, _)| known);
    found
        .unwrap_or_else(|| panic!("GIG_FUZZ_TARGET={name:?} is none of {names:?}"))
        .1
}

fuzz_target!(|data: &[u8]| CHOSEN.get_or_init(choose)(data));
