//! Docker sandboxes: the commands that made the policy, one a line.
//!
//! `sbx policy allow|deny network "a,b:443"`, and the older `docker sandbox network proxy NAME
//! --allow-host H --block-host H --bypass-host H`.

use super::{Ports, Reading, split_port};
use crate::draft::DraftTarget;

pub(super) fn read(text: &str, reading: &mut Reading) {
    let (mut found, mut sandbox) = (false, None::<&str>);
    let whole = text.replace("\\\n", "  ");
    for (number, line) in (1..).zip(whole.lines()) {
        let words: Vec<_> = line
            .split_whitespace()
            .filter(|word| *word != "$")
            .take_while(|word| !word.starts_with('#'))
            .map(|word| word.trim_matches(['"', '\'']))
            .collect();
        match words.as_slice() {
            [] => {}
            [
                "sbx",
                "policy",
                verb @ ("allow" | "deny"),
                "network",
                rest @ ..,
            ] => {
                found = true;
                if let Some(option) = rest.iter().find(|word| word.starts_with('-')) {
                    let message = format!("the option {option} is not known");
                    reading.problem_in_line(number, message);
                    continue;
                }
                let resources = rest.iter();
                for resource in resources.flat_map(|word| word.split(',')) {
                    resource_of(
                        verb,
                        resource.trim_matches(['"', '\'', ' ']),
                        number,
                        reading,
                    );
                }
            }
            ["sbx", "policy", "set-default" | "init", default, ..] => {
                found = true;
                if *default != "deny-all" {
                    let message = format!("what the default {default} allowed is not listed here");
                    reading.narrowed(number, message);
                }
            }
            ["docker", "sandbox", "network", "proxy", name, options @ ..] => {
                found = true;
                if sandbox.get_or_insert(*name) != name {
                    let message = format!("what {name} alone was allowed holds for all here");
                    reading.widened(number, message);
                }
                proxy_options(options, number, reading);
            }
            _ => {
                let message = "not a command of Docker's sandbox policies: `sbx policy …` or \
                               `docker sandbox network proxy …`";
                reading.problem_in_line(number, message);
            }
        }
    }
    if !found {
        reading.problem_in_line(1, "no command of Docker's sandbox policies was found");
    }
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
        if host == "**" {
            reading.entries.clear();
            reading.narrowed(line, "everything was denied: nothing is allowed");
        }
        if port.is_some() {
            reading.narrowed_ports(line, Ports::OneDenied);
        }
        reading.deny(deep.as_deref().unwrap_or(host), line);
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
        None => reading.narrowed_ports(line, Ports::AnyAllowed),
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
