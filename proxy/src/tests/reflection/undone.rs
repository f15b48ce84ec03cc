//! What cannot be decoded to be looked into: told in words as long as the head has not gone, cut when it has.

use super::*;

/// A body that is not what its coding says, and the coding.
pub(super) fn body(path: &str, json: &str) -> (String, Vec<u8>) {
    match path.strip_prefix("/broken/") {
        Some(coding) => {
            let plain = "this is in no such coding, however long it is looked at";
            (coding.to_owned(), plain.into())
        }
        None => {
            let (times, left) = match path {
                "/cut" => (1, 2),
                "/late" => (9000, 1),
                _ => panic!("{path}"),
            };
            let whole = gzip(json.repeat(times).as_bytes());
            (
                "gzip".to_owned(),
                whole[..(whole.len() - 9) / left].to_vec(),
            )
        }
    }
}

#[tokio::test]
async fn an_answer_whose_coding_cannot_be_undone_is_told_in_words_and_recorded() {
    let broken = ["gzip", "br", "zstd", "deflate"].map(|coding| format!("/broken/{coding}"));
    let paths = broken.iter().map(String::as_str).chain(["/cut"]);
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        for (number, path) in paths.clone().enumerate() {
            let mut client = lab.https("api.test", alpn).await;
            // Asked for or not.
            for accepts in ["gzip, br, zstd, deflate", "identity"] {
                let asked = ask(path, &sentinel, &[("accept-encoding", accepts)]);
                let answer = client.send(asked).await;
                assert_eq!(answer.status, StatusCode::BAD_GATEWAY, "{path} {answer:?}");
                assert_eq!(answer.json()["reason"], "origin_protocol", "{path}");
                let hint = answer.json()["hint"].to_string();
                assert!(hint.contains("content coding"), "{hint}");
            }
            let records = lab.until_records(Event::Response, 2 * number + 2).await;
            let entry = &records.last().unwrap().entry;
            assert_eq!(entry.status, Some(502), "{path}");
            let findings = format!("{:?}", entry.findings);
            let why = "the answer was refused: the body is not what its content coding says";
            assert!(findings.contains(why), "{path}: {findings}");
        }
    }
}

#[tokio::test]
async fn what_breaks_behind_the_head_is_cut_and_recorded() {
    for alpn in ["http/1.1", "h2"] {
        let (lab, sentinel, _origin) = lab(alpn).await;
        let mut client = lab.https("api.test", alpn).await;
        let asked = ask("/late", &sentinel, &[("accept-encoding", "gzip")]);
        let started = client.start(asked).await.unwrap();
        assert_eq!(started.status(), StatusCode::OK);
        assert!(started.into_body().collect().await.is_err());
        let records = lab.until_records(Event::Response, 1).await;
        let findings = format!("{:?}", records[0].entry.findings);
        assert!(findings.contains("the answer was refused"), "{findings}");
    }
}
