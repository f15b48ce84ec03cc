//! Docker sandboxes: the commands that made the policy, one a line.
//!
//! `sbx policy allow|deny network [SANDBOX] "a,b:443"`, with `--sandbox NAME` or `-g`, and the older `docker sandbox network proxy NAME
//! --allow-host H --block-host H --bypass-host H`.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reading, split_port};
use crate::draft::DraftTarget;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let mut scopes = Scopes::default();
    let mut found = false;
    let whole = text.replace("\\\n", "  ");
    for (line, text) in (1..).zip(whole.lines()) {
        let words = words(text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let words = words.strip_prefix(&["$"]).unwrap_or(&words);
        found |= !words.is_empty();
        match words {
            [] => {}
            [
                "sbx",
                "policy",
                verb @ ("allow" | "deny"),
                "network",
                rest @ ..,
            ] => {
                network(verb, rest, line, (reading, &mut scopes));
            }
            ["sbx", "policy", "set-default" | "init", default, ..] => {
                if *default != "deny-all" {
                    let message = format!("what the default {default} allowed is not listed here");
                    reading.narrowed(line, message);
                }
            }
            // Nothing is changed by these.
            ["sbx", "policy", "ls" | "log", ..] => {}
            ["sbx", "policy", "rm" | "reset", ..] => {
                let message =
                    "what a command takes away is not looked for in those above it: leave out both";
                reading.problem_in_line(line, message);
            }
            ["docker", "sandbox", "network", "proxy", name, options @ ..] => {
                scopes.note(Some(name), "allow", line);
                proxy_options(options, line, reading);
            }
            _ => {
                let message = "not a command of Docker's sandbox policies: `sbx policy …` or \
                               `docker sandbox network proxy …`";
                reading.problem_in_line(line, message);
            }
        }
    }
    scopes.tell(reading);
    if !found {
        reading.problem_in_line(1, "no command of Docker's sandbox policies was found");
    }
}

/// Which sandboxes the commands speak of.
#[derive(Default)]
struct Scopes {
    /// Each of one, with what is done for it and where first.
    named: BTreeMap<(String, bool), u64>,
    /// Some speak of all.
    global: bool,
}

impl Scopes {
    fn note(&mut self, sandbox: Option<&str>, verb: &str, line: u64) {
        match sandbox {
            None => self.global = true,
            Some(name) => {
                let key = (name.to_owned(), verb == "deny");
                self.named.entry(key).or_insert(line);
            }
        }
    }

    /// One document is of one sandbox or of all: what is of one among several holds for more here.
    fn tell(self, reading: &mut Reading) {
        let names: BTreeSet<&String> = self.named.keys().map(|(name, _)| name).collect();
        if names.len() + usize::from(self.global) < 2 {
            return;
        }
        for ((name, is_denied), line) in &self.named {
            match is_denied {
                false => {
                    let message = format!("what {name} alone was allowed holds for all here");
                    reading.widened(*line, message);
                }
                true => {
                    let message = format!("what {name} alone was denied is denied to all here");
                    reading.narrowed(*line, message);
                }
            }
        }
    }
}

/// `[SANDBOX] RESOURCES`, with `--sandbox NAME`, or `-g` for all.
fn network(verb: &str, rest: &[&str], line: u64, (reading, scopes): (&mut Reading, &mut Scopes)) {
    let (mut sandbox, mut plain) = (None, Vec::new());
    let mut rest = rest.iter().copied();
    while let Some(word) = rest.next() {
        match word.split_once('=').unwrap_or((word, "")) {
            ("-g" | "--global" | "-D" | "--debug", _) => {}
            ("--sandbox", "") => sandbox = rest.next(),
            ("--sandbox", name) => sandbox = Some(name),
            (option, _) if option.starts_with('-') => {
                reading.problem_in_line(line, format!("the option {option} is not known"));
                return;
            }
            _ => plain.push(word),
        }
    }
    let resources = match (plain.as_slice(), sandbox) {
        ([resources], _) => resources,
        ([name, resources], None) => {
            sandbox = Some(name);
            resources
        }
        _ => {
            let message = "one argument lists hosts, separated by commas, and one before it may name a sandbox";
            reading.problem_in_line(line, message);
            return;
        }
    };
    scopes.note(sandbox, verb, line);
    for resource in resources.split(',') {
        resource_of(verb, resource.trim(), line, reading);
    }
}

/// As a shell would split it, up to a comment.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quote) = (None::<String>, None);
    for letter in text.chars() {
        match (quote, letter) {
            (Some(open), _) if letter == open => quote = None,
            (None, '"' | '\'') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#') if word.is_none() => break,
            (None, _) if letter.is_whitespace() => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

fn proxy_options(options: &[&str], line: u64, reading: &mut Reading) {
    let mut options = options
        .iter()
        .flat_map(|option| option.splitn(2, '=').map(|w| w.trim_matches(['"', '\''])));
    while let Some(option) = options.next() {
        let Some(value) = options.next() else {
            reading.problem_in_line(line, format!("{option} has no value"));
            return;
        };
        match option {
            "--allow-host" => resource_of("allow", value, line, reading),
            "--block-host" => resource_of("deny", value, line, reading),
            "--bypass-host" => bypass(value, line, reading),
            "--policy" if value == "deny" => {}
            "--policy" => {
                let message = format!("`--policy {value}` allowed what is not listed here");
                reading.narrowed(line, message);
            }
            "--block-cidr" => {
                let message = format!(
                    "{value} was blocked: private ranges are closed here but for what \
                     `allow_private` opens, and public ones cannot be"
                );
                reading.widened(line, message);
            }
            "--allow-cidr" | "--bypass-cidr" => {
                let message = format!("{option} {value}: write `allow_private` where it is needed");
                reading.narrowed(line, message);
            }
            other => reading.problem_in_line(line, format!("the option {other} is not known")),
        }
    }
}

fn resource_of(verb: &str, resource: &str, line: u64, reading: &mut Reading) {
    let (host, port) = split_port(resource);
    let deep = host.strip_prefix("**.").map(|base| format!("*.{base}"));
    if verb == "deny" {
        if host == "**" && port.is_none() {
            reading.entries.clear();
            reading.narrowed(line, "everything was denied: nothing is allowed");
        }
        let host = deep.as_deref().unwrap_or(host);
        match port {
            Some(port) => reading.deny_port(host, port, line),
            None => reading.deny(host, line),
        }
        return;
    }
    let host = match deep {
        Some(deep) => deep,
        None => {
            if host.starts_with("*.") {
                let message = format!("{host} was one label deep, and is every name below here");
                reading.widened(line, message);
            }
            host.to_owned()
        }
    };
    let Some(mut entry) = reading.target(&host, line) else {
        return;
    };
    match port {
        Some(port) => match reading.port(port, line) {
            Some(port) => entry.ports.push(port),
            None => return,
        },
        None => reading.narrowed_ports(line),
    }
    // Addresses were how anything but HTTP was let through.
    if matches!(entry.target, DraftTarget::Ip(_)) && !entry.ports.is_empty() {
        let message = "only HTTP passes here: add `protocol: tcp` if it is none";
        reading.narrowed(line, message);
    }
    reading.allow(entry);
}

fn bypass(resource: &str, line: u64, reading: &mut Reading) {
    let (host, port) = split_port(resource);
    let Some(mut entry) = reading.target(host, line) else {
        return;
    };
    if let Some(port) = port {
        match reading.port(port, line) {
            Some(port) => entry.ports.push(port),
            None => return,
        }
    }
    // What is not opened cannot be looked into by another entry.
    reading.entries.retain(|other| other.target != entry.target);
    entry.passthrough = matches!(entry.target, DraftTarget::Host(_));
    reading.allow(entry);
}
