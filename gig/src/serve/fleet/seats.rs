//! How many sandboxes may run of one server and for one person: nobody takes all the places there are.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::Hash,
    sync::Arc,
};

use gig_web::ControlError;
use parking_lot::Mutex;

/// All that are taken.
#[derive(Debug, Default)]
pub(super) struct Seats(Mutex<Taken>);

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
    /// Takes one.
    ///
    /// # Errors
    /// When as many as may run of this server, or for this profile.
    pub(super) fn take(
        self: &Arc<Self>,
        server: Arc<str>,
        profile: Arc<str>,
    ) -> Result<Seat, ControlError> {
        let mut taken = self.0.lock();
        let of = |counts: &HashMap<_, usize>, who: &Arc<str>| counts.get(who).copied();
        if of(&taken.of_server, &server) >= Some(MOST_OF_SERVER) {
            let words = format!(
                "{MOST_OF_SERVER} sandboxes of {server} run, which is as many as may: end one \
                 (`gig ps`, `gig stop`)"
            );
            return Err(ControlError::Crowded(words.into()));
        }
        if of(&taken.of_profile, &profile) >= Some(MOST_OF_PROFILE) {
            let words = format!(
                "{MOST_OF_PROFILE} sandboxes run for {profile}, which is as many as may: end one \
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
        let mut taken = self.seats.0.lock();
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

/// Half of what the hub has room for.
const MOST_OF_SERVER: usize = 32;
/// All servers of a person's few programs.
const MOST_OF_PROFILE: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_takes_all_the_places_and_each_is_given_back() {
        let seats: Arc<Seats> = Arc::default();
        let take = |server: &str, profile: &str| seats.take(server.into(), profile.into());
        let mut held: Vec<Seat> = (0..MOST_OF_PROFILE)
            .map(|number| take(&format!("s{number}"), "ana").unwrap())
            .collect();
        let refused = take("another", "ana").unwrap_err().to_string();
        assert!(refused.contains("for ana"), "{refused}");
        held.push(take("another", "bo").unwrap());
        drop(held.swap_remove(0));
        assert!(take("another", "ana").is_ok());
        drop(held);

        let held: Vec<Seat> = (0..MOST_OF_SERVER)
            .map(|number| take("one", &format!("p{number}")).unwrap())
            .collect();
        let refused = take("one", "ana").unwrap_err().to_string();
        assert!(refused.contains("of one"), "{refused}");
        assert!(take("two", "ana").is_ok());
        drop(held);
        let taken = seats.0.lock();
        assert!(taken.of_server.is_empty() && taken.of_profile.is_empty());
    }
}
