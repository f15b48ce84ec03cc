//! Interim responses and `Expect: 100-continue` between HTTP/1.1 and HTTP/2, in all four pairings.

use gig_audit::Event;
use gig_policy::DenyReason;

use super::lab::{
    ALLOW_API, Arrangement, Lab,
    keeper::Keeper,
    origin::Origin,
    pairs::{Ask, Play, origin},
};

const PAIRS: [(&str, &str); 4] = [
    ("http/1.1", "http/1.1"),
    ("http/1.1", "h2"),
    ("h2", "http/1.1"),
    ("h2", "h2"),
];

fn lab(origin: &Origin) -> Lab {
    let arrangement = Arrangement::new(ALLOW_API);
    arrangement.origin("api.test:443", origin).lab()
}

/// An upload that waits for leave gets it, in all four pairings, and arrives whole.
async fn an_upload_is_let_go_on(play: impl Fn() -> Play) {
    for (program, speaks) in PAIRS {
        let origin = origin(speaks, play()).await;
        let lab = lab(&origin);
        let body = Some("the body");
        let heard = lab
            .ask(
                program,
                Ask {
                    body,
                    ..Ask::default()
                },
            )
            .await;
        assert_eq!(heard.statuses(), [100], "{program} {speaks}");
        assert_eq!((heard.status, heard.body.as_str()), (200, "the body"));
    }
}

#[tokio::test]
async fn hints_pass_before_the_answer_in_all_four_pairings() {
    let hints = vec![
        (103, "link", "</a.css>; rel=preload".to_owned()),
        (102, "alt-svc", "h3=\":443\"".to_owned()),
        (103, "link", "</b.css>; rel=preload".to_owned()),
        (102, "content-length", "0".to_owned()),
    ];
    for (program, speaks) in PAIRS {
        let origin = origin(speaks, Play::Hints(hints.clone())).await;
        let lab = lab(&origin);
        let heard = lab.ask(program, Ask::default()).await;
        assert_eq!(heard.status, 200, "{program} {speaks}");
        assert_eq!(heard.statuses(), [103, 102, 103, 102], "{program} {speaks}");
        assert_eq!(heard.interim[0].1["link"], "</a.css>; rel=preload");
        assert_eq!(heard.interim[2].1["link"], "</b.css>; rel=preload");
        // What may not cross the proxy in an answer may not in an interim one.
        for hint in [1, 3] {
            assert!(heard.interim[hint].1.is_empty(), "{program} {speaks}");
        }
    }
}

#[tokio::test]
async fn an_upload_waits_for_leave_in_all_four_pairings() {
    an_upload_is_let_go_on(|| Play::Leave).await;
}

#[tokio::test]
async fn an_origin_that_refuses_to_wait_gets_no_body_in_all_four_pairings() {
    for (program, speaks) in PAIRS {
        for status in [417, 413] {
            let origin = origin(speaks, Play::Refuse(status)).await;
            let lab = lab(&origin);
            let body = Some("the body");
            let heard = lab
                .ask(
                    program,
                    Ask {
                        body,
                        ..Ask::default()
                    },
                )
                .await;
            assert_eq!(heard.status, status, "{program} {speaks}");
            assert_eq!(heard.statuses(), [0_u16; 0], "{program} {speaks}");
            let record = lab.until_records(Event::Response, 1).await.remove(0);
            assert_eq!(record.entry.bytes_out, Some(0), "{record:#?}");
            assert_eq!(origin.seen.text(), "", "{program} {speaks}");
        }
    }
}

#[tokio::test]
async fn a_program_is_told_to_go_on_where_the_origin_never_says_so() {
    an_upload_is_let_go_on(|| Play::Silence).await;
}

#[tokio::test]
async fn an_origin_that_sends_interim_responses_for_ever_is_given_up() {
    for (program, speaks) in PAIRS {
        let origin = origin(speaks, Play::Flood).await;
        let lab = lab(&origin);
        let heard = lab.ask(program, Ask::default()).await;
        assert_eq!(heard.status, 502, "{program} {speaks}");
        assert!(heard.body.contains("origin_protocol"), "{}", heard.body);
        // 128 KiB, with what each field costs (RFC 9113 §6.5.2).
        let passed = heard.interim.len();
        assert!(
            passed > 100 && passed < 4096,
            "{program} {speaks}: {passed}"
        );
        let record = lab.until_records(Event::Response, 1).await.remove(0);
        assert_eq!(record.entry.reason, Some(DenyReason::OriginProtocol));
    }
}

#[tokio::test]
async fn switching_protocols_means_nothing_over_http2() {
    for program in ["http/1.1", "h2"] {
        let hint = vec![(101, "x-one", "1".to_owned())];
        let origin = origin("h2", Play::Hints(hint)).await;
        let lab = lab(&origin);
        let heard = lab.ask(program, Ask::default()).await;
        assert_eq!((heard.status, heard.statuses()), (502, vec![]), "{program}");
        assert!(heard.body.contains("origin_protocol"), "{}", heard.body);
    }
}

const SECRETS: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [443], allow_private: [127.0.0.0/8], secrets: [TOKEN]}
";

#[tokio::test]
async fn hints_lose_values_in_all_four_pairings_and_the_record_says_so() {
    const VALUE: &str = "real-value-of-the-token-0123456789";
    for (program, speaks) in PAIRS {
        let hint = vec![(103, "link", format!("</{VALUE}>; rel=preload"))];
        let origin = origin(speaks, Play::Hints(hint)).await;
        let keeper = Keeper::with(&[("TOKEN", VALUE)]);
        let arrangement = Arrangement::new(SECRETS).origin("api.test:443", &origin);
        let lab = arrangement.keeper(&keeper).lab();
        let heard = lab.ask(program, Ask::default()).await;
        let link = heard.interim[0].1["link"].to_str().unwrap().to_owned();
        assert_eq!(heard.status, 200, "{program} {speaks}");
        assert!(!link.contains(VALUE), "{program} {speaks}: {link}");
        assert!(link.ends_with(">; rel=preload"), "{link}");
        let record = lab.until_records(Event::Response, 1).await.remove(0);
        let findings = format!("{:?}", record.entry.findings);
        assert!(findings.contains("value of TOKEN came back"), "{record:#?}");
    }
}
