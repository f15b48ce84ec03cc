//! What is signed as S3 was before Version 4.

use super::*;

#[test]
fn what_is_signed_by_version_2_says_so_and_is_no_alarm() {
    let presigned = format!(
        "/b/k?AWSAccessKeyId={}&Signature=vjbyPxybdZaNmGa%2ByT272YEAiv4%3D&Expires=1400000000",
        SENTINEL[0]
    );
    let field = format!("AWS {}:frJIUN8DYpKDtOLCwo//yllqDzg=", SENTINEL[0]);
    let now = "20130524T000000Z";
    for mut theirs in [
        case("GET", S3[0], &presigned, &[]),
        case("GET", S3[0], "/b/k", &[("authorization", &field)]),
    ] {
        let error = aws(KEYS, SENTINEL, now).treat(theirs.signable());
        let error = error.err().unwrap();
        assert_eq!(error.reason, DenyReason::SecretUnplaceable, "{error}");
        assert!(error.why.contains("signature_version='s3v4'"), "{error}");
    }
    // Another place of the sentinel is what it was.
    let target = format!("/b/k?AWSAccessKeyId={}", SENTINEL[0]);
    let mut theirs = case("GET", S3[0], &target, &[]);
    let error = aws(KEYS, SENTINEL, now).treat(theirs.signable());
    assert_eq!(error.err().unwrap().reason, DenyReason::SecretMisuse);
}
