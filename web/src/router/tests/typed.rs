//! What was typed into the editor by whose session had ended is there when they have signed in again, and for nobody
//! else.

use super::furnished::{Answer, Furnished};
use crate::{credential::mint_session, store::Change};

const TYPED: &str = "version=2&reason=because&act=save&seen=WYJxnad_s82MtKpbRwhJMCXsdSmECeEOqTi0ki4tZSA&document=version%3A+1%0D%0Aegress%3A+%5B%5D%0D%0A%23+typed%0D%0A";

/// A cookie of ben's or ana's, of a session that ends in so many minutes.
fn cookie(appliance: &Furnished, name: &str, minutes: i64) -> (String, String) {
    let minted = mint_session().unwrap();
    let id = minted.id.clone();
    appliance.lab.make(&Change::StartSession {
        id: minted.id,
        digest: minted.digest,
        user: name.to_owned(),
        password: "own".to_owned(),
        code: None,
        expires: appliance.lab.app.now() + jiff::SignedDuration::from_mins(minutes),
        agent: String::new(),
    });
    (format!("gig={}", *minted.text), id)
}

async fn send(appliance: &Furnished, (cookie, origin): (&str, &str), body: &str) -> Answer {
    let length = body.len().to_string();
    let fields = [
        ("cookie", cookie),
        ("origin", origin),
        ("content-type", "application/x-www-form-urlencoded"),
        ("content-length", &length),
    ];
    appliance.send("POST /policies/p/edit", &fields, body).await
}

const OWN: &str = "http://127.0.0.1";
const EDITOR: &str = "GET /policies/p/edit";

#[tokio::test]
async fn what_an_ended_session_typed_is_its_persons_when_they_sign_in_again() {
    let appliance = Furnished::new().await;
    let (lapsed, _) = cookie(&appliance, "dan", -1);
    let (own, _) = cookie(&appliance, "dan", 60);
    let (other, _) = cookie(&appliance, "ana", 60);
    let holds = async |cookie: &str| {
        let page = appliance.page(EDITOR, cookie).await;
        assert_eq!(page.status, 200, "{}", page.body);
        page.body.contains("# typed")
    };
    let sent = send(&appliance, (&lapsed, OWN), TYPED).await;
    assert_eq!(sent.status, 303, "{}", sent.body);
    let to = sent.headers["location"].to_str().unwrap();
    assert_eq!(
        to, "/sign-in?next=%2Fpolicies%2Fp%2Fedit",
        "nothing of it is in an address"
    );
    assert!(holds(&own).await && !holds(&other).await);
    // Reloading loses nothing; a record that is to be allowed is another matter.
    let page = appliance.page(EDITOR, &own).await;
    assert!(
        page.body.contains("not saved") && page.body.contains("because"),
        "{}",
        page.body
    );
    let asked = appliance.page("GET /policies/p/edit?suggest=1", &own).await;
    assert!(!asked.body.contains("# typed"), "{}", asked.body);
    // Another site does not make it go; its author does.
    let fields = [("cookie", own.as_str()), ("sec-fetch-site", "cross-site")];
    let away = "GET /policies/p/edit?without=draft";
    appliance.send(away, &fields, "").await;
    assert!(holds(&own).await);
    assert_eq!(appliance.page(away, &own).await.status, 303);
    assert!(!holds(&own).await);
    // Saved, it is gone, too.
    send(&appliance, (&lapsed, OWN), TYPED).await;
    assert!(holds(&own).await);
    let saved = send(&appliance, (&own, OWN), TYPED).await;
    assert_eq!(saved.status, 303, "{}", saved.body);
    let page = appliance.page(EDITOR, &own).await;
    assert!(!page.body.contains("not saved"), "{}", page.body);
}

#[tokio::test]
async fn nothing_is_kept_of_who_was_signed_out_never_in_or_sent_by_another_site() {
    let appliance = Furnished::new().await;
    let (lapsed, _) = cookie(&appliance, "dan", -1);
    let (ended, id) = cookie(&appliance, "dan", 60);
    appliance.lab.make(&Change::EndSession { id });
    let stranger = format!("gig={}", *mint_session().unwrap().text);
    // Its id is known, and its secret is not.
    let mut guessed = lapsed.clone();
    let last = guessed.pop().unwrap();
    guessed.push(if last == 'A' { 'B' } else { 'A' });
    let long = format!("{TYPED}{}", "x".repeat(crate::router::LONGEST_BODY));
    for (cookie, origin, body) in [
        (&lapsed, "http://evil.example", TYPED),
        (&ended, OWN, TYPED),
        (&stranger, OWN, TYPED),
        (&guessed, OWN, TYPED),
        (&lapsed, OWN, &*long),
    ] {
        let sent = send(&appliance, (cookie, origin), body).await;
        assert_eq!(sent.status, 303, "{}", sent.body);
    }
    let (own, _) = cookie(&appliance, "dan", 60);
    let page = appliance.page(EDITOR, &own).await;
    assert!(!page.body.contains("# typed"), "{}", page.body);
}

#[tokio::test]
async fn what_is_as_it_was_makes_no_version() {
    let appliance = Furnished::new().await;
    let (own, _) = cookie(&appliance, "dan", 60);
    let newest = || {
        let kept = appliance.lab.app.store.policy("p", None).unwrap();
        kept.unwrap().head.version
    };
    assert_eq!(send(&appliance, (&own, OWN), TYPED).await.status, 303);
    let saved = newest();
    let again = TYPED.replace("version=2", &format!("version={saved}"));
    let page = send(&appliance, (&own, OWN), &again).await;
    assert_eq!((page.status, newest()), (200, saved), "{}", page.body);
    assert!(page.body.contains("Nothing is changed"), "{}", page.body);
}

#[tokio::test]
async fn what_an_address_cannot_say_and_a_version_that_is_not_there_is_told_on_a_page() {
    let appliance = Furnished::new().await;
    let (own, _) = cookie(&appliance, "ana", 60);
    for (asked, status, words) in [
        (
            "GET /approvals?before=-1",
            400,
            "what the page does not take",
        ),
        ("GET /audit?foo=bar", 400, "what the page does not take"),
        (
            "GET /policies/p/edit?width=zz",
            400,
            "what the page does not take",
        ),
        (
            "GET /policies/p/versions/99",
            404,
            "there is no version 99 of policy p",
        ),
        (
            "GET /policies/nowhere/versions/99",
            404,
            "there is no policy nowhere",
        ),
    ] {
        let page = appliance.page(asked, &own).await;
        let kind = page.headers["content-type"].to_str().unwrap();
        assert!(kind.starts_with("text/html"), "{asked}: {kind}");
        assert_eq!(page.status, status, "{asked}: {}", page.body);
        assert!(page.body.contains(words), "{asked}: {}", page.body);
    }
}

#[tokio::test]
async fn no_policy_differs_from_another_in_case_alone() {
    let appliance = Furnished::new().await;
    let (own, _) = cookie(&appliance, "dan", 60);
    let fields = [
        ("cookie", own.as_str()),
        ("origin", OWN),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let new = TYPED.replace("version=2", "version=0");
    let sent = appliance.send("POST /policies/P/edit", &fields, &new).await;
    assert_eq!(sent.status, 409, "{}", sent.body);
    assert!(
        sent.body.contains("differs from it in case alone"),
        "{}",
        sent.body
    );
    assert!(appliance.lab.app.store.policy("P", None).unwrap().is_none());
}

#[tokio::test]
async fn what_is_pasted_from_another_tool_is_in_the_editor_with_what_could_not_be_kept() {
    let appliance = Furnished::new().await;
    let (own, _) = cookie(&appliance, "dan", 60);
    let paste = async |format: &str, text: &str| {
        let body = format!("version=2&act=import&format={format}&pasted={text}");
        send(&appliance, (&own, OWN), &body).await
    };
    let list = "*.example.com%0D%0Adeny+bad.example.com%0D%0Anew.example.org%2C8443%0D%0A";
    let page = paste("hosts", list).await;
    assert_eq!(page.status, 200, "{}", page.body);
    for part in [
        "host: new.example.org",
        "ports: [8443]",
        "wider: line 2: bad.example.com was denied",
    ] {
        assert!(page.body.contains(part), "{part}: {}", page.body);
    }
    // What cannot be read is there still, and the document as it was.
    let refused = paste("squid", list).await;
    assert_eq!(refused.status, 422, "{}", refused.body);
    assert!(
        refused.body.contains("not a squid.conf"),
        "{}",
        refused.body
    );
    assert!(
        refused.body.contains("deny bad.example.com"),
        "{}",
        refused.body
    );
    // Programs are told the same.
    let fields = [
        ("cookie", own.as_str()),
        ("origin", OWN),
        ("content-type", "application/json"),
    ];
    let body =
        r#"{"format": "hosts", "text": "*.example.com\ndeny bad.example.com\n", "name": "web"}"#;
    let told = appliance
        .send("POST /api/v1/policies/import", &fields, body)
        .await;
    let told: serde_json::Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(told["widened"][0]["line"], 2, "{told}");
    assert!(
        told["document"].as_str().unwrap().contains("*.example.com"),
        "{told}"
    );
    assert_eq!(told["narrowed"], serde_json::json!([]), "{told}");
}
