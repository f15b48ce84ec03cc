//! Teams and profiles: two people and one server on two nodes, a real curl in each of their sandboxes, and an
//! origin that says whose stream is open.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    sync::{Arc, Mutex},
    thread,
    time::{Duration, Instant},
};

use gig_tests::lab::postgres::Postgres;
use serde_json::{Value, json};

use super::{Appliance, Ask, nodes::node};

/// Answers without end, and knows who listens.
struct Stream {
    port: u16,
    open: Arc<Mutex<Vec<String>>>,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Stream {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let (open, seen) = (Arc::default(), Arc::default());
        let stream = Self { port, open, seen };
        let (open, seen) = (Arc::clone(&stream.open), Arc::clone(&stream.seen));
        thread::spawn(move || {
            for accepted in listener.incoming() {
                let Ok(mut to) = accepted else { continue };
                let (open, seen) = (Arc::clone(&open), Arc::clone(&seen));
                thread::spawn(move || {
                    let mut head = BufReader::new(&to).lines().map_while(Result::ok);
                    let path = head.next().unwrap_or_default();
                    head.take_while(|line| !line.is_empty()).for_each(drop);
                    seen.lock().expect("who asked").push(path.clone());
                    open.lock().expect("who listens").push(path.clone());
                    let answer = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                    let mut written = to.write_all(answer.as_bytes());
                    while written.is_ok() {
                        thread::sleep(Duration::from_millis(20));
                        written = to.write_all(b"more\n");
                    }
                    let mut open = open.lock().expect("who listens");
                    let at = open.iter().position(|one| *one == path);
                    open.swap_remove(at.expect("it was there"));
                });
            }
        });
        stream
    }

    fn is_open_to(&self, sandbox: &str) -> bool {
        let open = self.open.lock().expect("who listens");
        open.iter().any(|path| path.contains(sandbox))
    }

    fn was_asked_by(&self, sandbox: &str) -> bool {
        let seen = self.seen.lock().expect("who asked");
        seen.iter().any(|path| path.contains(sandbox))
    }
}

impl Appliance {
    fn does(&self, words: &[&str]) {
        let done = self.gig(words, "");
        assert_eq!(done.status, 0, "{words:?}: {done:?}");
    }

    fn keep_policy(&self, token: &str, name: &str, document: &str) {
        let path = format!("/api/v1/policies/{name}");
        let put = Ask::new("PUT", &path).token(token);
        let body = json!({"document": document});
        let reply = put.header("If-None-Match", "*").json(&body).send(self);
        assert_eq!(reply.status, 201, "{reply:?}");
    }

    /// As a gateway starts it: the status, and the sandbox.
    fn start_for(&self, token: &str, who: &str) -> (u16, String) {
        let ask = Ask::new("POST", "/api/v1/servers/asker/start").token(token);
        let reply = ask.header("Gig-Profile", who).send(self);
        let id = reply.json()["id"].as_str().map(str::to_owned);
        (reply.status, id.unwrap_or_else(|| panic!("{reply:?}")))
    }

    fn first_of(&self, token: &str, query: &str) -> Value {
        let found = |one: &Self| one.records(token, query).into_iter().next();
        self.until(query, |one| found(one).is_some());
        found(self).expect("it was there")
    }
}

/// Two nodes; a server of policy `shut`, a team of ana's of policy `open`, and a gateway.
struct Fleet {
    one: Appliance,
    two: Appliance,
    token: String,
    gateway: String,
    stream: Stream,
    _server: Postgres,
}

impl Fleet {
    fn open() -> Self {
        let server = Postgres::start();
        let (one, two) = (node(&server), node(&server));
        let token = one.token("admin");
        let stream = Stream::start();
        let port = stream.port;
        one.keep_policy(&token, "shut", "version: 1\negress: []\n");
        let open = format!(
            "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, \
             allow_private: [127.0.0.1/32]}}\n"
        );
        one.keep_policy(&token, "open", &open);
        let script = format!(
            "while :; do NO_PROXY= no_proxy= curl -sN -m 60 -o /dev/null -w '%{{http_code}}\\n' \
             -x $HTTPS_PROXY http://127.0.0.1:{port}/$GIG_SANDBOX_ID; sleep 0.1; done"
        );
        let add = ["server", "add", "asker", "--policy", "shut", "--"];
        one.does(&[&add[..], &["/bin/sh", "-c", &script]].concat());
        one.does(&["team", "add", "data", "ana"]);
        one.does(&["policy", "assign", "open", "--team", "data"]);
        let scopes = ["--role", "editor", "--scope", "servers:run,profiles:act"];
        let made = one.gig(&[&["token", "add", "gateway"], &scopes[..]].concat(), "");
        Self {
            one,
            two,
            token,
            gateway: made.output.trim().to_owned(),
            stream,
            _server: server,
        }
    }
}

#[test]
fn two_people_of_one_server_are_under_their_own_policies_on_every_node() {
    let fleet = Fleet::open();
    let Fleet {
        one,
        two,
        token,
        gateway,
        stream,
        ..
    } = &fleet;

    // Two at once are one; each person has their own.
    let starts = thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| two.start_for(gateway, "ana")));
        both.map(|start| start.join().expect("it is started"))
    });
    let ana = starts[0].1.clone();
    assert_eq!(starts[1].1, ana);
    assert_eq!(
        starts.iter().filter(|(status, _)| *status == 201).count(),
        1,
        "{starts:?}"
    );
    let (_, ben) = two.start_for(gateway, "ben");
    assert_ne!(ana, ben);

    // Denied at the client, at the origin and in the record; allowed to the other in all three.
    two.until("hers is open", |_| stream.is_open_to(&ana));
    let denied = two.first_of(token, &format!("sandbox={ben}&verdict=deny"));
    assert_eq!(
        (&denied["policy"], &denied["profile"]),
        (&json!("shut"), &json!("ben"))
    );
    two.until("he is told", |two| {
        two.gig(&["logs", &ben], "").output.contains("403")
    });
    assert!(!stream.was_asked_by(&ben));
    let allowed = two.first_of(token, &format!("sandbox={ana}&verdict=allow&event=request"));
    assert_eq!(
        (&allowed["policy"], &allowed["profile"]),
        (&json!("open"), &json!("ana"))
    );
    for (sandbox, by) in [(&ana, "team data"), (&ben, "server asker")] {
        let started = two.first_of(token, &format!("sandbox={sandbox}&event=sandbox.start"));
        let findings = started["findings"].to_string();
        assert!(
            findings.contains(&format!("policy put in force by: {by}")),
            "{findings}"
        );
    }

    // Other people, another policy: what is open is decided again, on the other node too.
    let cut = |what: &str, sandbox: &str| {
        let begun = Instant::now();
        two.until(what, |_| !stream.is_open_to(sandbox));
        let took = begun.elapsed();
        assert!(took < SOON, "{what}: {took:?}");
    };
    one.does(&["team", "add", "data", "Ben"]);
    two.until("his is open", |_| stream.is_open_to(&ben));
    one.does(&["team", "rm", "data", "ben"]);
    cut("his is cut", &ben);
    assert!(stream.is_open_to(&ana), "hers is not");
    one.does(&["policy", "assign", "shut", "--team", "data"]);
    cut("hers is cut", &ana);
    // Its next try is decided by what is in force now.
    two.first_of(token, &format!("sandbox={ana}&verdict=deny&policy=shut"));
    one.does(&["policy", "assign", "open", "--for", "Ana"]);
    two.until("hers is open again", |_| stream.is_open_to(&ana));
    assert!(!stream.is_open_to(&ben));
}

/// A second, and as much again on a busy machine.
const SOON: Duration = Duration::from_secs(2);
