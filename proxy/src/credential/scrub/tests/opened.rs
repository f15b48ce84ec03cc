//! Bodies that are open while values change, that stop within a value, and that say they are messages.

use super::{super::grpc::Messages, *};
use crate::credential::{memory::NoMemory, rewrite::RewriteError};

const NEXT: &str = "ghp_9876+Next/Value==abc";

/// As a stream of one message for each of `texts`.
fn messages(texts: &[&[u8]]) -> Vec<u8> {
    let of = |text: &&[u8]| {
        let length = u32::try_from(text.len()).unwrap();
        [&[0][..], &length.to_be_bytes(), text].concat()
    };
    texts.iter().flat_map(of).collect()
}

/// What comes out of `octets` in pieces of this size, with a rest between every two.
fn through_messages(scrub: &Arc<Scrub>, octets: &[u8], size: usize) -> Vec<u8> {
    let scrubbers = Scrubbers::new(scrub, Fit::Exact);
    let mut through = Messages::new(scrubbers, None, Memory::of_sandbox());
    let mut out = Vec::new();
    for piece in octets.chunks(size) {
        through.push(piece, &mut out).unwrap();
        through.release(&mut out).unwrap();
    }
    through.finish(&mut out).unwrap();
    out
}

/// The longest part of the value that stands in `out`.
fn shown(out: &[u8]) -> usize {
    let value = VALUE.as_bytes();
    let parts = (0..value.len()).flat_map(|from| (from + 1..=value.len()).map(move |to| from..to));
    let stands = |part: &std::ops::Range<usize>| {
        let part = &value[part.clone()];
        out.windows(part.len()).any(|here| here == part)
    };
    parts
        .filter(stands)
        .map(|part| part.len())
        .max()
        .unwrap_or(0)
}

#[test]
fn a_value_across_what_is_called_a_message_does_not_pass() {
    let scrub = scrub();
    let value = VALUE.as_bytes();
    for cut in 1..value.len() {
        let text = [
            b"0123456789".as_slice(),
            value,
            b" and more, as long as it likes",
        ]
        .concat();
        let (head, rest) = text.split_at(10 + cut);
        // What follows the first message is the value's: flags and a length that are what they are.
        let length = u32::try_from(head.len()).unwrap();
        let stored = [&[0][..], &length.to_be_bytes(), head, rest].concat();
        if rest.first().is_some_and(|flags| flags & 1 == 1) {
            continue;
        }
        for size in [1, 3, 7, 1000] {
            let out = through_messages(&scrub, &stored, size);
            assert_eq!(out.len(), stored.len(), "{cut} {size}");
            assert!(
                shown(&out) <= value.len() / 4,
                "cut at {cut}, by {size}: {}",
                String::from_utf8_lossy(&out)
            );
        }
    }
}

#[test]
fn a_message_waits_for_no_other_one() {
    let scrub = scrub();
    let stream = messages(&[b"ends like a val: ghp_0", b"", VALUE.as_bytes(), b"last g"]);
    let mut through = Messages::new(
        Scrubbers::new(&scrub, Fit::Exact),
        None,
        Memory::of_sandbox(),
    );
    let (mut out, mut sent) = (Vec::new(), 0);
    for length in [27, 5, 5 + VALUE.len(), 11] {
        through
            .push(&stream[sent..sent + length], &mut out)
            .unwrap();
        sent += length;
        assert_eq!((out.len(), through.held()), (sent, 0));
    }
    let expected = messages(&[
        b"ends like a val: ghp_0",
        b"",
        &SENTINEL.as_bytes()[..VALUE.len()],
        b"last g",
    ]);
    assert_eq!(text(out), text(expected));
}

#[test]
fn what_stops_within_a_value_shows_little_of_it() {
    let scrub = scrub();
    for held in 1..VALUE.len() {
        let mut scrubber = scrub.scrubber(Fit::Free);
        let mut out = Vec::new();
        scrubber.push(&VALUE.as_bytes()[..held], &mut out).unwrap();
        scrubber.release(&mut out).unwrap();
        let most = VALUE.len() / 4;
        let goes = if held <= most { held } else { 0 };
        assert_eq!(out.len(), goes, "{held}");
        scrubber.push(&VALUE.as_bytes()[held..], &mut out).unwrap();
        scrubber.finish(&mut out).unwrap();
        let shown = VALUE.get(..goes).unwrap();
        assert_eq!(text(out), format!("{shown}{SENTINEL}"), "{held}");
    }
}

#[test]
fn how_little_is_shown_goes_by_the_value_that_may_have_begun() {
    let long = "github_pat_".to_owned() + &"Ab3".repeat(24);
    let scrub = scrub_of(&[("hunter2-of-mine", SENTINEL), (&long, SENTINEL)]);
    for (begun, goes) in [
        ("github_pat_", 11),
        (long.get(..21).unwrap(), 0),
        ("hunte", 5),
        ("hunter", 0),
    ] {
        let mut scrubber = scrub.scrubber(Fit::Free);
        let mut out = Vec::new();
        scrubber.push(begun.as_bytes(), &mut out).unwrap();
        scrubber.release(&mut out).unwrap();
        assert_eq!(out.len(), goes, "{begun}");
    }
}

#[test]
fn a_rest_within_a_base64_text_that_is_written_anew_shows_no_second_value() {
    let scrub = scrub();
    let twice = general_purpose::STANDARD.encode(VALUE.repeat(2));
    for cut in 1..twice.len() {
        for more in [cut + 1, cut + 3, cut + 6] {
            let mut scrubber = scrub.scrubber(Fit::Free);
            let mut out = Vec::new();
            for piece in [
                twice.get(..cut),
                twice.get(cut..more.min(twice.len())),
                twice.get(more..),
            ] {
                let piece = piece.unwrap_or_default();
                scrubber.push(piece.as_bytes(), &mut out).unwrap();
                scrubber.release(&mut out).unwrap();
            }
            scrubber.finish(&mut out).unwrap();
            let plain = general_purpose::STANDARD.decode(&out).unwrap_or(out);
            let plain = String::from_utf8_lossy(&plain);
            let tail = VALUE.get(VALUE.len() / 2..).unwrap();
            assert!(!plain.contains(tail), "{cut} {more}: {plain}");
        }
    }
}

#[test]
fn what_makes_a_replaced_value_the_beginning_of_a_longer_one_is_replaced_too() {
    let long = format!("{VALUE}-and+More/of.it");
    let pairs = [(VALUE, SENTINEL), (&*long, "gigph-of-the-longer-one")];
    let encoded = general_purpose::STANDARD.encode(format!("x{long}"));
    let (end, coded) = ("More/of.it", "TW9yZS9vZi5pd");
    for (whole, end) in [(&*long, end), (&encoded, coded)] {
        assert!(whole.contains(end));
        for (granted, fit) in [
            (&["TOKEN"][..], Fit::Free),
            (&["TOKEN"], Fit::Exact),
            (&[], Fit::Free),
            (&[], Fit::Exact),
        ] {
            let scrub = super::granted(&pairs, granted);
            for cut in 1..whole.len() {
                let (head, tail) = whole.as_bytes().split_at(cut);
                let mut scrubber = scrub.scrubber(fit);
                let mut out = Vec::new();
                for piece in [head, tail] {
                    scrubber.push(piece, &mut out).unwrap();
                    scrubber.release(&mut out).unwrap();
                }
                scrubber.finish(&mut out).unwrap();
                assert!(fit == Fit::Free || out.len() == whole.len(), "{cut}");
                let shown = text(out);
                assert!(!shown.contains(end), "{cut}, {granted:?}: {shown}");
            }
        }
    }
}

#[test]
fn a_base64_text_that_is_written_anew_hides_the_end_of_a_second_value_wherever_it_is_cut() {
    let scrub = granted(&[(VALUE, SENTINEL)], &[]);
    let end = VALUE.get(VALUE.len() / 2..).unwrap();
    for (before, between) in [("", ""), ("x", ""), ("xy", "z"), ("", "zz, and ")] {
        let twice = general_purpose::STANDARD.encode(format!("{before}{VALUE}{between}{VALUE}"));
        let first = (before.len() + VALUE.len()).div_ceil(3) * 4;
        // Of the last characters of a text nobody knows that they are a value's.
        for cut in first..twice.len() - 8 {
            let (head, tail) = twice.as_bytes().split_at(cut);
            let out = through(&scrub, Fit::Free, &[head, tail]);
            // Whoever knows where it was cut begins there.
            for skipped in 0..4 {
                let letters = out.get(skipped..).unwrap();
                let whole = letters.len() / 4 * 4;
                let shown = LENIENT.decode(&letters[..whole]).unwrap_or_default();
                let shown = String::from_utf8_lossy(&shown);
                assert!(!shown.contains(end), "{before}, {between}, {cut}: {shown}");
            }
            let exact = through(&scrub, Fit::Exact, &[head, tail]);
            assert_eq!(exact.len(), twice.len(), "{cut}");
        }
    }
}

#[test]
fn a_character_that_a_value_shares_keeps_its_room_however_it_is_written() {
    let scrub = scrub();
    for after in ["a", "ab", "a and more"] {
        let encoded = general_purpose::STANDARD.encode(format!("u{VALUE}{after}"));
        for at in VALUE.len() * 4 / 3 - 1..encoded.len() {
            let octet = encoded.as_bytes()[at];
            for escape in [format!("%{octet:02X}"), format!("\\u{octet:04x}")] {
                let (head, tail) = encoded.split_at(at);
                let written = [head, &escape, tail.get(1..).unwrap()].concat();
                let out = through(&scrub, Fit::Exact, &[written.as_bytes()]);
                assert_eq!(out.len(), written.len(), "{written}: {}", text(out));
            }
        }
    }
}

#[test]
fn an_event_ends_the_base64_text_in_it() {
    let mut scrubber = scrub().scrubber(Fit::Events);
    for plain in [format!("x{VALUE}"), VALUE.to_owned(), format!("xy{VALUE}.")] {
        let engine = general_purpose::STANDARD_NO_PAD;
        let mut out = Vec::new();
        let event = format!("data: {}\n\n", engine.encode(&plain));
        scrubber.push(event.as_bytes(), &mut out).unwrap();
        let out = text(out);
        let shown = out
            .strip_prefix("data: ")
            .and_then(|out| out.strip_suffix("\n\n"));
        let shown = LENIENT.decode(shown.unwrap()).unwrap();
        assert_eq!(text(shown), plain.replace(VALUE, SENTINEL));
    }
    let mut out = Vec::new();
    scrubber.push(b"data: next\n\n", &mut out).unwrap();
    assert_eq!(text(out), "data: next\n\n");
}

#[test]
fn what_went_before_it_was_known_is_told() {
    let long = format!("{VALUE}-and-more");
    let before = granted(&[(&long, SENTINEL)], &[]);
    let now = granted(&[(&long, SENTINEL), (VALUE, SENTINEL)], &[]);
    let mut scrubber = before.scrubber(Fit::Free);
    let mut out = Vec::new();
    scrubber.push(VALUE.as_bytes(), &mut out).unwrap();
    assert!(out == VALUE.as_bytes() && !scrubber.has_found());
    scrubber.renew(&now);
    scrubber.push(b".", &mut out).unwrap();
    assert!(text(out) == format!("{VALUE}.") && scrubber.take_found().len() == 1);
}

#[test]
fn equal_grants_are_the_same_however_many_others_were_asked_for_meanwhile() {
    let values: Vec<GuardedValue> = (0..5)
        .map(|number| GuardedValue {
            name: format!("S{number}").parse().unwrap(),
            version: 1,
            part: Some(0),
            value: Arc::new(SecretBytes::new(
                format!("value.number.{number}").into_bytes(),
            )),
            current: true,
        })
        .collect();
    let guarded = Guarded {
        generation: 1,
        values,
    };
    let own = Arc::new(Own::of(guarded, &["a", "b", "c", "d", "e"]).unwrap());
    let of = |set: u32| {
        let names = (0..5).filter(|bit| set & 1 << bit != 0);
        let grants = names.map(|bit| SecretGrant::everywhere(format!("S{bit}").parse().unwrap()));
        Scrub::granted(Arc::clone(&own), &grants.collect::<Vec<_>>())
    };
    let first = of(1);
    for set in 2..32 {
        assert!(!first.is_of(&of(set)));
    }
    assert!(first.is_of(&of(1)));
}

#[test]
fn what_messages_come_to_is_counted_until_it_went() {
    let message = |octets: usize| {
        let mut to = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        to.write_all(&vec![b'-'; octets]).unwrap();
        let coded = to.finish().unwrap();
        let length = u32::try_from(coded.len()).unwrap();
        [&[1][..], &length.to_be_bytes(), &coded].concat()
    };
    let memory = Memory::of(20 * 1024 * 1024);
    let through = |stream: &[u8]| {
        let scrubbers = Scrubbers::new(&scrub(), Fit::Exact);
        let mut messages = Messages::new(scrubbers, Some(Coding::Gzip), Arc::clone(&memory));
        let mut out = Vec::new();
        let passed = messages.push(stream, &mut out);
        assert!(messages.held() == 0 && (passed.is_err() || memory.held() < 4 * 1024 * 1024));
        passed.map(|()| out.len())
    };
    let one = message(2 * 1024 * 1024);
    assert_eq!(through(&one), Ok(2 * 1024 * 1024 + 5));
    assert_eq!(
        through(&one.repeat(12)),
        Err(RewriteError::NoMemory(NoMemory))
    );
    assert_eq!(memory.held(), 0);
}

#[test]
fn what_becomes_known_is_replaced_in_what_comes_from_then_on() {
    let later = scrub_of(&[(NEXT, SENTINEL)]);
    let last = scrub_of(&[(VALUE, SENTINEL), ("ghp_5555+Last/Value==abc", SENTINEL)]);
    for cut in 0..VALUE.len() {
        let (head, tail) = VALUE.split_at(cut);
        let mut scrubbers = Scrubbers::new(&scrub(), Fit::Free);
        let mut out = scrubbers.pass(Bytes::copy_from_slice(format!("1 {head}").as_bytes()));
        // What was held back of the first one stays so.
        scrubbers.renew(&later);
        let mut got = out.to_vec();
        out = scrubbers.pass(Bytes::copy_from_slice(
            format!("{tail} 2 {NEXT} 3 ").as_bytes(),
        ));
        got.extend_from_slice(&out);
        let (begun, rest) = NEXT.split_at(cut);
        scrubbers.push(begun.as_bytes(), &mut got).unwrap();
        scrubbers.renew(&later);
        scrubbers.push(rest.as_bytes(), &mut got).unwrap();
        scrubbers.renew(&last);
        scrubbers
            .push(
                format!(" 4 {VALUE} ghp_5555+Last/Value==abc").as_bytes(),
                &mut got,
            )
            .unwrap();
        scrubbers.finish(&mut got).unwrap();
        assert_eq!(
            text(got),
            format!("1 {SENTINEL} 2 {SENTINEL} 3 {SENTINEL} 4 {SENTINEL} {SENTINEL}"),
            "{cut}"
        );
        assert_eq!(scrubbers.take_found().names.len(), 1);
    }
}
