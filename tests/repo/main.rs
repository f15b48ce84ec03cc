//! The shape of the repository: crates, files, names, promises.

mod crates;
mod files;
mod judge;
mod promises;
mod readme;
mod tally;

use std::{
    fs,
    path::{Path, PathBuf},
};

use gig_tests::lab::place::repository;

/// Every file below the repository that git would know, as a path relative to it.
fn all_files() -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&repository(), Path::new(""), &mut found);
    found
}

fn sources() -> Vec<PathBuf> {
    let mut files = all_files();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

fn read(path: &Path) -> String {
    let path = repository().join(path);
    fs::read(&path).map_or_else(
        |e| panic!("{}: {e}", path.display()),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

fn collect(root: &Path, below: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(root.join(below)).expect("a folder").flatten() {
        let name = entry.file_name();
        let path = below.join(&name);
        let ignored = ["target", ".git", "corpus", "artifacts", "node_modules"];
        if ignored.iter().any(|ignored| name == *ignored) {
            continue;
        }
        let kind = entry.file_type().expect("its kind");
        if kind.is_dir() {
            collect(root, &path, found);
        } else if kind.is_file() {
            found.push(path);
        }
    }
}
