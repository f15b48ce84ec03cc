//! How many connections to origins a sandbox holds at once: in use, idle, or being opened.
//!
//! One HTTP/2 connection of a program can ask for as many requests at once as it may have streams, and
//! each may want an origin's connection, and so a descriptor of gig's, to itself. Who finds no place
//! takes that of a connection that only waits for its next request, or waits for one itself.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The places of one sandbox, on all threads.
#[derive(Debug, Default)]
pub struct Places {
    taken: Mutex<u32>,
    freed: Notify,
    spare: Mutex<Vec<Weak<dyn Spare>>>,
}

/// Connections that can be done without.
pub trait Spare: fmt::Debug + Send + Sync {
    /// Closes the one that is missed least; false where there is none.
    fn give_up_one(&self) -> bool;
}

/// What was waited for.
#[derive(Debug)]
pub enum Taken<T> {
    /// A place.
    Place(Place),
    /// What needs none.
    Instead(T),
}

/// A place; dropping it gives it up.
#[derive(Debug)]
pub struct Place(Arc<Places>);

impl Places {
    /// Asks these, too, when there is no place.
    pub fn add_spare(&self, spare: Weak<dyn Spare>) {
        let mut known = self.spare.lock();
        known.retain(|one| one.strong_count() > 0);
        known.push(spare);
    }

    /// Waits for one of `most` places, or until `instead` gives something that needs none. Safe to drop.
    pub async fn take<T>(
        self: &Arc<Self>,
        most: u32,
        mut instead: impl FnMut() -> Option<T>,
    ) -> Taken<T> {
        loop {
            let mut freed = pin!(self.freed.notified());
            // Registered before the look, so that a place given up between the two is not missed.
            freed.as_mut().enable();
            if let Some(place) = self.try_take(most) {
                return Taken::Place(place);
            }
            if let Some(instead) = instead() {
                return Taken::Instead(instead);
            }
            self.make_room();
            // What is shared tells nobody when the last of its requests is over.
            let _again = tokio::time::timeout(LOOK_AGAIN, freed).await;
        }
    }

    /// One more for what is open already and had its place from somebody who is done with it.
    #[must_use]
    pub fn keep(self: &Arc<Self>) -> Place {
        *self.taken.lock() += 1;
        Place(Arc::clone(self))
    }

    /// Something can be done without from now on.
    pub fn spared(&self) {
        self.freed.notify_one();
    }

    fn try_take(self: &Arc<Self>, most: u32) -> Option<Place> {
        let mut taken = self.taken.lock();
        if *taken >= most {
            return None;
        }
        *taken += 1;
        Some(Place(Arc::clone(self)))
    }

    fn make_room(&self) {
        let spare: Vec<_> = self.spare.lock().iter().filter_map(Weak::upgrade).collect();
        // Its place is free when what drives it has ended.
        let _found = spare.iter().any(|spare| spare.give_up_one());
    }

    /// How many are taken.
    #[must_use]
    pub fn taken(&self) -> u32 {
        *self.taken.lock()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock();
        *taken = taken.saturating_sub(1);
        drop(taken);
        self.0.freed.notify_one();
    }
}

/// Seldom enough to cost nothing, often enough for who waits.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Kept(Mutex<Vec<Place>>);

    impl Spare for Kept {
        fn give_up_one(&self) -> bool {
            self.0.lock().pop().is_some()
        }
    }

    async fn place(places: &Arc<Places>) -> Place {
        match places.take(2, || None::<()>).await {
            Taken::Place(place) => place,
            Taken::Instead(()) => unreachable!(),
        }
    }

    #[tokio::test]
    async fn who_finds_no_place_waits_until_one_is_given_up() {
        let places = Arc::<Places>::default();
        let mut held = vec![place(&places).await, place(&places).await];
        let waiting = place(&places);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("a third place of two"),
            () = tokio::task::yield_now() => {}
        }
        held.pop();
        let third = waiting.await;
        assert_eq!(places.taken(), 2);
        drop((held, third));
        assert_eq!(places.taken(), 0);
    }

    #[tokio::test]
    async fn what_is_only_kept_makes_room_on_every_thread() {
        let places = Arc::<Places>::default();
        let kept = [(); 2].map(|()| Arc::new(Kept(Mutex::default())));
        for kept in &kept {
            let spare: Weak<dyn Spare> = Arc::downgrade(kept) as Weak<dyn Spare>;
            places.add_spare(spare);
            let place = place(&places).await;
            kept.0.lock().push(place);
        }
        let held = [place(&places).await, place(&places).await];
        assert!(kept.iter().all(|kept| kept.0.lock().is_empty()));
        drop(held);
    }

    #[tokio::test]
    async fn who_waits_takes_what_needs_no_place() {
        let places = Arc::<Places>::default();
        let held = [place(&places).await, place(&places).await];
        let mut asked = 0;
        let waiting = places.take(2, || {
            asked += 1;
            (asked > 1).then_some("kept")
        });
        let (taken, ()) = tokio::join!(waiting, async { places.spared() });
        assert!(matches!(taken, Taken::Instead("kept")));
        assert_eq!(places.taken(), 2);
        drop(held);
    }
}
