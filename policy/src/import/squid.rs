//! `squid.conf`: which destinations its `http_access` lines allow.
//!
//! The lines are read in order. An `allow` line is the product of its destination, port and method
//! lists; a condition that ours cannot say (who asks, when, by which expression) is dropped and told.
//! A `deny` line with destinations denies them to what follows.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use super::{Reading, with_apex};
use crate::host::Port;

/// One `acl`: its type and values, gathered over its lines.
#[derive(Default)]
struct List {
    kind: String,
    values: Vec<(String, u64)>,
}

pub(super) fn read(text: &str, reading: &mut Reading) {
    let mut lists: HashMap<String, List> = HashMap::new();
    let (mut found, mut closed) = (false, false);
    for (number, line) in joined(text) {
        let mut words = line.split_whitespace();
        match words.next() {
            Some("acl") => {
                if let (Some(name), Some(kind)) = (words.next(), words.next()) {
                    acl(
                        lists.entry(name.to_owned()).or_default(),
                        kind,
                        words,
                        number,
                        reading,
                    );
                } else {
                    reading.problem_in_line(number, "`acl` needs a name, a type and values");
                }
            }
            Some("http_access") => {
                found = true;
                let (verb, names): (_, Vec<_>) = (words.next(), words.collect());
                match verb {
                    Some("allow" | "deny") if closed => {
                        reading.narrowed(number, "left out: a line before denies everything");
                    }
                    Some("deny") if names == ["all"] => closed = true,
                    Some("allow") => allow(&names, &lists, number, reading),
                    Some("deny") => deny(&names, &lists, number, reading),
                    _ => reading.problem_in_line(number, "`http_access` needs allow or deny"),
                }
            }
            Some("include") => {
                reading.narrowed(
                    number,
                    "included files are not read: import them by themselves",
                );
            }
            _ => {}
        }
    }
    if !found {
        reading.problem_in_line(1, "no `http_access` line: this is not a squid.conf");
    }
}

/// Lines without comments, each with its number; one that ends with a backslash goes on in the next.
fn joined(text: &str) -> Vec<(u64, String)> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or_default().trim_end();
        let (line, more) = match line.strip_suffix('\\') {
            Some(line) => (line, true),
            None => (line, false),
        };
        match lines.last_mut().filter(|_| goes_on) {
            Some((_, begun)) => {
                begun.push(' ');
                begun.push_str(line);
            }
            None => lines.push((number, line.to_owned())),
        }
        goes_on = more;
    }
    lines
}

fn acl<'w>(
    list: &mut List,
    kind: &str,
    words: impl Iterator<Item = &'w str>,
    line: u64,
    reading: &mut Reading,
) {
    kind.clone_into(&mut list.kind);
    for word in words {
        if word.starts_with('"') {
            let message = format!("{word} is not read: import it by itself, as a list of hosts");
            reading.narrowed(line, message);
        } else if !(word.starts_with('-') && word.len() <= 2) {
            list.values.push((word.to_owned(), line));
        }
    }
}

fn allow(names: &[&str], lists: &HashMap<String, List>, line: u64, reading: &mut Reading) {
    let mut hosts: Option<Vec<String>> = None;
    let mut ports: Option<Vec<Port>> = None;
    let mut methods: Option<Vec<String>> = None;
    let mut tunnels = false;
    let mut dropped = Vec::new();
    for name in names {
        let (negated, name) = match name.strip_prefix('!') {
            Some(name) => (true, name),
            None => (false, *name),
        };
        let list = lists.get(name);
        let kind = list.map_or("", |list| list.kind.as_str());
        let values = || list.into_iter().flat_map(|list| &list.values);
        match kind {
            _ if negated => dropped.push(format!("the condition !{name} is dropped")),
            "dstdomain" | "dst" => {
                let found = values().flat_map(|(value, _)| names_of(value));
                hosts = Some(hosts_of_both(hosts, found.collect(), line, reading));
            }
            "port" => {
                let mut found = Vec::new();
                for (value, line) in values() {
                    match value.split_once('-') {
                        Some(_) => {
                            let message = format!("left out: {value}: ports are listed here");
                            reading.narrowed(*line, message);
                        }
                        None => found.extend(reading.port(value, *line)),
                    }
                }
                ports = Some(both(ports, found));
            }
            "method" => {
                let found = values().map(|(value, _)| value.clone());
                // A tunnel is how HTTPS asks a proxy; what is asked for inside is looked at here.
                let found: Vec<_> = found.filter(|method| method != "CONNECT").collect();
                if found.is_empty() {
                    tunnels = true;
                } else {
                    methods = Some(both(methods, found));
                }
            }
            _ if name == "all" => {}
            _ => {
                let kind = if kind.is_empty() { "built in" } else { kind };
                dropped.push(format!("the condition {name} ({kind}) is dropped"));
            }
        }
    }
    let Some(hosts) = hosts else {
        let message = "left out: it names no destination in a list, and here each is named";
        reading.narrowed(line, message);
        return;
    };
    for message in dropped {
        reading.widened(line, message);
    }
    if ports.is_none() && tunnels && methods.is_none() {
        let message = "only tunnels were allowed, to every port: here they are to 443, and to what `ports` names";
        reading.narrowed(line, message);
        ports = Some(Port::new(443).into_iter().collect());
    } else if ports.is_none() {
        reading.narrowed_ports(line);
    }
    for host in hosts {
        let Some(mut entry) = reading.target(&host, line) else {
            continue;
        };
        entry.ports = ports.clone().unwrap_or_default();
        if ports.as_ref().is_some_and(Vec::is_empty) {
            continue;
        }
        if let Some(methods) = &methods {
            if methods.is_empty() {
                continue;
            }
            let rule = reading.request(methods, &[], line);
            entry.rules = Some(rule.into_iter().collect());
        }
        reading.allow(entry);
    }
}

/// What both lists have, where there is one before.
fn both<T: Eq + Hash>(before: Option<Vec<T>>, found: Vec<T>) -> Vec<T> {
    let Some(before) = before else {
        return found;
    };
    let found: HashSet<T> = found.into_iter().collect();
    let common = before.into_iter().filter(|item| found.contains(item));
    common.collect()
}

/// The destinations that both lists have, where there is one before: a name that stands below one of the other's is of
/// both. Whether an address is one of a name nobody here knows.
fn hosts_of_both(
    before: Option<Vec<String>>,
    found: Vec<String>,
    line: u64,
    reading: &mut Reading,
) -> Vec<String> {
    let Some(before) = before else {
        return found;
    };
    let covers = |wide: &String, narrow: &String| {
        let below = wide
            .strip_prefix('*')
            .filter(|below| narrow.ends_with(below));
        wide == narrow || below.is_some()
    };
    let mut common: Vec<String> = Vec::new();
    let mut alone: Vec<&str> = Vec::new();
    for (one, others) in [(&before, &found), (&found, &before)] {
        for host in one {
            if !others.iter().any(|other| covers(other, host)) {
                // What is below it may be of both.
                if !others.iter().any(|other| covers(host, other)) {
                    alone.push(host);
                }
            } else if !common.contains(host) {
                common.push(host.clone());
            }
        }
    }
    if !alone.is_empty() {
        let message = format!(
            "left out: {}, which one of its lists of destinations has, and another has not",
            alone.join(", ")
        );
        reading.narrowed(line, message);
    }
    common
}

fn deny(names: &[&str], lists: &HashMap<String, List>, line: u64, reading: &mut Reading) {
    let destinations = |name: &&str| {
        let list = lists.get(*name)?;
        (list.kind == "dstdomain").then_some(list)
    };
    let only = match names {
        [only] => destinations(only),
        _ => None,
    };
    let Some(only) = only else {
        let message = format!(
            "what it denies ({}) is not denied here, unless no entry allows it",
            names.join(" ")
        );
        reading.widened(line, message);
        return;
    };
    for (value, line) in &only.values {
        for name in names_of(value) {
            reading.deny_from_here(&name, *line);
        }
    }
}

/// `.example.com` is that name and everything below it.
fn names_of(value: &str) -> Vec<String> {
    if value.starts_with('.') {
        with_apex(value).map_or_else(Vec::new, Vec::from)
    } else {
        vec![value.to_owned()]
    }
}
