//! A database that loses its name while an appliance serves, and one that is missing when it begins.

use std::fs;

use serde_json::json;

use super::{Appliance, Ask, command};
use crate::answer;

#[test]
fn a_database_of_people_that_is_gone_is_told_and_none_is_begun_in_its_place() {
    let mut appliance = Appliance::start();
    // PostgreSQL's own files are its own.
    if appliance.database.is_some() {
        return;
    }
    let token = appliance.token("admin");
    let ready = |one: &Appliance| Ask::new("GET", "/readyz").send(one).status;
    let put = |one: &Appliance| {
        let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
        let put = put.header("If-None-Match", "*");
        put.json(&json!({"document": "version: 1\negress: []\n"}))
            .send(one)
            .status
    };
    let (there, away) = (appliance.path("gig.db"), appliance.path("away.db"));
    fs::rename(&there, &away).expect("it was there");
    assert_eq!((ready(&appliance), put(&appliance)), (503, 503));
    let secret = Ask::new("PUT", "/api/v1/secrets/TOKEN").token(&token);
    let secret = secret.json(&json!({"value": "v4lue-of-a-secret"}));
    assert!(secret.send(&appliance).status >= 400, "the vault");
    let by_hand = appliance.gig(&["secret", "set", "TOKEN"], "v4lue-of-a-secret");
    assert_eq!(by_hand.status, 125, "{by_hand:?}");
    assert!(!there.exists(), "the vault began one");
    // Another one is not the one that was acknowledged.
    fs::copy(&away, &there).expect("a copy");
    assert_eq!((ready(&appliance), put(&appliance)), (503, 503));
    let secret = Ask::new("PUT", "/api/v1/secrets/TOKEN").token(&token);
    let secret = secret.json(&json!({"value": "v4lue-of-a-secret"}));
    assert!(
        secret.send(&appliance).status >= 400,
        "the vault took the other"
    );
    fs::rename(&away, &there).expect("back");
    appliance.until("it is ready again", |one| ready(one) == 200);
    assert_eq!(put(&appliance), 201);
    appliance.child.kill().expect("kill it");
    appliance.child.wait().expect("its end");
    let begin = || {
        let mut serve = command(&appliance.folder, None);
        serve.args(["serve", "--listen", "127.0.0.1:0"]);
        answer(serve, "")
    };
    fs::rename(&there, &away).expect("it was there");
    let refused = begin();
    assert_eq!(refused.status, 125, "{refused:?}");
    for words in ["gig.db is missing", "record.db", "gig restore"] {
        assert!(refused.errors.contains(words), "{words}: {refused:?}");
    }
    assert!(!there.exists(), "one was begun");
}
