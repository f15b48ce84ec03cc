//! A token endpoint that repeats a digest of a request with a token in it.

use super::*;

/// The token endpoint, which repeats what it was told that the request hashes to.
pub(super) async fn mint(request: Request<Incoming>) -> Response<Body> {
    if request.uri().path() != "/token/summed" {
        return super::mint(request).await;
    }
    let sum = request.headers()["content-md5"].clone();
    let repeated = format!("{{\"access_token\": \"{ACCESS}\", \"was\": {sum:?}}}");
    Response::builder()
        .header("content-type", "application/json")
        .header("x-was", sum)
        .body(full(repeated))
        .unwrap()
}

#[tokio::test]
async fn what_a_token_endpoint_repeats_shows_no_sum_that_was_made_of_a_token() {
    let world = World::new("http/1.1").await;
    let (_, refresh) = world.log_in().await;
    let mut request = post("/token/summed", &format!("refresh_token={refresh}"));
    let said = "CQkJCQkJCQkJCQkJCQkJCQ==";
    let fields = request.headers_mut();
    fields.insert("content-md5", said.parse().unwrap());
    let answer = world.send("auth.test", "http/1.1", request).await;
    let made = world.auth.seen.requests().pop().unwrap();
    let made = made.header("content-md5");
    assert!(made.len() == said.len() && made != said, "{made}");
    assert_eq!(answer.header("x-was"), said);
    assert_eq!(answer.json()["was"], said);
}
