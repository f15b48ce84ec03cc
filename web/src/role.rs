//! Roles, and what each may do: the one table that all of API and console ask.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What somebody is to this gig.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees policies, servers and whatever runs, for whomever: it is there to oversee.
    Viewer,
    /// Also reads and searches the record.
    Auditor,
    /// Also writes policies, and starts and stops sandboxes; sees those of their own alone.
    Editor,
    /// Reads the record, puts policies in force and approves changes of others; writes none.
    Approver,
    /// Everything, people and servers included.
    Admin,
}

/// One thing that may be allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// See policies, servers, sandboxes and figures.
    Look,
    /// Read the record and what sandboxes print.
    ReadAudit,
    /// Write a version of a policy, or roll back to one.
    EditPolicies,
    /// Say which policy is in force where.
    AssignPolicies,
    /// Say which policies bound all others, and write those.
    SetFloors,
    /// Say who is of which team, and so which policy is in force for whom.
    ManageTeams,
    /// Allow or deny one request that waits; where policies are changed by two people it takes
    /// [`Permission::Approve`], too.
    AnswerHeld,
    /// Decide on what somebody else proposes, where policies are changed by two people.
    Approve,
    /// Start and stop sandboxes of registered servers.
    RunSandboxes,
    /// See what runs for others, with what it prints; who runs sandboxes and may stop them may only stop these.
    OverseeProfiles,
    /// Start them for somebody else, as a gateway does for those whom it serves; no role has it by itself, a
    /// token is given it.
    ActForProfiles,
    /// Take network namespaces of the machine that gig did not make as sandboxes; no role has it by itself, a token
    /// is given it, and this machine's owner needs none.
    RegisterNamespaces,
    /// Register servers: what runs on this machine and which of its files it sees.
    ManageServers,
    /// Users, tokens, other people's sessions.
    ManageUsers,
    /// Give secrets values, rotate and remove them. Nobody reads one.
    ManageSecrets,
    /// Say whether policies are changed by two people, and whether everybody needs a second factor.
    RuleChanges,
    /// Say where people are told what waits, and who answers from there.
    ManageWebhooks,
    /// Try what this machine gives gig, and see where it keeps things.
    Examine,
}

impl Permission {
    /// Whether it is one that is judged by server.
    #[must_use]
    pub const fn is_of_servers(self) -> bool {
        matches!(
            self,
            Self::Look
                | Self::ReadAudit
                | Self::RunSandboxes
                | Self::ActForProfiles
                | Self::OverseeProfiles
                | Self::RegisterNamespaces
                | Self::AnswerHeld
        )
    }

    /// What somebody wants who needs it, behind `to`.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Look => "see policies, servers, sandboxes and figures",
            Self::ReadAudit => "read the record and what sandboxes print",
            Self::EditPolicies => "write policies",
            Self::AssignPolicies => "say which policy is in force where",
            Self::SetFloors => "say which policies bound all others, and write those",
            Self::ManageTeams => "say who is of which team",
            Self::AnswerHeld => "allow or deny requests that wait",
            Self::Approve => "decide on what somebody else proposes",
            Self::RunSandboxes => "start and stop sandboxes",
            Self::OverseeProfiles => "see what runs for others",
            Self::ActForProfiles => "start sandboxes for others",
            Self::RegisterNamespaces => "register network namespaces",
            Self::ManageServers => "register servers",
            Self::ManageUsers => "manage users, tokens and others' sessions",
            Self::RuleChanges => "turn the two-person rule, or that for second factors, on or off",
            Self::ManageSecrets => "give secrets values, rotate and remove them",
            Self::ManageWebhooks => "say where people are told what waits",
            Self::Examine => "examine this machine",
        }
    }
}

impl Role {
    /// All of them, least first.
    pub const ALL: [Self; 5] = [
        Self::Viewer,
        Self::Auditor,
        Self::Editor,
        Self::Approver,
        Self::Admin,
    ];

    /// Whether it may.
    #[must_use]
    pub const fn may(self, permission: Permission) -> bool {
        use Permission::{
            ActForProfiles, AnswerHeld, Approve, AssignPolicies, EditPolicies, Examine, Look,
            ManageSecrets, ManageServers, ManageTeams, ManageUsers, ManageWebhooks,
            OverseeProfiles, ReadAudit, RegisterNamespaces, RuleChanges, RunSandboxes, SetFloors,
        };
        match permission {
            Look => true,
            ReadAudit => !matches!(self, Self::Viewer),
            // Who oversees looks at everybody's and touches none; who runs sandboxes has their own.
            OverseeProfiles => !matches!(self, Self::Editor),
            EditPolicies | RunSandboxes | ActForProfiles => {
                matches!(self, Self::Editor | Self::Admin)
            }
            AssignPolicies | AnswerHeld => {
                matches!(self, Self::Editor | Self::Approver | Self::Admin)
            }
            Approve => matches!(self, Self::Approver | Self::Admin),
            ManageServers | ManageTeams | ManageUsers | ManageSecrets | ManageWebhooks
            | Examine | SetFloors | RuleChanges | RegisterNamespaces => {
                matches!(self, Self::Admin)
            }
        }
    }

    /// Whether it has any part in a change of policies: writes them, puts them in force, approves.
    /// Under the two-person rule nobody gives or gets such a role alone.
    #[must_use]
    pub const fn takes_part(self) -> bool {
        self.may(Permission::EditPolicies)
            || self.may(Permission::AssignPolicies)
            || self.may(Permission::Approve)
    }

    /// The one that may least, of those that may this.
    #[must_use]
    pub fn least(permission: Permission) -> Self {
        let may = |role: &Self| role.may(permission);
        // An admin may everything.
        Self::ALL.into_iter().find(may).unwrap_or(Self::Admin)
    }

    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Auditor => "auditor",
            Self::Editor => "editor",
            Self::Approver => "approver",
            Self::Admin => "admin",
        }
    }

    /// What it may do, in words.
    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Viewer => "sees policies, servers and sandboxes",
            Self::Auditor => "also reads and searches the record",
            Self::Editor => {
                "also writes policies, puts them in force, answers what waits and runs sandboxes of their own"
            }
            Self::Approver => {
                "reads the record, puts policies in force, answers what waits and approves changes"
            }
            Self::Admin => "everything, people and servers included",
        }
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| "no such role: viewer, auditor, editor, approver or admin".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_admin_manages_people_and_servers() {
        for role in Role::ALL {
            let admin = role == Role::Admin;
            assert_eq!(role.may(Permission::ManageUsers), admin, "{role}");
            assert_eq!(role.may(Permission::RuleChanges), admin, "{role}");
            assert_eq!(role.may(Permission::ManageServers), admin, "{role}");
            assert_eq!(role.may(Permission::ManageTeams), admin, "{role}");
            assert_eq!(role.may(Permission::ManageSecrets), admin, "{role}");
            assert_eq!(role.may(Permission::Examine), admin, "{role}");
            assert_eq!(role.may(Permission::SetFloors), admin, "{role}");
            assert_eq!(role.may(Permission::ManageWebhooks), admin, "{role}");
            assert_eq!(role.may(Permission::RegisterNamespaces), admin, "{role}");
            assert_eq!(role.to_string().parse(), Ok(role));
        }
    }

    #[test]
    fn the_least_role_that_may_is_the_one_to_ask_for() {
        for (permission, least) in [
            (Permission::Look, Role::Viewer),
            (Permission::ReadAudit, Role::Auditor),
            (Permission::EditPolicies, Role::Editor),
            (Permission::AssignPolicies, Role::Editor),
            (Permission::Approve, Role::Approver),
            (Permission::ManageSecrets, Role::Admin),
        ] {
            assert_eq!(Role::least(permission), least, "{permission:?}");
        }
    }

    #[test]
    fn who_only_looks_or_reads_takes_no_part_in_changes() {
        let roles = Role::ALL.into_iter().filter(|role| !role.takes_part());
        assert_eq!(roles.collect::<Vec<_>>(), [Role::Viewer, Role::Auditor]);
        assert!(Role::Approver.may(Permission::Approve) && !Role::Editor.may(Permission::Approve));
    }

    #[test]
    fn who_oversees_others_touches_none_of_theirs_but_an_admin() {
        for role in Role::ALL {
            let both = role.may(Permission::OverseeProfiles) && role.may(Permission::RunSandboxes);
            assert_eq!(both, role == Role::Admin, "{role}");
        }
        assert!(!Role::Editor.may(Permission::OverseeProfiles));
    }

    #[test]
    fn who_approves_does_not_write_and_who_looks_reads_no_record() {
        assert!(!Role::Approver.may(Permission::EditPolicies));
        assert!(!Role::Viewer.may(Permission::ReadAudit));
        assert!(!Role::Auditor.may(Permission::RunSandboxes));
        assert!(
            !Role::Auditor.may(Permission::AnswerHeld)
                && Role::Approver.may(Permission::AnswerHeld)
        );
    }
}
