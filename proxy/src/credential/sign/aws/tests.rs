//! The examples that AWS publishes, signed by a program with sentinels and signed again here.
//!
//! "Signature Calculations for the Authorization Header" and "Authenticating Requests: Using Query
//! Parameters" (Amazon S3 API Reference), "Examples of the complete Signature Version 4 signing process".

use gig_vault::{Part, SecretBytes, Shape, StoppedClock, Treatment};
use http::Method;

use super::*;

mod changed;
mod handed_out;
mod refused;
mod version_2;

const SENTINEL: [&str; 2] = [
    "AKIASENTINELSENTINEL",
    "sentinelsentinelsentinelsentinelsentinel",
];
const KEYS: [&str; 2] = [
    "AKIAIOSFODNN7EXAMPLE",
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
];
const NOTHING: &str = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
const S3: [&str; 2] = ["examplebucket.s3.amazonaws.com", "20130524/us-east-1/s3"];

/// A request on its way.
#[derive(Clone)]
struct Case {
    method: Method,
    authority: HeaderValue,
    target: PathAndQuery,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
    memory: Arc<crate::credential::memory::Memory>,
}

fn case(method: &str, authority: &str, target: &str, headers: &[(&'static str, &str)]) -> Case {
    let mut case = Case {
        method: method.parse().unwrap(),
        authority: authority.parse().unwrap(),
        target: target.parse().unwrap(),
        headers: HeaderMap::new(),
        body: Some(Vec::new()),
        memory: crate::credential::memory::Memory::of_sandbox(),
    };
    for (name, value) in headers {
        case.headers.insert(*name, value.parse().unwrap());
    }
    case
}

impl Case {
    fn signable(&mut self) -> Signable<'_> {
        Signable {
            method: &self.method,
            scheme: "https",
            authority: &self.authority,
            target: &mut self.target,
            headers: &mut self.headers,
            body: self.body.as_deref(),
            sent: None,
            changed: false,
            written: None,
            memory: &self.memory,
        }
    }

    /// Signs as a program does that holds `keys`.
    fn signed_with(mut self, keys: [&str; 2], word: &str, scope: &str, fields: &str) -> Self {
        let text = format!(
            "{word} Credential={}/{scope}/aws4_request, SignedHeaders={fields}, Signature=00",
            keys[0]
        );
        self.headers.insert("authorization", text.parse().unwrap());
        let signed = Signed::read(&self.target, &self.headers).unwrap();
        let treat = aws(keys, keys, signed.date.as_str());
        let key = treat.key(&treat.keys().unwrap(), &signed).unwrap();
        let signable = self.signable();
        let payload = treat.payload(&signed, &signable).unwrap();
        let covered = Covered {
            method: signable.method,
            host: signable.authority,
            path: signable.target.path(),
            headers: signable.headers,
        };
        let canonical = Canonical::new(&signed, covered, &payload);
        let signature = key.sign(&canonical.to_sign(&signed)).unwrap();
        let text = text.replace("Signature=00", &format!("Signature={signature}"));
        self.headers.insert("authorization", text.parse().unwrap());
        self
    }

    fn signature(&self) -> &str {
        let text = self.headers["authorization"].to_str().unwrap();
        text.rsplit_once("Signature=").unwrap().1
    }
}

fn aws(sentinels: [&str; 2], keys: [&str; 2], now: &str) -> Aws {
    let scope = Arc::new(AwsScope::default());
    let part = |value: &str| Part {
        variable: "AWS".into(),
        value: SecretBytes::from(value),
        shape: Shape::Plain,
    };
    let secret = Secret {
        name: "AWS".parse().unwrap(),
        version: 1,
        parts: keys.map(part).into(),
        treatment: Treatment::Aws(Arc::clone(&scope)),
        entrusted: false,
    };
    let sentinels = sentinels.map(Arc::from);
    let mut aws = Aws::new(&Arc::new(secret), &scope, &sentinels);
    let now = date::seconds(now).unwrap();
    let now = gig_vault::clock::after(
        Default::default(),
        std::time::Duration::from_secs(now.cast_unsigned()),
    );
    aws.clock = Arc::new(StoppedClock::at(now));
    aws
}

const V4: &str = "AWS4-HMAC-SHA256";

/// The program signs with sentinels; what leaves has AWS's own published signature.
fn resigned(case: Case, scope: &str, fields: &str, keys: [&str; 2]) -> Case {
    let mut case = case.signed_with(SENTINEL, V4, scope, fields);
    let date = case.headers["x-amz-date"].to_str().unwrap().to_owned();
    let after = aws(SENTINEL, keys, &date).treat(case.signable()).unwrap();
    assert!(after.is_none());
    let text = case.headers["authorization"].to_str().unwrap();
    assert!(text.contains(keys[0]) && !text.contains(SENTINEL[0]));
    case
}

#[test]
fn s3_examples_of_the_authorization_field() {
    let date = ("x-amz-date", "20130524T000000Z");
    let empty = ("x-amz-content-sha256", NOTHING);
    let usual = "host;x-amz-content-sha256;x-amz-date";
    let written = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
    let put = [
        date,
        ("x-amz-content-sha256", written),
        ("date", "Fri, 24 May 2013 00:00:00 GMT"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
    ];
    let put_fields = "date;host;x-amz-content-sha256;x-amz-date;x-amz-storage-class";
    for (case, fields, expected) in [
        (
            case(
                "GET",
                S3[0],
                "/test.txt",
                &[date, empty, ("range", "bytes=0-9")],
            ),
            "host;range;x-amz-content-sha256;x-amz-date",
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            case("PUT", S3[0], "/test%24file.text", &put),
            put_fields,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            case("PUT", S3[0], "/test$file.text", &put),
            put_fields,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            case("GET", S3[0], "/?lifecycle", &[date, empty]),
            usual,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            case("GET", S3[0], "/?prefix=J&max-keys=2", &[date, empty]),
            usual,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ] {
        assert_eq!(resigned(case, S3[1], fields, KEYS).signature(), expected);
    }
}

#[test]
fn the_example_of_the_signing_process() {
    let case = case(
        "GET",
        "iam.amazonaws.com",
        "/?Action=ListUsers&Version=2010-05-08",
        &[
            ("x-amz-date", "20150830T123600Z"),
            (
                "content-type",
                "application/x-www-form-urlencoded; charset=utf-8",
            ),
        ],
    );
    let keys = ["AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"];
    let fields = "content-type;host;x-amz-date";
    assert_eq!(
        resigned(case, "20150830/us-east-1/iam", fields, keys).signature(),
        "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
    );
}

fn presigned(id: &str, signature: &str) -> String {
    format!(
        "/test.txt?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential={id}%2F20130524%2Fus-east-1%2Fs3\
         %2Faws4_request&X-Amz-Date=20130524T000000Z&X-Amz-Expires=86400&X-Amz-SignedHeaders=host\
         &X-Amz-Signature={signature}"
    )
}

const PRESIGNED: &str = "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404";

#[test]
fn the_example_of_a_presigned_url() {
    // The program's own sentinels are the example's keys here, and the other way round.
    let mut theirs = case("GET", S3[0], &presigned(KEYS[0], PRESIGNED), &[]);
    aws(KEYS, SENTINEL, "20130524T230000Z")
        .treat(theirs.signable())
        .unwrap();
    assert!(!theirs.target.as_str().contains(PRESIGNED));
    aws(SENTINEL, KEYS, "20130524T230000Z")
        .treat(theirs.signable())
        .unwrap();
    assert_eq!(theirs.target.as_str(), presigned(KEYS[0], PRESIGNED));
}

#[test]
fn an_expired_presigned_url_is_refused() {
    let mut theirs = case("GET", S3[0], &presigned(KEYS[0], PRESIGNED), &[]);
    for late in ["20130525T000501Z", "20130523T235459Z"] {
        let error = aws(KEYS, SENTINEL, late)
            .treat(theirs.signable())
            .err()
            .unwrap();
        assert_eq!(error.reason, DenyReason::SecretUnplaceable, "{late}");
    }
}

const FIVE: &str = "content-encoding;content-length;host;x-amz-content-sha256;x-amz-date;\
    x-amz-decoded-content-length;x-amz-storage-class";

fn chunked(more: &[(&'static str, &str)]) -> Case {
    let mut headers = vec![
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-storage-class", "REDUCED_REDUNDANCY"),
        ("content-encoding", "aws-chunked"),
        ("x-amz-decoded-content-length", "66560"),
    ];
    headers.extend(more);
    let mut case = case(
        "PUT",
        "s3.amazonaws.com",
        "/examplebucket/chunkObject.txt",
        &headers,
    );
    case.body = None;
    case
}

/// A chunked body of the example's 66,560 letters whose chunks are signed from `seed` on.
fn body(keys: [&str; 2], seed: &str, trailer: Option<&str>) -> (Vec<u8>, Vec<String>) {
    let scope = ("20130524", "us-east-1", "s3");
    let key = Key::hmac(keys[1].as_bytes(), scope);
    let scope = "20130524T000000Z\n20130524/us-east-1/s3/aws4_request";
    let (mut text, mut last, mut all) = (Vec::new(), seed.to_owned(), Vec::new());
    for length in [65536, 1024, 0] {
        let data = vec![b'a'; length];
        let signed = format!(
            "{V4}-PAYLOAD\n{scope}\n{last}\n{NOTHING}\n{}",
            hex_digest(&data)
        );
        last = key.sign(&signed).unwrap();
        all.push(last.clone());
        text.extend(format!("{length:x};chunk-signature={last}\r\n").bytes());
        text.extend(data);
        if length > 0 || trailer.is_none() {
            text.extend(b"\r\n");
        }
    }
    if let Some(field) = trailer {
        let hash = hex_digest(format!("{field}\n").as_bytes());
        last = key
            .sign(&format!("{V4}-TRAILER\n{scope}\n{last}\n{hash}"))
            .unwrap();
        all.push(last.clone());
        text.extend(format!("{field}\r\nx-amz-trailer-signature:{last}\r\n\r\n").bytes());
    }
    (text, all)
}

fn passed(
    mut after: Box<dyn Rewrite>,
    body: &[u8],
    cut: usize,
) -> Result<Vec<u8>, crate::credential::rewrite::RewriteError> {
    let mut out = Vec::new();
    for piece in body.chunks(cut) {
        after.push(piece, &mut out)?;
    }
    after.finish(&mut out)?;
    Ok(out)
}

#[test]
fn the_example_of_signed_chunks() {
    let mode = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    let made = chunked(&[mode, ("content-length", "66824")]);
    let made = made.signed_with(SENTINEL, V4, S3[1], FIVE);
    let (theirs, _) = body(SENTINEL, made.signature(), None);
    for cut in [1, 7, 1000, 65_537, 1 << 20] {
        let mut case = made.clone();
        let after = aws(SENTINEL, KEYS, "20130524T000000Z").treat(case.signable());
        let after = after.unwrap().expect("chunks are signed too");
        assert!(after.keeps_length());
        assert_eq!(
            case.signature(),
            "4f232c4386841ef735655705268965c44a0e4690baa4adea153f7db9fa80a0a9"
        );
        let (ours, signatures) = body(KEYS, case.signature(), None);
        assert_eq!(
            signatures,
            [
                "ad80c730a21e5b8d04586a2213dd63b9a0e99e0e2307b0ade35a65485a288648",
                "0055627c9e194cb4542bae2aa5492e3c1575bbb81b612b7d234b86a503ef5497",
                "b6c6ea8a5354eaf15b3cb7646744f4275b71ea724fed81ceb9323e279d449df9",
            ]
        );
        assert!(passed(after, &theirs, cut).unwrap() == ours, "cut at {cut}");
        assert_eq!(case.memory.held(), 0);
    }
}

#[test]
fn a_chunk_that_is_held_counts_as_what_the_sandbox_holds() {
    let mode = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    let made = chunked(&[mode, ("content-length", "66824")]);
    let mut case = made.signed_with(SENTINEL, V4, S3[1], FIVE);
    let (theirs, _) = body(SENTINEL, case.signature(), None);
    let begun = |case: &mut Case| {
        let after = aws(SENTINEL, KEYS, "20130524T000000Z").treat(case.signable());
        after.unwrap().expect("chunks are signed too")
    };
    let mut after = begun(&mut case.clone());
    after.push(&theirs[..60_000], &mut Vec::new()).unwrap();
    // No more than the one chunk of 64 KiB that is not whole yet.
    assert!((60_000..70_000).contains(&case.memory.held()));
    drop(after);
    assert_eq!(case.memory.held(), 0);
    case.memory = crate::credential::memory::Memory::of(50_000);
    let mut after = begun(&mut case);
    let refused = after.push(&theirs[..60_000], &mut Vec::new());
    assert!(matches!(
        refused,
        Err(crate::credential::rewrite::RewriteError::NoMemory(_))
    ));
}

#[test]
fn the_example_of_signed_chunks_with_a_trailer() {
    let made = chunked(&[
        (
            "x-amz-content-sha256",
            "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        ),
        ("x-amz-trailer", "x-amz-checksum-crc32c"),
    ]);
    let fields = "content-encoding;host;x-amz-content-sha256;x-amz-date;\
        x-amz-decoded-content-length;x-amz-storage-class;x-amz-trailer";
    let mut made = made.signed_with(SENTINEL, V4, S3[1], fields);
    let checksum = Some("x-amz-checksum-crc32c:sOO8/Q==");
    let (theirs, _) = body(SENTINEL, made.signature(), checksum);
    let after = aws(SENTINEL, KEYS, "20130524T000000Z").treat(made.signable());
    let after = after.unwrap().expect("chunks are signed too");
    assert_eq!(
        made.signature(),
        "106e2a8a18243abcf37539882f36619c00e2dfc72633413f02d3b74544bfeb8e"
    );
    let (ours, signatures) = body(KEYS, made.signature(), checksum);
    assert_eq!(
        signatures[2..],
        [
            "2ca2aba2005185cf7159c6277faf83795951dd77a3a99e6e65d5c9f85863f992",
            "d81f82fc3505edab99d459891051a732e8730629a2e4a59689829ca17fe2e435",
        ]
    );
    assert!(passed(after, &theirs, 4096).unwrap() == ours);
}

#[test]
fn a_chunk_that_the_program_did_not_sign_is_refused() {
    let mode = ("x-amz-content-sha256", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD");
    let made = chunked(&[mode, ("content-length", "66824")]);
    let made = made.signed_with(SENTINEL, V4, S3[1], FIVE);
    let (theirs, _) = body(SENTINEL, made.signature(), None);
    for at in [20, 200, 70_000 - 4_000] {
        let mut case = made.clone();
        let after = aws(SENTINEL, KEYS, "20130524T000000Z").treat(case.signable());
        let mut bad = theirs.clone();
        bad[at] ^= 1;
        assert!(passed(after.unwrap().unwrap(), &bad, 4096).is_err(), "{at}");
    }
    let mut case = made.clone();
    let after = aws(SENTINEL, KEYS, "20130524T000000Z").treat(case.signable());
    let cut = &theirs[..theirs.len() - 1];
    assert!(passed(after.unwrap().unwrap(), cut, 4096).is_err());
}

fn get() -> Case {
    let headers = [
        ("x-amz-date", "20130524T000000Z"),
        ("x-amz-content-sha256", NOTHING),
    ];
    case("GET", S3[0], "/test.txt", &headers)
}

const USUAL: &str = "host;x-amz-content-sha256;x-amz-date";

#[test]
fn a_session_token_is_placed_and_covered() {
    let mut treat = aws(SENTINEL, KEYS, "20130524T000000Z");
    let mut parts: Vec<Part> = Vec::new();
    for value in [KEYS[0], KEYS[1], "real token"] {
        parts.push(Part {
            variable: "AWS".into(),
            value: value.into(),
            shape: Shape::Plain,
        });
    }
    treat.secret = Arc::new(Secret {
        name: "AWS".parse().unwrap(),
        version: 1,
        parts,
        treatment: Treatment::Replace,
        entrusted: false,
    });
    treat.sentinels.push("gigph-token".into());
    let mut with = get();
    with.headers
        .insert("x-amz-security-token", "gigph-token".parse().unwrap());
    let fields = "host;x-amz-content-sha256;x-amz-date;x-amz-security-token";
    let with = with.signed_with(SENTINEL, V4, S3[1], fields);
    let without = get().signed_with(SENTINEL, V4, S3[1], USUAL);
    for mut case in [with.clone(), without] {
        treat.treat(case.signable()).unwrap();
        assert_eq!(case.headers["x-amz-security-token"], "real token");
        let text = case.headers["authorization"].to_str().unwrap();
        assert!(text.contains(&format!("SignedHeaders={fields},")));
    }
    let mut other = with;
    other
        .headers
        .insert("x-amz-security-token", "another".parse().unwrap());
    let error = treat.treat(other.signable()).err().unwrap();
    assert_eq!(error.reason, DenyReason::SecretMisuse);
}

#[test]
fn version_4a_is_signed_again_with_the_keys_own_pair() {
    let word = "AWS4-ECDSA-P256-SHA256";
    let mut made = get();
    made.headers
        .insert("x-amz-region-set", "us-east-1,eu-west-1".parse().unwrap());
    let fields = "host;x-amz-content-sha256;x-amz-date;x-amz-region-set";
    let mut made = made.signed_with(SENTINEL, word, "20130524/s3", fields);
    let treat = aws(SENTINEL, KEYS, "20130524T000000Z");
    treat.treat(made.signable()).unwrap();
    // Who has the real keys takes it; the program's own pair does not.
    assert!(
        aws(KEYS, SENTINEL, "20130524T000000Z")
            .treat(made.clone().signable())
            .is_ok()
    );
    let error = treat.treat(made.signable()).err().unwrap();
    assert_eq!(error.reason, DenyReason::SecretMisuse);
}

#[test]
fn a_document_is_read_to_be_signed_and_an_upload_is_not() {
    let treat = aws(SENTINEL, KEYS, "20130524T000000Z");
    let wants = |case: &Case| treat.wants_body(&case.headers, &case.target);
    assert_eq!(wants(&get()), None);
    assert_eq!(
        wants(&case("PUT", S3[0], &presigned("AKIA", "00"), &[])),
        None
    );
    let sts = case(
        "POST",
        "sts.amazonaws.com",
        "/",
        &[("x-amz-date", "20130524T000000Z")],
    );
    assert_eq!(wants(&sts), Some(16 << 20));
}
