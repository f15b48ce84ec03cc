//! Endpoints of OpenShell that speak of the same host and port.
//!
//! There the one with the most specific `path` decides a request, and one that looks at no requests adds none where
//! another looks at them. Ours allow what either allows, which is told wherever two such meet. Of endpoints that are
//! alike in this, either allows there, too.

use std::collections::{BTreeMap, HashMap};

use super::super::{Reading, denials::above};
use crate::{
    draft::{DraftEntry, DraftTarget},
    host::Port,
    host_pattern::HostPattern,
};

/// One endpoint that became an entry.
pub(super) struct Endpoint {
    target: String,
    /// What lets names in it: the same, and the wildcards above it.
    wider: Vec<String>,
    ports: Vec<u16>,
    kind: Kind,
    line: u64,
}

/// What decides which of two decides.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    looks: bool,
    path: Option<String>,
}

/// Where each port is named first, by kind.
type Named = BTreeMap<Kind, BTreeMap<u16, u64>>;

impl Endpoint {
    pub(super) fn new(
        entry: &DraftEntry,
        (looks, path): (bool, Option<String>),
        line: u64,
    ) -> Self {
        let (DraftTarget::Host(target) | DraftTarget::Ip(target)) = &entry.target;
        let pattern = HostPattern::parse(target).ok();
        let above = pattern.iter().flat_map(above);
        let above = above.map(|base| format!("*.{base}"));
        let ports = match &*entry.ports {
            [] => &[Port::HTTPS, Port::HTTP],
            ports => ports,
        };
        Self {
            wider: std::iter::once(target.clone()).chain(above).collect(),
            target: target.clone(),
            ports: ports.iter().map(|port| port.get()).collect(),
            kind: Kind { looks, path },
            line,
        }
    }
}

/// Tells of those that decide together here.
pub(super) fn tell(endpoints: &[Endpoint], reading: &mut Reading) {
    let mut named: HashMap<&str, Named> = HashMap::new();
    for one in endpoints {
        let of_kind = named.entry(&one.target).or_default();
        let lines = of_kind.entry(one.kind.clone()).or_default();
        for port in &one.ports {
            lines.entry(*port).or_insert(one.line);
        }
    }
    for one in endpoints {
        let Some((kind, line)) = other(one, &named) else {
            continue;
        };
        let target = &one.target;
        if kind.looks == one.kind.looks {
            let message = format!(
                "{target} has another `path` in line {line}: there the more specific one alone decides a request, \
                 and here what either allows passes"
            );
            reading.widened(one.line, message);
        } else {
            let (whole, looking) = match one.kind.looks {
                true => (line, one.line),
                false => (one.line, line),
            };
            let message = format!(
                "{target} passes whole, though line {looking} looks at its requests, and there that alone decides: \
                 leave this one out"
            );
            reading.widened(whole, message);
        }
    }
}

/// Another that is not of its kind, and where it stands. Of two for the same hosts the later tells.
fn other<'n>(one: &Endpoint, named: &'n HashMap<&str, Named>) -> Option<(&'n Kind, u64)> {
    one.wider.iter().find_map(|target| {
        let kinds = named.get(target.as_str())?.iter();
        let mut others = kinds.filter(|(kind, _)| **kind != one.kind);
        others.find_map(|(kind, lines)| {
            let line = one.ports.iter().filter_map(|port| lines.get(port)).min()?;
            let is_its_turn = *target != one.target || *line < one.line;
            is_its_turn.then_some((kind, *line))
        })
    })
}
