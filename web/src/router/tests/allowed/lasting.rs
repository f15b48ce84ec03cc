//! What is allowed for an hour can be made to last, and says until when it holds.

use super::*;
use crate::router::tests::console::signed_in;

#[tokio::test]
async fn what_passes_for_an_hour_can_be_made_to_last_and_is_told_to_end() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let place = Role::ALL.iter().position(|role| *role == Role::Editor);
    let cookies = signed_in(&appliance);
    let cookie = &cookies[place.unwrap()];
    let page = async || {
        let what = format!("GET /audit/{}", appliance.record);
        appliance.page(&what, cookie).await.body
    };
    let hour = json!({"for": "hour"});
    let made = allow(&appliance, ALLOW, &editor, &hour).await;
    assert_eq!(made.status, 200, "{made:?}");
    let rule = "{host: new.example, ports: [443], rules: [{methods: [GET], paths: [/x]}]";
    let ends = document(&appliance, "p");
    let end = ends.split_once(&format!("{rule}, expires: \"")).unwrap().1;
    let end = end.split_once('"').unwrap().0.to_owned();
    let seen = page().await;
    for words in ["That ends: from ", "Allow this path", "Allow this host"] {
        assert!(seen.contains(words), "{words}: {seen}");
    }
    assert!(!seen.contains("for an hour"), "{seen}");
    // Once more for an hour is nothing that it has not; the end of it is told.
    let again = allow(&appliance, ALLOW, &editor, &hour).await;
    assert_eq!(again.status, 409, "{again:?}");
    let detail = again.json()["detail"].to_string();
    assert!(
        detail.contains(&format!("not denied until {end}")),
        "{detail}"
    );
    let ever = json!({"for": "ever"});
    let made = allow(&appliance, ALLOW, &editor, &ever).await;
    assert_eq!(made.status, 200, "{made:?}");
    assert!(document(&appliance, "p").contains(&format!("{rule}}}\n")));
    let seen = page().await;
    assert!(
        seen.contains("it would pass now") && !seen.contains("That ends"),
        "{seen}"
    );
    let again = allow(&appliance, ALLOW, &editor, &ever).await;
    assert_eq!(again.status, 409, "{again:?}");
    let detail = again.json()["detail"].to_string();
    assert!(detail.contains("not denied any more"), "{detail}");
}

#[tokio::test]
async fn what_a_floor_ends_no_rule_beneath_it_is_written_for() {
    let appliance = Furnished::new().await;
    let editor = appliance.token("dan", Role::Editor, ("", ""));
    let save = |name: &str, document: &str| {
        appliance.lab.make(&Change::SavePolicy {
            name: name.parse().unwrap(),
            expected: None,
            document: document.to_owned(),
            reason: String::new(),
            secrets: crate::store::Vouched::Freely,
        });
    };
    save(
        "bounds",
        "version: 1\negress:\n  - {host: new.example, expires: \"2099-01-01T00:00:00Z\"}\n",
    );
    save("p", "version: 1\negress:\n  - host: new.example\n");
    appliance.lab.make(&Change::SetFloor {
        place: Place::Server("docs".to_owned()),
        policy: Some("bounds".to_owned()),
        expected: None,
    });
    let before = document(&appliance, "p");
    let refused = allow(&appliance, ALLOW, &editor, &json!({"for": "ever"})).await;
    assert_eq!(refused.status, 409, "{refused:?}");
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("not denied until 2099-01-01"), "{detail}");
    assert_eq!(document(&appliance, "p"), before);
}
