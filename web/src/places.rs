//! Places for what takes long: so many at once, of which one caller has few, so that whoever asks for much
//! waits for themselves and not others for them.
//!
//! Whose turn it is is known where a request is answered, and kept beside its future ([`on_behalf`]): work
//! begins deep below a handler. What gig does by itself is nobody's, and waits for a place alone. Who has as
//! many waiting as may be is told to come again.

use std::{collections::HashMap, sync::Arc};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::api_error::Problem;

tokio::task_local! {
    /// Who asked for what is being done.
    static CALLER: Arc<str>;
}

/// Does something for a caller.
pub(crate) async fn on_behalf<T>(caller: Arc<str>, work: impl Future<Output = T>) -> T {
    CALLER.scope(caller, work).await
}

/// Places of one kind of work.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: Arc<Semaphore>,
    /// How many of them one caller has at once.
    each: usize,
    theirs: Mutex<HashMap<Arc<str>, Theirs>>,
}

/// Of one caller who works or waits.
#[derive(Debug)]
struct Theirs {
    turn: Arc<Semaphore>,
    count: usize,
}

/// One place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _one: OwnedSemaphorePermit,
    _turn: Option<OwnedSemaphorePermit>,
    _entry: Option<Entry>,
}

/// Somebody works or waits.
#[derive(Debug)]
struct Entry {
    caller: Arc<str>,
    shared: Arc<Shared>,
}

impl Places {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Shared {
            all: Arc::new(Semaphore::new(all)),
            each,
            theirs: Mutex::default(),
        }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 429 where as many of the caller's wait as may.
    pub(crate) async fn take(&self) -> Result<Place, Problem> {
        let caller = CALLER.try_with(Arc::clone).ok();
        let (entry, turn) = match caller {
            Some(caller) => {
                let (entry, turn) = self.enter(caller)?;
                let turn = turn.acquire_owned().await.map_err(Problem::internal)?;
                (Some(entry), Some(turn))
            }
            None => (None, None),
        };
        let one = Arc::clone(&self.0.all).acquire_owned().await;
        Ok(Place {
            _one: one.map_err(Problem::internal)?,
            _turn: turn,
            _entry: entry,
        })
    }

    fn enter(&self, caller: Arc<str>) -> Result<(Entry, Arc<Semaphore>), Problem> {
        let mut theirs = self.0.theirs.lock();
        let one = theirs.entry(Arc::clone(&caller)).or_insert_with(|| Theirs {
            turn: Arc::new(Semaphore::new(self.0.each)),
            count: 0,
        });
        if one.count >= MOST {
            let words = format!(
                "{MOST} of your requests that take long are under way already: wait for one of them"
            );
            let problem = Problem::new(StatusCode::TOO_MANY_REQUESTS, "too_many", words);
            return Err(problem.retried_after(AGAIN));
        }
        one.count += 1;
        let turn = Arc::clone(&one.turn);
        drop(theirs);
        let shared = Arc::clone(&self.0);
        Ok((Entry { caller, shared }, turn))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut theirs = self.shared.theirs.lock();
        let Some(one) = theirs.get_mut(&self.caller) else {
            return;
        };
        one.count -= 1;
        if one.count == 0 {
            theirs.remove(&self.caller);
        }
    }
}

/// Of one caller, at work and waiting: a page with several parts, in several windows.
const MOST: usize = 16;
/// Seconds after which somebody may have a place.
const AGAIN: u64 = 2;

#[cfg(test)]
mod tests {
    use futures_util::{FutureExt as _, future::join_all, poll};

    use super::*;

    #[tokio::test]
    async fn who_asks_for_much_waits_for_themselves_and_is_told_to_come_again() {
        let places = Places::new(2, 1);
        let of = |name: &str| on_behalf(name.into(), places.take()).boxed();
        let mut greedy: Vec<_> = (0..64).map(|_| of("auditor")).collect();
        let mut held = Vec::new();
        let mut refused = 0;
        let mut waiting = Vec::new();
        for mut one in greedy.drain(..) {
            match poll!(&mut one) {
                std::task::Poll::Ready(Ok(place)) => held.push(place),
                std::task::Poll::Ready(Err(problem)) => {
                    assert_eq!(problem.status(), StatusCode::TOO_MANY_REQUESTS);
                    refused += 1;
                }
                std::task::Poll::Pending => waiting.push(one),
            }
        }
        assert_eq!(
            (held.len(), waiting.len(), refused),
            (1, MOST - 1, 64 - MOST)
        );
        // Somebody else has the other place at once.
        let other = of("editor").now_or_never().unwrap().unwrap();
        assert!(poll!(&mut of("third")).is_pending(), "both are taken");
        drop((held, other));
        let all = join_all(waiting.into_iter().map(|one| async { one.await.map(drop) }));
        assert!(all.await.iter().all(Result::is_ok));
        assert!(places.0.theirs.lock().is_empty(), "nobody is remembered");
        assert!(of("auditor").await.is_ok());
    }

    #[tokio::test]
    async fn who_gives_up_leaves_the_line() {
        let places = Places::new(1, 1);
        let place = places.take().await.unwrap();
        for _ in 0..3 * MOST {
            let mut waits = on_behalf("ana".into(), places.take()).boxed();
            assert!(poll!(&mut waits).is_pending());
        }
        drop(place);
        assert!(on_behalf("ana".into(), places.take()).await.is_ok());
    }
}
