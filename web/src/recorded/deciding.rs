//! What would be in force, for a simulation: a draft in the place of a floor, a policy where it is assigned.

use gig_policy::{Attempt, Moment, Policy, Reach, Replay};

use super::{
    Simulation, Span,
    reading::{Under, read},
};
use crate::{
    api_error::Problem,
    app::App,
    document,
    in_force::{InForce, Supposed, SupposedTeam},
};

/// A document, compiled for who asks for it.
pub(super) struct Draft<'a> {
    name: &'a str,
    text: &'a str,
    external: Policy,
    local: Option<Policy>,
}

impl<'a> Draft<'a> {
    /// # Errors
    /// When the document is not valid.
    pub(super) fn of(name: &'a str, text: &'a str) -> Result<Self, Problem> {
        Ok(Self {
            name,
            text,
            external: compiled(name, text, Reach::External)?,
            local: None,
        })
    }

    pub(super) fn as_of(&mut self, reach: Reach) -> Result<Policy, Problem> {
        match (reach, &self.local) {
            (Reach::External, _) => Ok(self.external.clone()),
            (Reach::Local, Some(local)) => Ok(local.clone()),
            (Reach::Local, None) => {
                let local = compiled(self.name, self.text, reach)?;
                Ok(self.local.insert(local).clone())
            }
        }
    }
}

fn compiled(name: &str, text: &str, reach: Reach) -> Result<Policy, Problem> {
    document::compile(name, 0, text, Some(reach)).map_err(Problem::document)
}

/// Policies as they are kept.
pub(super) fn policies<'n>(
    in_force: &mut InForce<'_>,
    names: impl IntoIterator<Item = &'n String>,
    reach: Reach,
) -> Result<Vec<Policy>, Problem> {
    let names = names.into_iter();
    let read = names.map(|name| in_force.read_policy(name.clone(), reach));
    read.collect::<Result<_, _>>().map_err(Problem::internal)
}

/// A draft of a floor, beneath which each server's own policy decides; beside it what `newest` does already.
pub(super) fn of_floor(
    app: &App,
    (draft, mut newest): (&mut Draft<'_>, Option<Draft<'_>>),
    span: Span,
    now: Moment,
) -> Result<Simulation, Problem> {
    let name = draft.name.to_owned();
    let chosen = span.server.is_some();
    // What it let pass bears the name of the policy beneath it.
    let span = Span {
        policy: None,
        ..span
    };
    let whom = |in_force: &InForce<'_>, server: &str, profile: &str| {
        if !in_force.knows(server) {
            return None;
        }
        let mut under = Under::with_policy(in_force, server, profile);
        let is_own = under.policy.as_ref() == Some(&name);
        let bounds = under.floors.contains(&name);
        if !bounds && !is_own {
            // Only the server that was asked for is tried under it.
            if !chosen {
                return None;
            }
            under.floors.push(name.clone());
        }
        Some(under)
    };
    let read = read(app, &span, &whom)?;
    let mut in_force = InForce::read(app.store.as_ref()).map_err(Problem::internal)?;
    let (mut replay, mut already) = (Replay::default(), Replay::default());
    for (under, traffic) in &read.groups {
        let attempts = &traffic.attempts;
        if let Some(newest) = &mut newest {
            already = already.and(as_floor(newest, &mut in_force, under, attempts, now)?);
        }
        replay = replay.and(as_floor(draft, &mut in_force, under, attempts, now)?);
    }
    Ok(Simulation::of(replay, &read).beside(&already))
}

/// What a draft decides of these attempts in the place of the floor whose name it has.
fn as_floor(
    draft: &mut Draft<'_>,
    in_force: &mut InForce<'_>,
    under: &Under,
    attempts: &[Attempt],
    now: Moment,
) -> Result<Replay, Problem> {
    let name = draft.name;
    let reach = under.reach();
    let others = under.floors.iter().filter(|floor| *floor != name);
    let others = policies(in_force, others, reach)?;
    let floor = draft.as_of(reach)?;
    if under.policy.as_deref() == Some(name) {
        return Ok(floor.under(others).as_of(now).replay(attempts));
    }
    let own = own(in_force, under)?;
    let without = own.under(others.clone()).as_of(now);
    let with = own.under(others.into_iter().chain([floor]).collect());
    Ok(with.as_of(now).replay_beneath(&without, attempts))
}

/// What is put in force somewhere, or taken out, over the traffic of whom it concerns.
pub(super) fn of_place(
    app: &App,
    supposed: &Supposed,
    days: u16,
    now: Moment,
) -> Result<Simulation, Problem> {
    let span = Span {
        days,
        policy: None,
        server: supposed.place.server().map(str::to_owned),
        sandbox: None,
    };
    let mut after = InForce::read(app.store.as_ref()).map_err(Problem::internal)?;
    after.suppose(supposed);
    let whom = |in_force: &InForce<'_>, server: &str, profile: &str| {
        let concerned = [in_force, &after]
            .iter()
            .any(|known| known.concerns(supposed, server, profile));
        let known = in_force.knows(server) && concerned;
        known.then(|| Under::with_policy(&after, server, profile))
    };
    let read = read(app, &span, &whom)?;
    let mut replay = Replay::default();
    for (under, traffic) in &read.groups {
        let own = own(&mut after, under)?;
        let reach = under.reach();
        let floors = policies(&mut after, &under.floors, reach)?;
        let with = own.under(floors).as_of(now);
        let floor = supposed.policy.as_ref().filter(|_| supposed.is_floor);
        let done = match floor {
            Some(floor) => {
                let others = under.floors.iter().filter(|one| *one != floor);
                let others = policies(&mut after, others, reach)?;
                let without = own.under(others).as_of(now);
                with.replay_beneath(&without, &traffic.attempts)
            }
            None => with.replay(&traffic.attempts),
        };
        replay = replay.and(done);
    }
    Ok(Simulation::of(replay, &read))
}

/// Other members of a team, over the traffic of those for whom that puts something else in force.
pub(super) fn of_team(
    app: &App,
    supposed: &SupposedTeam,
    days: u16,
    now: Moment,
) -> Result<Simulation, Problem> {
    let span = Span {
        days,
        ..Span::default()
    };
    let mut after = InForce::read(app.store.as_ref()).map_err(Problem::internal)?;
    after.suppose_team(supposed);
    let whom = |in_force: &InForce<'_>, server: &str, profile: &str| {
        let then = Under::with_policy(&after, server, profile);
        let now = Under::with_policy(in_force, server, profile);
        let concerned = in_force.knows(server) && then != now;
        concerned.then(|| Under {
            now: Some(Box::new(now)),
            ..then
        })
    };
    let read = read(app, &span, &whom)?;
    let mut replay = Replay::default();
    for (under, traffic) in &read.groups {
        let with = bounded(&mut after, under)?.as_of(now);
        // What is denied now by what is in force is not the change's doing.
        let done = match &under.now {
            Some(before) => {
                let without = bounded(&mut after, before)?.as_of(now);
                with.replay_beneath(&without, &traffic.attempts)
            }
            None => with.replay(&traffic.attempts),
        };
        replay = replay.and(done);
    }
    Ok(Simulation::of(replay, &read))
}

/// What is assigned, under its floors.
fn bounded(in_force: &mut InForce<'_>, under: &Under) -> Result<Policy, Problem> {
    let own = own(in_force, under)?;
    let floors = policies(in_force, &under.floors, under.reach())?;
    Ok(own.under(floors))
}

/// What is assigned; nothing denies all.
fn own(in_force: &mut InForce<'_>, under: &Under) -> Result<Policy, Problem> {
    match &under.policy {
        Some(name) => {
            let own = in_force.read_policy(name.clone(), under.reach());
            own.map_err(Problem::internal)
        }
        None => Ok(Policy::deny_all("nothing assigned")),
    }
}

#[cfg(test)]
mod tests;
