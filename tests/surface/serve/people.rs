//! Users, sessions, tokens: made once, kept as digests, limited, ended, and each act recorded.

use std::fs;

use super::{Appliance, Ask, PASSWORD};

#[test]
fn the_set_up_link_makes_the_first_admin_once() {
    let appliance = Appliance::start();
    let link = appliance.setup_link();
    let fields = |name: &str| {
        let password = PASSWORD.replace(' ', "+");
        format!("name={name}&password={password}&again={password}")
    };
    let wrong = format!("/setup/set_{}_{}", "0".repeat(16), "A".repeat(43));
    assert_eq!(
        appliance
            .form(&wrong, &fields("eve"))
            .send(&appliance)
            .status,
        403
    );
    let short = "name=ana&password=short&again=short";
    assert_eq!(appliance.form(&link, short).send(&appliance).status, 422);
    let made = appliance.form(&link, &fields("ana")).send(&appliance);
    assert_eq!(made.status, 303, "{made:?}");
    let me = Ask::new("GET", "/api/v1/me")
        .cookie(&made.cookie())
        .send(&appliance);
    assert_eq!(
        me.json(),
        serde_json::json!({"name": "ana", "role": "admin"})
    );
    assert_eq!(
        appliance
            .form(&link, &fields("eve"))
            .send(&appliance)
            .status,
        403
    );
    let again = appliance.kill_and_start_again();
    assert!(!again.said().contains("/setup/"), "{}", again.said());
    assert_eq!(again.form(&link, &fields("eve")).send(&again).status, 403);
    let listed = again.gig(&["user", "ls"], "");
    assert!(
        listed.output.contains("ana") && !listed.output.contains("eve"),
        "{listed:?}"
    );
}

#[test]
fn who_guesses_passwords_waits_and_every_try_is_recorded() {
    let appliance = Appliance::start();
    appliance.first_admin();
    let token = appliance.token("auditor");
    let right = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    let signed_in = appliance.form("/sign-in", &right).send(&appliance);
    assert_eq!(signed_in.status, 303, "{signed_in:?}");
    for name in ["ana", "ana", "ana", "ana", "ana", "nobody"] {
        let wrong = appliance.form(
            "/sign-in",
            &format!("name={name}&password=wrong+wrong+wrong"),
        );
        let reply = wrong.send(&appliance);
        assert_eq!(reply.status, 403, "{reply:?}");
        assert!(
            reply
                .body
                .contains("the name, the password or the code is not right"),
            "{reply:?}"
        );
    }
    let limited = appliance.form("/sign-in", &right).send(&appliance);
    assert_eq!(limited.status, 429, "{limited:?}");
    assert!(!limited.head.contains("set-cookie"), "{limited:?}");
    let refused = appliance.records(&token, "event=auth&verdict=deny");
    assert_eq!(refused.len(), 6, "{refused:?}");
    let allowed = appliance.records(&token, "event=auth&verdict=allow&profile=ana");
    assert_eq!(allowed.len(), 2, "{allowed:?}");
    assert!(
        allowed[0]["src"]
            .as_str()
            .expect("from where")
            .starts_with("127.0.0.1")
    );
}

#[test]
fn sessions_are_seen_ended_and_end_with_a_new_password() {
    let appliance = Appliance::start();
    let first = appliance.first_admin();
    let right = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    let second = appliance.form("/sign-in", &right).send(&appliance).cookie();
    let sessions = Ask::new("GET", "/api/v1/sessions")
        .cookie(&first)
        .send(&appliance)
        .json();
    let sessions = sessions["items"].as_array().expect("sessions").clone();
    assert_eq!(sessions.len(), 2, "{sessions:?}");
    let other = sessions
        .iter()
        .find(|one| one["current"] == false)
        .expect("the other");
    let path = format!(
        "/people/sessions/{}/end",
        other["id"].as_str().expect("its id")
    );
    let ended = appliance.form(&path, "").cookie(&first).send(&appliance);
    assert_eq!(ended.status, 303, "{ended:?}");
    let me = |cookie: &str| {
        Ask::new("GET", "/api/v1/me")
            .cookie(cookie)
            .send(&appliance)
            .status
    };
    assert_eq!((me(&first), me(&second)), (200, 401));
    let changed = appliance.gig(&["user", "password", "ana"], "another horse battery\n");
    assert_eq!(changed.status, 0, "{changed:?}");
    assert_eq!(me(&first), 401);
    let third = appliance.form("/sign-in", "name=ana&password=another+horse+battery");
    let third = third.send(&appliance).cookie();
    let out = appliance
        .form("/sign-out", "")
        .cookie(&third)
        .send(&appliance);
    assert_eq!(out.status, 303, "{out:?}");
    assert!(out.head.contains("clear-site-data: \"cache\""), "{out:?}");
    assert_eq!(me(&third), 401);
}

#[test]
fn each_role_may_what_it_may_and_no_more() {
    let appliance = Appliance::start();
    let roles = ["viewer", "auditor", "editor", "approver", "admin"];
    let tokens: Vec<String> = roles.iter().map(|role| appliance.token(role)).collect();
    let document = r#"{"document": "version: 1\negress: []\n"}"#;
    let assign = r#"{"server": null, "policy": "p"}"#;
    let server = r#"{"command": ["true"]}"#;
    let user = r#"{"name": "u", "role": "admin", "password": "correct horse battery"}"#;
    // Path, what is sent, and who may, in the order of the roles.
    let table: [(&str, &str, &str, [bool; 5]); 10] = [
        ("GET", "/api/v1/policies", "", [true; 5]),
        ("GET", "/metrics", "", [true; 5]),
        ("GET", "/api/v1/audit", "", [false, true, true, true, true]),
        (
            "GET",
            "/api/v1/users",
            "",
            [false, false, false, false, true],
        ),
        (
            "GET",
            "/api/v1/tokens",
            "",
            [false, false, false, false, true],
        ),
        (
            "PUT",
            "/api/v1/policies/p",
            document,
            [false, false, true, false, true],
        ),
        (
            "PUT",
            "/api/v1/assignments",
            assign,
            [false, false, true, true, true],
        ),
        (
            "PUT",
            "/api/v1/servers/s",
            server,
            [false, false, false, false, true],
        ),
        (
            "POST",
            "/api/v1/servers/none/start",
            "",
            [false, false, true, false, true],
        ),
        (
            "POST",
            "/api/v1/users",
            user,
            [false, false, false, false, true],
        ),
    ];
    for (method, path, body, may) in table {
        for ((role, token), may) in roles.iter().zip(&tokens).zip(may) {
            let ask = Ask::new(method, path)
                .token(token)
                .header("If-None-Match", "*")
                .header("Content-Type", "application/json")
                .body(body);
            let reply = ask.send(&appliance);
            let refused = reply.status == 403;
            assert_eq!(refused, !may, "{role} {method} {path}: {reply:?}");
            assert_ne!(reply.status, 401, "{role} {method} {path}");
        }
    }
    for (role, token) in roles.iter().zip(&tokens).take(4) {
        for path in ["/people/users", "/people/tokens", "/servers"] {
            let fields = "name=x&role=admin&password=correct+horse+battery&command=true";
            let reply = appliance.form(path, fields).token(token).send(&appliance);
            assert_eq!(reply.status, 403, "{role} {path}: {reply:?}");
        }
    }
}

#[test]
fn what_a_servers_variables_and_arguments_hold_is_for_those_alone_who_may_write_it() {
    let appliance = Appliance::start();
    let admin = appliance.token("admin");
    let server = r#"{"command": ["true", "--token=v4lue-of-an-argument"], "env": {"API_KEY": "v4lue-of-a-variable"}}"#;
    let put = Ask::new("PUT", "/api/v1/servers/s")
        .token(&admin)
        .header("If-None-Match", "*")
        .header("Content-Type", "application/json")
        .body(server)
        .send(&appliance);
    assert_eq!(put.status, 201, "{put:?}");
    for role in ["admin", "viewer", "auditor", "editor", "approver"] {
        let token = match role {
            "admin" => admin.clone(),
            other => appliance.token(other),
        };
        let has_argument = |path: &str, has: bool| {
            let reply = Ask::new("GET", path).token(&token).send(&appliance);
            let found = reply.body.contains("v4lue-of-an-argument");
            assert_eq!((reply.status, found), (200, has), "{role} {path}");
        };
        for path in [
            "/api/v1/servers",
            "/api/v1/servers/s",
            "/servers",
            "/servers/s",
        ] {
            has_argument(path, role == "admin");
        }
        for path in ["/api/v1/servers", "/api/v1/servers/s", "/servers"] {
            let reply = Ask::new("GET", path).token(&token).send(&appliance);
            assert_eq!(reply.status, 200, "{role} {path}: {reply:?}");
            let api = path.starts_with("/api/");
            let sees = role == "admin" && api;
            let has = |text: &str| reply.body.contains(text);
            assert_eq!(has("v4lue-of-a-variable"), sees, "{role} {path}: {reply:?}");
            assert_eq!(
                has("(withheld)"),
                role != "admin",
                "{role} {path}: {reply:?}"
            );
            assert!(!api || has("API_KEY"), "{role} {path}: {reply:?}");
        }
    }
}

/// 256 bits in Base64.
const SECRET: usize = 43;

#[test]
fn a_removed_token_is_worth_nothing_and_nothing_kept_can_be_presented() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("viewer");
    let me = || {
        Ask::new("GET", "/api/v1/me")
            .token(&token)
            .send(&appliance)
            .status
    };
    assert_eq!(me(), 200);
    let secrets = [token.as_str(), &cookie["gig=".len()..], PASSWORD];
    for name in [
        "gig.db",
        "gig.db-wal",
        "audit/record.db",
        "audit/record.db-wal",
    ] {
        let octets = fs::read(appliance.path(name)).unwrap_or_default();
        for secret in secrets {
            // What is behind the id proves who presents it; it may hold what parts it from that.
            let behind = secret.len().saturating_sub(SECRET);
            let secret = &secret.as_bytes()[behind..];
            let held = octets.windows(secret.len()).any(|part| part == secret);
            assert!(!held, "{name}");
        }
    }
    let id = token.split('_').nth(1).expect("its id");
    let removed = appliance.gig(&["token", "rm", id], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    assert_eq!(me(), 401);
    let auditor = appliance.token("auditor");
    let admin = appliance.records(&auditor, "event=admin");
    let words: Vec<&str> = admin
        .iter()
        .filter_map(|one| one["findings"][0].as_str())
        .collect();
    assert!(
        words
            .iter()
            .any(|said| *said == format!("token {id} removed")),
        "{words:?}"
    );
    assert!(
        words.iter().any(|said| said.starts_with("set-up done")),
        "{words:?}"
    );
}

#[test]
fn everybody_changes_their_own_password_with_the_one_they_have() {
    let appliance = Appliance::start();
    let admin = appliance.first_admin();
    let added = appliance.gig(
        &["user", "add", "ben", "--role", "viewer"],
        "first of all passwords\n",
    );
    assert_eq!(added.status, 0, "{added:?}");
    let sign_in = |password: &str| {
        let form = format!("name=ben&password={}", password.replace(' ', "+"));
        appliance.form("/sign-in", &form).send(&appliance)
    };
    let ben = sign_in("first of all passwords").cookie();
    let change = |current: &str| {
        let new = "second+of+all+passwords";
        let current = current.replace(' ', "+");
        let fields = format!("current={current}&password={new}&again={new}");
        appliance
            .form("/people/password", &fields)
            .cookie(&ben)
            .send(&appliance)
    };
    assert_eq!(change("not the first password").status, 403);
    assert_eq!(change("first of all passwords").status, 303);
    let me = |cookie: &str| {
        Ask::new("GET", "/api/v1/me")
            .cookie(cookie)
            .send(&appliance)
            .status
    };
    assert_eq!((me(&ben), me(&admin)), (401, 200));
    assert_eq!(sign_in("first of all passwords").status, 403);
    assert_eq!(sign_in("second of all passwords").status, 303);
}
