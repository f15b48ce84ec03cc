//! The narrowest policy that covers what a sandbox tried, each rule with its evidence.
//!
//! Hosts and ports are never widened: an entry names what was asked for, and a secret is granted to the requests
//! that carried it. What a document says beside that (`suggest::carried`) is kept where one is replaced. Paths are, where a list of
//! them would say less than a pattern (`suggest::paths`), and a remark says how many a pattern stands
//! for. What cannot or should not be suggested (an address that is not public, a name of which only
//! the port is missing, a path that was cut) is told in words. The result is compiled and asked about every attempt again:
//! what it does not cover is listed, never left unsaid.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    attempt::{Asked, Attempt},
    draft::{Draft, DraftEntry, DraftRule, DraftSecret, DraftTarget},
    host::Port,
    http_match::Method,
    intent::AppProtocol,
    policy::Policy,
};

mod carried;
mod paths;
mod private;
mod tried;

pub use carried::InPlaceOf;
use private::Private;
use tried::{Place, Tried};

/// How wide a suggested entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// The methods and paths that were seen.
    Path,
    /// Every request to the host.
    Host,
}

/// What [`suggest`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestion {
    /// The document.
    pub draft: Draft,
    /// Attempts that the document does not cover, each once.
    pub uncovered: Vec<Asked>,
    /// What a person should know of what was left out.
    pub notes: Vec<String>,
    /// How many of the attempts that it speaks of were denied when they were made.
    pub denied: u64,
}

/// Writes the narrowest policy for `attempts`; what `base` allows already is left out of it. Of the document that it
/// is to stand in place of it keeps what records do not tell.
///
/// Attempts that were denied for a reason that no rule decides are left out as well.
#[must_use]
pub fn suggest(
    name: &str,
    attempts: &[Attempt],
    base: Option<&Policy>,
    instead: Option<InPlaceOf<'_>>,
    width: Width,
) -> Suggestion {
    let wanted = |attempt: &&Attempt| {
        attempt.is_of_rules() && base.is_none_or(|base| base.covers_attempt(attempt).is_err())
    };
    let wanted: Vec<_> = attempts.iter().filter(wanted).collect();
    let denied = wanted.iter().map(|attempt| attempt.denied()).sum();
    let mut notes = Vec::new();
    let old =
        instead.and_then(|old| Some(Policy::compile(old.document, "old").ok()?.as_of(old.now)));
    let private = Private::of(attempts, old.as_ref());
    let tried = tried::gather(&wanted, width, &private, &mut notes);
    let entries = tried
        .iter()
        .map(|(place, tried)| entry(place, tried, width));
    let entries = merge_ports(entries.collect());
    let mut draft = Draft {
        name: name.to_owned(),
        remarks: remarks(&wanted, denied),
        head: Vec::new(),
        entries,
    };
    if let Some(old) = instead {
        carried::carry(old, &mut draft, &mut notes);
    }
    let uncovered: BTreeSet<&Asked> = match Policy::compile(&draft.to_string(), name) {
        Ok(policy) => {
            let wanted = wanted.iter();
            let uncovered = wanted.filter(|attempt| policy.covers_attempt(attempt).is_err());
            uncovered.map(|attempt| &attempt.asked).collect()
        }
        Err(refused) => {
            notes.push(format!("the document does not compile: {refused}"));
            wanted.iter().map(|attempt| &attempt.asked).collect()
        }
    };
    let uncovered = uncovered.into_iter().cloned().collect();
    Suggestion {
        draft,
        uncovered,
        notes,
        denied,
    }
}

fn remarks(wanted: &[&Attempt], denied: u64) -> Vec<String> {
    let times = wanted
        .iter()
        .flat_map(|attempt| [&attempt.first, &attempt.time]);
    let count = wanted.iter().map(|attempt| attempt.count).sum();
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return vec!["Nothing was tried that is not allowed already.".to_owned()];
    };
    let denied = match denied {
        0 => String::new(),
        denied => format!(" Denied when they were made: {denied}."),
    };
    vec![
        format!(
            "Suggested from {} from {first} to {last}.{denied}",
            plural(count, "attempt")
        ),
        "Each entry says what it rests on: read it before you trust it.".to_owned(),
    ]
}

fn entry(place: &Place, tried: &Tried, width: Width) -> DraftEntry {
    let Place {
        host,
        port,
        protocol,
        secrets,
    } = place;
    let mut entry = DraftEntry::new(DraftTarget::from(host));
    entry.ports = vec![*port];
    entry.secrets = secrets
        .iter()
        .map(|name| DraftSecret {
            name: name.to_string(),
            places: Vec::new(),
            entrusted: tried.entrusted.contains(name),
        })
        .collect();
    // What carried a value and no request was not opened, and only what the program was handed goes so.
    let unopened = tried.requests.is_empty() && !tried.entrusted.is_empty();
    entry.passthrough = unopened && *protocol == Some(AppProtocol::Https);
    entry.protocol = match (*protocol, *port) {
        (Some(AppProtocol::Https), _) if entry.passthrough => None,
        // Only where it is written do secrets go in clear text.
        (Some(AppProtocol::Http), _) if !secrets.is_empty() => Some(AppProtocol::Http.as_str()),
        (Some(AppProtocol::Https), Port::HTTPS) | (Some(AppProtocol::Http), Port::HTTP) => None,
        (protocol, _) => protocol.map(AppProtocol::as_str),
    };
    entry.allow_private = tried.private.iter().map(ToString::to_string).collect();
    entry.remarks.push(tried.evidence());
    entry.remarks.extend(tried.remark.map(str::to_owned));
    if secrets.iter().any(|name| !tried.entrusted.contains(name)) {
        entry.remarks.push(CARRIED.to_owned());
    }
    if !tried.entrusted.is_empty() {
        entry.remarks.push(ENTRUSTED.to_owned());
    }
    if tried.requests.is_empty() || width == Width::Host {
        return entry;
    }
    if tried.bare > 0 {
        entry.remarks.push(format!(
            "{} without a request that was seen",
            plural(tried.bare, "connection")
        ));
    }
    entry.rules = Some(rules(tried));
    entry
}

/// Paths that were asked for with the same methods share a rule.
fn rules(tried: &Tried) -> Vec<DraftRule> {
    let mut by_methods: BTreeMap<Vec<&str>, BTreeMap<&str, u64>> = BTreeMap::new();
    for (path, methods) in &tried.requests {
        let names = methods.keys().map(|method| &**method).collect();
        let count = methods.values().sum();
        by_methods.entry(names).or_default().insert(path, count);
    }
    let groups = by_methods.into_iter();
    groups
        .map(|(methods, paths)| {
            let total: u64 = paths.values().sum();
            let widened = paths::patterns(&paths);
            let mut remarks = vec![plural(total, "request")];
            remarks.extend(widened.remarks);
            // A method that no document can name leaves its rule without methods, hence too wide.
            let methods = methods.into_iter().filter(|m| Method::parse(m).is_ok());
            DraftRule {
                remarks,
                methods: methods.map(str::to_owned).collect(),
                paths: widened.patterns,
            }
        })
        .filter(|rule| !rule.methods.is_empty() && !rule.paths.is_empty())
        .collect()
}

/// Entries of one host that differ in their port alone become one.
fn merge_ports(entries: Vec<DraftEntry>) -> Vec<DraftEntry> {
    let mut merged: Vec<DraftEntry> = Vec::new();
    let mut places = HashMap::new();
    for mut entry in entries {
        let rules = entry.rules.iter().flatten();
        let rules: BTreeSet<_> = rules
            .map(|rule| (rule.methods.clone(), rule.paths.clone()))
            .collect();
        let said = (
            entry.target.clone(),
            entry.protocol,
            entry.secrets.clone(),
            entry.allow_private.clone(),
            entry.rules.is_some(),
            rules,
        );
        let place = *places.entry(said).or_insert(merged.len());
        match merged.get_mut(place) {
            Some(other) => {
                let ports: Vec<_> = entry.ports.iter().map(ToString::to_string).collect();
                let remarks = entry.remarks.drain(..);
                let remarks = remarks.map(|line| format!("port {}: {line}", ports.join(", ")));
                other.remarks.extend(remarks);
                other.ports.append(&mut entry.ports);
            }
            None => merged.push(entry),
        }
    }
    merged
}

fn plural(count: u64, word: &str) -> String {
    let s = if count == 1 { "" } else { "s" };
    format!("{count} {word}{s}")
}

/// The first and the last of some times.
fn widen(times: &mut Option<(Arc<str>, Arc<str>)>, time: &Arc<str>) {
    let (first, last) = times.get_or_insert_with(|| (Arc::clone(time), Arc::clone(time)));
    if time < first {
        *first = Arc::clone(time);
    }
    if time > last {
        *last = Arc::clone(time);
    }
}

const CARRIED: &str = "these requests carried the secrets: `in` says where one may stand";

const ENTRUSTED: &str =
    "the program is handed the value of what is `entrusted`, and sent it itself";

#[cfg(test)]
mod tests;
