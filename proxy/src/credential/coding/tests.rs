//! Every coding, cut everywhere.

use std::io::Write;

use flate2::{Compression, write};
use proptest::prelude::*;

use super::*;

fn encode(coding: Coding, plain: &[u8]) -> Vec<u8> {
    match coding {
        Coding::Gzip => {
            let mut to = write::GzEncoder::new(Vec::new(), Compression::fast());
            to.write_all(plain).unwrap();
            to.finish().unwrap()
        }
        Coding::Deflate => {
            let mut to = write::ZlibEncoder::new(Vec::new(), Compression::fast());
            to.write_all(plain).unwrap();
            to.finish().unwrap()
        }
        Coding::Zstd => {
            let mut to = Vec::with_capacity(zstd_safe::compress_bound(plain.len()));
            zstd_safe::compress(&mut to, plain, 1).unwrap();
            to
        }
        Coding::Brotli => stored_brotli(plain),
    }
}

/// Uncompressed meta-blocks (RFC 7932 §9.2): there is no need of an encoder for anything else.
fn stored_brotli(plain: &[u8]) -> Vec<u8> {
    let (mut out, mut bits, mut count) = (Vec::new(), 0_u64, 0);
    // WBITS 16: one zero bit.
    count += 1;
    for chunk in plain.chunks(1 << 16) {
        // ISLAST 0, MNIBBLES 4 (code 0), MLEN-1, ISUNCOMPRESSED 1.
        let length = u64::try_from(chunk.len() - 1).unwrap();
        bits |= (length << 3 | 1 << 19) << count;
        count += 20;
        out.extend(bits.to_le_bytes().iter().take(usize::div_ceil(count, 8)));
        out.extend_from_slice(chunk);
        (bits, count) = (0, 0);
    }
    // ISLAST 1, ISLASTEMPTY 1.
    out.push(u8::try_from(bits | 3 << count).unwrap());
    out
}

#[test]
fn of_codings_on_one_another_two_are_undone() {
    let of = |codings: &'static str| {
        let codings = HeaderValue::from_static(codings);
        coded(&HeaderMap::from_iter([(CONTENT_ENCODING, codings)]))
    };
    assert_eq!(
        of("gzip, br"),
        Coded::Known(vec![Coding::Gzip, Coding::Brotli])
    );
    assert_eq!(of("identity, gzip, br"), of("gzip, br"));
    assert_eq!(of("gzip, gzip, gzip"), Coded::TooMany);
    assert_eq!(of("gzip, gzip, gzip, compress"), Coded::Unknown);
}

fn decode(codings: &[Coding], pieces: &[&[u8]]) -> Result<Vec<u8>, DecodeError> {
    let mut decoder = Decoder::new(codings, &Memory::of_sandbox())?;
    let mut out = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            let before = out.len();
            let more = decoder.step(&mut out)?;
            assert!(out.len() - before <= STEP);
            if !more {
                break;
            }
        }
    }
    decoder.end()?;
    Ok(out)
}

const ALL: [Coding; 4] = [Coding::Gzip, Coding::Deflate, Coding::Brotli, Coding::Zstd];

#[test]
fn every_coding_is_undone_wherever_it_is_cut() {
    let plain: Vec<u8> = (0..2000_u32)
        .flat_map(|n| format!("line {n}\n").into_bytes())
        .collect();
    for coding in ALL {
        let coded = encode(coding, &plain);
        for cut in (0..coded.len()).step_by(97) {
            let (head, tail) = coded.split_at(cut);
            assert_eq!(
                decode(&[coding], &[head, tail]).unwrap(),
                plain,
                "{coding:?} {cut}"
            );
        }
        let octets: Vec<&[u8]> = coded.chunks(1).collect();
        assert_eq!(decode(&[coding], &octets).unwrap(), plain, "{coding:?}");
    }
}

#[test]
fn codings_on_one_another_are_undone_last_first() {
    let plain = b"some text that is coded twice".repeat(50);
    for first in ALL {
        for second in ALL {
            let coded = encode(second, &encode(first, &plain));
            let octets: Vec<&[u8]> = coded.chunks(7).collect();
            assert_eq!(
                decode(&[first, second], &octets).unwrap(),
                plain,
                "{first:?} {second:?}"
            );
        }
    }
}

#[test]
fn what_is_cut_short_or_broken_is_no_end() {
    let plain = b"some text that is coded".repeat(50);
    for coding in ALL {
        let coded = encode(coding, &plain);
        for cut in [1, coded.len() / 2, coded.len() - 1] {
            assert_eq!(
                decode(&[coding], &[&coded[..cut]]),
                Err(DecodeError::Broken),
                "{coding:?} {cut}"
            );
        }
        assert_eq!(
            decode(&[coding], &[b"\xff\xff\xff\xff plainly not that"]),
            Err(DecodeError::Broken)
        );
        assert_eq!(decode(&[coding], &[]).unwrap(), b"", "{coding:?}");
    }
}

#[test]
fn members_follow_one_another_and_what_follows_the_end_is_dropped() {
    let mut gzip = encode(Coding::Gzip, b"one, ");
    gzip.extend(encode(Coding::Gzip, b"two"));
    gzip.extend_from_slice(b"\0\0 rubbish");
    let octets: Vec<&[u8]> = gzip.chunks(1).collect();
    assert_eq!(decode(&[Coding::Gzip], &octets).unwrap(), b"one, two");
    let mut zstd = encode(Coding::Zstd, b"one, ");
    zstd.extend(encode(Coding::Zstd, b"two"));
    assert_eq!(decode(&[Coding::Zstd], &[&zstd]).unwrap(), b"one, two");
}

#[test]
fn zeroes_pad_what_is_coded_and_hide_no_member_behind_them() {
    let [one, two] = [&b"one, "[..], b"two"].map(|plain| encode(Coding::Gzip, plain));
    let padded = [&one[..], &[0; 700], &two, &[0; 70]].concat();
    for cut in [1, 7, 512, padded.len()] {
        let pieces: Vec<&[u8]> = padded.chunks(cut).collect();
        assert_eq!(
            decode(&[Coding::Gzip], &pieces).unwrap(),
            b"one, two",
            "{cut}"
        );
    }
    // Behind what is neither, nothing is a member any more, wherever it is cut.
    let foreign = [&one[..], b"\0and more", &two].concat();
    for cut in 1..foreign.len() {
        let (head, tail) = foreign.split_at(cut);
        assert_eq!(
            decode(&[Coding::Gzip], &[head, tail]).unwrap(),
            b"one, ",
            "{cut}"
        );
    }
}

#[test]
fn deflate_without_its_header_is_taken() {
    let mut to = write::DeflateEncoder::new(Vec::new(), Compression::fast());
    to.write_all(b"some plain text").unwrap();
    let coded = to.finish().unwrap();
    let octets: Vec<&[u8]> = coded.chunks(1).collect();
    assert_eq!(
        decode(&[Coding::Deflate], &octets).unwrap(),
        b"some plain text"
    );
}

#[test]
fn a_bomb_is_undone_a_step_at_a_time_and_never_all_at_once_in_a_request() {
    let coded = encode(Coding::Zstd, &vec![0; 64 * 1024 * 1024]);
    assert!(coded.len() < 16 * 1024);
    let mut decoder = Decoder::new(&[Coding::Zstd], &Memory::of_sandbox()).unwrap();
    decoder.push(&coded);
    let (mut total, mut out) = (0, Vec::new());
    while decoder.step(&mut out).unwrap() {
        assert!(out.len() <= STEP);
        total += out.len();
        out.clear();
    }
    assert_eq!(total, 64 * 1024 * 1024);

    struct Nothing;
    impl Rewrite for Nothing {
        fn push(&mut self, _: &[u8], _: &mut Vec<u8>) -> Result<(), RewriteError> {
            Ok(())
        }
        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
            Ok(())
        }
        fn held(&self) -> usize {
            0
        }
    }
    let mut request = Undone::new(&[Coding::Zstd], &Memory::of_sandbox(), Nothing).unwrap();
    let pushed = request.push(&coded, &mut Vec::new());
    assert_eq!(pushed, Err(RewriteError::Bomb));
    // However it is cut: what came before and after it makes no difference.
    let mut request = Undone::new(&[Coding::Zstd], &Memory::of_sandbox(), Nothing).unwrap();
    let pushed = coded
        .chunks(1)
        .find_map(|octet| request.push(octet, &mut Vec::new()).err());
    assert_eq!(pushed, Some(RewriteError::Bomb));
}

#[test]
fn no_deflated_body_is_a_bomb_however_long() {
    struct Counts(usize);
    impl Rewrite for Counts {
        fn push(&mut self, octets: &[u8], _: &mut Vec<u8>) -> Result<(), RewriteError> {
            self.0 += octets.len();
            Ok(())
        }
        fn finish(&mut self, _: &mut Vec<u8>) -> Result<(), RewriteError> {
            Ok(())
        }
        fn held(&self) -> usize {
            0
        }
    }
    let mut to = write::GzEncoder::new(Vec::new(), Compression::best());
    let zeros = vec![0; 1 << 20];
    for _ in 0..80 {
        to.write_all(&zeros).unwrap();
    }
    let coded = to.finish().unwrap();
    assert!((80 << 20) / coded.len() > 1000);
    let mut request = Undone::new(&[Coding::Gzip], &Memory::of_sandbox(), Counts(0)).unwrap();
    request.push(&coded, &mut Vec::new()).unwrap();
    assert_eq!(request.inner.0, 80 << 20);
}

#[test]
fn a_flushed_piece_comes_at_once() {
    let mut to = write::GzEncoder::new(Vec::new(), Compression::fast());
    to.write_all(b"data: one\n\n").unwrap();
    to.flush().unwrap();
    let mut decoder = Decoder::new(&[Coding::Gzip], &Memory::of_sandbox()).unwrap();
    decoder.push(to.get_ref());
    let mut out = Vec::new();
    assert!(decoder.step(&mut out).unwrap());
    assert_eq!(out, b"data: one\n\n");

    let mut context = zstd_safe::CCtx::create();
    let mut room = vec![0; 256];
    let mut coded = zstd_safe::OutBuffer::around(&mut room[..]);
    let mut plain = zstd_safe::InBuffer::around(b"data: one\n\n");
    context.compress_stream(&mut coded, &mut plain).unwrap();
    context.flush_stream(&mut coded).unwrap();
    let mut decoder = Decoder::new(&[Coding::Zstd], &Memory::of_sandbox()).unwrap();
    decoder.push(coded.as_slice());
    out.clear();
    assert!(decoder.step(&mut out).unwrap());
    assert_eq!(out, b"data: one\n\n");
}

#[test]
fn windows_beyond_the_standards_are_refused() {
    let mut context = zstd_safe::CCtx::create();
    context
        .set_parameter(zstd_safe::CParameter::WindowLog(27))
        .unwrap();
    let mut room = vec![0; 4096];
    let mut coded = zstd_safe::OutBuffer::around(&mut room[..]);
    let mut plain = zstd_safe::InBuffer::around(b"whatever");
    context.compress_stream(&mut coded, &mut plain).unwrap();
    context.flush_stream(&mut coded).unwrap();
    assert_eq!(
        decode(&[Coding::Zstd], &[coded.as_slice()]),
        Err(DecodeError::Broken)
    );
    // RFC 9841 §4: 0b0010001 and six bits begin a large window.
    assert_eq!(
        decode(&[Coding::Brotli], &[b"\x11\x1e\x00\x00\x00"]),
        Err(DecodeError::Broken)
    );
}

fn headers(name: http::HeaderName, value: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(name, HeaderValue::from_static(value))])
}

#[test]
fn only_what_can_be_undone_is_asked_for() {
    for (asked, left, codings) in [
        (
            "gzip, deflate;q=0.5, br , zstd",
            "gzip, deflate;q=0.5, br , zstd",
            4,
        ),
        ("compress, gzip", "gzip", 1),
        ("*", "identity", 0),
        ("gzip;q=0, *;q=0", "gzip;q=0, *;q=0", 0),
        ("dcb, identity", "identity", 0),
    ] {
        let mut request = headers(ACCEPT_ENCODING, asked);
        assert_eq!(accepted(&mut request).len(), codings, "{asked}");
        assert_eq!(request[ACCEPT_ENCODING], left);
    }
    assert!(accepted(&mut HeaderMap::new()).is_empty());
}

#[test]
fn codings_are_read_from_the_field() {
    let of = |value| coded(&headers(CONTENT_ENCODING, value));
    assert_eq!(of("identity"), Coded::Plain);
    assert_eq!(of("GZip"), Coded::Known(vec![Coding::Gzip]));
    assert_eq!(
        of("gzip, br"),
        Coded::Known(vec![Coding::Gzip, Coding::Brotli])
    );
    assert_eq!(of("compress"), Coded::Unknown);
    assert_eq!(of("br,br,br,br,br"), Coded::TooMany);
}

proptest! {
    #[test]
    fn anything_survives(plain in prop::collection::vec(any::<u8>(), 0..3000), size in 1_usize..200) {
        for coding in ALL {
            let coded = encode(coding, &plain);
            let pieces: Vec<&[u8]> = coded.chunks(size).collect();
            prop_assert_eq!(&decode(&[coding], &pieces).unwrap(), &plain);
        }
    }

    #[test]
    fn rubbish_never_panics(octets in prop::collection::vec(any::<u8>(), 0..300)) {
        for coding in ALL {
            drop(decode(&[coding], &[&octets]));
        }
    }
}
