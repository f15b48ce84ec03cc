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
