//! Values in UTF-16 and UTF-32, cut everywhere.

use super::*;

const ENCODINGS: [(usize, bool); 4] = [(2, true), (2, false), (4, true), (4, false)];

fn wide(text: &str, (width, little): (usize, bool)) -> Vec<u8> {
    let mut out = Vec::new();
    for character in text.chars() {
        let units: Vec<u32> = match width {
            4 => vec![u32::from(character)],
            _ => {
                let mut room = [0; 2];
                let units = character.encode_utf16(&mut room);
                units.iter().map(|unit| u32::from(*unit)).collect()
            }
        };
        for unit in units {
            let mut octets = unit.to_le_bytes()[..width].to_vec();
            if !little {
                octets.reverse();
            }
            out.extend(octets);
        }
    }
    out
}

#[test]
fn a_value_in_wide_letters_becomes_its_sentinel_in_them_wherever_it_is_cut() {
    for value in [VALUE, "schl\u{fc}ssel-\u{20ac}-4711", "\u{1f511}key-4711"] {
        let scrub = scrub_of(&[(value, SENTINEL)]);
        for encoding in ENCODINGS {
            let around = |text: &str| wide(&format!("\u{feff}{{\"k\": \"{text}\"}}"), encoding);
            let (whole, expected) = (around(value), around(SENTINEL));
            for cut in 0..=whole.len() {
                let (head, tail) = whole.split_at(cut);
                let got = through(&scrub, Fit::Free, &[head, tail]);
                assert_eq!(got, expected, "{value} {encoding:?} cut at {cut}");
                let exact = through(&scrub, Fit::Exact, &[head, tail]);
                assert_eq!(exact.len(), whole.len());
                let letters = wide(value, encoding);
                assert!(!exact.windows(letters.len()).any(|at| at == letters));
            }
            let octets: Vec<&[u8]> = whole.chunks(1).collect();
            assert_eq!(through(&scrub, Fit::Free, &octets), expected);
        }
    }
}

#[test]
fn escaped_wide_letters_become_escaped_wide_letters() {
    let value = VALUE;
    let scrub = scrub_of(&[(value, SENTINEL)]);
    type Escaped = (fn(&u8) -> String, fn(&str) -> Vec<u8>);
    let ways: [Escaped; 2] = [
        (
            |octet| format!("%{octet:02X}"),
            |text| percent_encoding::percent_decode_str(text).collect(),
        ),
        (
            |octet| format!("\\u{octet:04x}"),
            |text| {
                let text: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
                text.chars().map(|c| u8::try_from(c).unwrap()).collect()
            },
        ),
    ];
    for encoding in ENCODINGS {
        for (escaped, undone) in ways {
            let around = |text: &str| wide(&format!("<{text}>"), encoding);
            let sent: String = around(value).iter().map(escaped).collect();
            let got = through(&scrub, Fit::Free, &[sent.as_bytes()]);
            let got = String::from_utf8(got).unwrap();
            assert!(!got.contains('\0'), "{got:?}");
            assert_eq!(undone(&got), around(SENTINEL), "{encoding:?} {got}");
            let exact = through(&scrub, Fit::Exact, &[sent.as_bytes()]);
            assert_eq!(exact.len(), sent.len());
        }
    }
}

#[test]
fn a_line_break_at_an_end_of_a_value_leaves_other_letters_whole() {
    let scrub = scrub_of(&[(&format!("\n{VALUE}\r\n"), SENTINEL)]);
    for encoding in ENCODINGS {
        let around = |text: &str| wide(&format!("<\n{text}\r\n>"), encoding);
        let got = through(&scrub, Fit::Free, &[&around(VALUE)]);
        assert_eq!(got, around(SENTINEL), "{encoding:?}");
    }
}

proptest! {
    #[test]
    fn other_text_in_wide_letters_stays(
        text in "[ghp_0-9A-Za-z+/= \u{20ac}]{0,120}",
        encoding in prop::sample::select(&ENCODINGS[..]),
        cut in 1_usize..40,
    ) {
        let octets = wide(&text, encoding);
        let pieces: Vec<&[u8]> = octets.chunks(cut).collect();
        prop_assert_eq!(through(&scrub(), Fit::Free, &pieces), octets);
    }
}
