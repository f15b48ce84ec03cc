//! Sandboxes of the appliance: started by its API, denied, allowed in two clicks, stopped; and the
//! console out of reach of all of them.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Appliance, Ask};

impl Appliance {
    pub(super) fn policy(&self, token: &str, document: &str) {
        let put = Ask::new("PUT", "/api/v1/policies/web").token(token);
        let body = json!({"document": document});
        let reply = put.header("If-None-Match", "*").json(&body).send(self);
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    pub(super) fn server(&self, name: &str, script: &str) {
        let words = [
            "server", "add", name, "--policy", "web", "--", "/bin/sh", "-c", script,
        ];
        let added = self.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
    }

    pub(super) fn run(&self, name: &str) -> String {
        let started = self.gig(&["server", "start", name], "");
        assert_eq!(started.status, 0, "{started:?}");
        started.output.trim().to_owned()
    }

    fn log(&self, sandbox: &str) -> String {
        let log = self.gig(&["logs", sandbox], "");
        assert_eq!(log.status, 0, "{log:?}");
        log.output
    }

    pub(super) fn ended(&self, sandbox: &str) -> Option<Value> {
        let listed = self.gig(&["ps", "--all", "--json"], "");
        let document: Value = serde_json::from_str(&listed.output).expect("JSON");
        let items = document["items"].as_array().expect("items").clone();
        let mut ended = items.into_iter().filter(|one| one["state"] == "ended");
        ended.find(|one| one["id"] == sandbox)
    }
}

#[test]
fn a_server_that_was_there_is_told_as_changed_and_a_relative_program_is_refused() {
    let appliance = Appliance::start();
    let add = |words: &[&str]| appliance.gig(&[&["server", "add"], words].concat(), "");
    for (program, told) in [
        ("/bin/true", "box is registered"),
        ("/bin/false", "box is changed"),
    ] {
        let added = add(&["box", "--", program]);
        assert!(
            added.status == 0 && added.output.contains(told),
            "{added:?}"
        );
    }
    for program in ["./prog", "bin/prog", "../prog"] {
        let refused = add(&["other", "--", program, "--fast"]);
        let told = refused.errors.contains("name its whole path, as /");
        assert!(refused.status == 125 && told, "{refused:?}");
    }
    let listed = appliance.gig(&["server", "ls", "--json"], "").output;
    assert!(
        listed.contains("box") && !listed.contains("other"),
        "{listed}"
    );
}

#[test]
fn a_denied_record_is_two_clicks_from_the_rule_that_allows_it() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    appliance.policy(&token, "version: 1\n# nothing yet\negress: []\n");
    // It asks until it is told otherwise: the sandbox that was denied is the one that is allowed.
    let script = "while :; do curl -s -m 20 -o /dev/null http://wanted.test/; sleep 0.2; done";
    appliance.server("asker", script);
    let sandbox = appliance.run("asker");
    let denied = format!("sandbox={sandbox}&verdict=deny&host=wanted.test");
    appliance.until("it is denied", |one| {
        !one.records(&token, &denied).is_empty()
    });
    let record = appliance.records(&token, &denied)[0].clone();
    assert_eq!(record["reason"], "host_not_allowed", "{record}");
    assert_eq!(record["server"], "asker", "{record}");
    let id = record["id"].as_str().expect("an id").to_owned();
    let figures = Ask::new("GET", "/metrics").token(&token).send(&appliance);
    let counted = "gig_denials_total{reason=\"host_not_allowed\"} ";
    let counted = figures
        .body
        .lines()
        .find_map(|line| line.strip_prefix(counted));
    assert_ne!(counted, Some("0"), "{figures:?}");
    assert!(counted.is_some(), "{figures:?}");

    let overview = || {
        let ask = Ask::new("GET", "/").cookie(&cookie);
        ask.send(&appliance).body
    };
    let wanted = "width=host&#38;for=hour";
    assert!(overview().contains(wanted), "{}", overview());
    let page = Ask::new("GET", &format!("/audit/{id}"))
        .cookie(&cookie)
        .send(&appliance)
        .body;
    let link = format!("/policies/web/edit?record={id}&#38;width=host");
    assert!(page.contains(&link), "{page}");
    let hour = format!("{link}&#38;for=hour");
    assert!(page.contains(&hour), "{page}");
    let hour = format!("/policies/web/edit?record={id}&width=host&for=hour");
    let hour = Ask::new("GET", &hour).cookie(&cookie).send(&appliance).body;
    assert!(hour.contains("expires: &#34;"), "{hour}");
    let editor = format!("/policies/web/edit?record={id}&width=host");
    let editor = Ask::new("GET", &editor)
        .cookie(&cookie)
        .send(&appliance)
        .body;
    let typed = editor
        .split("<textarea")
        .nth(1)
        .and_then(|rest| rest.split(">\n").nth(1));
    let typed = typed
        .and_then(|rest| rest.split("</textarea>").next())
        .expect("a document");
    assert!(
        typed.contains("# nothing yet") && typed.contains("host: wanted.test"),
        "{typed}"
    );
    let encoded: String = typed.bytes().map(|octet| format!("%{octet:02X}")).collect();
    let fields = format!("version=1&act=save&reason=wanted&document={encoded}");
    let saved = appliance
        .form("/policies/web/edit", &fields)
        .cookie(&cookie)
        .send(&appliance);
    assert_eq!(saved.status, 303, "{saved:?}");

    assert!(!overview().contains(wanted), "{}", overview());
    let allowed = format!("sandbox={sandbox}&verdict=allow&host=wanted.test");
    appliance.until("it is allowed", |one| {
        !one.records(&token, &allowed).is_empty()
    });
    let record = appliance.records(&token, &allowed)[0].clone();
    assert_eq!(
        (&record["policy"], &record["policy_version"]),
        (&json!("web"), &json!(2))
    );
    let stopped = appliance.gig(&["stop", "asker"], "");
    assert_eq!(stopped.status, 0, "{stopped:?}");
    appliance.until("it ends", |one| one.ended(&sandbox).is_some());
    let exits = appliance.records(&token, &format!("event=sandbox.exit&sandbox={sandbox}"));
    assert_eq!(exits.len(), 1, "{exits:?}");
}

#[test]
fn no_sandbox_reaches_the_console_whatever_its_policy_allows() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let neighbour = TcpListener::bind("127.0.0.1:0").expect("listen");
    let open = neighbour.local_addr().expect("its address").port();
    thread::spawn(move || {
        for stream in neighbour.incoming() {
            let answer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nopen";
            let _gone = stream.and_then(|mut stream| {
                // What is closed with something unread is reset.
                BufReader::new(&stream)
                    .lines()
                    .take_while(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                    .for_each(drop);
                stream.write_all(answer.as_bytes())
            });
        }
    });
    let port = appliance
        .address
        .rsplit(':')
        .next()
        .expect("a port")
        .to_owned();
    // Loopback of the host, opened on purpose: the neighbour shows that it is.
    appliance.policy(
        &token,
        &format!(
            "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{open}, {port}], protocol: http, \
             allow_private: [127.0.0.1/32]}}\n"
        ),
    );
    let ask = |port: &str| {
        let curl = "NO_PROXY= no_proxy= curl -s -m 20 -o /dev/null -w '%{http_code} '";
        format!("{curl} -x $HTTPS_PROXY http://127.0.0.1:{port}/healthz")
    };
    let script = format!("{}; {}; echo done", ask(&open.to_string()), ask(&port));
    appliance.server("prober", &script);
    let sandbox = appliance.run("prober");
    appliance.until("it has asked", |one| one.ended(&sandbox).is_some());
    let log = appliance.log(&sandbox);
    assert_eq!(
        log.trim(),
        "200 403 done",
        "{:?}",
        appliance.records(&token, "limit=20")
    );
    let refused = appliance.records(&token, &format!("sandbox={sandbox}&reason=never_openable"));
    assert!(!refused.is_empty());
    // Nor by its own socket: the data directory is not there.
    let path = appliance.path("control.sock").display().to_string();
    appliance.server(
        "finder",
        &format!("test -e {path} && echo found || echo nothing"),
    );
    let sandbox = appliance.run("finder");
    appliance.until("it has looked", |one| one.ended(&sandbox).is_some());
    assert_eq!(appliance.log(&sandbox).trim(), "nothing");
}

#[test]
fn sandboxes_end_with_the_appliance_and_others_run_side_by_side() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    appliance.policy(&token, "version: 1\negress: []\n");
    appliance.server("sleeper", "echo here; exec sleep 1000");
    let ask = |who: &str| {
        let started = appliance.gig(&["server", "start", "sleeper", "--for", who], "");
        assert_eq!(started.status, 0, "{started:?}");
        started.output.trim().to_owned()
    };
    // Of each profile there is one, however many ask at once.
    let (one, same) = thread::scope(|scope| {
        let [one, same] = [0, 1].map(|_| scope.spawn(|| ask("ana")));
        (one.join().expect("its id"), same.join().expect("its id"))
    });
    let two = ask("ben");
    assert_eq!(one, same);
    assert_eq!(ask("ana"), one);
    assert_ne!(one, two);
    let listed = appliance.gig(&["ps", "--json"], "");
    let document: Value = serde_json::from_str(&listed.output).expect("JSON");
    let items = document["items"].as_array().expect("items").clone();
    let addresses: Vec<_> = items.iter().map(|one| one["address"].clone()).collect();
    assert_eq!(items.len(), 2, "{items:?}");
    let started = appliance.records(&token, "event=sandbox.start&server=sleeper");
    let whose: Vec<_> = started.iter().map(|one| one["profile"].clone()).collect();
    assert_eq!(whose, ["ben", "ana"], "newest first");
    assert_ne!(addresses[0], addresses[1]);
    appliance.until("both have spoken", |appliance| {
        [&one, &two]
            .iter()
            .all(|id| appliance.log(id).contains("here"))
    });
    let removed = appliance.gig(&["server", "rm", "sleeper"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    for id in [&one, &two] {
        appliance.until("it ends with its server", |one| one.ended(id).is_some());
    }
    let failed = appliance.gig(&["server", "add", "gone", "--", "/no/such/program"], "");
    assert_eq!(failed.status, 0, "{failed:?}");
    let failed = appliance.gig(&["server", "start", "gone"], "");
    assert_eq!(failed.status, 125, "{failed:?}");
    assert!(failed.errors.contains("/no/such/program"), "{failed:?}");
    assert_eq!(Ask::new("GET", "/healthz").send(&appliance).status, 200);
    end_with_it(appliance);
}

/// Programs on this machine that were started with exactly these words.
fn running(words: &[&str]) -> usize {
    let wanted = words.join("\0") + "\0";
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let started = entries.map(|entry| fs::read(entry.path().join("cmdline")));
    started
        .flatten()
        .filter(|own| own == wanted.as_bytes())
        .count()
}

/// Two sandboxes of one server run, and are gone when the appliance has ended.
fn end_with_it(mut appliance: Appliance) {
    let long = format!("1000000{}", std::process::id());
    appliance.server("stayer", &format!("exec sleep {long}"));
    for who in ["ana", "ben"] {
        let started = appliance.gig(&["server", "start", "stayer", "--for", who], "");
        assert_eq!(started.status, 0, "{started:?}");
    }
    let programs = || running(&["sleep", &long]);
    appliance.until("both run", |_| programs() == 2);
    let pid = i32::try_from(appliance.child.id()).expect("a pid");
    kill_process(Pid::from_raw(pid).expect("a pid"), Signal::TERM).expect("signal it");
    let ended = appliance.child.wait().expect("its end");
    assert_eq!(programs(), 0, "{ended:?} {}", appliance.said());
}

#[test]
fn a_server_with_a_policy_that_is_not_there_is_not_registered() {
    let appliance = Appliance::start();
    let args = [
        "server",
        "add",
        "tool",
        "--policy",
        "missing",
        "--",
        "/bin/true",
    ];
    let refused = appliance.gig(&args, "");
    assert_ne!(refused.status, 0, "{refused:?}");
    assert!(refused.errors.contains("missing"), "{refused:?}");
    let listed = appliance.gig(&["server", "ls", "--json"], "");
    assert!(!listed.output.contains("tool"), "{listed:?}");
    let started = appliance.gig(&["server", "start", "tool"], "");
    assert_ne!(started.status, 0, "{started:?}");
}

#[test]
fn a_program_that_cannot_be_executed_ends_in_the_record_too() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("not-executable");
    fs::write(&file, "#!/bin/sh\n").expect("a file");
    let file = file.to_str().expect("UTF-8");
    for (name, program, status) in [("gone", "/usr/bin/none-such", 127), ("closed", file, 126)] {
        let added = appliance.gig(&["server", "add", name, "--", program], "");
        assert_eq!(added.status, 0, "{added:?}");
        let started = appliance.gig(&["server", "start", name], "");
        assert_eq!(started.status, 125, "{started:?}");
        let begun = appliance.records(&token, &format!("event=sandbox.start&server={name}"));
        let ended = appliance.records(&token, &format!("event=sandbox.exit&server={name}"));
        assert_eq!((begun.len(), ended.len()), (1, 1), "{begun:?} {ended:?}");
        assert_eq!(begun[0]["sandbox"], ended[0]["sandbox"]);
        assert_eq!(ended[0]["status"], status, "{ended:?}");
        // Who asked for it is told of, and that it came to nothing.
        let asked = appliance.records(&token, &format!("event=admin&server={name}&verdict=deny"));
        let words = asked[0]["findings"].to_string();
        assert!(words.contains("sandbox not started: "), "{words}");
    }
    assert!(appliance.records(&token, "event=secret.use").is_empty());
    let verified = appliance.gig(&["audit", "verify", &appliance.record()], "");
    assert!(!verified.output.contains("has no end"), "{verified:?}");
}

#[test]
fn what_ended_is_started_again_from_its_page_by_whom_it_ran_for() {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    let ana = appliance.first_admin();
    let ben = appliance.member(&ana, "ben", "admin");
    appliance.policy(&token, "version: 1\negress: []\n");
    appliance.server("brief", "exit 3");
    let start = || {
        let form = appliance.form("/servers/brief/start", "").cookie(&ana);
        let started = form.send(&appliance);
        assert_eq!(started.status, 303, "{started:?}");
        started.location().to_owned()
    };
    let page = |path: &str, cookie: &str| {
        let page = Ask::new("GET", path).cookie(cookie).send(&appliance);
        assert_eq!(page.status, 200, "{page:?}");
        page.body
    };
    let first = start();
    appliance.until("it ended", |_| page(&first, &ana).contains("with status 3"));
    let again = "action=\"/servers/brief/start\"";
    assert!(page(&first, &ana).contains(again));
    assert!(!page(&first, &ben).contains(again), "it ran for ana");
    let second = start();
    assert_ne!(first, second);
    let removed = appliance.gig(&["server", "rm", "brief"], "");
    assert_eq!(removed.status, 0, "{removed:?}");
    appliance.until("it is gone", |_| !page(&first, &ana).contains(again));
}
