//! An address that goes from one sandbox to the next at once, because all others are taken.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde_json::json;

use super::{Appliance, Ask};

/// All the places of an appliance but one.
const OTHERS: usize = 63;
/// More than one server's or one person's share.
const SERVERS: usize = 3;

/// Answers everybody, and counts them.
fn origin() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    let seen = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&seen);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || {
                let _some = stream.read(&mut [0; 1024]);
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                let _gone = stream.write_all(answer);
            });
        }
    });
    (port, seen)
}

impl Appliance {
    fn add(&self, name: &str, policy: &str, command: &[&str]) {
        let add = ["server", "add", name, "--policy", policy, "--"];
        let added = self.gig(&[&add[..], command].concat(), "");
        assert_eq!(added.status, 0, "{added:?}");
    }

    /// The status, and the sandbox or why there is none.
    fn begin(&self, gateway: &str, server: &str, who: &str) -> (u16, String) {
        let path = format!("/api/v1/servers/{server}/start");
        let ask = Ask::new("POST", &path).token(gateway);
        let reply = ask.header("Gig-Profile", who).send(self);
        let id = reply.json()["id"].as_str().map(str::to_owned);
        (reply.status, id.unwrap_or(reply.body))
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

/// An appliance of which one place is free, with the token of a gateway, and one that reads all.
fn full(open: &str) -> (Appliance, String, String) {
    let appliance = Appliance::start();
    let token = appliance.token("admin");
    for (name, document) in [("shut", "version: 1\negress: []\n"), ("open", open)] {
        let path = format!("/api/v1/policies/{name}");
        let put = Ask::new("PUT", &path).token(&token);
        let body = json!({"document": document});
        let reply = put.header("If-None-Match", "*").json(&body);
        assert_eq!(reply.send(&appliance).status, 201);
    }
    let add = ["token", "add", "gateway", "--role", "editor", "--scope"];
    let made = appliance.gig(&[&add[..], &["servers:run,profiles:act"]].concat(), "");
    assert_eq!(made.status, 0, "{made:?}");
    let gateway = made.output.trim().to_owned();
    for server in 0..SERVERS {
        appliance.add(&format!("other{server}"), "shut", &["/bin/sleep", "1000"]);
    }
    for other in 0..OTHERS {
        let server = format!("other{}", other % SERVERS);
        let (status, told) = appliance.begin(&gateway, &server, &format!("p{other}"));
        assert_eq!(status, 201, "{told}");
    }
    (appliance, gateway, token)
}

/// Starts the next one as soon as there is room for it.
fn next(appliance: &Appliance, gateway: &str) -> String {
    let begun = Instant::now();
    loop {
        let (status, told) = appliance.begin(gateway, "next", "late");
        if status == 201 {
            return told;
        }
        let waited = begun.elapsed();
        assert!(waited < Duration::from_secs(30), "{status} {told}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Whether any program has this among its words.
fn runs(word: &str) -> bool {
    let processes = fs::read_dir("/proc").expect("processes").flatten();
    processes
        .filter_map(|one| fs::read(one.path().join("cmdline")).ok())
        .any(|words| String::from_utf8_lossy(&words).contains(word))
}

#[test]
fn connections_left_waiting_are_not_the_next_ones_who_has_the_address() {
    let (port, seen) = origin();
    let open = format!(
        "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{port}], protocol: http, \
         allow_private: [127.0.0.1/32]}}\n"
    );
    let (appliance, gateway, token) = full(&open);
    // It leaves whole requests behind for what the next one may have.
    let script = format!(
        "import os, socket, time\n\
         host, at = os.environ['HTTPS_PROXY'].split('//')[1].strip('/').split(':')\n\
         print('ready', flush=True)\n\
         time.sleep(2)\n\
         left = []\n\
         for _ in range(2000):\n    \
             left.append(socket.create_connection((host, int(at))))\n    \
             left[-1].sendall(b'GET http://127.0.0.1:{port}/ HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\n\\r\\n')\n"
    );
    appliance.add("old", "shut", &["/usr/bin/python3", "-c", &script]);
    appliance.add("next", "open", &["/bin/sleep", "1000"]);
    let (status, old) = appliance.begin(&gateway, "old", "early");
    assert_eq!(status, 201, "{old}");
    let (status, told) = appliance.begin(&gateway, "next", "late");
    assert_ne!(status, 201, "there is no room: {told}");
    appliance.until("it is ready", |one| {
        one.gig(&["logs", &old], "").output.contains("ready")
    });
    // gig has no turn until its end.
    let gig = appliance.pid();
    kill_process(gig, Signal::STOP).expect("it is stopped");
    let begun = Instant::now();
    while runs(&format!("GET http://127.0.0.1:{port}/")) {
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not end");
        thread::sleep(Duration::from_millis(50));
    }
    kill_process(gig, Signal::CONT).expect("it goes on");
    let next = next(&appliance, &gateway);
    appliance.until("what was left is refused", |one| {
        !one.records(&token, &format!("sandbox={old}&verdict=deny"))
            .is_empty()
    });
    thread::sleep(Duration::from_secs(2));
    for event in ["connect", "request"] {
        let query = format!("sandbox={next}&event={event}");
        let records = appliance.records(&token, &query);
        assert_eq!(records.len(), 0, "{:#?}", records.first());
    }
    assert_eq!(seen.load(Ordering::SeqCst), 0);
}

#[test]
fn an_address_is_free_again_however_long_gig_had_no_descriptors() {
    let (appliance, gateway, _) = full("version: 1\negress: []\n");
    appliance.add("old", "shut", &["/bin/sleep", "2"]);
    appliance.add("next", "open", &["/bin/sleep", "1000"]);
    let (status, told) = appliance.begin(&gateway, "old", "early");
    assert_eq!(status, 201, "{told}");
    let gig = appliance.pid();
    let none = Rlimit {
        current: Some(0),
        ..getrlimit(Resource::Nofile)
    };
    let before = prlimit(Some(gig), Resource::Nofile, none).expect("its limit");
    // It ends, and more than ten seconds pass.
    thread::sleep(Duration::from_secs(14));
    prlimit(Some(gig), Resource::Nofile, before).expect("its limit as before");
    next(&appliance, &gateway);
}
