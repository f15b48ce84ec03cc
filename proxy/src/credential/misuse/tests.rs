//! What a body may hold, wherever it is cut.

use gig_vault::{Guarded, GuardedValue, SecretBytes};
use proptest::prelude::*;

use super::*;
use crate::credential::{
    armour::tests::pem,
    forms::{Form, forms},
    watch::LiveSentinel,
};

mod long;
mod odd;

pub(super) const VALUE: &str = "r3al-value/of+it==";
/// Enough letters to be found in pieces.
const LONG: &str = "r3al-value/of+it-that-is.long-enough-for-pieces";

pub(super) fn watch() -> Arc<Watch> {
    watch_of(VALUE.as_bytes())
}

pub(super) fn watch_of(value: &[u8]) -> Arc<Watch> {
    let guarded = Guarded {
        generation: 1,
        values: vec![GuardedValue {
            name: "T".parse().unwrap(),
            version: 1,
            part: Some(0),
            value: Arc::new(SecretBytes::new(value.to_vec())),
            current: true,
        }],
    };
    let sentinel = LiveSentinel {
        sandbox: SandboxId::new(uuid::Uuid::nil()),
        name: "T".parse().unwrap(),
        text: "gigph-0123456789abcdef".into(),
    };
    Arc::new(Watch::new([&sentinel], &guarded))
}

pub(super) fn guard(watch: &Arc<Watch>) -> Guard {
    let bearer = Bearer {
        sandbox: SandboxId::new(uuid::Uuid::nil()),
        granted: &[],
    };
    Guard::new(watch, &bearer, "body", &Arc::default())
}

/// Whether the pieces are refused, and that it is not before the last octet of the find is there.
fn refused_at(pieces: &[&[u8]]) -> Option<usize> {
    let mut guard = guard(&watch());
    pieces.iter().position(|piece| guard.look(piece).is_err())
}

#[test]
fn a_value_in_any_form_is_refused_wherever_it_is_cut() {
    let percent: String = VALUE.bytes().map(|b| format!("%{b:02x}")).collect();
    let unicode: String = VALUE.bytes().map(|b| format!("\\u{b:04X}")).collect();
    let entity: String = VALUE.bytes().map(|b| format!("&#{b};")).collect();
    let mixed = VALUE
        .replace('-', "%252D")
        .replace('/', "\\/")
        .to_uppercase();
    let mut texts = vec![
        percent.into_bytes(),
        unicode.into_bytes(),
        entity.into_bytes(),
    ];
    texts.push(mixed.into_bytes());
    texts.extend(
        forms(VALUE.as_bytes())
            .into_iter()
            .map(|(_, octets)| octets.to_vec()),
    );
    for text in texts {
        let text = [b"some text before ".as_slice(), &text, b" after".as_slice()].concat();
        for cut in 0..text.len() {
            let pieces = [&text[..cut], &text[cut..]];
            let shown = String::from_utf8_lossy(&text);
            assert!(refused_at(&pieces).is_some(), "{shown} cut at {cut}");
        }
        let octets: Vec<&[u8]> = text.chunks(1).collect();
        let at = refused_at(&octets).expect("one by one");
        assert!(at + b" after".len() < text.len() + 2, "{at}");
    }
}

/// In lines of so many octets, with `between` between them.
fn in_lines(text: &[u8], length: usize, between: &[u8]) -> Vec<u8> {
    text.chunks(length).collect::<Vec<_>>().join(between)
}

#[test]
fn a_value_that_is_folded_over_lines_is_refused_wherever_they_end() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    // As MIME (RFC 2045 §6.8), PEM (RFC 7468 §2) and shells write it, wherever the value begins in a line.
    for length in [4, 64, 76] {
        for before in 0..80 {
            let text =
                STANDARD.encode([&vec![b'x'; before], VALUE.as_bytes(), &[b'y'; 80]].concat());
            for between in [b"\n".as_slice(), b"\r\n", b"\\n", b"%0D%0A"] {
                let lines = in_lines(text.as_bytes(), length, between);
                assert!(refused_at(&[&lines]).is_some(), "{before} by {length}");
            }
        }
    }
    // As it is.
    for at in 1..VALUE.len() {
        let (head, tail) = VALUE.split_at(at);
        let lines = format!("a {head}\r\n{tail} b");
        assert!(refused_at(&[lines.as_bytes()]).is_some(), "{lines}");
    }
}

#[test]
fn a_value_that_is_folded_with_blanks_or_marks_is_refused_where_values_are_told_apart() {
    let long = LONG;
    let watch = watch_of(long.as_bytes());
    let refused = |pieces: Pieces, text: &[u8]| {
        let mut guard = guard(&watch).in_pieces(pieces);
        guard.look(text).is_err()
    };
    // Quoted-printable's soft line break (RFC 2045 §6.7), and folding (RFC 5322 §2.2.3, RFC 5545 §3.1).
    for between in ["=\r\n", "\r\n ", "\r\n\t", "\n    "] {
        let lines = in_lines(long.as_bytes(), 9, between.as_bytes());
        let part = [b"--b\r\nA: b\r\n\r\n", &*lines, b"\r\n--b--"].concat();
        assert!(refused(Pieces::multipart(b"b"), &part), "{between:?}");
        // Nothing tells values apart here; see SECURITY.md.
        assert!(!refused(Pieces::never(), &lines), "{between:?}");
    }
}

/// A header section with this field.
fn head_of(value: &str) -> HeadText {
    let mut headers = HeaderMap::new();
    headers.insert("x-note", value.parse().unwrap());
    HeadText::of(&Method::GET, ("/", None), &headers)
}

#[test]
fn of_a_header_section_no_more_is_kept_than_a_piece_may_have() {
    let watch = watch_of(LONG.as_bytes());
    let (head, tail) = LONG.split_at(9);
    let value = format!("{}{head}", "some text that is long. ".repeat(50));
    let before = head_of(&value).into_values(&watch);
    assert_eq!(before.len(), watch.longest_piece());
    let mut trailers = HeaderMap::new();
    trailers.insert("x-more", tail.parse().unwrap());
    let mut found = Vec::new();
    HeadText::of_trailers(&before, &trailers).find(&watch, |_, place| found.push(place));
    assert_eq!(found, ["several fields"]);
}

#[test]
fn digits_with_marks_between_them_are_found_where_values_are_told_apart() {
    let watch = watch_of(LONG.as_bytes());
    for (mark, every) in [
        (":", 1),
        ("-", 1),
        (" ", 1),
        (" ", 2),
        ("\n", 16),
        (", ", 4),
    ] {
        let digits: Vec<String> = LONG.bytes().map(|octet| format!("{octet:02X}")).collect();
        let text = digits.chunks(every).map(|few| few.concat());
        let text = text.collect::<Vec<_>>().join(mark);
        let json = format!("{{\"a\": \"{}\"}}", text.replace('\n', "\\n"));
        let mut guard = guard(&watch).in_pieces(Pieces::json());
        assert!(guard.look(json.as_bytes()).is_err(), "{json}");
        let mut found = Vec::new();
        head_of(&text.replace('\n', " ")).find(&watch, |f, _| found.push(f.form));
        assert_eq!(found, [Form::Hex], "{text}");
    }
}

proptest! {
    #[test]
    fn other_text_passes(text in prop::collection::vec(any::<u8>(), 0..600), cut in 1_usize..50) {
        let pieces: Vec<&[u8]> = text.chunks(cut).collect();
        prop_assert_eq!(refused_at(&pieces), None);
    }
}

proptest! {
    #[test]
    fn a_private_key_is_refused_without_its_armour(
        key in prop::collection::vec(any::<u8>(), 48..700),
        (width, cut) in (16..90_usize, any::<prop::sample::Index>()),
        before in prop::collection::vec(any::<u8>(), 0..5),
    ) {
        use base64::engine::{Engine, general_purpose::STANDARD};
        let watch = watch_of(pem("PRIVATE KEY", &key, 64, "\n").as_bytes());
        let letters = STANDARD.encode(&key).into_bytes();
        let hex: String = key.iter().map(|octet| format!("{octet:02X}")).collect();
        let within = STANDARD.encode([&before, key.as_slice()].concat());
        let dressed = pem("RSA PRIVATE KEY", &key, width, "\\n");
        for text in [
            in_lines(&letters, width, b"\r\n"),
            in_lines(&letters, width, b"\\n"),
            letters.clone(),
            key.clone(),
            hex.into_bytes(),
            within.into_bytes(),
            dressed.into_bytes(),
        ] {
            let (head, tail) = text.split_at(cut.index(text.len()));
            let mut guard = guard(&watch);
            let refused = [head, tail].iter().any(|piece| guard.look(piece).is_err());
            prop_assert!(refused, "{}", String::from_utf8_lossy(&text));
        }
        // What is public of it is not.
        prop_assert!(guard(&watch).look(b"-----BEGIN PRIVATE KEY-----\n-----END PRIVATE KEY-----").is_ok());
    }
}
