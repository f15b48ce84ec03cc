//! ID tokens, which a program may want to verify itself.

use super::{ACCESS, IDENTITY, World, post};

#[tokio::test]
async fn an_id_token_is_shown_where_the_policy_says_so_and_nothing_else_is() {
    for (path, shown) in [("/token/identity", false), ("/shown/identity", true)] {
        let world = World::new("http/1.1").await;
        let request = post(path, "grant_type=password");
        let answer = world.send("auth.test", "http/1.1", request).await;
        let json = answer.json();
        let token = |name: &str| json[name].as_str().unwrap().to_owned();
        assert_eq!(token("id_token") == IDENTITY, shown, "{path}: {json}");
        assert!(
            token("access_token").starts_with("gigph-"),
            "{path}: {json}"
        );
        let records = format!("{:?}", world.lab.log.records());
        assert_eq!(records.contains("id_token shown to the program"), shown);
        assert!(!records.contains(IDENTITY), "{records}");
    }
    let world = World::new("http/1.1").await;
    let request = post("/shown/same", "grant_type=password");
    let answer = world.send("auth.test", "http/1.1", request).await;
    let text = String::from_utf8(answer.body.to_vec()).unwrap();
    assert!(!text.contains(ACCESS), "{text}");
}
