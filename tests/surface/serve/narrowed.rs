//! Service tokens that are narrowed: to some of their role, to some servers, and to nothing more by any
//! path that the API has.

use serde_json::{Value, json};

use super::{Appliance, Ask, OWN_PASSWORD, PASSWORD};

/// A token as `gig token add` makes it.
fn made(appliance: &Appliance, words: &[&str]) -> String {
    let words = [&["token", "add"], words].concat();
    let made = appliance.gig(&words, "");
    assert_eq!(made.status, 0, "{made:?}");
    made.output.trim().to_owned()
}

fn status(appliance: &Appliance, token: &str, method: &str, path: &str) -> u16 {
    // What would be taken of who may.
    let body = match path {
        "/api/v1/tokens" => json!({"name": "wider", "role": "admin"}),
        "/api/v1/servers/mail" => json!({"command": ["/bin/true"]}),
        _ => json!({}),
    };
    let ask = Ask::new(method, path).token(token).json(&body);
    ask.send(appliance).status
}

#[test]
fn a_token_of_a_server_reaches_that_server_and_nothing_else() {
    let appliance = Appliance::start();
    for name in ["docs", "mail"] {
        let added = appliance.gig(&["server", "add", name, "--", "/bin/sleep", "1"], "");
        assert_eq!(added.status, 0, "{added:?}");
    }
    let token = made(
        &appliance,
        &["gateway", "--role", "admin", "--server", "docs"],
    );
    let ask = |path: &str| Ask::new("GET", path).token(&token).send(&appliance);
    let listed = ask("/api/v1/servers").json();
    let names: Vec<&Value> = listed["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert_eq!(names, ["docs"]);
    // What is in force for others there, and that they are, is not for it.
    let policy = appliance.path("web.yaml");
    std::fs::write(&policy, "version: 1\n").expect("write");
    let policy = policy.to_str().expect("UTF-8");
    for words in [
        &["policy", "apply", "web", policy][..],
        &["policy", "assign", "web", "--for", "somebody"],
    ] {
        let done = appliance.gig(words, "");
        assert_eq!(done.status, 0, "{done:?}");
    }
    let one = ask("/api/v1/servers/docs");
    assert_eq!(one.status, 200);
    assert!(!one.body.contains("somebody"), "{one:?}");
    let admin = appliance.token("admin");
    let whole = Ask::new("GET", "/api/v1/servers/docs")
        .token(&admin)
        .send(&appliance);
    assert!(whole.body.contains("somebody"), "{whole:?}");
    for (method, path, expected) in [
        ("GET", "/api/v1/servers/mail", 404),
        ("POST", "/api/v1/servers/mail/start", 404),
        ("POST", "/sandbox/mail/mcp", 404),
        ("DELETE", "/api/v1/servers/docs", 403),
        ("PUT", "/api/v1/servers/mail", 403),
        ("GET", "/", 403),
        ("GET", "/people", 403),
        ("GET", "/metrics", 403),
    ] {
        assert_eq!(
            status(&appliance, &token, method, path),
            expected,
            "{method} {path}"
        );
    }
    // Whatever path the API has or gets: without a server in it, it is closed.
    let reader = appliance.token("viewer");
    let described = Ask::new("GET", "/api/v1/openapi.json")
        .token(&reader)
        .send(&appliance);
    let described = described.json();
    let mut closed = 0;
    for (path, methods) in described["paths"].as_object().unwrap() {
        let open = [
            "/api/v1/me",
            "/api/v1/servers",
            "/api/v1/sandboxes",
            "/api/v1/held",
        ];
        // Whoever answers by a webhook signs instead, and a token is nothing there.
        let signed = path.ends_with("/answer");
        if signed || !path.starts_with("/api/") || open.iter().any(|one| path.starts_with(one)) {
            continue;
        }
        let filled = path
            .replace("{name}", "docs")
            .replace("{id}", "1")
            .replace("{version}", "1");
        for method in methods.as_object().unwrap().keys() {
            let got = status(&appliance, &token, &method.to_uppercase(), &filled);
            assert_eq!(got, 403, "{method} {path}");
            closed += 1;
        }
    }
    assert!(closed > 20, "{closed}");
}

#[test]
fn a_scoped_token_may_what_its_scopes_say_and_makes_nothing_wider() {
    let appliance = Appliance::start();
    let admin = appliance.first_admin();
    let token = made(
        &appliance,
        &["ci", "--role", "admin", "--scope", "read,audit"],
    );
    for (method, path, expected) in [
        ("GET", "/api/v1/policies", 200),
        ("GET", "/api/v1/audit", 200),
        ("GET", "/api/v1/users", 403),
        ("POST", "/api/v1/tokens", 403),
        ("DELETE", "/api/v1/servers/docs", 403),
        ("GET", "/", 403),
    ] {
        assert_eq!(
            status(&appliance, &token, method, path),
            expected,
            "{method} {path}"
        );
    }
    let origin = format!("http://{}", appliance.address);
    let make = |wanted: &Value| {
        let ask = Ask::new("POST", "/api/v1/tokens")
            .cookie(&admin)
            .json(wanted);
        ask.header("Origin", &origin).send(&appliance)
    };
    for (role, scopes, servers) in [
        ("auditor", json!(["read", "servers:run"]), json!([])),
        ("admin", json!(["people:write"]), json!([])),
        ("admin", json!(["secrets:write"]), json!(["docs"])),
        ("admin", json!([]), json!(["a b"])),
    ] {
        let wanted = json!({"name": "x", "role": role, "scopes": scopes, "servers": servers});
        let refused = make(&wanted);
        assert_eq!(refused.status, 422, "{refused:?}");
    }
    let added = appliance.gig(&["server", "add", "docs", "--", "/bin/sleep", "1"], "");
    assert_eq!(added.status, 0, "{added:?}");
    let wanted =
        json!({"name": "gw", "role": "editor", "scopes": ["servers:run"], "servers": ["docs"]});
    assert_eq!(make(&wanted).status, 201);
    let listed = Ask::new("GET", "/api/v1/tokens")
        .cookie(&admin)
        .send(&appliance)
        .json();
    let listed = listed["items"].as_array().unwrap();
    let gateway = listed.iter().find(|one| one["name"] == "gw").unwrap();
    assert_eq!(
        (&gateway["scopes"], &gateway["servers"]),
        (&json!(["servers:run"]), &json!(["docs"]))
    );
    let page = Ask::new("GET", "/people").cookie(&admin).send(&appliance);
    assert!(page.body.contains("server docs") && page.body.contains("servers:run"));
    let told = appliance
        .records(&token, "event=admin")
        .iter()
        .map(Value::to_string)
        .collect::<String>();
    assert!(
        told.contains("made as editor, narrowed to servers:run, for servers docs"),
        "{told}"
    );
    // Narrowed it stays, over a kill.
    let again = appliance.kill_and_start_again();
    assert_eq!(status(&again, &token, "GET", "/api/v1/users"), 403);
    assert_eq!(status(&again, &token, "GET", "/api/v1/policies"), 200);
}

#[test]
fn a_token_that_could_do_nothing_is_refused_by_api_console_and_command() {
    let appliance = Appliance::start();
    let admin = appliance.first_admin();
    let origin = format!("http://{}", appliance.address);
    for (days, scopes, servers) in [
        (json!(0), json!([]), json!([])),
        (json!(1), json!([]), json!(["docs"])),
        (json!(1), json!(["read", "audit"]), json!(["docs"])),
        (json!(1), json!(["profiles:oversee"]), json!([])),
        (json!(1), json!(["profiles:act"]), json!([])),
    ] {
        let wanted = json!({"name": "x", "role": "admin", "days": days, "scopes": scopes, "servers": servers});
        let ask = Ask::new("POST", "/api/v1/tokens")
            .cookie(&admin)
            .json(&wanted);
        let refused = ask.header("Origin", &origin).send(&appliance);
        assert_eq!(refused.status, 422, "{wanted}: {refused:?}");
    }
    let typed = [
        ("days=0", "for a day at least"),
        ("days=1&servers=docs", "no server docs"),
        ("days=1&scopes=profiles:oversee", "does nothing by itself"),
    ];
    for (fields, words) in typed {
        let fields = format!("name=x&role=admin&{fields}");
        let refused = appliance.form("/people/tokens", &fields).cookie(&admin);
        let refused = refused.send(&appliance);
        assert!(
            refused.body.contains(words) && !refused.body.contains("shown this once"),
            "{fields}: {refused:?}"
        );
    }
    let unknown = ["token", "add", "x", "--role", "admin", "--server", "docs"];
    let unknown = appliance.gig(&unknown, "");
    assert!(
        unknown.status != 0 && unknown.errors.contains("no server docs"),
        "{unknown:?}"
    );
    let kept = appliance.gig(&["token", "ls"], "");
    assert!(kept.output.contains("there is no token"), "{kept:?}");
}

#[test]
fn whoever_changes_a_password_may_end_their_tokens_with_it() {
    let appliance = Appliance::start();
    let admin = appliance.first_admin();
    let origin = format!("http://{}", appliance.address);
    let mint = |name: &str, cookie: &str| {
        let wanted = json!({"name": name, "role": "viewer"});
        let ask = Ask::new("POST", "/api/v1/tokens")
            .cookie(cookie)
            .json(&wanted);
        let made = ask.header("Origin", &origin).send(&appliance);
        made.json()["token"].as_str().unwrap().to_owned()
    };
    let first = mint("one", &admin);
    let [old, new] = [PASSWORD, OWN_PASSWORD].map(|one| one.replace(' ', "+"));
    let stay = format!("current={old}&password={new}&again={new}");
    let changed = appliance
        .form("/people/password", &stay)
        .cookie(&admin)
        .send(&appliance);
    assert_eq!(changed.status, 303, "{changed:?}");
    assert_eq!(status(&appliance, &first, "GET", "/api/v1/me"), 200);
    let cookie = appliance.sign_in("ana", OWN_PASSWORD);
    let other = appliance.token("viewer");
    let end = format!("current={new}&password={old}&again={old}&end_tokens=yes");
    let changed = appliance
        .form("/people/password", &end)
        .cookie(&cookie)
        .send(&appliance);
    assert_eq!(changed.status, 303, "{changed:?}");
    assert_eq!(status(&appliance, &first, "GET", "/api/v1/me"), 401);
    assert_eq!(
        status(&appliance, &other, "GET", "/api/v1/me"),
        200,
        "somebody else made it"
    );
    let cookie = appliance.sign_in("ana", PASSWORD);
    let second = mint("two", &cookie);
    let lost = appliance.gig(&["user", "password", "ana", "--end-tokens"], OWN_PASSWORD);
    assert_eq!(lost.status, 0, "{lost:?}");
    assert_eq!(status(&appliance, &second, "GET", "/api/v1/me"), 401);
}
