//! Who is refused for a secret is told which, where it may go, and what to do; and never whose value it is that it
//! wrote itself.

use super::*;

/// What the program is told, and what the record of the request says.
async fn told(
    host: &'static str,
    value: &str,
    request: impl FnOnce(&str) -> Request<Body>,
) -> [String; 2] {
    let world = World::new(host, value).await;
    let answer = world.send(host, request(&world.sentinel)).await;
    world.lab.until_denied().await;
    world.assert_unrecorded(host);
    let body = String::from_utf8_lossy(&answer.body);
    assert!(!body.contains(value), "{body}");
    let why = recorded(&world);
    [answer.json()["hint"].as_str().unwrap().to_owned(), why]
}

/// Why the request did not go, as its record has it.
fn recorded(world: &World) -> String {
    let records = world.lab.log.records();
    let entries = records.iter().map(|record| &record.entry);
    let refused = entries.filter(|entry| entry.event != Event::SecretMisuse);
    let mut why = refused.filter_map(|entry| gig_audit::why_of(&entry.findings));
    why.next_back().expect("a reason").to_owned()
}

#[tokio::test]
async fn a_refusal_says_which_secret_stood_where_and_where_it_may_go() {
    let value = "v4lue-of-the-token";
    let bound = "TOKEN is bound to api.test:443, narrow.test:443, not to other.test:443; only if it belongs there, \
                 bind it: --secret TOKEN@other.test";
    for both in [
        told("other.test", value, |sentinel| with("x-key", sentinel)).await,
        told("other.test", value, |sentinel| {
            post("application/x-www-form-urlencoded", format!("a={sentinel}"))
        })
        .await,
    ] {
        assert_eq!(both[0], both[1]);
        assert!(both[0].starts_with("sentinel of TOKEN in "), "{}", both[0]);
        assert!(both[0].contains(bound), "{}", both[0]);
    }
    let [hint, why] = told("narrow.test", value, |sentinel| {
        Request::get(format!("/with/{sentinel}"))
            .body(empty())
            .unwrap()
    })
    .await;
    assert_eq!(hint, why);
    let places = "TOKEN is taken in header:x-key, query:key, cookie:sid alone";
    assert!(
        hint.contains("sentinel of TOKEN in the path") && hint.contains(places),
        "{hint}"
    );
    let [hint, _] = told("narrow.test", value, |sentinel| {
        let request = Request::get("/without/x").header("x-key", sentinel);
        request.body(empty()).unwrap()
    })
    .await;
    assert!(hint.contains("by method or path"), "{hint}");
}

#[tokio::test]
async fn whose_value_a_program_wrote_is_told_the_record_alone() {
    let value = "v4lue-of-the-token";
    let [hint, why] = told("other.test", value, |_| with("x-key", value)).await;
    assert!(
        !hint.contains("TOKEN") && !hint.contains("api.test"),
        "{hint}"
    );
    assert!(why.contains("value of TOKEN in header x-key"), "{why}");
    assert!(why.contains("bound to api.test:443"), "{why}");
}

/// No binding lets it go again.
#[tokio::test]
async fn a_revoked_value_is_told_as_one_and_not_how_to_bind_it() {
    let value = "v4lue-of-the-token";
    let world = World::new("api.test", value).await;
    world.keeper.set("TOKEN", "another-value-of-it");
    let answer = world.send("api.test", with("x-key", value)).await;
    assert_eq!(answer.json()["reason"], "secret_misuse");
    world.lab.until_denied().await;
    let why = recorded(&world);
    assert!(
        why.contains("revoked value of TOKEN in header x-key"),
        "{why}"
    );
    assert!(why.contains("goes nowhere any more"), "{why}");
    assert!(!why.contains("--secret"), "{why}");
    assert!(world.origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_secret_that_cannot_be_had_is_named_with_what_became_of_it() {
    let world = World::new("api.test", "v4lue-of-the-token").await;
    world.keeper.revoke("TOKEN");
    let answer = world.send("api.test", with("x-key", &world.sentinel)).await;
    assert_eq!(answer.json()["reason"], "secret_unavailable");
    let hint = answer.json()["hint"].as_str().unwrap().to_owned();
    world.lab.until_denied().await;
    let why = recorded(&world);
    assert_eq!(why, "there is no secret named TOKEN");
    assert_eq!(hint, why);
    assert!(world.origin.seen.requests().is_empty());
}

#[tokio::test]
async fn a_value_that_cannot_be_written_says_where() {
    let [hint, why] = told("api.test", "one\r\nx-evil: 1", |sentinel| {
        with("x-key", sentinel)
    })
    .await;
    assert_eq!(hint, why);
    assert!(
        hint.contains(
            "the value of TOKEN cannot stand in header x-key: it has characters that would end"
        ),
        "{hint}"
    );
    let marks = "with \"marks\" of its own";
    let [hint, _] = told("api.test", marks, |sentinel| {
        post("text/plain", format!("insert (\"{sentinel}\")"))
    })
    .await;
    assert!(hint.contains("secret TOKEN stays out of"), "{hint}");
}

/// Who guessed a value and writes it where names must agree learns nothing of it, and raises the alarm.
#[tokio::test]
async fn a_name_that_holds_a_value_and_disagrees_is_an_alarm_and_told_to_nobody() {
    let value = "othertenant-value-99887766";
    let world = World::new("api.test", value).await;
    let mut client = world.client("api.test").await;
    let host = format!("{value}.test");
    let request = Request::get("/")
        .header("host", host)
        .body(empty())
        .unwrap();
    let answer = client.send(request).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    let told = String::from_utf8_lossy(&answer.body);
    assert!(!told.contains("TOKEN") && !told.contains(value), "{told}");
    world.lab.until_records(Event::SecretMisuse, 1).await;
    for record in world.lab.log.records() {
        let text = format!("{record:?}");
        assert!(!text.contains(value), "{text}");
    }
    assert!(world.origin.seen.requests().is_empty());
}

/// The names of fields and cookies are the program's words.
#[tokio::test]
async fn a_value_in_the_name_of_a_field_or_a_cookie_is_in_no_record() {
    let value = "zq7realvalue-abc123xyz";
    for (host, name, status) in [
        ("api.test", "cookie", StatusCode::OK),
        ("other.test", value, StatusCode::FORBIDDEN),
    ] {
        let world = World::new("api.test", value).await;
        let cookie = format!("{value}={}", world.sentinel);
        let request = Request::get("/")
            .header(name, cookie)
            .body(empty())
            .unwrap();
        let answer = world.send(host, request).await;
        let told = format!("{answer:?}");
        assert_eq!(answer.status, status, "{host}: {told}");
        assert!(!told.contains(value), "{host}: {told}");
        match status {
            StatusCode::OK => drop(world.lab.until_records(Event::Response, 1).await),
            _ => world.lab.until_denied().await,
        }
        for record in world.lab.log.records() {
            let text = format!("{record:?}").to_lowercase();
            assert!(!text.contains(value), "{host}: {text}");
        }
    }
}
