//! A value in its sentinel's place, written as the place wants it, wherever the body is cut.

use gig_vault::{Part, Secret, SecretBytes, Shape, Treatment};
use percent_encoding::percent_decode_str;
use proptest::prelude::*;

use super::*;
use crate::credential::place::Places;

const SENTINEL: &str = "gigph-0123456789abcdef/+=";

fn swap(value: &str, escape: Escape) -> Swap {
    Swap::new(swappable(value), escape, &Arc::default())
}

fn swappable(value: impl AsRef<[u8]>) -> Vec<Swappable> {
    let secret = Secret {
        name: "T".parse().unwrap(),
        version: 1,
        parts: vec![Part {
            variable: "T".into(),
            value: SecretBytes::new(value.as_ref().to_vec()),
            shape: Shape::Plain,
        }],
        treatment: Treatment::Replace,
        entrusted: false,
    };
    let replacement = Replacement {
        sentinel: SENTINEL.into(),
        secret: Arc::new(secret),
        part: 0,
        places: Places::default(),
        keeper: None,
    };
    let unavailable = Swappable::Unavailable("gigph-unavailable".into());
    vec![Swappable::Ready(replacement), unavailable]
}

#[test]
fn what_begins_like_json_is_written_as_json_wherever_it_is_cut() {
    let told = SENTINEL.replace('/', "\\/");
    for (text, expected) in [
        (
            format!("{{\"k\":\"{SENTINEL}\"}}"),
            "{\"k\":\"a\\\"b\\\\c\"}",
        ),
        (format!(" \r\n\t[\"{told}\"]"), " \r\n\t[\"a\\\"b\\\\c\"]"),
        (
            format!("\u{feff}{{\"k\":\"{SENTINEL}\"}}"),
            "\u{feff}{\"k\":\"a\\\"b\\\\c\"}",
        ),
        (
            format!("\u{feff} \n[\"{SENTINEL}\"]"),
            "\u{feff} \n[\"a\\\"b\\\\c\"]",
        ),
        (format!("\u{feff}k={SENTINEL}"), "\u{feff}k=a\"b\\c"),
        (format!("k={SENTINEL}"), "k=a\"b\\c"),
        (SENTINEL.to_owned(), "a\"b\\c"),
        (format!("  {SENTINEL} {{"), "  a\"b\\c {"),
        (format!("[default]\nk={SENTINEL}"), "[default]\nk=a\"b\\c"),
    ] {
        for cut in 0..=text.len() {
            let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
            let (one, two) = text.as_bytes().split_at(cut);
            assert_eq!(pushed(&mut swap, &[one, two]), expected, "{text} at {cut}");
        }
    }
}

/// What becomes of a multipart body with the boundary `b`, which comes in two pieces.
fn in_parts(value: &str, text: &str, cut: usize) -> Result<String, RewriteError> {
    let boundary: Arc<[u8]> = b"b"[..].into();
    let mut swap = Swap::new(swappable(value), Escape::Raw, &Arc::default()).in_parts(&boundary);
    let (one, two) = text.as_bytes().split_at(cut.min(text.len()));
    let mut out = Vec::new();
    swap.push(one, &mut out)?;
    swap.push(two, &mut out)?;
    swap.finish(&mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn a_value_is_written_as_its_part_wants_it_and_ends_no_head() {
    let of =
        |value: &str, text: &str, cut: usize| in_parts(value, &text.replace('<', SENTINEL), cut);
    let plain = "--b\r\nA: b\r\n\r\n<\r\n--b--";
    let json = "--b\r\nContent-Type: application/json\r\n\r\n{\"k\":\"<\"}\r\n--b--";
    let head = "--b\r\nA: b; filename=\"<\"\r\n\r\nx\r\n--b--";
    for cut in 0..80 {
        for value in ["a\r\n--b\r\nA: c\r\n\r\nd", "--b--"] {
            assert_eq!(
                of(value, plain, cut),
                Err(RewriteError::Unplaceable),
                "{cut}"
            );
        }
        assert_eq!(of("a\n--c", plain, cut), Ok(plain.replace('<', "a\n--c")));
        assert_eq!(
            of("a\"b", plain, cut),
            Ok(plain.replace('<', "a\"b")),
            "{cut}"
        );
        assert_eq!(
            of("a\"b", json, cut),
            Ok(json.replace('<', "a\\\"b")),
            "{cut}"
        );
        assert_eq!(of("a-b", head, cut), Ok(head.replace('<', "a-b")), "{cut}");
        for value in ["a\"b", "a\r\nX: y", "a\nb"] {
            assert_eq!(
                of(value, head, cut),
                Err(RewriteError::Unplaceable),
                "{cut}"
            );
        }
    }
}

#[test]
fn a_value_that_is_no_text_goes_into_none() {
    for (escape, expected) in [
        (Escape::Json, Err(RewriteError::Unplaceable)),
        (Escape::Markup, Err(RewriteError::Unplaceable)),
        (Escape::Raw, Ok(())),
        (Escape::Percent, Ok(())),
    ] {
        let mut swap = Swap::new(swappable(b"a\xffb"), escape, &Arc::default());
        let text = format!("<k>{SENTINEL}</k>");
        let mut out = Vec::new();
        let pushed = swap.push(text.as_bytes(), &mut out);
        assert_eq!(
            pushed.and_then(|()| swap.finish(&mut out)),
            expected,
            "{escape:?}"
        );
    }
}

#[test]
fn a_part_that_is_no_text_stays_as_it_is_and_is_noted() {
    let boundary: Arc<[u8]> = b"b"[..].into();
    let of = |media: &str, cut: usize| {
        let text =
            format!("--b\r\nContent-Type: {media}\r\n\r\n\0<\0\r\n--b\r\nA: b\r\n\r\n<\r\n--b--");
        let sent = text.replace('<', SENTINEL);
        let tally = Arc::default();
        let swap = Swap::new(swappable("v"), Escape::Raw, &tally);
        let mut swap = swap.in_parts(&boundary);
        let (one, two) = sent.as_bytes().split_at(cut.min(sent.len()));
        (pushed(&mut swap, &[one, two]), text, tally.findings())
    };
    for cut in 0..120 {
        for media in [
            "application/x-tar",
            "Image/PNG",
            "application/octet-stream; a=b",
        ] {
            let (out, text, found) = of(media, cut);
            let (one, two) = text.rsplit_once('<').unwrap();
            assert_eq!(
                out,
                format!("{}v{two}", one.replace('<', SENTINEL)),
                "{cut}"
            );
            let note = "sentinel of T in a part that is no text, where no value goes";
            assert!(found.iter().any(|found| &**found == note), "{found:?}");
        }
        for media in [
            "text/csv",
            "application/yaml",
            "application/http",
            "image/svg+xml",
        ] {
            let (out, text, _) = of(media, cut);
            assert_eq!(out, text.replace('<', "v"), "{media} at {cut}");
        }
    }
}

#[test]
fn in_a_part_that_says_its_length_or_digest_no_value_makes_it_wrong() {
    let of = |value: &str, field: &str, cut: usize| {
        let text = format!("--b\r\nA: b\r\n{field}\r\n\r\n{SENTINEL}\r\n--b--");
        in_parts(value, &text, cut)
    };
    let same = SENTINEL.replace("gigph", "value");
    for cut in 0..80 {
        for field in ["Content-Length: 24", "content-length :24"] {
            assert!(of(&same, field, cut).unwrap().contains(&same), "{cut}");
            assert_eq!(of("v", field, cut), Err(RewriteError::Unplaceable), "{cut}");
        }
        for field in [
            "Content-MD5: AAAA",
            "X-Amz-Checksum-Crc32: AAAA",
            "Digest: a=b",
        ] {
            assert_eq!(
                of(&same, field, cut),
                Err(RewriteError::Unplaceable),
                "{field}"
            );
        }
        assert!(of("v", "Content-Language: en", cut).is_ok(), "{cut}");
    }
}

#[test]
fn json_within_json_and_within_a_field_stays_what_it_is_wherever_it_is_cut() {
    const VALUE: &str = "a\"b\\c\nd";
    for (escape, text, path) in [
        (
            Escape::Json,
            r#"{"k":"{\"l\":\"<\",\"m\":\"<\"}","n":"<"}"#,
            &["k", "l"][..],
        ),
        (
            Escape::Json,
            r#"{"k":"[{\"l\": \"{\\\"m\\\":\\\"<\\\"}\"}]"}"#,
            &["k", "0", "l", "m"],
        ),
    ] {
        let text = text.replace('<', SENTINEL);
        for cut in 0..=text.len() {
            let mut swap = swap(VALUE, escape);
            let (one, two) = text.as_bytes().split_at(cut);
            let out = pushed(&mut swap, &[one, two]);
            let mut found: serde_json::Value = serde_json::from_str(&out).unwrap();
            for name in path {
                if let Some(inner) = found.as_str() {
                    found = serde_json::from_str(inner).unwrap_or_else(|_| panic!("{out}"));
                }
                found = match name.parse::<usize>() {
                    Ok(at) => found[at].take(),
                    Err(_) => found[*name].take(),
                };
            }
            assert_eq!(found, VALUE, "{out}");
        }
    }
    let form = format!("a=1&payload=%7B%22k%22%3A%22{SENTINEL}%22%7D&b={SENTINEL}");
    for cut in 0..=form.len() {
        let mut swap = swap(VALUE, Escape::Percent);
        let (one, two) = form.as_bytes().split_at(cut);
        let out = pushed(&mut swap, &[one, two]);
        let fields: Vec<_> = out
            .split('&')
            .map(|field| field.split_once('=').unwrap().1)
            .collect();
        let [_, payload, last] =
            [0, 1, 2].map(|at| percent_decode_str(fields[at]).decode_utf8().unwrap());
        let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
        assert_eq!((&payload["k"], &*last), (&VALUE.into(), VALUE));
    }
    // Where nobody can tell, such a value is not placed; any other is.
    let unclear = format!(r#"{{"k":"data: {{\"l\":\"{SENTINEL}\"}}"}}"#);
    let mut out = Vec::new();
    let refused = swap(VALUE, Escape::Json).push(unclear.as_bytes(), &mut out);
    assert_eq!(refused, Err(RewriteError::Unplaceable));
    assert!(!String::from_utf8(out).unwrap().contains("a\\\"b"));
    let out = pushed(&mut swap("plain", Escape::Json), &[unclear.as_bytes()]);
    assert_eq!(out, unclear.replace(SENTINEL, "plain"));
}

#[test]
fn in_each_part_a_value_stays_one_value_or_is_not_placed_wherever_it_is_cut() {
    const VALUE: &str = "a\"b\\c&<";
    let entities = "a&quot;b\\c&amp;&lt;";
    let part = |kind: &str, text: &str| {
        let kind = match kind {
            "" => String::new(),
            kind => format!("\r\nContent-Type: {kind}"),
        };
        format!("--b\r\nA: b{kind}\r\n\r\n{text}\r\n")
    };
    for (kind, text, expected) in [
        ("application/json", r#"{"k":"@"}"#, Some(r#"a\"b\\c&<"#)),
        ("", r#" {"k":"@"}"#, Some(r#"a\"b\\c&<"#)),
        (
            "application/json",
            r#"{"k":"{\"l\":\"@\"}"}"#,
            Some(r#"a\\\"b\\\\c&<"#),
        ),
        ("", r#"{"k":"{\"l\":\"@\"}"}"#, Some(r#"a\\\"b\\\\c&<"#)),
        ("application/json", r#"{"k":"data: {\"l\":\"@\"}"}"#, None),
        ("text/xml", "<k>@</k>", Some(entities)),
        ("image/svg+xml", "<k><![CDATA[@]]></k>", Some(VALUE)),
        ("text/html", "<k>{&quot;l&quot;:&quot;@", None),
        (
            "application/x-www-form-urlencoded",
            "k=@&l=v",
            Some("a%22b%5Cc%26%3C"),
        ),
        (
            "application/x-www-form-urlencoded",
            "k=%7B%22l%22%3A%22@%22%7D",
            Some("a%5C%22b%5C%5Cc%26%3C"),
        ),
        ("text/plain", "k=@", Some(VALUE)),
        ("", "say \"hi\"\n@", Some(VALUE)),
        ("text/csv", "1,\"@\"", None),
        ("", "data: {\"k\":\"@\"}", None),
        (
            "application/http",
            "POST / HTTP/1.1\r\n\r\n{\"k\":\"@\"}",
            None,
        ),
    ] {
        // Neither the part before nor the one behind has to do with it.
        for (before, behind) in [
            ("", ""),
            ("text/plain", "application/json"),
            ("application/json", "text/plain"),
        ] {
            let text = part(before, "{\"open")
                + &part(kind, &text.replace('@', SENTINEL))
                + &part(behind, "{\"k\":\"")
                + "--b--";
            for cut in (0..=text.len()).step_by(3) {
                let placed = in_parts(VALUE, &text, cut);
                match expected {
                    Some(value) => {
                        assert_eq!(placed, Ok(text.replace(SENTINEL, value)), "at {cut}");
                    }
                    None => assert_eq!(placed, Err(RewriteError::Unplaceable), "{text} {cut}"),
                }
                let plain = in_parts("plain", &text, cut);
                assert_eq!(plain, Ok(text.replace(SENTINEL, "plain")));
            }
        }
    }
}

#[test]
fn in_text_and_markup_a_value_ends_nothing_that_it_stands_in_wherever_it_is_cut() {
    const VALUE: &str = "a\"b\\c";
    for (escape, text, expected) in [
        (Escape::Raw, "k=@;", Some(VALUE)),
        (Escape::Raw, "a log said {\"k\": 1} of @", Some(VALUE)),
        (Escape::Raw, "a log said {\"k\": \"@\"}", None),
        (Escape::Raw, "INSERT INTO t VALUES ('@')", None),
        (Escape::Markup, "<a>@</a>", Some("a&quot;b\\c")),
        (Escape::Markup, "<a><![CDATA[k=@]]></a>", Some(VALUE)),
        (Escape::Markup, "<a>{\"k\": \"@\"}</a>", None),
        (Escape::Markup, "<a><![CDATA[{\"k\": \"@\"}]]></a>", None),
    ] {
        let sent = text.replace('@', SENTINEL);
        for cut in 0..=sent.len() {
            let (one, two) = sent.as_bytes().split_at(cut);
            let (mut out, tally) = (Vec::new(), Arc::default());
            let mut swap = Swap::new(swappable(VALUE), escape, &tally);
            let mut push = |piece| swap.push(piece, &mut out);
            let pushed = push(one).and_then(|()| push(two));
            let pushed = pushed.and_then(|()| swap.finish(&mut out));
            match expected {
                Some(value) => assert_eq!(out, text.replace('@', value).as_bytes(), "{sent}"),
                None => {
                    assert_eq!(pushed, Err(RewriteError::Unplaceable), "{sent} at {cut}");
                    assert!(text.as_bytes().starts_with(&out), "none of it went");
                    let told = "secret T stays out of where it could end what it stands in";
                    assert_eq!(tally.findings(), [Arc::from(told)]);
                }
            }
            let plain = text.replace('@', "plain");
            let mut swap = Swap::new(swappable("plain"), escape, &tally);
            assert_eq!(self::pushed(&mut swap, &[one, two]), plain);
        }
    }
}

#[test]
fn in_utf_16_no_sentinel_is_found_and_none_ends_a_string() {
    for little in [true, false] {
        let wide = |text: &str| -> Vec<u8> {
            let units = text.encode_utf16();
            let octets = units.map(|u| {
                if little {
                    u.to_le_bytes()
                } else {
                    u.to_be_bytes()
                }
            });
            octets.flatten().collect()
        };
        for begin in ["\u{feff}{\"k\":\"", "{\"k\":\""] {
            let begun = wide(begin);
            let text = [&begun[..], &wide(SENTINEL)].concat();
            let mut out = Vec::new();
            let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
            swap.push(&text, &mut out).unwrap();
            swap.finish(&mut out).unwrap();
            assert_eq!(out, text);
            // Octets that are none of it: JSON all the same, so that none of it ends a string.
            let text = [&begun[..], SENTINEL.as_bytes()].concat();
            let mut out = Vec::new();
            let mut swap = Swap::untold(swappable("a\"b\\c"), Escape::Raw, &Arc::default());
            swap.push(&text, &mut out).unwrap();
            swap.finish(&mut out).unwrap();
            assert_eq!(out, [&begun[..], b"a\\\"b\\\\c"].concat());
        }
    }
}

fn pushed(swap: &mut Swap, pieces: &[&[u8]]) -> String {
    let mut out = Vec::new();
    for piece in pieces {
        swap.push(piece, &mut out).unwrap();
        assert!(swap.held() < 128);
    }
    swap.finish(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn wherever_two_cuts_are_each_escape_comes_out_right() {
    let cases = [
        (Escape::Raw, SENTINEL.to_owned(), "a\"b&/%"),
        (Escape::Json, SENTINEL.replace('/', "\\/"), "a\\\"b&/%"),
        (
            Escape::Percent,
            SENTINEL
                .replace('/', "%2f")
                .replace('+', "%2b")
                .replace('=', "%3d"),
            "a%22b%26%2F%25",
        ),
        (
            Escape::Percent,
            SENTINEL
                .replace('/', "%2F")
                .replace('+', "%2B")
                .replace('=', "%3D"),
            "a%22b%26%2F%25",
        ),
        (Escape::Markup, SENTINEL.to_owned(), "a&quot;b&amp;/%"),
    ];
    for (escape, written, value) in cases {
        let text = format!("gigph-0{written}gigph-{written}{written}gig");
        let expected = format!("gigph-0{value}gigph-{value}{value}gig");
        let octets = text.as_bytes();
        for one in 0..octets.len() {
            for two in (one..octets.len()).step_by(3) {
                let pieces = [&octets[..one], &octets[one..two], &octets[two..]];
                let out = pushed(&mut swap("a\"b&/%", escape), &pieces);
                assert_eq!(out, expected, "{escape:?} cut at {one} and {two}");
            }
        }
    }
}

#[test]
fn what_is_held_back_is_let_go_when_nothing_comes() {
    let mut swap = swap("v", Escape::Raw);
    let mut out = Vec::new();
    swap.push(b"hello gig", &mut out).unwrap();
    assert_eq!((out.as_slice(), swap.held()), (&b"hello "[..], 3));
    swap.release(&mut out).unwrap();
    assert_eq!((out.as_slice(), swap.held()), (&b"hello gig"[..], 0));
    out.clear();
    assert_eq!(pushed(&mut swap, &[SENTINEL.as_bytes()]), "v");
}

#[test]
fn a_sentinel_whose_secret_cannot_be_had_stops_the_body() {
    let mut swap = swap("v", Escape::Raw);
    let mut out = Vec::new();
    let refused = swap.push(b"..gigph-unavailable..", &mut out);
    assert_eq!(refused, Err(RewriteError::Unavailable));
}

proptest! {
    #[test]
    fn cuts_do_not_matter(
        text in prop::collection::vec(prop_oneof![
            Just(SENTINEL.to_owned()), Just("gigph-".to_owned()), "[a-g0-9-]{0,12}",
        ], 0..12).prop_map(|parts| parts.concat()),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len() + 1)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &text.as_bytes()[w[0]..w[1]]).collect();
        let out = pushed(&mut swap("VALUE", Escape::Raw), &pieces);
        prop_assert_eq!(out, text.replace(SENTINEL, "VALUE"));
    }
}
