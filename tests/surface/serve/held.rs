//! What a form, a roll-back or a name must not do unseen.

use serde_json::json;

use super::{Appliance, Ask, PASSWORD};

const ONE: &str = "version: 1\negress:\n  - host: one.example\n";

fn saved(appliance: &Appliance, token: &str) {
    let put = Ask::new("PUT", "/api/v1/policies/web").token(token);
    let put = put.header("If-None-Match", "*");
    let put = put.json(&json!({"document": ONE})).send(appliance);
    assert_eq!(put.status, 201, "{put:?}");
}

#[test]
fn another_site_opens_no_form_that_is_filled_in() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    saved(&appliance, &appliance.token("admin"));
    let open = |query: &str, site: &str| {
        let path = format!("/policies/web/edit{query}");
        let ask = Ask::new("GET", &path).cookie(&cookie);
        ask.header("Sec-Fetch-Site", site).send(&appliance)
    };
    for (query, instead) in [
        ("?record=1-1&for=ever", "location: /audit/1-1"),
        ("?suggest=path", "location: /policies/web"),
    ] {
        for site in ["cross-site", "same-site"] {
            let led = open(query, site);
            assert_eq!(led.status, 303, "{led:?}");
            assert!(led.head.contains(instead), "{led:?}");
        }
        for site in ["same-origin", "none"] {
            assert_ne!(open(query, site).status, 303, "{query} {site}");
        }
    }
    assert_eq!(open("", "cross-site").status, 200);
}

#[test]
fn a_roll_back_is_made_on_what_was_seen() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    saved(&appliance, &token);
    let back = |on: &str| {
        let ask = Ask::new("POST", "/api/v1/policies/web/rollback").token(&token);
        let ask = ask.header("If-Match", on).json(&json!({"version": 1}));
        ask.send(&appliance).status
    };
    assert_eq!(back("\"1\""), 200);
    assert_eq!(back("\"1\""), 412);
    assert_eq!(back("one"), 400);
    let form = |fields: &str| {
        let form = appliance.form("/policies/web/versions/1", fields);
        form.cookie(&cookie).send(&appliance).status
    };
    assert_eq!(form("on=1"), 412);
    assert_eq!(form("on=2"), 303);
    assert!(form("").to_string().starts_with('4'));
    // There is something to go back to where the newest says something else.
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put.header("If-Match", "\"3\"");
    let put = put.json(&json!({"document": "version: 1\negress: []\n"}));
    assert_eq!(put.send(&appliance).status, 200);
    let page = Ask::new("GET", "/policies/web/versions/2/back").cookie(&cookie);
    let page = page.send(&appliance);
    assert!(page.body.contains("name=\"on\" value=\"4\""), "{page:?}");
}

#[test]
fn a_password_is_changed_alone_and_ones_own_with_the_one_one_has() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    drop(appliance.member(&cookie, "ben", "viewer"));
    let token = appliance.token("admin");
    let patch = |name: &str, body: serde_json::Value| {
        let path = format!("/api/v1/users/{name}");
        let ask = Ask::new("PATCH", &path).cookie(&cookie);
        let ask = ask.header("Origin", &format!("http://{}", appliance.address));
        ask.json(&body).send(&appliance)
    };
    let own = patch("ANA", json!({"password": PASSWORD}));
    assert_eq!(own.status, 403, "{own:?}");
    assert!(own.body.contains("/people"), "{own:?}");
    let both = patch("ben", json!({"role": "editor", "password": PASSWORD}));
    assert_eq!(both.status, 400, "{both:?}");
    let changes = appliance.records(&token, "event=admin&text=editor");
    assert_eq!(changes.len(), 0, "{changes:?}");
    assert_eq!(patch("ben", json!({"password": PASSWORD})).status, 204);
    assert_eq!(patch("ben", json!({"role": "editor"})).status, 204);
}

#[test]
fn what_is_no_servers_name_is_not_in_the_record() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let long = "x".repeat(4000);
    for (name, status) in [("no-such", 404), ("a%20b%3B", 422), (&long, 422)] {
        let path = format!("/api/v1/servers/{name}/start");
        let asked = Ask::new("POST", &path).token(&token).send(&appliance);
        assert_eq!(asked.status, status, "{asked:?}");
    }
    let mut records = appliance.records(&token, "event=admin&text=start");
    records.retain(|record| record["deed"] != "serve.start");
    assert_eq!(records.len(), 0, "{records:?}");
}
