//! What a person did, and to what, for the classes that ask for it: by the word that the record has for it, never
//! by its prose.
//!
//! A word that is not known here, or none, leads to the general answer, never to a wrong one.

use super::class::OTHER;
use crate::{deed::Deed, row::Row};

/// What a record of the control plane tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// Somebody began or ended a session, or tried to.
    Session(Activity),
    /// Somebody's account was changed.
    Account(Activity),
    /// Something else was, of a kind.
    Thing(&'static str, Activity),
    /// Somebody was refused something that they asked of the API.
    Refusal(Activity),
}

/// Its number in the class, and its word.
pub(super) type Activity = (u32, &'static str);

impl Doing {
    /// `None` for what no person does.
    pub(super) fn of(row: &Row) -> Option<Self> {
        let deed = row.deed.as_deref().and_then(Deed::of_word);
        let general = match row.event.as_str() {
            "auth" => Self::refusal(row),
            "admin" => Self::Thing("appliance", ADMINISTER),
            "policy.change" => Self::Thing("policy", UPDATE),
            "secret.change" => Self::Thing("secret", UPDATE),
            _ => return None,
        };
        Some(match deed {
            Some(Deed::Refused) => Self::refusal(row),
            Some(deed) => Self::of_deed(deed),
            None => general,
        })
    }

    /// What a route is asked with says what it would have come to.
    fn refusal(row: &Row) -> Self {
        let subject = row.subject.as_deref().unwrap_or_default();
        let method = subject.split_once(' ').map(|(method, _)| method);
        Self::Refusal(match method {
            Some("GET" | "HEAD") => (2, "Read"),
            Some("POST") => CREATE,
            Some("PUT" | "PATCH") => UPDATE,
            Some("DELETE") => DELETE,
            _ => (OTHER, "Other"),
        })
    }

    const fn of_deed(deed: Deed) -> Self {
        match deed {
            Deed::SignIn | Deed::SignOn | Deed::SignInRefused => Self::Session((1, "Logon")),
            Deed::SessionEnd => Self::Session((2, "Logoff")),
            Deed::Refused => Self::Refusal((OTHER, "Other")),
            Deed::SetupDone | Deed::UserAdd => Self::Account((1, "Create")),
            Deed::UserRemove => Self::Account((6, "Delete")),
            Deed::UserRole => Self::Account((OTHER, "Change Role")),
            Deed::PasswordChange => Self::Account((3, "Password Change")),
            Deed::PasswordReset => Self::Account((4, "Password Reset")),
            Deed::FactorSet => Self::Account((10, "MFA Factor Enable")),
            Deed::FactorRemove => Self::Account((11, "MFA Factor Disable")),
            Deed::SetupLink => Self::Thing("set-up link", CREATE),
            Deed::FactorRule => Self::Thing("rule of second factors", UPDATE),
            Deed::TokenAdd => Self::Thing("token", CREATE),
            Deed::TokenRemove => Self::Thing("token", DELETE),
            Deed::PolicyAdd => Self::Thing("policy", CREATE),
            Deed::PolicySave => Self::Thing("policy", UPDATE),
            Deed::PolicyRemove => Self::Thing("policy", DELETE),
            Deed::PolicyAssign => Self::Thing("assignment", ACTIVATE),
            Deed::PolicyUnassign => Self::Thing("assignment", DEACTIVATE),
            Deed::FloorSet => Self::Thing("floor", ACTIVATE),
            Deed::FloorRemove => Self::Thing("floor", DEACTIVATE),
            Deed::TeamAdd => Self::Thing("team", CREATE),
            Deed::TeamSave => Self::Thing("team", UPDATE),
            Deed::TeamRemove => Self::Thing("team", DELETE),
            Deed::WebhookSave => Self::Thing("webhook", ENABLE),
            Deed::WebhookRemove => Self::Thing("webhook", DELETE),
            Deed::WebhookFail => Self::Thing("webhook", (OTHER, "Fail")),
            Deed::HeldAllow => Self::Thing("waiting request", (OTHER, "Allow")),
            Deed::HeldDeny => Self::Thing("waiting request", (OTHER, "Deny")),
            Deed::ServerAdd => Self::Thing("server", CREATE),
            Deed::ServerSave => Self::Thing("server", UPDATE),
            Deed::ServerRemove => Self::Thing("server", DELETE),
            Deed::ServerUse => Self::Thing("server", (OTHER, "Use")),
            Deed::SearchAdd => Self::Thing("search", CREATE),
            Deed::SearchRemove => Self::Thing("search", DELETE),
            Deed::TwoPersonOn => Self::Thing("two-person rule", ENABLE),
            Deed::TwoPersonOff => Self::Thing("two-person rule", DISABLE),
            Deed::ProposalAdd => Self::Thing("proposal", CREATE),
            Deed::ProposalDecide => Self::Thing("proposal", UPDATE),
            Deed::SecretSet => Self::Thing("secret", CREATE),
            Deed::SecretRotate => Self::Thing("secret", UPDATE),
            Deed::SecretRemove => Self::Thing("secret", DELETE),
            Deed::SecretVault => Self::Thing("vault", UPDATE),
            Deed::RecordExport => Self::Thing("record", (2, "Read")),
            Deed::RecordPrune => Self::Thing("record", DELETE),
            Deed::ServeStart => Self::Thing("appliance", (OTHER, "Start")),
            Deed::NodeLost => Self::Thing("appliance", (OTHER, "Lose")),
            Deed::SandboxLost => Self::Thing("sandbox", (OTHER, "Lose")),
            Deed::BackupMake => Self::Thing("backup", CREATE),
            Deed::BackupRestore => Self::Thing("appliance", (OTHER, "Restore")),
        }
    }

    pub(super) const fn activity(self) -> Activity {
        match self {
            Self::Session(activity)
            | Self::Account(activity)
            | Self::Thing(_, activity)
            | Self::Refusal(activity) => activity,
        }
    }
}

/// Of Entity Management, and as far as both have them of API Activity.
const CREATE: Activity = (1, "Create");
const UPDATE: Activity = (3, "Update");
const DELETE: Activity = (4, "Delete");
const ENABLE: Activity = (8, "Enable");
const DISABLE: Activity = (9, "Disable");
const ACTIVATE: Activity = (10, "Activate");
const DEACTIVATE: Activity = (11, "Deactivate");
const ADMINISTER: Activity = (OTHER, "Administer");
