//! How each change stands in the record, for people: one wording of each.

use std::sync::Arc;

use super::Change;
use crate::store::{Place, UsedCode, factors, webhooks};

impl Change {
    pub(super) fn words(&self, again: bool) -> String {
        match self {
            Self::OpenSetup { .. } => "set-up link made".to_owned(),
            Self::FinishSetup { name, .. } => format!("set-up done: first admin {name}"),
            Self::AddUser { name, role, .. } => format!("user {name} added as {role}"),
            Self::SetPassword {
                name, end_tokens, ..
            } => {
                let tokens = if *end_tokens { "ended" } else { "stay" };
                format!("password of {name} set, sessions ended, tokens {tokens}")
            }
            Self::SetRole { name, role } => format!("user {name} is now {role}"),
            Self::RemoveUser { name } => format!("user {name} removed"),
            Self::SetFactor { .. } | Self::RemoveFactor { .. } | Self::FactorRule { .. } => {
                factors::words(self)
            }
            Self::StartSession { id, code, .. } => {
                format!("signed in{}, session {id}", UsedCode::words(code.as_ref()))
            }
            Self::SignOn {
                id,
                account,
                role,
                first,
                ..
            } => {
                let first = if *first { " for the first time" } else { "" };
                format!("signed in{first} through {account} as {role}, session {id}")
            }
            Self::SignOnLost { name, account, .. } => format!(
                "user {name} has no group with a role any more ({account}): viewer, sessions and tokens ended"
            ),
            Self::EndSession { id } => format!("session {id} ended"),
            Self::AddToken {
                id,
                name,
                role,
                narrowing,
                ..
            } => format!("token {name} ({id}) made as {role}{}", narrowing.words()),
            Self::RemoveToken { id } => format!("token {id} removed"),
            Self::SavePolicy { .. } => "version saved".to_owned(),
            Self::SaveFor { server, .. } => format!("version saved and put in force for {server}"),
            Self::RemovePolicy { .. } => "policy removed".to_owned(),
            Self::Assign { place, policy, .. } => {
                let place = placed(place);
                match policy {
                    Some(policy) => format!("{policy} put in force for {place}"),
                    None => format!("assignment of {place} taken away"),
                }
            }
            Self::SetFloor { place, policy, .. } => {
                let place = placed(place);
                match policy {
                    Some(policy) => format!("{policy} is the floor of {place}"),
                    None => format!("floor of {place} taken away"),
                }
            }
            Self::SaveTeam { name, members, .. } => {
                format!("team {name}: {} members", members.len())
            }
            Self::RemoveTeam { name, .. } => format!("team {name} removed"),
            Self::SaveWebhook { .. } => webhooks::words(self),
            Self::RemoveWebhook { name } => format!("webhook {name} removed"),
            Self::AnswerHeld { allow, what, .. } => {
                let word = if *allow { "allowed once" } else { "denied" };
                format!("waiting request {word}: {what}")
            }
            Self::SaveServer { spec, .. } => {
                let what = if again { "changed" } else { "registered" };
                format!("server {what}: {}", spec.told_command())
            }
            Self::RemoveServer { .. } => "server removed".to_owned(),
            Self::StopSandbox { .. } => "sandbox stop asked for".to_owned(),
            Self::SaveSearch { id, title, query } => {
                format!("search \"{title}\" ({id}) saved: {query}")
            }
            Self::RemoveSearch { id } => format!("saved search {id} removed"),
            Self::TwoPersonRule { on } => format!("two-person rule turned {}", on_or_off(*on)),
            Self::Decide { id, .. } => format!("proposal {id} decided"),
        }
    }
}

const fn on_or_off(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A server by its name alone.
fn placed(place: &Place) -> String {
    place
        .server()
        .map_or_else(|| place.to_string(), str::to_owned)
}

/// Who came to a team and who went, by what was before; or would come and go, where it is not made yet.
pub(super) fn members(now: &[String], before: &[String], made: bool) -> Vec<Arc<str>> {
    let beyond = |these: &[String], others: &[String]| {
        let these = these.iter().filter(|one| !others.contains(one));
        these.cloned().collect::<Vec<_>>()
    };
    let told = |what: &str, names: Vec<String>| {
        // Parts of a bounded length, so that none is cut.
        let parts = names
            .chunks(NAMED)
            .map(|part| format!("{what}: {}", part.join(" ")));
        parts.map(Into::into).collect::<Vec<Arc<str>>>()
    };
    let (added, taken) = match made {
        true => ("added", "taken out"),
        false => ("to be added", "to be taken out"),
    };
    let mut all = told(added, beyond(now, before));
    all.extend(told(taken, beyond(before, now)));
    all
}

/// Of names of 64 characters at most.
const NAMED: usize = 50;
