//! The credential of a request that carries one.
//!
//! Inside a sandbox with secrets it is the sentinel, which must be the value when it comes to the
//! origin; everywhere else it is a word that nobody looks for. Sentinel, value and word are equally
//! long, so that what lies between two contenders is what a secret costs. The origin answers a
//! request with anything else by 403, and the load ends there.

/// The variable that holds the sentinel, and in gig's environment the value.
pub(crate) const SECRETS: [&str; 3] = ["BENCH_TOKEN", "BENCH_KEY", "BENCH_PASSWORD"];

/// What gig is given, in the order of [`SECRETS`].
pub(crate) const VALUES: [&str; 3] = [
    "sk-bench-4uP1cZr8QmW0vXyT6sNhJd2LgKfEb",
    "AKIA5Q2WJ7RXBENCH0Y9+mZ3vTc/uNpD1oHsGe",
    "correct-horse-battery-staple-91f3-x&y%",
];

/// The path that is answered with 1 KiB where the credential is right.
pub(crate) const PATH: &str = "/bearer";

/// The credential of wherever this process runs.
pub(crate) fn token() -> String {
    let held = SECRETS.first().and_then(|name| std::env::var(name).ok());
    held.unwrap_or_else(|| WORD.to_owned())
}

/// What the origin lets pass, in nginx's configuration.
pub(crate) fn condition() -> String {
    let value = VALUES.first().copied().unwrap_or_default();
    format!("if ($http_authorization !~ \"^Bearer ({WORD}|{value})$\") {{ return 403; }}")
}

const WORD: &str = "nobody-looks-for-0123456789abcdef01234";

const _: () = {
    let sentinel = "gigph-".len() + 32;
    let [value, ..] = VALUES;
    assert!(WORD.len() == sentinel && value.len() == sentinel);
};
