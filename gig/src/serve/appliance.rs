//! Store and record of an appliance, as `gig serve` and the commands beside it open them.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    Durability, Entry, Event, Recorder, RecorderOwner, RecorderSettings, SigningKey,
    SqliteStore as RecordStore, VerdictWord,
};
use gig_web::{Actor, Change, Store, Traffic};

use super::database;
use crate::{data_dir, secrets::changes, signing_key};

/// Both, open.
pub(crate) struct Appliance {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) recorder: Recorder,
    /// The record's database.
    pub(crate) record: PathBuf,
    /// Signs its checkpoints.
    pub(crate) key: Arc<SigningKey>,
    owner: RecorderOwner,
}

impl Appliance {
    /// Opens both in `dir`; makes them at first use.
    ///
    /// # Errors
    /// When one cannot be used; says which and the cure.
    pub(crate) fn open(dir: &Path, traffic: Option<Arc<Traffic>>) -> anyhow::Result<Self> {
        let store = database::open(dir)?;
        let folder = dir.join("audit");
        data_dir::make_private(&folder)?;
        let record = folder.join(RECORD);
        let node = node();
        let key = Arc::new(signing_key::ours()?);
        let records = RecordStore::open_signing(&record, &node, Some(Arc::clone(&key)))?;
        let mut settings = RecorderSettings::new(&node);
        settings.durability = Durability::Kernel;
        if let Some(traffic) = traffic {
            settings.observer = Some(Box::new(move |record| count(&traffic, &record.entry)));
        }
        let (recorder, owner) = Recorder::start(Box::new(records), settings)?;
        Ok(Self {
            store,
            recorder,
            record,
            key,
            owner,
        })
    }

    /// The same for a command: the directory must be an appliance's own.
    ///
    /// # Errors
    /// As [`Appliance::open`].
    pub(crate) fn beside() -> anyhow::Result<Self> {
        let dir = data_dir::path()?;
        data_dir::make_private(&dir)?;
        data_dir::refuse_shared(&dir)?;
        Self::open(&dir, None)
    }

    /// Makes a change as this machine's user.
    ///
    /// # Errors
    /// When it is refused, or cannot be recorded.
    pub(crate) fn change(&self, change: &Change) -> anyhow::Result<()> {
        let actor = Actor {
            name: changes::who(),
            person: Some(Actor::OWNER.into()),
            owner: true,
            standing: gig_web::store::Standing::Itself,
            address: None,
            at: jiff::Timestamp::now(),
        };
        let witness = |entry: Entry| self.record(entry).map_err(|error| error.to_string());
        self.store
            .apply(change, &actor, &witness)
            .map(drop)
            .context("nothing was changed")
    }

    /// Records something, and waits until it is.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(crate) fn record(&self, entry: Entry) -> anyhow::Result<()> {
        // A thread of its own: the caller may be on a runtime, whose threads must not wait.
        let recorder = self.recorder.clone();
        let recorded = std::thread::spawn(move || -> anyhow::Result<()> {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build()?;
            runtime.block_on(recorder.record(entry))?;
            Ok(())
        });
        let recorded = recorded.join();
        recorded.unwrap_or_else(|_| Err(anyhow::anyhow!("the writer died")))
    }

    /// Records what this machine's user does to the whole of it, for a command.
    ///
    /// # Errors
    /// When it cannot be opened or recorded.
    pub(crate) fn record_beside(findings: &[String]) -> anyhow::Result<()> {
        let appliance = Self::beside()?;
        let mut entry = Entry::new(Event::Admin);
        entry.profile = Some(changes::who());
        entry.verdict = Some(VerdictWord::Allow);
        entry.findings = findings.iter().map(|one| one.as_str().into()).collect();
        let recorded = appliance.record(entry);
        appliance.close();
        recorded
    }

    /// Writes what is queued and waits for the disk.
    pub(crate) fn close(self) {
        self.owner.close(CLOSE_PATIENCE);
    }
}

/// What the record calls this machine.
pub(crate) fn node() -> String {
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}

/// Decisions about a sandbox's way out are told apart from what people did.
fn count(traffic: &Traffic, entry: &Entry) {
    let one = |counter: &AtomicU64| {
        counter.fetch_add(1, Relaxed);
    };
    one(&traffic.records);
    if entry.host.is_none() {
        return;
    }
    match entry.verdict {
        Some(VerdictWord::Allow) => one(&traffic.allowed),
        Some(VerdictWord::Deny) => one(&traffic.denied),
        Some(VerdictWord::WouldDeny) => one(&traffic.would_deny),
        None => {}
    }
}

/// In its own folder there.
const RECORD: &str = "record.db";
/// A disk that has not answered by now will not.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
