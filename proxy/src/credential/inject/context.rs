//! How a value is written in a header field by what stands around its sentinel: a quoted string (RFC 9110 §5.6.4), a
//! string of JSON, the query of a URL, or the field itself.

use memchr::memmem;

use crate::credential::{
    media::Beginning,
    place::{Escape, Unplaceable},
};

/// `text` with every sentinel replaced, each as its place wants it; `None` where there is none of it.
pub(super) fn placed(
    text: &[u8],
    sentinel: &[u8],
    value: &[u8],
) -> Result<Option<Vec<u8>>, Unplaceable> {
    let json = Beginning::Blank.read(text) == Some(true);
    let (mut out, mut from) = (Vec::new(), 0);
    for at in memmem::find_iter(text, sentinel) {
        let before = text.get(..at).unwrap_or_default();
        out.extend_from_slice(before.get(from..).unwrap_or_default());
        write(before, json, value, &mut out)?;
        from = at + sentinel.len();
    }
    if from == 0 {
        return Ok(None);
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(Some(out))
}

/// Appends the value behind `before`.
fn write(before: &[u8], json: bool, value: &[u8], out: &mut Vec<u8>) -> Result<(), Unplaceable> {
    let quoted = is_quoted(before);
    if json && quoted {
        Escape::Json.write(value, out);
    } else if is_in_query(before) {
        Escape::Percent.write(value, out);
    } else if quoted {
        // A control character has no escape there.
        if value.iter().any(u8::is_ascii_control) {
            return Err(Unplaceable::Ends);
        }
        for octet in value {
            if matches!(octet, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(*octet);
        }
    } else if json && value.iter().any(|octet| b"\"\\,:[]{}".contains(octet)) {
        return Err(Unplaceable::Ends);
    } else {
        out.extend_from_slice(value);
    }
    Ok(())
}

/// Whether a quotation mark is open.
fn is_quoted(before: &[u8]) -> bool {
    let (mut quoted, mut escaped) = (false, false);
    for octet in before {
        match octet {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            _ => {}
        }
    }
    quoted
}

/// Whether it is the query of a URL that stands right before.
fn is_in_query(before: &[u8]) -> bool {
    let apart = |octet: &u8| octet.is_ascii_whitespace() || b"<>\",;'".contains(octet);
    let word = before.rsplit(apart).next().unwrap_or_default();
    let mut halves = word.splitn(2, |octet| *octet == b'?');
    let url = halves.next().unwrap_or_default();
    halves.next().is_some() && memmem::find(url, b"://").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_ends_nothing_that_it_stands_in() {
        const VALUE: &str = r#"pass"wo\rd;x, a="1"#;
        for (text, expected) in [
            ("key <>", Some(r#"key pass"wo\rd;x, a="1"#)),
            (
                r#"Digest username="<>", realm="r""#,
                Some(r#"Digest username="pass\"wo\\rd;x, a=\"1", realm="r""#),
            ),
            (
                r#"{"k":"<>","l":["<>"]}"#,
                Some(r#"{"k":"pass\"wo\\rd;x, a=\"1","l":["pass\"wo\\rd;x, a=\"1"]}"#),
            ),
            (r#"{"k":<>}"#, None),
            (
                "https://a.test/p?key=<>&b",
                Some("https://a.test/p?key=pass%22wo%5Crd%3Bx%2C%20a%3D%221&b"),
            ),
            (
                "<https://a.test/?k=<>>; rel=next",
                Some("<https://a.test/?k=pass%22wo%5Crd%3Bx%2C%20a%3D%221>; rel=next"),
            ),
            (r#""a\"b" <>"#, Some(r#""a\"b" pass"wo\rd;x, a="1"#)),
        ] {
            let text = text.replacen("<>", "SENT", 9);
            let told = placed(text.as_bytes(), b"SENT", VALUE.as_bytes());
            let told = told.map(|told| String::from_utf8(told.unwrap()).unwrap());
            assert_eq!(told.ok().as_deref(), expected, "{text}");
        }
        assert_eq!(placed(b"nothing", b"SENT", b"v"), Ok(None));
        assert_eq!(
            placed(b"\"SENT\"", b"SENT", b"a\tb"),
            Err(Unplaceable::Ends)
        );
    }
}
