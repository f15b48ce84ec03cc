//! A value in a path is no other path.

use super::*;

#[tokio::test]
async fn a_value_moves_no_path() {
    for value in [
        "..",
        "../../admin-12345",
        r"x-1234567\..\y",
        "./a-value-of-it",
    ] {
        let world = World::new("api.test", value).await;
        let request = Request::get(format!("/a/{}/b", world.sentinel))
            .body(empty())
            .unwrap();
        let answer = world.send("api.test", request).await;
        assert_eq!(answer.json()["reason"], "secret_unplaceable", "{value}");
        let hint = answer.json()["hint"].to_string();
        let why = "the value of TOKEN cannot stand in the path: servers would read a dot segment";
        assert!(hint.contains(why), "{hint}");
        assert!(hint.contains("send it in a header field"), "{hint}");
        assert!(world.origin.seen.requests().is_empty(), "{value}");
    }
}
