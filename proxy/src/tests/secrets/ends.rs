//! A value ends nothing that it stands in: no header field, no cookie.

use http::StatusCode;

use super::{World, with};

#[tokio::test]
async fn a_value_with_a_quote_ends_no_quoted_cookie() {
    for (cookie, goes) in [("sid=\"<>\"", false), ("sid=<>; b=\"c\"", true)] {
        let world = World::new("api.test", "ab\"cd-ef-12345").await;
        let cookie = cookie.replace("<>", &world.sentinel);
        let answer = world.send("api.test", with("cookie", &cookie)).await;
        let refused = answer.status == StatusCode::BAD_GATEWAY
            && answer.json()["reason"] == "secret_unplaceable";
        assert_eq!(refused, !goes, "{cookie}: {answer:?}");
        assert_eq!(world.origin.seen.requests().len(), usize::from(goes));
    }
}

#[tokio::test]
async fn a_value_with_a_line_break_splits_no_header() {
    for value in ["one\r\nx-evil: 1", "one\ntwo", "nul\0nul"] {
        let world = World::new("api.test", value).await;
        let answer = world.send("api.test", with("x-key", &world.sentinel)).await;
        assert_eq!(answer.status, StatusCode::BAD_GATEWAY);
        assert_eq!(answer.json()["reason"], "secret_unplaceable");
        assert!(world.origin.seen.requests().is_empty());
    }
    let world = World::new("api.test", "a; evil=1").await;
    let cookie = format!("sid={}", world.sentinel);
    let answer = world.send("api.test", with("cookie", &cookie)).await;
    assert_eq!(answer.json()["reason"], "secret_unplaceable");
}
