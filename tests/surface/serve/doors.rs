//! What is served to whom: nothing to strangers, headers on everything, and a data directory of its own.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::{Appliance, Ask, PASSWORD, command};
use crate::answer;

/// Everything that is not public.
const CLOSED: [&str; 36] = [
    "/",
    "/policies",
    "/policies/p",
    "/policies/p/edit",
    "/policies/p/versions/1",
    "/approvals",
    "/approvals/1",
    "/audit",
    "/audit/1-1",
    "/audit/1-1/allow",
    "/sandboxes",
    "/servers",
    "/people",
    "/secrets",
    "/secrets/TOKEN",
    "/settings",
    "/metrics",
    "/sandbox/docs/mcp",
    "/sandbox/docs",
    "/no-such-page",
    "/api/v1/me",
    "/api/v1/sessions",
    "/api/v1/users",
    "/api/v1/tokens",
    "/api/v1/policies",
    "/api/v1/assignments",
    "/api/v1/proposals",
    "/api/v1/two-person-rule",
    "/api/v1/audit",
    "/api/v1/audit/export/jsonl",
    "/api/v1/audit/proof",
    "/api/v1/servers",
    "/api/v1/sandboxes",
    "/api/v1/secrets",
    "/api/v1/secrets/TOKEN",
    "/api/v1/openapi.json",
];

#[test]
fn strangers_are_answered_nothing_and_everything_is_dressed() {
    let appliance = Appliance::start();
    let wrong = format!("gig_{}_{}", "0".repeat(16), "A".repeat(43));
    for path in CLOSED {
        for ask in [
            Ask::new("GET", path),
            Ask::new("POST", path),
            Ask::new("GET", path).token(&wrong),
            Ask::new("GET", path).cookie("gig=ses_0_0"),
        ] {
            let reply = ask.send(&appliance);
            let refused = reply.status == 401
                || (reply.status == 303 && reply.head.contains("location: /sign-in"));
            assert!(refused, "{path}: {reply:?}");
            assert!(!reply.body.contains("<table"), "{path}: {reply:?}");
            assert_dressed(path, &reply.head);
        }
    }
    for path in [
        "/sign-in",
        "/healthz",
        "/readyz",
        "/style.css",
        "/icon.svg",
        "/setup/x",
    ] {
        assert_dressed(path, &Ask::new("GET", path).send(&appliance).head);
    }
    let alive = Ask::new("GET", "/healthz").send(&appliance);
    assert_eq!(
        (alive.status, alive.json()["status"].as_str()),
        (200, Some("ok"))
    );
}

fn assert_dressed(path: &str, head: &str) {
    for header in [
        "content-security-policy: default-src 'none'; style-src 'self'; ",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: DENY",
        "referrer-policy: same-origin",
    ] {
        assert!(head.contains(header), "{path} without {header}: {head}");
    }
    assert!(!head.contains("unsafe-inline"), "{path}: {head}");
}

/// As after a name of somebody else's was made to lead here (DNS rebinding).
#[test]
fn a_name_that_is_not_its_own_is_answered_nothing() {
    let appliance = Appliance::start();
    for path in ["/sign-in", "/setup/x", "/", "/no-such-page"] {
        for method in ["GET", "POST"] {
            let reply = Ask::new(method, path)
                .header("Host", "evil.example")
                .send(&appliance);
            assert_eq!(reply.status, 421, "{method} {path}: {reply:?}");
            assert_dressed(path, &reply.head);
        }
    }
    for (path, host) in [("/healthz", "gig.example"), ("/sign-in", "localhost:1")] {
        let reply = Ask::new("GET", path).header("Host", host).send(&appliance);
        assert_eq!(reply.status, 200, "{host}: {reply:?}");
    }
}

#[test]
fn what_another_site_sends_with_a_session_changes_nothing() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let add = || {
        Ask::new("POST", "/api/v1/tokens")
            .cookie(&cookie)
            .json(&serde_json::json!({"name": "t", "role": "admin"}))
    };
    let own = format!("http://{}", appliance.address);
    let refused = [
        add(),
        add().header("Origin", "http://evil.example"),
        add().header("Origin", "null"),
        add()
            .header("Origin", &own)
            .header("Sec-Fetch-Site", "cross-site"),
        add()
            .header("Origin", &own)
            .header("Sec-Fetch-Site", "same-site"),
    ];
    for ask in refused {
        assert_eq!(ask.send(&appliance).status, 403);
    }
    let listed = Ask::new("GET", "/api/v1/tokens")
        .cookie(&cookie)
        .send(&appliance);
    assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(0));
    assert_eq!(add().header("Origin", &own).send(&appliance).status, 201);
    // Nor signs it a browser in.
    let form = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    let foreign = Ask::new("POST", "/sign-in")
        .header("Origin", "http://evil.example")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(&form)
        .send(&appliance);
    assert_eq!(foreign.status, 403, "{foreign:?}");
    assert!(!foreign.head.contains("set-cookie"), "{foreign:?}");
}

#[test]
fn too_much_is_refused_and_gig_goes_on() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let long = "x".repeat(300 * 1024);
    let body = serde_json::json!({"name": "t", "role": "viewer", "more": long});
    let reply = Ask::new("POST", "/api/v1/tokens")
        .token(&token)
        .json(&body)
        .send(&appliance);
    assert!(matches!(reply.status, 413 | 0), "{reply:?}");
    let path = format!("/{}", "x".repeat(100 * 1024));
    let reply = Ask::new("GET", &path).send(&appliance);
    assert!(matches!(reply.status, 414 | 431 | 400 | 0), "{reply:?}");
    assert_eq!(Ask::new("GET", "/healthz").send(&appliance).status, 200);
}

#[test]
fn gig_serves_from_a_directory_of_its_own_once_and_never_in_clear_text() {
    let appliance = Appliance::start();
    let refused = |words: &[&str], said: &str| {
        let mut command = command(&appliance.folder, None);
        command.args(words);
        let answer = answer(command, "");
        assert_eq!(answer.status, 125, "{answer:?}");
        assert!(answer.errors.contains(said), "{answer:?}");
    };
    refused(
        &["serve", "--listen", "127.0.0.1:0"],
        "another gig serves from",
    );
    refused(&["serve", "--listen", "0.0.0.0:0"], "in clear text");
    for url in ["http://gig.example", "http://10.0.0.1:8080"] {
        let words = ["serve", "--listen", "0.0.0.0:0", "--public-url", url];
        refused(&words, "in clear text");
        let words = ["serve", "--listen", "127.0.0.1:0", "--public-url", url];
        refused(&words, "in clear text");
    }
    let other = tempfile::tempdir().expect("a folder");
    let mut taken = command(&other, None);
    taken.args(["serve", "--listen", &appliance.address]);
    let taken = answer(taken, "");
    assert_eq!(taken.status, 125, "{taken:?}");
    assert!(taken.errors.contains("GIG_LISTEN"), "{taken:?}");
    let open = tempfile::tempdir().expect("a folder");
    let folder = open.path().join("gig");
    fs::create_dir(&folder).expect("make it");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("open it");
    let mut shared = command(&open, None);
    shared.args(["serve", "--listen", "127.0.0.1:0"]);
    let shared = answer(shared, "");
    assert_eq!(shared.status, 125, "{shared:?}");
    assert!(shared.errors.contains("chmod 700"), "{shared:?}");
    let stores = ["gig.db", "audit/record.db"].into_iter();
    let stores = stores.filter(|_| appliance.database.is_none());
    for name in ["control.sock", "serve.lock"].into_iter().chain(stores) {
        let mode = fs::metadata(appliance.path(name))
            .expect(name)
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{name}: {mode:o}");
    }
}

#[test]
fn nobody_in_a_sandbox_is_the_owner_of_an_appliance_whose_folder_it_is_shown() {
    let appliance = Appliance::start();
    let set = appliance.gig(&["secret", "set", "TOKEN"], "value-behind-the-door");
    assert_eq!(set.status, 0, "{set:?}");
    let socket = appliance.path("control.sock").display().to_string();
    let ask = ["curl", "-s", "-m", "20", "--unix-socket", &socket];
    let ask = [&ask[..], &["http://gig/api/v1/me"]].concat();
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(words[0]);
        command.args(&words[1..]);
        answer(command, "")
    };
    let owner = run(&ask);
    assert!(
        owner.output.contains("owner of this machine (uid "),
        "{owner:?}"
    );
    // Whose process ids are another namespace's.
    let apart = ["unshare", "--user", "--map-current-user", "--pid", "--fork"];
    let refused = run(&[&apart[..], &["--mount-proc"], &ask].concat());
    assert!(
        refused.status != 0 && refused.output.is_empty(),
        "{refused:?}"
    );
    appliance.until("it says so", |one| {
        one.said().contains("somebody in a sandbox or container")
    });
    // By another gig, which knows nothing of this one.
    let other = tempfile::tempdir().expect("a folder");
    let shown = appliance.folder.path().display().to_string();
    let look = format!(
        "{}; echo status=$?; cat {shown}/gig/master.key {shown}/gig/gig.db",
        ask.join(" ")
    );
    let mut sandboxed = command(&other, None);
    sandboxed.args(["run", "--ro", &shown, "--", "/bin/sh", "-c", &look]);
    let sandboxed = answer(sandboxed, "");
    assert!(
        sandboxed.output.starts_with("status=") && !sandboxed.output.starts_with("status=0"),
        "{sandboxed:?}"
    );
    assert_eq!(sandboxed.output.lines().count(), 1, "{sandboxed:?}");
}

#[test]
fn behind_tls_the_cookie_is_bound_to_its_host_and_people_are_told_apart() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = "https://gig.example";
    let front = ["--public-url", url, "--front", "127.0.0.1"];
    let appliance = Appliance::start_in(folder, &front);
    let link = appliance.setup_link();
    assert!(
        appliance.said().contains(&format!("{url}/setup/")),
        "{}",
        appliance.said()
    );
    let from = |path: &str, fields: &str, origin: &str, address: &str| {
        Ask::new("POST", path)
            .header("Origin", origin)
            .header("Content-Type", "application/x-www-form-urlencoded")
            // What a client claims stands before what the front adds.
            .header("X-Forwarded-For", &format!("203.0.113.9, {address}"))
            .body(fields)
            .send(&appliance)
    };
    let password = PASSWORD.replace(' ', "+");
    let first = format!("name=ana&password={password}&again={password}");
    let plain = format!("http://{}", appliance.address);
    assert_eq!(from(&link, &first, &plain, "192.0.2.1").status, 403);
    let made = from(&link, &first, url, "192.0.2.1");
    assert_eq!(made.status, 303, "{made:?}");
    assert!(made.cookie().starts_with("__Host-gig=ses_"), "{made:?}");
    assert!(made.head.contains("; Secure"), "{made:?}");
    assert!(
        made.head.contains("strict-transport-security: max-age="),
        "{made:?}"
    );
    let right = format!("name=ana&password={password}");
    for _ in 0..5 {
        let wrong = from(
            "/sign-in",
            "name=ana&password=wrong+wrong+wrong",
            url,
            "192.0.2.7",
        );
        assert_eq!(wrong.status, 403, "{wrong:?}");
    }
    assert_eq!(from("/sign-in", &right, url, "192.0.2.7").status, 429);
    assert_eq!(from("/sign-in", &right, url, "192.0.2.8").status, 303);
    let auditor = appliance.token("auditor");
    let refused = appliance.records(&auditor, "event=auth&verdict=deny");
    assert!(
        refused[0]["src"]
            .as_str()
            .expect("from where")
            .starts_with("192.0.2.7")
    );
}
