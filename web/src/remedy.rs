//! Where the rule goes that lets a denied record pass: into the policy that is in force for its server and
//! profile now, whatever denied it then; where nothing is in force, into a new one that is put in force with it.
//!
//! Whether it would still be denied is asked of the code that enforces.

use std::collections::{BTreeSet, HashMap};

use gig_audit::row::Row;
use gig_policy::{AppProtocol, Asked, Denial, Host, Mode, Moment, Policy, Port, Reach};
use thiserror::Error;

use crate::{
    allow::{address, can_be_allowed},
    api::policies::policy_name,
    in_force::InForce,
    store::{Store, StoreError},
};

/// The policy that a rule is written into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Remedy {
    /// Its name; of a new one where `assign` says so.
    pub(crate) policy: String,
    /// The server for which it is put in force by the same change.
    pub(crate) assign: Option<String>,
}

/// Why no rule can be written, in the same words wherever one is asked for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum NoRule {
    /// It passes now.
    #[error("there is no rule to write: it is not denied any more")]
    Passes,
    /// It passes now, by a rule that ends, its policy's or a floor's.
    #[error(
        "there is no rule to write now: it is not denied until {0}, when a rule that allows it ends; one that lasts can be \
         asked for where that is its policy's own, and not where it is a floor's"
    )]
    PassesUntil(Moment),
    /// What bounds every policy beneath it.
    #[error(
        "there is no rule to write: the floor {0} denies it, and no policy beneath it can allow it; whoever may set \
         floors opens it there"
    )]
    Floor(String),
    /// It was a theft, or looked like one: no button lets a secret out.
    #[error(
        "there is no rule to write by a button: a secret was on its way to where it may not go; where it belongs \
         there, whoever manages secrets names it under `secrets` of the host's rule, in the policy's editor"
    )]
    Secret,
    /// Nothing opens it, or nobody knows any more whose it was.
    #[error(
        "there is no rule to write: no rule can open it, or neither its server nor its policy is there any more"
    )]
    Unopenable,
}

/// What lets a record pass now that was denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Passing {
    /// The policy that is in force.
    pub(crate) policy: String,
    /// Its version.
    pub(crate) version: u64,
    /// `egress[1]`.
    pub(crate) rule: String,
    /// When it is denied again; `None` where that is never.
    pub(crate) until: Option<Moment>,
}

/// What is in force for each server that is asked for, read once, as of now.
pub(crate) struct Remedies<'a> {
    store: &'a dyn Store,
    in_force: InForce<'a>,
    now: Moment,
    known: HashMap<(String, String), (Policy, Remedy)>,
    names: Option<BTreeSet<String>>,
}

impl<'a> Remedies<'a> {
    /// Reads who is registered and what is assigned.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn read(store: &'a dyn Store, now: Moment) -> Result<Self, StoreError> {
        Ok(Self {
            store,
            in_force: InForce::read(store)?,
            now,
            known: HashMap::new(),
            names: None,
        })
    }

    /// Where a rule for this server and profile goes; `None` where it is not registered.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn place(
        &mut self,
        server: &str,
        profile: &str,
    ) -> Result<Option<Remedy>, StoreError> {
        if !self.in_force.knows(server) {
            return Ok(None);
        }
        Ok(Some(self.known(server, profile)?.1.clone()))
    }

    /// Where a document for this server alone goes: into the policy that is in force for it and nobody else, or into a
    /// new one. That is put in force with it unless something more specific than the server says what is.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn alone(
        &mut self,
        server: &str,
        profile: &str,
    ) -> Result<Option<Remedy>, StoreError> {
        let Some(place) = self.place(server, profile)? else {
            return Ok(None);
        };
        let is_its_own = self.in_force.is_only_of(&place.policy, server);
        if place.assign.is_some() || is_its_own {
            return Ok(Some(place));
        }
        let by_server = self.in_force.name_for(server, "").as_ref() == Some(&place.policy);
        Ok(Some(Remedy {
            policy: self.free_name(server)?,
            assign: Some(server.to_owned()).filter(|_| by_server),
        }))
    }

    /// Whether what a record asked for is denied to this server now, and by no floor: what a floor denies
    /// no rule beneath it allows.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn denies(&mut self, server: &str, row: &Row) -> Result<bool, StoreError> {
        Ok(denies(&self.known(server, profile_of(row))?.0, row))
    }

    /// Where the rule goes that lets this record pass; `None` where none could, or nothing denies it now.
    /// What a server left that is gone goes where it was decided.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn of(&mut self, row: &Row) -> Result<Option<Remedy>, StoreError> {
        if !can_be_allowed(row) {
            return Ok(None);
        }
        let server = row.server.as_deref();
        if let Some(server) = server.filter(|server| self.in_force.knows(server)) {
            return match self.denies(server, row)? {
                true => self.place(server, profile_of(row)),
                false => Ok(None),
            };
        }
        let decided = row.policy.clone().filter(|_| row.policy_version > Some(0));
        let Some(policy) = decided else {
            return Ok(None);
        };
        let kept = self.store.policy(&policy, None)?;
        let assign = None;
        Ok(kept.map(|_| Remedy { policy, assign }))
    }

    /// Where the rule goes that lets a record's request pass for good, where what lets it now ends; as
    /// [`of`](Self::of), `None` where nothing is to be written.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn for_ever(&mut self, row: &Row) -> Result<Option<Remedy>, StoreError> {
        if let Some(remedy) = self.of(row)? {
            return Ok(Some(remedy));
        }
        let (true, Some(server)) = (self.passes(row)?.is_some(), row.server.as_deref()) else {
            return Ok(None);
        };
        // Its own rule: what a floor ends no rule beneath it keeps.
        let now = self.now;
        let own = self.known(server, profile_of(row))?.0.under(Vec::new());
        match ends(&own, row, now) {
            Some(_) => self.place(server, profile_of(row)),
            None => Ok(None),
        }
    }

    /// The rule by which what was denied passes now; `None` where none lets it. Limits and secrets take no part.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn passes(&mut self, row: &Row) -> Result<Option<Passing>, StoreError> {
        let server = row.server.as_deref();
        let Some(server) = server.filter(|server| self.in_force.knows(server)) else {
            return Ok(None);
        };
        let Some(asked) = asked(row).filter(|_| can_be_allowed(row)) else {
            return Ok(None);
        };
        let now = self.now;
        let policy = &self.known(server, profile_of(row))?.0;
        let rule = policy.covers(&asked, address(row)).ok().flatten();
        let reference = policy.reference();
        Ok(rule.map(|rule| Passing {
            policy: reference.name.to_string(),
            version: reference.version,
            rule: rule.to_string(),
            until: ends(policy, row, now),
        }))
    }

    /// The floor that denies what a record asked for now, if one does: no rule beneath it allows that.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn floor(&mut self, row: &Row) -> Result<Option<String>, StoreError> {
        let server = row.server.as_deref();
        let Some(server) = server.filter(|server| self.in_force.knows(server)) else {
            return Ok(None);
        };
        if !can_be_allowed(row) {
            return Ok(None);
        }
        let denial = denial(&self.known(server, profile_of(row))?.0, row);
        Ok(denial
            .filter(|denial| denial.floor)
            .map(|denial| denial.policy.name.to_string()))
    }

    /// Every document that denies what a record asked for now, so that each has to allow it: what is assigned first, then
    /// what bounds it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn levels(&mut self, row: &Row) -> Result<Vec<String>, StoreError> {
        let (server, profile) = (row.server.as_deref().unwrap_or_default(), profile_of(row));
        let assigned = self.in_force.name_for(server, profile);
        let Some(assigned) = assigned.filter(|_| can_be_allowed(row)) else {
            return Ok(Vec::new());
        };
        let reach = match self.in_force.is_local(server) {
            true => Reach::Local,
            false => Reach::External,
        };
        let mut names = vec![assigned];
        names.extend(self.in_force.floors_of(server, profile));
        let mut denying: Vec<String> = Vec::new();
        for name in names {
            let policy = self.in_force.read_policy(name.clone(), reach)?;
            let policy = policy.as_of(self.now);
            // One that observes lets pass and bounds nothing.
            let denies = policy.mode() == Mode::Enforce && denial(&policy, row).is_some();
            if denies && !denying.contains(&name) {
                denying.push(name);
            }
        }
        Ok(denying)
    }

    /// Why [`of`](Self::of) finds nowhere to write a rule.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn why_none(&mut self, row: &Row) -> Result<NoRule, StoreError> {
        let server = row.server.as_deref().unwrap_or_default();
        if !can_be_allowed(row) || !self.in_force.knows(server) {
            return Ok(match row.reason.as_deref() {
                Some("secret_misuse") => NoRule::Secret,
                _ => NoRule::Unopenable,
            });
        }
        Ok(match self.floor(row)? {
            Some(floor) => NoRule::Floor(floor),
            None => match self.passes(row)?.and_then(|passing| passing.until) {
                Some(end) => NoRule::PassesUntil(end),
                None => NoRule::Passes,
            },
        })
    }

    fn known(&mut self, server: &str, profile: &str) -> Result<&(Policy, Remedy), StoreError> {
        let pair = (server.to_owned(), profile.to_owned());
        if !self.known.contains_key(&pair) {
            let policy = self.in_force.of(server, profile)?.policy.as_of(self.now);
            let remedy = match self.in_force.name_for(server, profile) {
                Some(policy) => Remedy {
                    policy,
                    assign: None,
                },
                None => Remedy {
                    policy: self.free_name(server)?,
                    assign: Some(server.to_owned()),
                },
            };
            self.known.insert(pair.clone(), (policy, remedy));
        }
        self.known.get(&pair).ok_or_else(|| StoreError {
            attempted: "read",
            place: "what is in force".into(),
            source: "a server is not known".into(),
        })
    }

    /// The server's own name, unless another policy has it: what that one allows was not asked for.
    fn free_name(&mut self, server: &str) -> Result<String, StoreError> {
        if self.names.is_none() {
            let heads = self.store.policies()?.into_iter();
            self.names = Some(heads.map(|head| head.name).collect());
        }
        let taken = self.names.as_ref();
        let is_free = |name: &String| {
            policy_name(name).is_ok() && taken.is_none_or(|taken| !taken.contains(name))
        };
        let short: String = server.chars().take(LONGEST_STEM).collect();
        let others = (2..MOST_NAMES).map(|number| format!("{short}-{number}"));
        let mut names = std::iter::once(server.to_owned()).chain(others);
        Ok(names.find(is_free).unwrap_or_else(|| server.to_owned()))
    }
}

/// Whose it was; of what was recorded before it said so, nobody's.
pub(crate) fn profile_of(row: &Row) -> &str {
    row.profile.as_deref().unwrap_or_default()
}

/// Whether a policy denies it, too, and no floor does.
fn denies(policy: &Policy, row: &Row) -> bool {
    denial(policy, row).is_some_and(|denial| !denial.floor)
}

/// How a policy denies it now, at the address that it was found at.
fn denial(policy: &Policy, row: &Row) -> Option<Box<Denial>> {
    policy.covers(&asked(row)?, address(row)).err()
}

/// When what passes under a policy is denied again: a rule ends then, its own or a floor's, and no other lets it pass. An
/// end opens nothing, so that what is denied once is denied from then on.
fn ends(policy: &Policy, row: &Row, now: Moment) -> Option<Moment> {
    policy.until()?;
    let is_denied_at = |second: i64| {
        let policy = policy.as_of(Moment::from_unix(second));
        denial(&policy, row).is_some()
    };
    let (mut passes, mut denied) = (now.unix(), LAST);
    if !is_denied_at(denied) {
        return None;
    }
    while denied - passes > 1 {
        let between = passes + (denied - passes) / 2;
        match is_denied_at(between) {
            true => denied = between,
            false => passes = between,
        }
    }
    Some(Moment::from_unix(denied))
}

/// What the record's sandbox asked for.
pub(crate) fn asked(row: &Row) -> Option<Asked> {
    let host = Host::parse(row.host.as_deref()?).ok()?;
    let Some(port) = row.port.and_then(Port::new) else {
        return host.name().cloned().map(Asked::Name);
    };
    let protocol = row.protocol.as_deref().and_then(AppProtocol::of_word);
    Some(match (protocol, &row.method, &row.path) {
        (Some(protocol), Some(method), Some(path)) => Asked::Request {
            host,
            port,
            protocol,
            method: method.as_str().into(),
            path: path.as_str().into(),
        },
        _ => Asked::Connection {
            host,
            port,
            protocol,
        },
    })
}

/// The end of the year 9999, in seconds of Unix time: no rule ends later (RFC 3339).
const LAST: i64 = 253_402_300_799;
/// With a number behind it a name still has at most 64.
const LONGEST_STEM: usize = 58;
/// More of one server than anybody keeps.
const MOST_NAMES: u32 = 1000;

#[cfg(test)]
mod tests;
