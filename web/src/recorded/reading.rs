//! Reading recorded traffic: what the record keeps of it, and records where it keeps none.

use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    rc::Rc,
};

use gig_audit::{
    Record,
    attempts::{Gathering, Traffic, of_kept},
    counts::{KeptAttempt, Tried, TriedAsked, What, what},
    row::Row,
    search::{Filter, Page, Query},
};
use gig_policy::Reach;
use jiff::SignedDuration;

use super::{
    MOST_DAYS, Span,
    covered::{Covered, before, removed},
};
use crate::{api_error::Problem, app::App, in_force::InForce};

/// Under what somebody's traffic is decided beside their policy: the same document decides otherwise there.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Under {
    /// Their server reaches private addresses and nothing else.
    pub(super) is_local: bool,
    /// Which policies bound theirs.
    pub(super) floors: Vec<String>,
    /// Theirs, where it takes part.
    pub(super) policy: Option<String>,
    /// Under what it is decided now, where that is compared with what would be.
    pub(super) now: Option<Box<Self>>,
}

impl Under {
    /// Where a draft takes the place of their policy.
    #[expect(clippy::unnecessary_wraps, reason = "others leave some out")]
    pub(super) fn alone(in_force: &InForce<'_>, server: &str, profile: &str) -> Option<Self> {
        Some(Self {
            is_local: in_force.is_local(server),
            floors: in_force.floors_of(server, profile),
            policy: None,
            now: None,
        })
    }

    /// Where their own policy decides.
    pub(super) fn with_policy(in_force: &InForce<'_>, server: &str, profile: &str) -> Self {
        Self {
            is_local: in_force.is_local(server),
            floors: in_force.floors_of(server, profile),
            policy: in_force.name_for(server, profile),
            now: None,
        }
    }

    pub(super) const fn reach(&self) -> Reach {
        match self.is_local {
            true => Reach::Local,
            false => Reach::External,
        }
    }
}

/// Under what the traffic of a server for a profile is decided; `None` where it takes no part.
pub(super) type Whom<'a> = dyn Fn(&InForce<'_>, &str, &str) -> Option<Under> + 'a;

/// What was read, by what it is decided under.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) groups: BTreeMap<Under, Traffic>,
    pub(super) unreadable: u64,
    pub(super) extent: Covered,
}

impl Recorded {
    pub(super) fn records(&self) -> u64 {
        self.groups.values().map(|one| one.records).sum()
    }

    /// Takes lines, the newest first, oldest first; each is gone when it was taken. `under`: what a server did for a
    /// profile.
    pub(super) fn of(mut lines: Vec<String>, under: impl Fn(&str, &str) -> Option<Under>) -> Self {
        let mut groups: BTreeMap<Under, Gathering> = BTreeMap::new();
        let mut unreadable = 0;
        while let Some(line) = lines.pop() {
            let Ok(record) = serde_json::from_str::<Record>(&line) else {
                unreadable += 1;
                continue;
            };
            let text =
                |text: &Option<std::sync::Arc<str>>| text.as_deref().unwrap_or_default().to_owned();
            let under = under(&text(&record.entry.server), &text(&record.entry.profile));
            if let Some(under) = under {
                groups.entry(under).or_default().take(&record);
            }
        }
        let groups = groups.into_iter().map(|(under, one)| (under, one.finish()));
        Self {
            groups: groups.collect(),
            unreadable,
            extent: Covered::default(),
        }
    }

    /// Takes attempts as they are kept.
    fn of_kept(kept: Vec<KeptAttempt>, under: impl Fn(&str, &str) -> Option<Under>) -> Self {
        let mut groups: BTreeMap<Under, Vec<KeptAttempt>> = BTreeMap::new();
        for one in kept {
            let profile = one.what.profile.as_deref().unwrap_or_default();
            if let Some(under) = under(&one.server, profile) {
                groups.entry(under).or_default().push(one);
            }
        }
        let mut read = Self::default();
        for (under, kept) in groups {
            let (traffic, unreadable) = of_kept(&kept);
            read.groups.insert(under, traffic);
            read.unreadable += unreadable;
        }
        read
    }

    fn add(&mut self, other: Self) {
        for (under, other) in other.groups {
            let one = self.groups.entry(under).or_default();
            one.records += other.records;
            one.guessed += other.guessed;
            one.attempts.extend(other.attempts);
        }
        self.unreadable += other.unreadable;
    }
}

/// What bounds a server for a profile, looked up once however much they asked for.
struct Bound {
    /// `None` where it takes no part.
    under: Option<Under>,
    floors: Vec<String>,
    policy: Option<String>,
}

/// All of them that are asked for.
struct Bounds<'a> {
    in_force: InForce<'a>,
    whom: &'a Whom<'a>,
    known: RefCell<HashMap<(String, String), Rc<Bound>>>,
}

impl<'a> Bounds<'a> {
    fn read(app: &'a App, whom: &'a Whom<'a>) -> Result<Self, Problem> {
        Ok(Self {
            whom,
            in_force: InForce::read(app.store.as_ref()).map_err(Problem::internal)?,
            known: RefCell::default(),
        })
    }

    fn of(&self, server: &str, profile: &str) -> Rc<Bound> {
        let mut known = self.known.borrow_mut();
        let one = known.entry((server.to_owned(), profile.to_owned()));
        let make = || Bound {
            under: (self.whom)(&self.in_force, server, profile),
            floors: self.in_force.floors_of(server, profile),
            policy: self.in_force.name_for(server, profile),
        };
        Rc::clone(one.or_insert_with(|| Rc::new(make())))
    }

    /// Whether something is of the policy of the span. What a floor denied bears the floor's name.
    fn is_of(&self, span: &Span, server: &str, what: &What) -> bool {
        let profile = what.profile.as_deref().unwrap_or_default();
        let bound = self.of(server, profile);
        if bound.under.is_none() {
            return false;
        }
        let (Some(wanted), Some(decided)) = (&span.policy, &what.policy) else {
            return span.policy == what.policy || span.policy.is_none();
        };
        let is_bounded = || bound.floors.contains(decided) && bound.policy.as_ref() == Some(wanted);
        wanted == decided || is_bounded()
    }

    /// Asks for what floors decided, too.
    fn widened(&self, mut query: Query) -> Query {
        if !query.filter.policy.is_empty() {
            query.filter.policy.extend(self.in_force.all_floors());
        }
        query
    }
}

/// What was recorded of the span.
pub(super) fn read(app: &App, span: &Span, whom: &Whom<'_>) -> Result<Recorded, Problem> {
    let days = span.days.clamp(1, MOST_DAYS);
    let begun = app.clock.now();
    let since = before(begun, u32::from(days))?;
    let (kept, removed) = removed(app, begun, days)?;
    let bounds = Bounds::read(app, whom)?;
    let under = |server: &str, profile: &str| bounds.of(server, profile).under.clone();
    let late = || app.clock.now().duration_since(begun) > WITHIN;
    let page = |query: &Query| app.page(query);
    let of_policy = |server: &str, what: &What| bounds.is_of(span, server, what);
    let of_span = |row: &Row| {
        let server = row.server.as_deref().unwrap_or_default();
        what(row).is_none_or(|what| of_policy(server, &what))
    };
    // What is kept says of no attempt which sandbox it was.
    if span.sandbox.is_some() {
        let (lines, whole) = newest(
            bounds.widened(query(span, &since, None)),
            page,
            late,
            of_span,
        )?;
        let mut read = Recorded::of(lines, under);
        read.extent = Covered {
            days,
            cut: !whole,
            kept,
            removed,
            ..Covered::default()
        };
        return Ok(read);
    }
    let asked = TriedAsked {
        since: since.clone(),
        server: span.server.clone(),
        denied: false,
    };
    let Tried {
        mut attempts,
        beyond,
        extent,
    } = app.read(|log| log.tried(&asked))?;
    attempts.retain(|one| of_policy(&one.server, &one.what));
    // Only where there are others beside them.
    let known: HashSet<(String, What)> = attempts
        .iter()
        .filter(|_| !beyond.is_empty())
        .map(|one| (one.server.clone(), one.what.clone()))
        .collect();
    let mut covered = Covered {
        days,
        since: extent.since.clone().filter(|from| *from > since),
        left_out: 0,
        behind: extent.behind,
        cut: extent.cut,
        whole: since.get(..DATE).map(str::to_owned),
        guessed: 0,
        kept,
        removed,
    };
    let mut read = Recorded::of_kept(attempts, under);
    covered.guessed = read.groups.values().map(|one| one.guessed).sum();
    if !beyond.is_empty() {
        let is_new = |row: &Row| {
            let server = row.server.clone().unwrap_or_default();
            what(row).is_none_or(|what| {
                of_policy(&server, &what) && !known.contains(&(server.clone(), what))
            })
        };
        let query = bounds.widened(query(span, &since, Some(&beyond)));
        let (lines, whole) = newest(query, page, late, is_new)?;
        let more = Recorded::of(lines, under);
        let there: u64 = beyond.iter().map(|(_, count)| count).sum();
        if !whole {
            covered.left_out += there.saturating_sub(more.records());
        }
        read.add(more);
    }
    read.extent = covered;
    Ok(read)
}

/// Of an RFC 3339 time, in octets.
const DATE: usize = 10;

/// For the records of the span; of these servers, where they all have names.
fn query(span: &Span, since: &str, servers: Option<&[(String, u64)]>) -> Query {
    let list = |one: &Option<String>| one.iter().cloned().collect::<Vec<_>>();
    let events = ["dns", "connect", "request", "response", "secret.use"];
    let mut server = list(&span.server);
    if let Some(servers) = servers
        && servers.iter().all(|(name, _)| !name.is_empty())
    {
        server = servers.iter().map(|(name, _)| name.clone()).collect();
    }
    Query {
        filter: Filter {
            since: Some(since.to_owned()),
            event: events.map(str::to_owned).to_vec(),
            policy: list(&span.policy),
            server,
            sandbox: list(&span.sandbox),
            ..Filter::default()
        },
        before: None,
        limit: AT_ONCE,
    }
}

/// Lines, newest first, and whether there are no more.
pub(super) fn newest(
    mut query: Query,
    mut page: impl FnMut(&Query) -> Result<Page, Problem>,
    late: impl Fn() -> bool,
    wanted: impl Fn(&Row) -> bool,
) -> Result<(Vec<String>, bool), Problem> {
    let mut lines: Vec<String> = Vec::new();
    let mut octets = 0;
    let mut read = 0;
    loop {
        let page = page(&query)?;
        for found in page.records {
            read += 1;
            octets += found.line.len();
            if wanted(&found.row) {
                lines.push(found.line);
            }
        }
        query.before = match page.next {
            Some(next) => Some(next),
            None => return Ok((lines, true)),
        };
        if late() || read >= MOST || octets >= MOST_OCTETS {
            return Ok((lines, false));
        }
    }
}

/// Some fifty megabytes of lines, as long as they mostly are.
pub(super) const MOST: usize = 100_000;
/// Of lines that are as long as a sandbox can make them.
pub(super) const MOST_OCTETS: usize = 64 * 1024 * 1024;
/// Well within what a request may take.
const WITHIN: SignedDuration = SignedDuration::from_secs(10);
/// Records of one page.
pub(super) const AT_ONCE: usize = 1000;
