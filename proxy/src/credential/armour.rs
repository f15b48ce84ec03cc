//! Private keys in PEM (RFC 7468): the octets within their armour, which are the key however it is dressed.
//!
//! A program takes the armour off, folds the lines anew, writes them into JSON, or decodes them: the letters
//! in one line and the octets are looked for beside the document. Certificates are none: they are public. What
//! another encoding wraps around the same numbers (PKCS#8 around PKCS#1) is found where it holds those octets.

use base64::{Engine, engine::general_purpose::STANDARD_NO_PAD};
use memchr::memmem;
use zeroize::Zeroizing;

/// The octets of every private key in a value.
pub(super) fn keys(value: &[u8]) -> Vec<Zeroizing<Vec<u8>>> {
    let mut keys = Vec::new();
    let mut rest = value;
    while keys.len() < MOST {
        let Some((inner, behind)) = next(rest) else {
            break;
        };
        keys.extend(inner.and_then(decoded));
        rest = behind;
    }
    keys
}

/// What the next armour holds, if that is a private key, and what stands behind it.
fn next(text: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let begins = memmem::find(text, BEGIN)? + BEGIN.len();
    let behind = text.get(begins..)?;
    let label_ends = memmem::find(behind, DASHES)?;
    let label = behind.get(..label_ends)?;
    let body = behind.get(label_ends + DASHES.len()..)?;
    if memmem::find(label, PRIVATE).is_none() || label.len() > LONGEST_LABEL {
        return Some((None, body));
    }
    let ends = memmem::find(body, END)?;
    let (inner, behind) = body.split_at_checked(ends)?;
    Some((Some(inner), behind))
}

/// Undoes the Base64 of a body in lines, which JSON may have escaped.
fn decoded(body: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    // Room for all of it: what grows would leave copies that are not wiped.
    let mut letters = Zeroizing::new(Vec::with_capacity(body.len()));
    for line in body.split(|octet| matches!(octet, b'\r' | b'\n')) {
        add_lines(line, &mut letters);
    }
    while letters.last() == Some(&b'=') {
        letters.pop();
    }
    let mut octets = Zeroizing::new(vec![0; letters.len()]);
    let length = STANDARD_NO_PAD
        .decode_slice(letters.as_slice(), octets.as_mut_slice())
        .ok()?;
    octets.truncate(length);
    (octets.len() >= SHORTEST).then_some(octets)
}

/// The letters of a line, or of several with escaped ends.
fn add_lines(mut line: &[u8], letters: &mut Vec<u8>) {
    loop {
        let escape = memmem::find(line, b"\\");
        let (own, rest) = line
            .split_at_checked(escape.unwrap_or(line.len()))
            .unwrap_or((line, &[]));
        let own = own.trim_ascii();
        // What encrypts it is said in fields, and OpenPGP's sum is none of it.
        if !own.contains(&b':') && !own.starts_with(b"=") {
            letters.extend_from_slice(own);
        }
        // The escape and the letter that it escapes.
        match rest.get(2..) {
            Some(more) if escape.is_some() => line = more,
            _ => return,
        }
    }
}

const BEGIN: &[u8] = b"-----BEGIN ";
const DASHES: &[u8] = b"-----";
const END: &[u8] = b"-----END ";
const PRIVATE: &[u8] = b"PRIVATE KEY";
/// `OPENSSH PRIVATE KEY` and its like.
const LONGEST_LABEL: usize = 64;
/// An Ed25519 key has 48 octets; what is shorter is none.
const SHORTEST: usize = 32;
/// Keys of one value.
const MOST: usize = 8;

#[cfg(test)]
pub(super) mod tests {
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    pub(in crate::credential) fn pem(
        label: &str,
        octets: &[u8],
        width: usize,
        end: &str,
    ) -> String {
        let letters = STANDARD.encode(octets);
        let lines = letters.as_bytes().chunks(width);
        let lines = lines.map(|line| String::from_utf8_lossy(line).into_owned());
        let lines: Vec<String> = lines.collect();
        let body = lines.join(end);
        format!("-----BEGIN {label}-----{end}{body}{end}-----END {label}-----{end}")
    }

    proptest! {
        #[test]
        fn a_key_is_read_however_its_lines_end(
            octets in prop::collection::vec(any::<u8>(), 32..700),
            width in 16..80_usize,
            end in "(\n|\r\n|\\\\n|\\\\r\\\\n)",
        ) {
            let text = pem("RSA PRIVATE KEY", &octets, width, &end);
            let keys = keys(text.as_bytes());
            prop_assert_eq!(keys, [Zeroizing::new(octets)]);
        }

        #[test]
        fn nothing_breaks_it(text in "(-----BEGIN |-----END |PRIVATE KEY|-----|\\\\|[A-Z=:\n]){0,12}") {
            drop(keys(text.as_bytes()));
        }
    }

    #[test]
    fn keys_alone_are_read_and_what_stands_beside_them_is_not() {
        let (one, two) = ([7; 48], [9; 120]);
        let chain = pem("CERTIFICATE", &[3; 300], 64, "\n");
        let text = format!(
            "{chain}{}{chain}{}",
            pem("PRIVATE KEY", &one, 64, "\n"),
            pem("EC PRIVATE KEY", &two, 64, "\n")
        );
        let found = keys(text.as_bytes());
        assert_eq!(
            found,
            [Zeroizing::new(one.to_vec()), Zeroizing::new(two.to_vec())]
        );
        assert!(keys(chain.as_bytes()).is_empty());
        assert!(keys(pem("PRIVATE KEY", &[1; 20], 64, "\n").as_bytes()).is_empty());
        let fields = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n";
        let encrypted = pem("RSA PRIVATE KEY", &two, 64, "\n").replacen(
            "KEY-----\n",
            &format!("KEY-----\n{fields}"),
            1,
        );
        assert_eq!(keys(encrypted.as_bytes()), [Zeroizing::new(two.to_vec())]);
    }
}
