//! Which policy is in force for which server and person, as the store says it, and putting it so in what runs.
//!
//! The most specific assignment wins: the person's own, else that of their teams, else the server's, else that
//! of all, else one that denies everything. Then every floor bounds it that is of the person, of a team of
//! theirs, of the server or of all; one that is gone or cannot be read allows nothing. Teams of one person that
//! disagree are refused where somebody would make them so; found all the same, they deny everything. So does a
//! document that this gig cannot read, and a server that was removed: its sandboxes get nothing of what is
//! meant for all others while they end. What is asked for many at once is read once, and where the store fails
//! nothing more is asked of it: each question could wait as long again.

use std::{
    collections::{BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use gig_policy::{Policy, Reach};
use jiff::Timestamp;

use crate::{
    control::{Control, Ruling},
    document::compile,
    store::{Assignment, Network, Place, PolicyVersion, Store, StoreError, Team, folded},
};

mod for_whom;
mod stands;

pub(crate) use for_whom::ForWhom;
pub(crate) use stands::Stands;

/// What the store says, read as it is asked for.
pub(crate) struct InForce<'a> {
    store: &'a dyn Store,
    servers: HashMap<String, Network>,
    assignments: Vec<Assignment>,
    floors: Vec<Assignment>,
    teams: Vec<Team>,
    kept: HashMap<String, Option<PolicyVersion>>,
    compiled: HashMap<(String, Reach), Policy>,
}

/// Another policy somewhere, or none, than the store says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Supposed {
    /// Where.
    pub(crate) place: Place,
    /// Which; `None` takes out what is there.
    pub(crate) policy: Option<String>,
    /// As what bounds it, not as what is assigned.
    pub(crate) is_floor: bool,
}

/// Other members of a team than the store says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SupposedTeam {
    /// Its name; one that is not there yet, too.
    pub(crate) name: String,
    /// As [`crate::store::members`] has them.
    pub(crate) members: Vec<String>,
}

/// What is assigned to somebody.
enum Assigned<'a> {
    /// This, by its place.
    One(&'a Assignment),
    /// Nothing.
    Nothing,
    /// Their teams disagree.
    Ambiguous,
}

impl<'a> InForce<'a> {
    /// Reads who is registered and what is assigned to whom.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn read(store: &'a dyn Store) -> Result<Self, StoreError> {
        let placed = store.placed()?;
        let servers = placed.servers.into_iter();
        Ok(Self {
            servers: servers
                .map(|server| (server.name, server.spec.network))
                .collect(),
            assignments: placed.assignments,
            floors: placed.floors,
            teams: placed.teams,
            store,
            kept: HashMap::new(),
            compiled: HashMap::new(),
        })
    }

    /// Whether a server is registered.
    pub(crate) fn knows(&self, server: &str) -> bool {
        self.servers.contains_key(server)
    }

    /// What is assigned to a server when it runs for this profile.
    pub(crate) fn name_for(&self, server: &str, profile: &str) -> Option<String> {
        match self.assigned(server, profile) {
            Assigned::One(one) => Some(one.policy.clone()),
            Assigned::Nothing | Assigned::Ambiguous => None,
        }
    }

    /// Goes on as if this were so.
    pub(crate) fn suppose(&mut self, supposed: &Supposed) {
        let all = match supposed.is_floor {
            true => &mut self.floors,
            false => &mut self.assignments,
        };
        all.retain(|one| one.place != supposed.place);
        all.extend(supposed.policy.clone().map(|policy| Assignment {
            place: supposed.place.clone(),
            policy,
        }));
    }

    /// Goes on as if these were of the team.
    pub(crate) fn suppose_team(&mut self, supposed: &SupposedTeam) {
        self.teams.retain(|team| team.name != supposed.name);
        self.teams.push(Team {
            name: supposed.name.clone(),
            members: supposed.members.clone(),
            author: String::new(),
            changed: Timestamp::UNIX_EPOCH,
        });
    }

    /// Whether a server that runs for a profile is under what stands in that place.
    pub(crate) fn concerns(&self, supposed: &Supposed, server: &str, profile: &str) -> bool {
        let place = &supposed.place;
        if supposed.is_floor {
            return self.bounds(place, server, profile);
        }
        match self.assigned(server, profile) {
            Assigned::One(one) => one.place == *place,
            Assigned::Ambiguous => {
                matches!(place, Place::Team(_)) && self.bounds(place, server, profile)
            }
            Assigned::Nothing => false,
        }
    }

    /// What stands in a place by itself.
    pub(crate) fn at(&self, place: &Place, is_floor: bool) -> Option<String> {
        let mut all = match is_floor {
            true => self.floors.iter(),
            false => self.assignments.iter(),
        };
        all.find(|one| one.place == *place)
            .map(|one| one.policy.clone())
    }

    /// Whether a policy is in force for this server by its own assignment, and nowhere else.
    pub(crate) fn is_only_of(&self, policy: &str, server: &str) -> bool {
        let mut floors = self.floors.iter();
        let mut assigned = self.assignments.iter().filter(|one| one.policy == policy);
        let own = |one: &Assignment| one.place.server() == Some(server);
        !floors.any(|one| one.policy == policy) && assigned.all(own)
    }

    /// For which teams and people a policy is in force, in words.
    pub(crate) fn people_of(&self, policy: &str) -> Vec<String> {
        let people = self.assignments.iter().filter(|one| {
            let people = matches!(one.place, Place::Profile(_) | Place::Team(_));
            people && one.policy == policy
        });
        people.map(|one| one.place.to_string()).collect()
    }

    /// Whether it is assigned to all servers that have none of their own.
    pub(crate) fn is_for_all(&self, policy: &str) -> bool {
        let mut all = self.assignments.iter();
        all.any(|one| one.place == Place::All && one.policy == policy)
    }

    /// Whether it is the floor of all servers.
    pub(crate) fn bounds_all(&self, policy: &str) -> bool {
        let mut all = self.floors.iter();
        all.any(|one| one.place == Place::All && one.policy == policy)
    }

    /// Whom a policy bounds as a floor, in words.
    pub(crate) fn bounded_by(&self, policy: &str) -> Vec<String> {
        let floors = self.floors.iter().filter(|one| one.policy == policy);
        floors.map(|one| one.place.to_string()).collect()
    }

    /// The policy in force for `server` when it runs for `profile`; each version is read and compiled once.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn of(&mut self, server: &str, profile: &str) -> Result<Ruling, StoreError> {
        let Some(network) = self.servers.get(server) else {
            return Ok(Ruling::denying("no longer registered"));
        };
        let reach = match network {
            Network::Local => Reach::Local,
            Network::External | Network::Disconnected => Reach::External,
        };
        let (name, by) = match self.assigned(server, profile) {
            Assigned::One(one) => (one.policy.clone(), one.place.to_string()),
            Assigned::Nothing => return Ok(Ruling::denying("nothing assigned")),
            Assigned::Ambiguous => return Ok(Ruling::denying("teams disagree")),
        };
        let floors: Vec<String> = self.floors_of(server, profile);
        let policy = self.read_policy(name, reach)?;
        let above = floors.into_iter().map(|name| self.read_policy(name, reach));
        Ok(Ruling {
            policy: policy.under(above.collect::<Result<_, _>>()?),
            by: by.into(),
        })
    }

    fn assigned(&self, server: &str, profile: &str) -> Assigned<'_> {
        let at = |place: &Place| self.assignments.iter().find(|one| one.place == *place);
        if let Some(own) = at(&Place::profile(profile)) {
            return Assigned::One(own);
        }
        let teams = self.teams_of(profile).into_iter();
        let mut theirs = teams.filter_map(|name| at(&Place::Team(name.to_owned())));
        if let Some(first) = theirs.next() {
            return match theirs.all(|other| other.policy == first.policy) {
                true => Assigned::One(first),
                false => Assigned::Ambiguous,
            };
        }
        let found = at(&Place::Server(server.to_owned())).or_else(|| at(&Place::All));
        found.map_or(Assigned::Nothing, Assigned::One)
    }

    /// Whether a server reaches private addresses and nothing else.
    pub(crate) fn is_local(&self, server: &str) -> bool {
        matches!(self.servers.get(server), Some(Network::Local))
    }

    /// The names of all floors, wherever they are.
    pub(crate) fn all_floors(&self) -> impl Iterator<Item = String> {
        self.floors.iter().map(|one| one.policy.clone())
    }

    /// What bounds a server when it runs for a profile: each once, whichever of their places it bounds.
    pub(crate) fn floors_of(&self, server: &str, profile: &str) -> Vec<String> {
        let mut seen = HashSet::new();
        let floors = self.floors.iter();
        let floors = floors.filter(|one| self.bounds(&one.place, server, profile));
        let floors = floors.filter(|one| seen.insert(one.policy.as_str()));
        floors.map(|one| one.policy.clone()).collect()
    }

    /// Whether a place has a server in it when that runs for a profile.
    fn bounds(&self, place: &Place, server: &str, profile: &str) -> bool {
        match place {
            Place::All => true,
            Place::Server(name) => name == server,
            Place::Team(name) => self.teams_of(profile).contains(name.as_str()),
            Place::Profile(name) => *name == folded(profile),
        }
    }

    fn teams_of(&self, profile: &str) -> BTreeSet<&str> {
        let person = folded(profile);
        let theirs = self
            .teams
            .iter()
            .filter(|team| team.members.contains(&person));
        theirs.map(|team| team.name.as_str()).collect()
    }

    /// One policy by itself; what cannot be compiled denies all.
    pub(crate) fn read_policy(&mut self, name: String, reach: Reach) -> Result<Policy, StoreError> {
        let key = (name.clone(), reach);
        if let Some(policy) = self.compiled.get(&key) {
            return Ok(policy.clone());
        }
        let kept = match self.kept.entry(name.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(self.store.policy(&name, None)?),
        };
        let policy = read_as(&name, kept.as_ref(), reach);
        self.compiled.insert(key, policy.clone());
        Ok(policy)
    }
}

/// The policy in force for `server` when it runs for `profile`, and what put it there.
///
/// # Errors
/// When the store cannot be read.
pub fn effective(store: &dyn Store, server: &str, profile: &str) -> Result<Ruling, StoreError> {
    InForce::read(store)?.of(server, profile)
}

fn read_as(name: &str, kept: Option<&PolicyVersion>, reach: Reach) -> Policy {
    let Some(kept) = kept else {
        return Policy::deny_all(name);
    };
    let compiled = compile(name, kept.head.version, &kept.document, Some(reach));
    compiled.unwrap_or_else(|problems| {
        let problem = problems.first().map(|problem| problem.message.as_str());
        tracing::error!(
            policy = name,
            problem,
            "a stored policy is not valid: it denies all"
        );
        Policy::deny_all(name)
    })
}

/// Puts what the store says in force in every sandbox that runs. Where the store cannot say, nothing is
/// allowed any more: what was before is what the change may have been made against. `None` when it could
/// not say for all of them, else what it said.
pub(crate) fn decide_again<'a>(store: &'a dyn Store, control: &dyn Control) -> Option<InForce<'a>> {
    let running = control.sandboxes().into_iter();
    let running = running.filter(|sandbox| sandbox.ended.is_none());
    let pairs: BTreeSet<(Arc<str>, Arc<str>)> = running
        .map(|sandbox| (sandbox.server, sandbox.profile))
        .collect();
    let mut said = InForce::read(store);
    for (server, profile) in pairs {
        let ruling = match &mut said {
            Ok(known) => known.of(&server, &profile),
            Err(_) => Ok(Ruling::denying(UNREADABLE)),
        };
        let ruling = ruling.unwrap_or_else(|error| {
            said = Err(error);
            Ruling::denying(UNREADABLE)
        });
        control.set_policy(&server, &profile, ruling);
    }
    match said {
        Ok(known) => Some(known),
        Err(error) => {
            tracing::error!(%error, "policies cannot be read: what asks for them is denied everything");
            None
        }
    }
}

/// Ends what runs of servers that are no longer registered.
pub(crate) fn end_unknown(said: &InForce<'_>, control: &dyn Control) {
    for sandbox in control.sandboxes() {
        if sandbox.ended.is_none() && !said.knows(&sandbox.server) {
            // One that ends by itself at this moment is what was wanted.
            let _ended = control.stop(sandbox.id);
        }
    }
}

/// What the record and the answer to a denied request name as the policy.
const UNREADABLE: &str = "policy not readable";

#[cfg(test)]
mod tests;
