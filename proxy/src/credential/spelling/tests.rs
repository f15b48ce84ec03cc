//! Looking against trying every place, and every spelling behind and before anything.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use proptest::prelude::*;

use fearless_simd::Level;

use super::{
    idle::Near,
    look::Around,
    marks::{Marks, Wide},
    special::is_special,
    *,
};
use crate::credential::lanes::levels;

/// Values that look like escapes, end in one, or are of what escapes are made of.
const VALUES: [&str; 8] = [
    "ghp_0123+Real/Value==xyz",
    "p%41ss\\n&amp;w0rd",
    "ends-in-a-percent%",
    "a5a5a5a5a5",
    "\\\\\\\\\\\\\\\\",
    "abcdef&#x",
    "25252525u0041",
    "nrnrnrnrn9",
];

fn spellings() -> Spellings {
    spellings_of(&VALUES)
}

/// Three texts for each value.
fn spellings_of(values: &[&str]) -> Spellings {
    Spellings::new(texts_of(values))
}

/// The same without leads: what begins is where its text does.
fn leadless(values: &[&str]) -> Spellings {
    let mut texts = texts_of(values);
    for text in &mut texts {
        text.lead = None;
    }
    Spellings::new(texts)
}

fn texts_of(values: &[&str]) -> Vec<Text> {
    let mut texts = Vec::new();
    for value in values {
        let octets = value.as_bytes();
        let hex: String = octets.iter().map(|b| format!("{b:02x}")).collect();
        texts.push(Text::new(octets, false, None));
        texts.push(Text::new(hex.as_bytes(), true, None));
        if let Some(first) = octets.first() {
            let lead = Some(Lead {
                bits: first >> 4,
                mask: 0x0f,
            });
            let encoded = STANDARD_NO_PAD.encode([&b"x"[..], octets].concat());
            let core = &encoded.as_bytes()[2..(octets.len() + 1) * 8 / 6];
            texts.push(Text::new(core, false, lead));
        }
    }
    assert!(texts.iter().all(|text| text.octets().len() >= 8));
    texts
}

/// What is found by trying every place.
fn tried(spellings: &Spellings, raw: &[u8], last: bool) -> Finds {
    let mut finds = Finds::default();
    for at in 0..=raw.len() {
        for text in 0..spellings.texts.len() {
            spellings.attempt(raw, at, text, last, &mut finds);
        }
    }
    finds.settle();
    finds
}

/// What is found as each processor can do it.
fn looked_by_each(spellings: &Spellings, raw: &[u8], last: bool) -> Vec<Finds> {
    let by = |level| {
        let mut finds = Finds::default();
        spellings.look_by(level, (raw, last), &mut finds);
        finds
    };
    levels().into_iter().map(by).collect()
}

/// What is not marked in a block comes to nothing that a place before it does not come to, whatever stands before a
/// text.
fn check_marked(values: &[&str], raw: &[u8], last: bool) -> Result<(), TestCaseError> {
    // What begins with a lead would not say where its text does.
    let (led, spellings) = (spellings_of(values), leadless(values));
    for from in (0..raw.len()).step_by(5) {
        let all = marked(&spellings, raw, from);
        prop_assert_eq!(&marked(&led, raw, from), &all);
        for marks in all {
            let left = (0..64).filter(|place| (marks.busy | marks.ask) >> place & 1 == 0);
            for at in left
                .map(|place| from + place)
                .filter(|at| is_special(raw[*at]))
            {
                let found = |at: usize| {
                    let mut finds = Finds::default();
                    spellings.look_around(Around { raw, at, last }, &mut finds);
                    let begun = finds.hits.iter().map(|hit| hit.start);
                    begun.chain(finds.open).collect::<Vec<_>>()
                };
                let is_found_before = |start: usize| {
                    let mut before = (start..at).filter(|before| is_special(raw[*before]));
                    before.any(|before| found(before).contains(&start))
                };
                // What is written as it is for so long is found by that, whatever comes then.
                let begun = found(at).into_iter();
                let mut begun = begun.filter(|start| at < start + spellings.heads.head());
                let lost = begun.find(|start| !is_found_before(*start));
                prop_assert!(lost.is_none(), "at {}", at);
            }
        }
    }
    Ok(())
}

/// What is marked in the block that begins there, by each processor that can.
fn marked(spellings: &Spellings, raw: &[u8], from: usize) -> Vec<Marks> {
    #[cfg(target_arch = "x86_64")]
    {
        let level = Level::new();
        let wide = level.as_avx512().map(|s| {
            spellings
                .marker
                .marks(Wide(s), &spellings.heads, (raw, from))
        });
        let less = level.as_avx2().map(|s| {
            spellings
                .marker
                .marks(Wide(s), &spellings.heads, (raw, from))
        });
        [wide, less].into_iter().flatten().flatten().collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    Vec::new()
}

fn looked(spellings: &Spellings, raw: &[u8], last: bool) -> Finds {
    let mut finds = Finds::default();
    spellings.look(raw, last, &mut finds);
    finds
}

/// One octet in one of its spellings.
fn spelled(octet: u8, how: u8) -> String {
    let percent = format!("%{octet:02X}");
    match how {
        0 => percent,
        1 => percent.to_lowercase(),
        2 => percent.replace('%', "%25"),
        3 => format!("\\u00{octet:02x}"),
        4 => format!("\\\\u00{octet:02X}"),
        5 => format!("&#{octet};"),
        6 => format!("&#x{octet:x};"),
        7 => format!("&amp;#{octet};"),
        8 => format!("\\x{octet:02x}"),
        9 => format!("%26%23{octet}%3b"),
        10 => format!("\n{}", char::from(octet)),
        11 => format!("\\r\\n{}", char::from(octet)),
        12 => format!("%0d%0A{}", char::from(octet)),
        // As many line breaks in a row as a text may have.
        13 => format!("{}{}", "\\n".repeat(8), char::from(octet)),
        14 => format!("{}%0a\\r{}", "\\n".repeat(6), char::from(octet)),
        // The letter of an escape, which is written otherwise itself.
        15 => format!("\\%7500{octet:02x}"),
        16 => format!("\\&#120;{octet:02x}"),
        // Wordy ones on one another.
        17 => referred(&format!("\\u00{octet:02x}")),
        18 => referred(&referred(&format!("&#{octet};"))),
        _ => char::from(octet).to_string(),
    }
}

/// As HTML has it.
fn entities(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

/// Each character by its number.
fn referred(text: &str) -> String {
    text.bytes().map(|octet| format!("&#{octet};")).collect()
}

/// A text of which each octet is written somehow.
fn written(text: String) -> impl Strategy<Value = String> {
    prop::collection::vec(prop_oneof![3 => Just(99_u8), 1 => 0_u8..18], text.len()).prop_map(
        move |how| {
            let octets = text.bytes().zip(how).enumerate();
            octets
                .map(|(at, (octet, how))| {
                    // No text begins with a line break.
                    spelled(
                        octet,
                        if at == 0 && (10..15).contains(&how) {
                            99
                        } else {
                            how
                        },
                    )
                })
                .collect()
        },
    )
}

fn value() -> impl Strategy<Value = &'static str> {
    prop::sample::select(VALUES.to_vec())
}

fn any_form() -> impl Strategy<Value = String> {
    (value(), 0..4_u8).prop_map(|(value, form)| match form {
        0 => value.bytes().map(|b| format!("{b:02X}")).collect(),
        1 => STANDARD_NO_PAD.encode(format!("x{value}")),
        _ => value.to_owned(),
    })
}

/// Parts of spellings, beginnings of escapes, and what may join them.
fn adversarial() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        2 => any_form().prop_flat_map(written),
        3 => (any_form().prop_flat_map(written), any::<prop::sample::Index>()).prop_map(|(text, cut)| {
            let cut = cut.index(text.len());
            text.get(..cut).unwrap_or_default().to_owned()
        }),
        2 => prop::sample::select(vec![
            "%", "\\", "&", "%2", "%25", "\\u", "\\u00", "\\x", "&#", "&#x", "&am", "&amp;", "=", "\n", "\r\n",
            "\\n", "%0a", "g", "u0067", "67", "amp;",
            "\\n\\n\\n\\n\\n\\n\\n\\n", "\\r\\r\\r\\r\\r\\r\\r\\r\\r", "%0A%0a%0A%0A%0A%0A%0A%0A",
        ]).prop_map(str::to_owned),
        1 => "[ -~\n]{0,12}",
    ];
    prop::collection::vec(part, 0..5).prop_map(|parts| parts.concat())
}

/// Where something is worth a wait when these of the values are.
fn waits(spellings: &Spellings, raw: &[u8], of: impl Fn(usize) -> bool) -> Vec<usize> {
    let waiting = spellings.waiting(|text| of(text / 3));
    let mut finds = Finds::waiting(Arc::new(waiting));
    spellings.look(raw, false, &mut finds);
    finds.waits
}

/// Values as services mint them: of none may an octet begin an escape.
const PLAIN: [&str; 4] = [
    "ghp_0123Real/Value+x",
    "sk-proj-abcdefnu41",
    "//a/b//c2F2F0d0a",
    "n-u-r-t-lt-amp-x",
];

/// Values with what references stand for, none of which goes on as one does.
const REFERRED: [&str; 4] = [
    "<a&b>\"c\"dx",
    "&!x<y>z&\"xyz",
    "a\"b<&&>>\"\"",
    "lt;&q<>amp;",
];

/// Parts of these and whatever ordinary texts are full of.
fn ordinary() -> impl Strategy<Value = String> {
    ordinary_of(&PLAIN)
}

fn ordinary_of(values: &[&'static str]) -> impl Strategy<Value = String> + use<> {
    let value = prop::sample::select(values.to_vec());
    let part = prop_oneof![
        2 => value.clone().prop_map(str::to_owned).prop_flat_map(written),
        3 => (value, any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(text, from, to)| {
            let (from, to) = (from.index(text.len()), to.index(text.len()));
            text.get(from..to.max(from)).unwrap_or_default().to_owned()
        }),
        5 => prop::sample::select(vec![
            "%2F", "%2f%2F", "%0D%0A", "%0a", "%0A%E4", "%20", "%61", "%25", "%", "\r\n", "\n", "\n\n", "\r\n\r\n", "\n    ",
            "&&", "&", "&lt;", "&gt;", "&quot;", "&amp;", "&a", "\\u00e9", "\\u2fff", "\\u0061", "\\ud83d", "\\n", "\\r\\n", "\\/", "\\\"",
            "\\\\n", "\\d", "\\", "\u{e9}", "a", "/", "-", " ", "\"", ";", "2F", "0a",
        ]).prop_map(str::to_owned),
    ];
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat())
}

/// What is not looked at closer comes to nothing.
fn check_sifted(spellings: &Spellings, raw: &[u8], last: bool) -> Result<(), TestCaseError> {
    for at in (0..raw.len()).filter(|at| is_special(raw[*at])) {
        let here = Around { raw, at, last };
        let near = Near::of(raw, at);
        if near.is_none_or(|near| !spellings.idle.is_idle(near)) && spellings.is_likely(here) {
            continue;
        }
        let mut finds = Finds::default();
        spellings.look_around(here, &mut finds);
        prop_assert!(finds.hits.is_empty() && finds.open.is_empty(), "at {}", at);
    }
    Ok(())
}

#[test]
fn the_letter_behind_a_backslash_may_be_written_by_its_number() {
    let spellings = spellings_of(&["nrnrnrnrn9"]);
    for before in [
        "n\\\\\\u006E",
        "n\\n\\\\\\u006E",
        "n\\\\\\x6e",
        "n%5C\\u0072",
        "n\\\\\\\\\\u006E",
    ] {
        let raw = format!("{before}rnrnrnrn9");
        let expected = tried(&spellings, raw.as_bytes(), true);
        let begins = |hit: &Hit| hit.start == 0;
        assert!(expected.hits.iter().any(begins), "{raw}");
        assert_eq!(
            looked(&spellings, raw.as_bytes(), true).hits,
            expected.hits,
            "{raw}"
        );
    }
}

// Of long texts, each tried at every place.
proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn whatever_the_processor_can_the_same_is_found(
        parts in prop::collection::vec(prop_oneof![ordinary(), adversarial()], 1..30), last in any::<bool>(),
    ) {
        let raw = parts.concat();
        for spellings in [spellings(), spellings_of(&PLAIN)] {
            let expected = tried(&spellings, raw.as_bytes(), last);
            for got in looked_by_each(&spellings, raw.as_bytes(), last) {
                prop_assert_eq!(&got.hits, &expected.hits);
            }
        }
    }

    #[test]
    fn what_is_not_marked_in_a_block_comes_to_nothing(
        parts in prop::collection::vec(prop_oneof![ordinary(), adversarial()], 1..12), last in any::<bool>(),
    ) {
        let raw = parts.concat();
        check_marked(&VALUES, raw.as_bytes(), last)?;
        check_marked(&PLAIN, raw.as_bytes(), last)?;
    }

    #[test]
    fn what_references_stand_for_is_found(
        parts in prop::collection::vec(prop_oneof![
            ordinary_of(&REFERRED), adversarial(), ordinary_of(&REFERRED).prop_map(|text| entities(&text)),
        ], 1..16),
        last in any::<bool>(),
    ) {
        let raw = parts.concat();
        check_marked(&REFERRED, raw.as_bytes(), last)?;
        let spellings = spellings_of(&REFERRED);
        let expected = tried(&spellings, raw.as_bytes(), last);
        for got in looked_by_each(&spellings, raw.as_bytes(), last) {
            prop_assert_eq!(&got.hits, &expected.hits);
        }
        check_sifted(&spellings, raw.as_bytes(), last)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn looking_finds_what_trying_every_place_finds_in_ordinary_text(raw in ordinary(), last in any::<bool>()) {
        let spellings = spellings_of(&PLAIN);
        let (expected, got) = (tried(&spellings, raw.as_bytes(), last), looked(&spellings, raw.as_bytes(), last));
        prop_assert_eq!(&got.hits, &expected.hits);
        check_sifted(&spellings, raw.as_bytes(), last)?;
    }

    #[test]
    fn looking_finds_the_same_beyond_the_first_part(before in 1000..1030_usize, raw in ordinary()) {
        let spellings = spellings_of(&PLAIN);
        let raw = " ".repeat(before) + &raw;
        let (expected, got) = (tried(&spellings, raw.as_bytes(), true), looked(&spellings, raw.as_bytes(), true));
        prop_assert_eq!(&got.hits, &expected.hits);
    }

    #[test]
    fn what_is_sifted_out_of_the_worst_comes_to_nothing(raw in adversarial(), last in any::<bool>()) {
        check_sifted(&spellings(), raw.as_bytes(), last)?;
        check_sifted(&spellings_of(&PLAIN), raw.as_bytes(), last)?;
    }

    #[test]
    fn what_waits_tells_nothing_of_other_texts(
        raw in adversarial(),
        cut in any::<prop::sample::Index>(),
        wanted in 0..1_usize << VALUES.len(),
    ) {
        let octets = &raw.as_bytes()[..cut.index(raw.len() + 1)];
        let is_wanted = |value: usize| wanted >> value & 1 == 1;
        let some: Vec<&str> = VALUES.iter().enumerate().filter(|(n, _)| is_wanted(*n)).map(|(_, v)| *v).collect();
        let among_others = waits(&spellings(), octets, is_wanted);
        prop_assert_eq!(among_others, waits(&spellings_of(&some), octets, |_| true));
    }

    #[test]
    fn what_is_open_waits_where_all_is_waited_for(raw in adversarial(), cut in any::<prop::sample::Index>()) {
        let octets = &raw.as_bytes()[..cut.index(raw.len() + 1)];
        let spellings = spellings();
        let open = looked(&spellings, octets, false).open;
        let waits = waits(&spellings, octets, |_| true);
        prop_assert!(open.iter().all(|at| waits.contains(at)), "{:?} {:?}", open, waits);
    }

    #[test]
    fn looking_finds_what_trying_every_place_finds(raw in adversarial(), last in any::<bool>()) {
        let spellings = spellings();
        let (expected, got) = (tried(&spellings, raw.as_bytes(), last), looked(&spellings, raw.as_bytes(), last));
        prop_assert_eq!(&got.hits, &expected.hits);
    }

    #[test]
    fn what_is_looked_for_beside_a_text_does_not_matter_to_it(
        raw in adversarial(),
        last in any::<bool>(),
        wanted in 1..1_usize << VALUES.len(),
    ) {
        let some = VALUES.iter().enumerate().filter(|(value, _)| wanted >> value & 1 == 1);
        let spellings = spellings_of(&some.map(|(_, value)| *value).collect::<Vec<_>>());
        let (expected, got) = (tried(&spellings, raw.as_bytes(), last), looked(&spellings, raw.as_bytes(), last));
        prop_assert_eq!(&got.hits, &expected.hits);
        // What looking leaves open may be more than what trying does, never less.
        let known = |at: &usize| *at == raw.len() || got.open.contains(at);
        prop_assert!(expected.open.iter().all(known), "{:?} {:?}", expected.open, got.open);
    }

    #[test]
    fn every_spelling_is_found_whatever_stands_around_it(
        before in adversarial(),
        form in any_form().prop_flat_map(written),
        after in "[ -~\n]{0,12}",
    ) {
        let spellings = spellings();
        let raw = format!("{before}{form}{after}");
        let finds = looked(&spellings, raw.as_bytes(), true);
        let end = before.len() + form.len();
        // Base64 has a character before it, in escapes and with line breaks behind, and ends in one that it shares.
        let slack = 20;
        let found = finds.hits.iter().any(|hit| {
            hit.start >= before.len().saturating_sub(slack)
                && hit.start <= before.len() + LEAD
                && hit.end + 2 * slack >= end
        });
        prop_assert!(found, "{} not in {:?}", raw, finds.hits);
    }

    #[test]
    fn an_open_place_is_one_from_where_on_something_may_be_found(
        raw in adversarial(),
        cut in any::<prop::sample::Index>(),
    ) {
        let spellings = spellings();
        let octets = raw.as_bytes();
        let cut = cut.index(octets.len() + 1);
        let whole = looked(&spellings, octets, true);
        let part = looked(&spellings, &octets[..cut], false);
        for hit in whole.hits.iter().filter(|hit| hit.start < cut) {
            let known = part.hits.contains(hit);
            prop_assert!(known || part.open.contains(&hit.start), "{:?} cut at {}", hit, cut);
        }
        for hit in &part.hits {
            let longer = part.open.contains(&hit.start);
            prop_assert!(longer || whole.hits.contains(hit), "{:?} cut at {}", hit, cut);
        }
    }
}

#[test]
fn a_text_that_is_wordy_from_end_to_end_is_found() {
    let value = "Wordy/Value-0123456789-of-some-length";
    let spellings = spellings_of(&[value]);
    for how in [5, 6, 9, 15, 16, 17, 18] {
        let raw: String = value.bytes().map(|octet| spelled(octet, how)).collect();
        let finds = looked(&spellings, raw.as_bytes(), true);
        let whole = |hit: &Hit| hit.start == 0 && hit.end == raw.len();
        assert!(finds.hits.iter().any(whole), "{raw}");
    }
}
