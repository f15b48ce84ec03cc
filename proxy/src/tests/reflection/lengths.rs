//! How long an answer says that it is, and is.

use super::*;

/// The value is gone, and as many octets of its sentinel stand in its place.
#[track_caller]
fn assert_fitted(answer: &Answer, sentinel: &str) {
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(!body.contains(VALUE), "{body}");
    let cut = sentinel.get(..VALUE.len()).unwrap();
    assert!(
        body.starts_with(&format!("{{\"token\": \"{cut}\"")),
        "{body}"
    );
    assert_eq!(answer.header("content-length"), body.len().to_string());
    assert_eq!(answer.header("etag"), "W/\"tag\"");
    assert_eq!(answer.header("x-amz-checksum-crc32"), "");
}

#[tokio::test]
async fn what_is_not_text_keeps_its_length() {
    let (lab, sentinel, _origin) = lab("http/1.1").await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(ask("/binary", &sentinel, &[])).await;
    assert_fitted(&answer, &sentinel);
}

#[tokio::test]
async fn long_text_that_says_its_length_keeps_it() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        let answer = client.send(ask("/long", &sentinel, &[])).await;
        assert!(answer.body.len() > 64 * 1024);
        assert_fitted(&answer, &sentinel);
    }
}

#[tokio::test]
async fn an_answer_to_head_says_the_length_that_its_origin_says() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        for (path, length) in [("/plain", "349"), ("/long", "139600"), ("/binary", "349")] {
            let mut request = ask(path, &sentinel, &[]);
            *request.method_mut() = http::Method::HEAD;
            let answer = client.send(request).await;
            assert_eq!(answer.status, StatusCode::OK);
            assert_eq!(answer.header("content-length"), length, "{path} {alpn}");
            assert!(answer.body.is_empty());
        }
        // The next answer begins where this one ended.
        let answer = client.send(ask("/plain", &sentinel, &[])).await;
        assert_scrubbed(&answer, &sentinel);
    }
}
