//! What denied names leave of the entries, and which denials ours cannot say.
//!
//! Each entry is looked up among the denials and each denial among the entries by the names above it,
//! so that long lists on both sides cost what they are long.

use std::{
    collections::{BTreeMap, HashMap},
    mem,
};

use super::{Denied, Reading};
use crate::{
    draft::{DraftEntry, DraftTarget},
    host::Port,
    host_pattern::HostPattern,
};

/// Drops the entries that a denial covers, or a port of theirs, and tells of denials below an entry that stays wider.
pub(super) fn apply(reading: &mut Reading) {
    let mut of_ports: BTreeMap<Option<Port>, Vec<Denied>> = BTreeMap::new();
    for denied in mem::take(&mut reading.denied) {
        of_ports.entry(denied.port).or_default().push(denied);
    }
    for (port, denied) in of_ports {
        deny(reading, port, &denied);
    }
}

/// Of one port, or of all.
fn deny(reading: &mut Reading, port: Option<Port>, denied: &[Denied]) {
    let is_open = |entry: &DraftEntry| port.is_none_or(|port| ports(entry).contains(&port));
    let opened = reading.entries.iter().map(|entry| match is_open(entry) {
        true => pattern(entry),
        false => None,
    });
    let allowed: Vec<Option<HostPattern>> = opened.collect();
    let wide = widest(&allowed);
    let mut first = HashMap::new();
    let mut everywhere = false;
    for Denied {
        pattern,
        line,
        spared,
        ..
    } in denied
    {
        let Some(pattern) = pattern else {
            everywhere = true;
            continue;
        };
        let before = first.entry(pattern.clone()).or_insert(*spared);
        *before = (*before).min(*spared);
        // The last entry that allows it and more.
        let wider = above(pattern).filter_map(|base| wide.get(base)).max();
        if let Some((_, wider)) = wider.filter(|(place, _)| place >= spared) {
            let at = at(port);
            let message = format!(
                "{pattern}{at} was denied and *.{wider} allows it: there are no deny rules here, so \
                 list the names that are needed instead of *.{wider}"
            );
            reading.widened(*line, message);
        }
    }
    let below: HashMap<&str, usize> = first
        .iter()
        .filter_map(|(pattern, spared)| match pattern {
            HostPattern::Below(base) => Some((base.as_str(), *spared)),
            HostPattern::Exact(_) => None,
        })
        .collect();
    let mut place = 0;
    reading.entries.retain_mut(|entry| {
        let pattern = allowed.get(place).and_then(Option::as_ref);
        let is_denied = pattern.is_some_and(|pattern| {
            let itself = first.get(pattern).into_iter();
            let wider = above(pattern).filter_map(|base| below.get(base));
            itself.chain(wider).any(|spared| *spared <= place)
        });
        place += 1;
        match (is_denied || everywhere, port) {
            (false, _) => true,
            (true, None) => false,
            (true, Some(port)) if is_open(entry) => {
                let mut left = ports(entry);
                left.retain(|open| *open != port);
                entry.ports = left;
                !entry.ports.is_empty()
            }
            (true, Some(_)) => true,
        }
    });
}

/// A port as it stands behind a host; nothing for all of them.
pub(super) fn at(port: Option<Port>) -> String {
    port.map_or_else(String::new, |port| format!(":{}", port.get()))
}

/// Where an entry without ports is open.
fn ports(entry: &DraftEntry) -> Vec<Port> {
    match entry.ports.is_empty() {
        true => [443, 80].into_iter().filter_map(Port::new).collect(),
        false => entry.ports.clone(),
    }
}

/// The host of an entry; `None` of an address.
pub(super) fn pattern(entry: &DraftEntry) -> Option<HostPattern> {
    match &entry.target {
        DraftTarget::Host(host) => HostPattern::parse(host).ok(),
        DraftTarget::Ip(_) => None,
    }
}

/// The last entry with each wildcard, by its base.
fn widest(allowed: &[Option<HostPattern>]) -> HashMap<&str, (usize, &str)> {
    let numbered = allowed.iter().enumerate();
    numbered
        .filter_map(|(place, pattern)| match pattern.as_ref()? {
            HostPattern::Below(base) => Some((base.as_str(), (place, base.as_str()))),
            HostPattern::Exact(_) => None,
        })
        .collect()
}

/// The bases of all wildcards that speak of all of a pattern, but its own.
pub(super) fn above(pattern: &HostPattern) -> impl Iterator<Item = &str> {
    let (HostPattern::Exact(name) | HostPattern::Below(name)) = pattern;
    let parent = |name: &str| name.split_once('.').map(|(_, rest)| rest.len());
    let text = name.as_str();
    let mut left = text;
    std::iter::from_fn(move || {
        let length = parent(left)?;
        left = text.get(text.len() - length..)?;
        Some(left)
    })
}
