//! Who is told of a change before it takes effect, such as the audit record.

use std::{fmt, sync::Arc};

use gig_policy::SecretName;

/// Is told of changes, and may refuse them.
pub trait Witness: Send + Sync + fmt::Debug {
    /// `change` is about to take effect. Another process may still be first: then it is told again, with
    /// the version that it becomes instead.
    ///
    /// # Errors
    /// [`NotWitnessed`]: the change is not made.
    fn announce(&self, change: &Announced) -> Result<(), NotWitnessed>;
}

/// A change of a secret; holds no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announced {
    /// Which secret.
    pub name: Arc<str>,
    /// What is done to it.
    pub doing: Doing,
    /// The version that is made or ended; `None` for all of them, or for a secret whose provider has
    /// the value.
    pub version: Option<u64>,
}

impl Announced {
    /// As it stands in a record: `set version 2`.
    #[must_use]
    pub fn words(&self) -> String {
        let doing = self.doing.as_str();
        match self.version {
            Some(version) => format!("{doing} version {version}"),
            None => doing.to_owned(),
        }
    }
}

/// What is done to a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    /// It is defined, with a new version.
    Set,
    /// It gets a new version.
    Rotate,
    /// A service gave something new in place of the value.
    Supersede,
    /// It ends, and its value is remembered, so that it may leave nowhere.
    Revoke,
    /// It ends, and its value is forgotten.
    Forget,
}

impl Doing {
    /// For a record.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Rotate => "rotate",
            Self::Supersede => "supersede",
            Self::Revoke => "revoke",
            Self::Forget => "forget",
        }
    }
}

impl Announced {
    /// Of one version; 0 for none.
    pub(super) fn of(name: &SecretName, doing: Doing, version: u64) -> Self {
        Self {
            name: name.shared().clone(),
            doing,
            version: (version > 0).then_some(version),
        }
    }
}

/// A change that could not be told first, and was not made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("secret {name} was not changed, because the change could not be recorded: {why}")]
pub struct NotWitnessed {
    /// Which secret.
    pub name: Arc<str>,
    /// What went wrong.
    pub why: String,
}
