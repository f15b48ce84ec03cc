//! A machine whose sandboxes are entries of a list: it starts them when a test lets it, and remembers
//! what was put in force.

use std::{net::SocketAddr, sync::Arc};

use futures_util::future::{BoxFuture, FutureExt as _};
use gig_policy::SandboxId;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{
    io::duplex,
    sync::{Semaphore, mpsc},
    task::JoinSet,
};

use super::{
    Attached, Control, ControlError, Decide, Decided, EndCause, Ended, Examined, Health, LogAsked,
    LogLine, LogPage, LogStream, Registered, Registration, Ruling, SandboxFacts, SandboxLog,
    Wanted,
};

pub(crate) struct FakeControl {
    running: Arc<Mutex<Vec<SandboxFacts>>>,
    /// Server and policy, as they were put in force.
    pub(crate) put: Mutex<Vec<(String, String)>>,
    /// What ended, and has left lines behind.
    pub(crate) printed: Mutex<Vec<SandboxId>>,
    /// Where other nodes listen, as it was told last.
    pub(crate) closed: Mutex<Vec<SocketAddr>>,
    /// Octets that each line has beside its words.
    pub(crate) longest: Mutex<usize>,
    /// One for each start that may ask under which policy.
    pub(crate) prepared: Semaphore,
    /// One for each start that has asked.
    pub(crate) decided: Semaphore,
    /// One for each start that may end.
    pub(crate) gate: Semaphore,
}

impl FakeControl {
    pub(crate) fn new() -> Self {
        Self {
            running: Arc::default(),
            put: Mutex::default(),
            printed: Mutex::default(),
            closed: Mutex::default(),
            longest: Mutex::default(),
            prepared: Semaphore::new(1000),
            decided: Semaphore::new(0),
            gate: Semaphore::new(0),
        }
    }

    /// A sandbox of `server` runs.
    pub(crate) fn run(&self, server: &str, policy: &str) -> SandboxFacts {
        let id = SandboxId::new(uuid::Uuid::now_v7());
        let facts = Self::facts(id, server, policy);
        self.running.lock().push(facts.clone());
        facts
    }

    /// One that was asked to end takes its time.
    pub(crate) fn put_back(&self, facts: SandboxFacts) {
        self.running.lock().push(facts);
    }

    /// The same for somebody.
    pub(crate) fn run_for(&self, server: &str, policy: &str, profile: &str) {
        let id = SandboxId::new(uuid::Uuid::now_v7());
        let facts = SandboxFacts {
            profile: profile.into(),
            ..Self::facts(id, server, policy)
        };
        self.running.lock().push(facts);
    }

    fn facts(id: SandboxId, server: &str, policy: &str) -> SandboxFacts {
        SandboxFacts {
            id,
            server: server.into(),
            spec: Arc::default(),
            profile: "ana".into(),
            attached: false,
            address: None,
            namespace: None,
            policy: policy.into(),
            policy_version: 1,
            policy_by: "server".into(),
            started: Timestamp::UNIX_EPOCH,
            ended: None,
            connections: 0,
            layers: Vec::new(),
        }
    }

    /// Under which policies sandboxes of `server` came to be, in order.
    pub(crate) fn put_for(&self, server: &str) -> Vec<String> {
        let put = self.put.lock();
        let theirs = put.iter().filter(|(of, _)| of == server);
        theirs.map(|(_, policy)| policy.clone()).collect()
    }
}

/// Ends a sandbox when it is dropped.
struct Ending {
    id: SandboxId,
    running: Arc<Mutex<Vec<SandboxFacts>>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut running = self.running.lock();
        running.retain(|sandbox| sandbox.id != self.id);
    }
}

impl Control for FakeControl {
    fn health(&self) -> Vec<Health> {
        Vec::new()
    }

    fn layers(&self) -> Vec<Health> {
        Vec::new()
    }

    fn examine(&self) -> Result<Vec<Examined>, ControlError> {
        Ok(Vec::new())
    }

    fn sandboxes(&self) -> Vec<SandboxFacts> {
        self.running.lock().clone()
    }

    fn start(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<SandboxFacts, ControlError>> {
        async move {
            self.prepared.acquire().await.unwrap().forget();
            let Decided { ruling, hold } = decide().await?;
            self.decided.add_permits(1);
            self.gate.acquire().await.unwrap().forget();
            let name = ruling.policy.reference().name.to_string();
            let facts = SandboxFacts {
                profile: wanted.profile,
                spec: Arc::new(wanted.server.spec),
                policy_by: ruling.by,
                ..Self::facts(wanted.id, &wanted.server.name, &name)
            };
            self.running.lock().push(facts.clone());
            // As the real one, it needs a thread before it lets go.
            tokio::task::spawn_blocking(move || drop(hold))
                .await
                .unwrap();
            Ok(facts)
        }
        .boxed()
    }

    fn register(
        &self,
        wanted: Wanted,
        registration: Registration,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Registered, ControlError>> {
        async move {
            let Decided { ruling, hold } = decide().await?;
            let name = ruling.policy.reference().name.to_string();
            let facts = self.run(&wanted.server.name, &name);
            drop(hold);
            Ok(Registered {
                facts,
                variables: vec![("CA".to_owned(), registration.ca_path)],
                ca_pem: "a certificate".to_owned(),
                already: false,
            })
        }
        .boxed()
    }

    fn attach(
        &self,
        wanted: Wanted,
        decide: Decide,
    ) -> BoxFuture<'_, Result<Attached, ControlError>> {
        async move {
            let (stdin, program_reads) = duplex(1024);
            let (program_writes, stdout) = duplex(1024);
            let (_, stderr) = mpsc::channel(1);
            let facts = self.start(wanted, decide).await?;
            let (id, running) = (facts.id, Arc::clone(&self.running));
            // A program that says what it hears.
            let mut programs = JoinSet::new();
            programs.spawn(async move {
                let (mut reads, mut writes) = (program_reads, program_writes);
                tokio::io::copy(&mut reads, &mut writes).await
            });
            let ended = async move {
                let _copied = programs.join_next().await;
                let cause = EndCause::Program;
                Ended {
                    status: 3,
                    cause,
                    starved: false,
                }
            };
            Ok(Attached {
                facts,
                stdin: Some(Box::new(stdin)),
                stdout: Box::new(stdout),
                stderr,
                ended: ended.boxed().shared(),
                hold: Box::new(Ending { id, running }),
            })
        }
        .boxed()
    }

    fn used(&self, id: SandboxId) -> bool {
        self.running.lock().iter().any(|sandbox| sandbox.id == id)
    }

    /// A line of each sandbox of that server, and one of each that was said to have ended.
    fn lines(&self, asked: &LogAsked) -> Result<LogPage, ControlError> {
        let longest = *self.longest.lock();
        let running = self.running.lock().clone().into_iter();
        let running = running.filter(|one| *one.server == asked.server);
        let ids = running.map(|one| one.id).chain(self.printed.lock().clone());
        let seen = ids.filter(|id| asked.sandbox.is_none_or(|wanted| wanted == *id));
        let seen = seen.filter(|id| asked.seen.takes_in(*id));
        let lines = seen.map(|sandbox| LogLine {
            time: Timestamp::UNIX_EPOCH,
            sandbox,
            stream: LogStream::Output,
            text: format!("said by {sandbox}{}", "!".repeat(longest)),
        });
        let mut lines: Vec<_> = lines.collect();
        let more = lines.len() > asked.limit;
        lines.truncate(asked.limit);
        Ok(LogPage {
            lines,
            more,
            ..LogPage::default()
        })
    }

    fn stop(&self, id: SandboxId) -> Result<(), ControlError> {
        self.running.lock().retain(|sandbox| sandbox.id != id);
        Ok(())
    }

    fn lose(&self, id: SandboxId) {
        self.running.lock().retain(|sandbox| sandbox.id != id);
    }

    fn close_to_sandboxes(&self, places: Vec<SocketAddr>) {
        *self.closed.lock() = places;
    }

    fn log(&self, _: SandboxId) -> Option<SandboxLog> {
        None
    }

    fn set_policy(&self, server: &str, profile: &str, ruling: Ruling) {
        let name = Arc::clone(&ruling.policy.reference().name);
        for sandbox in self.running.lock().iter_mut() {
            if *sandbox.server == *server && *sandbox.profile == *profile {
                sandbox.policy = Arc::clone(&name);
                sandbox.policy_by = Arc::clone(&ruling.by);
            }
        }
        self.put.lock().push((server.to_owned(), name.to_string()));
    }
}
