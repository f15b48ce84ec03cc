//! What a token is narrowed to, below its role: some permissions, some servers.
//!
//! A narrowed token is for programs: it opens no page of the console, and it never manages people, by
//! which it could make itself wider. What runs for others than whom it stands for is not there for it, unless it is
//! made to oversee them, and then it reads and changes nothing. One that is narrowed to servers sees and runs these and finds
//! nothing else: every path that does not name a server is closed to it, also those that come later.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    auth::doors,
    role::{Permission, Role},
    store::Name,
};

/// The narrowing of one token; by default none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Narrowing {
    /// What of its role it may; empty: all of it.
    scopes: Vec<Scope>,
    /// Of which servers; empty: all of them.
    servers: Vec<String>,
}

/// One permission of a role, as tokens are narrowed to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Scope {
    /// See policies, servers, sandboxes and figures.
    #[serde(rename = "read")]
    Read,
    /// Read the record and what sandboxes print.
    #[serde(rename = "audit")]
    Audit,
    /// Write policies.
    #[serde(rename = "policies:write")]
    WritePolicies,
    /// Say which policy is in force where.
    #[serde(rename = "policies:assign")]
    AssignPolicies,
    /// Say which policies bound all others.
    #[serde(rename = "policies:floor")]
    SetFloors,
    /// Decide on what somebody else proposes.
    #[serde(rename = "policies:approve")]
    Approve,
    /// Allow or deny requests that wait.
    #[serde(rename = "approvals:answer")]
    AnswerHeld,
    /// Start and stop sandboxes of registered servers.
    #[serde(rename = "servers:run")]
    RunServers,
    /// Start them for those whom a gateway serves; only a token that names it has it.
    #[serde(rename = "profiles:act")]
    ActForProfiles,
    /// See what runs for everybody, with what it prints, and stop none of it: for what ships logs. Only a token that
    /// names it has it.
    #[serde(rename = "profiles:oversee")]
    OverseeProfiles,
    /// Take network namespaces of the machine that gig did not make as sandboxes; only a token that names it has it.
    #[serde(rename = "namespaces:register")]
    RegisterNamespaces,
    /// Register servers.
    #[serde(rename = "servers:write")]
    WriteServers,
    /// Give secrets values.
    #[serde(rename = "secrets:write")]
    WriteSecrets,
    /// Say who is of which team.
    #[serde(rename = "teams:write")]
    WriteTeams,
    /// Say where people are told what waits.
    #[serde(rename = "webhooks:write")]
    WriteWebhooks,
    /// Try what this machine gives gig.
    #[serde(rename = "settings:examine")]
    Examine,
}

/// A token cannot be narrowed so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NarrowingRefused {
    /// No such scope.
    #[error("there is no scope {0}: {known}", known = Scope::words())]
    Unknown(String),
    /// The role does not have it.
    #[error("scope {0} is more than {1} may")]
    Beyond(&'static str, Role),
    /// It names servers and something that is not of a server.
    #[error(
        "a token of named servers has no scope but read, audit, servers:run, profiles:act, profiles:oversee, \
         namespaces:register and approvals:answer; {0} is not of a server"
    )]
    NotOfServers(&'static str),
    /// It sees everybody's sandboxes, and would change something.
    #[error(
        "a token with profiles:oversee looks at everybody's sandboxes and changes nothing: leave {0} out"
    )]
    Oversees(&'static str),
    /// It says whose, and nothing says what.
    #[error("scope {0} says for whom and does nothing by itself: add {1}")]
    Idle(&'static str, &'static str),
    /// It would read the record of some servers, which no token does.
    #[error(
        "a token of named servers does not read the record: there, audit is what sandboxes print, of those that run for \
         whom it stands; add profiles:oversee for everybody's, profiles:act or servers:run, or name no server"
    )]
    RecordOfServers,
    /// Not a server's name.
    #[error("{0} is not a server's name")]
    Server(String),
}

impl Scope {
    const ALL: [Self; 16] = [
        Self::Read,
        Self::Audit,
        Self::WritePolicies,
        Self::AssignPolicies,
        Self::SetFloors,
        Self::Approve,
        Self::AnswerHeld,
        Self::RunServers,
        Self::ActForProfiles,
        Self::OverseeProfiles,
        Self::RegisterNamespaces,
        Self::WriteServers,
        Self::WriteSecrets,
        Self::WriteTeams,
        Self::WriteWebhooks,
        Self::Examine,
    ];

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Audit => "audit",
            Self::WritePolicies => "policies:write",
            Self::AssignPolicies => "policies:assign",
            Self::SetFloors => "policies:floor",
            Self::Approve => "policies:approve",
            Self::AnswerHeld => "approvals:answer",
            Self::RunServers => "servers:run",
            Self::ActForProfiles => "profiles:act",
            Self::OverseeProfiles => "profiles:oversee",
            Self::RegisterNamespaces => "namespaces:register",
            Self::WriteServers => "servers:write",
            Self::WriteSecrets => "secrets:write",
            Self::WriteTeams => "teams:write",
            Self::WriteWebhooks => "webhooks:write",
            Self::Examine => "settings:examine",
        }
    }

    /// What it is of no use without, in words.
    fn idle_without(self) -> Option<(&'static [Self], &'static str)> {
        match self {
            Self::OverseeProfiles => Some((&[Self::Read, Self::Audit], "read or audit")),
            Self::ActForProfiles => Some((
                &[
                    Self::RunServers,
                    Self::RegisterNamespaces,
                    Self::AnswerHeld,
                    Self::Read,
                    Self::Audit,
                ],
                "servers:run, or what else it does for others",
            )),
            _ => None,
        }
    }

    /// Whether it changes nothing: what may stand beside a sight of everybody's sandboxes.
    const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Audit | Self::OverseeProfiles)
    }

    /// What a token takes that may this; `None` where none does.
    pub(crate) fn of(permission: Permission) -> Option<Self> {
        let gives = |scope: &Self| scope.permission() == permission;
        Self::ALL.into_iter().find(gives)
    }

    const fn permission(self) -> Permission {
        match self {
            Self::Read => Permission::Look,
            Self::Audit => Permission::ReadAudit,
            Self::WritePolicies => Permission::EditPolicies,
            Self::AssignPolicies => Permission::AssignPolicies,
            Self::SetFloors => Permission::SetFloors,
            Self::Approve => Permission::Approve,
            Self::AnswerHeld => Permission::AnswerHeld,
            Self::RunServers => Permission::RunSandboxes,
            Self::ActForProfiles => Permission::ActForProfiles,
            Self::OverseeProfiles => Permission::OverseeProfiles,
            Self::RegisterNamespaces => Permission::RegisterNamespaces,
            Self::WriteServers => Permission::ManageServers,
            Self::WriteSecrets => Permission::ManageSecrets,
            Self::WriteTeams => Permission::ManageTeams,
            Self::WriteWebhooks => Permission::ManageWebhooks,
            Self::Examine => Permission::Examine,
        }
    }

    fn words() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }
}

impl std::str::FromStr for Scope {
    type Err = NarrowingRefused;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| NarrowingRefused::Unknown(text.to_owned()))
    }
}

impl Narrowing {
    /// Whether it is to some servers.
    pub(crate) fn names_servers(&self) -> bool {
        !self.servers.is_empty()
    }

    /// A narrowing of this role to scopes and servers, as they are typed.
    ///
    /// # Errors
    /// [`NarrowingRefused`].
    pub fn of<'a>(
        role: Role,
        scopes: impl IntoIterator<Item = &'a str>,
        servers: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NarrowingRefused> {
        let mut made = Self::default();
        for text in scopes {
            let scope: Scope = text.parse()?;
            if !role.may(scope.permission()) {
                return Err(NarrowingRefused::Beyond(scope.as_str(), role));
            }
            if !made.scopes.contains(&scope) {
                made.scopes.push(scope);
            }
        }
        if made.scopes.contains(&Scope::OverseeProfiles)
            && let Some(scope) = made.scopes.iter().find(|one| !one.reads())
        {
            return Err(NarrowingRefused::Oversees(scope.as_str()));
        }
        made.is_of_use()?;
        for text in servers {
            let name: Name = text
                .parse()
                .map_err(|_| NarrowingRefused::Server(text.to_owned()))?;
            made.servers.push(name.to_string());
        }
        let of_servers = |scope: &&Scope| !scope.permission().is_of_servers();
        match made.scopes.iter().find(of_servers) {
            Some(scope) if !made.servers.is_empty() => {
                Err(NarrowingRefused::NotOfServers(scope.as_str()))
            }
            _ if made.wants_record_of_servers() => Err(NarrowingRefused::RecordOfServers),
            _ => Ok(made),
        }
    }

    /// Refuses what only says for whom.
    fn is_of_use(&self) -> Result<(), NarrowingRefused> {
        for scope in &self.scopes {
            if let Some((others, words)) = scope.idle_without()
                && !others.iter().any(|other| self.scopes.contains(other))
            {
                return Err(NarrowingRefused::Idle(scope.as_str(), words));
            }
        }
        Ok(())
    }

    /// Whether it asks for the record of some servers: nothing else says whose output it were to read.
    fn wants_record_of_servers(&self) -> bool {
        let whose = [
            Scope::OverseeProfiles,
            Scope::ActForProfiles,
            Scope::RunServers,
        ];
        let has = |scope| self.scopes.contains(&scope);
        !self.servers.is_empty() && has(Scope::Audit) && !whose.into_iter().any(has)
    }

    /// What somebody may who answers by a webhook: nothing but that, and the rule for an hour.
    pub(crate) fn of_webhook() -> Self {
        Self {
            scopes: vec![Scope::Read, Scope::AnswerHeld, Scope::WritePolicies],
            servers: Vec::new(),
        }
    }

    /// From the store: what it was made of.
    pub(crate) fn kept(scopes: &str, servers: &str) -> Result<Self, NarrowingRefused> {
        Ok(Self {
            scopes: scopes
                .split_whitespace()
                .map(str::parse)
                .collect::<Result<_, _>>()?,
            servers: servers.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// Whether there is any.
    #[must_use]
    pub const fn is_any(&self) -> bool {
        !self.scopes.is_empty() || !self.servers.is_empty()
    }

    /// Whether a role that may still may.
    #[must_use]
    pub fn lets(&self, permission: Permission) -> bool {
        // Also one that was kept with others beside it.
        let oversees = self.scopes.contains(&Scope::OverseeProfiles);
        let in_scope = self
            .scopes
            .iter()
            .any(|scope| scope.permission() == permission && (scope.reads() || !oversees));
        // To act for others, to see theirs, or to take a stranger's network is given by name, never with all the rest.
        let named = match permission {
            Permission::ActForProfiles | Permission::RegisterNamespaces => true,
            Permission::OverseeProfiles => self.is_any(),
            _ => false,
        };
        let scoped = in_scope || (self.scopes.is_empty() && !named);
        let of_servers = self.servers.is_empty() || permission.is_of_servers();
        // It manages nobody, nor how many it takes to change something.
        let all = matches!(
            permission,
            Permission::ManageUsers | Permission::RuleChanges
        );
        let beyond = self.is_any() && all;
        scoped && of_servers && !beyond
    }

    /// Whether it reaches this server.
    #[must_use]
    pub fn reaches(&self, server: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|one| one == server)
    }

    /// Whether a path is open to it: of a server's token those alone that judge by server.
    pub(crate) fn opens(&self, path: &str) -> bool {
        if !self.is_any() {
            return true;
        }
        let program = doors::is_for_programs(path);
        let known = [
            "/api/v1/me",
            "/api/v1/servers",
            "/api/v1/sandboxes",
            "/api/v1/held",
            "/sandbox",
        ];
        let below = |one: &str| {
            let rest = path.strip_prefix(one);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        program && (self.servers.is_empty() || known.into_iter().any(below))
    }

    /// As record and lists tell it, after what the token is.
    #[must_use]
    pub fn words(&self) -> String {
        let mut words = String::new();
        if !self.scopes.is_empty() {
            words.push_str(&format!(", narrowed to {}", self.scopes().join(", ")));
        }
        if !self.servers.is_empty() {
            words.push_str(&format!(", for servers {}", self.servers.join(", ")));
        }
        words
    }

    /// The scopes, for the store and for people.
    #[must_use]
    pub fn scopes(&self) -> Vec<&'static str> {
        self.scopes.iter().map(|scope| scope.as_str()).collect()
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[String] {
        &self.servers
    }
}

#[cfg(test)]
mod tests;
