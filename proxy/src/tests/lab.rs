//! Sandbox, proxy and origins of one test.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use gig_audit::{Event, MemoryLog, Record, Recorder, VerdictWord};
use gig_policy::{DenyReason, Host, Policy, Port, SandboxId};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    Deadlines, NeverOpen, Settings, Subject,
    authority::Destination,
    caller::Caller,
    connection,
    detect::Rewind,
    start::shared,
    tls::{authority_key::Authority, roots::Roots},
    worker::Worker,
};

pub(super) mod client;
pub(super) mod h2;
pub(super) mod keeper;
pub(super) mod origin;
pub(super) mod pairs;

/// The policy that most tests use: one host, every method and path, on loopback.
pub(super) const ALLOW_API: &str = "
version: 1
name: test
egress:
  - {host: api.test, ports: [80, 443], allow_private: [127.0.0.0/8]}
";

pub(super) struct Lab {
    pub(super) subject: Arc<Subject>,
    pub(super) worker: Arc<Worker>,
    pub(super) authority: Authority,
    pub(super) log: MemoryLog,
    pub(super) tasks: TaskTracker,
}

/// What a test sets otherwise than the product does.
pub(super) struct Arrangement<'a> {
    pub(super) policy: &'a str,
    /// `HOST:PORT` and where it is.
    pub(super) origins: Vec<(&'a str, SocketAddr)>,
    pub(super) roots: Roots,
    pub(super) keeper: Option<Arc<keeper::Keeper>>,
    pub(super) deadlines: Deadlines,
    pub(super) desk: Option<Arc<dyn crate::hold::Desk>>,
}

impl<'a> Arrangement<'a> {
    pub(super) fn new(policy: &'a str) -> Self {
        Self {
            policy,
            origins: Vec::new(),
            roots: Roots::none(),
            keeper: None,
            deadlines: Deadlines::DEFAULT,
            desk: None,
        }
    }

    pub(super) fn origin(mut self, at: &'a str, origin: &origin::Origin) -> Self {
        self.origins.push((at, origin.address));
        if let Some(authority) = &origin.authority {
            self.roots = self.roots.with_pem(authority.ca_pem().as_bytes()).unwrap();
        }
        self
    }

    /// The sandbox holds a sentinel for each of the keeper's secrets.
    pub(super) fn keeper(mut self, keeper: &Arc<keeper::Keeper>) -> Self {
        self.keeper = Some(Arc::clone(keeper));
        self
    }

    /// Who is asked about what a policy holds.
    pub(super) fn desk(mut self, desk: &Arc<super::held::FakeDesk>) -> Self {
        self.desk = Some(Arc::clone(desk) as Arc<dyn crate::hold::Desk>);
        self
    }

    /// No exchange may stand still for longer.
    pub(super) const fn idle(mut self, idle: Duration) -> Self {
        self.deadlines.idle = idle;
        self
    }

    /// Other deadlines.
    pub(super) fn within(mut self, shorten: impl FnOnce(&mut Deadlines)) -> Self {
        shorten(&mut self.deadlines);
        self
    }

    /// How long a connection to an origin is waited for.
    pub(super) const fn connect_within(mut self, connect: Duration) -> Self {
        self.deadlines.connect = connect;
        self
    }

    pub(super) fn lab(self) -> Lab {
        let authority = Authority::generate().unwrap();
        let (recorder, log) = Recorder::in_memory();
        let resolve = self
            .origins
            .iter()
            .map(|(at, to)| format!("{at}:{}:{}", to.ip(), to.port()).parse().unwrap())
            .collect();
        let settings = Settings {
            explicit_port: 8081,
            deadlines: self.deadlines,
            resolve,
            upstream_roots: self.roots,
            upstream_proxy: None,
            authority: authority.clone(),
            never_open: NeverOpen::default(),
            desk: self.desk,
            workers: 1,
        };
        let worker = Worker::new(
            shared(settings, recorder).unwrap(),
            CancellationToken::new(),
        );
        let id = SandboxId::new(uuid::Uuid::from_u128(7));
        let wallet = self.keeper.map(|keeper| keeper.wallet(id));
        let subject = Subject::with_wallet(
            id,
            ([127, 0, 0, 1].into(), [127, 0, 0, 1].into()),
            Policy::compile(self.policy, "test").unwrap(),
            wallet,
        );
        Lab {
            subject,
            worker,
            authority,
            log,
            tasks: TaskTracker::new(),
        }
    }
}

/// How a client's connection reaches the proxy.
#[derive(Debug, Clone)]
pub(super) enum Way {
    Explicit,
    /// As if redirected on its way to this.
    To(Destination),
}

impl Way {
    pub(super) fn to(host: &str, port: u16) -> Self {
        Self::To(Destination {
            host: Host::parse(host).unwrap(),
            port: Port::new(port).unwrap(),
        })
    }
}

impl Lab {
    /// A connection to the proxy, served.
    pub(super) async fn connect(&self, way: Way) -> TcpStream {
        self.connect_as(&self.subject, way).await
    }

    /// Another sandbox under the same policy, served by the same thread.
    pub(super) fn neighbour(&self) -> Arc<Subject> {
        Subject::new(
            SandboxId::new(uuid::Uuid::from_u128(8)),
            [127, 0, 0, 1].into(),
            [127, 0, 0, 1].into(),
            Policy::compile(ALLOW_API, "test").unwrap(),
        )
    }

    /// A connection of one sandbox.
    pub(super) async fn connect_as(&self, subject: &Arc<Subject>, way: Way) -> TcpStream {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = dial(listener.local_addr().unwrap()).await;
        let (stream, source) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let guard = subject.accept().unwrap();
        let caller = Caller::new(Arc::clone(&self.worker), guard, source);
        self.tasks.spawn(async move {
            match way {
                Way::Explicit => {
                    let own = Destination {
                        host: Host::from(std::net::IpAddr::from([127, 0, 0, 1])),
                        port: Port::new(8081).unwrap(),
                    };
                    Box::pin(connection::explicit(caller, stream, own)).await;
                }
                Way::To(destination) => {
                    let stream = Rewind::new(Bytes::new(), stream);
                    Box::pin(connection::to_destination(caller, stream, destination)).await;
                }
            }
        });
        client
    }

    /// Records of one kind.
    pub(super) fn records(&self, event: Event) -> Vec<Record> {
        let mut records = self.log.records();
        records.retain(|record| record.entry.event == event);
        records
    }

    /// Waits until there are `count` records of a kind: outcomes come after the client has its answer.
    pub(super) async fn until_records(&self, event: Event, count: usize) -> Vec<Record> {
        for _ in 0..400 {
            let records = self.records(event);
            if records.len() >= count {
                return records;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!(
            "{count} records of {event} expected: {:#?}",
            self.log.records()
        );
    }

    /// Every denial that is recorded, one at least, is for `reason`.
    #[track_caller]
    pub(super) fn assert_denied_for(&self, reason: DenyReason) {
        let mut denied = self.log.records();
        denied.retain(|record| record.entry.verdict == Some(VerdictWord::Deny));
        assert!(!denied.is_empty());
        for record in denied {
            assert_eq!(record.entry.reason, Some(reason), "{record:#?}");
        }
    }

    /// Waits until something is recorded as denied: that may be after the client has its answer.
    pub(super) async fn until_denied(&self) {
        let denied = |record: &Record| record.entry.verdict == Some(VerdictWord::Deny);
        let recording = async {
            while !self.log.records().iter().any(denied) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let recorded = tokio::time::timeout(Duration::from_secs(60), recording).await;
        assert!(recorded.is_ok(), "{:#?}", self.log.records());
    }

    /// That the last record holds both names that did not agree, and tells of them.
    #[track_caller]
    pub(super) fn assert_named(&self, names: [&str; 2]) -> gig_audit::Entry {
        let entry = self.log.records().pop().unwrap().entry;
        for name in names {
            let finding = format!("named:{name}");
            let found = entry.findings.iter().any(|found| **found == *finding);
            assert!(found, "{finding}: {entry:#?}");
            let (_, host) = name.split_once('=').unwrap();
            let why = gig_audit::why_of(&entry.findings);
            assert!(why.is_some_and(|why| why.contains(host)), "{entry:#?}");
        }
        entry
    }

    /// Exactly one denial is recorded, for `reason`.
    #[track_caller]
    pub(super) fn assert_denied_once(&self, reason: DenyReason) {
        let denied: Vec<_> = self
            .log
            .records()
            .into_iter()
            .filter(|record| {
                record.entry.verdict == Some(VerdictWord::Deny)
                    && record.entry.event != Event::Response
            })
            .collect();
        assert_eq!(denied.len(), 1, "{denied:#?}");
        assert_eq!(denied[0].entry.reason, Some(reason), "{denied:#?}");
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the test's client and origins are not the proxy"
)]
pub(super) async fn dial(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}
