//! Everything that can be changed, and how each change stands in the record: one list, so that nothing is changed
//! without a record and no record is worded twice.

use std::{net::SocketAddr, sync::Arc};

use gig_audit::{Entry, VerdictWord};
use gig_policy::SandboxId;
use jiff::Timestamp;

use super::{
    Account, Decision, Name, Once, Place, Proposal, ProposalState, ServerSpec, Standing, UsedCode,
    Vouched, WebhookKind,
};
use crate::{credential::Digest, narrowing::Narrowing, role::Role};

mod deeds;
mod words;

/// Who changes something, as the record names them.
#[derive(Debug, Clone)]
pub struct Actor {
    /// `ana`, `token ci (3f…)`, `owner of this machine (uid 0)`.
    pub name: Arc<str>,
    /// The person that this is, or who made the token; `None`: unknown. Two names of one are one.
    pub person: Option<Arc<str>>,
    /// This machine's own user, who could write the database: their passing the two-person rule is recorded.
    pub owner: bool,
    /// What it rests on that they may: it must still be so when the change is made.
    pub standing: Standing,
    /// The request, where it is to be made once.
    pub once: Option<Arc<Once>>,
    /// What a program asked for that this answers, by its id in the record.
    pub request: Option<Arc<str>>,
    /// From where; `None` on this machine.
    pub address: Option<SocketAddr>,
    /// When.
    pub at: Timestamp,
}

/// One change.
#[derive(Debug)]
pub enum Change {
    /// There is a new set-up link.
    OpenSetup {
        /// Of the link.
        digest: Digest,
        /// When it ends.
        expires: Timestamp,
        /// Links that other nodes made stay good; otherwise it is the only one.
        beside: bool,
    },
    /// The first admin is made by whoever has the link.
    FinishSetup {
        /// Of what was presented.
        digest: Digest,
        /// Who.
        name: Name,
        /// Argon2id.
        password: String,
    },
    /// Somebody may sign in.
    AddUser {
        /// Who.
        name: Name,
        /// What they may.
        role: Role,
        /// Argon2id.
        password: String,
    },
    /// A new password; all sessions of theirs end. Tokens stay unless it is said: programs that work by
    /// them did not lose the password.
    SetPassword {
        /// Whose.
        name: String,
        /// Argon2id.
        password: String,
        /// The tokens that they made end, too.
        end_tokens: bool,
        /// Of their second factor, where they have one and do so themselves.
        code: Option<UsedCode>,
    },
    /// A code is asked for beside somebody's password from now on.
    SetFactor {
        /// Whose.
        name: String,
        /// The hash of their password: it must still be theirs.
        password: String,
        /// What their device has, too; sealed.
        sealed: Vec<u8>,
        /// When it was sealed.
        since: Timestamp,
        /// Of the code that showed that the device has it.
        step: i64,
        /// Of the codes that they write down.
        codes: Vec<Digest>,
    },
    /// It is asked for no more.
    RemoveFactor {
        /// Of whom.
        name: String,
        /// Where they do so themselves.
        code: Option<UsedCode>,
    },
    /// From now on these roles ask for a second factor, and no others.
    FactorRule {
        /// Each once.
        roles: Vec<Role>,
    },
    /// Another role, at once; tokens that they made end unless they stay an admin.
    SetRole {
        /// Whose.
        name: String,
        /// What they may.
        role: Role,
    },
    /// Somebody may sign in no more; their sessions end, and the tokens that they made.
    RemoveUser {
        /// Who.
        name: String,
    },
    /// Somebody signed in.
    StartSession {
        /// Its id.
        id: String,
        /// Of its cookie.
        digest: Digest,
        /// Whose.
        user: String,
        /// The hash that their password was checked against: it must still be theirs.
        password: String,
        /// Of their second factor, where they have one.
        code: Option<UsedCode>,
        /// When it ends.
        expires: Timestamp,
        /// What the browser calls itself.
        agent: String,
    },
    /// Somebody signed in for whom a sign-on provider vouches.
    SignOn {
        /// Of the session.
        id: String,
        /// Of its cookie.
        digest: Digest,
        /// What they are called here.
        name: Name,
        /// What the provider calls them.
        account: Account,
        /// By their groups, now.
        role: Role,
        /// The teams that their groups are asked for, and whether they are of each.
        teams: Vec<(String, bool)>,
        /// They were never here.
        first: bool,
        /// When the session ends.
        expires: Timestamp,
        /// What the browser calls itself.
        agent: String,
    },
    /// No group of somebody's has a role here any more, as the sign-on provider says.
    SignOnLost {
        /// What they are called here.
        name: Name,
        /// What the provider calls them.
        account: Account,
        /// The teams that their groups are asked for and say no more.
        out_of: Vec<String>,
    },
    /// A session ends now.
    EndSession {
        /// Its id.
        id: String,
    },
    /// A program may use the API.
    AddToken {
        /// Its id.
        id: String,
        /// Of the token.
        digest: Digest,
        /// What it is for.
        name: Name,
        /// What it may.
        role: Role,
        /// Until when.
        expires: Option<Timestamp>,
        /// What of its role it may, and where.
        narrowing: Narrowing,
    },
    /// A token is worth nothing from now on.
    RemoveToken {
        /// Its id.
        id: String,
    },
    /// A policy, or a new version of it.
    SavePolicy {
        /// Which.
        name: Name,
        /// The version it is built on (0 for a new policy); `None` whatever there is.
        expected: Option<u64>,
        /// As it was written.
        document: String,
        /// Why.
        reason: String,
        /// By what it lets secrets go where it does.
        secrets: Vouched,
    },
    /// The same, and it is in force for a server from then on.
    SaveFor {
        /// Which.
        name: Name,
        /// The version it is built on (0 for a new policy); `None` whatever there is.
        expected: Option<u64>,
        /// As it was written.
        document: String,
        /// Why.
        reason: String,
        /// By what it lets secrets go where it does.
        secrets: Vouched,
        /// For which server.
        server: String,
    },
    /// A policy that nothing uses goes; its versions can be read on, and gone back to.
    RemovePolicy {
        /// Which.
        name: String,
        /// Its newest version; `None` whatever there is.
        expected: Option<u64>,
    },
    /// A policy is in force somewhere, where nothing more specific is.
    Assign {
        /// For whom.
        place: Place,
        /// Which policy; `None` takes the assignment away.
        policy: Option<String>,
        /// The tag of all assignments on which this is built; `None` whatever there is.
        expected: Option<String>,
    },
    /// A policy bounds what is allowed somewhere.
    SetFloor {
        /// To whom.
        place: Place,
        /// Which policy; `None` takes the floor away.
        policy: Option<String>,
        /// The tag of all floors on which this is built; `None` whatever there is.
        expected: Option<String>,
    },
    /// A team, or others who are of it.
    SaveTeam {
        /// Which.
        name: Name,
        /// As [`super::members`] has them.
        members: Vec<String>,
        /// Its tag before (empty for a new one); `None` whatever there is.
        expected: Option<String>,
    },
    /// A team to which nothing is assigned goes.
    RemoveTeam {
        /// Which.
        name: String,
        /// Its tag before; `None` whatever there is.
        expected: Option<String>,
    },
    /// Somebody decides on a request that waits.
    AnswerHeld {
        /// Its id.
        id: String,
        /// It may go, this once.
        allow: bool,
        /// What it is, for the record.
        what: String,
    },
    /// Somewhere else people are told what waits.
    SaveWebhook {
        /// What it is called.
        name: Name,
        /// What it is told.
        kind: WebhookKind,
        /// Where it is; empty: as a file of each node says.
        url: String,
        /// Who may answer from there.
        answerers: Vec<String>,
        /// Those who write policies here write rules for ever from there, too.
        rules: bool,
        /// Refuse if it is there.
        new: bool,
    },
    /// That ends.
    RemoveWebhook {
        /// Which.
        name: String,
    },
    /// A server is registered, or changed.
    SaveServer {
        /// Which.
        name: Name,
        /// How it is run.
        spec: ServerSpec,
        /// Refuse if it is there.
        new: bool,
        /// The tag of what it was changed from, empty for what is not there; refuse when it is another one now.
        expected: Option<String>,
    },
    /// A server is no longer registered.
    RemoveServer {
        /// Which.
        name: String,
        /// The tag of what was seen; refuse when it is another one now.
        expected: Option<String>,
    },
    /// A sandbox that another node has is to end.
    StopSandbox {
        /// Which.
        sandbox: SandboxId,
        /// The registered server it runs.
        server: String,
    },
    /// A search of the record is kept for all who read it.
    SaveSearch {
        /// Its id.
        id: String,
        /// What it is called.
        title: String,
        /// As it stands behind `?` in the console's address.
        query: String,
    },
    /// A search is kept no more.
    RemoveSearch {
        /// Its id.
        id: String,
    },
    /// From now on policies are changed by two people, or by one again.
    TwoPersonRule {
        /// By two.
        on: bool,
    },
    /// Somebody decides on a proposal.
    Decide {
        /// Which.
        id: u64,
        /// What.
        decision: Decision,
        /// Why.
        why: String,
    },
}

/// What a change came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Applied {
    /// The version that was made of a policy.
    pub version: Option<u64>,
    /// What the change became, and has to wait for; or what was decided on.
    pub proposal: Option<Proposal>,
    /// The proposal of the same person in whose place it waits.
    pub replaced: Option<u64>,
    /// It would have taken two people, but for this machine's owner.
    pub passed: bool,
    /// How a server was registered before.
    pub before: Option<Box<ServerSpec>>,
    /// Who was of a team before.
    pub members: Option<Vec<String>>,
    /// What else came of it, in words.
    pub beside: Vec<String>,
}

impl Actor {
    /// The person that all of this machine's own users are: each could act as the others.
    pub const OWNER: &'static str = "owner of this machine";

    /// Whom the record names, with the person behind a token.
    #[must_use]
    pub fn words(&self) -> String {
        match &self.person {
            Some(person) if *person != self.name && !self.owner => {
                format!("{} of {person}", self.name)
            }
            _ => self.name.to_string(),
        }
    }

    /// Whether it is this person by one of their names; names are the same in either case.
    #[must_use]
    pub fn is(&self, person: &str) -> bool {
        let own = self.person.as_deref();
        own.is_some_and(|own| own.eq_ignore_ascii_case(person))
    }
}

impl Change {
    /// A server goes, whatever was seen of it.
    #[cfg(test)]
    pub(crate) fn remove_server(name: impl Into<String>) -> Self {
        Self::RemoveServer {
            name: name.into(),
            expected: None,
        }
    }

    /// Whether another policy may be in force somewhere afterwards, or a sandbox be there no more.
    #[must_use]
    pub fn touches_policies(&self) -> bool {
        matches!(
            self,
            Self::SavePolicy { .. }
                | Self::SaveFor { .. }
                | Self::RemovePolicy { .. }
                | Self::Assign { .. }
                | Self::SetFloor { .. }
                | Self::SaveTeam { .. }
                | Self::RemoveTeam { .. }
                | Self::SaveServer { .. }
                | Self::RemoveServer { .. }
                | Self::StopSandbox { .. }
                | Self::Decide { .. }
        ) || matches!(self, Self::SignOn { teams, .. } if !teams.is_empty())
            || matches!(self, Self::SignOnLost { out_of, .. } if !out_of.is_empty())
    }

    /// The record of it.
    pub(super) fn entry(&self, actor: &Actor, applied: &Applied) -> Entry {
        let proposed = applied.proposal.as_ref();
        let decided = match self {
            Self::Decide { .. } => proposed.and_then(|proposal| proposal.change().ok()),
            _ => None,
        };
        let made = decided.as_ref().unwrap_or(self);
        let mut entry = Entry::new(made.event());
        let (deed, subject) = self.deed(actor, applied);
        (entry.deed, entry.subject) = (Some(deed), subject);
        entry.profile = Some(Arc::clone(&actor.name));
        entry.src = actor.address;
        entry.request.clone_from(&actor.request);
        entry.verdict = Some(VerdictWord::Allow);
        entry.policy_version = applied.version;
        let words = made.words(applied.before.is_some());
        entry.findings.push(match (self, proposed) {
            (Self::Decide { .. }, Some(one)) => {
                let (id, author, state) = (one.id, &one.author, one.state);
                let not = match state {
                    ProposalState::Approved => "",
                    _ => ", not made",
                };
                format!("proposal {id} of {author} {state}{not}: {words}").into()
            }
            (_, Some(one)) => {
                let place = applied.replaced.map(|id| format!(" in place of {id}"));
                let place = place.unwrap_or_default();
                format!(
                    "waits for a second person, proposal {}{place}: {words}",
                    one.id
                )
                .into()
            }
            (_, None) => words.into(),
        });
        made.name_subjects(&mut entry);
        if let Self::SaveServer { spec, .. } = made {
            let before = applied.before.as_deref();
            let changes = spec.told_beside(before).into_iter();
            entry.findings.extend(changes.map(Into::into));
        }
        entry.findings.extend(made.people(applied));
        let beside = applied.beside.iter().map(|words| words.as_str().into());
        entry.findings.extend(beside);
        if let Self::Decide { why, .. } = self {
            entry
                .findings
                .push(format!("decided by {}", actor.words()).into());
            if !why.is_empty() {
                entry.findings.push(format!("why: {why}").into());
            }
        }
        if applied.passed {
            let passed = "two-person rule passed by this machine's owner";
            entry.findings.push(passed.into());
        }
        entry
    }

    /// Who comes to a team by it and who goes, or would; of what was refused, nobody.
    fn people(&self, applied: &Applied) -> Vec<Arc<str>> {
        let now = match self {
            Self::SaveTeam { members, .. } => members.as_slice(),
            Self::RemoveTeam { .. } => &[],
            _ => return Vec::new(),
        };
        let proposed = applied.proposal.as_ref();
        let state = proposed.map(|proposal| proposal.state);
        match (state, &applied.members) {
            (None | Some(ProposalState::Approved), before) => {
                words::members(now, before.as_deref().unwrap_or_default(), true)
            }
            (Some(ProposalState::Pending), _) => {
                let before = proposed.map(|one| one.before.as_str()).unwrap_or_default();
                let before: Vec<String> = before.split_whitespace().map(str::to_owned).collect();
                words::members(now, &before, false)
            }
            (Some(ProposalState::Rejected | ProposalState::Withdrawn), _) => Vec::new(),
        }
    }
}
