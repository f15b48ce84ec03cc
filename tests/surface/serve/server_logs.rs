//! What servers print: kept, searched, followed, and harmless to whoever looks at it.

use std::{
    io::{BufRead as _, BufReader},
    process::Stdio,
};

use serde_json::Value;

use super::{Appliance, Ask, command};

/// Prints what a terminal, a page and a log should survive.
const HOSTILE: &str =
    r"printf 'plain one\n\033[31mred\033[0m <b>bold</b> \342\200\256 turned\nlast two\n'";

fn add(appliance: &Appliance, name: &str, script: &str) {
    let words = ["server", "add", name, "--", "/bin/sh", "-c", script];
    let added = appliance.gig(&words, "");
    assert_eq!(added.status, 0, "{added:?}");
}

fn texts(output: &str) -> Vec<String> {
    let document: Value = serde_json::from_str(output).expect("JSON");
    let lines = document["lines"].as_array().expect("lines").iter();
    lines
        .map(|line| line["text"].as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn what_a_server_printed_is_found_after_a_restart_and_shown_escaped() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("auditor");
    add(&appliance, "loud", HOSTILE);
    add(&appliance, "other", "echo not this");
    let sandbox = appliance.run("loud");
    appliance.until("it ends", |one| one.ended(&sandbox).is_some());
    let second = appliance.run("loud");
    let third = appliance.run("other");
    for id in [&sandbox, &second, &third] {
        appliance.until("it ends", |one| one.ended(id).is_some());
    }
    let appliance = appliance.kill_and_start_again();
    let all = appliance.gig(&["logs", "loud", "--since", "1h", "--json"], "");
    assert_eq!(all.status, 0, "{all:?}");
    assert_eq!(texts(&all.output).len(), 6, "{all:?}");
    let found = appliance.gig(&["logs", "loud", "--grep", "PLAIN", "--json"], "");
    assert_eq!(texts(&found.output), ["plain one", "plain one"]);
    // On a terminal or not, a line of what was kept obeys nobody.
    let red = appliance.gig(&["logs", "loud", "--grep", "red"], "");
    assert!(red.output.contains("<b>bold</b>"), "{red:?}");
    assert!(!red.output.contains(['\u{1b}', '\u{202e}']), "{red:?}");
    // Nothing is remembered of it, and all of it is kept.
    let name = appliance.gig(&["logs", "loud"], "");
    assert!(name.output.contains("last two"), "{name:?}");

    let path = format!("/api/v1/servers/loud/log?sandbox={second}&limit=2");
    let page = Ask::new("GET", &path).token(&token).send(&appliance);
    assert_eq!(page.status, 200, "{page:?}");
    let page = page.json();
    assert_eq!(page["lines"][0]["stream"], "output", "{page}");
    assert_eq!(
        (page["lines"].as_array().map(Vec::len), &page["more"]),
        (Some(2), &true.into())
    );
    let next = page["next"].as_str().expect("a cursor");
    let path = format!("{path}&after={next}");
    let rest = Ask::new("GET", &path).token(&token).send(&appliance).json();
    assert_eq!(rest["lines"][0]["text"], "last two", "{rest}");

    let shown = Ask::new("GET", "/servers/loud/log?grep=bold").cookie(&cookie);
    let shown = shown.send(&appliance);
    assert_eq!(shown.status, 200, "{shown:?}");
    assert!(shown.body.contains("⟨U+001B⟩[31mred"), "{shown:?}");
    assert!(shown.body.contains("⟨U+202E⟩"), "{shown:?}");
    assert!(
        !shown.body.contains("<b>bold") && !shown.body.contains("plain one"),
        "{shown:?}"
    );
}

#[test]
fn what_servers_print_is_for_who_may_read_the_record_and_nobody_else() {
    let appliance = Appliance::start();
    add(&appliance, "loud", HOSTILE);
    let tokens = ["viewer", "auditor", "admin"].map(|role| (role, appliance.token(role)));
    let ask = |path: &str, role: &str| {
        let token = tokens.iter().find(|(of, _)| *of == role);
        let (_, token) = token.expect("a token");
        Ask::new("GET", path).token(token).send(&appliance).status
    };
    assert_eq!(ask("/api/v1/servers/loud/log", "viewer"), 403);
    assert_eq!(ask("/servers/loud/log", "viewer"), 403);
    assert_eq!(ask("/api/v1/servers/loud/log", "auditor"), 200);
    // What is no name leads to no file.
    for path in ["..%2Fvault", "..", "%2e%2e", "a%2F..%2F..%2Faudit"] {
        let status = ask(&format!("/api/v1/servers/{path}/log"), "admin");
        assert!(matches!(status, 404 | 422), "{path}: {status}");
    }
    for query in ["after=x", "since=soon", "sandbox=1", "limit=x", "other=1"] {
        let status = ask(&format!("/api/v1/servers/loud/log?{query}"), "admin");
        assert_eq!(status, 400, "{query}");
    }
}

#[test]
fn what_is_printed_from_now_on_is_followed() {
    let appliance = Appliance::start();
    add(
        &appliance,
        "counter",
        "n=0; while :; do n=$((n+1)); echo line $n; sleep 0.3; done",
    );
    let sandbox = appliance.run("counter");
    let mut following = command(&appliance.folder, None)
        .args(["logs", &sandbox, "--follow", "--grep", "line"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("start gig logs");
    let lines = BufReader::new(following.stdout.take().expect("its output")).lines();
    let numbers: Vec<u32> = lines
        .take(8)
        .map(|line| {
            let line = line.expect("a line");
            let number = line.rsplit(' ').next().expect("a number");
            number.parse().expect("a number")
        })
        .collect();
    following.kill().expect("end it");
    following.wait().expect("its end");
    // Each once, in order, over several looks.
    assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
}
