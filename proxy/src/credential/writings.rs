//! The other texts that a value is written as by what knows no better: a form's encoder makes `+` of each blank,
//! what speaks Latin-1 has an octet a letter, and what takes octets for letters (Python's `b'\xc3'` read as
//! JavaScript reads it, UTF-8 read as Latin-1 and written anew) has two. What is written in ASCII without blanks
//! has none of them. And as strings of JSON, whose escapes nobody undoes within Base64.

use zeroize::Zeroizing;

use super::armour::keys;

/// Every other text that is looked for of a value: its writings, and the private keys within it.
pub(super) fn other_texts(value: &[u8]) -> impl Iterator<Item = Zeroizing<Vec<u8>>> {
    keys(value).into_iter().chain(writings(value))
}

/// How a value is written otherwise, each once, and none that is the value.
fn writings(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut all: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    let mut add = |text: Zeroizing<Vec<u8>>| {
        if *text != value && !all.contains(&text) {
            all.push(text);
        }
    };
    let others = [latin1(value), Some(letters(value))];
    for text in others.into_iter().flatten() {
        add(plus(&text));
        add(text);
    }
    add(plus(value));
    all
}

/// The value in a string of JSON (RFC 8259 §7), with other letters than those of ASCII as they are and escaped; each
/// once, and none that is the value. Where it stands as it is its escapes are undone; within an encoding they are not.
pub(super) fn in_json(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let Ok(text) = std::str::from_utf8(value) else {
        return Vec::new();
    };
    let mut all: Vec<Zeroizing<Vec<u8>>> = Vec::new();
    for ascii in [false, true] {
        let mut written = Zeroizing::new(Vec::with_capacity(6 * value.len()));
        text.chars()
            .for_each(|sign| write_json(sign, ascii, &mut written));
        if *written != value && !all.contains(&written) {
            all.push(written);
        }
    }
    all
}

fn write_json(sign: char, ascii: bool, out: &mut Vec<u8>) {
    let short = match sign {
        '"' | '\\' => Some(sign),
        '\n' => Some('n'),
        '\r' => Some('r'),
        '\t' => Some('t'),
        '\u{8}' => Some('b'),
        '\u{c}' => Some('f'),
        _ => None,
    };
    let mut room = [0; 4];
    if let Some(short) = short {
        out.push(b'\\');
        out.extend_from_slice(short.encode_utf8(&mut room).as_bytes());
    } else if sign < ' ' || ascii && !(' '..='~').contains(&sign) {
        for unit in sign.encode_utf16(&mut [0; 2]) {
            out.extend_from_slice(b"\\u");
            let digits = [12, 8, 4, 0].map(|shift| usize::from(*unit >> shift & 15));
            out.extend(digits.iter().filter_map(|digit| HEX.get(*digit)));
        }
    } else {
        out.extend_from_slice(sign.encode_utf8(&mut room).as_bytes());
    }
}

/// With `+` for each blank (`application/x-www-form-urlencoded`).
fn plus(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let signs = text.iter();
    let signs = signs.map(|octet| if *octet == b' ' { b'+' } else { *octet });
    gathered(text.len(), signs)
}

/// In ISO-8859-1, where it can be.
fn latin1(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let text = std::str::from_utf8(text).ok()?;
    let octets = text.chars().map(u8::try_from);
    let all = octets.clone().all(|octet| octet.is_ok());
    all.then(|| gathered(text.len(), octets.flatten()))
}

/// Each octet as the letter with its number, in UTF-8.
fn letters(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let wide = text.iter().flat_map(|octet| {
        let mut room = [0; 2];
        let length = char::from(*octet).encode_utf8(&mut room).len();
        room.into_iter().take(length)
    });
    gathered(2 * text.len(), wide)
}

/// Room for all of it: what grows would leave copies that are not wiped.
fn gathered(most: usize, octets: impl Iterator<Item = u8>) -> Zeroizing<Vec<u8>> {
    let mut all = Zeroizing::new(Vec::with_capacity(most));
    all.extend(octets);
    all
}

const HEX: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
pub(super) mod tests {
    use base64::{Engine as _, engine::general_purpose::STANDARD};

    use super::*;

    /// Values that are not made of letters, digits and a few marks alone.
    pub(in crate::credential) const ODD: [&str; 7] = [
        "open the gate 2026",
        "my pass phrase&co/x+y=",
        r"CORP\svc:Tr0ub4",
        r"C\wgeheimnis\u0012\\x",
        "emoji😀secret-12345Zq",
        "Zß-grün-haus-99",
        "it's; \"odd\" \\n %41 é",
    ];

    fn escaped(
        value: &str,
        is_plain: impl Fn(u8) -> bool,
        escape: impl Fn(u8) -> String,
    ) -> String {
        let octets = value.bytes();
        let octets = octets.map(|octet| match octet {
            octet if is_plain(octet) => char::from(octet).to_string(),
            octet => escape(octet),
        });
        octets.collect()
    }

    /// As JSON in ASCII, without its quotation marks.
    fn json(value: &str) -> String {
        let text = serde_json::to_string(value).unwrap();
        let inside = text.get(1..text.len() - 1).unwrap().chars();
        let units = inside.map(|sign| {
            let mut room = [0; 2];
            let units = sign.encode_utf16(&mut room).iter();
            let units = units.map(|unit| format!("\\u{unit:04x}"));
            if sign.is_ascii() {
                sign.to_string()
            } else {
                units.collect()
            }
        });
        units.collect()
    }

    /// A value as encoders write it.
    pub(in crate::credential) fn written(value: &str) -> Vec<(&'static str, Vec<u8>)> {
        let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-._~".contains(&octet);
        let percent = escaped(value, plain, |octet| format!("%{octet:02X}"));
        let signs = |to: fn(char) -> String| -> String { value.chars().map(to).collect() };
        let mut all = vec![
            ("as it is", value.as_bytes().to_vec()),
            ("form", percent.replace("%20", "+").into_bytes()),
            ("percent", percent.clone().into_bytes()),
            (
                "every octet",
                escaped(value, |_| false, |octet| format!("%{octet:02x}")).into_bytes(),
            ),
            ("JSON", json(value).into_bytes()),
            ("JSON in JSON", json(&json(value)).into_bytes()),
            (
                "JSON in a form",
                escaped(&json(value), plain, |octet| format!("%{octet:02X}")).into_bytes(),
            ),
            (
                "entities",
                signs(|sign| format!("&#{};", u32::from(sign))).into_bytes(),
            ),
            (
                "hexadecimal entities",
                signs(|sign| format!("&#x{:x};", u32::from(sign))).into_bytes(),
            ),
            ("Base64", STANDARD.encode(value).into_bytes()),
            ("Base64 of JSON", STANDARD.encode(json(value)).into_bytes()),
            (
                "Base64 of JSON with its own letters",
                STANDARD
                    .encode(serde_json::to_string(value).unwrap())
                    .into_bytes(),
            ),
        ];
        let quoted = value.replace('\\', r"\\").replace('\'', r"\'");
        let octets = escaped(
            &quoted,
            |octet| octet.is_ascii(),
            |octet| format!("\\x{octet:02x}"),
        );
        all.push(("octets of Python", octets.into_bytes()));
        if let Some(latin1) = latin1(value.as_bytes()) {
            let percent = latin1.iter().map(|octet| format!("%{octet:02X}"));
            all.push(("Latin-1, escaped", percent.collect::<String>().into_bytes()));
            all.push(("Latin-1", latin1.to_vec()));
        }
        all
    }

    #[test]
    fn a_string_of_json_is_as_encoders_write_it() {
        for value in ODD
            .into_iter()
            .chain(["a\u{1}\u{8}\u{c}\u{7f}\r\t", "plain"])
        {
            let texts: Vec<_> = in_json(value.as_bytes())
                .into_iter()
                .map(|text| String::from_utf8(text.to_vec()).unwrap())
                .collect();
            let whole = serde_json::to_string(value).unwrap();
            let inside = whole.get(1..whole.len() - 1).unwrap();
            assert!(inside == value || texts.iter().any(|text| text == inside));
            for text in &texts {
                let read: String = serde_json::from_str(&format!("\"{text}\"")).unwrap();
                assert_eq!(read, value);
            }
            let none = inside == value && value.is_ascii() && !value.contains('\u{7f}');
            assert_eq!(texts.is_empty(), none, "{value}");
        }
    }

    #[test]
    fn what_knows_no_better_writes_a_value_otherwise() {
        let all = |value: &str| {
            let texts = writings(value.as_bytes());
            let mut all: Vec<_> = texts.iter().map(|text| text.to_vec()).collect();
            all.sort();
            all
        };
        assert!(all("plain-value_1").is_empty());
        assert_eq!(all("open the gate"), [b"open+the+gate".to_vec()]);
        let expected: [&[u8]; 5] = [
            b"a \xc3\x83\xc2\x9f",
            b"a \xdf",
            b"a+\xc3\x83\xc2\x9f",
            b"a+\xc3\x9f",
            b"a+\xdf",
        ];
        assert_eq!(all("a ß"), expected);
        // What has no place in Latin-1 is not written in it.
        assert_eq!(all("€x").len(), 1);
    }
}
