//! That this node lives, told to the others on the same database, and which of them do not.
//!
//! Every few seconds the node says that it lives and, as soon as something changes, what runs here. It looks, too,
//! whether another has been silent for a minute: what ran there is then told as lost in the record, once, by whoever
//! comes first. A node that finds itself taken for dead was cut off: what was told as lost may not run on, so it
//! ends that, and goes on as a node that has just begun. Where the store is this appliance's alone there is nothing
//! to tell.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, mpsc},
    thread::JoinHandle,
    time::Duration,
};

use gig_audit::{
    Deed, Entry, Event, VerdictWord,
    search::{Filter, Query},
};
use gig_policy::SandboxId;
use tokio::{runtime::Runtime, time::Instant};

use crate::{
    api::time,
    app::App,
    control::SandboxFacts,
    store::{
        Beaten, ChangeError, Lost, NodeRun, RunningFacts, RunningNews, RunningRow, nodes::BEAT,
    },
};

/// A thread that tells of this node; says that it is no more when it is dropped.
#[derive(Debug)]
pub struct Presence {
    stop: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Presence {
    /// Begins; `None` where nobody else is on the store.
    ///
    /// # Errors
    /// When there is no thread to be had.
    pub fn start(app: &Arc<App>) -> std::io::Result<Option<Self>> {
        if app.store.news().is_none() {
            return Ok(None);
        }
        let (stop, told) = mpsc::channel();
        let mut teller = Teller::new(app)?;
        let thread = std::thread::Builder::new()
            .name("presence".to_owned())
            .spawn(move || {
                loop {
                    teller.round();
                    match told.recv_timeout(LOOK) {
                        Err(mpsc::RecvTimeoutError::Timeout) => {}
                        _ => break,
                    }
                }
                teller.end();
            })?;
        let thread = Some(thread);
        Ok(Some(Self { stop, thread }))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        // One that has ended is told nothing.
        let _gone = self.stop.send(());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the thread that tells of this node panicked");
        }
    }
}

/// What is told of a sandbox, as far as it changes.
type Told = (Arc<str>, u64, Arc<str>);

struct Teller {
    app: Arc<App>,
    /// For recording alone.
    runtime: Runtime,
    node: NodeRun,
    /// The store knows this start of it.
    begun: bool,
    /// When it last said that it lives.
    said: Option<Instant>,
    /// What the store knows that runs here.
    told: HashMap<SandboxId, Told>,
    /// What was told as lost and still ends: not told of any more.
    lost: HashSet<SandboxId>,
}

impl Teller {
    fn new(app: &Arc<App>) -> std::io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()?;
        Ok(Self {
            app: Arc::clone(app),
            runtime,
            node: NodeRun {
                name: app.node.clone(),
                run: app.held.run().to_owned(),
                listens: app.listens.clone(),
            },
            begun: false,
            said: None,
            told: HashMap::new(),
            lost: HashSet::new(),
        })
    }

    /// Looks once; what the store does not take is told at the next look.
    fn round(&mut self) {
        if !self.begun && !self.begin() {
            return;
        }
        // Before it is looked at what runs: what starts meanwhile is not over.
        let claimed = self.app.claims.started();
        let running = self.running();
        let (news, over) = self.news(&running, claimed);
        let due = self.said.is_none_or(|said| said.elapsed() >= BEAT);
        if !due && news == RunningNews::default() {
            return;
        }
        match self.app.store.beat(&self.node, &news) {
            Ok(Beaten::Noted) => {
                self.app.claims.forget(&over);
                self.told = running
                    .iter()
                    .map(|facts| (facts.id, told(facts)))
                    .collect();
                self.said = Some(Instant::now());
                if due {
                    self.bury();
                    self.close_others();
                }
            }
            Ok(Beaten::Unknown) => self.begin_anew(),
            Ok(Beaten::Gone) => self.end_lost(),
            Err(error) => tracing::debug!(%error, "nobody is told that this node lives"),
        }
    }

    fn begin(&mut self) -> bool {
        let version = env!("CARGO_PKG_VERSION");
        match self.app.store.begin_node(&self.node, version) {
            Ok(()) => self.begun = true,
            Err(error) => tracing::debug!(%error, "nobody is told that this node begins"),
        }
        self.begun
    }

    /// All is told once more.
    fn begin_anew(&mut self) {
        (self.begun, self.said) = (false, None);
        self.told.clear();
    }

    /// Others took this node for dead: what they were told of runs no longer.
    fn end_lost(&mut self) {
        tracing::error!(
            "this node was cut off from its database for so long that others told its sandboxes as lost: they are ended"
        );
        for id in self.told.keys() {
            self.app.control.lose(*id);
            self.lost.insert(*id);
        }
        self.node.run = uuid::Uuid::now_v7().to_string();
        self.begin_anew();
    }

    /// What runs here, but what ends as lost.
    fn running(&mut self) -> Vec<SandboxFacts> {
        let mut running = self.app.control.sandboxes();
        running.retain(|one| one.ended.is_none());
        if !self.lost.is_empty() {
            self.lost
                .retain(|id| running.iter().any(|one| one.id == *id));
            running.retain(|one| !self.lost.contains(&one.id));
        }
        running
    }

    /// What the store does not know of it, and what of that is over.
    fn news(
        &self,
        running: &[SandboxFacts],
        claimed: Vec<SandboxId>,
    ) -> (RunningNews, Vec<SandboxId>) {
        let put = running.iter().filter(|facts| {
            let known = self.told.get(&facts.id);
            known.is_none_or(|known| *known != told(facts))
        });
        let there: HashSet<_> = running.iter().map(|facts| facts.id).collect();
        // Some are over before anybody looks: they were claimed and never told.
        let known = self.told.keys().copied().chain(claimed);
        let ended: HashSet<_> = known.filter(|id| !there.contains(id)).collect();
        (
            RunningNews {
                put: put.map(|facts| row(&self.node.name, facts)).collect(),
                ended: ended.iter().map(ToString::to_string).collect(),
            },
            ended.into_iter().collect(),
        )
    }

    /// Tells of nodes that are no more, and of what ran there.
    fn bury(&self) {
        match self.app.store.bury(&self.node, &|lost| self.record(lost)) {
            Ok(()) => {}
            Err(ChangeError::NotRecorded(why)) => {
                tracing::warn!(why, "what other nodes lost could not be recorded");
            }
            Err(error) => tracing::debug!(%error, "whether other nodes live is not known"),
        }
    }

    /// Closes to sandboxes where other nodes listen.
    fn close_others(&self) {
        match self.app.store.nodes() {
            Ok(nodes) => {
                let others = nodes
                    .into_iter()
                    .filter(|one| one.name != self.node.name && !one.gone);
                let places = others.flat_map(|one| one.listens).collect();
                self.app.control.close_to_sandboxes(places);
            }
            Err(error) => tracing::debug!(%error, "where other nodes listen is not known"),
        }
    }

    fn record(&self, lost: &Lost) -> Result<(), String> {
        if let Lost::Sandbox(row) = lost
            && self.has_ended(&row.sandbox)?
        {
            return Ok(());
        }
        let recorded = self.app.recorder.record(entry(lost));
        let recorded = self.runtime.block_on(recorded);
        recorded.map(drop).map_err(|refused| refused.why)
    }

    /// Its node came to record its end, and no further.
    fn has_ended(&self, sandbox: &str) -> Result<bool, String> {
        let query = Query {
            filter: Filter {
                sandbox: vec![sandbox.to_owned()],
                event: vec![Event::SandboxExit.to_string()],
                ..Filter::default()
            },
            before: None,
            limit: 1,
        };
        let found = self.app.page(&query);
        found
            .map(|page| !page.records.is_empty())
            .map_err(|problem| problem.detail)
    }

    /// It serves no more.
    fn end(&self) {
        if let Err(error) = self.app.store.end_node(&self.node) {
            tracing::warn!(%error, "other nodes are not told that this one goes: in a minute they take it for dead");
        }
    }
}

/// How what is lost stands in the record.
fn entry(lost: &Lost) -> Entry {
    let mut entry = Entry::new(Event::Admin);
    entry.profile = Some("gig".into());
    entry.verdict = Some(VerdictWord::Allow);
    match lost {
        Lost::Node {
            name,
            silent,
            sandboxes,
        } => {
            entry.deed = Some(Deed::NodeLost);
            entry.subject = Some(name.as_str().into());
            let seconds = silent.as_secs();
            let words = format!(
                "node {name} is lost: it did not say for {seconds} seconds that it lives; it ran {sandboxes} sandboxes"
            );
            entry.findings = vec![words.into()];
        }
        Lost::Sandbox(row) => {
            entry.deed = Some(Deed::SandboxLost);
            entry.subject = Some(row.node.as_str().into());
            entry.sandbox = row.sandbox.parse().ok().map(SandboxId::new);
            entry.server = Some(row.server.as_str().into());
            let words = format!(
                "sandbox lost: node {} that ran it for {} is gone, and its end is not in the record",
                row.node, row.profile
            );
            entry.findings = vec![words.into()];
        }
    }
    entry
}

fn told(facts: &SandboxFacts) -> Told {
    (
        Arc::clone(&facts.policy),
        facts.policy_version,
        Arc::clone(&facts.policy_by),
    )
}

fn row(node: &str, facts: &SandboxFacts) -> RunningRow {
    RunningRow {
        sandbox: facts.id.to_string(),
        node: node.to_owned(),
        server: facts.server.to_string(),
        profile: facts.profile.to_string(),
        facts: RunningFacts {
            attached: facts.attached,
            address: facts.address.map(|address| address.to_string()),
            namespace: facts.namespace.as_ref().map(ToString::to_string),
            policy: facts.policy.to_string(),
            policy_version: facts.policy_version,
            policy_by: facts.policy_by.to_string(),
            started: time(facts.started),
            layers: facts.layers.iter().map(ToString::to_string).collect(),
        },
    }
}

/// Between two looks at what runs here.
const LOOK: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests;
