//! How far an answer reaches: not past a floor, not to a server of others, not wider than what was asked.

use serde_json::{Value, json};

use super::{
    super::{Appliance, Ask},
    Origin, curl, holding,
};

#[test]
fn a_floor_bounds_what_is_assigned_beneath_it_and_is_named() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let origin = Origin::start();
    let (port, wide) = (
        origin.port,
        holding(origin.port, "5m").replace("[/open]", "[/open, /more]"),
    );
    appliance.policy(&token, &wide);
    let floor = holding(port, "5m").replace("hold: 5m\n", "");
    let put = Ask::new("PUT", "/api/v1/policies/company").token(&token);
    let put = put
        .header("If-None-Match", "*")
        .json(&json!({"document": floor}));
    assert_eq!(put.send(&appliance).status, 201);
    let editor = appliance.token("editor");
    let set = |token: &str, body: Value| {
        let ask = Ask::new("PUT", "/api/v1/floors").token(token);
        let ask = ask.header("If-Match", "*");
        ask.json(&body).send(&appliance).status
    };
    let all = json!({"server": null, "policy": "company"});
    assert_eq!(set(&editor, all.clone()), 403);
    let said = appliance.gig(&["policy", "floor", "company", "--all"], "");
    assert_eq!(said.status, 0, "{said:?}");
    // Nor does an editor widen the floor itself.
    let widen = Ask::new("PUT", "/api/v1/policies/company").token(&editor);
    let widen = widen
        .header("If-Match", "\"1\"")
        .json(&json!({"document": wide}));
    assert_eq!(widen.send(&appliance).status, 403);
    let ask = |path: &str| curl(port, path);
    appliance.server(
        "asker",
        &format!("{}; {}; echo over; sleep 1000", ask("/open"), ask("/more")),
    );
    let sandbox = appliance.run("asker");
    appliance.until_printed(&sandbox, "over");
    let printed = appliance.printed(&sandbox);
    assert!(
        printed.starts_with("ok 200\n") && printed.contains(" 403"),
        "{printed}"
    );
    assert_eq!(origin.seen(), ["GET /open HTTP/1.1"]);
    let denied = appliance.records(&token, &format!("sandbox={sandbox}&verdict=deny"));
    assert_eq!(denied.len(), 1, "{denied:?}");
    assert_eq!(denied[0]["policy"], "company");
    assert!(
        appliance.held(&token).is_empty(),
        "nobody beneath a floor is asked"
    );
    // What is taken away is what was named, and what has it is said.
    let away = |name: &str| appliance.gig(&["policy", "floor", name, "--all", "--rm"], "");
    let other = away("web");
    assert!(
        other.status != 0 && other.errors.contains("is no floor of"),
        "{other:?}"
    );
    let used = appliance.gig(&["policy", "rm", "company"], "");
    assert!(used.errors.contains("the floor of all servers"), "{used:?}");
    let said = away("company");
    assert_eq!(said.status, 0, "{said:?}");
    assert_eq!(set(&token, all), 204);
    assert_eq!(set(&token, json!({"server": null, "policy": null})), 204);
    let floors = Ask::new("GET", "/api/v1/floors")
        .token(&token)
        .send(&appliance);
    assert_eq!(floors.json()["items"], json!([]));
    let stopped = appliance.gig(&["stop", &sandbox], "");
    assert_eq!(stopped.status, 0, "{stopped:?}");
    let again = appliance.run("asker");
    appliance.until_printed(&again, "over");
    assert_eq!(appliance.printed(&again), "ok 200\nok 200\nover\n");
}

#[test]
fn a_token_of_a_server_hears_of_its_own_alone() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "5m"));
    for name in ["docs", "mail"] {
        let path = format!("/{name}");
        appliance.server(name, &format!("{}; echo over", curl(origin.port, &path)));
    }
    let words = [
        "token", "add", "gateway", "--role", "editor", "--server", "docs",
    ];
    let made = appliance.gig(&words, "");
    assert_eq!(made.status, 0, "{made:?}");
    let narrow = made.output.trim();
    let started = Ask::new("POST", "/api/v1/servers/docs/start").token(narrow);
    let started = started.send(&appliance);
    assert_eq!(started.status, 201, "{started:?}");
    let docs = started.json()["id"].as_str().expect("an id").to_owned();
    let _mail = appliance.run("mail");
    let (own, others) = (
        appliance.waits(&token, "/docs"),
        appliance.waits(&token, "/mail"),
    );
    let listed = appliance.held(narrow);
    assert_eq!(listed.len(), 1, "{listed:?}");
    assert_eq!(listed[0]["id"], own.as_str());
    let deny = |id: &str| {
        let path = format!("/api/v1/held/{id}/deny");
        Ask::new("POST", &path)
            .token(narrow)
            .json(&json!({}))
            .send(&appliance)
            .status
    };
    assert_eq!(appliance.allow(narrow, &others, &json!({})).status, 404);
    assert_eq!(deny(&others), 404);
    assert_eq!(appliance.held(&token).len(), 2, "it waits still");
    // A rule is not of a server: other servers may be under the same policy.
    let ever = appliance.allow(narrow, &own, &json!({"for": "ever"}));
    assert_eq!(ever.status, 403, "{ever:?}");
    assert_eq!(appliance.allow(narrow, &own, &json!({})).status, 204);
    appliance.until_printed(&docs, "ok 200");
    assert_eq!(origin.seen(), ["GET /docs HTTP/1.1"]);
    assert_eq!(deny(&own), 404, "nobody says twice");
}

#[test]
fn a_path_that_no_rule_can_name_opens_no_host() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let origin = Origin::start();
    appliance.policy(&token, &holding(origin.port, "5m"));
    appliance.server("asker", &format!("{}; echo over", curl(origin.port, "/a*")));
    let sandbox = appliance.run("asker");
    let id = appliance.waits(&token, "/a*");
    assert_eq!(appliance.held(&token)[0]["by_path"], false);
    let wide = appliance.allow(&token, &id, &json!({"for": "ever", "width": "path"}));
    assert_eq!(wide.status, 409, "{wide:?}");
    assert!(origin.seen().is_empty());
    let kept = Ask::new("GET", "/api/v1/policies/web").token(&token);
    assert_eq!(kept.send(&appliance).json()["version"], 1);
    assert_eq!(appliance.allow(&token, &id, &json!({})).status, 204);
    appliance.until_printed(&sandbox, "over");
    assert_eq!(origin.seen(), ["GET /a* HTTP/1.1"]);
}
