//! The proxy as it is started: threads, doors, identities, limits, the way down.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket},
    sync::Arc,
    time::Duration,
};

use gig_audit::{Event, MemoryLog, Recorder};
use gig_policy::{DenyReason, Policy, SandboxId};
use http::StatusCode;

use super::lab::{
    ALLOW_API,
    client::{Client, get, raw},
    dial,
    origin::{Origin, hello},
};
use crate::{
    Deadlines, Identity, NeverOpen, Proxy, ProxyListeners, Settings, Subject, start,
    tls::{authority_key::Authority, roots::Roots},
};

struct Only(Option<Arc<Subject>>);

impl Identity for Only {
    fn subject(&self, source: Ipv4Addr) -> Option<Arc<Subject>> {
        assert_eq!(source, Ipv4Addr::LOCALHOST);
        self.0.clone()
    }
}

struct Running {
    proxy: Proxy,
    explicit: SocketAddr,
    subject: Arc<Subject>,
    log: MemoryLog,
}

fn subject(id: u128, policy: &str) -> Arc<Subject> {
    Subject::new(
        SandboxId::new(uuid::Uuid::from_u128(id)),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::LOCALHOST,
        Policy::compile(policy, "test").unwrap(),
    )
}

fn running(policy: &str, origin: &Origin, known: bool) -> Running {
    let subject = subject(9, policy);
    let identity = Arc::new(Only(known.then(|| Arc::clone(&subject))));
    let (proxy, explicit, log) = started(origin, identity, 2);
    Running {
        proxy,
        explicit,
        subject,
        log,
    }
}

/// The proxy, where its explicit one is, and its record.
fn started(
    origin: &Origin,
    identity: Arc<dyn Identity>,
    workers: usize,
) -> (Proxy, SocketAddr, MemoryLog) {
    let (recorder, log) = Recorder::in_memory();
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // As many as the product lets wait.
        rustix::net::listen(&listener, 4096).unwrap();
        listener.set_nonblocking(true).unwrap();
        listener
    };
    let listeners = ProxyListeners {
        redirect: listen(),
        explicit: listen(),
        dns_tcp: listen(),
        dns_udp: UdpSocket::bind("127.0.0.1:0").unwrap(),
    };
    listeners.dns_udp.set_nonblocking(true).unwrap();
    let explicit = listeners.explicit.local_addr().unwrap();
    let at = format!("api.test:80:127.0.0.1:{}", origin.address.port());
    let settings = Settings {
        explicit_port: explicit.port(),
        deadlines: Deadlines {
            drain: Duration::from_millis(500),
            ..Deadlines::DEFAULT
        },
        resolve: vec![at.parse().unwrap()],
        upstream_roots: Roots::none(),
        upstream_proxy: None,
        authority: Authority::generate().unwrap(),
        never_open: NeverOpen::default(),
        desk: None,
        workers,
    };
    let proxy = start(settings, listeners, identity, recorder).unwrap();
    (proxy, explicit, log)
}

async fn client(address: SocketAddr, tasks: &tokio_util::task::TaskTracker) -> Client {
    let io = hyper_util::rt::TokioIo::new(dial(address).await);
    let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tasks.spawn(connection);
    Client::H1(sender)
}

#[tokio::test]
async fn connections_are_served_by_all_threads_until_the_proxy_goes_down() {
    let origin = Origin::http(hello).await;
    let running = running(ALLOW_API, &origin, true);
    let tasks = tokio_util::task::TaskTracker::new();
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = client(running.explicit, &tasks).await;
        let answer = client.send(get("http://api.test/")).await;
        assert_eq!(answer.status, StatusCode::OK);
        clients.push(client);
    }
    // Idle connections to the origin belong to a thread: two threads served.
    assert_eq!(origin.seen.connections(), 2);
    running.proxy.shutdown().await;
    for mut client in clients {
        assert!(client.start(get("http://api.test/")).await.is_err());
    }
    assert_eq!(running.subject.connections(), 0);
}

#[tokio::test]
async fn a_connection_over_the_limit_is_told_as_429_and_recorded() {
    let origin = Origin::http(hello).await;
    let policy = format!("{ALLOW_API}limits: {{connections: 2}}\n");
    let running = running(&policy, &origin, true);
    let held = [dial(running.explicit).await, dial(running.explicit).await];
    while running.subject.connections() < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let answer = raw(dial(running.explicit).await, b"").await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 429 "), "{answer}");
    assert!(answer.contains("connection_limit_reached"), "{answer}");
    assert!(answer.contains("retry-after: 1"), "{answer}");
    let record = running.log.records().remove(0);
    assert_eq!(record.entry.event, Event::Connect);
    assert_eq!(record.entry.reason, Some(DenyReason::ConnectionLimit));
    drop(held);
    running.proxy.shutdown().await;
}

#[tokio::test]
async fn a_connection_from_nobodys_address_is_dropped() {
    let origin = Origin::http(hello).await;
    let running = running(ALLOW_API, &origin, false);
    let answer = raw(
        dial(running.explicit).await,
        b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n",
    )
    .await;
    assert!(answer.is_none_or(|answer| answer.is_empty()));
    assert_eq!(origin.seen.connections(), 0);
    assert_eq!(running.log.records().len(), 0);
    running.proxy.shutdown().await;
}

#[tokio::test]
async fn a_running_request_may_finish_while_the_proxy_goes_down() {
    let origin = Origin::http(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        http::Response::new(super::lab::client::full("late"))
    })
    .await;
    let running = running(ALLOW_API, &origin, true);
    let tasks = tokio_util::task::TaskTracker::new();
    let mut client = client(running.explicit, &tasks).await;
    let waiting = client.send(get("http://api.test/"));
    let down = async {
        while running.log.records().len() < 2 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        running.proxy.shutdown().await;
    };
    let (answer, ()) = tokio::join!(waiting, down);
    assert_eq!(answer.body, "late");
}

/// More than tokio lets a task take in one turn (128).
const CROWD: usize = 200;

/// Whoever has the address at the moment; holds its thread up while it is `shut`.
struct Turns {
    owner: parking_lot::Mutex<Arc<Subject>>,
    shut: Arc<parking_lot::RwLock<()>>,
    asked: std::sync::atomic::AtomicUsize,
}

impl Identity for Turns {
    fn subject(&self, _source: Ipv4Addr) -> Option<Arc<Subject>> {
        self.asked.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        drop(self.shut.read());
        Some(Arc::clone(&self.owner.lock()))
    }
}

#[tokio::test]
async fn a_connection_that_nobody_accepted_is_its_senders_when_the_address_changes_owners() {
    let origin = Origin::http(hello).await;
    let nothing = "version: 1\nname: nothing\negress: []\n";
    let first = subject(1, nothing);
    let second = subject(2, ALLOW_API);
    let shut = Arc::new(parking_lot::RwLock::new(()));
    let turns = Arc::new(Turns {
        owner: parking_lot::Mutex::new(Arc::clone(&first)),
        shut: Arc::clone(&shut),
        asked: std::sync::atomic::AtomicUsize::new(0),
    });
    let theirs = Arc::clone(&turns) as Arc<dyn Identity>;
    let (proxy, explicit, log) = started(&origin, theirs, 1);

    // Its thread is held up with one connection; the others wait in the socket, their requests written. More than a
    // thread accepts in one go.
    let (held, hold) = std::sync::mpsc::channel();
    let (open, opened) = std::sync::mpsc::channel::<()>();
    let holding = std::thread::spawn(move || {
        let closed = shut.write();
        held.send(()).unwrap();
        opened.recv().unwrap();
        drop(closed);
    });
    hold.recv().unwrap();
    let mut waiting = Vec::new();
    for _ in 0..CROWD {
        use tokio::io::AsyncWriteExt as _;
        let mut stream = dial(explicit).await;
        let request = b"GET http://api.test/ HTTP/1.1\r\nHost: api.test\r\n\r\n";
        stream.write_all(request).await.unwrap();
        waiting.push(stream);
    }
    while turns.asked.load(std::sync::atomic::Ordering::SeqCst) < 1 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    first.close().await;
    let queues = proxy.queues();
    let let_go = async {
        queues.emptied().await.unwrap();
        *turns.owner.lock() = Arc::clone(&second);
    };
    let go_on = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        open.send(()).unwrap();
    };
    tokio::join!(let_go, go_on);
    holding.join().unwrap();

    let tasks = tokio_util::task::TaskTracker::new();
    let answer = client(explicit, &tasks)
        .await
        .send(get("http://api.test/"))
        .await;
    assert_eq!(answer.status, StatusCode::OK);
    proxy.shutdown().await;
    drop(waiting);
    assert_eq!(origin.seen.requests().len(), 1);
    let records = log.records();
    let of = |subject: &Subject| {
        let of = |record: &&gig_audit::Record| record.entry.sandbox == Some(subject.id());
        records.iter().filter(of).count()
    };
    assert_eq!(of(&second), 3, "{records:#?}");
    assert_eq!(of(&first), CROWD);
}

#[tokio::test]
async fn a_proxy_that_goes_down_shows_no_queue_to_be_empty() {
    let origin = Origin::http(hello).await;
    let running = running(ALLOW_API, &origin, true);
    let queues = running.proxy.queues();
    queues.emptied().await.unwrap();
    running.proxy.shutdown().await;
    assert!(queues.emptied().await.is_err());
}
