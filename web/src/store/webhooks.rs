//! Webhooks: where people are told that something waits, and who may answer from there.
//!
//! No secret is kept here: what signs a message, and an address that is a secret itself, are files of each
//! node.

use std::{fmt, str::FromStr};

use http::Uri;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    Actor, Change, ChangeError, User,
    changes::{Outcome, missing},
    factors, name, rows,
    tables::{DatabaseError, OptionalExtension as _, Refused, Row, Transaction},
};
use crate::role::Role;

/// What a webhook is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum WebhookKind {
    /// JSON of gig's own, signed by Standard Webhooks.
    Generic,
    /// A message as Slack's incoming webhooks take it, with buttons.
    Slack,
}

/// A place that is told what waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// What it is called.
    pub name: String,
    /// What it is told.
    pub kind: WebhookKind,
    /// Where it is; empty: as a file of each node says.
    pub url: String,
    /// Who may answer from there, as it calls them; empty: nobody. `U012AB=ana`: it calls them so, who is `ana` here.
    pub answerers: Vec<String>,
    /// Those of them who are users here and write policies write rules for ever, or for all of a host, from there.
    pub rules: bool,
    /// Who set it up.
    pub author: String,
    /// When it was changed last.
    pub changed: Timestamp,
}

impl WebhookKind {
    /// The stable word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Generic => "generic",
            Self::Slack => "slack",
        }
    }
}

impl fmt::Display for WebhookKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for WebhookKind {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "generic" => Ok(Self::Generic),
            "slack" => Ok(Self::Slack),
            _ => Err("a webhook is generic or slack".to_owned()),
        }
    }
}

impl Webhook {
    /// Whether this user of it may answer.
    #[must_use]
    pub fn is_answered_by(&self, user: &str) -> bool {
        let mut all = self.answerers.iter();
        all.any(|one| there(one) == user)
    }

    /// Whether somebody of the list is called so here, in small letters.
    pub(crate) fn names(&self, here: &str) -> bool {
        let mut all = self.answerers.iter();
        all.any(|one| {
            let called = self.user_here(there(one));
            called.is_some_and(|called| name::folded(called) == here)
        })
    }

    /// Whether somebody of the list who is called so here answers whether or not they are here.
    pub(crate) fn hears_without(&self, here: &str) -> bool {
        let mut all = self.answerers.iter();
        all.any(|one| self.user_here(one) == Some(one) && name::folded(one) == here)
    }

    /// Who that user of it is called here, where they are somebody here; `None` also where they may not answer.
    #[must_use]
    pub fn user_here(&self, user: &str) -> Option<&str> {
        let all = self.answerers.iter().map(String::as_str);
        of_list(all, self.kind, user)
    }

    /// On what it depends that this user of it answers; with `rules`, writes a rule that only a user here writes.
    pub(crate) fn asks_of(&self, user: &str, rules: bool) -> Asked<'_> {
        let mut all = self.answerers.iter();
        let Some(one) = all.find(|one| there(one) == user) else {
            return Asked::Refused;
        };
        match (rules, self.rules, self.user_here(user)) {
            (true, true, Some(here)) => Asked::Writes(here),
            (true, ..) => Asked::Refused,
            // Said to be somebody here: who is taken away here is nobody there.
            (false, _, Some(here)) if one.contains('=') => Asked::IsHere(here),
            (false, ..) => Asked::Nothing,
        }
    }
}

/// On what an answer by a webhook depends, besides its list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked<'a> {
    /// They may not, whoever they are here.
    Refused,
    /// On nothing else.
    Nothing,
    /// On a user of this name being here.
    IsHere(&'a str),
    /// On that user being here and writing rules.
    Writes(&'a str),
}

impl Asked<'_> {
    /// Whose account is to be read.
    pub(crate) const fn user(&self) -> Option<&str> {
        match self {
            Self::IsHere(here) | Self::Writes(here) => Some(here),
            Self::Refused | Self::Nothing => None,
        }
    }

    /// Whether it holds: `here` is the account of that name, `factors` the roles that need a second factor.
    pub(crate) fn holds(&self, here: Option<&User>, factors: &[Role]) -> bool {
        match self {
            Self::Refused => false,
            Self::Nothing => true,
            Self::IsHere(_) => here.is_some(),
            Self::Writes(_) => here.is_some_and(|here| here.writes_rules(factors)),
        }
    }
}

/// As the webhook calls somebody of the list.
pub(crate) fn there(one: &str) -> &str {
    one.split_once('=').map_or(one, |(there, _)| there)
}

/// Who somebody of the list is here: a program calls its users as they are called here, Slack does not.
fn of_list<'a>(
    mut list: impl Iterator<Item = &'a str>,
    kind: WebhookKind,
    user: &str,
) -> Option<&'a str> {
    let one = list.find(|one| there(one) == user)?;
    match (one.split_once('='), kind) {
        (Some((_, here)), _) => Some(here),
        (None, WebhookKind::Generic) => Some(one),
        (None, WebhookKind::Slack) => None,
    }
}

/// What may be shown of an address.
pub(crate) fn place_of(url: &str) -> String {
    let parsed = url.parse::<Uri>().ok();
    let parts = parsed
        .as_ref()
        .and_then(|uri| Some((uri.scheme_str()?, uri.authority()?)));
    parts.map_or_else(String::new, |(scheme, authority)| {
        format!("{scheme}://{authority}")
    })
}

/// A change that sets one up, for the record.
pub(super) fn words(change: &Change) -> String {
    let Change::SaveWebhook {
        name,
        kind,
        url,
        answerers,
        rules,
        new: _,
    } = change
    else {
        return String::new();
    };
    let place = match place_of(url) {
        place if place.is_empty() => "as each node's file says".to_owned(),
        place => format!("at {place}"),
    };
    let by = match answerers.is_empty() {
        true => "nobody".to_owned(),
        false => answerers.join(", "),
    };
    let rules = match rules {
        true => "; those of them who write policies here write rules for ever from there",
        false => "",
    };
    format!("webhook {name}: {kind} {place}, answered by {by}{rules}")
}

/// All, by name.
pub(super) fn all(db: &Transaction<'_>) -> Result<Vec<Webhook>, DatabaseError> {
    let sql =
        "SELECT name, kind, url, answerers, author, changed, rules FROM webhooks ORDER BY name";
    db.query_all(sql, (), row)
}

/// Sets one up, or changes it.
pub(super) fn save(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome {
    let Change::SaveWebhook {
        name,
        kind,
        url,
        answerers,
        rules,
        new,
    } = change
    else {
        return Ok(());
    };
    let sql = "SELECT count(*) FROM webhooks WHERE name = ?1";
    if *new && db.query_row(sql, [name.as_str()], |row| row.get::<u32>(0))? > 0 {
        let what = format!("webhook {name}");
        return Err(Refused::Change(ChangeError::Meanwhile { what }));
    }
    let sql = "SELECT count(*) FROM webhooks WHERE name <> ?1";
    let others: u32 = db.query_row(sql, [name.as_str()], |row| row.get(0))?;
    if others >= MOST {
        let (what, most) = ("webhooks", MOST);
        return Err(Refused::Change(ChangeError::Full { what, most }));
    }
    let sql = "INSERT INTO webhooks (name, kind, url, answerers, author, changed, rules)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
               ON CONFLICT (name) DO UPDATE
               SET kind = ?2, url = ?3, answerers = ?4, author = ?5, changed = ?6, rules = ?7";
    let (kind, answerers) = (kind.as_str(), answerers.join(" "));
    let (author, now) = (&*actor.name, actor.at.as_second());
    let values = (name.as_str(), kind, url, answerers, author, now, *rules);
    db.execute(sql, values)?;
    Ok(())
}

/// Takes one away.
pub(super) fn remove(db: &Transaction<'_>, name: &str) -> Outcome {
    // Another one of this name was told nothing.
    db.execute("DELETE FROM told WHERE webhook = ?1", [name])?;
    match db.execute("DELETE FROM webhooks WHERE name = ?1", [name])? {
        0 => missing("webhook", name),
        _ => Ok(()),
    }
}

/// Whether somebody may answer from there still; with `rules`, write rules that only a user here writes.
pub(super) fn lets(
    db: &Transaction<'_>,
    webhook: &str,
    (user, rules): (&str, bool),
) -> Result<bool, DatabaseError> {
    let Some(webhook) = db.query_row(ONE, [webhook], row).optional()? else {
        return Ok(false);
    };
    let asked = webhook.asks_of(user, rules);
    let Some(here) = asked.user() else {
        return Ok(asked.holds(None, &[]));
    };
    let here = db.query_row(rows::ONE_USER, [name::folded(here)], rows::user);
    Ok(asked.holds(here.optional()?.as_ref(), &factors::rule(db)?))
}

fn row(row: &Row) -> Result<Webhook, DatabaseError> {
    let unreadable = |column: usize, why: String| DatabaseError::Unreadable { column, why };
    let (kind, answerers): (String, String) = (row.get(1)?, row.get(3)?);
    let changed = Timestamp::from_second(row.get(5)?);
    Ok(Webhook {
        name: row.get(0)?,
        kind: kind.parse().map_err(|why| unreadable(1, why))?,
        url: row.get(2)?,
        answerers: answerers.split_whitespace().map(str::to_owned).collect(),
        author: row.get(4)?,
        changed: changed.map_err(|error| unreadable(5, error.to_string()))?,
        rules: row.get(6)?,
    })
}

const ONE: &str =
    "SELECT name, kind, url, answerers, author, changed, rules FROM webhooks WHERE name = ?1";
/// Each is told of everything that waits.
const MOST: u32 = 10;
