//! A Java key store (JKS) of trusted certificates.
//!
//! The format is older than any Java in use and every one reads it: magic,
//! version 2, entries of alias, time and certificate, and a SHA-1 over the
//! password, a fixed phrase and all of it (`sun.security.provider.JavaKeyStore`).
//! The SHA-1 guards against damage, with a password that everybody knows; it is
//! no security of ours: the file is read-only in the sandbox.

use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const MAGIC: u32 = 0xFEED_FEED;
const VERSION: u32 = 2;
const TRUSTED_CERTIFICATE: u32 = 2;
/// The password that Java's own store has.
const PASSWORD: &str = "changeit";
const PHRASE: &[u8] = b"Mighty Aphrodite";
const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// All certificates of a PEM bundle. One that does not decode is left out:
/// it would not be trusted by any other client either.
pub(crate) fn key_store(bundle: &[u8]) -> Vec<u8> {
    let certificates = certificates(&String::from_utf8_lossy(bundle));
    let mut store = Vec::with_capacity(bundle.len());
    for word in [MAGIC, VERSION, number(certificates.len())] {
        store.extend_from_slice(&word.to_be_bytes());
    }
    for (index, certificate) in certificates.iter().enumerate() {
        store.extend_from_slice(&TRUSTED_CERTIFICATE.to_be_bytes());
        put_text(&mut store, &format!("gig-{index}"));
        // Time of entry: none that matters.
        store.extend_from_slice(&0_u64.to_be_bytes());
        put_text(&mut store, "X.509");
        store.extend_from_slice(&number(certificate.len()).to_be_bytes());
        store.extend_from_slice(certificate);
    }
    let mut digest = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for unit in PASSWORD.encode_utf16() {
        digest.update(&unit.to_be_bytes());
    }
    digest.update(PHRASE);
    digest.update(&store);
    store.extend_from_slice(digest.finish().as_ref());
    store
}

fn certificates(pem: &str) -> Vec<Vec<u8>> {
    pem.split(BEGIN)
        .skip(1)
        .filter_map(|part| {
            let (body, _) = part.split_once(END)?;
            let text: String = body.split_ascii_whitespace().collect();
            STANDARD.decode(text).ok()
        })
        .collect()
}

/// Java's "modified UTF-8": plain ASCII is the same in it.
fn put_text(store: &mut Vec<u8>, text: &str) {
    store.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_be_bytes());
    store.extend_from_slice(text.as_bytes());
}

fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_between_their_lines() {
        let pem = format!("# a\n{BEGIN}\nAQID\nBA==\n{END}\nx\n{BEGIN}\n!!\n{END}\n");
        assert_eq!(certificates(&pem), [vec![1, 2, 3, 4]]);
    }

    #[test]
    fn an_empty_store_is_header_and_digest() {
        let store = key_store(b"");
        assert_eq!(store.len(), 12 + 20);
        assert_eq!(&store[..4], &[0xFE, 0xED, 0xFE, 0xED]);
    }
}
