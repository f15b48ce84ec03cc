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

#[tokio::test]
async fn what_is_allowed_at_once_waits_together_and_nothing_goes_on_under_another_name() {
    let appliance = Furnished::ruled().await;
    let token = appliance.token("dan", Role::Editor, ("", ""));
    let mut hosts = vec!["new.example".to_owned()];
    let mut places = vec![ALLOW.to_owned()];
    for number in 0..4 {
        let host = format!("h{number}.example");
        appliance
            .record([denial(&appliance.sandbox, ("ana", &host, "/y"))])
            .await;
        let found = format!("GET /api/v1/audit?host={host}");
        let found = appliance.ask(Ask {
            token: &token,
            ..Ask::of(&found)
        });
        let id = found.await.json()["records"][0]["id"].clone();
        places.push(format!("POST /api/v1/audit/{}/allow", id.as_str().unwrap()));
        hosts.push(host);
    }
    let ever = json!({"for": "ever"});
    let asked = places
        .iter()
        .map(|what| allow(&appliance, what, &token, &ever));
    let answers = futures_util::future::join_all(asked).await;
    assert!(answers.iter().all(|one| one.status == 202), "{answers:?}");
    let store = &appliance.lab.store;
    let pending = store.proposals(true, None, 50).unwrap().into_iter();
    let pending = pending.filter_map(|one| store.proposal(one.id).unwrap());
    let mine: Vec<_> = pending
        .filter(|one| one.draft.value.contains("new.example"))
        .collect();
    assert_eq!(mine.len(), 1, "{mine:?}");
    for host in &hosts {
        assert!(mine[0].draft.value.contains(host), "{mine:?}");
    }
    // What a token asked for is not the same person's by their own hand.
    let other = appliance.token("dan", Role::Editor, ("", ""));
    let made = allow(&appliance, &places[1], &other, &ever).await;
    assert_eq!(made.status, 202, "{made:?}");
    let value = made.json()["value"].as_str().unwrap().to_owned();
    assert!(
        value.contains("h0.example") && !value.contains("new.example"),
        "{value}"
    );
}
