//! Changes that wait for a second person: what they are about, who proposed them, what became of them.
//!
//! Under the two-person rule a store keeps a change of this kind instead of making it ([`Draft::of`]
//! says which), and makes it when somebody else approves. What it was built on is kept with it: when
//! that is no longer so, it cannot be approved any more.

use std::{fmt, str::FromStr};

use jiff::Timestamp;

use super::{Change, Place, Vouched};

/// Something that takes two people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proposal {
    /// Counted from 1.
    pub id: u64,
    /// What it is.
    pub draft: Draft,
    /// What was there instead when it was proposed: the user's role, the members, the policy assigned, `on`.
    pub before: String,
    /// The policy's newest version when it was proposed; 0 for none.
    pub built_on: u64,
    /// What else must be as it was: a digest of the account or of the server; empty for none.
    pub basis: String,
    /// Why.
    pub reason: String,
    /// Who proposed it, as the record names them.
    pub author: String,
    /// The person that this is, or who made the token.
    pub person: String,
    /// When.
    pub created: Timestamp,
    /// What became of it.
    pub state: ProposalState,
    /// Waiting, and built on what is no longer so.
    pub stale: bool,
    /// Who decided.
    pub decided: Option<Decided>,
    /// The version that was made of a policy.
    pub version: Option<u64>,
}

/// What is proposed, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// What it does.
    pub kind: ProposalKind,
    /// The policy, the user, the team, or the place (a server by its name alone, empty for all servers); empty
    /// for the rule itself; policy and server as `POLICY for SERVER`, where both are meant.
    pub subject: String,
    /// The document, the role, the members, or the policy (empty for none); in lists no documents.
    pub value: String,
}

/// What a proposal does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalKind {
    /// Writes a version of a policy.
    SavePolicy,
    /// Writes a version of a policy and puts it in force for a server.
    SaveFor,
    /// Removes a policy.
    RemovePolicy,
    /// Puts a policy in force, or takes it out.
    Assign,
    /// A policy bounds what others allow.
    SetFloor,
    /// Says who is of a team.
    SaveTeam,
    /// Removes one.
    RemoveTeam,
    /// Gives somebody a part in changing policies.
    SetRole,
    /// Ends the two-person rule.
    EndRule,
}

/// What became of a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProposalState {
    /// It waits.
    Pending,
    /// It was made.
    Approved,
    /// Somebody else refused it.
    Rejected,
    /// Its author took it back, or proposed something else in its place.
    Withdrawn,
}

/// Who decided on a proposal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decided {
    /// As the record names them.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Why.
    pub why: String,
}

/// What somebody decides on a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is made.
    Approve,
    /// It is not.
    Reject,
    /// Its author takes it back.
    Withdraw,
}

impl Draft {
    /// What a change is when it is proposed; `None` for those that one person makes.
    #[must_use]
    pub fn of(change: &Change) -> Option<Self> {
        let draft = |kind, subject: &str, value: &str| {
            Some(Self {
                kind,
                subject: subject.to_owned(),
                value: value.to_owned(),
            })
        };
        match change {
            Change::SavePolicy { name, document, .. } => {
                draft(ProposalKind::SavePolicy, name.as_str(), document)
            }
            Change::SaveFor {
                name,
                document,
                server,
                ..
            } => {
                let (kind, subject) = Self::written(name.as_str(), Some(server));
                draft(kind, &subject, document)
            }
            Change::RemovePolicy { name, .. } => draft(ProposalKind::RemovePolicy, name, ""),
            Change::Assign { place, policy, .. } => {
                let policy = policy.as_deref().unwrap_or_default();
                draft(ProposalKind::Assign, &place.in_words(), policy)
            }
            Change::SetFloor { place, policy, .. } => {
                let policy = policy.as_deref().unwrap_or_default();
                draft(ProposalKind::SetFloor, &place.in_words(), policy)
            }
            Change::SaveTeam { name, members, .. } => {
                draft(ProposalKind::SaveTeam, name.as_str(), &members.join(" "))
            }
            Change::RemoveTeam { name, .. } => draft(ProposalKind::RemoveTeam, name, ""),
            Change::SetRole { name, role } if role.takes_part() => {
                draft(ProposalKind::SetRole, name, role.as_str())
            }
            Change::TwoPersonRule { on: false } => draft(ProposalKind::EndRule, "", ""),
            _ => None,
        }
    }

    /// How a document is proposed that is written for a policy, and put in force for a server by the same change.
    pub(super) fn written(policy: &str, server: Option<&str>) -> (ProposalKind, String) {
        match server {
            None => (ProposalKind::SavePolicy, policy.to_owned()),
            Some(server) => (ProposalKind::SaveFor, format!("{policy}{FOR}{server}")),
        }
    }

    /// The policy whose newest version it is built on.
    #[must_use]
    pub fn policy(&self) -> Option<&str> {
        match self.kind {
            ProposalKind::SavePolicy | ProposalKind::RemovePolicy => Some(&self.subject),
            ProposalKind::SaveFor => self.subject.split_once(FOR).map(|(policy, _)| policy),
            ProposalKind::Assign | ProposalKind::SetFloor => {
                Some(self.value.as_str()).filter(|name| !name.is_empty())
            }
            ProposalKind::SaveTeam
            | ProposalKind::RemoveTeam
            | ProposalKind::SetRole
            | ProposalKind::EndRule => None,
        }
    }

    /// Where a policy is put in force or bounds what is, or is taken out.
    #[must_use]
    pub fn place(&self) -> Option<Place> {
        match self.kind {
            ProposalKind::SaveFor => {
                let (_, server) = self.subject.split_once(FOR)?;
                Some(Place::Server(server.to_owned()))
            }
            ProposalKind::Assign | ProposalKind::SetFloor => Some(Place::from_words(&self.subject)),
            ProposalKind::SavePolicy
            | ProposalKind::RemovePolicy
            | ProposalKind::SaveTeam
            | ProposalKind::RemoveTeam
            | ProposalKind::SetRole
            | ProposalKind::EndRule => None,
        }
    }

    /// The server for which a document is put in force.
    #[must_use]
    pub fn server(&self) -> Option<String> {
        let place = self.place().filter(|_| self.holds_document())?;
        place.server().map(str::to_owned)
    }

    /// Whether it holds a document.
    #[must_use]
    pub const fn holds_document(&self) -> bool {
        matches!(self.kind, ProposalKind::SavePolicy | ProposalKind::SaveFor)
    }
}

impl Proposal {
    /// Whether it held a document, which is kept no longer.
    #[must_use]
    pub fn is_forgotten(&self) -> bool {
        let pending = self.state == ProposalState::Pending;
        !pending && self.draft.holds_document() && self.draft.value.is_empty()
    }

    /// The change that it is.
    ///
    /// # Errors
    /// When what is kept is none that a store kept.
    pub fn change(&self) -> Result<Change, String> {
        let (subject, value) = (self.draft.subject.clone(), self.draft.value.clone());
        Ok(match self.draft.kind {
            ProposalKind::SavePolicy => Change::SavePolicy {
                name: subject.parse().map_err(|error| format!("{error}"))?,
                expected: Some(self.built_on),
                document: value,
                reason: self.reason.clone(),
                secrets: Vouched::Freely,
            },
            ProposalKind::SaveFor => {
                let both = subject.split_once(FOR);
                let (name, server) =
                    both.ok_or_else(|| format!("no policy and server: {subject}"))?;
                Change::SaveFor {
                    name: name.parse().map_err(|error| format!("{error}"))?,
                    expected: Some(self.built_on),
                    document: value,
                    reason: self.reason.clone(),
                    secrets: Vouched::Freely,
                    server: server.to_owned(),
                }
            }
            ProposalKind::RemovePolicy => Change::RemovePolicy {
                name: subject,
                expected: Some(self.built_on),
            },
            ProposalKind::Assign => Change::Assign {
                place: Place::from_words(&subject),
                policy: Some(value).filter(|policy| !policy.is_empty()),
                expected: None,
            },
            ProposalKind::SetFloor => Change::SetFloor {
                place: Place::from_words(&subject),
                policy: Some(value).filter(|policy| !policy.is_empty()),
                expected: None,
            },
            ProposalKind::SaveTeam => Change::SaveTeam {
                name: subject.parse().map_err(|error| format!("{error}"))?,
                members: value.split_whitespace().map(str::to_owned).collect(),
                expected: None,
            },
            ProposalKind::RemoveTeam => Change::RemoveTeam {
                name: subject,
                expected: None,
            },
            ProposalKind::SetRole => Change::SetRole {
                name: subject,
                role: value.parse()?,
            },
            ProposalKind::EndRule => Change::TwoPersonRule { on: false },
        })
    }
}

impl ProposalKind {
    const ALL: [Self; 9] = [
        Self::SavePolicy,
        Self::SaveFor,
        Self::RemovePolicy,
        Self::Assign,
        Self::SetFloor,
        Self::SaveTeam,
        Self::RemoveTeam,
        Self::SetRole,
        Self::EndRule,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::SavePolicy => "policy.save",
            Self::SaveFor => "policy.save_for",
            Self::RemovePolicy => "policy.remove",
            Self::Assign => "policy.assign",
            Self::SetFloor => "policy.floor",
            Self::SaveTeam => "team.save",
            Self::RemoveTeam => "team.remove",
            Self::SetRole => "user.role",
            Self::EndRule => "rule.off",
        }
    }
}

impl FromStr for ProposalKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|kind| kind.as_str() == text);
        found.ok_or_else(|| format!("no such kind of proposal: {text}"))
    }
}

impl ProposalState {
    const ALL: [Self; 4] = [
        Self::Pending,
        Self::Approved,
        Self::Rejected,
        Self::Withdrawn,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Withdrawn => "withdrawn",
        }
    }
}

impl fmt::Display for ProposalState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for ProposalState {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|state| state.as_str() == text);
        found.ok_or_else(|| format!("no such state of a proposal: {text}"))
    }
}

impl Decision {
    /// What a proposal is afterwards.
    #[must_use]
    pub const fn state(self) -> ProposalState {
        match self {
            Self::Approve => ProposalState::Approved,
            Self::Reject => ProposalState::Rejected,
            Self::Withdraw => ProposalState::Withdrawn,
        }
    }
}

/// Between a policy and a server: no name has a blank.
const FOR: &str = " for ";
