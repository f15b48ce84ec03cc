//! What is taken, what is refused, and that a broken renewal changes nothing.

use std::{fs, os::unix::fs::PermissionsExt as _};

use rcgen::{CertificateParams, KeyPair, SanType};

use super::*;

/// A certificate for these names, and its key, as PEM.
fn made(names: &[&str]) -> (String, String) {
    let mut params = CertificateParams::default();
    params.subject_alt_names = names
        .iter()
        .map(|name| match name.parse() {
            Ok(address) => SanType::IpAddress(address),
            Err(_) => SanType::DnsName((*name).try_into().unwrap()),
        })
        .collect();
    let key = KeyPair::generate().unwrap();
    (params.self_signed(&key).unwrap().pem(), key.serialize_pem())
}

struct Lab {
    folder: tempfile::TempDir,
    files: Files,
    provider: CryptoProvider,
}

impl Lab {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files = Files {
            certificate: folder.path().join("chain.pem"),
            key: folder.path().join("key.pem"),
        };
        let provider = rustls::crypto::aws_lc_rs::default_provider();
        Self {
            folder,
            files,
            provider,
        }
    }

    fn put(&self, certificate: &str, key: &str) {
        fs::write(&self.files.certificate, certificate).unwrap();
        fs::write(&self.files.key, key).unwrap();
        self.mode(0o600);
    }

    fn mode(&self, mode: u32) {
        fs::set_permissions(&self.files.key, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn read(&self) -> anyhow::Result<Read> {
        Texts::of(&self.files)?.read(&self.files, &self.provider)
    }

    fn refused(&self) -> String {
        format!("{:#}", self.read().err().unwrap())
    }
}

#[test]
fn a_key_that_others_can_use_or_that_does_not_fit_is_refused() {
    let lab = Lab::new();
    let missing = lab.refused();
    assert!(missing.contains("chain.pem"), "{missing}");
    let ((certificate, key), (_, other)) = (made(&["gig.example"]), made(&["gig.example"]));
    lab.put(&certificate, &key);
    assert_eq!(lab.read().unwrap().name.as_deref(), Some("gig.example"));
    for mode in [0o640, 0o604, 0o660] {
        lab.mode(mode);
        let refused = lab.refused();
        assert!(
            refused.contains("key.pem") && refused.contains("chmod 600"),
            "{refused}"
        );
    }
    let sealed =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    for (certificate, key, said) in [
        (
            certificate.as_str(),
            other.as_str(),
            "is not that of the certificate",
        ),
        ("no PEM at all", key.as_str(), "holds no certificate"),
        (certificate.as_str(), "no PEM at all", "no private key"),
        (certificate.as_str(), sealed, "passphrase"),
    ] {
        lab.put(certificate, key);
        let refused = lab.refused();
        assert!(refused.contains(said), "{refused}");
        assert!(
            refused.contains(lab.folder.path().to_str().unwrap()),
            "{refused}"
        );
    }
}

#[test]
fn people_come_by_its_first_plain_name_or_its_address() {
    for (names, by) in [
        (
            &["10.0.0.7", "*.gig.example", "GIG.example"][..],
            Some("gig.example"),
        ),
        (&["*.gig.example", "10.0.0.7"], Some("10.0.0.7")),
        (&["2001:db8::7"], Some("[2001:db8::7]")),
        (&["*.gig.example"], None),
        (&[], None),
    ] {
        let lab = Lab::new();
        let (certificate, key) = made(names);
        lab.put(&certificate, &key);
        assert_eq!(lab.read().unwrap().name.as_deref(), by, "{names:?}");
    }
}

#[test]
fn a_renewal_is_shown_and_a_broken_one_is_not() {
    let lab = Lab::new();
    let ((first, first_key), (second, second_key)) = (made(&["a.example"]), made(&["a.example"]));
    lab.put(&first, &first_key);
    let shown = Shown(ArcSwap::new(lab.read().unwrap().shown));
    let mut last = Ok(Texts::of(&lab.files).unwrap().digest());
    let mut leaf = || {
        follow(&lab.files, &lab.provider, &shown, &mut last);
        shown.0.load().cert[0].clone()
    };
    let before = leaf();
    // Half of a renewal: a certificate whose key is yet to come.
    lab.put(&second, &first_key);
    assert_eq!(leaf(), before);
    lab.put(&second, &second_key);
    let after = leaf();
    assert_ne!(after, before);
    lab.put("", &second_key);
    assert_eq!(leaf(), after);
    fs::remove_file(&lab.files.key).unwrap();
    assert_eq!(leaf(), after);
    lab.put(&first, &first_key);
    assert_eq!(leaf(), before);
}
