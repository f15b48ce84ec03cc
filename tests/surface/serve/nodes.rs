//! Several appliances on one PostgreSQL: what is changed on one is in force on the others, whoever dies.

use std::{sync::atomic::Ordering, thread, time::Duration};

use gig_tests::lab::postgres::Postgres;
use serde_json::{Value, json};

use super::{Appliance, Ask, PASSWORD, two_clicks::origin};

/// A node on `server`, with a data directory of its own.
pub(super) fn node(server: &Postgres) -> Appliance {
    let folder = tempfile::tempdir().expect("a folder");
    Appliance::start_on(folder, &[], Some(server.url("postgres")))
}

impl Appliance {
    fn save(&self, token: &str, on: u64, document: &str) {
        let put = Ask::new("PUT", "/api/v1/policies/web").token(token);
        let put = put.header("If-Match", &format!("\"{on}\""));
        let reply = put.json(&json!({"document": document})).send(self);
        assert_eq!(reply.status, 200, "{reply:?}");
    }

    /// What sandboxes of the fleet were told, newest first; read beside it.
    fn decided(&self, words: &[&str]) -> Vec<Value> {
        let mut all = vec!["audit", "search", "postgres:", "--json"];
        all.extend(words);
        let found = self.gig(&all, "");
        assert!(found.status <= 1, "{found:?}");
        let document: Value = serde_json::from_str(&found.output).expect("JSON");
        document["records"].as_array().expect("records").clone()
    }

    fn until_decided(&self, what: &str, words: &[&str]) {
        self.until(what, |one| !one.decided(words).is_empty());
    }
}

const NOTHING: &str = "version: 1\negress: []\n";
const WANTED: &str = "version: 1\negress:\n  - host: wanted.test\n";
/// A port of this machine, opened on purpose.
fn local(port: u16) -> String {
    format!(
        "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, allow_private: [127.0.0.1/32]}}\n"
    )
}

/// Asks there until it is ended.
fn asking(port: u16) -> String {
    format!(
        "export NO_PROXY= no_proxy=; while :; do curl -s -m 20 -o /dev/null -x \"$HTTPS_PROXY\" \
         http://127.0.0.1:{port}/x; sleep 0.1; done"
    )
}

/// Asks until it is ended.
const ASKER: &str =
    "echo it began; while :; do curl -s -m 20 -o /dev/null http://wanted.test/; sleep 0.1; done";

#[test]
fn a_change_on_one_node_is_enforced_on_the_other_and_a_dead_node_loses_nothing() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    // Who signs in on one is known to the other; the newest link is the one that counts.
    let cookie = two.first_admin();
    for node in [&one, &two] {
        let me = Ask::new("GET", "/api/v1/me").cookie(&cookie).send(node);
        assert_eq!(me.json(), json!({"name": "ana", "role": "admin"}));
    }
    let token = one.token("admin");
    one.policy(&token, NOTHING);
    one.server("asker", ASKER);
    let sandbox = two.run("asker");
    let about = ["--sandbox", &sandbox, "--host", "wanted.test"];
    let told = |verdict: &'static str| [&about[..], &["--verdict", verdict]].concat();
    two.until_decided("it is denied", &told("deny"));
    one.save(&token, 1, WANTED);
    two.until_decided("it is allowed", &told("allow"));
    let allowed = &two.decided(&told("allow"))[0];
    assert_eq!(allowed["policy_version"], 2, "{allowed}");
    one.save(&token, 2, NOTHING);
    two.until("it is denied again", |two| {
        let denied = two.decided(&told("deny"));
        denied[0]["policy_version"] == 3
    });
    // A search on either finds what was decided on both, and says where.
    let names = |node: &Appliance| {
        let found = node.records(&token, "event=policy.change").into_iter();
        let sandboxes = node.records(&token, &format!("sandbox={sandbox}&limit=1"));
        let names = found.chain(sandboxes).map(|one| one["node"].to_string());
        names.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(names(&one).len(), 2, "{:?}", names(&one));
    assert_eq!(names(&one), names(&two));
    let of_one = names(&one).into_iter().next().expect("a name");
    let asked = format!("node={}&limit=1", of_one.trim_matches('"'));
    assert_eq!(two.records(&token, &asked)[0]["node"].to_string(), of_one);
    // One dies at once; what it had acknowledged is there, for the other and for itself.
    let one = one.kill_and_start_again();
    two.save(&token, 3, WANTED);
    let listed = Ask::new("GET", "/api/v1/policies/web/versions").token(&token);
    let listed = listed.send(&one).json();
    let versions = listed["items"].as_array().expect("versions").clone();
    let numbers: Vec<_> = versions.iter().map(|one| one["version"].clone()).collect();
    assert_eq!(numbers, [4, 3, 2, 1], "{listed}");
    let right = format!("name=ana&password={}", PASSWORD.replace(' ', "+"));
    let signed_in = one.form("/sign-in", &right).send(&one);
    assert_eq!(signed_in.status, 303, "{signed_in:?}");
    // A server that is forgotten on one node ends on the other.
    let removed = one.gig(&["server", "rm", "asker"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    two.until("it ends with its server", |two| {
        two.ended(&sandbox).is_some()
    });
}

#[test]
fn without_its_database_a_node_allows_nothing_and_goes_on_when_it_is_back() {
    let mut server = Postgres::start();
    let node = node(&server);
    let token = node.token("admin");
    // What really goes out is counted where it arrives.
    let (port, seen) = origin();
    node.policy(&token, &local(port));
    node.server("asker", &asking(port));
    let sandbox = node.run("asker");
    let about = ["--sandbox", &sandbox, "--host", "127.0.0.1", "--verdict"];
    node.until_decided("it is allowed", &[&about[..], &["allow"]].concat());
    node.until("it arrives", |_| seen.load(Ordering::SeqCst) > 3);
    server.crash();
    // Nothing can be recorded, so that nothing is let out, and it says so.
    node.until("it is not ready", |node| {
        let ready = Ask::new("GET", "/readyz").send(node);
        ready.status == 503 && ready.json()["parts"]["record"] == false
    });
    // A server that is back within three seconds is only waited for: this one is not.
    node.until("it says so", |node| {
        node.said()
            .contains("the record cannot be written: egress is refused")
    });
    // It asks on, ten times a second.
    let arrived = seen.load(Ordering::SeqCst);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(seen.load(Ordering::SeqCst), arrived, "nothing is let out");
    assert_eq!(Ask::new("GET", "/healthz").send(&node).status, 200);
    let asked = Ask::new("GET", "/api/v1/policies").token(&token);
    let answer = asked.send(&node);
    assert_eq!(answer.status, 503, "worth another try: {answer:?}");
    assert!(
        answer.head.to_lowercase().contains("retry-after: 1"),
        "{answer:?}"
    );
    let refused = node.gig(&["server", "start", "asker"], "");
    assert_eq!(refused.status, 125, "{refused:?}");
    server.start_again();
    node.until("it is ready again", |node| {
        Ask::new("GET", "/readyz").send(node).status == 200
    });
    let newest = || {
        let allowed = node.decided(&[&about[..], &["allow"]].concat());
        allowed[0]["seq"].as_u64().expect("a number")
    };
    let before = newest();
    node.until("it is allowed again", |_| newest() > before);
    node.until("it arrives again", |_| {
        seen.load(Ordering::SeqCst) > arrived
    });
    // What was refused meanwhile is told, and the chain holds.
    let gaps = node.decided(&["--event", "audit.gap"]);
    let told = gaps.last().expect("a gap")["findings"].to_string();
    assert!(told.contains("records were refused"), "{gaps:?}");
    let whole = node.gig(&["audit", "verify", "postgres:"], "");
    assert_eq!(whole.status, 0, "{whole:?}");
    node.save(&token, 1, NOTHING);
    let denied = [&about[..], &["deny", "--policy", "web"]].concat();
    node.until_decided("changes are in force again", &denied);
}

/// `one` has it and keeps what it prints, and the other asks that one for it.
fn what_it_printed_is_read_at_any_node(
    (one, two): (&Appliance, &Appliance),
    token: &str,
    sandbox: &str,
) {
    let ask = |node: &Appliance, path: &str| Ask::new("GET", path).token(token).send(node);
    let name = |node: &Appliance| {
        let nodes = ask(node, "/api/v1/nodes").json();
        let mut nodes = nodes["items"].as_array().expect("nodes").iter();
        let own = nodes.find(|one| one["here"] == true).expect("itself");
        own["name"].as_str().expect("a name").to_owned()
    };
    let (here, there) = (name(one), name(two));
    let path = format!("/api/v1/sandboxes/{sandbox}/log");
    let own = ask(one, &path);
    assert_eq!(own.status, 200);
    assert!(own.body.contains("it began"), "{own:?}");
    let read = ask(two, &path);
    assert_eq!((read.status, &read.body), (200, &own.body), "{read:?}");
    let search = "/api/v1/servers/asker/log";
    let searched = ask(two, search).json();
    let (node, elsewhere) = (&searched["node"], &searched["elsewhere"]);
    assert_eq!((node, elsewhere), (&json!(there), &json!([here])));
    assert_eq!(searched["lines"], json!([]));
    let other = ask(two, &format!("{search}?node={here}&grep=IT+BEGAN")).json();
    let (node, elsewhere) = (&other["node"], &other["elsewhere"]);
    assert_eq!((node, elsewhere), (&json!(here), &json!([there])));
    assert_eq!(other["lines"][0]["text"], "it began", "{other}");
    assert_eq!(other["lines"][0]["sandbox"], sandbox, "{other}");
    let nobody = ask(two, &format!("{search}?node=nobody"));
    assert_eq!(nobody.status, 404, "{nobody:?}");
    let page = ask(two, &format!("/servers/asker/log?node={here}")).body;
    assert!(page.contains("it began"), "{page}");
    let page = ask(two, &format!("/sandboxes/{sandbox}")).body;
    assert!(page.contains("it began"), "{page}");
    let link = format!("log?sandbox={sandbox}&amp;node={here}");
    assert!(page.contains(&link), "{page}");
    let printed = two.gig(&["logs", "asker", "--grep", "began", "--json"], "");
    assert_eq!(printed.status, 0, "{printed:?}");
    let printed: Value = serde_json::from_str(&printed.output).expect("JSON");
    assert_eq!(printed["lines"][0]["text"], "it began", "{printed}");
    assert_eq!(printed["lines"][0]["node"], json!(here), "{printed}");
    for node in [one, two] {
        let listed = ask(node, "/api/v1/sandboxes").json();
        assert_eq!(listed["items"][0]["node"], here, "{listed}");
    }
}

#[test]
fn a_node_that_was_killed_tells_what_it_refused_and_what_it_ran_is_lost_on_every_node() {
    let mut server = Postgres::start();
    let (mut one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    one.policy(&token, WANTED);
    one.server("asker", ASKER);
    let sandbox = one.run("asker");
    two.until_decided("it asks", &["--sandbox", &sandbox, "--verdict", "allow"]);
    let state = |node: &Appliance| {
        let path = format!("/api/v1/sandboxes/{sandbox}");
        let told = Ask::new("GET", &path).token(&token).send(node);
        assert_eq!(told.status, 200, "{told:?}");
        told.json()["state"].clone()
    };
    assert_eq!(
        (state(&one), state(&two)),
        ("running".into(), "elsewhere".into())
    );
    what_it_printed_is_read_at_any_node((&one, &two), &token, &sandbox);
    let ready = |node: &Appliance| Ask::new("GET", "/readyz").send(node).status == 200;
    server.crash();
    one.until("what is refused is noted", |one| one.untold() > 0);
    let refused = one.untold();
    one.child.kill().expect("kill it");
    server.start_again();
    two.until("the other is ready again", ready);
    assert_eq!(state(&two), "elsewhere", "as far as anybody has recorded");
    let one = one.kill_and_start_again();
    one.tells_of_a_cut_run(&token, refused);
    for node in [&one, &two] {
        node.until("it is ready", ready);
        assert_eq!(state(node), "lost");
    }
    let cookie = two.first_admin();
    let place = format!("/sandboxes/{sandbox}");
    let page = Ask::new("GET", &place).cookie(&cookie).send(&two).body;
    assert!(page.contains("before its end was recorded"), "{page}");
    let whole = one.gig(&["audit", "verify", "postgres:"], "");
    assert_eq!(whole.status, 0, "{whole:?}");
}

#[test]
fn a_sandbox_is_stopped_from_any_node() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    one.policy(&token, WANTED);
    one.server("asker", ASKER);
    let sandbox = one.run("asker");
    two.until_decided("it asks", &["--sandbox", &sandbox, "--verdict", "allow"]);
    let path = format!("/api/v1/sandboxes/{sandbox}");
    let stop = |token: &str| {
        let stop = Ask::new("DELETE", &path).token(token);
        stop.send(&two).status
    };
    let look = || Ask::new("GET", &path).token(&token).send(&one).json()["state"].clone();
    assert_eq!(stop(&one.token("viewer")), 403);
    let listed = |node: &Appliance| {
        let all = Ask::new("GET", "/api/v1/sandboxes")
            .token(&token)
            .send(node);
        let all = all.json()["items"].as_array().expect("a list").clone();
        let found = all.iter().find(|each| each["id"] == *sandbox);
        found.map(|each| each["state"].clone())
    };
    assert_eq!(listed(&one), Some("running".into()));
    two.until("it is told where it runs", |two| {
        listed(two) == Some("elsewhere".into())
    });
    let ps = two.gig(&["ps"], "");
    assert!(
        ps.output.lines().any(|line| {
            line.contains(&sandbox) && line.contains("elsewhere") && line.contains("  at ")
        }),
        "{ps:?}"
    );
    let cookie = two.first_admin();
    let asks = format!("/sandboxes/{sandbox}/stop");
    let page = Ask::new("GET", &asks).cookie(&cookie).send(&two);
    assert!(page.body.contains("Stop the sandbox of asker?"), "{page:?}");
    assert_eq!(look(), "running", "who looks stops nothing");
    assert_eq!(stop(&token), 202);
    one.until("it ends where it ran", |_| look() == "ended");
    two.until("it runs no more", |two| listed(two).is_none());
    let told = one.decided(&["--sandbox", &sandbox, "--event", "admin"]);
    let asked = told.iter().filter(|entry| {
        let says = entry["findings"].to_string();
        says.contains("sandbox stop asked for") && entry["server"] == "asker"
    });
    assert_eq!(asked.count(), 1, "{told:?}");
    assert_eq!(stop(&token), 404, "it is over");
    // By its server's name, on the other node's machine.
    let again = one.run("asker");
    two.until_decided("it asks", &["--sandbox", &again, "--verdict", "allow"]);
    two.until("it is told where it runs", |two| {
        two.gig(&["ps"], "").output.contains(&again)
    });
    let stopped = two.gig(&["stop", "asker"], "");
    assert_eq!(stopped.status, 0, "{stopped:?}");
    one.until("it ends, too", |one| {
        let path = format!("/api/v1/sandboxes/{again}");
        let told = Ask::new("GET", &path).token(&token).send(one).json();
        told["state"] == "ended"
    });
}

/// Whoever knows a key of another node's removes nothing of that node's unless they name it, and it is told.
#[test]
fn what_a_node_prunes_by_hand_is_its_own_unless_another_is_named() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("auditor");
    let name = |node: &Appliance| {
        let folder = node.folder.path().file_name().expect("a name");
        let folder = folder.to_string_lossy();
        format!(
            "node-{}",
            folder.replace(|c: char| !c.is_ascii_alphanumeric(), "")
        )
    };
    let key = two.gig(&["audit", "key"], "").output.trim().to_owned();
    let pruned = |more: &[&str]| {
        let words = ["audit", "prune", "postgres:", "--json", "--key", &key];
        let pruned = one.gig(&[&words[..], more].concat(), "");
        assert_eq!(pruned.status, 0, "{pruned:?}");
        let document: Value = serde_json::from_str(&pruned.output).expect("JSON");
        let chains = document["chains"].as_array().expect("chains").clone();
        chains
            .into_iter()
            .map(|one| one["node"].clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(pruned(&[]), [name(&one).as_str()]);
    assert_eq!(pruned(&["--node", &name(&two)]), [name(&two).as_str()]);
    let told = one.records(&token, "event=admin&text=removed+by+hand");
    assert_eq!(told.len(), 4, "{told:?}");
    let newest = told[0]["findings"].to_string();
    assert!(
        newest.contains(&format!("of {} removed by hand", name(&two))),
        "{newest}"
    );
}

#[test]
fn a_second_node_of_the_same_name_does_not_serve() {
    let server = Postgres::start();
    let one = node(&server);
    let token = one.token("auditor");
    let name = one.records(&token, "limit=1")[0]["node"].clone();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = super::command(&folder, Some(&server.url("postgres")));
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    command.env("GIG_NODE", name.as_str().expect("a name"));
    let refused = super::answer(command, "");
    assert_eq!(refused.status, 125, "{refused:?}");
    assert!(
        refused.errors.contains("another gig records as"),
        "{refused:?}"
    );
    assert_eq!(Ask::new("GET", "/readyz").send(&one).status, 200);
}

#[test]
fn what_names_no_database_is_refused_and_no_password_is_repeated() {
    for url in [
        "mysql://gig:hunter2@db.example/gig",
        "gig.db",
        "postgres://gig:hunter2@127.0.0.1:1/gig",
        "postgres://gig:hunter2@127.0.0.1/gig?sslmode=allow",
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        for words in [&["serve", "--listen", "127.0.0.1:0"][..], &["user", "ls"]] {
            let mut command = super::command(&folder, Some(url));
            command.args(words);
            let refused = super::answer(command, "");
            assert_eq!(refused.status, 125, "{refused:?}");
            let said = &refused.errors;
            assert!(said.contains("GIG_DATABASE_URL"), "{refused:?}");
            assert!(!said.contains("hunter2"), "{refused:?}");
        }
        assert!(!folder.path().join("gig/gig.db").exists(), "{url}");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for words in [
        &["audit", "search"][..],
        &["audit", "verify"],
        &["run", "--audit"],
    ] {
        let mut command = super::command(&folder, None);
        command.args(words).arg("postgres://gig:hunter2@h/gig");
        command.current_dir(folder.path());
        if words[0] == "run" {
            command.args(["--", "true"]);
        }
        let refused = super::answer(command, "");
        assert_ne!(refused.status, 0, "{refused:?}");
        assert!(refused.errors.contains("postgres://"), "{refused:?}");
        assert!(!refused.errors.contains("hunter2"), "{refused:?}");
    }
}
