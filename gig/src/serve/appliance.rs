//! Store and record of an appliance, as `gig serve` and the commands beside it open them.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::Context;
use gig_audit::{
    Deed, Durability, Entry, Event, Home, Recorder, RecorderOwner, RecorderSettings, SigningKey,
    VerdictWord,
    search::{Filter, Query},
};
use gig_web::{Actor, Change, Store, Traffic};

use super::database;
use crate::{
    backup::{Part, under_way::refuse_half},
    data_dir, node,
    secrets::changes,
    signing_key,
};

/// Both, open.
pub(crate) struct Appliance {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) recorder: Recorder,
    /// Where the record is.
    pub(crate) record: Home,
    /// What it calls this machine.
    pub(crate) node: String,
    /// Signs its checkpoints.
    pub(crate) key: Arc<SigningKey>,
    /// When anything was recorded before: by this node where others record there, too. Asked for who serves.
    pub(crate) newest: Option<jiff::Timestamp>,
    owner: RecorderOwner,
}

impl Appliance {
    /// Opens both for the appliance that serves from `dir`; makes them at first use.
    ///
    /// # Errors
    /// When one cannot be used; says which and the cure.
    pub(crate) fn open(
        dir: &Path,
        traffic: Arc<Traffic>,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        Self::open_as(dir, Some(traffic), durability)
    }

    /// Whoever counts traffic serves; others are commands beside.
    fn open_as(
        dir: &Path,
        traffic: Option<Arc<Traffic>>,
        durability: Durability,
    ) -> anyhow::Result<Self> {
        let store = database::open(dir)?;
        let record = database::record(dir)?;
        let node = node::name()?;
        let key = Arc::new(signing_key::ours()?);
        let records = record.store(&node, Arc::clone(&key), traffic.is_some())?;
        let newest = match traffic {
            Some(_) => newest(&record, &node)?,
            None => None,
        };
        let mut settings = RecorderSettings::new(&node);
        settings.durability = durability;
        if let Some(traffic) = traffic {
            settings.observer = Some(Box::new(move |record| traffic.count(&record.entry)));
        }
        let (recorder, owner) = Recorder::start(records, settings)?;
        Ok(Self {
            store,
            recorder,
            record,
            node,
            key,
            newest,
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
        refuse_half(&dir)?;
        Self::open_as(&dir, None, Durability::Strict)
    }

    /// Makes a change as this machine's user.
    ///
    /// # Errors
    /// When it is refused, or cannot be recorded.
    pub(crate) fn change(&self, change: &Change) -> anyhow::Result<()> {
        let actor = Actor {
            request: None,
            once: None,
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
    pub(crate) fn record_beside(deed: Deed, findings: &[String]) -> anyhow::Result<()> {
        let appliance = Self::beside()?;
        let mut entry = Entry::new(Event::Admin);
        entry.profile = Some(changes::who());
        entry.verdict = Some(VerdictWord::Allow);
        entry.deed = Some(deed);
        entry.findings = findings.iter().map(|one| one.as_str().into()).collect();
        let recorded = appliance.record(entry);
        let _told = appliance.close();
        recorded
    }

    /// Writes what is queued and waits for the disk. Says how many records were refused of which none tells; `None`
    /// where the record hangs.
    pub(crate) fn close(self) -> Option<u64> {
        self.owner.close(CLOSE_PATIENCE)
    }
}

fn newest(record: &Home, node: &str) -> anyhow::Result<Option<jiff::Timestamp>> {
    let mut filter = Filter::default();
    if record.is_shared() {
        filter.node.push(node.to_owned());
    }
    let query = Query {
        filter,
        before: None,
        limit: 1,
    };
    let found = record.log()?.search(&query)?.records.pop();
    // What is no time is for whoever verifies the record.
    Ok(found.and_then(|found| found.row.time.parse().ok()))
}

/// The appliance's record, for what is recorded beside it; `None` where none has served from `dir` and there is no fleet.
///
/// # Errors
/// When it cannot be opened.
pub(crate) fn records_beside(dir: &Path) -> anyhow::Result<Option<Box<dyn gig_audit::Store>>> {
    refuse_half(dir)?;
    if database::url()?.is_none() && !Part::Record.place(dir).exists() {
        return Ok(None);
    }
    let key = Arc::new(signing_key::ours()?);
    let records = database::record(dir)?.store(&node::name()?, key, false)?;
    Ok(Some(records))
}

/// A disk that has not answered by now will not.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);
