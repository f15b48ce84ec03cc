//! What is looked for: a filter says exactly which records it matches, whoever finds them.
//!
//! The index only proposes; [`Filter::matches`] disposes. Where there is no index, octets that every
//! matching line must hold spare the reading of the others.

use gig_policy::Host;
use memchr::memmem;

use super::{
    spelled::{Spellings, rarest, spelled},
    term::{Field, domains_above, telling_events, term, words_of},
    whole,
};
use crate::{
    alarm::{ALARMS, is_alarm},
    row::Row,
};

/// Records that have all that is asked for. An empty list asks for nothing; of several values in one
/// list, one is enough.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Not before: RFC 3339, UTC, microseconds, as in the record.
    pub since: Option<String>,
    /// Before this moment.
    pub until: Option<String>,
    /// Kinds of events.
    pub event: Vec<String>,
    /// Verdicts.
    pub verdict: Vec<String>,
    /// Reasons of denials.
    pub reason: Vec<String>,
    /// Rules.
    pub rule: Vec<String>,
    /// Sandboxes, by whole id.
    pub sandbox: Vec<String>,
    /// Registered servers.
    pub server: Vec<String>,
    /// Users or profiles.
    pub profile: Vec<String>,
    /// Machines.
    pub node: Vec<String>,
    /// Policies.
    pub policy: Vec<String>,
    /// Hosts: a name, or `*.example.com` for every name below.
    pub host: Vec<String>,
    /// Methods.
    pub method: Vec<String>,
    /// Statuses: `403`, or `4xx`.
    pub status: Vec<String>,
    /// Names of secrets.
    pub secret: Vec<String>,
    /// Connections, by number.
    pub conn: Vec<String>,
    /// Requests.
    pub request: Vec<String>,
    /// Addresses that something came from, without the port, as [`source`] has them.
    pub src: Vec<String>,
    /// Words that must all be in the record's texts, as they are or as paths and names of hosts spell them; the id of a
    /// request or sandbox and an address that something came from are one, too.
    pub text: Vec<String>,
    /// Alarms alone.
    pub alarm: bool,
}

impl Filter {
    /// Whether the record is looked for.
    #[must_use]
    pub fn matches(&self, row: &Row) -> bool {
        let Self {
            since,
            until,
            event,
            verdict,
            reason,
            rule,
            sandbox,
            server,
            profile,
            node,
            policy,
            host,
            method,
            status,
            secret,
            conn,
            request,
            src,
            text,
            alarm,
        } = self;
        let in_time = since.as_ref().is_none_or(|since| row.time >= *since)
            && until.as_ref().is_none_or(|until| row.time < *until);
        let conn_is =
            || conn.is_empty() || one_of(conn, row.conn.map(|n| n.to_string()).as_deref());
        in_time
            && wanted(event, Some(&row.event))
            && wanted(node, Some(&row.node))
            && wanted(verdict, row.verdict.as_ref())
            && wanted(reason, row.reason.as_ref())
            && wanted(rule, row.rule.as_ref())
            && wanted(sandbox, row.sandbox.as_ref())
            && wanted(server, row.server.as_ref())
            && wanted(profile, row.profile.as_ref())
            && wanted(policy, row.policy.as_ref())
            && wanted(method, row.method.as_ref())
            && wanted(request, row.request.as_ref())
            && conn_is()
            && (secret.is_empty() || row.secrets.iter().any(|name| secret.contains(name)))
            && (src.is_empty() || came_from(src, row))
            && (status.is_empty() || row.status.is_some_and(|code| has_status(status, code)))
            && (host.is_empty() || row.host.as_ref().is_some_and(|name| has_host(host, name)))
            && (!alarm || is_alarm(&row.event, row.verdict.as_deref() == Some("deny")))
            && (text.is_empty() || has_words(text, row))
    }

    /// Terms that a matching record has, of each group one at least, in a block whose index knows this much. What it does
    /// not know is no reason to miss a record: those with `deed` or `subject` are all looked at for words, and whatever
    /// came from somewhere for its address. Words alone do not make that much be read: by them what came from an address
    /// is found as far as the index knows it.
    pub(crate) fn groups(&self, known: Known) -> Vec<Vec<i64>> {
        let words_or = match known {
            Known::Old => telling_events(),
            Known::Deeds | Known::All => Vec::new(),
        };
        let sources = Some(&self.src).filter(|_| known == Known::All);
        let lists = [
            (Field::Event, &self.event),
            (Field::Verdict, &self.verdict),
            (Field::Reason, &self.reason),
            (Field::Rule, &self.rule),
            (Field::Sandbox, &self.sandbox),
            (Field::Server, &self.server),
            (Field::Profile, &self.profile),
            (Field::Node, &self.node),
            (Field::Policy, &self.policy),
            (Field::Method, &self.method),
            (Field::Secret, &self.secret),
            (Field::Conn, &self.conn),
            (Field::Request, &self.request),
        ];
        let of = |(field, values): (Field, &Vec<String>)| -> Vec<i64> {
            values.iter().map(|value| term(field, value)).collect()
        };
        let mut groups: Vec<Vec<i64>> = lists.map(of).into();
        groups.push(self.host.iter().map(|host| host_term(host)).collect());
        groups.push(
            self.status
                .iter()
                .map(|status| status_term(status))
                .collect(),
        );
        let sources = sources.into_iter().flatten();
        let sources = sources.filter_map(|text| whole::source(text));
        groups.push(sources.map(whole::source_term).collect());
        for whole in self.text.iter().flat_map(|text| whole::wholes(text)) {
            let named = [&whole::terms(whole)[..], &words_or].concat();
            let words = spelled(whole).map(|word| {
                let terms = rarest(&word).map(|word| term(Field::Word, word));
                terms.chain(named.iter().copied()).collect()
            });
            groups.extend(words);
        }
        if self.alarm {
            let events = ALARMS.iter();
            groups.push(
                events
                    .map(|event| term(Field::Event, event.as_str()))
                    .collect(),
            );
        }
        groups.retain(|group| !group.is_empty());
        groups
    }

    /// Octets that every matching line holds: of each group one at least.
    pub(crate) fn needles(&self) -> Needles {
        let quoted = [
            ("event", &self.event),
            ("verdict", &self.verdict),
            ("reason", &self.reason),
            ("rule", &self.rule),
            ("sandbox", &self.sandbox),
            ("server", &self.server),
            ("profile", &self.profile),
            ("node", &self.node),
            ("policy", &self.policy),
            ("method", &self.method),
            ("request", &self.request),
        ];
        let plain = |value: &String| {
            value
                .bytes()
                .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\')
        };
        let mut groups = Vec::new();
        for (key, values) in quoted {
            // A value that the line escapes is left to the look at the record.
            if !values.is_empty() && values.iter().all(plain) {
                let each = values.iter().map(|value| format!("\"{key}\":\"{value}\""));
                groups.push(each.map(needle).collect());
            }
        }
        if self.alarm {
            let each = ALARMS.iter().map(|event| format!("\"event\":\"{event}\""));
            groups.push(each.map(needle).collect());
        }
        if !self.conn.is_empty() {
            let each = self.conn.iter().map(|conn| format!("\"conn\":{conn},"));
            groups.push(each.map(needle).collect());
        }
        let sources = self.src.iter().filter_map(|text| whole::source(text));
        let sources: Vec<_> = sources.flat_map(whole::source_needles).collect();
        if !sources.is_empty() {
            groups.push(sources.into_iter().map(needle).collect());
        }
        Needles(groups)
    }
}

/// How much the index of a block knows, which is as much as the gig did that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Known {
    /// Neither of these.
    Old,
    /// The words of `deed` and `subject`.
    Deeds,
    /// Those, and from where something came.
    All,
}

/// Quick tests of lines that are not read yet.
#[derive(Debug)]
pub(crate) struct Needles(Vec<Vec<memmem::Finder<'static>>>);

impl Needles {
    /// False when the line cannot match.
    pub(crate) fn may_match(&self, line: &[u8]) -> bool {
        let has = |finder: &memmem::Finder<'_>| finder.find(line).is_some();
        self.0.iter().all(|group| group.iter().any(has))
    }
}

fn needle(text: String) -> memmem::Finder<'static> {
    memmem::Finder::new(text.as_bytes()).into_owned()
}

fn wanted(list: &[String], value: Option<&String>) -> bool {
    list.is_empty() || one_of(list, value.map(String::as_str))
}

fn one_of(list: &[String], value: Option<&str>) -> bool {
    value.is_some_and(|value| list.iter().any(|each| each == value))
}

fn has_host(wanted: &[String], name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    wanted.iter().any(|wanted| {
        let wanted = wanted.to_ascii_lowercase();
        match wanted.strip_prefix("*.") {
            Some(above) => domains_above(&name).any(|domain| domain == above),
            None => name == wanted,
        }
    })
}

fn host_term(host: &str) -> i64 {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix("*.") {
        Some(above) => term(Field::Domain, above),
        None => term(Field::Host, &host),
    }
}

/// A host as people ask for it, as the record has it: canonical (RFC 5890 A-labels, no dot at the end), with `*.` for
/// all below; anything else as it is, since a sandbox may have asked for what is no host.
///
/// # Errors
/// For what names more than a host.
pub fn host(text: &str) -> Result<String, &'static str> {
    let (below, name) = match text.strip_prefix("*.") {
        Some(name) => ("*.", name),
        None => ("", text),
    };
    if let Ok(host) = Host::parse(name) {
        return Ok(format!("{below}{host}"));
    }
    let has_port = name
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()));
    if name.starts_with('.') || name.contains('/') || has_port {
        return Err(HOSTS);
    }
    Ok(text.to_owned())
}

/// An address that something came from, as people ask for it and as it is looked for: without its port.
///
/// # Errors
/// For what is none.
pub fn source(text: &str) -> Result<String, &'static str> {
    let found = whole::source(text).ok_or(NO_SOURCE)?;
    Ok(found.to_string())
}

const NO_SOURCE: &str =
    "an address that something came from is written as 10.200.0.2 or 2001:db8::1, without a port";

const HOSTS: &str = "a host is written as api.example.com, or *.example.com for all below: without scheme, port or path";

/// A status as people ask for it, as it is kept: `403`, `4xx`, without leading zeros; `None` for what is none.
#[must_use]
pub fn status(text: &str) -> Option<String> {
    if let Some(class) = text.strip_suffix("xx") {
        return matches!(class, "1" | "2" | "3" | "4" | "5").then(|| text.to_owned());
    }
    // What a program ended with is one, too.
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let code = digits.then(|| text.parse::<u16>().ok())??;
    (code <= HIGHEST).then(|| code.to_string())
}

/// Of three digits (RFC 9110 §15).
const HIGHEST: u16 = 999;

fn has_status(wanted: &[String], code: u16) -> bool {
    wanted.iter().any(|wanted| match wanted.strip_suffix("xx") {
        Some(class) => class == (code / 100).to_string(),
        None => *wanted == code.to_string(),
    })
}

fn status_term(status: &str) -> i64 {
    match status.strip_suffix("xx") {
        Some(class) => term(Field::StatusClass, class),
        None => term(Field::Status, status),
    }
}

fn came_from(wanted: &[String], row: &Row) -> bool {
    let from = whole::source_of(row);
    from.is_some() && wanted.iter().any(|wanted| whole::source(wanted) == from)
}

fn has_words(wanted: &[String], row: &Row) -> bool {
    let wholes = wanted.iter().flat_map(|text| whole::wholes(text));
    let wholes = wholes.filter(|whole| !whole::names(whole, row));
    let mut missing: Vec<_> = wholes.flat_map(spelled).collect();
    words_of(row, |word| {
        let spellings = missing.iter_mut().flatten();
        spellings.for_each(|spelling| spelling.retain(|wanted| wanted != word));
    });
    let is_there = |word: &Spellings| word.iter().any(Vec::is_empty);
    missing.iter().all(is_there)
}

#[cfg(test)]
mod tests;
