//! Every form, cut everywhere.

use std::io::Write as _;

use base64::{Engine, engine::general_purpose};
use bytes::Bytes;
use gig_vault::{GuardedValue, SecretBytes};
use proptest::prelude::*;

use super::{
    work::{Rewriter, Step, Stopped, Work},
    *,
};
use crate::credential::{
    armour::tests::pem,
    coding::{Coding, Decoder},
    memory::Memory,
    rewrite::Rewrite,
};

mod lines;
mod long;

const VALUE: &str = "ghp_0123+Real/Value==xyz";
const SENTINEL: &str = "gigph-00112233445566778899aabbccddeeff";

fn scrub_of(pairs: &[(&str, &str)]) -> Arc<Scrub> {
    granted(pairs, &["TOKEN"])
}

/// For the answer to a request that may carry these.
fn granted(pairs: &[(&str, &str)], names: &[&str]) -> Arc<Scrub> {
    let values = pairs.iter().map(|(value, _)| GuardedValue {
        name: "TOKEN".parse().unwrap(),
        version: 1,
        part: Some(0),
        value: Arc::new(SecretBytes::new(value.as_bytes().to_vec())),
        current: true,
    });
    let guarded = Guarded {
        generation: 1,
        values: values.collect(),
    };
    let sentinels: Vec<&str> = pairs.iter().map(|(_, sentinel)| *sentinel).collect();
    let grants = names
        .iter()
        .map(|name| SecretGrant::everywhere(name.parse().unwrap()));
    Scrub::of(guarded, &sentinels, &grants.collect::<Vec<_>>()).expect("a value")
}

fn scrub() -> Arc<Scrub> {
    scrub_of(&[(VALUE, SENTINEL)])
}

/// What comes out of `pieces`.
fn through(scrub: &Arc<Scrub>, fit: Fit, pieces: &[&[u8]]) -> Vec<u8> {
    let mut scrubber = scrub.scrubber(fit);
    let mut out = Vec::new();
    for piece in pieces {
        scrubber.push(piece, &mut out).unwrap();
    }
    scrubber.finish(&mut out).unwrap();
    out
}

fn text(octets: Vec<u8>) -> String {
    String::from_utf8(octets).unwrap()
}

fn percent(text: &str, every: usize) -> String {
    let escaped = |(n, b): (usize, u8)| match n % every {
        0 if n % 2 == 0 => format!("%{b:02X}"),
        0 => format!("%{b:02x}"),
        _ => char::from(b).to_string(),
    };
    text.bytes().enumerate().map(escaped).collect()
}

fn forms(of: &str) -> Vec<(&'static str, String)> {
    let hex: String = of.bytes().map(|b| format!("{b:02x}")).collect();
    let unicode: String = of.bytes().map(|b| format!("\\u{b:04x}")).collect();
    let entities: String = of.bytes().map(|b| format!("&#{b};")).collect();
    let hex_entities: String = of.bytes().map(|b| format!("&#x{b:X};")).collect();
    vec![
        ("plain", of.to_owned()),
        ("percent", percent(of, 1)),
        ("mixed percent", percent(of, 3)),
        ("twice percent", percent(of, 2).replace('%', "%25")),
        ("hex", hex.clone()),
        ("upper hex", hex.to_uppercase()),
        ("unicode", unicode.clone()),
        ("unicode in JSON in JSON", unicode.replace('\\', "\\\\")),
        ("solidus", of.replace('/', "\\/")),
        ("entities", entities),
        ("hex entities", hex_entities),
        ("lines", of.replacen("Re", "R\r\ne", 1)),
    ]
}

#[test]
fn every_form_is_found_wherever_it_is_cut() {
    let scrub = scrub();
    for (form, written) in forms(VALUE) {
        let whole = format!("{{\"x\": \"{written}\", \"y\": 1}}");
        let expected = text(through(&scrub, Fit::Free, &[whole.as_bytes()]));
        assert!(!expected.contains(&written), "{form}: {expected}");
        for cut in 0..=whole.len() {
            let (head, tail) = whole.as_bytes().split_at(cut);
            let got = text(through(&scrub, Fit::Free, &[head, tail]));
            assert_eq!(got, expected, "{form} cut at {cut}");
        }
        let octets: Vec<&[u8]> = whole.as_bytes().chunks(1).collect();
        assert_eq!(
            text(through(&scrub, Fit::Free, &octets)),
            expected,
            "{form}"
        );
        let exact = through(&scrub, Fit::Exact, &octets);
        assert_eq!(exact.len(), whole.len(), "{form}");
        assert!(!text(exact).contains(&written), "{form}");
    }
}

#[test]
fn a_sentinel_is_written_as_the_value_was() {
    let scrub = scrub();
    let hex: String = SENTINEL.bytes().map(|b| format!("{b:02x}")).collect();
    for (form, written) in forms(VALUE) {
        let got = text(through(&scrub, Fit::Free, &[written.as_bytes()]));
        match form {
            "hex" => assert_eq!(got, hex),
            "upper hex" => assert_eq!(got, hex.to_uppercase()),
            _ => assert_eq!(got, SENTINEL, "{form}"),
        }
    }
}

#[test]
fn base64_around_a_value_is_written_anew() {
    let scrub = scrub();
    let engines = [
        general_purpose::STANDARD,
        general_purpose::STANDARD_NO_PAD,
        general_purpose::URL_SAFE_NO_PAD,
    ];
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "1", "12", "123", " and more of it", VALUE] {
            for engine in &engines {
                let plain = format!("{before}{VALUE}{after}");
                let encoded = engine.encode(&plain);
                let cuts = [0, 1, 2, 5, encoded.len() / 2, encoded.len() - 1];
                for cut in cuts {
                    let (head, tail) = encoded.as_bytes().split_at(cut);
                    let got = text(through(&scrub, Fit::Free, &[b" ", head, tail, b"\""]));
                    let inner = got.trim_matches([' ', '"']);
                    let decoded = LENIENT.decode(inner.replace('-', "+").replace('_', "/"));
                    let expected = plain.replace(VALUE, SENTINEL);
                    assert_eq!(
                        text(decoded.unwrap()),
                        expected,
                        "{plain} as {encoded}: {got}"
                    );
                }
                let exact = through(&scrub, Fit::Exact, &[encoded.as_bytes()]);
                assert_eq!(exact.len(), encoded.len());
                let shown = engine.decode(&exact).unwrap();
                assert!(!text(shown).contains(VALUE));
            }
        }
    }
}

#[test]
fn a_form_behind_the_beginning_of_an_escape_is_found() {
    let scrub = scrub();
    let joints = [
        "%", "%%", "%2", "\\", "\\u", "\\u00", "\\x", "&", "&#", "&#x", "&amp", "=", "\n0 a\n%",
    ];
    for (form, written) in forms(VALUE) {
        for joint in joints {
            let whole = format!("{joint}{written}");
            let expected = text(through(&scrub, Fit::Free, &[whole.as_bytes()]));
            assert!(
                !expected.contains(&written),
                "{form} behind {joint}: {expected}"
            );
            for cut in 0..=whole.len() {
                for more in [cut, whole.len().min(cut + 3)] {
                    let (head, rest) = whole.as_bytes().split_at(cut);
                    let (middle, tail) = rest.split_at(more - cut);
                    let got = text(through(&scrub, Fit::Free, &[head, middle, tail]));
                    assert_eq!(
                        got, expected,
                        "{form} behind {joint}, cut at {cut} and {more}"
                    );
                }
            }
        }
    }
}

#[test]
fn what_was_released_is_remembered() {
    let mut scrubber = scrub().scrubber(Fit::Free);
    let mut out = Vec::new();
    scrubber.push(b"data: ghp_01", &mut out).unwrap();
    assert_eq!(out, b"data: ");
    assert_eq!(scrubber.held(), 6);
    scrubber.release(&mut out).unwrap();
    assert_eq!((out.as_slice(), scrubber.held()), (&b"data: ghp_01"[..], 0));
    scrubber.push(b"23+Real/Value==xyz\n", &mut out).unwrap();
    scrubber.finish(&mut out).unwrap();
    assert_eq!(text(out), format!("data: ghp_01{SENTINEL}\n"));
}

#[test]
fn an_event_goes_when_it_is_over() {
    let mut scrubber = scrub().scrubber(Fit::Events);
    for event in ["data: ends in gh\n\n", "data: g\r\n\r\n"] {
        let mut out = Vec::new();
        scrubber.push(event.as_bytes(), &mut out).unwrap();
        assert_eq!(text(out), event);
    }
}

#[test]
fn what_is_held_back_is_bounded() {
    let mut scrubber = scrub().scrubber(Fit::Free);
    let mut out = Vec::new();
    scrubber.push(b"ghp_0123", &mut out).unwrap();
    for _ in 0..1000 {
        scrubber.push(&[b'\n'; 100], &mut out).unwrap();
        assert!(scrubber.held() < 4096);
    }
    scrubber.finish(&mut out).unwrap();
    assert_eq!(out.len(), 8 + 100_000);
}

#[test]
fn headers_lose_values_in_any_field() {
    let scrub = scrub();
    let basic = general_purpose::STANDARD.encode(format!("user:{VALUE}"));
    let mut headers = HeaderMap::new();
    headers.insert(
        "location",
        format!("/?t={}", percent(VALUE, 1)).parse().unwrap(),
    );
    headers.append("set-cookie", format!("t={VALUE}; Path=/").parse().unwrap());
    headers.append("set-cookie", "other=1".parse().unwrap());
    headers.insert("x-auth", format!("Basic {basic}").parse().unwrap());
    let mut found = BTreeSet::new();
    scrub.headers(&mut headers, &mut found);
    assert_eq!(headers["location"], format!("/?t={SENTINEL}"));
    assert_eq!(headers["set-cookie"], format!("t={SENTINEL}; Path=/"));
    let expected = general_purpose::STANDARD.encode(format!("user:{SENTINEL}"));
    assert_eq!(headers["x-auth"], format!("Basic {expected}"));
    assert_eq!(headers.get_all("set-cookie").iter().count(), 2);
    assert_eq!(found.len(), 1);
}

#[test]
fn a_field_that_cannot_be_written_with_its_sentinel_is_withheld() {
    let scrub = scrub_of(&[(VALUE, "gigph\nno-field")]);
    let mut headers = HeaderMap::new();
    headers.insert("x-a", format!("t={VALUE}").parse().unwrap());
    let mut found = BTreeSet::new();
    scrub.headers(&mut headers, &mut found);
    assert_eq!(
        (&headers["x-a"], found.len()),
        (&"gigph-withheld".parse().unwrap(), 1)
    );
}

#[test]
fn letter_case_hides_no_value() {
    let scrub = scrub();
    for changed in [VALUE.to_lowercase(), VALUE.to_uppercase()] {
        let octets: Vec<&[u8]> = changed.as_bytes().chunks(1).collect();
        assert_eq!(text(through(&scrub, Fit::Free, &octets)), SENTINEL);
    }
    let plain = scrub_of(&[("UpperCaseValue", SENTINEL)]);
    let mut headers = HeaderMap::new();
    headers.insert("uppercasevalue", "1".parse().unwrap());
    plain.headers(&mut headers, &mut BTreeSet::new());
    assert!(headers.is_empty(), "a field's name comes in lower case");
}

/// What a coding that nobody asked for comes to, cut into such pieces.
fn looked(scrub: &Arc<Scrub>, octets: &[u8], size: usize) -> Result<Vec<u8>, Stopped> {
    let decoder = Decoder::new(&[Coding::Gzip], &Memory::of_sandbox()).unwrap();
    let scrubber = || Scrubbers::new(scrub, Fit::Exact);
    let mut work = Work::looking(
        (decoder, Memory::of_sandbox().share()),
        scrubber(),
        Rewriter::Body(scrubber()),
    );
    let mut out = Vec::new();
    for piece in octets.chunks(size) {
        work.feed(Bytes::copy_from_slice(piece));
        loop {
            match work.step()? {
                Step::Out(data) => out.extend_from_slice(&data),
                Step::On => {}
                Step::Dry => break,
            }
        }
    }
    out.extend_from_slice(&work.finish()?);
    Ok(out)
}

#[test]
fn a_name_in_a_coding_and_what_follows_its_end_are_looked_at() {
    let scrub = scrub();
    let coded = |name: &str, after: &str| {
        let builder = flate2::GzBuilder::new().filename(name).comment(name);
        let mut to = builder.write(Vec::new(), flate2::Compression::fast());
        to.write_all(b"harmless").unwrap();
        [to.finish().unwrap(), after.as_bytes().to_vec()].concat()
    };
    for size in [1, 7, 1000] {
        let harmless = coded("x", "and more");
        assert_eq!(looked(&scrub, &harmless, size), Ok(harmless));
        for (name, after) in [(VALUE, ""), ("x", VALUE)] {
            let harmful = coded(name, after);
            let found = looked(&scrub, &harmful, size);
            assert_eq!(found, Err(Stopped::Value), "{name}, {after}");
        }
    }
}

#[test]
fn the_longer_of_two_values_counts() {
    let scrub = scrub_of(&[
        ("abcdefgh", "short"),
        ("abcdefghijkl", "long"),
        ("xabcdefghZZ", "other"),
    ]);
    for (given, expected) in [
        ("1abcdefgh2", "1short2"),
        ("1abcdefghijkl2", "1long2"),
        ("1xabcdefghZZ2", "1other2"),
        ("1xabcdefghZ2", "1xshortZ2"),
        ("1abcdefghiabcdefgh", "1shortishort"),
    ] {
        for cut in 0..=given.len() {
            let (head, tail) = given.as_bytes().split_at(cut);
            assert_eq!(
                text(through(&scrub, Fit::Free, &[head, tail])),
                expected,
                "{cut}"
            );
        }
    }
}

const LENIENT: general_purpose::GeneralPurpose = general_purpose::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    general_purpose::GeneralPurposeConfig::new()
        .with_decode_padding_mode(base64::engine::DecodePaddingMode::Indifferent),
);

fn fragment() -> impl Strategy<Value = String> {
    let value_forms: Vec<String> = forms(VALUE).into_iter().map(|(_, f)| f).collect();
    prop_oneof![
        3 => "[ -~\n]{0,30}",
        1 => prop::sample::select(value_forms),
        1 => (0..VALUE.len(), 1..=VALUE.len()).prop_map(|(a, b)| VALUE.get(a.min(b)..b).unwrap_or_default().to_owned()),
        1 => ("[ -~]{0,5}", "[ -~]{0,9}").prop_map(|(a, b)| {
            general_purpose::STANDARD.encode(format!("{a}{VALUE}{b}"))
        }),
        1 => prop::sample::select(vec!["%", "\\", "&", "%2", "\\u00", "&#x", "=", "\\\\", "%25", "&amp;"])
            .prop_map(str::to_owned),
    ]
}

/// What stands next to a form: anything, and what the form itself could go on with or have begun with.
fn neighbour() -> impl Strategy<Value = Vec<u8>> {
    let letters = |text: String| text.into_bytes();
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..4),
        "[A-Za-z0-9+/=_-]{1,8}".prop_map(letters),
        "[0-9a-fA-F]{1,8}".prop_map(letters),
        "(%|%25|\\\\|\\\\u00|&|&#x|&amp;|=|\\\\x){1,3}".prop_map(letters),
    ]
}

proptest! {
    #[test]
    fn where_it_is_cut_does_not_matter(
        fragments in prop::collection::vec(fragment(), 0..6),
        cuts in prop::collection::vec(1_usize..40, 0..40),
    ) {
        let whole = fragments.concat();
        let scrub = scrub();
        for fit in [Fit::Free, Fit::Exact] {
            let expected = through(&scrub, fit, &[whole.as_bytes()]);
            let mut pieces = Vec::new();
            let mut rest = whole.as_bytes();
            for cut in &cuts {
                let (piece, more) = rest.split_at(rest.len().min(*cut));
                pieces.push(piece);
                rest = more;
            }
            pieces.push(rest);
            let got = through(&scrub, fit, &pieces);
            prop_assert_eq!(String::from_utf8_lossy(&got), String::from_utf8_lossy(&expected));
            if fit == Fit::Exact {
                prop_assert_eq!(got.len(), whole.len());
            }
            prop_assert!(!String::from_utf8_lossy(&got).contains(VALUE));
        }
    }

    #[test]
    fn a_form_is_replaced_whatever_stands_around_it(
        before in prop::collection::vec(fragment(), 0..3),
        near in neighbour(),
        form in prop::sample::select(forms(VALUE)),
        after in neighbour(),
        cut in 1_usize..50,
    ) {
        let (_, form) = form;
        let whole = [before.concat().as_bytes(), &near, form.as_bytes(), &after].concat();
        let scrub = scrub();
        for fit in [Fit::Free, Fit::Exact] {
            let pieces: Vec<&[u8]> = whole.chunks(cut).collect();
            let got = through(&scrub, fit, &pieces);
            prop_assert!(!got.windows(form.len()).any(|here| here == form.as_bytes()));
            prop_assert_eq!(got, through(&scrub, fit, &[&whole]));
        }
    }

    #[test]
    fn what_holds_no_value_stays(octets in prop::collection::vec(any::<u8>(), 0..300), cut in 0_usize..300) {
        let scrub = scrub();
        let (head, tail) = octets.split_at(cut.min(octets.len()));
        prop_assert_eq!(through(&scrub, Fit::Free, &[head, tail]), octets);
    }
}

mod keys;
mod odd;
mod opened;
mod waits;
mod whole;
mod wide;

#[test]
fn of_two_secrets_that_are_the_same_the_one_that_may_go_there_comes_back() {
    let value = |name: &str| GuardedValue {
        name: name.parse().unwrap(),
        version: 1,
        part: Some(0),
        value: Arc::new(SecretBytes::new(VALUE.as_bytes().to_vec())),
        current: true,
    };
    let other = SENTINEL.replace('0', "f");
    for (granted, expected) in [("ONE", SENTINEL), ("TWO", &other), ("NONE", SENTINEL)] {
        let guarded = Guarded {
            generation: 1,
            values: vec![value("ONE"), value("TWO")],
        };
        let grants = [SecretGrant::everywhere(granted.parse().unwrap())];
        let scrub = Scrub::of(guarded, &[SENTINEL, &other], &grants).unwrap();
        let mut found = BTreeSet::new();
        let told = scrub.text(VALUE.as_bytes(), &mut found).unwrap();
        assert_eq!(text(told), expected, "{granted}");
        let name = if granted == "TWO" { "TWO" } else { "ONE" };
        assert_eq!(found, BTreeSet::from([name.parse().unwrap()]));
    }
}
