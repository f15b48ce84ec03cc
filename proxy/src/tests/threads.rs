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

fn running(policy: &str, origin: &Origin, known: bool) -> Running {
    let subject = Subject::new(
        SandboxId::new(uuid::Uuid::from_u128(9)),
        Ipv4Addr::LOCALHOST,
        Ipv4Addr::LOCALHOST,
        Policy::compile(policy, "test").unwrap(),
    );
    let (recorder, log) = Recorder::in_memory();
    let listen = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
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
        workers: 2,
    };
    let identity = Arc::new(Only(known.then(|| Arc::clone(&subject))));
    Running {
        proxy: start(settings, listeners, identity, recorder).unwrap(),
        explicit,
        subject,
        log,
    }
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
