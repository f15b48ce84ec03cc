//! `kill -9` of an appliance under load: it serves again by itself, and nothing that was answered is lost.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, SystemTime},
};

use serde_json::json;

use super::{Appliance, Ask};

/// Times that it is killed.
const LIVES: usize = 4;
/// Sandboxes that ask at once.
const CLIENTS: usize = 3;

/// Answers everything at once, and counts what it was asked for.
struct Counting {
    port: u16,
    seen: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Counting {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
        let port = listener.local_addr().expect("its address").port();
        let seen = Arc::new(Mutex::new(BTreeMap::new()));
        let known = Arc::clone(&seen);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let known = Arc::clone(&known);
                thread::spawn(move || converse(stream, &known));
            }
        });
        Self { port, seen }
    }

    fn seen(&self) -> BTreeMap<String, u64> {
        self.seen.lock().expect("the paths").clone()
    }
}

fn converse(mut stream: TcpStream, seen: &Mutex<BTreeMap<String, u64>>) {
    let Ok(reading) = stream.try_clone() else {
        return;
    };
    let mut lines = BufReader::new(reading).lines().map_while(Result::ok);
    while let Some(first) = lines.next() {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        // Before it is answered: whoever asked is not told that it was not seen.
        *seen.lock().expect("the paths").entry(path).or_default() += 1;
        while lines.next().is_some_and(|line| !line.is_empty()) {}
        let answer = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
        if stream.write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// Makes policies until nobody answers any more; those that were acknowledged.
fn save_without_end(
    address: String,
    token: String,
    life: usize,
    stop: Arc<AtomicBool>,
) -> JoinHandle<Vec<String>> {
    thread::spawn(move || {
        let mut saved = Vec::new();
        for n in 0.. {
            let name = format!("p{life}-{n}");
            let body = json!({"document": "version: 1\negress: []\n"}).to_string();
            let length = body.len();
            let asked = format!(
                "PUT /api/v1/policies/{name} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
                 Authorization: Bearer {token}\r\nIf-None-Match: *\r\nContent-Type: application/json\r\n\
                 Content-Length: {length}\r\n\r\n{body}"
            );
            let mut answer = String::new();
            let asked = TcpStream::connect(&address).and_then(|mut stream| {
                stream.write_all(asked.as_bytes())?;
                stream.read_to_string(&mut answer)
            });
            if answer.starts_with("HTTP/1.1 201") {
                saved.push(name);
            }
            if asked.is_err() || stop.load(Ordering::Relaxed) {
                break;
            }
        }
        saved
    })
}

/// Some other one each time.
fn a_moment(life: usize) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let some = u64::from(now.expect("a time").subsec_micros());
    Duration::from_millis(200 + (some / 7 + 311 * life as u64) % 900)
}

/// Requests that were let pass, by path, and policies that were changed.
fn told(appliance: &Appliance) -> (BTreeMap<String, u64>, BTreeSet<String>) {
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    let mut changes = BTreeSet::new();
    for record in appliance.exported() {
        let allowed = record["verdict"] == "allow";
        match record["event"].as_str() {
            Some("request") if allowed => {
                let path = record["path"].as_str().unwrap_or_default().to_owned();
                *recorded.entry(path).or_default() += 1;
            }
            Some("policy.change") => {
                changes.extend(record["policy"].as_str().map(str::to_owned));
            }
            _ => {}
        }
    }
    (recorded, changes)
}

/// However often counting was cut short.
fn everything_is_counted_once(appliance: &Appliance) {
    let cookie = appliance.first_admin();
    appliance.until("all of it is counted", |one| {
        let recorded = one.recorded_decisions();
        let drawn = one.drawn_decisions(&cookie);
        let too_many = drawn
            .iter()
            .zip(&recorded)
            .any(|(drawn, known)| drawn > known);
        assert!(!too_many, "{drawn:?} {recorded:?}");
        drawn == recorded
    });
}

#[test]
fn kill_9_under_load_loses_nothing_that_was_answered_and_it_serves_again() {
    let origin = Counting::start();
    let mut appliance = Appliance::start();
    let token = appliance.token("admin");
    let document = format!(
        "version: 1\negress:\n  - {{ip: 127.0.0.1, ports: [{}], protocol: http, \
         allow_private: [127.0.0.1/32]}}\n",
        origin.port
    );
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put
        .header("If-None-Match", "*")
        .json(&json!({"document": document}));
    assert_eq!(put.send(&appliance).status, 201);
    for client in 1..=CLIENTS {
        let script = format!(
            "NO_PROXY= no_proxy= exec curl -s -o /dev/null -x \"$HTTPS_PROXY\" \
             'http://127.0.0.1:{}/c{client}-[1-1000000]'",
            origin.port
        );
        let name = format!("c{client}");
        let words = [
            "server", "add", &name, "--policy", "web", "--", "/bin/sh", "-c", &script,
        ];
        let added = appliance.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
    }
    let mut saved = Vec::new();
    for life in 0..LIVES {
        let before: u64 = origin.seen().values().sum();
        for client in 1..=CLIENTS {
            appliance.run(&format!("c{client}"));
        }
        let stop = Arc::new(AtomicBool::new(false));
        let address = appliance.address.clone();
        let saving = save_without_end(address, token.clone(), life, Arc::clone(&stop));
        appliance.until("there is load", |_| {
            origin.seen().values().sum::<u64>() > before + 100
        });
        thread::sleep(a_moment(life));
        appliance = appliance.kill_and_start_again();
        stop.store(true, Ordering::Relaxed);
        let acknowledged = saving.join().expect("who saves");
        assert!(!acknowledged.is_empty(), "nothing was saved in life {life}");
        saved.extend(acknowledged);
    }
    let verified = appliance.gig(&["audit", "verify", &appliance.record()], "");
    assert_eq!(verified.status, 0, "{verified:?}");

    // What left has its record, as often as it left.
    let (recorded, changes) = told(&appliance);
    let seen = origin.seen();
    let lost: Vec<_> = seen
        .iter()
        .filter(|(path, count)| recorded.get(*path) < Some(count))
        .collect();
    assert!(
        lost.is_empty(),
        "{} of {}: {lost:?}",
        lost.len(),
        seen.len()
    );
    // What was acknowledged is there, and said.
    for name in &saved {
        let path = format!("/api/v1/policies/{name}");
        let kept = Ask::new("GET", &path).token(&token).send(&appliance);
        assert_eq!(kept.status, 200, "{name}: {kept:?}");
        assert!(changes.contains(name), "{name}");
    }
    everything_is_counted_once(&appliance);
    // It works as before.
    let before: u64 = origin.seen().values().sum();
    appliance.run("c1");
    appliance.until("it serves", |_| {
        origin.seen().values().sum::<u64>() > before
    });
}
