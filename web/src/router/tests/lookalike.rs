//! A host that is written to be taken for another one is told as what it is wherever somebody might allow it.

use super::furnished::{Ask, Furnished, denial};
use crate::{role::Role, store::Store as _};

#[tokio::test]
async fn who_might_allow_a_lookalike_is_told_what_it_is() {
    let appliance = Furnished::new().await;
    let token = appliance.token("dan", Role::Admin, ("", ""));
    let store = &appliance.lab.store;
    let mut row = store.held(appliance.lab.app.now()).unwrap().remove(0);
    (row.id, row.facts.host) = ("h9".to_owned(), HOST.to_owned());
    store.put_held(&[row]).unwrap();
    let refused = denial(&appliance.sandbox, ("ana", HOST, "/x"));
    appliance.record([refused]).await;
    let asked = |what: String| {
        let (appliance, token) = (&appliance, &token);
        async move {
            let ask = Ask {
                token,
                ..Ask::of(&what)
            };
            let answer = appliance.ask(ask).await;
            assert_eq!(answer.status, 200, "{what}: {answer:?}");
            answer
        }
    };
    let held = asked("GET /api/v1/held".to_owned()).await.json();
    let held = held["items"].as_array().unwrap();
    let of = |id: &str| &held.iter().find(|one| one["id"] == id).unwrap()["lookalike"];
    assert!(of("h9").as_str().unwrap().contains(READS), "{held:?}");
    assert!(of("h1").is_null(), "{held:?}");
    let found = asked(format!("GET /api/v1/audit?host={HOST}")).await.json();
    let id = found["records"][0]["id"].as_str().unwrap();
    for page in ["GET /approvals".to_owned(), format!("GET /audit/{id}")] {
        let shown = asked(page.clone()).await.body;
        for words in [HOST, "\u{430}pple.com", READS] {
            assert!(shown.contains(words), "{page} without {words}: {shown}");
        }
    }
    let plain = asked(format!("GET /audit/{}", appliance.record)).await.body;
    assert!(!plain.contains("Looks like"), "{plain}");
}

const HOST: &str = "xn--pple-43d.com";
const READS: &str = "looks like apple.com";
