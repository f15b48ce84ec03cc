//! When somebody who stays for long may stay no more: their token was removed or is over, their session ended, their
//! role is another.
//!
//! The store is asked a few times a second, once for all who rest on the same token or session: whoever ended it may
//! have done so at another node, or by a command beside. What is changed at this node is looked at as soon as it is.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use super::Caller;
use crate::{api_error::Problem, app::App, store::Standing};

/// Who rests on what, and when that was looked at.
#[derive(Debug, Default)]
pub(crate) struct Lapses {
    /// How many changes were made here.
    changes: watch::Sender<u64>,
    known: Mutex<HashMap<Standing, Weak<Known>>>,
}

/// What is known of one token or session.
#[derive(Debug, Default)]
struct Known(tokio::sync::Mutex<Option<Looked>>);

#[derive(Debug)]
struct Looked {
    at: Instant,
    changes: u64,
    answer: Result<(), Problem>,
}

/// Since when nobody can say.
#[derive(Debug, Default)]
struct Doubt(Option<Instant>);

impl Lapses {
    /// Something was changed at this node.
    pub(crate) fn look_again(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn known(&self, of: &Standing) -> Arc<Known> {
        let mut known = self.known.lock();
        if let Some(found) = known.get(of).and_then(Weak::upgrade) {
            return found;
        }
        known.retain(|_, one| one.strong_count() > 0);
        let fresh = Arc::new(Known::default());
        known.insert(of.clone(), Arc::downgrade(&fresh));
        fresh
    }
}

impl Known {
    /// Whether they may, as of these changes; asked at most once in a while, by one for all.
    async fn still(&self, app: &App, caller: &Caller, changes: u64) -> Result<(), Problem> {
        let mut last = self.0.lock().await;
        if let Some(looked) = last.as_ref()
            && looked.changes >= changes
            && looked.at.elapsed() < FRESH
        {
            return looked.answer.clone();
        }
        let at = Instant::now();
        let answer = caller.still(app).await;
        *last = Some(Looked {
            at,
            changes,
            answer: answer.clone(),
        });
        answer
    }
}

impl Doubt {
    /// A refusal counts at once; a store that does not answer is given a while.
    fn lets_stay(&mut self, answer: Result<(), Problem>) -> bool {
        match answer {
            Ok(()) => {
                self.0 = None;
                true
            }
            Err(problem) if problem.status().is_server_error() => {
                self.0.get_or_insert_with(Instant::now).elapsed() < PATIENCE
            }
            Err(_) => false,
        }
    }
}

/// Ends when this caller may stay no more. Dropping it is safe.
pub(crate) async fn lapsed(app: &App, caller: &Caller) {
    let mut changes = app.lapses.changes.subscribe();
    let known = app.lapses.known(&caller.standing);
    let mut doubt = Doubt::default();
    loop {
        // What was changed since they were let in is looked at, too: at once.
        let seen = *changes.borrow_and_update();
        if !doubt.lets_stay(known.still(app, caller, seen).await) {
            return;
        }
        tokio::select! {
            // The sender is the appliance itself, which is there.
            _ = changes.changed() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Together with the age of what is known less than a second.
const LOOK: Duration = Duration::from_millis(500);
/// What was asked of the store so long ago holds for others, too.
const FRESH: Duration = Duration::from_millis(400);
/// A database that is started anew, or a standby that takes over, answers by then.
const PATIENCE: Duration = Duration::from_secs(45);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        app::tests::{Lab, owner},
        credential::mint_token,
        role::Role,
        store::{Change, Standing},
    };

    #[tokio::test(start_paused = true)]
    async fn a_refusal_counts_at_once_and_a_store_that_fails_in_a_while() {
        let broken = || Err(Problem::internal(std::io::Error::other("no answer")));
        let mut doubt = Doubt::default();
        assert!(!doubt.lets_stay(Err(Problem::forbidden("no more"))));
        assert!(doubt.lets_stay(broken()));
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(doubt.lets_stay(broken()) && doubt.lets_stay(Ok(())) && doubt.lets_stay(broken()));
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(doubt.lets_stay(broken()));
        tokio::time::sleep(PATIENCE / 2).await;
        assert!(!doubt.lets_stay(broken()));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_changed_here_is_looked_at_before_the_next_look() {
        let lab = Lab::with(&["one"]);
        let minted = mint_token().unwrap();
        let id = minted.id.clone();
        lab.make(&Change::AddToken {
            id: minted.id,
            digest: minted.digest,
            name: "gateway".parse().unwrap(),
            role: Role::Editor,
            narrowing: crate::Narrowing::default(),
            expires: None,
        });
        let caller = Caller {
            standing: Standing::Token {
                id: id.as_str().into(),
                role: Role::Editor,
            },
            ..Caller::itself("gateway")
        };
        let looked = Instant::now();
        let over = lapsed(&lab.app, &caller);
        let removed = async {
            tokio::time::sleep(Duration::from_millis(50)).await;
            let change = Change::RemoveToken { id: id.clone() };
            lab.app.change(owner(), change).await.unwrap();
        };
        tokio::join!(over, removed);
        assert!(
            looked.elapsed() < Duration::from_millis(400),
            "{:?}",
            looked.elapsed()
        );
    }
}
