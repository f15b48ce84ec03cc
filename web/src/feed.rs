//! What is recorded, as it is recorded, for those who watch.
//!
//! Whoever watches looks twice a second, and the first of them who does so reads the record for all: many
//! cost what one costs. What was read lately is kept, bounded; who reads too slowly, or comes back too
//! late, is told that something was left out and finds it in the record. A watcher's right to look is asked
//! again while they watch. Who may begin is the handlers' to say.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use futures_util::{Stream, stream};
use gig_audit::search::{Filter, Found, Marks};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::{
    api_error::Problem,
    app::App,
    auth::Caller,
    counts::{Counts, Place},
    places::on_behalf,
};

/// What those who watch share.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    watching: Counts<Arc<str>>,
    reading: tokio::sync::Mutex<()>,
    kept: Mutex<Kept>,
    closed: AtomicBool,
}

/// The newest records, numbered as they were read.
#[derive(Debug, Default)]
struct Kept {
    /// Up to where the record was read, and when.
    read: Option<(Marks, Instant)>,
    /// The number of the first of them.
    first: u64,
    records: VecDeque<Arc<Found>>,
}

/// What a watcher is told.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// Where it begins, so that whoever is cut off before anything came goes on from there.
    Begins(Marks),
    /// A record, and where to go on after it.
    Record(Arc<Found>, Marks),
    /// Some were left out: there were too many.
    Left,
    /// The end, and why.
    End(String),
}

/// One who watches.
struct Watcher {
    app: Arc<App>,
    caller: Caller,
    filter: Filter,
    /// Up to where they know the record.
    seen: Marks,
    /// The number of the next they look at.
    next: u64,
    asked: Instant,
    ready: VecDeque<Told>,
    ended: bool,
    _place: Place<Arc<str>>,
}

impl Feed {
    /// Everybody's watching ends within half a second.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn enter(&self, name: &Arc<str>) -> Result<Place<Arc<str>>, Problem> {
        let place = self.watching.take(Arc::clone(name), MOST_OF_ONE, MOST);
        place.ok_or_else(|| {
            Problem::unavailable(
                "as many watch the record as may: close another page that does, or search instead",
            )
        })
    }

    /// Reads what is new, unless somebody does or just did. What is read for all who watch takes nobody's turn:
    /// one whose searches wait would have everybody wait with them.
    async fn look(&self, app: &Arc<App>) -> Result<(), Problem> {
        on_behalf("feed".into(), self.read_on(app)).await
    }

    async fn read_on(&self, app: &Arc<App>) -> Result<(), Problem> {
        let Ok(_alone) = self.reading.try_lock() else {
            return Ok(());
        };
        let now = Instant::now();
        let read = self.kept.lock().read.clone();
        let known = read.filter(|(_, at)| now.duration_since(*at) < FORGOTTEN);
        let mut marks = match known {
            Some((_, at)) if now.duration_since(at) < LOOK / 2 => return Ok(()),
            Some((marks, _)) => marks,
            // Nobody has watched: what came meanwhile is nobody's news.
            None => {
                let end = app.record_end().await?;
                self.kept.lock().begin_at(end);
                return Ok(());
            }
        };
        for _ in 0..PAGES {
            let found = app.recorded_after(marks.clone(), PAGE).await?;
            let all = found.len() < PAGE;
            for one in &found {
                marks.set(one.at);
            }
            self.kept.lock().take(found, marks.clone());
            if all {
                return Ok(());
            }
        }
        let end = app.record_end().await?;
        self.kept.lock().begin_at(end);
        Ok(())
    }
}

impl Kept {
    fn next(&self) -> u64 {
        let count = u64::try_from(self.records.len()).unwrap_or(u64::MAX);
        self.first.saturating_add(count)
    }

    fn take(&mut self, found: Vec<Found>, marks: Marks) {
        self.records.extend(found.into_iter().map(Arc::new));
        while self.records.len() > KEPT {
            self.records.pop_front();
            self.first += 1;
        }
        self.read = Some((marks, Instant::now()));
    }

    /// From here on; one number is left out, by which it is seen that records were.
    fn begin_at(&mut self, end: Marks) {
        self.first = self.next().saturating_add(1);
        self.records.clear();
        self.read = Some((end, Instant::now()));
    }
}

/// What `filter` finds, from `after` or from now on, for as long as `caller` may look.
///
/// # Errors
/// When too many watch, or the record cannot be read.
pub(crate) async fn watch(
    app: &Arc<App>,
    caller: &Caller,
    (filter, after): (Filter, Option<Marks>),
) -> Result<impl Stream<Item = Told> + Send + use<>, Problem> {
    let place = app.feed.enter(&caller.name)?;
    app.feed.look(app).await?;
    let mut watcher = Watcher {
        app: Arc::clone(app),
        caller: caller.clone(),
        filter,
        seen: Marks::default(),
        next: app.feed.kept.lock().next(),
        asked: Instant::now(),
        ready: VecDeque::new(),
        ended: false,
        _place: place,
    };
    let end = app.record_end().await?;
    match after {
        Some(after) => {
            let known = after.within(&end);
            watcher.ready.push_back(Told::Begins(known.clone()));
            // A record that was brought back from a backup ends before what somebody has seen of the other one.
            if known != after {
                watcher.ready.push_back(Told::Left);
            }
            watcher.catch_up(known).await?;
        }
        None => {
            watcher.ready.push_back(Told::Begins(end.clone()));
            watcher.seen = end;
        }
    }
    let told = |mut watcher: Watcher| async move {
        let told = watcher.told().await?;
        Some((told, watcher))
    };
    Ok(stream::unfold(watcher, told))
}

impl Watcher {
    /// What was recorded since `after`, as far as it is not too much.
    async fn catch_up(&mut self, after: Marks) -> Result<(), Problem> {
        self.seen = after;
        for _ in 0..PAGES {
            let found = self.app.recorded_after(self.seen.clone(), PAGE).await?;
            let all = found.len() < PAGE;
            for one in found {
                self.take(&Arc::new(one));
            }
            if all {
                return Ok(());
            }
        }
        self.ready.push_back(Told::Left);
        self.seen = self.app.record_end().await?;
        Ok(())
    }

    fn take(&mut self, found: &Arc<Found>) {
        if found.at.seq <= self.seen.of(found.at.chain) {
            return;
        }
        self.seen.set(found.at);
        if self.filter.matches(&found.row) {
            let told = Told::Record(Arc::clone(found), self.seen.clone());
            self.ready.push_back(told);
        }
    }

    async fn told(&mut self) -> Option<Told> {
        loop {
            if let Some(told) = self.ready.pop_front() {
                return Some(told);
            }
            if self.ended {
                return None;
            }
            sleep(LOOK).await;
            if let Err(end) = self.look().await {
                self.ended = true;
                self.ready.push_back(Told::End(end));
            }
        }
    }

    async fn look(&mut self) -> Result<(), String> {
        if self.app.feed.closed.load(Ordering::Relaxed) {
            return Err("gig goes down".to_owned());
        }
        if self.asked.elapsed() >= STILL {
            let still = self.caller.still(&self.app).await;
            still.map_err(|problem| problem.detail)?;
            self.asked = Instant::now();
        }
        let app = Arc::clone(&self.app);
        let looked = app.feed.look(&app).await;
        looked.map_err(|problem| problem.detail)?;
        let fresh: Vec<Arc<Found>> = {
            let kept = app.feed.kept.lock();
            if self.next < kept.first {
                self.next = kept.first;
                self.ready.push_back(Told::Left);
            }
            let from = usize::try_from(self.next - kept.first).unwrap_or(usize::MAX);
            let fresh = kept.records.iter().skip(from).cloned().collect();
            self.next = self.next.max(kept.next());
            fresh
        };
        for found in &fresh {
            self.take(found);
        }
        Ok(())
    }
}

/// How often the record is looked at: at once, to an eye.
const LOOK: Duration = Duration::from_millis(500);
/// Who watches looks more often than this; where nobody did, nobody watches.
const FORGOTTEN: Duration = Duration::from_secs(30);
/// How often it is asked whether somebody may still look.
const STILL: Duration = Duration::from_secs(1);
/// Records read at once, and how many such pages before the rest is left out: 4,000 twice a second.
const PAGE: usize = 500;
const PAGES: usize = 8;
/// Records that are kept for who reads slowly: some megabytes.
const KEPT: usize = 4_000;
/// All who watch; each holds a connection.
const MOST: usize = 64;
/// Of one person or token: some pages of a browser.
const MOST_OF_ONE: usize = 8;

#[cfg(test)]
mod tests;
