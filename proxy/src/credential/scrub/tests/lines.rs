//! Base64 in lines, and beside lines that are something else.

use super::*;

#[test]
fn base64_in_lines_is_one_text() {
    let scrub = scrub();
    let plain = format!("a file\nthat holds {VALUE}\nand goes on after it for a while\n");
    let encoded = general_purpose::STANDARD.encode(&plain);
    for line in ["\n", "\r\n", "\\n"] {
        let lines: Vec<&str> = (0..encoded.len())
            .step_by(20)
            .map(|at| encoded.get(at..encoded.len().min(at + 20)).unwrap())
            .collect();
        let written = format!("\"{}\"", lines.join(line));
        let expected = text(through(&scrub, Fit::Free, &[written.as_bytes()]));
        let inner = expected.trim_matches('"').replace(line, "");
        let decoded = text(general_purpose::STANDARD.decode(inner).unwrap());
        assert_eq!(decoded, plain.replace(VALUE, SENTINEL));
        for cut in 0..written.len() {
            let (head, tail) = written.as_bytes().split_at(cut);
            assert_eq!(text(through(&scrub, Fit::Free, &[head, tail])), expected);
        }
    }
}

#[test]
fn base64_on_a_line_of_its_own_leaves_the_next_lines_alone() {
    let scrub = scrub();
    for user in ["robot", "robots", "robots1"] {
        let encoded = general_purpose::STANDARD.encode(format!("{user}:{VALUE}"));
        let bare = encoded.trim_end_matches('=');
        let expected = general_purpose::STANDARD.encode(format!("{user}:{SENTINEL}"));
        for (before, text, after) in [
            ("_auth=", &*encoded, "\nemail=robot@corp.example\n"),
            ("_auth=", bare, "\nemail=robot@corp.example\n"),
            ("PW=", bare, "\r\nUSER=alice\r\n"),
            (
                "authorization: Basic ",
                &encoded,
                "\nuser-agent: curl/8.5.0\n",
            ),
            ("{\"env\": \"A=", bare, "\\nEMAIL=a@example.net\\n\"}"),
            ("", &encoded, "\nc2Vjb25kIG9mIHRoZSBsaXN0\nAAAA\n"),
        ] {
            let whole = format!("{before}{text}{after}");
            let got = through_text(&scrub, &[whole.as_bytes()]);
            let inner = got.strip_prefix(before).expect("what was before");
            let inner = inner.strip_suffix(after).unwrap_or_else(|| panic!("{got}"));
            let padding = expected.trim_end_matches('=');
            assert!([padding, &*expected].contains(&inner), "{got}");
            for cut in 0..whole.len() {
                let (head, tail) = whole.as_bytes().split_at(cut);
                assert_eq!(through_text(&scrub, &[head, tail]), got, "cut at {cut}");
            }
        }
    }
}

fn through_text(scrub: &Arc<Scrub>, pieces: &[&[u8]]) -> String {
    text(through(scrub, Fit::Free, pieces))
}

#[test]
fn full_lines_go_on_and_what_ends_a_text_stays() {
    let scrub = scrub();
    let plain = format!(
        "{VALUE} and what goes on behind it {}",
        "for long ".repeat(9)
    );
    let (plain, _) = plain.split_at(96);
    let encoded = general_purpose::STANDARD.encode(plain);
    let (full, last) = encoded.split_at(64);
    let lines = format!("{full}\n{last}");
    for (before, after) in [
        ("-----BEGIN KEY-----\n", "\n-----END KEY-----\n"),
        ("", "\n\nBase64 is over\n"),
        ("", ""),
    ] {
        let whole = format!("{before}{lines}{after}");
        let got = through_text(&scrub, &[whole.as_bytes()]);
        let inner = got.strip_prefix(before).expect("what was before");
        let inner = inner.strip_suffix(after).unwrap_or_else(|| panic!("{got}"));
        let decoded = general_purpose::STANDARD.decode(inner.replace('\n', ""));
        let decoded = text(decoded.unwrap_or_else(|error| panic!("{error}: {got}")));
        assert_eq!(decoded, plain.replace(VALUE, SENTINEL));
        for cut in 0..whole.len() {
            let (head, tail) = whole.as_bytes().split_at(cut);
            assert_eq!(through_text(&scrub, &[head, tail]), got, "cut at {cut}");
        }
    }
}

/// A sentinel of its value's length moves nothing, and what the next letter has of the value is no part of the answer.
#[test]
fn where_a_line_breaks_within_a_value_nothing_of_it_is_shown_and_nothing_moves() {
    const LIKE: &str = "ghp_ffffffffffffffffffff";
    assert_eq!(LIKE.len(), VALUE.len());
    let scrub = scrub_of(&[(VALUE, LIKE)]);
    for offset in 0..12 {
        let before = "x".repeat(offset);
        let behind = " and other words".repeat(6);
        let plain = format!("{before}{VALUE}{behind}");
        let expected = plain.replace(VALUE, LIKE);
        for width in [20, 37, 50, 57, 61, 64, 70, 76, 78, 100, 120] {
            let lines = |text: &str| {
                let encoded = general_purpose::STANDARD.encode(text);
                let lines = encoded.as_bytes().chunks(width);
                let lines: Vec<_> = lines.map(|line| String::from_utf8_lossy(line)).collect();
                lines.join("\n") + "\n"
            };
            let got = through_text(&scrub, &[lines(&plain).as_bytes()]);
            // Line breaks within the value went with it; each behind it is where it was.
            let text = got.replace('\n', "");
            assert_eq!(
                text,
                general_purpose::STANDARD.encode(&expected),
                "{offset} {width}"
            );
            let (behind, whole) = (got.rsplit('\n'), lines(&expected));
            let same = behind
                .zip(whole.rsplit('\n'))
                .take_while(|(one, other)| one == other);
            assert!(same.count() > 4000 / width / 50, "{offset} {width}: {got}");
        }
    }
}

#[test]
fn a_full_line_that_ends_with_padding_ends_with_one_line_break() {
    let scrub = scrub();
    for padding in 1..=2 {
        let plain = format!("{}{VALUE}", "x".repeat(48 - padding - VALUE.len()));
        let encoded = general_purpose::STANDARD.encode(&plain);
        assert_eq!((encoded.len(), encoded.matches('=').count()), (64, padding));
        let got = through_text(&scrub, &[format!("{encoded}\nnext\n").as_bytes()]);
        let expected = general_purpose::STANDARD.encode(plain.replace(VALUE, SENTINEL));
        assert_eq!(got, format!("{expected}\nnext\n"));
    }
}
