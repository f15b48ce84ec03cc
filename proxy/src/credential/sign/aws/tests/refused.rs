//! What is not signed again.

use super::*;

#[test]
fn what_the_sentinel_did_not_sign_is_misuse() {
    let made = get().signed_with(SENTINEL, V4, S3[1], USUAL);
    let treat = aws(SENTINEL, KEYS, "20130524T000000Z");
    let refused = |mut case: Case| treat.treat(case.signable()).err().unwrap().reason;
    let mut path = made.clone();
    path.target = "/other.txt".parse().unwrap();
    let mut method = made.clone();
    method.method = Method::DELETE;
    let mut host = made.clone();
    host.authority = "other.s3.amazonaws.com".parse().unwrap();
    let mut unsigned = made.clone();
    unsigned.headers.remove("authorization");
    let mut bearer = made.clone();
    bearer.headers.insert(
        "authorization",
        "Bearer AKIASENTINELSENTINEL".parse().unwrap(),
    );
    let id_alone = get().signed_with([SENTINEL[0], "guessed"], V4, S3[1], USUAL);
    for case in [path, method, host, unsigned, bearer, id_alone] {
        assert_eq!(refused(case), DenyReason::SecretMisuse);
    }
    assert!(treat.treat(made.clone().signable()).is_ok());
}

#[test]
fn a_clock_that_is_off_is_refused() {
    for (now, taken) in [
        ("20130524T000500Z", true),
        ("20130523T235500Z", true),
        ("20130524T000501Z", false),
        ("20130523T235459Z", false),
    ] {
        let mut case = get().signed_with(SENTINEL, V4, S3[1], USUAL);
        assert_eq!(
            aws(SENTINEL, KEYS, now).treat(case.signable()).is_ok(),
            taken,
            "{now}"
        );
    }
}

#[test]
fn a_key_signs_only_for_what_its_definition_lists() {
    let listed = |regions: &[&str], services: &[&str]| {
        let words = |list: &[&str]| list.iter().map(|&word| word.to_owned()).collect();
        let mut treat = aws(SENTINEL, KEYS, "20130524T000000Z");
        treat.scope = Arc::new(AwsScope {
            regions: words(regions),
            services: words(services),
            hands_out: false,
        });
        let mut case = get().signed_with(SENTINEL, V4, S3[1], USUAL);
        treat.treat(case.signable()).is_ok()
    };
    assert!(listed(&["eu-west-1", "us-east-1"], &["s3"]));
    assert!(!listed(&["eu-west-1"], &[]));
    assert!(!listed(&[], &["sts"]));
}

#[test]
fn event_streams_whose_messages_are_signed_are_refused_with_the_reason() {
    for payload in ["EVENTS", "EVENTS-TRAILER", "SOMETHING"] {
        for word in ["AWS4-HMAC-SHA256", "AWS4-ECDSA-P256-SHA256"] {
            let mut made = get();
            let said = format!("STREAMING-{word}-{payload}").parse().unwrap();
            made.headers.insert("x-amz-content-sha256", said);
            let mut made = made.signed_with(SENTINEL, V4, S3[1], USUAL);
            let refused = aws(SENTINEL, KEYS, "20130524T000000Z").treat(made.signable());
            let refused = refused.err().unwrap();
            assert_eq!(refused.reason, DenyReason::SecretUnplaceable);
            assert!(refused.why.contains("not known here"), "{}", refused.why);
        }
    }
}
