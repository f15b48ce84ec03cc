//! Values in pieces in bodies, however they are written and wherever they are cut.

use std::sync::Arc;

use proptest::prelude::*;

use super::super::tests::{VALUE, guard, watch};
use super::*;

/// Letters and digits of a value; what stands between them may be lost.
const BARE: &str = "r3alvalueofit";
const LONGER: &str = "r3al-value/of+it==&more%of\\it";

/// Long enough, and in ordinary text by chance.
const MONOTONOUS: &str = "00000000-0000-0000-0000-000000000000";

/// A way of writing values in pieces.
type Way = fn() -> Pieces;

/// Whether a body with pieces is refused, cut like this.
fn refused(pieces: Pieces, body: &[&[u8]]) -> bool {
    let watch = long_watch();
    let mut guard = guard(&watch).in_pieces(pieces);
    body.iter().any(|octets| guard.look(octets).is_err())
}

/// Looks for a value that is long enough to be told in pieces.
fn long_watch() -> Arc<Watch> {
    use gig_vault::{Guarded, GuardedValue, SecretBytes};
    let value = |text: &str| GuardedValue {
        name: "T".parse().unwrap(),
        version: 1,
        part: Some(0),
        value: Arc::new(SecretBytes::new(text.into())),
        current: true,
    };
    let values = vec![value(VALUE), value(LONGER), value(MONOTONOUS)];
    let guarded = Guarded {
        generation: 1,
        values,
    };
    Arc::new(Watch::new([], &guarded))
}

/// `octets` cut at these places.
fn cut<'a>(octets: &'a [u8], at: &[prop::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at.iter().map(|at| at.index(octets.len() + 1)).collect();
    at.extend([0, octets.len()]);
    at.sort_unstable();
    at.windows(2).map(|w| &octets[w[0]..w[1]]).collect()
}

/// A value in pieces of these lengths.
fn in_pieces(value: &str, lengths: &[usize]) -> Vec<String> {
    let mut rest = value;
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
}

/// A piece as JSON has it, with more escapes than it needs.
fn json_string(piece: &str, how: usize) -> String {
    let mut text = String::from("\"");
    for (number, letter) in piece.chars().enumerate() {
        match (letter, (how + number) % 4) {
            ('"' | '\\', _) => text.extend(['\\', letter]),
            (letter, 1) => text += &format!("\\u{:04x}", u32::from(letter)),
            ('/', 2) => text += "\\/",
            (letter, _) => text.push(letter),
        }
    }
    text + "\""
}

fn in_json(pieces: &[String], how: usize) -> String {
    let blank = ["", " ", "\n  ", "\r\n\t"][how % 4];
    let members: Vec<String> = pieces
        .iter()
        .enumerate()
        .map(|(number, piece)| {
            let string = json_string(piece, how + number);
            match (how + number) % 3 {
                0 => format!("\"name{number}\"{blank}:{blank}{string}"),
                1 => format!("\"a\\\"{number}\":{{\"b\":{{\"c\":[{string}{blank}]}}}}"),
                _ => format!("\"list\":{blank}[[{string}]]"),
            }
        })
        .collect();
    format!("{{{}}}", members.join(&format!(",{blank}")))
}

fn in_parts(pieces: &[String]) -> String {
    let mut body = String::new();
    for (number, piece) in pieces.iter().enumerate() {
        body += &format!(
            "--b0undary\r\nContent-Disposition: form-data; name=\"f{number}\"\r\n\r\n{piece}\r\n"
        );
    }
    body + "--b0undary--\r\n"
}

fn lengths() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1_usize..12, 1..8)
}

fn cuts() -> impl Strategy<Value = Vec<prop::sample::Index>> {
    prop::collection::vec(any::<prop::sample::Index>(), 0..8)
}

proptest! {
    #[test]
    fn pieces_in_json_are_put_together_wherever_it_is_cut(
        lengths in lengths(), how in 0_usize..12, cuts in cuts(),
    ) {
        let body = in_json(&in_pieces(LONGER, &lengths), how);
        for pieces in [Pieces::json(), Pieces::untold()] {
            prop_assert!(refused(pieces, &cut(body.as_bytes(), &cuts)), "{}", body);
        }
        let octets: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        prop_assert!(refused(Pieces::json(), &octets), "{}", body);
    }

    #[test]
    fn pieces_in_names_are_put_together(lengths in lengths(), cuts in cuts()) {
        let members: Vec<String> = in_pieces(LONGER, &lengths)
            .iter()
            .map(|piece| format!("{}: 1", json_string(piece, 3)))
            .collect();
        let body = format!("{{{}}}", members.join(", "));
        prop_assert!(refused(Pieces::json(), &cut(body.as_bytes(), &cuts)), "{}", body);
    }

    #[test]
    fn pieces_in_parts_are_put_together_wherever_it_is_cut(lengths in lengths(), cuts in cuts()) {
        let body = in_parts(&in_pieces(LONGER, &lengths));
        let body = body.as_bytes();
        prop_assert!(refused(Pieces::multipart(b"b0undary"), &cut(body, &cuts)));
        let octets: Vec<&[u8]> = body.chunks(1).collect();
        prop_assert!(refused(Pieces::multipart(b"b0undary"), &octets));
    }

    #[test]
    fn pieces_in_a_form_are_put_together_wherever_it_is_cut(lengths in lengths(), cuts in cuts()) {
        let pair = |piece: &String| {
            let escaped: String = piece.bytes().map(|octet| format!("%{octet:02X}")).collect();
            format!("k={escaped}")
        };
        let pairs: Vec<String> = in_pieces(LONGER, &lengths).iter().map(pair).collect();
        let body = pairs.join("&");
        prop_assert!(refused(Pieces::form(), &cut(body.as_bytes(), &cuts)), "{}", body);
    }

    /// What comes in small frames is read on from where it was left: what the whole shows, they show.
    #[test]
    fn what_a_whole_body_shows_is_shown_wherever_it_is_cut(
        parts in prop::collection::vec((prop_oneof![
            Just("\",\""), Just("\":\""), Just("\" ,7, \""), Just(" - "), Just("="), Just("&k="), Just("&"),
            Just("\r\n--b0undary\r\n\r\n"), Just("%20"), Just("\\n"), Just(""),
        ], 1_usize..9), 0..9),
        before in 0_usize..700,
        size in 1_usize..40,
        cuts in cuts(),
    ) {
        let (mut body, mut rest) = ("-".repeat(before), LONGER.replace(['%', '\\', '&'], ""));
        for (between, length) in parts {
            let after = rest.split_off(length.min(rest.len()));
            body += &(rest + between);
            rest = after;
        }
        let ways: [(&str, Way); 3] = [
            ("[\"", Pieces::json),
            ("k=", Pieces::form),
            ("--b0undary\r\n\r\n", || Pieces::multipart(b"b0undary")),
        ];
        for (begin, way) in ways {
            let body = [begin, &body, &rest, "\"]"].concat();
            let body = body.as_bytes();
            if refused(way(), &[body]) {
                prop_assert!(refused(way(), &cut(body, &cuts)));
                prop_assert!(refused(way(), &body.chunks(size).collect::<Vec<_>>()));
            }
        }
    }

    #[test]
    fn other_bodies_pass_and_nothing_is_remembered_without_bound(
        body in prop::collection::vec(prop_oneof![
            Just("\""), Just("\\"), Just("{"), Just("}"), Just("["), Just(":"), Just(","), Just("&"),
            Just("="), Just("\r\n"), Just("--b0undary"), Just("\r\n\r\n"), Just("%41"), Just("r3al"),
            Just("some longer text that goes on and on "),
        ], 0..200).prop_map(|parts| parts.concat().repeat(40)),
        cuts in cuts(),
    ) {
        let watch = long_watch();
        for pieces in [Pieces::json(), Pieces::form(), Pieces::multipart(b"b0undary"), Pieces::untold()] {
            let mut guard = guard(&watch).in_pieces(pieces);
            for octets in cut(body.as_bytes(), &cuts) {
                prop_assert!(guard.look(octets).is_ok());
                prop_assert!(guard.pieces.kept() <= LONGEST, "{}", guard.pieces.kept());
            }
        }
    }
}

/// A header section of a part, two ends of a value, and two rows.
const LONGEST: usize = 16 * 1024 + 4 * MOST;

#[test]
fn pieces_in_another_order_or_cut_off_by_more_are_no_value() {
    let (head, tail) = LONGER.split_at(9);
    let one = ["{\"a\":\"", head, "\",\"b\":\"", tail, "\"}"].concat();
    assert!(refused(Pieces::json(), &[one.as_bytes()]));
    let other = ["{\"a\":\"", tail, "\",\"b\":\"", head, "\"}"].concat();
    assert!(!refused(Pieces::json(), &[other.as_bytes()]));
    let more = ["{\"a\":\"", head, "\",\"b\":7,\"c\":\"", tail, "\"}"].concat();
    assert!(!refused(Pieces::json(), &[more.as_bytes()]));
    // Fewer letters than would be there by chance.
    assert!(BARE.len() < 16 && !refused(Pieces::json(), &[b"[\"r3al-value\",\"of+it==\"]"]));
}

#[test]
fn of_long_strings_and_parts_the_ends_are_pieces() {
    let (head, tail) = LONGER.split_at(12);
    let long = "x".repeat(100_000);
    let json = format!(
        "[\"{long}{head}\",\"{}{long}\"]",
        tail.replace('\\', "\\\\")
    );
    let parts = in_parts(&[format!("{long}-{head}"), format!("{tail}-{long}")]);
    let form = format!("a={long}{head}&b={}", tail.replace('&', "%26"));
    for at_once in [1 << 20, 10_000, 77] {
        let chunks = |body: &'static [u8]| body.chunks(at_once).collect::<Vec<_>>();
        let leak = |text: &str| -> &'static [u8] { text.as_bytes().to_vec().leak() };
        assert!(refused(Pieces::json(), &chunks(leak(&json))));
        assert!(refused(
            Pieces::multipart(b"b0undary"),
            &chunks(leak(&parts))
        ));
        assert!(refused(Pieces::form(), &chunks(leak(&form))));
    }
}

#[test]
fn a_long_name_between_two_pieces_hides_nothing_wherever_it_is_cut() {
    let (head, tail) = LONGER.split_at(12);
    let tail = tail.replace('\\', "\\\\");
    for length in [10, 1200, 5000] {
        let name = "n".repeat(length);
        let json = format!("{{\"a\":\"{head}\",\"{name}\":\"{tail}\"}}");
        let form = format!("a={head}&{name}={}", tail.replace('&', "%26"));
        for at in (0..json.len()).step_by(97).chain([json.len()]) {
            let (one, other) = json.as_bytes().split_at(at);
            assert!(refused(Pieces::json(), &[one, other]), "{length}, at {at}");
        }
        for at in (0..form.len()).step_by(97).chain([form.len()]) {
            let (one, other) = form.as_bytes().split_at(at);
            assert!(refused(Pieces::form(), &[one, other]), "{length}, at {at}");
        }
    }
}

#[test]
fn a_body_is_put_together_as_far_as_is_said_and_what_is_whole_is_found_anywhere() {
    let (head, tail) = LONGER.split_at(12);
    let tail = tail.replace('\\', "\\\\");
    let json = |before: usize| format!("[\"{}\",\"{head}\",\"{tail}\"]", " ".repeat(before));
    let form = |before: usize| {
        let tail = tail.replace('&', "%26");
        format!("a={}&b={head}&c={tail}&d=", "+".repeat(before))
    };
    let room = LOOKED_AT - json(0).len();
    for (before, found) in [(room - 9, true), (room + 40, false)] {
        for at_once in [1 << 21, 10_000] {
            let chunks = |body: String| {
                let body: &'static [u8] = body.into_bytes().leak();
                body.chunks(at_once).collect::<Vec<_>>()
            };
            assert_eq!(refused(Pieces::json(), &chunks(json(before))), found);
            assert_eq!(refused(Pieces::form(), &chunks(form(before))), found);
            let whole = format!("[\"{}\",\"{head}{tail}\"]", " ".repeat(before));
            assert!(refused(Pieces::json(), &chunks(whole)));
            // Of parts only the ends are read, so that there is no such bound.
            let parts = in_parts(&[
                "x".repeat(before),
                head.to_owned(),
                LONGER.split_at(12).1.to_owned(),
            ]);
            assert!(refused(Pieces::multipart(b"b0undary"), &chunks(parts)));
        }
    }
}

#[test]
fn a_row_of_zeros_is_no_value_in_pieces() {
    let zeros = format!("[{}0]", "0,".repeat(60));
    assert!(!refused(Pieces::json(), &[zeros.as_bytes()]));
    let whole = format!("[\"{MONOTONOUS}\"]");
    assert!(refused(Pieces::json(), &[whole.as_bytes()]));
}

#[test]
fn a_header_section_ends_with_its_first_empty_line_of_either_kind() {
    let (head, tail) = LONGER.split_at(12);
    for (one, other) in [("\n", "\r\n"), ("\r\n", "\n")] {
        let part =
            |line: &str, piece: &str| format!("--b0undary{line}A: b{line}{line}{piece}{line}");
        let body = [part(one, head), part(other, tail)].concat() + "--b0undary--";
        assert!(refused(Pieces::multipart(b"b0undary"), &[body.as_bytes()]));
    }
}

#[test]
fn a_sentinel_in_pieces_of_json_is_noted_once_and_whole_ones_are_no_pieces() {
    let watch = watch();
    for (body, told) in [
        ("{\"a\":\"gigph-0123456\",\"b\":\"789abcdef\"}", "(split)"),
        ("{\"a\":\"gigph-0123456789abcdef\",\"b\":1}", "(plain)"),
    ] {
        let tally = Arc::default();
        let bearer = super::super::Bearer {
            sandbox: gig_policy::SandboxId::new(uuid::Uuid::nil()),
            granted: &[],
        };
        let guard = super::super::Guard::new(&watch, &bearer, "JSON body", &tally);
        let mut guard = guard.in_pieces(Pieces::json());
        for octets in body.as_bytes().chunks(3) {
            guard.look(octets).unwrap();
        }
        let found = tally.findings();
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].ends_with(told), "{found:?}");
    }
}

#[test]
fn a_value_that_comes_octet_by_octet_is_not_read_from_its_beginning() {
    let watch = long_watch();
    let end = end(&watch);
    let text = ["-".repeat(100), LONGER.replace(['%', '\\', '&'], "")].concat();
    let (mut row, mut found) = (Row::default(), Vec::new());
    for length in 0..=text.len() {
        let pending = &text.as_bytes()[..length];
        row.tell((&[], pending, end), &watch, &mut |_| found.push(length));
        assert_eq!(row.open.map(|open| open.read), Some(length));
    }
    // Told with the octet that completes it, and not again.
    assert_eq!(found, [text.len()]);
    // With an escape in it, all of it is: what comes next may change what it stands for.
    row.tell((&[], b"ab%4", end), &watch, &mut |_| panic!("nothing"));
    assert!(row.open.is_none());
}
