//! The record of one run: opened before anything else, closed after everything.

use std::{
    os::fd::AsFd,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use gig_audit::{
    Durability, JsonlStore, Recorder, RecorderOwner, RecorderSettings, SigningKey, SqliteStore,
    Store,
};
use gig_policy::SandboxId;

use super::{run_files, settings::AuditPlace, summary::Summary};
use crate::{data_dir, node, record_place::RecordPlace, signing_key};

/// The writer, what it wrote to, and what it counted.
#[derive(Debug)]
pub(crate) struct Record {
    recorder: Recorder,
    owner: RecorderOwner,
    place: Option<PathBuf>,
    summary: Summary,
    /// The run's own file in the data directory, while it is in use.
    held: Option<run_files::Held>,
}

impl Record {
    /// Opens the place and starts the writer.
    ///
    /// # Errors
    /// When it cannot be written to: without a record there is no run.
    pub(crate) fn open(
        place: &AuditPlace,
        durability: Durability,
        sandbox: SandboxId,
    ) -> anyhow::Result<Self> {
        let node = node::name()?;
        let own = *place == AuditPlace::DataDir;
        let place = match place {
            AuditPlace::Named(place) => place.clone(),
            AuditPlace::DataDir => RecordPlace::Lines(run_file(sandbox)?),
        };
        let (store, file) = open_store(&place, &node)?;
        let held = match (own, &file) {
            (true, Some(path)) => run_files::hold(path),
            _ => None,
        };
        let summary = Summary::default();
        let mut settings = RecorderSettings::new(&node);
        settings.durability = durability;
        let noted = summary.clone();
        settings.observer = Some(Box::new(move |record| noted.note(&record.entry)));
        let (recorder, owner) = Recorder::start(store, settings)?;
        Ok(Self {
            recorder,
            owner,
            place: file,
            summary,
            held,
        })
    }

    /// A handle for whoever records.
    pub(crate) fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// The file, if it is one.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.place.as_deref()
    }

    /// Every file that holds a part of it: a database has two beside it.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let Some(place) = &self.place else {
            return Vec::new();
        };
        let beside = |ending: &str| {
            let mut name = place.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        vec![place.clone(), beside("-wal"), beside("-shm")]
    }

    /// What was denied so far.
    pub(crate) const fn summary(&self) -> &Summary {
        &self.summary
    }

    /// Writes what is queued; waits for the disk, but not for ever. Then removes old runs' files.
    pub(crate) fn close(self, patience: Duration) {
        self.owner.close(patience);
        let own = self.held.and(self.place);
        if let Some(folder) = own.as_deref().and_then(Path::parent) {
            run_files::tidy(folder, jiff::Timestamp::now());
        }
    }
}

/// The store, and its file if it has one.
fn open_store(
    place: &RecordPlace,
    node: &str,
) -> anyhow::Result<(Box<dyn Store>, Option<PathBuf>)> {
    let failed = |path: &Path| format!("cannot write the audit record to {}", path.display());
    Ok(match place {
        RecordPlace::Stream => {
            let fd = std::io::stderr().as_fd().try_clone_to_owned()?;
            (Box::new(JsonlStore::stream(fd, "standard error")), None)
        }
        RecordPlace::Lines(path) => {
            let store = JsonlStore::open(path).with_context(|| failed(path))?;
            (Box::new(store), Some(path.clone()))
        }
        RecordPlace::Shared => bail!(
            "the record of a fleet is written by gig serve; a run's is kept in a file: name one"
        ),
        RecordPlace::Sqlite(path) => {
            let store = SqliteStore::open_signing(path, node, signing_key(), true);
            let store = store.with_context(|| failed(path))?;
            (Box::new(store), Some(path.clone()))
        }
    })
}

/// Without a key the record is as whole, and nobody can vouch for it: that is no reason to do nothing.
fn signing_key() -> Option<Arc<SigningKey>> {
    match signing_key::ours() {
        Ok(key) => Some(Arc::new(key)),
        Err(error) => {
            let why = format!("{error:#}");
            tracing::warn!(
                why,
                "the record is not signed: `gig audit prune` will keep all of it"
            );
            None
        }
    }
}

/// A file of its own for each run, so that runs do not wait for each other.
fn run_file(sandbox: SandboxId) -> anyhow::Result<PathBuf> {
    let dir = data_dir::path()?.join(gig_sandbox::RUNS);
    data_dir::make_private(&dir)?;
    Ok(dir.join(run_files::name(sandbox, jiff::Timestamp::now())))
}
