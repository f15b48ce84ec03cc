//! Which policy is in force for whom who runs a server: one line for all who have the same.

use std::collections::BTreeSet;

use serde::Serialize;
use utoipa::ToSchema;

use super::InForce;
use crate::store::{Place, StoreError};

/// What is in force for some people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct ForWhom {
    /// Who, in small letters; empty for everybody that no other line names.
    pub(crate) people: Vec<String>,
    pub(crate) policy: String,
    /// 0 for one that denies everything.
    pub(crate) version: u64,
    /// What puts it in force: `profile ana`, `team data`, `server docs`, `all servers`.
    pub(crate) by: String,
    /// What bounds it.
    pub(crate) floors: Vec<String>,
}

impl InForce<'_> {
    /// What is in force where a server runs: for those whom something is assigned to or bounds by themselves or
    /// by a team, and for everybody else, who comes last.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn by_person(&mut self, server: &str) -> Result<Vec<ForWhom>, StoreError> {
        let mut lines: Vec<ForWhom> = Vec::new();
        for person in self.special() {
            let mut one = self.line(server, &person)?;
            let same = |known: &&mut ForWhom| {
                (&known.policy, known.version, &known.by, &known.floors)
                    == (&one.policy, one.version, &one.by, &one.floors)
            };
            match lines.iter_mut().find(same) {
                Some(known) => known.people.push(person),
                None => {
                    one.people.push(person);
                    lines.push(one);
                }
            }
        }
        // No name is empty: nobody's own, and of no team.
        let others = self.line(server, "")?;
        lines.retain(|one| {
            ForWhom {
                people: Vec::new(),
                ..one.clone()
            } != others
        });
        lines.push(others);
        Ok(lines)
    }

    /// What is in force for one person alone, without saying who else there is.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn for_one(
        &mut self,
        server: &str,
        person: &str,
    ) -> Result<Vec<ForWhom>, StoreError> {
        Ok(vec![self.line(server, person)?])
    }

    fn line(&mut self, server: &str, person: &str) -> Result<ForWhom, StoreError> {
        let ruling = self.of(server, person)?;
        let reference = ruling.policy.reference();
        Ok(ForWhom {
            people: Vec::new(),
            policy: reference.name.to_string(),
            version: reference.version,
            by: ruling.by.to_string(),
            // Also where nothing is assigned: what is to be stands under them.
            floors: self.floors_of(server, person),
        })
    }

    /// Everybody whom something is said of, alone or by a team; at most [`MOST`].
    fn special(&self) -> BTreeSet<String> {
        let said = self.assignments.iter().chain(&self.floors);
        let people = said.flat_map(|one| match &one.place {
            Place::Profile(name) => vec![name.clone()],
            Place::Team(name) => {
                let team = self.teams.iter().find(|team| team.name == *name);
                team.map(|team| team.members.clone()).unwrap_or_default()
            }
            Place::Server(_) | Place::All => Vec::new(),
        });
        let all: BTreeSet<String> = people.collect();
        all.into_iter().take(MOST).collect()
    }
}

/// More than anybody names one by one.
const MOST: usize = 2000;
