//! Files that are shown to the program and hold a secret's value: told about, since only a person knows
//! whether that is meant.
//!
//! A look, not a search: small files at the top of what is bound, and those whose names are known for
//! holding credentials.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use gig_vault::Secret;

use super::holds;

/// A sentence about each such file.
pub(crate) fn told<'a>(
    shown: impl Iterator<Item = &'a Path>,
    secrets: &[Arc<Secret>],
) -> Vec<String> {
    let mut told = Vec::new();
    let mut left = ALL;
    for file in shown.flat_map(near) {
        // Where a link leads is shown by its own name, or not at all.
        let facts = fs::symlink_metadata(&file).ok();
        let facts = facts.filter(|facts| facts.is_file() && facts.len() <= LARGEST.min(left));
        let Some(facts) = facts else { continue };
        let Ok(content) = fs::read(&file) else {
            continue;
        };
        left = left.saturating_sub(facts.len());
        for secret in secrets.iter().filter(|secret| holds(&content, secret)) {
            told.push(format!(
                "{} is shown to the program and holds the value of secret {}: what is in there can be read inside",
                file.display(),
                secret.name
            ));
        }
    }
    told
}

/// The file itself, or what lies right in the folder.
fn near(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else {
        return vec![path.to_owned()];
    };
    let entries = entries.filter_map(Result::ok).map(|entry| entry.path());
    let known = KNOWN.iter().map(|name| path.join(name));
    entries.take(MOST).chain(known).collect()
}

/// Configuration is short.
const LARGEST: u64 = 256 * 1024;
/// Of all files, in octets: a start should not wait for them.
const ALL: u64 = 8 * 1024 * 1024;
/// A start should not wait for a folder of a hundred thousand files.
const MOST: usize = 500;
/// Below the top of a folder.
const KNOWN: [&str; 3] = [".git/config", ".aws/credentials", ".config/gh/hosts.yml"];
