//! Hellos whole, split at every point, spread over records, mangled, and from real clients.

use proptest::prelude::*;

use super::*;

/// A hello with these extensions, as one handshake message.
pub(crate) fn hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
    let mut list = Vec::new();
    for (kind, data) in extensions {
        list.extend(kind.to_be_bytes());
        list.extend(u16::try_from(data.len()).unwrap().to_be_bytes());
        list.extend(data);
    }
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([0, 0, 2, 0x13, 0x01, 1, 0]);
    body.extend(u16::try_from(list.len()).unwrap().to_be_bytes());
    body.extend(list);
    let mut message = vec![1];
    message.extend(&u32::try_from(body.len()).unwrap().to_be_bytes()[1..]);
    message.extend(body);
    message
}

/// The message in records of at most `size` octets.
pub(crate) fn records(message: &[u8], size: usize) -> Vec<u8> {
    let mut raw = Vec::new();
    for piece in message.chunks(size) {
        raw.extend([22, 3, 1]);
        raw.extend(u16::try_from(piece.len()).unwrap().to_be_bytes());
        raw.extend(piece);
    }
    raw
}

fn sni(names: &[(u8, &[u8])]) -> (u16, Vec<u8>) {
    let mut list = Vec::new();
    for (kind, name) in names {
        list.push(*kind);
        list.extend(u16::try_from(name.len()).unwrap().to_be_bytes());
        list.extend(*name);
    }
    let mut data = u16::try_from(list.len()).unwrap().to_be_bytes().to_vec();
    data.extend(list);
    (SERVER_NAME, data)
}

pub(crate) fn named(name: &str) -> Vec<u8> {
    let alpn = (ALPN, b"\x00\x0c\x02h2\x08http/1.1".to_vec());
    let padding = (21, vec![0; 1400]);
    records(
        &hello(&[padding, sni(&[(0, name.as_bytes())]), alpn]),
        16384,
    )
}

fn whole(raw: &[u8]) -> Progress {
    Assembly::default().advance(raw)
}

fn name_of(raw: &[u8]) -> Sni {
    match whole(raw) {
        Progress::Hello(facts) => facts.sni,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_name_and_protocols_are_found() {
    let Progress::Hello(facts) = whole(&named("API.Example.com")) else {
        panic!("no hello")
    };
    assert_eq!(facts.sni.name().unwrap().as_str(), "api.example.com");
    assert!(facts.offers(b"h2") && facts.offers(b"http/1.1") && !facts.offers(b"h3"));
    assert!(!facts.ech);
}

#[test]
fn bad_server_names_are_told_apart() {
    let with = |names: &[(u8, &[u8])]| name_of(&records(&hello(&[sni(names)]), 16384));
    assert_eq!(with(&[(0, b"192.0.2.1")]), Sni::Bad(BadSni::Address));
    assert_eq!(with(&[(0, b"2001:db8::1")]), Sni::Bad(BadSni::Address));
    assert_eq!(with(&[(0, b"0x7f.1")]), Sni::Bad(BadSni::Address));
    assert_eq!(with(&[(0, b"2130706433")]), Sni::Bad(BadSni::Address));
    assert_eq!(
        with(&[(0, b"a.example"), (0, b"b.example")]),
        Sni::Bad(BadSni::Several)
    );
    assert_eq!(
        with(&[(0, b"a.example"), (9, b"b")]),
        Sni::Bad(BadSni::Several)
    );
    assert_eq!(with(&[(9, b"a.example")]), Sni::Bad(BadSni::Malformed));
    assert_eq!(with(&[]), Sni::Bad(BadSni::Malformed));
    for bad in [
        &b"a.example.."[..],
        b".",
        b"",
        b"a b",
        b"a\0.example",
        b"\xff",
        "\u{e9}.example".as_bytes(),
    ] {
        assert_eq!(with(&[(0, bad)]), Sni::Bad(BadSni::Malformed), "{bad:?}");
    }
    assert_eq!(with(&[(0, b"192.0.2.1.")]), Sni::Bad(BadSni::Address));
    // A name that is written as absolute is the same name.
    assert_eq!(with(&[(0, b"a.example.")]), with(&[(0, b"a.example")]));
    assert_eq!(name_of(&records(&hello(&[]), 16384)), Sni::Absent);
}

#[test]
fn encrypted_client_hello_is_seen() {
    let raw = records(
        &hello(&[sni(&[(0, b"public.example")]), (0xfe0d, vec![0; 40])]),
        16384,
    );
    assert!(matches!(
        whole(&raw),
        Progress::Hello(ClientHelloFacts { ech: true, .. })
    ));
}

#[test]
fn repeated_extensions_and_trailing_bytes_are_invalid() {
    let twice = [sni(&[(0, b"a.example")]), sni(&[(0, b"b.example")])];
    assert_eq!(whole(&records(&hello(&twice), 16384)), Progress::Invalid);
    let mut message = hello(&[]);
    message.push(0);
    assert_eq!(whole(&records(&message, 16384)), Progress::Invalid);
}

#[test]
fn other_records_and_oversize_are_invalid_at_once() {
    assert_eq!(whole(&[23]), Progress::Invalid);
    assert_eq!(whole(&[22, 2]), Progress::Invalid);
    assert_eq!(whole(&[22, 3, 1, 0, 0]), Progress::Invalid);
    assert_eq!(whole(&[22, 3, 1, 0x40, 1]), Progress::Invalid);
    assert_eq!(whole(&[22, 3, 1, 0, 4, 2]), Progress::Invalid);
    assert_eq!(whole(&[22, 3, 1, 0, 4, 1, 0xff, 0, 0]), Progress::Invalid);
    let mut raw = records(&hello(&[]), 10);
    let second = 15;
    raw[second] = 21;
    assert_eq!(whole(&raw), Progress::Invalid);
}

#[test]
fn sslv2_is_recognised() {
    assert!(is_sslv2(&[0x80, 0x2e, 1, 3, 1]));
    assert!(!is_sslv2(&[0x16, 3, 1, 0, 1]));
    assert!(!is_sslv2(b"GET "));
}

#[test]
fn a_real_hello_of_rustls_is_read() {
    let provider = std::sync::Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(rustls::RootCertStore::empty())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = rustls_pki_types::ServerName::try_from("real.example").unwrap();
    let mut client = rustls::ClientConnection::new(config.into(), name).unwrap();
    let mut raw = Vec::new();
    client.write_tls(&mut raw).unwrap();
    assert_eq!(
        name_of(&raw),
        Sni::Name(Fqdn::parse("real.example").unwrap())
    );
    for end in 0..raw.len() {
        assert_eq!(whole(&raw[..end]), Progress::NeedMore);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_split_over_records_and_packets_gives_the_same(
        size in 1_usize..2000, cuts in prop::collection::vec(1_usize..600, 0..40)
    ) {
        let message = hello(&[(21, vec![0; 900]), sni(&[(0, b"split.example")])]);
        let raw = records(&message, size);
        let mut assembly = Assembly::default();
        let mut end = 0;
        for cut in cuts {
            end += cut;
            if end >= raw.len() { break; }
            prop_assert_eq!(assembly.advance(&raw[..end]), Progress::NeedMore);
        }
        prop_assert_eq!(assembly.advance(&raw), whole(&records(&message, 16384)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(raw in prop::collection::vec(any::<u8>(), 0..400)) {
        let _progress = whole(&raw);
        let mut framed = vec![22, 3, 1];
        framed.extend(u16::try_from(raw.len() + 4).unwrap().to_be_bytes());
        framed.extend([1, 0]);
        framed.extend(u16::try_from(raw.len()).unwrap().to_be_bytes());
        framed.extend(&raw);
        let _progress = whole(&framed);
    }

    #[test]
    fn a_mangled_hello_never_panics_and_never_waits_for_more_than_it_says(
        at in 0_usize..1000, with in any::<u8>()
    ) {
        let mut raw = named("mangled.example");
        let at = at % raw.len();
        raw[at] = with;
        let _progress = whole(&raw);
        raw.extend(vec![0; MAX_HELLO + MAX_RECORD]);
        prop_assert_ne!(whole(&raw), Progress::NeedMore);
    }
}
