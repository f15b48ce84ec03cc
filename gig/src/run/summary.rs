//! What the end of a run tells a person: each denied destination, why, and what would allow it; then what was
//! allowed and failed, and which secrets went out as their sentinels.
//!
//! Counts what was recorded, so that the summary and the record cannot tell two stories. Text that came
//! from the sandbox is shown with control characters escaped.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};

use gig_audit::{Entry, Event, VerdictWord, counted, hosts_of, why_of};
use gig_policy::{DenyReason, printable::is_plain, unasked::is_unasked};

mod as_is;
mod cure;
mod failed;
mod lines;

pub(crate) use self::cure::RulesFrom;
use self::{
    as_is::AsTheyAre,
    cure::{bracketed, cure},
    failed::Failures,
    lines::Lines,
};

/// Shared between the recorder, which adds, and the end of the run, which prints.
#[derive(Debug, Clone, Default)]
pub(crate) struct Summary(Arc<Mutex<Tally>>);

#[derive(Debug, Default)]
struct Tally {
    denials: Lines<Denied>,
    alarms: Lines<Alarm>,
    /// What has no record of its own, of alarms and of denials, with some of its hosts.
    folded: BTreeMap<(bool, DenyReason), Folded>,
    failures: Failures,
    as_they_are: AsTheyAre,
}

/// How many, and some of their hosts.
type Folded = (u64, BTreeSet<Arc<str>>);

/// A secret that was on its way to where it is not bound.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    host: Arc<str>,
    port: Option<u16>,
    what: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Denied {
    host: Arc<str>,
    port: Option<u16>,
    reason: DenyReason,
    would: bool,
    /// Method and path, as far as a request has them: CONNECT has no path.
    request: Option<(Arc<str>, Option<Arc<str>>)>,
    dst_ip: Option<std::net::IpAddr>,
    protocol: Option<Arc<str>>,
    /// What allowed it so far.
    rule: Option<Arc<str>>,
    /// Why, where its record says it in words.
    why: Option<Arc<str>>,
}

impl Denied {
    /// Whether a proxy was asked for a tunnel.
    fn is_connect(&self) -> bool {
        let method = self.request.as_ref().map(|(method, _)| &**method);
        method == Some("CONNECT")
    }
}

impl Summary {
    /// Takes note of a record that says no, or that what was allowed failed.
    pub(crate) fn note(&self, entry: &Entry) {
        if entry.event == Event::Response {
            let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            tally.failures.note(entry);
            tally.as_they_are.note(entry);
        }
        let would = match entry.verdict {
            Some(VerdictWord::Deny) => false,
            Some(VerdictWord::WouldDeny) => true,
            Some(VerdictWord::Allow) | None => return,
        };
        let Some(reason) = entry.reason else {
            return;
        };
        if would && entry.event == Event::Response {
            // Its request was told.
            return;
        }
        if matches!(
            reason,
            DenyReason::ShuttingDown | DenyReason::RequestIncomplete
        ) {
            // The run was over, or the program went away before anything was sent: no rule would have changed that.
            return;
        }
        let own = |name: &str| is_unasked(name) || name == gig_sandbox::NAME;
        if entry.port.is_none() && entry.host.as_deref().is_some_and(own) {
            // The program's system asked (also for the sandbox's own name, whose one address is in a file), and
            // nobody would want a rule for it.
            return;
        }
        let times = counted(&entry.findings).unwrap_or(1);
        let Some(host) = entry.host.clone() else {
            return self.fold(entry, reason);
        };
        if entry.event == Event::SecretMisuse {
            return self.alarm(entry, host);
        }
        let method = entry.method.clone();
        let request = method.map(|method| (method, entry.path.clone()));
        let denied = Denied {
            host,
            port: entry.port,
            reason,
            would,
            request,
            dst_ip: entry.dst_ip,
            protocol: entry.protocol.clone(),
            rule: entry.rule.clone(),
            why: why_of(&entry.findings).map(Into::into),
        };
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.denials.add(denied, times);
    }

    fn fold(&self, entry: &Entry, reason: DenyReason) {
        let Some(times) = counted(&entry.findings) else {
            return;
        };
        let alarm = entry.event == Event::SecretMisuse;
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, hosts) = tally.folded.entry((alarm, reason)).or_default();
        *count += times;
        for host in hosts_of(&entry.findings) {
            if hosts.len() < MOST_HOSTS {
                hosts.insert(host.into());
            }
        }
    }

    fn alarm(&self, entry: &Entry, host: Arc<str>) {
        let what = entry.findings.first().cloned().unwrap_or_default();
        let alarm = Alarm {
            host,
            port: entry.port,
            what,
        };
        let mut tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        tally.alarms.add(alarm, 1);
    }

    /// The text for standard error; `None` when nothing was denied and nothing failed.
    pub(crate) fn text(&self, from: &RulesFrom) -> Option<String> {
        let tally = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let told = [
            tally.denied(from),
            tally.failures.text(from),
            tally.as_they_are.text(),
        ];
        let text = told.concat();
        (!text.is_empty()).then_some(text)
    }
}

/// Denials of one place that one cure would allow.
struct Place<'a> {
    first: &'a Denied,
    connections: u64,
    requests: u64,
    /// More than one thing was asked for.
    several: bool,
}

impl<'a> Place<'a> {
    const fn new(first: &'a Denied) -> Self {
        Self {
            first,
            connections: 0,
            requests: 0,
            several: false,
        }
    }

    fn add(&mut self, denied: &'a Denied, count: u64) {
        match denied.request {
            Some(_) => self.requests += count,
            None => self.connections += count,
        }
        if denied.request.is_some() && self.first.request != denied.request {
            self.several |= self.first.request.is_some();
            self.first = denied;
        }
    }

    /// Requests are counted where there are any: a connection that carried them is not told beside them.
    fn line(&self) -> String {
        let count = if self.requests > 0 {
            self.requests
        } else {
            self.connections
        };
        line(self.first, count, !self.several)
    }
}

impl Tally {
    /// Alarms, and what was denied.
    fn denied(&self, from: &RulesFrom) -> String {
        let mut text = String::new();
        for (alarm, count) in self.alarms.iter() {
            let port = at_port(alarm.port);
            let (host, what) = (shown(&alarm.host), shown(&alarm.what));
            writeln!(
                text,
                "gig: ALARM: secret misuse: {what} on its way to {host}{port}, refused{}",
                times(count)
            )
            .ok();
        }
        text.push_str(&self.folded_lines(true));
        let folded = self.folded_lines(false);
        if self.denials.is_empty() && folded.is_empty() {
            return text;
        }
        text.push_str("gig: denied during this run\n");
        for (cure, told) in &self.by_cure(from) {
            // Writing to a String cannot fail.
            writeln!(text, "  {}", told.line()).ok();
            writeln!(text, "      {cure}").ok();
        }
        text.push_str(&folded);
        text + &self.denials.rest()
    }

    /// Each place once with what would allow it, in the order of the places.
    fn by_cure(&self, from: &RulesFrom) -> Vec<(String, Place<'_>)> {
        let mut told: Vec<(String, Place<'_>)> = Vec::new();
        for (denied, count) in self.denials.iter() {
            let cure = cure(denied, from);
            let same = |(other, place): &&mut (String, Place<'_>)| {
                let first = place.first;
                (&first.host, first.port, first.reason, first.would)
                    == (&denied.host, denied.port, denied.reason, denied.would)
                    && *other == cure
            };
            match told.iter_mut().rfind(same) {
                Some((_, place)) => place.add(denied, count),
                None => {
                    let mut place = Place::new(denied);
                    place.add(denied, count);
                    told.push((cure, place));
                }
            }
        }
        told
    }

    /// What was counted together.
    fn folded_lines(&self, alarms: bool) -> String {
        let mut text = String::new();
        for ((alarm, reason), (count, hosts)) in &self.folded {
            if *alarm != alarms {
                continue;
            }
            let begin = if alarms { "gig: ALARM:" } else { "  and" };
            let mut towards: Vec<_> = hosts.iter().map(|host| shown(host)).collect();
            if towards.len() == MOST_HOSTS {
                towards.push("…".to_owned());
            }
            let among = match towards.as_slice() {
                [] => String::new(),
                some => format!(", among them {}", some.join(", ")),
            };
            // Writing to a String cannot fail.
            writeln!(
                text,
                "{begin} {count} more without a record each: {reason}{among}"
            )
            .ok();
        }
        text
    }
}

fn line(denied: &Denied, count: u64, with_request: bool) -> String {
    let port = at_port(denied.port);
    let request = match &denied.request {
        Some((method, Some(path))) if with_request => {
            format!("  {} {}", shown(method), shown(path))
        }
        Some((method, None)) if with_request => format!("  {}", shown(method)),
        Some(_) | None => String::new(),
    };
    let verdict = if denied.would {
        "would be denied: "
    } else {
        ""
    };
    let times = times(count);
    format!(
        "{}{port}{request}  {verdict}{}{times}",
        shown(&denied.host),
        denied.reason
    )
}

fn at_port(port: Option<u16>) -> String {
    port.map_or_else(String::new, |port| format!(":{port}"))
}

fn times(count: u64) -> String {
    if count == 1 {
        return String::new();
    }
    format!("  ({count} times)")
}

/// Control, bidirectional and other invisible characters as escapes, and not too much of it.
fn shown(text: &str) -> String {
    shown_up_to(text, MOST_SHOWN)
}

fn shown_up_to(text: &str, most: usize) -> String {
    let mut out: String = text
        .chars()
        .take(most)
        .flat_map(|c| {
            let escaped: Box<dyn Iterator<Item = char>> = if is_plain(c) {
                Box::new(std::iter::once(c))
            } else {
                Box::new(c.escape_unicode())
            };
            escaped
        })
        .collect();
    if text.chars().nth(most).is_some() {
        out.push('…');
    }
    out
}

/// As many as one record of what was folded names.
const MOST_HOSTS: usize = 16;
/// Long enough for any name of DNS, and any real path that a person would write a rule for.
const MOST_SHOWN: usize = 256;

#[cfg(test)]
mod tests;
