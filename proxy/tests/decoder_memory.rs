//! What a decoder takes from its sandbox's memory is never less than what it allocates: asked of the
//! allocator. Zstandard allocates beyond it and is asked itself (`credential::coding::zstd`).
#![expect(clippy::unwrap_used, reason = "whatever fails here fails the test")]

use std::{
    alloc::System,
    io::Write,
    sync::{Arc, Mutex},
};

use flate2::{Compression, write};
use gig_proxy::credential::{
    coding::{Coding, Decoder, STEP},
    memory::Memory,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One at a time: what is allocated is counted for all threads together.
static ALONE: Mutex<()> = Mutex::new(());

/// Octets that are allocated now and were not when the region began.
fn allocated(region: &Region<'_, System>) -> usize {
    let stats = region.change();
    stats
        .bytes_allocated
        .saturating_sub(stats.bytes_deallocated)
}

/// Decodes as far as it goes, and compares after every step; gives what was held at most.
fn decode(codings: &[Coding], coded: &[u8], memory: &Arc<Memory>) -> usize {
    let mut out = Vec::with_capacity(2 * STEP);
    let region = Region::new(ALLOCATOR);
    let Ok(mut decoder) = Decoder::new(codings, memory) else {
        return 0;
    };
    let mut most = 0;
    'pieces: for piece in coded.chunks(10_000) {
        decoder.push(piece);
        loop {
            out.clear();
            let more = decoder.step(&mut out);
            let (allocated, held) = (allocated(&region), memory.held());
            assert!(
                allocated <= held,
                "{codings:?}: {allocated} allocated, {held} held"
            );
            most = most.max(held);
            match more {
                Ok(true) => {}
                Ok(false) => break,
                Err(_) => break 'pieces,
            }
        }
    }
    drop(decoder);
    assert_eq!(memory.held(), 0);
    // What the test's own machinery holds aside.
    assert!(allocated(&region) < 16 * 1024);
    most
}

/// Uncompressed meta-blocks under a window of 2 to the power of `log` (RFC 7932 §9.1).
fn stored_brotli(log: u64, length: usize) -> Vec<u8> {
    let (window, mut count) = match log {
        16 => (0, 1),
        18..=24 => ((log - 17) << 1 | 1, 4),
        _ => unreachable!("not needed"),
    };
    let (mut out, mut bits) = (Vec::new(), window);
    for chunk in vec![b'x'; length].chunks(1 << 16) {
        let length = u64::try_from(chunk.len() - 1).unwrap();
        bits |= (length << 3 | 1 << 19) << count;
        count += 20;
        out.extend(bits.to_le_bytes().iter().take(usize::div_ceil(count, 8)));
        out.extend_from_slice(chunk);
        (bits, count) = (0, 0);
    }
    out
}

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut to = write::GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

fn deflate(plain: &[u8]) -> Vec<u8> {
    let mut to = write::DeflateEncoder::new(Vec::new(), Compression::fast());
    to.write_all(plain).unwrap();
    to.finish().unwrap()
}

/// Octets that nobody wrote.
fn rubbish(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn inflating_holds_what_is_taken_for_it() {
    let alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    let memory = Memory::of_sandbox();
    let plain = rubbish(1, 1_000_000);
    // Members one after the other, and a coding that has to be guessed.
    let members = gzip(&plain).repeat(3);
    assert!(decode(&[Coding::Gzip], &members, &memory) < 256 * 1024);
    assert!(decode(&[Coding::Deflate], &deflate(&plain), &memory) < 256 * 1024);
    let twice = gzip(&members);
    assert!(decode(&[Coding::Gzip, Coding::Gzip], &twice, &memory) < 512 * 1024);
    drop(alone);
}

#[test]
fn brotli_holds_what_is_taken_for_it() {
    let alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    let memory = Memory::of_sandbox();
    for log in [16, 18, 22, 24] {
        let most = decode(&[Coding::Brotli], &stored_brotli(log, 200_000), &memory);
        assert!(most >= 1 << log, "{log}: {most}");
        assert!(most < (1 << log) + 256 * 1024, "{log}: {most}");
    }
    let twice = gzip(&stored_brotli(24, 200_000));
    assert!(decode(&[Coding::Brotli, Coding::Gzip], &twice, &memory) > 1 << 24);
    // Tables of every kind, as chance has them.
    for seed in 0..20_000 {
        decode(&[Coding::Brotli], &rubbish(seed, 300), &memory);
    }
    drop(alone);
}

#[test]
fn what_is_not_there_is_not_allocated() {
    let alone = ALONE.lock().unwrap_or_else(|alone| alone.into_inner());
    for kib in [1, 8, 16, 24, 32, 64, 128, 1024, 4096] {
        let memory = Memory::of(kib * 1024);
        for coding in [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd] {
            let region = Region::new(ALLOCATOR);
            let mut out = Vec::with_capacity(2 * STEP);
            let base = allocated(&region);
            if let Ok(mut decoder) = Decoder::new(&[coding], &memory) {
                decoder.push(&stored_brotli(24, 5000));
                let refused = coding == Coding::Brotli;
                assert!(!refused || decoder.step(&mut out).is_err(), "{kib}");
                // Little things are had all the same, until the step is over.
                let allocated = allocated(&region) - base;
                assert!(allocated <= kib * 1024 + 64 * 1024, "{coding:?} {kib}");
            }
        }
        for seed in 0..500 {
            decode_within(&memory, &rubbish(seed, 300));
        }
        assert_eq!(memory.held(), 0);
    }
    drop(alone);
}

/// Whatever there is no memory for is an error and no panic.
fn decode_within(memory: &Arc<Memory>, coded: &[u8]) {
    if let Ok(mut decoder) = Decoder::new(&[Coding::Brotli], memory) {
        decoder.push(coded);
        let mut out = Vec::new();
        while decoder.step(&mut out).is_ok_and(|more| more) {
            out.clear();
        }
    }
}
