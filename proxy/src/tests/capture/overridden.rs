//! Fields that lead past a capture, or away from one.

use super::*;

/// The server mints in answers to `/token/…`, and all else of it is open.
fn policy(mode: &str) -> String {
    let here = "host: auth.test, ports: [443], allow_private: [127.0.0.0/8]";
    format!(
        "version: 1\nname: test\nmode: {mode}\negress:\n\
         - {{{here}, rules: [{{methods: [POST], paths: ['/token/**']}}], secrets: [{{name: LOGIN, capture: true}}]}}\n\
         - {{{here}}}\n"
    )
}

async fn asked(mode: &str, path: &str, fields: &[(&str, &str)]) -> (Lab, Origin, Answer) {
    asked_under(&policy(mode), path, fields).await
}

async fn asked_under(policy: &str, path: &str, fields: &[(&str, &str)]) -> (Lab, Origin, Answer) {
    let auth = Origin::https("auth.test", &["http/1.1"], as_meant).await;
    let lab = Arrangement::new(policy)
        .origin("auth.test:443", &auth)
        .keeper(&Keeper::with(&[]))
        .lab();
    let mut request = post(path, "grant_type=password");
    request
        .headers_mut()
        .insert("host", "auth.test".parse().unwrap());
    for (name, value) in fields {
        let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
        request.headers_mut().insert(name, value.parse().unwrap());
    }
    let mut client = lab.https("auth.test", "http/1.1").await;
    let answer = client.send(request).await;
    (lab, auth, answer)
}

/// The server takes another path for the one that is meant, as IIS and others do.
async fn as_meant(mut request: Request<Incoming>) -> Response<Body> {
    let meant = request.headers().get("x-original-url");
    let meant = meant.map(|path| path.to_str().unwrap().parse().unwrap());
    if let Some(path) = meant {
        *request.uri_mut() = path;
    }
    mint(request).await
}

#[tokio::test]
async fn nothing_leads_past_a_capture_whatever_else_is_open() {
    for (field, refused) in [
        (("x-original-url", "/token/json"), true),
        (("x-http-method-override", "POST"), true),
        (("x-checksum", "/token/json"), false),
    ] {
        let (lab, auth, answer) = asked("enforce", "/other", &[field]).await;
        let case = format!("{field:?} {answer:?}");
        let status = if refused { 400 } else { 200 };
        assert_eq!(answer.status.as_u16(), status, "{case}");
        let seen = auth.seen.requests().len();
        assert_eq!(seen, usize::from(!refused), "{case}");
        if refused {
            lab.assert_denied_once(DenyReason::MalformedRequest);
        }
    }
}

#[tokio::test]
async fn where_a_policy_observes_what_comes_is_captured_whatever_overrides() {
    for (path, meant, reason) in [
        ("/token/page", "/token/json", "MalformedRequest"),
        ("/other", "/token/json", "MalformedRequest"),
        ("/other", "/token/json", "PathNotAllowed"),
    ] {
        let mut policy = policy("observe");
        if reason == "PathNotAllowed" {
            // No rule lets it go: that is observed.
            policy.truncate(policy.rfind("- {").unwrap());
        }
        let field = ("x-original-url", meant);
        let (lab, _auth, answer) = asked_under(&policy, path, &[field]).await;
        assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
        let text = format!("{answer:?}");
        assert!(text.contains("access_token"), "{path}: {text}");
        assert!(!text.contains(ACCESS) && !text.contains(REFRESH), "{text}");
        let record = lab.until_records(Event::Request, 1).await.remove(0);
        let text = format!("{:?}", record.entry);
        assert!(text.contains(reason), "{path}: {text}");
    }
    // What leads nowhere else is as it is.
    let policy = policy("observe");
    let (_lab, _auth, answer) = asked_under(&policy, "/other", &[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
}
