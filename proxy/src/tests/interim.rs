//! `Expect: 100-continue` and other interim responses, end to end.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::lab::{
    ALLOW_API, Arrangement, Way,
    client::{raw, read_head},
    origin::Origin,
};

#[tokio::test]
async fn the_origin_says_continue_before_the_program_is_told_to() {
    let origin = Origin::raw(|mut stream, _| async move {
        let head = read_head(&mut stream).await;
        assert!(head.contains("expect: 100-continue"), "{head}");
        // Nothing of the body may come before leave is given.
        let early = tokio::time::timeout(Duration::from_millis(300), stream.read_u8()).await;
        assert!(early.is_err());
        stream
            .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")
            .await
            .unwrap();
        let mut body = [0; 4];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"body");
        stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
            .await
            .unwrap();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    stream
        .write_all(
            b"PUT / HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\r\n",
        )
        .await
        .unwrap();
    assert_eq!(
        read_head(&mut stream).await,
        "HTTP/1.1 100 Continue\r\n\r\n"
    );
    stream.write_all(b"body").await.unwrap();
    assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn an_origin_that_refuses_to_continue_gets_no_body() {
    let origin = Origin::raw(|mut stream, seen| async move {
        let _head = read_head(&mut stream).await;
        stream
            .write_all(b"HTTP/1.1 417 Expectation Failed\r\ncontent-length: 0\r\n\r\n")
            .await
            .unwrap();
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.ok();
        seen.octets.lock().extend(rest);
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let stream = lab.connect(Way::to("api.test", 80)).await;
    let answer = raw(
        stream,
        b"PUT / HTTP/1.1\r\nHost: api.test\r\nExpect: 100-continue\r\nContent-Length: 4\r\n\
          Connection: close\r\n\r\n",
    )
    .await
    .unwrap();
    assert!(answer.starts_with("HTTP/1.1 417"), "{answer}");
    assert!(!answer.contains("100 Continue"), "{answer}");
    assert_eq!(origin.seen.text(), "");
}

#[tokio::test]
async fn early_hints_pass_before_the_answer_and_only_there() {
    let origin = Origin::raw(|mut stream, _| async move {
        for pause in [100, 0] {
            read_head(&mut stream).await;
            stream
                .write_all(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n")
                .await
                .unwrap();
            tokio::time::sleep(Duration::from_millis(pause)).await;
            stream
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
                .await
                .unwrap();
        }
        stream.read_u8().await.ok();
    })
    .await;
    let lab = Arrangement::new(ALLOW_API)
        .origin("api.test:80", &origin)
        .lab();
    let mut stream = lab.connect(Way::to("api.test", 80)).await;
    for _ in 0..2 {
        stream
            .write_all(b"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(
            read_head(&mut stream).await,
            "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload\r\n\r\n"
        );
        assert!(read_head(&mut stream).await.starts_with("HTTP/1.1 200"));
        let mut body = [0; 2];
        stream.read_exact(&mut body).await.unwrap();
        assert_eq!(&body, b"ok");
    }
}
