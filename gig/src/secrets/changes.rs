//! The record of changes of secrets: who changed which, told before the change takes effect.
//!
//! A change that cannot be recorded is not made. Records go to `audit.jsonl` in the data directory, or
//! where `--audit` says, and wait for the disk; names and versions stand in them, never a value. What a
//! run changes is told by the run's own record as well.

use std::{
    fs,
    os::fd::AsFd as _,
    path::Path,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use gig_audit::{
    Entry, Event, RecordRefused, Recorder, VerdictWord,
    recorder::{Durability, RecorderOwner, RecorderSettings},
    store::{Store, jsonl::JsonlStore},
};
use gig_policy::SandboxId;
use gig_vault::vault::{Announced, NotWitnessed, Witness};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

use crate::data_dir;

/// The open record of one command.
#[derive(Debug)]
pub(crate) struct Changes {
    told: Arc<Told>,
    owner: RecorderOwner,
}

/// Tells the record.
#[derive(Debug)]
struct Told {
    recorder: Recorder,
    runtime: Runtime,
    who: Arc<str>,
    /// Something was told that has not come to its end.
    open: AtomicBool,
    /// The record of the run that changes are made in, and its sandbox.
    run: OnceLock<(Recorder, SandboxId)>,
    /// What was told before that was known.
    early: Mutex<Vec<Entry>>,
}

impl Changes {
    /// Opens the record.
    ///
    /// # Errors
    /// When it cannot be written to: without a record nothing is changed.
    pub(crate) fn open(place: Option<&Path>) -> anyhow::Result<Self> {
        let store: Box<dyn Store> = match place {
            Some(path) if path.as_os_str() == "-" => {
                let fd = std::io::stderr().as_fd().try_clone_to_owned()?;
                Box::new(JsonlStore::stream(fd, "standard error"))
            }
            Some(path) => Box::new(opened(path)?),
            None => {
                let dir = data_dir::path()?;
                data_dir::make_private(&dir)?;
                Box::new(opened(&dir.join(FILE))?)
            }
        };
        let node = rustix::system::uname();
        let mut settings = RecorderSettings::new(&node.nodename().to_string_lossy());
        settings.durability = Durability::Strict;
        let (recorder, owner) = Recorder::start(store, settings)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start gig's own runtime")?;
        let told = Arc::new(Told {
            recorder,
            runtime,
            who: who(),
            open: AtomicBool::new(false),
            run: OnceLock::new(),
            early: Mutex::default(),
        });
        Ok(Self { told, owner })
    }

    /// Whom the vault tells.
    pub(crate) fn witness(&self) -> Arc<dyn Witness> {
        Arc::clone(&self.told) as _
    }

    /// Changes are told to the record of this run, too: from now on, and those that were made before it
    /// was open. Only the first run counts.
    ///
    /// # Errors
    /// When it cannot be written to.
    pub(crate) fn follow(&self, run: Recorder, sandbox: SandboxId) -> anyhow::Result<()> {
        for mut entry in std::mem::take(&mut *self.told.early.lock()) {
            entry.sandbox = Some(sandbox);
            run.queue(entry)
                .context("cannot record what became of a secret before the start")?;
        }
        let _first = self.told.run.set((run, sandbox));
        Ok(())
    }

    /// Tells of something that is about to be done with the vault as a whole.
    ///
    /// # Errors
    /// When it cannot be recorded: it must not be done.
    pub(crate) fn announce(&self, what: &str) -> anyhow::Result<()> {
        let recorded = self.told.record(VerdictWord::Allow, None, what);
        recorded.with_context(|| format!("refusing to {what}"))?;
        self.told.open.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the record, after what was told succeeded or failed: a failure is recorded too.
    ///
    /// # Errors
    /// The failure itself.
    pub(crate) fn close<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        if outcome.is_err() && self.told.open.load(Ordering::Relaxed) {
            let failed = "the change that was recorded before this was not made";
            if let Err(error) = self.told.record(VerdictWord::Deny, None, failed) {
                tracing::error!(%error, "the failure of a change is not in the record");
            }
        }
        self.owner.close(PATIENCE);
        outcome
    }
}

impl Told {
    fn record(
        &self,
        verdict: VerdictWord,
        name: Option<&Arc<str>>,
        what: &str,
    ) -> Result<(), RecordRefused> {
        let mut entry = Entry::new(Event::SecretChange);
        entry.profile = Some(Arc::clone(&self.who));
        entry.verdict = Some(verdict);
        entry.secrets = name.into_iter().cloned().collect();
        entry.findings = vec![what.into()];
        let record = || {
            self.runtime.block_on(async {
                // The run's first: it is where somebody looks who asks what a sandbox did.
                if let Some((run, sandbox)) = self.run.get() {
                    let mut entry = entry.clone();
                    entry.sandbox = Some(*sandbox);
                    run.record(entry).await?;
                }
                if self.run.get().is_none() {
                    self.early.lock().push(entry.clone());
                }
                self.recorder.record(entry).await.map(drop)
            })
        };
        if Handle::try_current().is_err() {
            return record();
        }
        // Within another runtime, as in a run, no second one may wait.
        let waited = std::thread::scope(|scope| scope.spawn(record).join());
        waited.unwrap_or_else(|_| {
            let why = "the thread that records has ended".to_owned();
            Err(RecordRefused { why })
        })
    }
}

impl Witness for Told {
    fn announce(&self, change: &Announced) -> Result<(), NotWitnessed> {
        let doing = change.doing.as_str();
        let what = match change.version {
            Some(version) => format!("{doing} version {version}"),
            None => doing.to_owned(),
        };
        self.record(VerdictWord::Allow, Some(&change.name), &what)
            .map_err(|error| NotWitnessed {
                name: Arc::clone(&change.name),
                why: error.why,
            })?;
        self.open.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn opened(path: &Path) -> anyhow::Result<JsonlStore> {
    let shown = path.display();
    JsonlStore::open(path).with_context(|| {
        format!(
            "cannot record changes in {shown}, so nothing is changed (--audit names another file)"
        )
    })
}

/// The user's name with its number, as it is on this machine.
pub(crate) fn who() -> Arc<str> {
    let uid = rustix::process::getuid().as_raw();
    let accounts = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let name = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (name, _, number) = (fields.next()?, fields.next()?, fields.next()?);
        (number.parse() == Ok(uid)).then(|| name.to_owned())
    });
    match name {
        Some(name) => format!("{name} (uid {uid})").into(),
        None => format!("uid {uid}").into(),
    }
}

/// Beside the vault.
const FILE: &str = "audit.jsonl";
/// A disk that has not answered by now will not.
const PATIENCE: Duration = Duration::from_secs(5);
