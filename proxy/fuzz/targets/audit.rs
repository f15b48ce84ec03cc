//! A record file that somebody changed: read to its end or refused, and never taken for longer than it is.

use gig_audit::{chain, verify};
use sha2::{Digest, Sha256};

/// The file, as it is and with every line's own hash made right: a forger can do that.
pub fn run(data: &[u8]) {
    check(data);
    let sealed: Vec<u8> = data
        .split_inclusive(|octet| *octet == b'\n')
        .flat_map(sealed)
        .collect();
    check(&sealed);
}

fn check(file: &[u8]) {
    let verdict = verify::verify_lines(file, verify::Expected::default());
    let is_export = file.starts_with(b"{\"export\":");
    if !is_export && verify(file).is_ok() {
        assert!(verdict.is_whole() && verdict.chains.len() == 1);
    }
    let lines = file.split_inclusive(|octet| *octet == b'\n');
    let records: Vec<_> = lines
        .clone()
        .filter_map(|line| chain::open(line).ok())
        .collect();
    if let Ok(verified) = verify(file) {
        // Every line of a whole file is a record that carries its own hash, in its place.
        assert_eq!(records.len(), lines.count());
        assert_eq!(verified.head.seq, records.len() as u64);
        assert!(records.windows(2).all(|pair| pair[1].prev == pair[0].hash));
    }
    for record in records {
        let shown = serde_json::to_vec(&record.entry).expect("an entry can be shown");
        assert!(!shown.contains(&b'\n'));
    }
}

/// The line with the hash that it should have had.
fn sealed(line: &[u8]) -> Vec<u8> {
    let covered = line.len().checked_sub(HASH_KEY.len() + 64 + LINE_END.len());
    let Some(covered) = covered.and_then(|end| line.get(..end)) else {
        return line.to_vec();
    };
    let hash: String = Sha256::digest(covered)
        .iter()
        .map(|octet| format!("{octet:02x}"))
        .collect();
    [covered, HASH_KEY, hash.as_bytes(), LINE_END].concat()
}

const HASH_KEY: &[u8] = b",\"hash\":\"";
const LINE_END: &[u8] = b"\"}\n";
