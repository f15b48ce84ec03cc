//! What a person did, and to what: read off the words of a record, for the classes that ask for it.
//!
//! Words that are not known here lead to the general answer, never to a wrong one.

use super::class::OTHER;
use crate::row::Row;

/// What a record of the control plane tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing<'a> {
    /// Somebody began or ended a session, or tried to.
    Session(u32, &'static str),
    /// Somebody's account was changed.
    Account(&'a str, u32, &'static str),
    /// Something else was: its kind and name.
    Thing(&'static str, Option<&'a str>, u32, &'static str),
    /// Somebody was refused something.
    Refusal,
}

impl<'a> Doing<'a> {
    /// `None` for what no person does.
    pub(super) fn of(row: &'a Row) -> Option<Self> {
        let said = row.findings.first().map_or("", String::as_str);
        Some(match row.event.as_str() {
            "auth" => Self::of_session(said),
            "admin" => Self::of_account(row, said).unwrap_or_else(|| Self::of_thing(row, said)),
            "policy.change" => Self::of_policy(row, said),
            "secret.change" => {
                let name = row.secrets.first().map(String::as_str);
                Self::Thing("secret", name, UPDATE.0, UPDATE.1)
            }
            _ => return None,
        })
    }

    fn of_session(said: &str) -> Self {
        let begins = |word: &str| said.starts_with(word);
        if ["signed in", "sign-in refused", "single sign-on refused"]
            .into_iter()
            .any(begins)
        {
            Self::Session(1, "Logon")
        } else if begins("session ") && said.ends_with(" ended") {
            Self::Session(2, "Logoff")
        } else {
            Self::Refusal
        }
    }

    fn of_account(row: &Row, said: &'a str) -> Option<Self> {
        // Names have no spaces.
        let after = |word: &str| {
            let rest = said.strip_prefix(word)?;
            Some(rest.split_once([' ', ',']).unwrap_or((rest, "")))
        };
        if let Some((name, _)) = after("set-up done: first admin ") {
            return Some(Self::Account(name, 1, "Create"));
        }
        if let Some((name, _)) = after("password of ") {
            let own = row.profile.as_deref() == Some(name);
            let (id, word) = match own {
                true => (3, "Password Change"),
                false => (4, "Password Reset"),
            };
            return Some(Self::Account(name, id, word));
        }
        let (name, what) = after("user ")?;
        match what.split(' ').next()? {
            "added" => Some(Self::Account(name, 1, "Create")),
            "removed" => Some(Self::Account(name, 6, "Delete")),
            "enrolled" => Some(Self::Account(name, 10, "MFA Factor Enable")),
            "has" => Some(Self::Account(name, 11, "MFA Factor Disable")),
            "is" => Some(Self::Account(name, OTHER, "Change Role")),
            _ => None,
        }
    }

    fn of_thing(row: &'a Row, said: &'a str) -> Self {
        let kinds = [
            ("waits for a second person, proposal ", "proposal"),
            ("proposal ", "proposal"),
            ("token ", "token"),
            ("server ", "server"),
            ("team ", "team"),
            ("saved search ", "search"),
            ("search ", "search"),
        ];
        let found = kinds.into_iter().find_map(|(word, kind)| {
            let rest = said.strip_prefix(word)?;
            Some((word, kind, rest.split([' ', ':']).next()))
        });
        let Some((word, kind, name)) = found else {
            return Self::Thing("appliance", None, OTHER, "Administer");
        };
        let name = match kind {
            "server" => row.server.as_deref(),
            _ => name,
        };
        let made = [" made as ", "server registered"]
            .into_iter()
            .any(|made| said.contains(made));
        let (id, activity) = match word {
            "waits for a second person, proposal " => CREATE,
            "proposal " => UPDATE,
            _ if made => CREATE,
            _ if said.ends_with(" removed") => DELETE,
            _ => UPDATE,
        };
        Self::Thing(kind, name, id, activity)
    }

    fn of_policy(row: &'a Row, said: &'a str) -> Self {
        let others = ["waits for ", "proposal ", "team "];
        if others.into_iter().any(|word| said.starts_with(word)) {
            return Self::of_thing(row, said);
        }
        let (id, activity) = match said {
            "version saved" if row.policy_version == Some(1) => CREATE,
            "policy removed" => DELETE,
            _ => UPDATE,
        };
        Self::Thing("policy", row.policy.as_deref(), id, activity)
    }
}

/// Of Entity Management.
const CREATE: (u32, &str) = (1, "Create");
const UPDATE: (u32, &str) = (3, "Update");
const DELETE: (u32, &str) = (4, "Delete");
