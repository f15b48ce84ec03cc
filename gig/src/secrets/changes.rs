//! The record of changes of secrets: who changed which, told before the change takes effect.
//!
//! A change that cannot be recorded is not made. Records go to the appliance's record where the data directory
//! is one's, or the fleet's where there is one; else to `audit.jsonl` beside the vault, or where `--audit` says.
//! They wait for the disk; names and versions stand in them, never a value. What a run changes is told by the
//! run's own record as well.

use std::{
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
    Deed, Entry, Event, RecordRefused, Recorder, VerdictWord,
    recorder::{Durability, RecorderOwner, RecorderSettings},
    store::{Store, jsonl::JsonlStore},
};
use gig_policy::SandboxId;
use gig_vault::vault::{Announced, Doing, NotWitnessed, Witness};
use parking_lot::Mutex;
use tokio::runtime::{Handle, Runtime};

use crate::{data_dir, node, serve::appliance};

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
    /// What was told before that was known, where it is going to be.
    early: Mutex<Option<Vec<Entry>>>,
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
                match appliance::records_beside(&dir)? {
                    Some(records) => records,
                    None => Box::new(opened(&dir.join(FILE))?),
                }
            }
        };
        let mut settings = RecorderSettings::new(&node::name()?);
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

    /// Remembers what is told, for the run that is going to be followed.
    pub(crate) fn before_a_run(self) -> Self {
        *self.told.early.lock() = Some(Vec::new());
        self
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
        // Locked until the run is known: nothing is told in between that neither has.
        let mut early = self.told.early.lock();
        for mut entry in early.take().into_iter().flatten() {
            entry.sandbox = Some(sandbox);
            run.queue(entry)
                .context("cannot record what became of a secret before the start")?;
        }
        let _first = self.told.run.set((run, sandbox));
        drop(early);
        Ok(())
    }

    /// Tells of something that is about to be done with the vault as a whole.
    ///
    /// # Errors
    /// When it cannot be recorded: it must not be done.
    pub(crate) fn announce(&self, what: &str) -> anyhow::Result<()> {
        let told = (VerdictWord::Allow, Deed::SecretVault);
        let recorded = self.told.record(told, None, what);
        recorded.with_context(|| format!("refusing to {what}"))?;
        self.told.open.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Tells of what is no change of a secret, and is this machine's to tell.
    ///
    /// # Errors
    /// When it cannot be recorded.
    pub(crate) fn tell(&self, entry: Entry) -> anyhow::Result<()> {
        let recorded = self.told.recorder.record(entry);
        self.told.runtime.block_on(recorded)?;
        Ok(())
    }

    /// Closes the record, after what was told succeeded or failed: a failure is recorded too.
    ///
    /// # Errors
    /// The failure itself.
    pub(crate) fn close<T>(self, outcome: anyhow::Result<T>) -> anyhow::Result<T> {
        if outcome.is_err() && self.told.open.load(Ordering::Relaxed) {
            let failed = "the change that was recorded before this was not made";
            let told = (VerdictWord::Deny, Deed::SecretVault);
            if let Err(error) = self.told.record(told, None, failed) {
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
        (verdict, deed): (VerdictWord, Deed),
        name: Option<&Arc<str>>,
        what: &str,
    ) -> Result<(), RecordRefused> {
        let mut entry = Entry::new(Event::SecretChange);
        entry.profile = Some(Arc::clone(&self.who));
        entry.verdict = Some(verdict);
        (entry.deed, entry.subject) = (Some(deed), name.cloned());
        entry.secrets = name.into_iter().cloned().collect();
        entry.findings = vec![what.into()];
        let record = || {
            self.runtime.block_on(async {
                // The run's first: it is where somebody looks who asks what a sandbox did.
                let followed = self.run.get();
                if let Some((run, sandbox)) = followed {
                    run.record(within(&entry, *sandbox)).await?;
                }
                self.recorder.record(entry.clone()).await?;
                if followed.is_none() {
                    self.remember(entry)?;
                }
                Ok(())
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

impl Told {
    /// Keeps what was recorded for the run, or tells it if it is known by now.
    fn remember(&self, entry: Entry) -> Result<(), RecordRefused> {
        let mut early = self.early.lock();
        match (self.run.get(), early.as_mut()) {
            (Some((run, sandbox)), _) => run.queue(within(&entry, *sandbox)),
            (None, Some(early)) => {
                early.push(entry);
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }
}

/// What a change of a secret is in the record's list.
const fn deed_of(doing: Doing) -> Deed {
    match doing {
        Doing::Set => Deed::SecretSet,
        Doing::Rotate | Doing::Supersede => Deed::SecretRotate,
        Doing::Revoke | Doing::Forget => Deed::SecretRemove,
    }
}

/// The same as an entry of this sandbox.
fn within(entry: &Entry, sandbox: SandboxId) -> Entry {
    let mut entry = entry.clone();
    entry.sandbox = Some(sandbox);
    entry
}

impl Witness for Told {
    fn announce(&self, change: &Announced) -> Result<(), NotWitnessed> {
        let told = (VerdictWord::Allow, deed_of(change.doing));
        self.record(told, Some(&change.name), &change.words())
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

/// Who gives this command, as the record names whoever comes by the appliance's own socket.
pub(crate) fn who() -> Arc<str> {
    gig_web::local_user(rustix::process::getuid().as_raw()).into()
}

/// Beside the vault.
const FILE: &str = "audit.jsonl";
/// A disk that has not answered by now will not.
const PATIENCE: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn opened_in(dir: &tempfile::TempDir) -> Changes {
        Changes::open(Some(&dir.path().join("changes.jsonl"))).unwrap()
    }

    fn text(dir: &tempfile::TempDir, file: &str) -> String {
        fs::read_to_string(dir.path().join(file)).unwrap()
    }

    #[test]
    fn what_no_run_is_going_to_follow_is_recorded_and_not_kept() {
        let dir = tempfile::tempdir().unwrap();
        let changes = opened_in(&dir);
        for _ in 0..3 {
            changes.announce("rotate").unwrap();
        }
        assert!(changes.told.early.lock().is_none());
        changes.close(Ok(())).unwrap();
        assert_eq!(text(&dir, "changes.jsonl").matches("rotate").count(), 3);
    }

    #[test]
    fn a_run_is_told_once_of_what_came_before_it_and_of_what_comes() {
        let dir = tempfile::tempdir().unwrap();
        let changes = opened_in(&dir).before_a_run();
        changes.announce("early").unwrap();
        let store = Box::new(opened(&dir.path().join("run.jsonl")).unwrap());
        let settings = RecorderSettings::new("here");
        let (run, owner) = Recorder::start(store, settings).unwrap();
        let sandbox = SandboxId::new(uuid::Uuid::from_u128(1));
        changes.follow(run, sandbox).unwrap();
        assert!(changes.told.early.lock().is_none());
        changes.announce("late").unwrap();
        changes.close(Ok(())).unwrap();
        owner.close(PATIENCE);
        for file in ["changes.jsonl", "run.jsonl"] {
            let text = text(&dir, file);
            for word in ["early", "late"] {
                assert_eq!(text.matches(word).count(), 1, "{file}: {text}");
            }
        }
    }

    #[test]
    fn what_the_record_refused_is_not_told_to_the_run() {
        let dir = tempfile::tempdir().unwrap();
        let changes = opened_in(&dir).before_a_run();
        let Changes { told, owner } = changes;
        owner.close(PATIENCE);
        let refused = told.record((VerdictWord::Allow, Deed::SecretVault), None, "rotate");
        assert!(refused.is_err());
        assert_eq!(told.early.lock().as_ref().map(Vec::len), Some(0));
    }
}
