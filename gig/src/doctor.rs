//! Finds out what this host gives gig, by trying it.
//!
//! The decisive check is a real sandbox started by this very program; the others say which
//! mechanism is in the way, what its lack costs, and the command that cures it.

use std::fmt;

use serde::Serialize;

mod host;
mod hub;
mod services;
mod trial;

/// How a mechanism stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Tried, and it works.
    Works,
    /// Works in part, or only a convenience is missing.
    Limited,
    /// Does not work.
    Missing,
    /// Could not be tried, because something it needs is missing.
    NotTried,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Works => "works",
            Self::Limited => "limited",
            Self::Missing => "missing",
            Self::NotTried => "untried",
        })
    }
}

/// One mechanism and what was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// The mechanism.
    pub(crate) name: String,
    /// How it stands.
    pub(crate) state: State,
    /// What was seen.
    pub(crate) found: String,
    /// What its lack costs; empty when it works.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) costs: String,
    /// The command or change that cures it; empty when it works.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) cure: String,
}

impl Check {
    pub(crate) fn works(name: &str, found: impl Into<String>) -> Self {
        Self {
            name: name.to_owned(),
            state: State::Works,
            found: found.into(),
            costs: String::new(),
            cure: String::new(),
        }
    }

    pub(crate) fn limited(name: &str, found: impl Into<String>) -> Self {
        Self {
            state: State::Limited,
            ..Self::works(name, found)
        }
    }

    pub(crate) fn missing(name: &str, found: impl Into<String>) -> Self {
        Self {
            state: State::Missing,
            ..Self::works(name, found)
        }
    }

    pub(crate) fn costs(mut self, costs: &str) -> Self {
        costs.clone_into(&mut self.costs);
        self
    }

    pub(crate) fn cure(mut self, cure: &str) -> Self {
        cure.clone_into(&mut self.cure);
        self
    }
}

/// Everything that was found.
#[derive(Debug)]
pub(crate) struct Findings {
    /// In the order of dependence: what is needed first stands first.
    pub(crate) checks: Vec<Check>,
    /// A whole sandbox was started and ended well.
    pub(crate) sandboxes_work: bool,
}

/// Tries everything; takes some hundred milliseconds, seconds where a name server is silent.
pub(crate) fn examine() -> Findings {
    let mut checks = host::examine();
    checks.extend(hub::examine());
    checks.extend(services::examine());
    let (trials, sandboxes_work) = trial::examine();
    checks.extend(trials);
    // Last: from here on no other process looks into this one.
    checks.push(services::vault());
    Findings {
        checks,
        sandboxes_work,
    }
}
