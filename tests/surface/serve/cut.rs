//! What lives when a policy changes: an answer that goes on, a tunnel. On every node it is looked at again at once.

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use gig_tests::lab::postgres::Postgres;
use serde_json::{Value, json};

use super::{Ask, nodes::node};

/// Answers with a word every so often, until whoever asked is gone; how many it is answering.
fn endless() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("listen");
    let port = listener.local_addr().expect("its address").port();
    let living = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&living);
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let count = Arc::clone(&count);
            thread::spawn(move || {
                let _asked = stream.read(&mut [0; 4096]);
                count.fetch_add(1, Ordering::SeqCst);
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
                let mut goes_on = stream.write_all(head.as_bytes());
                while goes_on.is_ok() {
                    thread::sleep(Duration::from_millis(50));
                    goes_on = stream.write_all(b"on and on\n");
                }
                count.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    (port, living)
}

/// Seconds of the day of a record's time, which is in UTC.
fn second(record: &Value) -> f64 {
    let time = record["time"].as_str().expect("a time");
    let (_, clock) = time.trim_end_matches('Z').split_once('T').expect("a clock");
    let parts = clock
        .split(':')
        .map(|part| part.parse::<f64>().expect("a number"));
    parts.fold(0.0, |sum, part| sum * 60.0 + part)
}

/// By the record's own times: from the change on one node to the end on the other.
#[test]
fn what_lives_on_another_node_is_cut_within_a_second_of_the_change() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    let (requests, asked) = endless();
    let (tunnels, tunnelled) = endless();
    one.policy(
        &token,
        &format!(
            "version: 1\negress:\n\
             - {{ip: 127.0.0.1, ports: [{requests}], protocol: http, allow_private: [127.0.0.1/32]}}\n\
             - {{ip: 127.0.0.1, ports: [{tunnels}], protocol: tcp, allow_private: [127.0.0.1/32]}}\n"
        ),
    );
    let proxied = "curl -s -N -o /dev/null -x \"$HTTPS_PROXY\"";
    one.server(
        "listener",
        &format!(
            "export NO_PROXY= no_proxy=; {proxied} http://127.0.0.1:{requests}/ & \
             {proxied} -p http://127.0.0.1:{tunnels}/ & wait; sleep 600"
        ),
    );
    let sandbox = two.run("listener");
    two.until("both live", |_| {
        asked.load(Ordering::SeqCst) == 1 && tunnelled.load(Ordering::SeqCst) == 1
    });
    let put = Ask::new("PUT", "/api/v1/policies/web").token(&token);
    let put = put.header("If-Match", "\"1\"");
    let nothing = json!({"document": "version: 1\negress: []\n"});
    let reply = put.json(&nothing).send(&one);
    assert_eq!(reply.status, 200, "{reply:?}");
    two.until("neither lives", |_| {
        asked.load(Ordering::SeqCst) == 0 && tunnelled.load(Ordering::SeqCst) == 0
    });
    let changed = one.records(&token, "event=policy.change&limit=1");
    let cut = format!("sandbox={sandbox}&event=response&reason=revoked");
    two.until("both ends are recorded", |two| {
        two.records(&token, &cut).len() == 2
    });
    for ended in two.records(&token, &cut) {
        let took = (second(&ended) - second(&changed[0])).rem_euclid(86_400.0);
        assert!(took < 1.0, "{took} s: {ended}");
    }
}
