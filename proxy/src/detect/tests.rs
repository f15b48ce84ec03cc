//! Recognising, at every split, and giving everything back.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;
use crate::client_hello::tests::named;

const PATIENCE: Patience = Patience {
    silence: Duration::from_millis(300),
    complete: Duration::from_secs(10),
};

fn at_once(bytes: &[u8]) -> Option<FirstBytes> {
    Classifier::default().advance(bytes)
}

#[test]
fn http_is_known_by_method_line_or_preface() {
    let http = Some(FirstBytes::Http { h2c: false });
    for line in [
        "GET / HTTP/1.1\r\n",
        "CONNECT a:443",
        "\r\nPOST ",
        "PRIORITIZE /x HTTP/1.1\r\n",
        "get / HTTP/1.0\n",
    ] {
        assert_eq!(at_once(line.as_bytes()), http, "{line:?}");
    }
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0";
    assert_eq!(at_once(preface), Some(FirstBytes::Http { h2c: true }));
    for end in 1..24 {
        assert_eq!(at_once(&preface[..end]), None);
    }
}

#[test]
fn other_protocols_are_other() {
    for bytes in [
        &b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n"[..],
        b"EHLO mail.example\r\n",
        b"SET key value\r\n",
        b"a1 LOGIN u p\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"\r\n\r\n\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nXX",
        b"@x HTTP/1.1\r\n",
    ] {
        assert_eq!(at_once(bytes), Some(FirstBytes::Other), "{bytes:?}");
    }
    assert_eq!(at_once(&[b'A'; 100]), Some(FirstBytes::Other));
    assert_eq!(
        at_once(&[&b"FOO "[..], &[b'x'; 9000]].concat()),
        Some(FirstBytes::Other)
    );
    assert_eq!(at_once(&[0x80, 0x2e, 1, 3, 1]), Some(FirstBytes::BadTls));
}

#[test]
fn a_hello_in_tiny_records_is_cut_off() {
    let mut raw = Vec::new();
    for octet in [1, 0, 0x70, 0]
        .into_iter()
        .chain(std::iter::repeat_n(0, 20_000))
    {
        raw.extend([22, 3, 1, 0, 1, octet]);
    }
    assert_eq!(at_once(&raw), Some(FirstBytes::BadTls));
}

async fn sniffed(bytes: Vec<u8>, chunk: usize) -> (FirstBytes, Vec<u8>) {
    let (near, mut far) = duplex(chunk);
    let sent = bytes.clone();
    let write = async move {
        for piece in sent.chunks(chunk) {
            far.write_all(piece).await.unwrap();
        }
        far.shutdown().await.unwrap();
        far
    };
    let read = async {
        let Sniffed { first, mut stream } = sniff(near, PATIENCE).await.unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await.unwrap();
        (first, all)
    };
    let (_far, result) = tokio::join!(write, read);
    result
}

#[tokio::test]
async fn every_split_gives_the_same_answer_and_all_bytes_back() {
    let hello = named("split.example");
    for chunk in [1, 2, 3, 5, 7, 100, 1459, 1460, 4096] {
        let (first, back) = sniffed(hello.clone(), chunk).await;
        assert!(
            matches!(first, FirstBytes::Tls(f) if f.sni.name().unwrap().as_str() == "split.example")
        );
        assert_eq!(back, hello);
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\n\r\nbody".to_vec();
        let (first, back) = sniffed(request.clone(), chunk).await;
        assert_eq!(first, FirstBytes::Http { h2c: false });
        assert_eq!(back, request);
    }
}

#[tokio::test(start_paused = true)]
async fn silence_and_slowness_end() {
    let (near, far) = duplex(64);
    let quiet = sniff(near, PATIENCE).await.unwrap();
    assert_eq!(quiet.first, FirstBytes::Silent);
    drop(far);

    let (near, mut far) = duplex(64);
    far.write_all(&[22, 3, 1]).await.unwrap();
    assert_eq!(
        sniff(near, PATIENCE).await.unwrap().first,
        FirstBytes::BadTls
    );

    let (near, mut far) = duplex(64);
    far.write_all(b"GE").await.unwrap();
    let slow = sniff(near, PATIENCE).await.unwrap();
    assert_eq!(slow.first, FirstBytes::Other);
    assert_eq!(slow.stream.into_parts().0, "GE");
}

#[tokio::test]
async fn a_peer_that_says_nothing_and_goes_is_an_error() {
    let (near, far) = duplex(64);
    drop(far);
    assert_eq!(
        sniff(near, PATIENCE).await.unwrap_err().kind(),
        io::ErrorKind::UnexpectedEof
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic_and_are_decided_within_the_bound(
        mut bytes in prop::collection::vec(any::<u8>(), 1..200), text in any::<bool>()
    ) {
        if text {
            bytes.iter_mut().for_each(|octet| *octet = b' ' + *octet % 95);
        }
        let mut classifier = Classifier::default();
        let mut decided = None;
        for end in 1..=bytes.len() {
            decided = classifier.advance(&bytes[..end]);
            if decided.is_some() {
                break;
            }
        }
        if decided.is_none() {
            bytes.resize(MAX_FRONT + 20_000, b'x');
            prop_assert!(classifier.advance(&bytes).is_some());
        }
    }
}
