//! Teams as statements: who is of which, and that nobody is of two that disagree about what is in force.
//!
//! Names of members are in small letters: two spellings are one person. What a team's tag is made of is all
//! that anybody sees of it, so that whoever builds a change on it has seen it.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{
    Actor, Applied, Change, ChangeError, Name, Place,
    changes::{self, Outcome},
    folded, rows,
    tables::{DatabaseError, OptionalExtension as _, Refused, Transaction},
};
use crate::credential::Digest;

/// Some people, to whom a policy is assigned together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Team {
    /// Its name.
    pub name: String,
    /// Profiles, in small letters and in order.
    pub members: Vec<String>,
    /// Who changed it last.
    pub author: String,
    /// When.
    pub changed: Timestamp,
}

impl Team {
    /// Of what is there: another one for other members.
    #[must_use]
    pub fn tag(&self) -> String {
        Digest::of(&self.members.join(" ")).words()
    }
}

/// Members as they are kept: small letters, in order, each once.
#[must_use]
pub fn members<'a>(names: impl IntoIterator<Item = &'a Name>) -> Vec<String> {
    let mut all: Vec<String> = names
        .into_iter()
        .map(|name| folded(name.as_str()))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// All of them, by name.
pub(super) fn all(db: &Transaction<'_>) -> Result<Vec<Team>, DatabaseError> {
    let sql = "SELECT name, author, changed FROM teams ORDER BY name";
    let mut teams = db.query_all(sql, (), |row| {
        Ok(Team {
            name: row.get(0)?,
            members: Vec::new(),
            author: row.get(1)?,
            changed: rows::time(row, 2)?,
        })
    })?;
    let sql = "SELECT team, person FROM team_members ORDER BY team, person";
    let members = db.query_all(sql, (), |row| {
        Ok((row.get::<String>(0)?, row.get::<String>(1)?))
    })?;
    let mut of: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (team, person) in members {
        of.entry(team).or_default().push(person);
    }
    for team in &mut teams {
        team.members = of.remove(&team.name).unwrap_or_default();
    }
    Ok(teams)
}

/// One of them.
pub(super) fn one(db: &Transaction<'_>, name: &str) -> Result<Option<Team>, DatabaseError> {
    Ok(all(db)?.into_iter().find(|team| team.name == name))
}

/// Changes one.
pub(super) fn change(db: &Transaction<'_>, change: &Change, actor: &Actor) -> Outcome<Applied> {
    match change {
        Change::SaveTeam {
            name,
            members,
            expected,
        } => save(db, (name.as_str(), members), expected.as_deref(), actor),
        Change::RemoveTeam { name, expected } => {
            let team = remove(db, name, expected.as_deref())?;
            Ok(Applied {
                members: Some(team.members),
                ..Applied::default()
            })
        }
        _ => Ok(Applied::default()),
    }
}

/// Makes a team, or gives it other members.
fn save(
    db: &Transaction<'_>,
    (name, members): (&str, &[String]),
    expected: Option<&str>,
    actor: &Actor,
) -> Outcome<Applied> {
    let there = built_on(db, name, expected)?;
    if there.is_none() {
        let sql = "SELECT count(*) FROM teams";
        let kept: i64 = db.query_row(sql, (), |row| row.get(0))?;
        room(kept, ("teams", MOST))?;
    }
    room(
        i64::try_from(members.len()).unwrap_or(i64::MAX) - 1,
        ("members", MOST_MEMBERS),
    )?;
    let sql = "INSERT INTO teams (name, author, changed) VALUES (?1, ?2, ?3)
               ON CONFLICT (name) DO UPDATE SET author = ?2, changed = ?3";
    db.execute(sql, (name, &*actor.name, actor.at.as_second()))?;
    db.execute("DELETE FROM team_members WHERE team = ?1", [name])?;
    for person in members {
        let sql = "INSERT INTO team_members (team, person) VALUES (?1, ?2)";
        db.execute(sql, (name, person))?;
    }
    unambiguous(db)?;
    Ok(Applied {
        members: there.map(|team| team.members),
        ..Applied::default()
    })
}

/// Removes one to which nothing is assigned.
fn remove(db: &Transaction<'_>, name: &str, expected: Option<&str>) -> Outcome<Team> {
    let Some(team) = built_on(db, name, expected)? else {
        return changes::missing("team", name);
    };
    for (table, what) in [("assignments", "policy"), ("floors", "floor")] {
        let sql = format!("SELECT policy FROM {table} WHERE scope = 'team' AND subject = ?1");
        let used = db.query_row(&sql, [name], |row| row.get::<String>(0));
        if let Some(policy) = used.optional()? {
            return Err(Refused::Change(ChangeError::InUse {
                what: "team",
                name: team.name,
                user: format!("its {what} {policy}"),
            }));
        }
    }
    db.execute("DELETE FROM teams WHERE name = ?1", [name])?;
    Ok(team)
}

/// Puts somebody into the teams of which it is said, and takes them out of the others that are named; teams that
/// are not named are left as they are. What came of it, in words.
pub(super) fn belong(
    db: &Transaction<'_>,
    person: &str,
    named: &[(String, bool)],
) -> Outcome<Vec<String>> {
    let person = folded(person);
    let mut changes = Vec::new();
    for (team, belongs) in named {
        let is_there = db.query_row("SELECT 1 FROM teams WHERE name = ?1", [team], |row| {
            row.get::<i64>(0)
        });
        if is_there.optional()?.is_none() {
            // Made later, it has them from their next sign-in on.
            if *belongs {
                changes.push(format!("not added to team {team}, which is not there"));
            }
            continue;
        }
        let changed = match belongs {
            true => {
                let sql = "SELECT count(*) FROM team_members WHERE team = ?1 AND person <> ?2";
                let others = db.query_row(sql, (team, &person), |row| row.get(0))?;
                room(others, ("members", MOST_MEMBERS))?;
                let sql = "INSERT INTO team_members (team, person) VALUES (?1, ?2)
                           ON CONFLICT DO NOTHING";
                db.execute(sql, (team, &person))?
            }
            false => {
                let sql = "DELETE FROM team_members WHERE team = ?1 AND person = ?2";
                db.execute(sql, (team, &person))?
            }
        };
        if changed > 0 {
            let word = if *belongs { "added to" } else { "taken out of" };
            changes.push(format!("{word} team {team}, as the provider says"));
        }
    }
    unambiguous(db)?;
    Ok(changes)
}

/// Refuses what puts somebody into two teams of different policies: nobody could say which is in force.
pub(super) fn unambiguous(db: &Transaction<'_>) -> Outcome {
    let sql = "SELECT m.person, min(a.policy), max(a.policy) FROM team_members m
               JOIN assignments a ON a.scope = 'team' AND a.subject = m.team
               GROUP BY m.person HAVING min(a.policy) <> max(a.policy) ORDER BY m.person LIMIT 1";
    let found = db.query_row(sql, (), |row| {
        Ok(ChangeError::Ambiguous {
            person: row.get(0)?,
            policies: [row.get(1)?, row.get(2)?],
        })
    });
    found
        .optional()?
        .map_or(Ok(()), |error| Err(Refused::Change(error)))
}

/// Whether a place is one where something can be assigned.
pub(super) fn is_there(db: &Transaction<'_>, place: &Place) -> Outcome {
    let (sql, what, name) = match place {
        Place::Server(name) => ("SELECT 1 FROM servers WHERE name = ?1", "server", name),
        Place::Team(name) => ("SELECT 1 FROM teams WHERE name = ?1", "team", name),
        // A gateway knows people whom gig does not; their names are names all the same.
        Place::Profile(name) if name.parse::<Name>().is_err() => {
            return changes::missing("person", name);
        }
        Place::Profile(_) => return Ok(()),
        Place::All => return Ok(()),
    };
    changes::there(db, sql, what, name)
}

/// What is there; refuses what is built on something else.
fn built_on(db: &Transaction<'_>, name: &str, expected: Option<&str>) -> Outcome<Option<Team>> {
    let there = one(db, name)?;
    let tag = there.as_ref().map(Team::tag).unwrap_or_default();
    match expected {
        Some(expected) if expected != tag => {
            let what = format!("team {name}");
            Err(Refused::Change(ChangeError::Meanwhile { what }))
        }
        _ => Ok(there),
    }
}

fn room(kept: i64, (what, most): (&'static str, u32)) -> Outcome {
    if kept < i64::from(most) {
        return Ok(());
    }
    Err(Refused::Change(ChangeError::Full { what, most }))
}

/// As many as a page lists.
const MOST: u32 = 200;
/// Of one team.
const MOST_MEMBERS: u32 = 1000;
