//! A search through many blocks, which several connections go through.

use super::*;
use crate::search::{posting::encode, walk::Shelf as _};

#[tokio::test]
async fn many_blocks_are_met_in_their_order_whoever_reads_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.db");
    write_one(&path).await;
    let other = Connection::open(&path).unwrap();
    let mut add = other
        .prepare("INSERT INTO posting (block, term, places) VALUES (?1, ?2, ?3)")
        .unwrap();
    // One term is in every second block, the other in every third, each at a place of its own.
    for block in 0..200_u16 {
        for (term, each) in [(7_i64, 2), (8, 3)] {
            if block % each == 0 {
                add.execute((block, term, encode(&[block, block + 1])))
                    .unwrap();
            }
        }
    }
    drop(add);
    let mut log = SqliteLog::open(&path).unwrap();
    for most in [1, 31, 32, 33, 64, 130, 200] {
        let blocks: Vec<i64> = (0..most).rev().collect();
        let met = log.meet(&blocks, &[vec![7], vec![8, 9]]).unwrap();
        assert_eq!(met.len(), blocks.len());
        for (block, places) in blocks.iter().zip(met) {
            let found: Vec<i64> = places.newest_first().map(i64::from).collect();
            let expected = if block % 6 == 0 {
                vec![block + 1, *block]
            } else {
                Vec::new()
            };
            assert_eq!(found, expected, "{block} of {most}");
        }
    }
    assert_eq!(log.beside.as_ref().unwrap().len(), shelf::BESIDE);
    // Where one moment is held, its own connection alone sees it.
    log.hold_moment().unwrap();
    assert_eq!(log.chains().unwrap().len(), 1);
    other.execute("DELETE FROM posting", ()).unwrap();
    let blocks: Vec<i64> = (0..200).collect();
    let met = log.meet(&blocks, &[vec![7]]).unwrap();
    assert_eq!(met.iter().filter(|places| !places.is_empty()).count(), 100);
}
