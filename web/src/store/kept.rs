//! What is kept, as it is read back.

use std::{collections::BTreeMap, fmt};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::source::ServerSource;
use super::{Place, Team};
use crate::{
    credential::Digest,
    narrowing::Narrowing,
    role::{Permission, Role},
};

/// Somebody who may sign in.
#[derive(Debug, Clone)]
pub struct User {
    /// By which they sign in.
    pub name: String,
    /// What they may.
    pub role: Role,
    /// Argon2id.
    pub password: String,
    /// Since when.
    pub created: Timestamp,
    /// They chose it, and nobody else has set it since; or they have none and `account` is theirs.
    pub own_password: bool,
    /// What a sign-on provider calls them; `None` for who signs in by password.
    pub account: Option<Account>,
    /// A code is asked for beside their password.
    pub second_factor: bool,
}

impl User {
    /// Whether they write rules from elsewhere, where somebody else says who they are: as they would here. `asked`: of
    /// whom a second factor is asked for, which who has none sets up before anything else.
    #[must_use]
    pub fn writes_rules(&self, asked: &[Role]) -> bool {
        let lacks_factor =
            self.account.is_none() && !self.second_factor && asked.contains(&self.role);
        self.role.may(Permission::EditPolicies) && !lacks_factor
    }
}

/// What is kept of somebody's second factor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecondFactor {
    /// What their device has, too; sealed.
    pub sealed: Vec<u8>,
    /// Since when there is it.
    pub since: Timestamp,
    /// How many of the codes that they wrote down are left.
    pub codes: u32,
}

/// Somebody, as a sign-on provider calls them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// What it calls itself.
    pub issuer: String,
    /// What it calls them; nobody else ever gets it.
    pub subject: String,
}

impl fmt::Display for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { issuer, subject } = self;
        write!(f, "{issuer} ({subject})")
    }
}

/// Somebody who is signed in.
#[derive(Debug, Clone)]
pub struct Session {
    /// By which it is listed and ended.
    pub id: String,
    /// Of its cookie.
    pub digest: Digest,
    /// Whose.
    pub user: String,
    /// What they may, now.
    pub role: Role,
    /// Since when.
    pub created: Timestamp,
    /// When it was last used, to the minute.
    pub seen: Timestamp,
    /// When it ends whatever happens.
    pub expires: Timestamp,
    /// From where.
    pub address: String,
    /// What the browser calls itself.
    pub agent: String,
    /// How it began: `password`, `single sign-on`.
    pub began: String,
    /// Their role asks for a second factor, and they have none.
    pub lacks_factor: bool,
}

/// A program that may use the API.
#[derive(Debug, Clone)]
pub struct Token {
    /// By which it is listed and ended; part of the token.
    pub id: String,
    /// Of the token.
    pub digest: Digest,
    /// What it is for.
    pub name: String,
    /// What it may.
    pub role: Role,
    /// Who made it.
    pub author: String,
    /// The person that this was, or who made the token that made it; empty where nobody knows.
    pub person: String,
    /// Since when.
    pub created: Timestamp,
    /// Until when; `None` for ever.
    pub expires: Option<Timestamp>,
    /// When it was last used, to the minute.
    pub used: Option<Timestamp>,
    /// What of its role it may, and where.
    pub narrowing: Narrowing,
}

/// A version of a policy, without its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyHead {
    /// The policy.
    pub name: String,
    /// Counted from 1.
    pub version: u64,
    /// Who wrote it.
    pub author: String,
    /// Why.
    pub reason: String,
    /// When.
    pub created: Timestamp,
}

/// A version of a policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyVersion {
    /// What it is.
    pub head: PolicyHead,
    /// As it was written.
    pub document: String,
}

/// A search of the record that somebody keeps for all who read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSearch {
    /// By which it is removed.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// As it stands behind `?` in the console's address.
    pub query: String,
    /// Who saved it.
    pub author: String,
    /// When.
    pub created: Timestamp,
}

/// Who is registered, and what is in force for whom, at one moment.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The registered servers, by name.
    pub servers: Vec<Server>,
    /// Which policy is in force where.
    pub assignments: Vec<Assignment>,
    /// Which policies bound others, and where.
    pub floors: Vec<Assignment>,
    /// Who is of which team, by name.
    pub teams: Vec<Team>,
}

/// A policy in force somewhere, or the floor of what is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// For whom.
    pub place: Place,
    /// Which policy.
    pub policy: String,
}

impl Assignment {
    /// Of a whole list: another one for another list.
    #[must_use]
    pub fn tag(list: &[Self]) -> String {
        let of = |one: &Self| {
            format!(
                "{} {} {}\n",
                one.place.scope(),
                one.place.subject(),
                one.policy
            )
        };
        Digest::of(&list.iter().map(of).collect::<String>()).words()
    }
}

/// A program that gig runs in sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How it is run.
    pub spec: ServerSpec,
    /// Who registered it.
    pub author: String,
    /// When it was registered or last changed.
    pub changed: Timestamp,
}

impl Server {
    /// Of what is registered: another one for another specification. For who may see what its variables hold:
    /// to others it would tell whether they guessed that.
    #[must_use]
    pub fn tag(&self) -> String {
        // It came of JSON, and texts as keys go back to it.
        let spec = serde_json::to_string(&self.spec).unwrap_or_default();
        Digest::of(&format!("{} {spec}", self.changed.as_second())).words()
    }
}

/// How a server is run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ServerSpec {
    /// Who starts its programs.
    #[serde(default, skip_serializing_if = "ServerKind::is_program")]
    pub kind: ServerKind,
    /// The program and its arguments; none of a server of kind `foreign`.
    #[serde(default)]
    pub command: Vec<String>,
    /// Files that it comes with, where they are not this machine's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<ServerSource>,
    /// Variables inside; nothing else is inherited.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Names of secrets of the vault whose sentinels the program gets; the policy says where they may go.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Files and directories of this machine that the program sees, read-only: `PATH`, or `PATH:DEST` for another
    /// place inside.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read_only: Vec<String>,
    /// Where its connections may go before policy is asked.
    #[serde(default)]
    pub network: Network,
    /// Octets of memory at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Processes and threads at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pids: Option<u32>,
    /// Thousandths of a processor at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
    /// Seconds after which a sandbox that prints nothing, has no connection and nobody attached ends: 300
    /// unless said, 0 for never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
}

impl ServerSpec {
    /// What a record tells of the command: its program, and of its arguments how many there are and a digest, by which a
    /// change shows. A key may stand in them.
    pub(super) fn told_command(&self) -> String {
        let Some((program, arguments)) = self.command.split_first() else {
            return String::new();
        };
        let digest = || -> String {
            let words = Digest::of(&arguments.join("\0")).words();
            words.chars().take(16).collect()
        };
        match arguments.len() {
            0 => program.clone(),
            1 => format!("{program} (1 argument, sha256 {})", digest()),
            count => format!("{program} ({count} arguments, sha256 {})", digest()),
        }
    }

    /// What of it a record tells beside the command: all that is not as before, and where nothing was
    /// before, all that was said. Names of variables, and never what is in them.
    pub(super) fn told_beside(&self, before: Option<&Self>) -> Vec<String> {
        let told = |spec: &Self| {
            let names = spec.env.keys().map(String::as_str).collect::<Vec<_>>();
            let limit = |limit: Option<String>| limit.unwrap_or_default();
            [
                ("command", spec.told_command()),
                ("kind", spec.kind.told().to_owned()),
                (
                    "source",
                    limit(spec.source.as_ref().map(ServerSource::told)),
                ),
                ("network", spec.network.as_str().to_owned()),
                ("secrets", spec.secrets.join(", ")),
                ("read-only", spec.read_only.join(", ")),
                ("variables", names.join(", ")),
                ("memory", limit(spec.memory.map(|most| most.to_string()))),
                ("processes", limit(spec.pids.map(|most| most.to_string()))),
                (
                    "processor",
                    limit(spec.cpu_millis.map(|most| most.to_string())),
                ),
                (
                    "idle seconds",
                    limit(spec.idle_seconds.map(|most| most.to_string())),
                ),
            ]
        };
        let or_nothing = |text: &str| match text {
            "" => "nothing".to_owned(),
            text => text.to_owned(),
        };
        let now = told(self).into_iter();
        let Some(before) = before else {
            let said = now.skip(1).filter(|(_, value)| !value.is_empty());
            return said
                .map(|(name, value)| format!("{name}: {value}"))
                .collect();
        };
        let both = now.zip(told(before));
        let mut changes: Vec<String> = both
            .filter(|((_, now), (_, before))| now != before)
            .map(|((name, now), (_, before))| {
                format!(
                    "{name}: {}, before: {}",
                    or_nothing(&now),
                    or_nothing(&before)
                )
            })
            .collect();
        let others = self.env.iter();
        let others =
            others.filter(|(name, value)| before.env.get(*name).is_some_and(|was| was != *value));
        let others: Vec<&str> = others.map(|(name, _)| name.as_str()).collect();
        if !others.is_empty() {
            changes.push(format!("other values of variables: {}", others.join(", ")));
        }
        changes
    }
}

/// Who starts a server's programs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ServerKind {
    /// gig: each sandbox runs its command.
    #[default]
    Program,
    /// Somebody else: each sandbox is a network namespace that is registered.
    Foreign,
}

impl ServerKind {
    fn is_program(&self) -> bool {
        *self == Self::Program
    }

    /// What a record tells beside a command.
    const fn told(self) -> &'static str {
        match self {
            Self::Program => "",
            Self::Foreign => "foreign",
        }
    }
}

/// Which side of the Internet's edge a server reaches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Network {
    /// Public addresses only: what most programs need.
    #[default]
    External,
    /// Private ranges only.
    Local,
    /// Nothing.
    Disconnected,
}

impl Network {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::External => "external",
            Self::Local => "local",
            Self::Disconnected => "disconnected",
        }
    }
}
