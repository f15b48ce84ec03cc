//! What a coded body becomes, a bounded part at a time.

use std::sync::Arc;

use super::*;
use crate::credential::{
    coding::{Coding, STEP, Undone},
    memory::Memory,
    rewrite::Unchanged,
};

/// Takes what it is given, and counts it.
struct Counting(Arc<std::sync::atomic::AtomicUsize>);

impl Rewrite for Counting {
    fn push(&mut self, octets: &[u8], _: &mut Vec<u8>) -> Result<(), RewriteError> {
        self.0
            .fetch_add(octets.len(), std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
        Ok(())
    }

    fn held(&self) -> usize {
        0
    }
}

fn credentials(passes: Passes) -> Credentials {
    Credentials {
        plan: None,
        passes,
        after: None,
        more: false,
        kept: None,
        digests: Digests::Made,
        hashing: None,
        waiting: None,
    }
}

fn zstd(plain: &[u8]) -> Bytes {
    let mut to = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
    zstd_safe::compress(&mut to, plain, 1).unwrap();
    to.into()
}

fn undone(inner: impl Rewrite + 'static) -> Option<Box<dyn Rewrite>> {
    let undone = Undone::new(&[Coding::Zstd], &Memory::of_sandbox(), inner);
    Some(Box::new(undone.unwrap()))
}

#[test]
fn what_a_piece_decodes_to_is_given_in_bounded_parts() {
    let plain = vec![b'.'; 24 << 20];
    let mut credentials = credentials(Passes {
        guard: None,
        rewrite: undone(Unchanged),
        aside: None,
    });
    let mut total = 0;
    let mut given = credentials.pass(zstd(&plain)).unwrap();
    loop {
        if let Some(data) = given.take() {
            assert!(data.len() <= 2 * STEP, "{}", data.len());
            total += data.len();
        }
        if !credentials.has_more() {
            break;
        }
        given = credentials.more().unwrap();
    }
    assert_eq!(credentials.finish().unwrap(), None);
    assert_eq!(total, plain.len());
}

#[test]
fn what_is_only_looked_at_goes_when_all_of_it_was() {
    let plain = vec![b'.'; 24 << 20];
    let looked = Arc::default();
    let mut credentials = credentials(Passes {
        guard: None,
        rewrite: None,
        aside: undone(Counting(Arc::clone(&looked))),
    });
    let coded = zstd(&plain);
    let mut given = credentials.pass(coded.clone()).unwrap();
    let mut parts = 0;
    while given.is_none() {
        assert!(credentials.has_more());
        given = credentials.more().unwrap();
        parts += 1;
    }
    assert!(parts >= plain.len() / STEP && !credentials.has_more());
    assert_eq!(given.unwrap(), coded);
    let looked = looked.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(looked, plain.len());
}

#[test]
fn a_bomb_ends_a_body_that_is_only_looked_at_and_what_is_no_coding_does_not() {
    let pass = |data: Bytes| {
        let mut credentials = credentials(Passes {
            guard: None,
            rewrite: None,
            aside: undone(Counting(Arc::default())),
        });
        let mut given = credentials.pass(data)?;
        while credentials.has_more() {
            given = credentials.more()?;
        }
        Ok(given)
    };
    let bomb = zstd(&vec![0; 64 << 20]);
    assert_eq!(pass(bomb), Err(DenyReason::DecompressionBomb));
    let other = Bytes::from_static(b"plainly not that");
    assert_eq!(pass(other.clone()), Ok(Some(other)));
}
