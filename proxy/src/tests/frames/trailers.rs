//! What stands in trailers and belongs nowhere there, either way.

use http::{Request, Response};
use http_body_util::BodyExt;

use super::{answering, head, post, sent};
use crate::tests::lab::{
    ALLOW_API, Arrangement,
    client::empty,
    h2::{DATA, END_HEADERS, END_STREAM, HEADERS, field, frame},
};

#[tokio::test]
async fn pseudo_fields_of_trailers_go_nowhere() {
    let pseudo = field(b":path", b"/other");
    for more in [pseudo, Vec::new()] {
        let trailers = [
            more.clone(),
            field(b"x-http-method-override", b"other"),
            field(b"x-end", b"1"),
        ]
        .concat();
        let octets = [
            post(0, &[("trailer", "x-end")]),
            frame(DATA, 0, 1, b"half"),
            frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers),
        ];
        let (_lab, whole) = sent(octets.concat()).await;
        for (body, trailers) in &whole {
            assert!(body == "half" && !trailers.contains("other"), "{trailers}");
        }
        // Without the pseudo field the rest of them is there.
        let named = whole.iter().any(|(_, trailers)| trailers.contains("x-end"));
        assert!(named || !more.is_empty(), "{whole:?}");
    }
}

#[tokio::test]
async fn overrides_in_trailers_reach_no_origin() {
    let trailers = [
        field(b"x-http-method-override", b"other"),
        field(b"x.original_url", b"/other"),
        field(b"authorization", b"other"),
        field(b"x-forwarded-for", b"other"),
        field(b"x-end", b"1"),
    ];
    let octets = [
        post(
            0,
            &[("trailer", "x-end, x-http-method-override, x.original_url")],
        ),
        frame(DATA, 0, 1, b"half"),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, &trailers.concat()),
    ];
    let (_lab, whole) = sent(octets.concat()).await;
    assert!(!whole.is_empty());
    for (body, trailers) in whole {
        assert_eq!(body, "half");
        assert!(
            trailers.contains("x-end") && !trailers.contains("other"),
            "{trailers}"
        );
    }
}

#[tokio::test]
async fn pseudo_fields_of_an_answers_trailers_go_nowhere() {
    let end = field(b"x-end", b"last");
    let pseudo = [field(b":status", b"299"), field(b":path", b"/other")].concat();
    for (alpn, pseudo) in [
        ("h2", &pseudo[..]),
        ("http/1.1", &pseudo),
        ("h2", b""),
        ("http/1.1", b""),
    ] {
        let octets = [
            head(END_HEADERS, &[(":status", "200"), ("trailer", "x-end")]),
            frame(DATA, 0, 1, b"half"),
            frame(
                HEADERS,
                END_HEADERS | END_STREAM,
                1,
                &[pseudo, &end].concat(),
            ),
        ];
        let origin = answering(octets.concat()).await;
        let lab = Arrangement::new(ALLOW_API)
            .origin("api.test:443", &origin)
            .lab();
        let mut client = lab.https("api.test", alpn).await;
        let request = Request::get("https://api.test/")
            .header("host", "api.test")
            .header("te", "trailers");
        let answer = client.start(request.body(empty()).unwrap()).await.ok();
        let status = answer.as_ref().map(Response::status);
        let whole = match answer {
            Some(answer) => answer.into_body().collect().await.ok(),
            None => None,
        };
        let trailers = whole.map(|whole| whole.trailers().cloned().unwrap_or_default());
        let named = trailers.map(|trailers| {
            let names = trailers.keys().map(ToString::to_string);
            names.collect::<Vec<_>>()
        });
        // Refused as a whole, or passed without them; the right ones pass.
        assert_ne!(status.map(|status| status.as_u16()), Some(299), "{alpn}");
        let right = named.as_deref() == Some(&["x-end".to_owned()]);
        let refused = named.as_deref().is_none_or(<[String]>::is_empty);
        assert!(
            right || refused && !pseudo.is_empty(),
            "{alpn} {pseudo:?}: {named:?}"
        );
    }
}
