//! Why a change was not made, in words for whoever asked for it.
//!
//! What each means to a program, its status and title, is said where it is answered (`api_error`).

use thiserror::Error;

use super::{ProposalState, StoreError};

/// A change was not made.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// What is to be changed is not there.
    #[error("there is no {what} {name}")]
    Missing {
        /// `user`, `policy` …
        what: &'static str,
        /// Which.
        name: String,
    },
    /// A token were of a server that is not there, and would reach nothing.
    #[error("there is no server {server} that a token could be of: register it first")]
    NoServer {
        /// Which.
        server: String,
    },
    /// What is to be made is there.
    #[error("there is a {what} {name} already")]
    Exists {
        /// `user`, `policy` …
        what: &'static str,
        /// Which.
        name: String,
    },
    /// Somebody else changed it meanwhile.
    #[error("{}", stale(name, *current))]
    Stale {
        /// Which policy.
        name: String,
        /// Its newest version; 0 when it is not there.
        current: u64,
    },
    /// The same, of what is no policy.
    #[error("{what} changed meanwhile: look again, and try again")]
    Meanwhile {
        /// `team data` …
        what: String,
    },
    /// Somebody were of two teams, and nobody could say which of their policies is in force.
    #[error(
        "{person} were of teams of different policies, {} and {}: nobody is, so that it is clear which is in \
         force; give the teams one policy, or {person} one of their own and one team",
        policies[0], policies[1]
    )]
    Ambiguous {
        /// Who.
        person: String,
        /// Two of them.
        policies: [String; 2],
    },
    /// Something still needs it.
    #[error("{what} {name} is still in use by {user}")]
    InUse {
        /// `policy` …
        what: &'static str,
        /// Which.
        name: String,
        /// By what.
        user: String,
    },
    /// There are as many as may be.
    #[error("there are {most} {what} already: remove one first")]
    Full {
        /// `saved searches` …
        what: &'static str,
        /// How many may be.
        most: u32,
    },
    /// Somebody wrote as much on this day as anybody may.
    #[error(
        "you have written documents of {most} MiB today, which is as much as anybody may: go on tomorrow"
    )]
    TooMuch {
        /// In MiB.
        most: u64,
        /// How many seconds are left of the day.
        left: u64,
    },
    /// Nobody could administer gig any more.
    #[error("{name} is the last admin: make another one first")]
    LastAdmin {
        /// Who.
        name: String,
    },
    /// The set-up link is not the one, was used or has ended.
    #[error(
        "this set-up link is not valid: it works once, for an hour and until there is an admin; where there is none, \
         restart gig for a new one"
    )]
    Setup,
    /// What a sign-on provider decides is not decided here.
    #[error("{name} signs in by single sign-on: {what}")]
    SignOn {
        /// Who.
        name: String,
        /// What follows.
        what: &'static str,
    },
    /// What allowed it ended between the question and the change.
    #[error("what you may do here has changed meanwhile: nothing was changed; sign in again")]
    Lapsed,
    /// Another try of the same request has its place.
    #[error("another try of this request is under way: ask again in a second")]
    Overtaken,
    /// A code that is none, or was used.
    #[error("the code is not right, or was used already: wait for the next one")]
    Code,
    /// Who should hear what is said is there no more.
    #[error(
        "request {id} waits no more: the gig that had it has not said for some seconds that it lives, so nobody would \
         hear this; nothing was answered, and the request has ended unless that gig comes back"
    )]
    Unheard {
        /// Which request.
        id: String,
    },
    /// What the two-person rule forbids one person.
    #[error("two-person rule: {0}")]
    TwoPeople(&'static str),
    /// What a proposal was built on is no longer so.
    #[error(
        "proposal {id} is stale: what it was built on has changed since, or its author may not ask for it any \
         more; propose it again on what is there now"
    )]
    Outdated {
        /// Which proposal.
        id: u64,
    },
    /// Somebody decided already.
    #[error("proposal {id} is {state} already")]
    Decided {
        /// Which proposal.
        id: u64,
        /// What became of it.
        state: ProposalState,
    },
    /// The record could not be written, so nothing was changed.
    #[error("the change could not be recorded, so it was not made: {0}")]
    NotRecorded(String),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}
/// What became of a policy that was changed from another version.
fn stale(name: &str, current: u64) -> String {
    match current {
        0 => format!("there is no policy {name}, or no more: look again, and try again"),
        _ => format!(
            "{name} was changed meanwhile: it is at version {current} now; look at it and try again"
        ),
    }
}
