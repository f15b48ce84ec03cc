//! Which crate may know which.

use std::collections::BTreeSet;

use super::read;

/// The edges of the design: nobody gets a new one without changing this list.
const EDGES: [(&str, &[&str]); 11] = [
    ("policy", &[]),
    ("postgres", &[]),
    ("audit", &["policy", "postgres"]),
    ("netns", &[]),
    ("vault", &["policy", "postgres"]),
    ("sandbox", &["policy", "audit", "netns"]),
    ("proxy", &["policy", "audit", "vault"]),
    (
        "proxy/fuzz",
        &["policy", "audit", "netns", "vault", "sandbox", "proxy"],
    ),
    (
        "gig",
        &[
            "policy", "audit", "netns", "vault", "sandbox", "proxy", "web",
        ],
    ),
    ("web", &["policy", "postgres", "audit"]),
    ("tests", &["policy", "audit"]),
];

#[test]
fn crates_depend_on_each_other_only_as_designed() {
    for (member, allowed) in EDGES {
        let manifest = read(format!("{member}/Cargo.toml").as_ref());
        let edges = manifest.lines().filter_map(|line| {
            let name = line.trim().split(['.', ' ', '=']).next()?;
            name.strip_prefix("gig-")
        });
        let edges: BTreeSet<&str> = edges.filter(|name| !name.is_empty()).collect();
        let allowed: BTreeSet<&str> = allowed.iter().copied().collect();
        assert!(
            edges.is_subset(&allowed),
            "{member} depends on {edges:?}, may on {allowed:?}"
        );
    }
}

#[test]
fn every_member_has_its_edges_listed() {
    let manifest = read("Cargo.toml".as_ref());
    let line = manifest.lines().find(|line| line.starts_with("members"));
    let names = line.unwrap_or_default().split('"').skip(1).step_by(2);
    for name in names {
        assert!(
            EDGES.iter().any(|(member, _)| *member == name),
            "{name} is not listed"
        );
    }
}

#[test]
fn policy_has_no_runtime_and_no_clock() {
    let manifest = read("policy/Cargo.toml".as_ref());
    for banned in ["tokio", "jiff", "hyper", "rustix", "socket2"] {
        let used = manifest
            .lines()
            .any(|line| line.trim_start().starts_with(banned));
        assert!(!used, "policy decides without {banned}");
    }
}

#[test]
fn no_crate_brings_another_tls() {
    let lock = read("Cargo.lock".as_ref());
    for banned in ["openssl-sys", "native-tls", "git+https"] {
        assert!(!lock.contains(banned), "{banned} is in Cargo.lock");
    }
}
