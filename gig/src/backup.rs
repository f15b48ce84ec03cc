//! Backups of an appliance: what belongs into one, and the file that it is.
//!
//! People, policies, servers and sealed secrets (`gig.db`), the record (`record.db`) and the record of
//! changes to secrets (`audit.jsonl`). Neither the master key nor the key that signs the record is ever in
//! one: a backup alone opens no secret and signs nothing. The records of single runs are not, either.

pub(crate) mod archive;
pub(crate) mod under_way;

use std::path::{Path, PathBuf};

/// What is backed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// People, policies, servers, proposals; and the vault's sealed secrets.
    Store,
    /// What the appliance recorded.
    Record,
    /// What was recorded of changes to secrets.
    Changes,
}

impl Part {
    /// In the order in which copies are made: each change is recorded before it is made, so that a copy of
    /// the record that is made later holds the record of every change.
    pub(crate) const ALL: [Self; 3] = [Self::Store, Self::Record, Self::Changes];

    /// What it is called in a backup.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Store => "gig.db",
            Self::Record => "record.db",
            Self::Changes => "audit.jsonl",
        }
    }

    /// Where it is.
    pub(crate) fn place(self, data_dir: &Path) -> PathBuf {
        match self {
            Self::Record => data_dir.join("audit").join(self.name()),
            Self::Store | Self::Changes => data_dir.join(self.name()),
        }
    }

    /// What SQLite keeps beside it; belongs to it.
    pub(crate) fn beside(self, data_dir: &Path) -> Vec<PathBuf> {
        let place = self.place(data_dir);
        let with = |ending: &str| {
            let mut name = place.clone().into_os_string();
            name.push(ending);
            PathBuf::from(name)
        };
        match self {
            Self::Store | Self::Record => vec![with("-wal"), with("-shm")],
            Self::Changes => Vec::new(),
        }
    }
}
