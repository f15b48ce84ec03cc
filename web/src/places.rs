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
    static CALLER: Turn;
}

/// Whose turn something is: a person's, or that of a token by itself, so that no program keeps its person waiting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Turn {
    /// Who.
    pub(crate) own: Arc<str>,
    /// The person behind them: all of theirs leave a place for others.
    pub(crate) person: Arc<str>,
}

/// Somebody who is nobody else's.
impl From<&str> for Turn {
    fn from(own: &str) -> Self {
        Self {
            own: own.into(),
            person: own.into(),
        }
    }
}

/// Does something for a caller.
pub(crate) async fn on_behalf<T>(caller: Turn, work: impl Future<Output = T>) -> T {
    CALLER.scope(caller, work).await
}

/// For whom the work is that goes on: what is spawned has to be told it again.
pub(crate) fn asked_by() -> Option<Turn> {
    CALLER.try_with(Clone::clone).ok()
}

/// Places of one kind of work.
#[derive(Debug, Clone)]
pub(crate) struct Places(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    all: Arc<Semaphore>,
    /// How many of them one caller has at once.
    each: usize,
    /// How many one person, by themselves and by tokens.
    together: usize,
    theirs: Mutex<HashMap<Arc<str>, Theirs>>,
    /// Of one person, by whatever they ask.
    of_person: Mutex<HashMap<Arc<str>, Theirs>>,
}

/// Of one caller who works or waits.
#[derive(Debug)]
struct Theirs {
    turn: Arc<Semaphore>,
    count: usize,
}

impl Theirs {
    fn new(at_once: usize) -> Self {
        Self {
            turn: Arc::new(Semaphore::new(at_once)),
            count: 0,
        }
    }
}

/// One place; free again when it is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    _one: OwnedSemaphorePermit,
    _turns: Option<[OwnedSemaphorePermit; 2]>,
    _entry: Option<Entry>,
}

/// Somebody works or waits.
#[derive(Debug)]
struct Entry {
    caller: Turn,
    shared: Arc<Shared>,
}

impl Places {
    pub(crate) fn new(all: usize, each: usize) -> Self {
        Self(Arc::new(Shared {
            all: Arc::new(Semaphore::new(all)),
            each,
            // All of one person's leave a place, where there are several.
            together: all.saturating_sub(1).max(1),
            theirs: Mutex::default(),
            of_person: Mutex::default(),
        }))
    }

    /// Waits for a place.
    ///
    /// # Errors
    /// 429 where as many of the caller's wait as may.
    pub(crate) async fn take(&self) -> Result<Place, Problem> {
        let (entry, turns) = match asked_by() {
            Some(caller) => {
                let (entry, own, person) = self.enter(caller)?;
                let own = own.acquire_owned().await.map_err(Problem::internal)?;
                // Each of a person's stands here with what it has turns for: none of them is in line with a crowd.
                let person = person.acquire_owned().await.map_err(Problem::internal)?;
                (Some(entry), Some([own, person]))
            }
            None => (None, None),
        };
        let one = Arc::clone(&self.0.all).acquire_owned().await;
        Ok(Place {
            _one: one.map_err(Problem::internal)?,
            _turns: turns,
            _entry: entry,
        })
    }

    fn enter(&self, caller: Turn) -> Result<(Entry, Arc<Semaphore>, Arc<Semaphore>), Problem> {
        let mut theirs = self.0.theirs.lock();
        let one = theirs.entry(Arc::clone(&caller.own));
        let one = one.or_insert_with(|| Theirs::new(self.0.each));
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
        let mut all = self.0.of_person.lock();
        let all = all.entry(Arc::clone(&caller.person));
        let all = all.or_insert_with(|| Theirs::new(self.0.together));
        all.count += 1;
        let person = Arc::clone(&all.turn);
        let shared = Arc::clone(&self.0);
        Ok((Entry { caller, shared }, turn, person))
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let Turn { own, person } = &self.caller;
        for (all, who) in [(&self.shared.theirs, own), (&self.shared.of_person, person)] {
            let mut all = all.lock();
            let Some(one) = all.get_mut(who) else {
                continue;
            };
            one.count -= 1;
            if one.count == 0 {
                all.remove(who);
            }
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
    async fn a_token_keeps_no_person_waiting_and_all_of_them_keep_nobody_else() {
        let places = Places::new(3, 1);
        let of = |own: &str, person: &str| {
            let turn = Turn {
                own: own.into(),
                person: person.into(),
            };
            on_behalf(turn, places.take()).boxed()
        };
        let mut greedy: Vec<_> = (0..MOST).map(|_| of("token 1", "ana")).collect();
        let first = greedy.remove(0).now_or_never().unwrap().unwrap();
        for one in &mut greedy {
            assert!(poll!(one).is_pending());
        }
        assert!(matches!(of("token 1", "ana").now_or_never(), Some(Err(_))));
        let herself = of("ana", "ana").now_or_never().unwrap().unwrap();
        // However many tokens there are, a place is left.
        let mut second = of("token 2", "ana");
        assert!(poll!(&mut second).is_pending());
        let other = of("ben", "ben").now_or_never().unwrap().unwrap();
        drop(herself);
        assert!(second.await.is_ok());
        drop((greedy, first, other));
        let left = places.0.theirs.lock().len() + places.0.of_person.lock().len();
        assert_eq!(left, 0, "nobody is remembered");
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
