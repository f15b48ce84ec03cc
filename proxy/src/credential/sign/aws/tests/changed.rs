//! Requests of which gig sends something else than the program wrote.

use super::*;
use crate::credential::treat::Sent;

/// Treats `made` as it is after `change`; gives what leaves.
fn sent_on(made: &Case, change: impl Fn(&mut Case)) -> Result<Case, Untreatable> {
    let mut case = made.clone();
    change(&mut case);
    let mut headers = made.headers.clone();
    headers.insert(HOST, made.authority.clone());
    let sent = Sent {
        target: made.target.clone(),
        headers,
    };
    let treat = aws(SENTINEL, KEYS, "20130524T000000Z");
    let mut signable = case.signable();
    signable.sent = Some(&sent);
    treat.treat(signable).map(|_| case)
}

/// Whether the service takes it: its own check of a request that it got as it is.
fn taken(case: &Case) -> bool {
    let mut case = case.clone();
    aws(KEYS, SENTINEL, "20130524T000000Z")
        .treat(case.signable())
        .is_ok()
}

#[test]
fn the_signature_covers_what_is_sent() {
    let mut made = get();
    for (name, value) in [("accept-encoding", "gzip, zz"), ("range", "bytes=0-9")] {
        made.headers.insert(name, value.parse().unwrap());
    }
    let fields = "accept-encoding;host;range;x-amz-content-sha256;x-amz-date";
    let made = made.signed_with(SENTINEL, V4, S3[1], fields);
    let narrowed = sent_on(&made, |case| {
        case.headers
            .insert("accept-encoding", "gzip".parse().unwrap());
    });
    assert!(taken(&narrowed.unwrap()));
    let left_out = sent_on(&made, |case| drop(case.headers.remove("range"))).unwrap();
    assert!(taken(&left_out));
    let text = left_out.headers["authorization"].to_str().unwrap();
    assert!(text.contains("SignedHeaders=accept-encoding;host;x-amz-content-sha256;x-amz-date,"));
    // The host as the program wrote it is what it signed.
    let mut upper = made.clone();
    upper.authority = "ExampleBucket.s3.amazonaws.com".parse().unwrap();
    let upper = upper.signed_with(SENTINEL, V4, S3[1], fields);
    let lower = sent_on(&upper, |case| case.authority = S3[0].parse().unwrap());
    assert!(taken(&lower.unwrap()));
}

#[test]
fn another_object_than_the_program_meant_is_not_signed_for() {
    let mut made = get();
    made.target = "/a/../%74est.txt".parse().unwrap();
    let made = made.signed_with(SENTINEL, V4, S3[1], USUAL);
    let resolved = sent_on(&made, |case| case.target = "/test.txt".parse().unwrap());
    assert_eq!(
        resolved.err().unwrap().reason,
        DenyReason::SecretUnplaceable
    );
    let spelled = sent_on(&made, |case| {
        case.target = "/a/../test.txt".parse().unwrap()
    });
    assert!(taken(&spelled.unwrap()));
}

#[test]
fn a_value_in_a_hashed_body_is_hashed_anew_or_refused() {
    let treat = || aws(SENTINEL, KEYS, "20130524T000000Z");
    let said = hex_digest(b"token=gigph-0");
    let made = |payload: &str| {
        let mut made = get();
        made.method = Method::PUT;
        made.body = Some(b"token=gigph-0".to_vec());
        let digest = payload.parse().unwrap();
        made.headers.insert("x-amz-content-sha256", digest);
        made.headers
            .insert("x-amz-checksum-crc32", "AAAAAA==".parse().unwrap());
        let fields = "host;x-amz-checksum-crc32;x-amz-content-sha256;x-amz-date";
        let mut made = made.signed_with(SENTINEL, V4, S3[1], fields);
        made.body = Some(b"token=the real one".to_vec());
        made
    };
    let mut hashed = made(&said);
    let mut signable = hashed.signable();
    signable.changed = true;
    assert!(treat().treat(signable).is_ok());
    let digest = hex_digest(b"token=the real one");
    assert_eq!(hashed.headers["x-amz-content-sha256"], *digest);
    assert!(taken(&hashed));
    // Where the body is not at hand, or in chunks, it cannot come out right.
    let mut gone = made(&said);
    gone.body = None;
    for mut case in [gone, made("STREAMING-AWS4-HMAC-SHA256-PAYLOAD")] {
        let mut signable = case.signable();
        signable.changed = true;
        let refused = treat().treat(signable).err().unwrap();
        assert_eq!(refused.reason, DenyReason::SecretUnplaceable);
    }
    assert_eq!(treat().covers_body(&hashed.headers), Some(LONGEST_BODY));
}

#[test]
fn a_value_in_a_body_whose_hash_is_unsaid_is_signed_over_what_is_sent() {
    let treat = || aws(SENTINEL, KEYS, "20130524T000000Z");
    let queue = "20130524/us-east-1/sqs";
    let mut made = get();
    made.method = Method::POST;
    made.headers.remove("x-amz-content-sha256");
    made.body = Some(br#"{"MessageBody":"gigph-0"}"#.to_vec());
    let written = hex_digest(made.body.as_deref().unwrap());
    let mut made = made.signed_with(SENTINEL, V4, queue, "host;x-amz-date");
    made.body = Some(br#"{"MessageBody":"the real one"}"#.to_vec());
    let mut sent = made.clone();
    let mut signable = sent.signable();
    (signable.changed, signable.written) = (true, Some(written.as_str()));
    assert!(treat().treat(signable).is_ok());
    assert!(!sent.headers.contains_key("x-amz-content-sha256"));
    assert!(taken(&sent));
    // Another body than the program signed is none of a program that holds the sentinels.
    let mut forged = made.clone();
    let other = hex_digest(b"other");
    let mut signable = forged.signable();
    (signable.changed, signable.written) = (true, Some(other.as_str()));
    let refused = treat().treat(signable).err().unwrap();
    assert_eq!(refused.reason, DenyReason::SecretMisuse);
    // What the program wrote was not seen.
    let mut unseen = made;
    let mut signable = unseen.signable();
    signable.changed = true;
    let refused = treat().treat(signable).err().unwrap();
    assert_eq!(refused.reason, DenyReason::SecretUnplaceable);
    assert!(refused.why.contains("is not known"), "{refused}");
}

#[test]
fn a_value_in_path_query_or_field_is_signed_as_it_is_sent() {
    let mut made = get();
    made.target = "/dir/gigph-0.txt".parse().unwrap();
    let made = made.signed_with(SENTINEL, V4, S3[1], USUAL);
    let placed = sent_on(&made, |case| {
        case.target = "/dir/the%20real%2Fone.txt".parse().unwrap();
    });
    assert!(taken(&placed.unwrap()));
    let mut made = get();
    made.target = "/?prefix=gigph-0".parse().unwrap();
    made.headers
        .insert("x-amz-meta-of", "gigph-0".parse().unwrap());
    let fields = "host;x-amz-content-sha256;x-amz-date;x-amz-meta-of";
    let made = made.signed_with(SENTINEL, V4, S3[1], fields);
    let placed = sent_on(&made, |case| {
        case.target = "/?prefix=the%20real%2Fone".parse().unwrap();
        let value = "the real one".parse().unwrap();
        case.headers.insert("x-amz-meta-of", value);
    });
    assert!(taken(&placed.unwrap()));
    // A path that is another one by itself is refused in the words of that.
    let mut made = get();
    made.target = "/a/../gigph-0.txt".parse().unwrap();
    let made = made.signed_with(SENTINEL, V4, S3[1], USUAL);
    let resolved = sent_on(&made, |case| {
        case.target = "/the-real-one.txt".parse().unwrap()
    });
    let refused = resolved.err().unwrap();
    assert!(refused.why.contains("dot segments"), "{refused}");
}
