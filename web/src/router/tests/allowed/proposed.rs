//! Under the two-person rule: what an editor allows waits, and one thing after the other all waits.

use super::*;
use crate::router::tests::{console::signed_in, furnished::denial};

#[tokio::test]
async fn under_the_two_person_rule_it_is_proposed() {
    let appliance = Furnished::ruled().await;
    let before = document(&appliance, "p");
    let token = appliance.token("dan", Role::Editor, ("", ""));
    let made = allow(&appliance, ALLOW, &token, &json!({"for": "ever"})).await;
    assert_eq!(made.status, 202, "{made:?}");
    assert!(made.headers.contains_key("location"));
    assert_eq!(document(&appliance, "p"), before);
}

#[tokio::test]
async fn what_is_allowed_one_after_the_other_waits_together() {
    let appliance = Furnished::ruled().await;
    let token = appliance.token("dan", Role::Editor, ("", ""));
    appliance
        .record([denial(&appliance.sandbox, ("ana", "second.example", "/y"))])
        .await;
    let found = appliance.ask(Ask {
        token: &token,
        ..Ask::of("GET /api/v1/audit?host=second.example")
    });
    let second = found.await.json()["records"][0]["id"].clone();
    let second = format!("POST /api/v1/audit/{}/allow", second.as_str().unwrap());
    let ever = json!({"for": "ever"});
    let made = allow(&appliance, ALLOW, &token, &ever).await;
    assert_eq!(made.status, 202, "{made:?}");
    assert!(made.json().get("in_place_of").is_none(), "{made:?}");
    let first = made.json()["id"].clone();
    let made = allow(&appliance, &second, &token, &ever).await;
    assert_eq!(made.status, 202, "{made:?}");
    let made = made.json();
    assert_eq!(made["in_place_of"], first, "{made}");
    let value = made["value"].as_str().unwrap();
    for host in ["host: new.example", "host: second.example"] {
        assert!(value.contains(host), "{value}");
    }
    let beside = format!("beside what proposal {first} asked for");
    assert!(
        made["reason"].as_str().unwrap().ends_with(&beside),
        "{made}"
    );
    // Each is asked for by now.
    for what in [ALLOW, &second] {
        let again = allow(&appliance, what, &token, &ever).await;
        assert_eq!(again.status, 409, "{again:?}");
        let told = format!("proposal {} of yours would allow it", made["id"]);
        let detail = again.json()["detail"].to_string();
        assert!(detail.contains(&told), "{detail}");
    }
    // Another person's waits beside it.
    let other = appliance.token("ana", Role::Editor, ("", ""));
    let theirs = allow(&appliance, ALLOW, &other, &ever).await;
    assert_eq!(theirs.status, 202, "{theirs:?}");
    let theirs = theirs.json();
    assert!(theirs.get("in_place_of").is_none(), "{theirs}");
    assert!(!theirs["value"].as_str().unwrap().contains("second.example"));
}

#[tokio::test]
async fn who_edits_what_they_proposed_a_change_of_is_told_so() {
    let appliance = Furnished::ruled().await;
    let cookies = signed_in(&appliance);
    let of = |role: Role| {
        let place = Role::ALL.iter().position(|one| *one == role);
        &cookies[place.unwrap()]
    };
    let told = "What is proposed from here takes its place";
    let page = async |cookie: &str| {
        let page = appliance.page("GET /policies/p/edit", cookie).await;
        assert_eq!(page.status, 200, "{page:?}");
        page.body
    };
    assert!(!page(of(Role::Editor)).await.contains(told));
    let fields = "version=2&act=save&reason=&document=version%3A%201%0Aegress%3A%20%5B%5D%0A";
    for notice in ["proposed", "proposed-anew"] {
        let cookie = [
            ("cookie", of(Role::Editor).as_str()),
            ("origin", "http://127.0.0.1"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let saved = appliance.send("POST /policies/p/edit", &cookie, fields);
        let saved = saved.await;
        assert_eq!(saved.status, 303, "{saved:?}");
        let kept = format!("{:?}", saved.headers);
        assert!(kept.contains(&format!("={notice};")), "{kept}");
    }
    assert!(page(of(Role::Editor)).await.contains(told));
    assert!(!page(of(Role::Admin)).await.contains(told));
}
