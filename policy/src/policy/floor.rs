//! Floors: policies of an upper level, which bound what the policy beneath them can allow.
//!
//! A floor grants nothing. It bounds where bytes go, which requests, which private ranges, how closely they
//! are looked at and how much; which secrets go along is the policy's own to say, for hosts that both allow.

use std::sync::Arc;

use ipnet::IpNet;

use super::Policy;
use crate::{
    limits::{ByteCount, Limits},
    moment::Moment,
    verdict::{ConnectPermit, Grant, Handling},
};

/// The floors of one policy, and what follows from them.
pub(super) struct Floors {
    policies: Vec<Policy>,
    limits: Limits,
    until: Option<Moment>,
}

impl Floors {
    /// The least of policy and floors.
    pub(super) const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// When the first rule of policy or floors ends.
    pub(super) const fn until(&self) -> Option<Moment> {
        self.until
    }
}

impl Policy {
    /// This policy bounded by `floors`, and by no others. What they themselves are bounded by, and how
    /// long they hold, takes no part.
    #[must_use]
    pub fn under(&self, floors: Vec<Self>) -> Self {
        let alone = self.alone();
        if floors.is_empty() {
            return alone;
        }
        let floors: Vec<Self> = floors.iter().map(Self::alone).collect();
        let mut limits = alone.limits().clone();
        for floor in &floors {
            limits = least(&limits, floor.limits());
        }
        let ends = floors.iter().chain([&alone]);
        let until = ends.filter_map(|policy| policy.own.until).min();
        let floors = Floors {
            policies: floors,
            limits,
            until,
        };
        Self {
            own: alone.own,
            floors: Some(Arc::new(floors)),
        }
    }

    /// This policy without its floors.
    #[must_use]
    pub fn alone(&self) -> Self {
        Self {
            own: Arc::clone(&self.own),
            floors: None,
        }
    }

    /// What bounds it.
    #[must_use]
    pub fn floors(&self) -> &[Self] {
        self.floors.as_ref().map_or(&[], |floors| &floors.policies)
    }
}

impl Grant {
    /// A floor that only observes and would have denied is kept in mind.
    pub(super) fn note(&mut self, floor: Self) {
        if self.would_deny.is_none() {
            self.would_deny = floor.would_deny;
        }
    }
}

impl ConnectPermit {
    /// Takes away what `floor` does not open. False where the floor looks at these bytes more closely than
    /// the policy does: then they do not pass.
    pub(super) fn narrow(&mut self, floor: Self) -> bool {
        if floor.grant.would_deny.is_some() {
            self.grant.note(floor.grant);
            return true;
        }
        if openness(self.handling) > openness(floor.handling) {
            return false;
        }
        if !self.allow_private.is_empty() {
            self.allow_private = both(&self.allow_private, &floor.allow_private);
        }
        true
    }
}

/// How little is looked at.
const fn openness(handling: Handling) -> u8 {
    match handling {
        Handling::Inspect => 0,
        Handling::Passthrough => 1,
        Handling::Opaque => 2,
    }
}

/// The addresses that are in some range of each.
fn both(one: &[IpNet], other: &[IpNet]) -> Arc<[IpNet]> {
    let pairs = one.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
    let inner = pairs.filter_map(|(a, b)| match (a.contains(b), b.contains(a)) {
        (true, _) => Some(*b),
        (false, true) => Some(*a),
        (false, false) => None,
    });
    inner.collect()
}

fn least(one: &Limits, other: &Limits) -> Limits {
    fn of<T: Ord + Copy>(one: Option<T>, other: Option<T>) -> Option<T> {
        match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }
    Limits {
        requests_per_minute: of(one.requests_per_minute, other.requests_per_minute),
        connections: one.connections.min(other.connections),
        request_body: of::<ByteCount>(one.request_body, other.request_body),
        upload_per_hour: of::<ByteCount>(one.upload_per_hour, other.upload_per_hour),
    }
}

#[cfg(test)]
mod tests;
