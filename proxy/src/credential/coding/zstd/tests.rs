//! What is taken from memory is never less than what the library holds.

use proptest::prelude::*;
use zstd_safe::CParameter;

use super::{super::STEP, *};

/// A frame with this window, of `length` octets that do not say how many they are, or that do.
fn coded(window_log: u32, length: usize, tells: bool) -> Vec<u8> {
    let plain = b"some text ".repeat(length / 10 + 1);
    let mut context = zstd_safe::CCtx::create();
    let windowed = context.set_parameter(CParameter::WindowLog(window_log));
    windowed.unwrap();
    if tells {
        context.set_pledged_src_size(Some(length as u64)).unwrap();
    }
    let mut room = vec![0; zstd_safe::compress_bound(length) + 64];
    let mut to = OutBuffer::around(&mut room[..]);
    let mut from = InBuffer::around(&plain[..length]);
    while from.pos() < length {
        context.compress_stream(&mut to, &mut from).unwrap();
    }
    while context.end_stream(&mut to).unwrap() > 0 {}
    to.as_slice().to_vec()
}

/// Decodes in pieces of `size` octets; the share covers what the library says it holds all the while.
fn decode(zstd: &mut Zstd, coded: &[u8], size: usize) -> usize {
    decode_pieces(zstd, coded.chunks(size))
}

fn decode_pieces<'a>(zstd: &mut Zstd, pieces: impl IntoIterator<Item = &'a [u8]>) -> usize {
    let (mut total, mut pending) = (0, Vec::new());
    for piece in pieces {
        pending.extend_from_slice(piece);
        let mut room = vec![0; STEP];
        loop {
            let (read, wrote) = zstd.step(&pending, &mut room).unwrap();
            assert!(zstd.context.sizeof() <= zstd.share.octets());
            drop(pending.drain(..read));
            total += wrote;
            if read == 0 && wrote == 0 {
                break;
            }
        }
    }
    total
}

#[test]
fn the_bounds_are_at_least_what_the_library_holds() {
    let memory = Memory::of_sandbox();
    let fresh = Zstd::new(&memory).unwrap();
    assert!(
        fresh.context.sizeof() <= CONTEXT,
        "{}",
        fresh.context.sizeof()
    );
    for log in 10..=WINDOW_LOG {
        let mut zstd = Zstd::new(&memory).unwrap();
        let frame = coded(log, 300_000, false);
        assert_eq!(decode(&mut zstd, &frame, 1000), 300_000);
        let held = zstd.context.sizeof();
        assert!(held <= CONTEXT + buffers(1 << log), "{log}: {held}");
        assert!(held >= 1 << log, "{log}: {held}");
    }
    drop(fresh);
    assert_eq!(memory.held(), 0);
}

#[test]
fn a_window_is_taken_before_it_is_allocated() {
    let memory = Memory::of(CONTEXT + buffers(1 << 20));
    let mut room = vec![0; STEP];
    let mut fits = Zstd::new(&memory).unwrap();
    assert_eq!(decode(&mut fits, &coded(20, 300_000, false), 7), 300_000);
    drop(fits);
    let mut zstd = Zstd::new(&memory).unwrap();
    let before = zstd.context.sizeof();
    let refused = zstd.step(&coded(21, 300_000, false), &mut room);
    assert_eq!(refused, Err(DecodeError::NoMemory(NoMemory)));
    assert_eq!(zstd.context.sizeof(), before);
    // What is too large for everybody is not asked for.
    let memory = Memory::of_sandbox();
    let mut zstd = Zstd::new(&memory).unwrap();
    let refused = zstd.step(&coded(27, 300_000, false), &mut room);
    assert_eq!(refused, Err(DecodeError::Broken));
}

/// A frame of one block, as it is, whose header has these flags, the number of no dictionary, and this
/// window; gives how long its header is, and its content.
fn headed(flags: u8, window_log: u8) -> (Vec<u8>, usize, usize) {
    let single = flags & 1 << 5 != 0;
    let length: usize = if flags >> 6 == 0 { 200 } else { 60_000 };
    let mut frame = [frame::MAGIC, &[flags]].concat();
    frame.extend((!single).then_some((window_log - 10) << 3));
    frame.extend(vec![0; [0, 1, 2, 4][usize::from(flags & 3)]]);
    let told = |octets: usize, less: u64| (length as u64 - less).to_le_bytes()[..octets].to_vec();
    frame.extend(match flags >> 6 {
        0 => told(usize::from(single), 0),
        1 => told(2, 256),
        2 => told(4, 0),
        _ => told(8, 0),
    });
    let header = frame.len();
    frame.extend(&(length << 3 | 1).to_le_bytes()[..3]);
    frame.extend(vec![b'x'; length]);
    (frame, header, length)
}

#[test]
fn a_window_is_taken_wherever_the_header_is_cut() {
    let memory = Memory::of_sandbox();
    let flags = (0..=u8::MAX).filter(|flags| flags & 0b1_1100 == 0);
    for flags in flags {
        let (frame, header, length) = headed(flags, 23);
        for cut in 1..=header + 4 {
            let mut zstd = Zstd::new(&memory).unwrap();
            let decoded = decode_pieces(&mut zstd, [&frame[..cut], &frame[cut..]]);
            assert_eq!(decoded, length, "{flags:#x} at {cut}");
            assert!(zstd.is_whole());
            // A second one, of which nothing more comes, is no end.
            decode_pieces(&mut zstd, [&frame[..cut]]);
            assert_eq!(zstd.is_whole(), cut < 4, "{flags:#x} at {cut}");

            let little = Memory::of(CONTEXT + 20_000);
            let mut zstd = Zstd::new(&little).unwrap();
            let (before, mut room) = (zstd.context.sizeof(), vec![0; STEP]);
            let (read, _) = zstd.step(&frame[..cut], &mut room).unwrap_or_default();
            let refused = zstd.step(&frame[read..], &mut room);
            assert_eq!(refused, Err(DecodeError::NoMemory(NoMemory)));
            assert_eq!(zstd.context.sizeof(), before, "{flags:#x} at {cut}");
        }
    }
    assert_eq!(memory.held(), 0);
}

#[test]
fn windows_are_read_from_every_kind_of_header() {
    assert_eq!(window(&coded(23, 50_000, false)), Window::Of(1 << 23));
    // Single segments: one, two and four octets tell the length.
    for length in [200, 300, 65_000, 70_000, 3_000_000] {
        let frame = coded(23, length, true);
        assert_eq!(window(&frame), Window::Of(length as u64), "{length}");
        let needed = (0..).find(|n| window(&frame[..*n]) != Window::Short);
        assert!(needed.is_some_and(|n| (6..=9).contains(&n)), "{needed:?}");
    }
    let skippable = [0x5f, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9];
    assert_eq!(window(&skippable), Window::None);
    assert_eq!(window(b"plain"), Window::None);
    assert_eq!(window(b"pl"), Window::None);
}

proptest! {
    #[test]
    fn frames_one_after_another_are_covered(
        frames in prop::collection::vec((10_u32..=23, 0_usize..200_000, any::<bool>()), 1..5),
        size in 1_usize..70_000,
    ) {
        let memory = Memory::of_sandbox();
        let mut zstd = Zstd::new(&memory).unwrap();
        let mut coded_all = Vec::new();
        for (log, length, tells) in &frames {
            coded_all.extend(coded(*log, *length, *tells));
            coded_all.extend([0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 1, 2]);
        }
        let total: usize = frames.iter().map(|(_, length, _)| length).sum();
        prop_assert_eq!(decode(&mut zstd, &coded_all, size.max(50)), total);
        prop_assert!(zstd.is_whole());
    }
}
