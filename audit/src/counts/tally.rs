//! Counting some records: pure, and bounded by how many they are.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use gig_policy::special_purpose::{AddressClass, classify};

use super::{MOST_HOSTS, What, shares::Shares};
use crate::{HELD, counted, retention::Class, row::Row, sha256::sha256};

/// Counts of some records of one chain. Some are negative: what is counted already and was taken back.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hours: BTreeMap<Hour, i64>,
    pub(crate) hosts: BTreeMap<DayHost, Decisions>,
    pub(crate) attempts: BTreeMap<DayAttempt, Times>,
}

/// Whose decisions of an hour.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Hour {
    pub(crate) hour: String,
    pub(crate) server: String,
    pub(crate) class: &'static str,
    pub(crate) verdict: &'static str,
}

/// Which host on which day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DayHost {
    pub(crate) day: String,
    pub(crate) server: String,
    /// Empty: others.
    pub(crate) host: String,
    pub(crate) class: &'static str,
}

/// Which attempt on which day.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DayAttempt {
    pub(crate) day: String,
    pub(crate) server: String,
    pub(crate) denied: bool,
    pub(crate) id: Vec<u8>,
}

/// Decisions about a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Decisions {
    pub(crate) allowed: i64,
    pub(crate) denied: i64,
    pub(crate) would_deny: i64,
    pub(crate) first: String,
    pub(crate) last: String,
}

/// How often something was tried.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Times {
    pub(crate) class: &'static str,
    /// [`What`] as JSON; empty: others.
    pub(crate) what: String,
    pub(crate) count: i64,
    pub(crate) first: String,
    pub(crate) last: String,
    /// Key of the newest record.
    pub(crate) newest: i64,
}

/// Of what there is already something, by day and server: it is added to whatever the bound says.
#[derive(Debug, Default)]
pub(crate) struct Known {
    pub(crate) hosts: BTreeMap<(String, String), HashSet<(String, String)>>,
    pub(crate) attempts: BTreeMap<(String, String, bool), Shares>,
}

impl Tally {
    /// Takes a record into account; `key` says where it stands.
    pub(crate) fn take(&mut self, row: &Row, key: i64) {
        self.count(row, key, 1);
    }

    /// Takes one out of it that is counted here or was before: what it let go was refused after all.
    pub(crate) fn take_back(&mut self, row: &Row, key: i64) {
        self.count(row, key, -1);
    }

    /// Without what cancels out.
    pub(crate) fn settled(mut self) -> Self {
        self.hours.retain(|_, count| *count != 0);
        self.hosts
            .retain(|_, one| (one.allowed, one.denied, one.would_deny) != (0, 0, 0));
        self.attempts.retain(|_, times| times.count != 0);
        self
    }

    fn count(&mut self, row: &Row, key: i64, each: i64) {
        let Some((class, verdict)) = decided(row).or_else(|| carried(row)) else {
            return;
        };
        let (Some(day), Some(hour)) = (row.time.get(..10), row.time.get(..13)) else {
            return;
        };
        let server = row.server.clone().filter(|text| is_name(text));
        let server = server.unwrap_or_default();
        let stands_for = counted(&row.findings);
        let times = i64::try_from(stands_for.unwrap_or(1)).unwrap_or(i64::MAX) * each;
        // What was let and refused behind that, as at an address that is not public, is a denial of its own.
        let refused_after = row.event == "response" && verdict == "deny";
        if refused_after || (row.event != "response" && row.event != SECRET_USE) {
            let hour = Hour {
                hour: hour.to_owned(),
                server: server.clone(),
                class,
                verdict,
            };
            *self.hours.entry(hour).or_default() += times;
            // Of what was folded the hosts are others.
            let host = row.host.as_deref().or_else(|| stands_for.map(|_| ""));
            if let Some(host) = host {
                let host = DayHost {
                    day: day.to_owned(),
                    server: server.clone(),
                    host: Some(host)
                        .filter(|text| is_name(text))
                        .map(ToOwned::to_owned)
                        .unwrap_or_default(),
                    class,
                };
                let decisions = self.hosts.entry(host).or_default();
                decisions.take(verdict, times, &row.time);
            }
        }
        let Some(what) = what(row) else { return };
        let text = json(&what);
        let long = text.len() > LONGEST_WHAT;
        let attempt = DayAttempt {
            day: day.to_owned(),
            server,
            denied: verdict != "allow",
            id: if long { others(class) } else { id(&text) },
        };
        let times = Times {
            class,
            what: if long { String::new() } else { text },
            count: times,
            first: row.time.clone(),
            last: row.time.clone(),
            newest: key,
        };
        self.attempts.entry(attempt).or_default().add(times);
    }

    /// Days and servers of which something is counted here.
    pub(crate) fn places(&self) -> Vec<(String, String)> {
        let hosts = self.hosts.keys().map(|at| (&at.day, &at.server));
        let attempts = self.attempts.keys().map(|at| (&at.day, &at.server));
        let places: HashSet<_> = hosts.chain(attempts).collect();
        let owned = |(day, server): (&String, &String)| (day.clone(), server.clone());
        places.into_iter().map(owned).collect()
    }

    /// What is beyond the bounds is counted together, given what is counted already; that is added to.
    pub(crate) fn bounded(self, known: &mut Known) -> Self {
        let mut hosts: BTreeMap<DayHost, Decisions> = BTreeMap::new();
        for (mut at, decisions) in self.hosts {
            let place = (at.day.clone(), at.server.clone());
            let names = known.hosts.entry(place).or_default();
            let name = (at.host.clone(), at.class.to_owned());
            if !names.contains(&name) && !at.host.is_empty() {
                if names.len() < MOST_HOSTS {
                    names.insert(name);
                } else {
                    at.host.clear();
                }
            }
            hosts.entry(at).or_default().add(&decisions);
        }
        let mut attempts: BTreeMap<DayAttempt, Times> = BTreeMap::new();
        for (mut at, mut times) in self.attempts {
            let place = (at.day.clone(), at.server.clone(), at.denied);
            let kept = known.attempts.entry(place).or_default();
            if !times.what.is_empty() && !kept.takes(&at.id, at.denied, &times.what) {
                at.id = others(times.class);
                times.what.clear();
            }
            attempts.entry(at).or_default().add(times);
        }
        Self {
            hours: self.hours,
            hosts,
            attempts,
        }
    }
}

impl Decisions {
    fn take(&mut self, verdict: &str, times: i64, time: &str) {
        let mut one = Self {
            first: time.to_owned(),
            last: time.to_owned(),
            ..Self::default()
        };
        match verdict {
            "allow" => one.allowed = times,
            "deny" => one.denied = times,
            _ => one.would_deny = times,
        }
        self.add(&one);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.allowed += other.allowed;
        self.denied += other.denied;
        self.would_deny += other.would_deny;
        widen(
            (&mut self.first, &mut self.last),
            (&other.first, &other.last),
        );
    }
}

impl Times {
    /// Of the same attempt.
    pub(crate) fn add(&mut self, other: Self) {
        if other.last >= self.last {
            self.newest = other.newest;
        }
        self.count += other.count;
        widen(
            (&mut self.first, &mut self.last),
            (&other.first, &other.last),
        );
        (self.class, self.what) = (other.class, other.what);
    }
}

/// Of nothing the times are empty.
pub(crate) fn widen((first, last): (&mut String, &mut String), (from, to): (&str, &str)) {
    if first.is_empty() || from < first.as_str() {
        from.clone_into(first);
    }
    if to > last.as_str() {
        to.clone_into(last);
    }
}

/// What a record has in common with others that are alike; `None` where it tells of no attempt.
#[must_use]
pub fn what(row: &Row) -> Option<What> {
    let (_, verdict) = decided(row).or_else(|| carried(row))?;
    if row.host.is_none() && counted(&row.findings).is_some() {
        return None;
    }
    let is_response = row.event == "response";
    let address = row.dst_ip.clone().filter(|_| is_response);
    let inside = address.as_ref().and_then(|text| text.parse().ok());
    let inside = inside.is_some_and(|ip| classify(ip) != AddressClass::Global);
    if is_response && !inside {
        return None;
    }
    let request = |text: &Option<String>| text.clone().filter(|_| !is_response);
    Some(What {
        event: row.event.clone(),
        verdict: verdict.to_owned(),
        reason: row.reason.clone(),
        policy: row.policy.clone(),
        profile: row.profile.clone(),
        host: row.host.clone(),
        port: row.port,
        protocol: row.protocol.clone(),
        method: request(&row.method),
        path: request(&row.path),
        address,
        held: row.findings.iter().any(|one| one == HELD),
        secrets: secrets(row),
    })
}

/// What came of a request names what its record and `secret.use` told before.
fn secrets(row: &Row) -> Vec<String> {
    let tells = matches!(row.event.as_str(), "request" | SECRET_USE);
    let names = row.secrets.iter().filter(|_| tells).cloned();
    let names: BTreeSet<String> = names.collect();
    names.into_iter().collect()
}

/// A secret went into what follows the head of a request, which was let go: it is told with that one.
fn carried(row: &Row) -> Option<(&'static str, &'static str)> {
    let tells = row.event == SECRET_USE && row.host.is_some() && is_dated(row);
    tells.then_some((Class::Request.as_str(), "allow"))
}

/// How long it is kept, and the verdict; `None` where nothing was decided.
fn decided(row: &Row) -> Option<(&'static str, &'static str)> {
    let class = match row.event.as_str() {
        "dns" => Class::Dns,
        "connect" => Class::Connect,
        "request" | "response" => Class::Request,
        _ => return None,
    };
    let known = ["allow", "deny", "would_deny"].into_iter();
    let verdict = known
        .into_iter()
        .find(|word| row.verdict.as_deref() == Some(word))?;
    is_dated(row).then_some((class.as_str(), verdict))
}

fn is_dated(row: &Row) -> bool {
    row.time.is_ascii() && !row.time.contains(char::is_control)
}

/// As records have it.
const SECRET_USE: &str = "secret.use";

/// Longer ones are no names, and a database need not take every character.
fn is_name(text: &str) -> bool {
    text.len() <= LONGEST_NAME && !text.contains(char::is_control)
}

/// Always the same text for the same attempt.
fn json(what: &What) -> String {
    serde_json::to_string(what).unwrap_or_default()
}

fn id(text: &str) -> Vec<u8> {
    sha256(text.as_bytes()).iter().copied().take(ID).collect()
}

/// Shorter than any digest.
fn others(class: &str) -> Vec<u8> {
    class.as_bytes().to_vec()
}

/// A host name has 253; a name of a server is shorter.
const LONGEST_NAME: usize = 255;
/// Paths are mostly shorter; one that is longer costs a page of the database.
const LONGEST_WHAT: usize = 2048;
/// Of a digest: nobody finds two texts with the same 128 bits by chance, and who looks for them hides only an
/// attempt of their own server.
const ID: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counts::MOST_OF_PROFILE;

    fn row(event: &str, verdict: &str, host: &str, path: &str) -> Row {
        Row {
            time: "2026-11-21T09:30:00.000001Z".to_owned(),
            event: event.to_owned(),
            server: Some("docs".to_owned()),
            verdict: Some(verdict.to_owned()),
            host: Some(host.to_owned()),
            path: Some(path.to_owned()),
            ..Row::default()
        }
    }

    #[test]
    fn what_is_alike_is_counted_together_with_its_newest_record() {
        let mut tally = Tally::default();
        tally.take(&row("request", "deny", "a.example", "/1"), 7);
        tally.take(&row("request", "deny", "a.example", "/1"), 9);
        tally.take(&row("request", "allow", "a.example", "/1"), 8);
        tally.take(&row("request", "deny", "a.example", "/2"), 10);
        tally.take(&row("auth", "deny", "a.example", "/2"), 11);
        let hours: Vec<_> = tally
            .hours
            .iter()
            .map(|(at, count)| (at.verdict, *count))
            .collect();
        assert_eq!(hours, [("allow", 1), ("deny", 3)]);
        let hosts: Vec<_> = tally
            .hosts
            .values()
            .map(|one| (one.allowed, one.denied))
            .collect();
        assert_eq!(hosts, [(1, 3)]);
        let mut attempts: Vec<_> = tally
            .attempts
            .values()
            .map(|one| (one.count, one.newest))
            .collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [(1, 8), (1, 10), (2, 9)]);
    }

    #[test]
    fn what_stands_for_many_counts_as_many() {
        let mut tally = Tally::default();
        let mut folded = row("request", "deny", "", "/");
        (folded.host, folded.path) = (None, None);
        folded.findings = vec!["folded:4000".to_owned(), "host:a.example".to_owned()];
        tally.take(&folded, 1);
        let mut repeated = row("dns", "deny", "b.example", "/");
        repeated.findings = vec!["repeated:9".to_owned()];
        tally.take(&repeated, 2);
        assert_eq!(tally.hours.values().sum::<i64>(), 4009);
        let denied = tally.hosts.iter().map(|(at, one)| (&*at.host, one.denied));
        assert_eq!(denied.collect::<Vec<_>>(), [("", 4000), ("b.example", 9)]);
        let attempts: Vec<_> = tally.attempts.values().map(|one| one.count).collect();
        assert_eq!(attempts, [9]);
    }

    #[test]
    fn names_without_end_are_others_and_what_is_known_goes_on() {
        let count = MOST_HOSTS + 10;
        let mut tally = Tally::default();
        for n in 0..count {
            tally.take(&row("request", "deny", &format!("{n}.example"), "/"), 1);
        }
        let mut known = Known::default();
        let place = ("2026-11-21".to_owned(), "docs".to_owned());
        let name = ("5.example".to_owned(), "request".to_owned());
        known.hosts.entry(place).or_default().insert(name);
        let tally = tally.bounded(&mut known);
        // One of them was known, and the others have what is left.
        assert_eq!(tally.hosts.len(), MOST_HOSTS + 1);
        let five = tally.hosts.iter().find(|(at, _)| at.host == "5.example");
        assert_eq!(five.unwrap().1.denied, 1);
        let others = tally.hosts.iter().find(|(at, _)| at.host.is_empty());
        assert_eq!(others.unwrap().1.denied, 10);
        // All of them are of one profile, none.
        assert_eq!(tally.attempts.len(), MOST_OF_PROFILE + 1);
        let others = tally.attempts.values().find(|one| one.what.is_empty());
        let left = i64::try_from(count - MOST_OF_PROFILE).unwrap();
        assert_eq!(others.unwrap().count, left);
        let sum = tally.hours.values().sum::<i64>();
        assert_eq!(usize::try_from(sum), Ok(count));
    }

    #[test]
    fn hostile_names_and_paths_are_others() {
        let mut tally = Tally::default();
        tally.take(&row("request", "deny", "a\0b", &"/".repeat(5000)), 1);
        assert!(tally.hosts.keys().all(|at| at.host.is_empty()));
        assert!(tally.attempts.values().all(|one| one.what.is_empty()));
    }

    #[test]
    fn of_outcomes_only_addresses_that_are_not_public_are_kept() {
        let mut response = row("response", "allow", "a.example", "/");
        response.dst_ip = Some("1.1.1.1".to_owned());
        assert_eq!(what(&response), None);
        response.dst_ip = Some("10.1.2.3".to_owned());
        let kept = what(&response).unwrap();
        assert_eq!(
            (kept.address.as_deref(), kept.path),
            (Some("10.1.2.3"), None)
        );
        let mut tally = Tally::default();
        tally.take(&response, 1);
        assert!(tally.hours.is_empty() && tally.hosts.is_empty());
        // As metrics count it.
        response.verdict = Some("deny".to_owned());
        tally.take(&response, 2);
        assert_eq!(tally.hours.values().copied().collect::<Vec<_>>(), [1]);
        let denied: Vec<_> = tally.hosts.values().map(|one| one.denied).collect();
        assert_eq!(denied, [1]);
    }
}
