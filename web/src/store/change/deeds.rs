//! What each change is in the record's closed lists of events and deeds, and what it is done to: what exports read.

use std::sync::Arc;

use gig_audit::{Deed, Entry, Event};

use super::{Actor, Applied, Change};
use crate::store::Place;

impl Change {
    /// Of a change that was made, or waits, or was decided on.
    pub(super) fn deed(&self, actor: &Actor, applied: &Applied) -> (Deed, Option<Arc<str>>) {
        match (self, &applied.proposal) {
            (Self::Decide { id, .. }, _) => (Deed::ProposalDecide, Some(id.to_string().into())),
            (_, Some(one)) => (Deed::ProposalAdd, Some(one.id.to_string().into())),
            (_, None) => (self.own_deed(actor, applied), self.subject()),
        }
    }

    fn own_deed(&self, actor: &Actor, applied: &Applied) -> Deed {
        match self {
            Self::OpenSetup { .. } => Deed::SetupLink,
            Self::FinishSetup { .. } => Deed::SetupDone,
            Self::AddUser { .. } => Deed::UserAdd,
            Self::SetPassword { name, .. } if actor.is(name) => Deed::PasswordChange,
            Self::SetPassword { .. } => Deed::PasswordReset,
            Self::SetFactor { .. } => Deed::FactorSet,
            Self::RemoveFactor { .. } => Deed::FactorRemove,
            Self::FactorRule { .. } => Deed::FactorRule,
            Self::SetRole { .. } | Self::SignOnLost { .. } => Deed::UserRole,
            Self::RemoveUser { .. } => Deed::UserRemove,
            Self::StartSession { .. } => Deed::SignIn,
            Self::SignOn { .. } => Deed::SignOn,
            Self::EndSession { .. } => Deed::SessionEnd,
            Self::AddToken { .. } => Deed::TokenAdd,
            Self::RemoveToken { .. } => Deed::TokenRemove,
            Self::SavePolicy { .. } | Self::SaveFor { .. } if applied.version == Some(1) => {
                Deed::PolicyAdd
            }
            Self::SavePolicy { .. } | Self::SaveFor { .. } => Deed::PolicySave,
            Self::RemovePolicy { .. } => Deed::PolicyRemove,
            Self::Assign { policy, .. } => match policy {
                Some(_) => Deed::PolicyAssign,
                None => Deed::PolicyUnassign,
            },
            Self::SetFloor { policy, .. } => match policy {
                Some(_) => Deed::FloorSet,
                None => Deed::FloorRemove,
            },
            Self::SaveTeam { .. } if applied.members.is_none() => Deed::TeamAdd,
            Self::SaveTeam { .. } => Deed::TeamSave,
            Self::RemoveTeam { .. } => Deed::TeamRemove,
            Self::AnswerHeld { allow: true, .. } => Deed::HeldAllow,
            Self::AnswerHeld { allow: false, .. } => Deed::HeldDeny,
            Self::SaveWebhook { .. } => Deed::WebhookSave,
            Self::RemoveWebhook { .. } => Deed::WebhookRemove,
            Self::SaveServer { .. } if applied.before.is_none() => Deed::ServerAdd,
            Self::SaveServer { .. } => Deed::ServerSave,
            Self::RemoveServer { .. } => Deed::ServerRemove,
            Self::StopSandbox { .. } => Deed::ServerUse,
            Self::SaveSearch { .. } => Deed::SearchAdd,
            Self::RemoveSearch { .. } => Deed::SearchRemove,
            Self::TwoPersonRule { on: true } => Deed::TwoPersonOn,
            Self::TwoPersonRule { on: false } => Deed::TwoPersonOff,
            Self::Decide { .. } => Deed::ProposalDecide,
        }
    }

    /// A name, an id or a place.
    fn subject(&self) -> Option<Arc<str>> {
        let text: &str = match self {
            Self::FinishSetup { name, .. }
            | Self::AddUser { name, .. }
            | Self::AddToken { name, .. }
            | Self::SavePolicy { name, .. }
            | Self::SaveFor { name, .. }
            | Self::SaveTeam { name, .. }
            | Self::SaveWebhook { name, .. }
            | Self::SaveServer { name, .. }
            | Self::SignOn { name, .. }
            | Self::SignOnLost { name, .. } => name.as_str(),
            Self::SetPassword { name, .. }
            | Self::SetFactor { name, .. }
            | Self::RemoveFactor { name, .. }
            | Self::SetRole { name, .. }
            | Self::RemoveUser { name }
            | Self::RemovePolicy { name, .. }
            | Self::RemoveTeam { name, .. }
            | Self::RemoveWebhook { name }
            | Self::RemoveServer { name, .. } => name,
            Self::StopSandbox { server, .. } => server,
            Self::StartSession { user, .. } => user,
            Self::EndSession { id }
            | Self::RemoveToken { id }
            | Self::AnswerHeld { id, .. }
            | Self::SaveSearch { id, .. }
            | Self::RemoveSearch { id } => id,
            Self::Assign { place, .. } | Self::SetFloor { place, .. } => {
                return Some(placed(place));
            }
            Self::Decide { id, .. } => return Some(id.to_string().into()),
            Self::OpenSetup { .. } | Self::FactorRule { .. } | Self::TwoPersonRule { .. } => {
                return None;
            }
        };
        Some(text.into())
    }

    /// Names what it is about in the fields that a record has for that.
    pub(super) fn name_subjects(&self, entry: &mut Entry) {
        match self {
            Self::SavePolicy { name, reason, .. } | Self::SaveFor { name, reason, .. } => {
                entry.policy = Some(name.as_str().into());
                if let Self::SaveFor { server, .. } = self {
                    entry.server = Some(server.as_str().into());
                }
                if !reason.is_empty() {
                    entry.findings.push(format!("reason: {reason}").into());
                }
            }
            Self::RemovePolicy { name, .. } => entry.policy = Some(name.as_str().into()),
            Self::AnswerHeld { id, .. } => entry.request = Some(id.as_str().into()),
            Self::Assign { place, policy, .. } | Self::SetFloor { place, policy, .. } => {
                entry.policy = policy.as_deref().map(Into::into);
                entry.server = place.server().map(Into::into);
            }
            Self::SaveServer { name, .. } => entry.server = Some(name.as_str().into()),
            Self::RemoveServer { name, .. } => entry.server = Some(name.as_str().into()),
            Self::StopSandbox { sandbox, server } => {
                (entry.sandbox, entry.server) = (Some(*sandbox), Some(server.as_str().into()));
            }
            _ => {}
        }
    }

    /// The kind of record.
    pub(super) const fn event(&self) -> Event {
        match self {
            Self::StartSession { .. } | Self::SignOn { .. } | Self::EndSession { .. } => {
                Event::Auth
            }
            Self::SavePolicy { .. }
            | Self::SaveFor { .. }
            | Self::RemovePolicy { .. }
            | Self::Assign { .. }
            | Self::SetFloor { .. }
            // Who is of a team says what is in force for them.
            | Self::SaveTeam { .. }
            | Self::RemoveTeam { .. } => Event::PolicyChange,
            _ => Event::Admin,
        }
    }
}

fn placed(place: &Place) -> Arc<str> {
    place.to_string().into()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::{role::Role, store::Standing};

    fn told(change: &Change, applied: &Applied) -> (String, Option<String>) {
        let actor = Actor {
            request: None,
            once: None,
            name: "token of ana".into(),
            person: Some("ana".into()),
            owner: false,
            standing: Standing::Itself,
            address: None,
            at: Timestamp::UNIX_EPOCH,
        };
        let entry = change.entry(&actor, applied);
        let subject = entry.subject.map(|subject| subject.to_string());
        (entry.deed.expect("a deed").to_string(), subject)
    }

    #[test]
    fn each_change_is_recorded_as_what_it_is_and_to_whom() {
        let password = |name: &str| Change::SetPassword {
            name: name.to_owned(),
            password: String::new(),
            end_tokens: false,
            code: None,
        };
        let team = Change::SaveTeam {
            name: "data".parse().unwrap(),
            members: Vec::new(),
            expected: None,
        };
        let floor = |policy: Option<&str>| Change::SetFloor {
            place: Place::Team("data".to_owned()),
            policy: policy.map(str::to_owned),
            expected: None,
        };
        let policy = Change::SavePolicy {
            name: "web".parse().unwrap(),
            expected: None,
            document: String::new(),
            // What somebody says is nobody's deed.
            reason: "policy removed".to_owned(),
            secrets: crate::store::Vouched::Freely,
        };
        let role = Change::SetRole {
            name: "ben".to_owned(),
            role: Role::Admin,
        };
        let (none, first) = (
            Applied::default(),
            Applied {
                version: Some(1),
                ..Applied::default()
            },
        );
        let known = Applied {
            members: Some(Vec::new()),
            ..Applied::default()
        };
        for (change, applied, deed, subject) in [
            (&password("ana"), &none, "password.change", Some("ana")),
            (&password("ben"), &none, "password.reset", Some("ben")),
            (&role, &none, "user.role", Some("ben")),
            (&team, &none, "team.add", Some("data")),
            (&team, &known, "team.save", Some("data")),
            (&floor(Some("web")), &none, "floor.set", Some("team data")),
            (&floor(None), &none, "floor.remove", Some("team data")),
            (&policy, &first, "policy.add", Some("web")),
            (&policy, &none, "policy.save", Some("web")),
            (
                &Change::TwoPersonRule { on: true },
                &none,
                "two_person.on",
                None,
            ),
        ] {
            let want = (deed.to_owned(), subject.map(str::to_owned));
            assert_eq!(told(change, applied), want);
        }
    }
}
