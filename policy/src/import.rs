//! Allowlists of other tools, read into a [`Draft`] of ours.
//!
//! Nothing is dropped in silence. What ours cannot say as narrowly (a program's path, a query, a deny
//! rule below a wildcard) is listed as *widened*; what ours refuses or says more narrowly (every host,
//! a pattern inside a label, any port) as *narrowed*. A document that is not of the named format is
//! refused with its line. What the draft means is decided where every document is compiled.

use std::{
    collections::{BTreeSet, HashSet},
    fmt,
};

use serde::Serialize;

use crate::{
    allow_option::split_port,
    compile::{address_range, private_range},
    compile_error::{CompilePolicyError, Problem},
    document::{Located, Node},
    draft::{Draft, DraftEntry, DraftRule, DraftTarget},
    host::Port,
    host_pattern::HostPattern,
    http_match::{Method, PathPattern},
    policy::Policy,
    rule::Position,
    special_purpose::{AddressClass, classify},
};

mod denials;
mod docker;
mod format;
mod hosts;
mod iron_proxy;
mod node;
mod openshell;
mod sandbox_runtime;
mod squid;

pub use format::{Format, ParseFormatError};

/// What an import came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The document.
    pub draft: Draft,
    /// Where ours allows more.
    pub widened: Vec<Remark>,
    /// Where ours allows less.
    pub narrowed: Vec<Remark>,
}

/// One thing that is not as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Remark {
    /// The line of the imported document, from 1.
    pub line: u64,
    /// What changed, and what to do.
    pub message: String,
}

impl fmt::Display for Remark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

/// Reads another tool's document; `origin` is its file name, `name` what ours is to be called.
///
/// # Errors
/// [`CompilePolicyError`], when it is no document of that format.
pub fn import(
    format: Format,
    text: &str,
    origin: &str,
    name: &str,
) -> Result<Imported, CompilePolicyError> {
    let mut reading = Reading::default();
    match format {
        Format::Hosts => hosts::read(text, &mut reading),
        Format::Squid => squid::read(text, &mut reading),
        Format::SandboxRuntime => sandbox_runtime::read(text, &mut reading),
        Format::OpenShell => openshell::read(text, &mut reading),
        Format::IronProxy => iron_proxy::read(text, &mut reading),
        Format::Docker => docker::read(text, &mut reading),
    }
    let imported = reading.finish(name, origin)?;
    // What we write must be what we read; a clash of two entries is theirs to solve.
    let made = format!("{origin}, as it would stand here");
    Policy::compile(&imported.draft.to_string(), &made)?;
    Ok(imported)
}

/// What is gathered while a document is read.
#[derive(Debug, Default)]
struct Reading {
    entries: Vec<DraftEntry>,
    /// The same, so that each is there once.
    known: HashSet<DraftEntry>,
    denied: Vec<Denied>,
    widened: BTreeSet<Remark>,
    narrowed: BTreeSet<Remark>,
    problems: Vec<Problem>,
}

/// Names that are denied whatever allows them.
#[derive(Debug)]
struct Denied {
    /// `None`: every host.
    pattern: Option<HostPattern>,
    /// At this port alone.
    port: Option<Port>,
    line: u64,
    /// How many entries came before it where the first line that fits decides.
    spared: usize,
}

impl Reading {
    fn widened(&mut self, line: u64, message: impl Into<String>) {
        let message = message.into();
        self.widened.insert(Remark { line, message });
    }

    fn narrowed(&mut self, line: u64, message: impl Into<String>) {
        let message = message.into();
        self.narrowed.insert(Remark { line, message });
    }

    /// Tells that a host that was allowed at every port is allowed at two here.
    fn narrowed_ports(&mut self, line: u64) {
        let message = "a host without a port was allowed at every port, and is at 443 and 80 here: add `ports` where others \
                       are needed";
        self.narrowed(line, message);
    }

    /// Tells of every field but the `known` ones: what it kept from passing, passes here.
    fn unread(&mut self, of: &str, node: &Located<Node>, known: &[&str]) {
        for (key, _) in node::fields(node) {
            if !known.contains(&key.value.as_str()) {
                let message = format!(
                    "`{}` of {of} is not read: what it refused, if anything, passes here",
                    key.value
                );
                self.widened(key.at.line, message);
            }
        }
    }

    /// Tells of fields that are about what a program finds inside and not about where it goes: whoever runs it says that.
    fn of_the_run(&mut self, node: &Located<Node>, fields: &[(&str, &str)]) {
        for (key, _) in node::fields(node) {
            if let Some((name, what)) = fields.iter().find(|(name, _)| *name == key.value) {
                let message = format!("`{name}` is left out, it is no policy's: {what}");
                self.narrowed(key.at.line, message);
            }
        }
    }

    fn problem(&mut self, at: Position, message: impl Into<String>) {
        self.problems.push(Problem::at(at, message.into()));
    }

    fn problem_in_line(&mut self, line: u64, message: impl Into<String>) {
        self.problem(Position { line, column: 1 }, message);
    }

    /// The entry for a host or an address, in our spelling; `None`, with a remark, where there is none.
    fn target(&mut self, text: &str, line: u64) -> Option<DraftEntry> {
        let bare = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        let bare = bare.unwrap_or(text);
        let address = bare.parse::<ipnet::IpNet>().is_ok();
        if !address && bare.parse::<std::net::IpAddr>().is_err() {
            if is_localhost(text) {
                let message = format!(
                    "left out: {text} was the machine itself, which no sandbox reaches, and is the sandbox itself here"
                );
                self.narrowed(line, message);
                return None;
            }
            return match HostPattern::parse(text) {
                Ok(pattern) => Some(DraftEntry::new(DraftTarget::Host(pattern.to_string()))),
                Err(error) => {
                    self.narrowed(line, format!("left out: {error}"));
                    None
                }
            };
        }
        match address_range(bare) {
            Ok(range) => {
                let mut entry = DraftEntry::new(DraftTarget::Ip(bare.to_owned()));
                // Where it was allowed, it was reached, private or not.
                if classify(range.addr()) != AddressClass::Global {
                    if let Err(error) = private_range(bare) {
                        self.narrowed(line, format!("left out: {error}"));
                        return None;
                    }
                    entry.allow_private.push(bare.to_owned());
                }
                Some(entry)
            }
            Err(error) => {
                self.narrowed(line, format!("left out: {error}"));
                None
            }
        }
    }

    /// A port of a document; `None`, with a remark, for what is none.
    fn port(&mut self, text: &str, line: u64) -> Option<Port> {
        let port = text.parse().ok().and_then(Port::new);
        if port.is_none() {
            self.narrowed(
                line,
                format!("left out: {text:?} is not a port from 1 to 65535"),
            );
        }
        port
    }

    /// One rule for requests; `*` is every method. `None`, with a remark, where ours cannot say it.
    fn request(&mut self, methods: &[String], paths: &[String], line: u64) -> Option<DraftRule> {
        let mut rule = DraftRule {
            remarks: Vec::new(),
            methods: Vec::new(),
            paths: Vec::new(),
        };
        for method in methods.iter().filter(|m| *m != "*") {
            match Method::parse(&method.to_ascii_uppercase()) {
                Ok(method) => rule.methods.push(method.as_str().to_owned()),
                Err(error) => {
                    self.narrowed(line, format!("left out: {error}"));
                    return None;
                }
            }
        }
        if methods.iter().any(|m| m == "*") {
            rule.methods.clear();
        }
        for path in paths {
            match PathPattern::parse(path) {
                Ok(path) if rule.paths.iter().any(|known| known == path.as_str()) => {}
                Ok(path) => rule.paths.push(path.as_str().to_owned()),
                Err(error) => self.narrowed(line, format!("left out: {error}")),
            }
        }
        (paths.is_empty() || !rule.paths.is_empty()).then_some(rule)
    }

    /// Denies a host, whatever allows it.
    fn deny(&mut self, text: &str, line: u64) {
        self.deny_at(None, (0, text, line));
    }

    /// Denies a host to what is allowed from here on.
    fn deny_from_here(&mut self, text: &str, line: u64) {
        self.deny_at(None, (self.entries.len(), text, line));
    }

    /// Denies one port of a host, or of every host (`*`), whatever allows it.
    fn deny_port(&mut self, text: &str, port: &str, line: u64) {
        let Some(port) = self.port(port, line) else {
            return;
        };
        match text {
            "*" | "**" => self.denied.push(Denied {
                pattern: None,
                port: Some(port),
                line,
                spared: 0,
            }),
            text => self.deny_at(Some(port), (0, text, line)),
        }
    }

    fn deny_at(&mut self, port: Option<Port>, (spared, text, line): (usize, &str, u64)) {
        match HostPattern::parse(text) {
            Ok(pattern) => self.denied.push(Denied {
                pattern: Some(pattern),
                port,
                line,
                spared,
            }),
            Err(_) => {
                let at = denials::at(port);
                let message = format!(
                    "{text}{at} was denied, and there are no deny rules here: look whether an entry allows it"
                );
                self.widened(line, message);
            }
        }
    }

    /// Adds an entry; one that says the same is there once.
    fn allow(&mut self, entry: DraftEntry) {
        if self.known.insert(entry.clone()) {
            self.entries.push(entry);
        }
    }

    fn finish(mut self, name: &str, origin: &str) -> Result<Imported, CompilePolicyError> {
        if !self.problems.is_empty() {
            return Err(CompilePolicyError::new(origin, self.problems));
        }
        denials::apply(&mut self);
        let mut remarks = vec![format!("Imported from {origin}.")];
        let widened = self.widened.iter().map(|remark| format!("wider: {remark}"));
        remarks.extend(widened);
        let narrowed = self.narrowed.iter();
        remarks.extend(narrowed.map(|remark| format!("narrower: {remark}")));
        Ok(Imported {
            draft: Draft {
                name: name.to_owned(),
                remarks,
                head: Vec::new(),
                entries: self.entries,
            },
            widened: self.widened.into_iter().collect(),
            narrowed: self.narrowed.into_iter().collect(),
        })
    }
}

/// A name of the machine that asks (RFC 6761 §6.3).
fn is_localhost(text: &str) -> bool {
    let name = text.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// What other tools say as one wildcard for a name and everything below it.
fn with_apex(text: &str) -> Option<[String; 2]> {
    let base = text.strip_prefix("*.").or_else(|| text.strip_prefix('.'))?;
    Some([base.to_owned(), format!("*.{base}")])
}

/// Of what another tool says about files.
const SHOWN: &str = "a sandbox has none of this host's files but those that are shown to it (`--ro`, `--rw` of `gig run`, \
     `--ro` of `gig server add`)";
const EVERY_PROGRAM: &str = "holds for every program of the sandbox";

#[cfg(test)]
mod tests;
