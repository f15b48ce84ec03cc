//! The file is its owner's; what every store promises is shown beside the others.

use std::fs;

use super::*;
use crate::store::tests::secret;

#[test]
fn the_file_is_its_owners_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("gig.db");
    let store = SqliteStore::open(&path).unwrap();
    store.commit(0, &[Change::PutSecret(secret("A"))]).unwrap();
    for entry in fs::read_dir(dir.path()).unwrap() {
        let entry = entry.unwrap();
        let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", entry.file_name());
    }
    drop(store);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let refused = SqliteStore::open(&path).unwrap_err().to_string();
    assert!(refused.contains("chmod 600"), "{refused}");
}
