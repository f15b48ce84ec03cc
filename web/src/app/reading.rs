//! Reading the record, beside the runtime: few at once, of one caller fewer, and no longer than somebody waits
//! for it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use gig_audit::{
    counts::CountedLog,
    log::{ChainProof, ReadLogError, in_chain::InChain},
    search::{Found, Marks, Page, Position, Query},
};
use http::StatusCode;
use tokio::time::Instant;

use super::App;
use crate::{api_error::Problem, places::Places};

/// Whoever asked went away.
struct Gone(Arc<AtomicBool>);

impl Drop for Gone {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl App {
    /// Searches the record; given up with the future, and after [`WITHIN`].
    pub(crate) async fn search(self: &Arc<Self>, query: Query) -> Result<Page, Problem> {
        let gone = Gone(Arc::default());
        let (app, is_gone) = (Arc::clone(self), Arc::clone(&gone.0));
        self.look(move || app.page_while(&query, &is_gone)).await
    }

    /// At most `most` records behind `marks`.
    pub(crate) async fn recorded_after(
        self: &Arc<Self>,
        marks: Marks,
        most: usize,
    ) -> Result<Vec<Found>, Problem> {
        let app = Arc::clone(self);
        self.look(move || app.read(|log| log.after(&marks, most)))
            .await
    }

    /// What proves the record as it is now, but for its records.
    pub(crate) async fn proof(self: &Arc<Self>) -> Result<Vec<ChainProof>, Problem> {
        let app = Arc::clone(self);
        // Of a reader of its own: it holds on to this moment.
        self.look(move || {
            let mut reader = app.record.log().map_err(Problem::internal)?;
            reader.proof().map_err(Problem::internal)
        })
        .await
    }

    /// Where the record ends now.
    pub(crate) async fn record_end(self: &Arc<Self>) -> Result<Marks, Problem> {
        let app = Arc::clone(self);
        self.look(move || app.read(|log| log.end())).await
    }

    /// A record with what stands around it; given up with the future, and after [`WITHIN`].
    pub(crate) async fn in_chain(
        self: &Arc<Self>,
        at: Position,
    ) -> Result<Option<InChain>, Problem> {
        let gone = Gone(Arc::default());
        let (app, is_gone) = (Arc::clone(self), Arc::clone(&gone.0));
        self.look(move || {
            let stop = within(&is_gone);
            app.read(|log| log.in_chain(at, &app.known, &stop))
        })
        .await
    }

    /// Records that a search reads line by line still, and how many chains there are.
    pub(crate) async fn unindexed(self: &Arc<Self>) -> Result<(u64, u64), Problem> {
        let app = Arc::clone(self);
        self.look(move || {
            app.read(|log| {
                let chains = log.end()?.chains();
                Ok((log.unindexed()?, chains))
            })
        })
        .await
    }

    /// One page of the record; for those who are beside the runtime already.
    pub(crate) fn page(&self, query: &Query) -> Result<Page, Problem> {
        self.page_while(query, &AtomicBool::new(false))
    }

    fn page_while(&self, query: &Query, gone: &AtomicBool) -> Result<Page, Problem> {
        let stop = within(gone);
        self.read(|log| log.search_until(query, &stop))
    }

    async fn look<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = self.searching.take().await?;
        let done = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        done.await.map_err(Problem::internal)?
    }

    /// Reads the record; for those who are beside the runtime already.
    pub(crate) fn read<T>(
        &self,
        read: impl FnOnce(&mut dyn CountedLog) -> Result<T, ReadLogError>,
    ) -> Result<T, Problem> {
        let reader = self.readers.lock().pop();
        let mut reader = match reader {
            Some(reader) => reader,
            None => self.record.log().map_err(Problem::internal)?,
        };
        let answer = match read(reader.as_mut()) {
            Err(ReadLogError::Stopped) => Err(too_slow()),
            Err(ReadLogError::Row { seq, .. }) => Err(no_record(seq)),
            answer => Ok(answer.map_err(Problem::internal)?),
        };
        let mut readers = self.readers.lock();
        if readers.len() < READERS {
            readers.push(reader);
        }
        answer
    }
}

/// Says when to give up: nobody waits any more, or it took too long.
fn within(gone: &AtomicBool) -> impl Fn() -> bool {
    let begun = Instant::now();
    move || gone.load(Ordering::Relaxed) || begun.elapsed() > WITHIN
}

/// Somebody changed it: what is left is evidence, and not gig's to mend.
fn no_record(seq: u64) -> Problem {
    let words = format!(
        "what stands at place {seq} of a chain is no record any more: somebody changed it. `gig audit verify` says \
         what holds"
    );
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "damaged_record", words)
}

/// Places of those who search: each has a reader.
pub(super) fn places() -> Places {
    Places::new(SEARCHING, EACH)
}

fn too_slow() -> Problem {
    let words = format!(
        "the search took longer than {} seconds and was given up: name a time, a sandbox or a host",
        WITHIN.as_secs()
    );
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", words).retried_after(1)
}

/// Of ten million records a search takes a third of a second; one of words that the index does not know
/// reads all of them.
const WITHIN: Duration = Duration::from_secs(20);
/// One more than one person has.
const SEARCHING: usize = 3;
/// Of those, one caller's; a person has two, where an export of theirs runs beside what they look at. Another always
/// finds one soon.
const EACH: usize = 1;
/// Each has a page cache of its own.
const READERS: usize = 4;

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicUsize, task::Poll};

    use futures_util::{FutureExt as _, poll};
    use gig_audit::search::Filter;

    use super::*;
    use crate::{
        app::tests::Lab,
        places::{Turn, on_behalf},
    };

    fn query() -> Query {
        Query {
            filter: Filter::default(),
            before: None,
            limit: 1,
        }
    }

    #[tokio::test]
    async fn who_searches_slowly_stops_neither_the_editor_nor_others() {
        let lab = Lab::new();
        let (open, opened) = std::sync::mpsc::channel::<()>();
        let opened = Arc::new(parking_lot::Mutex::new(opened));
        let begun = Arc::new(AtomicUsize::new(0));
        // Sixty-four searches of one auditor, each of which would take for ever.
        let slow = || {
            let (opened, begun) = (Arc::clone(&opened), Arc::clone(&begun));
            let work = move || {
                begun.fetch_add(1, Ordering::SeqCst);
                let _ended = opened.lock().recv();
                Ok(())
            };
            on_behalf("auditor".into(), lab.app.look(work)).boxed()
        };
        let mut all: Vec<_> = (0..64).map(|_| slow()).collect();
        let mut refused = 0;
        for one in &mut all {
            if let Poll::Ready(answer) = poll!(one) {
                let status = answer.unwrap_err().status();
                assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
                refused += 1;
            }
        }
        assert!(refused > 32, "{refused}");
        let editor = on_behalf("editor".into(), async {
            lab.app.aside(|| 7).await.unwrap();
            lab.app.look(|| Ok(8)).await.unwrap()
        });
        let answer = tokio::time::timeout(Duration::from_secs(60), editor).await;
        assert_eq!(answer.unwrap(), 8);
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        drop(open);
    }

    #[tokio::test]
    async fn a_persons_search_and_export_leave_a_place_for_another() {
        let lab = Lab::new();
        let (open, opened) = std::sync::mpsc::channel::<()>();
        let opened = Arc::new(parking_lot::Mutex::new(opened));
        let slow = |turn: Turn| {
            let opened = Arc::clone(&opened);
            let work = move || {
                let _ended = opened.lock().recv();
                Ok(())
            };
            on_behalf(turn, lab.app.look(work)).boxed()
        };
        let export = Turn {
            own: "export of person ana".into(),
            person: "person ana".into(),
        };
        let mut both = [slow("person ana".into()), slow(export)];
        for one in &mut both {
            assert!(poll!(one).is_pending());
        }
        let other = on_behalf("person ben".into(), lab.app.look(|| Ok(8)));
        let answer = tokio::time::timeout(Duration::from_secs(20), other).await;
        assert!(matches!(answer, Ok(Ok(8))));
        drop(open);
    }

    #[tokio::test]
    async fn who_waits_for_their_own_searches_keeps_nobody_elses_live_view_waiting() {
        use futures_util::StreamExt as _;

        let lab = Lab::new();
        let store = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        let settings = gig_audit::RecorderSettings::new("here");
        let (recorder, _owner) = gig_audit::Recorder::start(Box::new(store), settings).unwrap();
        let (open, opened) = std::sync::mpsc::channel::<()>();
        let slow = lab.app.look(move || {
            let _ended = opened.recv();
            Ok(())
        });
        let mut slow = on_behalf("ana".into(), slow).boxed();
        assert!(poll!(&mut slow).is_pending());
        let watch = |name: &'static str| {
            let app = &lab.app;
            let caller = crate::auth::Caller::itself(name);
            let watch =
                async move { crate::feed::watch(app, &caller, (Filter::default(), None)).await };
            on_behalf(name.into(), watch)
        };
        let mut hers = watch("ana").boxed();
        for _ in 0..20 {
            assert!(poll!(&mut hers).is_pending(), "she has no turn left");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let his = tokio::time::timeout(Duration::from_secs(60), watch("ben")).await;
        let mut his = std::pin::pin!(his.unwrap().unwrap());
        let entry = gig_audit::Entry::new(gig_audit::Event::Admin);
        recorder.record(entry).await.unwrap();
        let begins = his.next().await;
        assert!(matches!(begins, Some(crate::feed::Told::Begins(_))));
        let told = tokio::time::timeout(Duration::from_secs(10), his.next()).await;
        assert!(matches!(told.unwrap(), Some(crate::feed::Told::Record(..))));
        drop(open);
    }

    #[tokio::test]
    async fn a_search_ends_when_nobody_waits_for_it_any_more() {
        let lab = Lab::new();
        let store = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        let settings = gig_audit::RecorderSettings::new("here");
        let (recorder, _owner) = gig_audit::Recorder::start(Box::new(store), settings).unwrap();
        let entry = gig_audit::Entry::new(gig_audit::Event::Admin);
        recorder.record(entry).await.unwrap();
        let gone = Gone(Arc::default());
        let told = Arc::clone(&gone.0);
        assert_eq!(
            lab.app.page_while(&query(), &told).unwrap().records.len(),
            1
        );
        drop(gone);
        let given_up = lab.app.page_while(&query(), &told).unwrap_err();
        assert_eq!(given_up.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(lab.app.readers.lock().len(), 1, "the reader is kept");
    }
}
