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
    for file in shown.flat_map(near) {
        let small =
            fs::metadata(&file).is_ok_and(|facts| facts.is_file() && facts.len() <= LARGEST);
        let Some(content) = small.then(|| fs::read(&file).ok()).flatten() else {
            continue;
        };
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
/// A start should not wait for a folder of a hundred thousand files.
const MOST: usize = 500;
/// Below the top of a folder.
const KNOWN: [&str; 3] = [".git/config", ".aws/credentials", ".config/gh/hosts.yml"];
