//! What a key is, and whom it belongs to.

use std::sync::atomic::{AtomicUsize, Ordering};

use axum::{Router, middleware, routing::post};
use tokio::sync::Semaphore;
use tower::ServiceExt as _;

use super::*;
use crate::{
    app::tests::Lab,
    places::Places,
    role::Role,
    store::{Change, tests::once::is_made},
};

#[test]
fn a_key_is_a_text_in_quotation_marks_and_nothing_else() {
    assert_eq!(string("\"a\"").as_deref(), Some("a"));
    assert_eq!(string(" \"a b ~!\" ").as_deref(), Some("a b ~!"));
    assert_eq!(string(r#""a\"b\\c""#).as_deref(), Some(r#"a"b\c"#));
    let longest = format!("\"{}\"", "x".repeat(LONGEST_KEY));
    assert!(string(&longest).is_some());
    for wrong in [
        "",
        "\"",
        "\"\"",
        "a",
        "'a'",
        "\"a",
        "a\"",
        "\"a\"b\"",
        "\"a\\\"",
        "\"a\\n\"",
        "\"a\";b=1",
        "\"a\", \"b\"",
        "\"\u{e4}\"",
        "\"\t\"",
        &format!("\"{}\"", "x".repeat(LONGEST_KEY + 1)),
    ] {
        assert_eq!(string(wrong), None, "{wrong}");
    }
}

#[test]
fn what_changes_nothing_is_asked_as_often_as_anybody_likes() {
    for (method, path, kept) in [
        (Method::POST, "/api/v1/users", true),
        (Method::PUT, "/api/v1/policies/p", true),
        (Method::PATCH, "/api/v1/users/ana", true),
        (Method::DELETE, "/api/v1/tokens/1", true),
        (Method::GET, "/api/v1/users", false),
        (Method::POST, "/api/v1/policies/check", false),
        (Method::POST, "/api/v1/policies/p/simulate", false),
        (Method::POST, "/api/v1/teams/t/simulate", false),
        (Method::POST, "/people/users", false),
    ] {
        assert_eq!(may_be_kept(&method, path), kept, "{method} {path}");
    }
    for (path, is_more) in [
        ("/api/v1/servers/one/start", true),
        ("/api/v1/secrets/TOKEN", true),
        ("/api/v1/webhooks/ops/test", true),
        ("/api/v1/webhooks/ops", false),
        ("/api/v1/policies/p", false),
    ] {
        assert_eq!(acts(path), is_more, "{path}");
    }
}

/// A handler that adds a user, and one whose outcome is given.
fn router(lab: &Lab, runs: &'static AtomicUsize) -> Router {
    let add = move |State(app): State<Arc<App>>, caller: Caller, name: String| async move {
        runs.fetch_add(1, Ordering::SeqCst);
        let change = Change::AddUser {
            name: name.parse().unwrap(),
            role: Role::Viewer,
            password: "hash".to_owned(),
        };
        app.change(caller.actor(&app), change).await?;
        Ok::<_, Problem>((StatusCode::CREATED, [(header::LOCATION, "/there")], name))
    };
    let busy = move || async move {
        runs.fetch_add(1, Ordering::SeqCst);
        Problem::unavailable("not now")
    };
    let once = middleware::from_fn_with_state(Arc::clone(&lab.app), once);
    Router::new()
        .route("/api/v1/users", post(add))
        .route("/api/v1/busy", post(busy))
        .layer(once)
        .with_state(Arc::clone(&lab.app))
}

async fn send(router: &Router, path: &str, key: &str, body: &'static str) -> Response {
    let request = Request::builder()
        .method("POST")
        .uri(path)
        .header("idempotency-key", key)
        .extension(Caller::itself("ana"))
        .body(Body::from(body))
        .unwrap();
    router.clone().oneshot(request).await.unwrap()
}

#[tokio::test]
async fn a_request_is_made_once_and_answered_the_same_again() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let lab = Lab::new();
    let router = router(&lab, &RUNS);
    for again in [false, true, true] {
        let answer = send(&router, "/api/v1/users", "\"k\"", "ben").await;
        assert_eq!(answer.status(), StatusCode::CREATED);
        assert_eq!(answer.headers()[header::LOCATION], "/there");
        assert_eq!(answer.headers().contains_key(REPLAYED), again);
        let body = to_bytes(answer.into_body(), 100).await.unwrap();
        assert_eq!(body, "ben");
    }
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
    let other = send(&router, "/api/v1/users", "\"k\"", "cem").await;
    assert_eq!(other.status(), StatusCode::UNPROCESSABLE_ENTITY);
    // What was refused is asked anew: nothing was made, and its answer may quote what was sent.
    for (path, status) in [
        ("/api/v1/users", StatusCode::CONFLICT),
        ("/api/v1/busy", StatusCode::SERVICE_UNAVAILABLE),
    ] {
        let before = RUNS.load(Ordering::SeqCst);
        for _ in 0..2 {
            let answer = send(&router, path, &format!("\"{path}\""), "ben").await;
            assert_eq!(answer.status(), status);
            assert!(!answer.headers().contains_key(REPLAYED));
        }
        assert_eq!(RUNS.load(Ordering::SeqCst) - before, 2, "{path}");
    }
    assert!(is_made(lab.store.as_ref(), "ben") && !is_made(lab.store.as_ref(), "cem"));
}

#[tokio::test]
async fn who_goes_away_meanwhile_finds_the_answer_later() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let lab = Lab::new();
    let router = router(&lab, &RUNS);
    {
        let asked = send(&router, "/api/v1/users", "\"k\"", "ben");
        let mut asked = std::pin::pin!(asked);
        while RUNS.load(Ordering::SeqCst) == 0 {
            assert!(futures_util::poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
    }
    loop {
        let answer = send(&router, "/api/v1/users", "\"k\"", "ben").await;
        if answer.status() == StatusCode::CREATED {
            assert!(answer.headers().contains_key(REPLAYED));
            break;
        }
        assert_eq!(answer.status(), StatusCode::CONFLICT);
        assert_eq!(answer.headers()[header::RETRY_AFTER], "1");
        tokio::task::yield_now().await;
    }
    assert_eq!(RUNS.load(Ordering::SeqCst), 1);
}

/// It is made behind its sender's connection, and still theirs: it takes their turns, and what they sent has its place
/// until it is over.
#[tokio::test]
async fn what_is_made_once_is_done_on_behalf_of_who_asks_and_keeps_its_place() {
    let lab = Lab::new();
    let (go, gone) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
    let (wait, begun) = (Arc::clone(&go), Arc::clone(&gone));
    let asks = move || async move {
        begun.add_permits(1);
        wait.acquire().await.unwrap().forget();
        asked_by()
            .map(|asks| asks.own.to_string())
            .unwrap_or_default()
    };
    let once = middleware::from_fn_with_state(Arc::clone(&lab.app), once);
    let router = Router::new()
        .route("/api/v1/searches", post(asks))
        .layer(once)
        .with_state(Arc::clone(&lab.app));
    let place = Arc::new(Places::new(1, 1).take().await.unwrap());
    let request = |place: Option<Arc<Place>>| {
        let mut request = Request::post("/api/v1/searches")
            .header("idempotency-key", "\"k\"")
            .extension(Caller::itself("ana"))
            .body(Body::empty())
            .unwrap();
        if let Some(place) = place {
            request.extensions_mut().insert(place);
        }
        on_behalf("person ana".into(), router.clone().oneshot(request))
    };
    {
        let asked = request(Some(Arc::clone(&place)));
        let mut asked = std::pin::pin!(asked);
        while gone.available_permits() == 0 {
            assert!(futures_util::poll!(&mut asked).is_pending());
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(
        Arc::strong_count(&place),
        2,
        "its sender has gone, it goes on"
    );
    go.add_permits(1);
    let answer = loop {
        let answer = request(None).await.unwrap();
        if answer.status() != StatusCode::CONFLICT {
            break answer;
        }
        tokio::task::yield_now().await;
    };
    let body = to_bytes(answer.into_body(), 100).await.unwrap();
    assert_eq!(body, "person ana");
    while Arc::strong_count(&place) > 1 {
        tokio::task::yield_now().await;
    }
}
