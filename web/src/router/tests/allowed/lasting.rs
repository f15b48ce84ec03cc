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
