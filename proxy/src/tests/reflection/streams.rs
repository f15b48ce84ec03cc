//! Streams that are never whole: an event arrives before the next one is sent.

use http_body_util::channel::Channel;
use parking_lot::Mutex;

use super::*;

#[tokio::test]
async fn an_event_arrives_before_the_next_is_sent_coded_or_not() {
    for (alpn, coded) in [("h2", false), ("http/1.1", false), ("h2", true)] {
        let (mut events, body) = Channel::<Bytes, std::io::Error>::new(1);
        let body = Arc::new(Mutex::new(Some(body)));
        let origin = Origin::https("api.test", &[alpn], move |_| {
            let body = body.lock().take().unwrap();
            let mut answer = Response::builder().header("content-type", "text/event-stream");
            if coded {
                answer = answer.header("content-encoding", "gzip");
            }
            std::future::ready(answer.body(BodyExt::boxed(body)).unwrap())
        })
        .await;
        let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
        let mut client = lab.https("api.test", alpn).await;
        let asked = ask("/events", &sentinel, &[("accept-encoding", "gzip")]);
        let mut answer = client.start(asked).await.unwrap().into_body();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        // Each ends with what may be the beginning of a value.
        let mut sent = 0;
        for (event, expected) in [
            ("data: one re\n\n".to_owned(), "data: one re\n\n".to_owned()),
            (
                format!("data: {VALUE}\n\n"),
                format!("data: {sentinel}\n\n"),
            ),
            (
                "data: real+Val\n\n".to_owned(),
                "data: real+Val\n\n".to_owned(),
            ),
        ] {
            let octets = if coded {
                gzip.write_all(event.as_bytes()).unwrap();
                gzip.flush().unwrap();
                let octets = gzip.get_ref().get(sent..).unwrap().to_vec();
                sent = gzip.get_ref().len();
                octets
            } else {
                event.into_bytes()
            };
            events.send_data(octets.into()).await.unwrap();
            let mut got = Vec::new();
            while got.len() < expected.len() {
                let frame = answer.frame().await.unwrap().unwrap();
                got.extend_from_slice(frame.data_ref().unwrap());
            }
            assert_eq!(String::from_utf8(got).unwrap(), expected, "{alpn} {coded}");
        }
    }
}

#[tokio::test]
async fn a_value_in_pieces_is_found_in_a_stream() {
    let (mut pieces, body) = Channel::<Bytes, std::io::Error>::new(1);
    let body = Arc::new(Mutex::new(Some(body)));
    let origin = Origin::https("api.test", &["h2"], move |_| {
        let body = body.lock().take().unwrap();
        let answer = Response::builder().header("content-type", "text/plain");
        std::future::ready(answer.body(BodyExt::boxed(body)).unwrap())
    })
    .await;
    let (lab, sentinel) = with_secret(Arrangement::new(POLICY).origin("api.test:443", &origin));
    let mut client = lab.https("api.test", "h2").await;
    let asked = ask("/pieces", &sentinel, &[]);
    let answer = client.start(asked).await.unwrap().into_body();
    let sending = async {
        for octet in format!("before {VALUE} after").into_bytes() {
            pieces.send_data(vec![octet].into()).await.unwrap();
        }
        drop(pieces);
    };
    let (answer, ()) = tokio::join!(answer.collect(), sending);
    let text = String::from_utf8(answer.unwrap().to_bytes().to_vec()).unwrap();
    assert_eq!(text, format!("before {sentinel} after"));
}
