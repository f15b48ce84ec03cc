//! Denials that wait for somebody: destinations of the last day that were denied and still would be.
//!
//! The record keeps each attempt that differs from others once: those that the policy that is in force for
//! their server now would let pass are left out, as the code that enforces says. One line a destination, with its
//! newest record, from which the rule is two clicks away, also where nothing is in force for the server yet. Servers
//! take turns, so that one that is denied much hides nobody else's.

use std::collections::{BTreeMap, btree_map::Entry};

use gig_audit::{
    HELD,
    counts::{KeptAttempt, MOST_ATTEMPTS, MOST_OF_DESTINATION, MOST_OF_PROFILE, Tried, TriedAsked},
    row::Row,
    search::Found,
};
use jiff::SignedDuration;

use crate::{
    allow::{address, can_be_allowed},
    api::audit::written,
    api_error::Problem,
    app::App,
    credential::Digest,
    document,
    remedy::{Remedies, Remedy, profile_of},
};

/// What somebody may want to allow.
#[derive(Debug, Default)]
pub(crate) struct Listed {
    /// The newest first.
    pub(crate) waiting: Vec<Waiting>,
    /// How many more there are.
    pub(crate) more: usize,
    /// Of each server how many denials are of attempts that are not kept one by one: their destinations may be
    /// missing.
    pub(crate) beyond: Vec<(String, u64)>,
    /// New records that were not looked at.
    pub(crate) behind: u64,
    /// Not all records of the day are counted, or there were more attempts than are read.
    pub(crate) cut: bool,
}

impl Listed {
    /// What may be missing, in sentences.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        let beyond: u64 = self.beyond.iter().map(|(_, count)| count).sum();
        if beyond > 0 {
            notes.push(format!(
                "{beyond} more denials differ too much from others to be kept one by one, and may be of destinations \
                 that are not listed: of each server and day {MOST_ATTEMPTS} denied attempts are kept, \
                 {MOST_OF_PROFILE} of one profile and {MOST_OF_DESTINATION} of one destination."
            ));
        }
        if self.behind > 0 {
            notes.push(format!("{} new records are not counted yet.", self.behind));
        }
        if self.cut {
            notes.push("Not all denials of the last day could be looked at.".to_owned());
        }
        notes
    }
}

/// A destination that somebody may want to allow.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// The newest record of it.
    pub(crate) newest: Found,
    /// The policy that would deny it now; empty where nothing is in force for its server.
    pub(crate) policy: String,
    /// Where the rule goes that lets it pass.
    pub(crate) remedy: Remedy,
    /// Denials of the host on this port, whatever was asked of it, that would be denied still; of today and yesterday.
    pub(crate) count: u64,
}

/// Which destination, of which policy or server.
type Place = (String, String, Option<u16>);

/// One of them, before its record is read.
struct Wanted {
    server: String,
    newest: KeptAttempt,
    remedy: Remedy,
    count: u64,
}

/// What is told of one of them before its record is read.
#[derive(Debug)]
pub(crate) struct Told<'a> {
    /// As [`Waiting::what`].
    pub(crate) what: &'a str,
    /// The id of its newest record.
    pub(crate) record: &'a str,
    /// When that was, as in records.
    pub(crate) time: &'a str,
}

impl Waiting {
    /// Which destination of which policy: the same, whoever asks for it and how often.
    pub(crate) fn what(&self) -> String {
        let row = &self.newest.row;
        what(
            &self.remedy.policy,
            (row.host.as_deref().unwrap_or_default(), row.port),
        )
    }
}

impl Wanted {
    fn what(&self) -> String {
        let row = self.newest.row();
        what(
            &self.remedy.policy,
            (row.host.as_deref().unwrap_or_default(), row.port),
        )
    }

    /// With its record; what has gone meanwhile is no longer to be looked at.
    fn read(self, app: &App) -> Result<Option<Waiting>, Problem> {
        let found = app.read(|log| log.found_at(self.newest.newest))?;
        let kept = self.remedy.assign.is_none();
        Ok(found.map(|newest| Waiting {
            newest,
            policy: Some(self.remedy.policy.clone())
                .filter(|_| kept)
                .unwrap_or_default(),
            remedy: self.remedy,
            count: self.count,
        }))
    }
}

fn what(policy: &str, (host, port): (&str, Option<u16>)) -> String {
    Digest::of(&format!("{policy}\n{host}\n{port:?}")).words()
}

/// Those of the last day that are there for somebody (`sees`: what a server did for a profile), newest first: of
/// others' denials there is no entry, no count and no place that is taken. Reads the store and the record: for who is
/// beside the runtime.
///
/// # Errors
/// When one of both cannot be read.
pub(crate) fn waiting(app: &App, sees: impl Fn(&str, &str) -> bool) -> Result<Listed, Problem> {
    let (wanted, mut listed) = gathered(app, sees)?;
    let count = wanted.len();
    let mut turns = in_turns(wanted);
    turns.truncate(MOST_LISTED);
    turns.sort_by(|a, b| b.newest.last.cmp(&a.newest.last));
    for one in turns {
        listed.waiting.extend(one.read(app)?);
    }
    listed.more = count.saturating_sub(listed.waiting.len());
    Ok(listed)
}

/// Of the same those that `tell` picks, servers in turns, until there are `most` and their records are kept by `keep`.
/// What is not picked takes nobody's place.
///
/// # Errors
/// The same.
pub(crate) fn picked(
    app: &App,
    most: usize,
    (tell, keep): (impl Fn(&Told<'_>) -> bool, impl Fn(&Found) -> bool),
) -> Result<Listed, Problem> {
    let (mut wanted, mut listed) = gathered(app, |_, _| true)?;
    wanted.retain(|one| {
        let what = one.what();
        let (record, time) = (written(one.newest.newest), one.newest.last.as_str());
        let (what, record) = (what.as_str(), record.as_str());
        tell(&Told { what, record, time })
    });
    let mut turns = in_turns(wanted).into_iter();
    // What is not kept is read for nothing: whoever picks leaves it out the next time.
    for one in turns.by_ref().take(MOST_READ) {
        if listed.waiting.len() == most {
            listed.more += 1;
            break;
        }
        let kept = one.read(app)?.filter(|one| keep(&one.newest));
        listed.waiting.extend(kept);
    }
    listed.more += turns.len();
    Ok(listed)
}

/// All of the last day that `sees` takes in, and what may be missing.
fn gathered(
    app: &App,
    sees: impl Fn(&str, &str) -> bool,
) -> Result<(Vec<Wanted>, Listed), Problem> {
    let now = app.clock.now();
    let since = now
        .checked_sub(SignedDuration::from_hours(24))
        .map_err(Problem::internal)?;
    let asked = TriedAsked {
        since: format!("{since:.6}"),
        server: None,
        denied: true,
    };
    let Tried {
        attempts,
        beyond,
        extent,
    } = app.read(|log| log.tried(&asked))?;
    let remedies = Remedies::read(app.store.as_ref(), document::moment(now));
    let mut remedies = remedies.map_err(Problem::internal)?;
    // Before destinations are merged: whose they were is not told by one of them.
    let theirs = attempts.into_iter().filter(|one| {
        let profile = one.what.profile.as_deref().unwrap_or_default();
        sees(&one.server, profile)
    });
    let wanted = gather(theirs.collect(), &mut remedies)?;
    let listed = Listed {
        beyond,
        behind: extent.behind,
        cut: extent.cut || extent.since.is_some_and(|from| from > asked.since),
        ..Listed::default()
    };
    Ok((wanted, listed))
}

/// One of each destination that is denied now; the newest attempt comes first.
fn gather(attempts: Vec<KeptAttempt>, remedies: &mut Remedies<'_>) -> Result<Vec<Wanted>, Problem> {
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    let mut all: Vec<Wanted> = Vec::new();
    for attempt in attempts {
        let row = attempt.row();
        let Some((server, host, port)) = place(&row) else {
            continue;
        };
        let remedy = remedies.place(&server, profile_of(&row));
        let Some(remedy) = remedy.map_err(Problem::internal)? else {
            continue;
        };
        // What passes by now is none of those that wait, and not counted with them.
        if !remedies.denies(&server, &row).map_err(Problem::internal)? {
            continue;
        }
        match places.entry((remedy.policy.clone(), host, port)) {
            Entry::Occupied(known) => {
                if let Some(known) = all.get_mut(*known.get()) {
                    known.count += attempt.count;
                }
            }
            Entry::Vacant(at) => {
                at.insert(all.len());
                all.push(Wanted {
                    server,
                    count: attempt.count,
                    newest: attempt,
                    remedy,
                });
            }
        }
    }
    Ok(all)
}

/// The newest of each server, then the second of each.
fn in_turns(wanted: Vec<Wanted>) -> Vec<Wanted> {
    let mut turns: BTreeMap<String, usize> = BTreeMap::new();
    let mut numbered: Vec<(usize, Wanted)> = wanted
        .into_iter()
        .map(|one| {
            let turn = turns.entry(one.server.clone()).or_default();
            *turn += 1;
            (*turn, one)
        })
        .collect();
    // Stable: within a turn they stay as they came.
    numbered.sort_by_key(|(turn, _)| *turn);
    numbered.into_iter().map(|(_, one)| one).collect()
}

/// Of a sandbox of which server, if a rule could open it.
fn place(row: &Row) -> Option<Place> {
    let server = row.server.clone()?;
    // What followed a name that was answered for that has a record of its own.
    let to_be_held = row.port.is_none() && row.findings.iter().any(|one| one == HELD);
    // An outcome tells of an address that stood in the way; all else it tells was told before.
    let is_told = row.event == "response" && address(row).is_none();
    (!to_be_held && !is_told && can_be_allowed(row))
        .then(|| (server, row.host.clone().unwrap_or_default(), row.port))
}

/// As many as somebody decides on in one go.
const MOST_LISTED: usize = 20;
/// Of records that are looked at for those that are to be told.
const MOST_READ: usize = 200;

#[cfg(test)]
mod tests {
    use gig_audit::{counts::What, search::Position};

    use super::*;

    #[test]
    fn only_what_a_rule_can_open_waits() {
        let mut denied = Row {
            host: Some("a.example".to_owned()),
            port: Some(443),
            protocol: Some("https".to_owned()),
            verdict: Some("deny".to_owned()),
            reason: Some("host_not_allowed".to_owned()),
            ..Row::default()
        };
        assert_eq!(place(&denied), None, "of no server");
        denied.server = Some("docs".to_owned());
        let want = ("docs".to_owned(), "a.example".to_owned(), Some(443));
        assert_eq!(place(&denied), Some(want), "whatever was in force then");
        denied.reason = Some("private_address".to_owned());
        assert_eq!(place(&denied), None, "nobody knows which");
        denied.event = "response".to_owned();
        denied.dst_ip = Some("10.1.2.3".to_owned());
        assert!(place(&denied).is_some());
        denied.reason = Some("host_not_allowed".to_owned());
        assert_eq!(place(&denied), None, "it was told before");
    }

    #[test]
    fn what_may_be_missing_is_said() {
        assert_eq!(Listed::default().notes(), Vec::<String>::new());
        let listed = Listed {
            beyond: vec![("docs".to_owned(), 40), ("mail".to_owned(), 2)],
            behind: 7,
            cut: true,
            ..Listed::default()
        };
        let notes = listed.notes();
        assert!(notes[0].starts_with("42 more denials"), "{notes:?}");
        assert!(notes[1].starts_with("7 new records"), "{notes:?}");
        assert_eq!(notes.len(), 3);
    }

    #[test]
    fn a_server_that_is_denied_much_hides_no_other() {
        let wanted = |server: &str, seq: u64| Wanted {
            server: server.to_owned(),
            newest: KeptAttempt {
                server: server.to_owned(),
                what: What::default(),
                count: 1,
                first: String::new(),
                last: format!("{seq:05}"),
                newest: Position { chain: 1, seq },
            },
            remedy: Remedy {
                policy: server.to_owned(),
                assign: None,
            },
            count: 1,
        };
        let mut all: Vec<Wanted> = (100..2000).rev().map(|seq| wanted("noisy", seq)).collect();
        all.extend([wanted("calm", 7), wanted("quiet", 6), wanted("calm", 5)]);
        let listed = in_turns(all);
        let listed = &listed[..MOST_LISTED];
        let of = |server: &str| listed.iter().filter(|one| one.server == server).count();
        assert_eq!(
            (of("noisy"), of("calm"), of("quiet")),
            (MOST_LISTED - 3, 2, 1)
        );
        assert_eq!(
            listed.iter().map(|one| one.newest.newest.seq).max(),
            Some(1999)
        );
    }
}
