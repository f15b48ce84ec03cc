//! How many sandboxes may run of one server and for one person: nobody takes all the places there are.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::Arc,
};

use gig_web::ControlError;
use parking_lot::Mutex;

/// All that are taken.
#[derive(Debug)]
pub(super) struct Seats {
    taken: Mutex<Taken>,
    /// Half of all.
    most_of_server: usize,
    /// Three eighths: all servers of a person's few programs.
    most_of_profile: usize,
}

#[derive(Debug, Default)]
struct Taken {
    of_server: HashMap<Arc<str>, usize>,
    of_profile: HashMap<Arc<str>, usize>,
}

/// One of them; given back when it is dropped.
#[derive(Debug)]
pub(super) struct Seat {
    seats: Arc<Seats>,
    server: Arc<str>,
    profile: Arc<str>,
}

impl Seats {
    /// Of so many in all, at least three.
    pub(super) fn of(all: usize) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            most_of_server: all / 2,
            most_of_profile: all * 3 / 8,
        })
    }

    /// Takes one.
    ///
    /// # Errors
    /// When as many as may run of this server, or for this profile.
    pub(super) fn take(
        self: &Arc<Self>,
        server: Arc<str>,
        profile: Arc<str>,
    ) -> Result<Seat, ControlError> {
        let mut taken = self.taken.lock();
        let (of_server, of_profile) = (self.most_of_server, self.most_of_profile);
        let of = |counts: &HashMap<_, usize>, who: &Arc<str>| counts.get(who).copied();
        if of(&taken.of_server, &server) >= Some(of_server) {
            let words = format!(
                "{of_server} sandboxes of {server} run, which is as many as may: end one \
                 (`gig ps`, `gig stop`)"
            );
            return Err(ControlError::Crowded(words.into()));
        }
        if of(&taken.of_profile, &profile) >= Some(of_profile) {
            let words = format!(
                "{of_profile} sandboxes run for {profile}, which is as many as may: end one \
                 (`gig ps`, `gig stop`)"
            );
            return Err(ControlError::Crowded(words.into()));
        }
        *taken.of_server.entry(Arc::clone(&server)).or_default() += 1;
        *taken.of_profile.entry(Arc::clone(&profile)).or_default() += 1;
        drop(taken);
        Ok(Seat {
            seats: Arc::clone(self),
            server,
            profile,
        })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        give_back(&mut taken.of_server, &self.server);
        give_back(&mut taken.of_profile, &self.profile);
    }
}

fn give_back<K: Hash + Eq + Clone>(counts: &mut HashMap<K, usize>, who: &K) {
    if let Entry::Occupied(mut kept) = counts.entry(who.clone()) {
        *kept.get_mut() = kept.get().saturating_sub(1);
        if *kept.get() == 0 {
            kept.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_the_places_and_each_is_given_back() {
        let seats = Seats::of(64);
        let take = |server: &str, profile: &str| seats.take(server.into(), profile.into());
        let mut held: Vec<Seat> = (0..24)
            .map(|number| take(&format!("s{number}"), "ana").unwrap())
            .collect();
        let refused = take("another", "ana").unwrap_err().to_string();
        assert!(refused.contains("for ana"), "{refused}");
        held.push(take("another", "bo").unwrap());
        drop(held.swap_remove(0));
        assert!(take("another", "ana").is_ok());
        drop(held);

        let held: Vec<Seat> = (0..32)
            .map(|number| take("one", &format!("p{number}")).unwrap())
            .collect();
        let refused = take("one", "ana").unwrap_err().to_string();
        assert!(refused.contains("of one"), "{refused}");
        assert!(take("two", "ana").is_ok());
        drop(held);
        let taken = seats.taken.lock();
        assert!(taken.of_server.is_empty() && taken.of_profile.is_empty());
    }

    #[test]
    fn shares_are_of_as_many_as_there_are() {
        let seats = Seats::of(4);
        let take = |server: &str, profile: &str| seats.take(server.into(), profile.into());
        let _held = take("one", "ana").unwrap();
        let refused = take("two", "ana").unwrap_err().to_string();
        assert!(refused.starts_with("1 sandboxes run for ana"), "{refused}");
        let _second = take("one", "bo").unwrap();
        let refused = take("one", "cy").unwrap_err().to_string();
        assert!(refused.starts_with("2 sandboxes of one run"), "{refused}");
    }
}
