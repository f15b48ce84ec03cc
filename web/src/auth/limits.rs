//! How often somebody may fail to sign in: counted by name and address, by address, and by name.
//!
//! The first stops guessing at one account, the second guessing at many, the third guessing from many
//! places; its bound is the highest, so that nobody is locked out by a stranger in a moment. Kept in
//! memory, bounded.

use std::{collections::HashMap, net::IpAddr};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct SignInLimits(Mutex<HashMap<Key, Failures>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Pair(String, Option<IpAddr>),
    Address(Option<IpAddr>),
    Name(String),
}

#[derive(Debug, Clone, Copy)]
struct Failures {
    since: Timestamp,
    count: u32,
}

impl SignInLimits {
    /// Takes a try: counted as failed until [`SignInLimits::succeeded`] says otherwise, so that tries
    /// at the same moment are counted too.
    ///
    /// # Errors
    /// The seconds to wait.
    pub(crate) fn attempt(
        &self,
        name: &str,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(), u64> {
        let mut counters = self.0.lock();
        if counters.len() >= MOST {
            counters.retain(|_, kept| now.duration_since(kept.since) < WINDOW);
        }
        let keys = keys(name, address);
        for (key, most) in &keys {
            let Some(kept) = counters.get(key) else {
                // Full of counters that run: strangers flood. Who is known by none of them waits.
                if counters.len() >= MOST {
                    return Err(60);
                }
                continue;
            };
            let passed = now.duration_since(kept.since);
            if passed < WINDOW && kept.count >= *most {
                let left = (WINDOW - passed).as_secs();
                return Err(u64::try_from(left).unwrap_or_default().max(1));
            }
        }
        for (key, _) in keys {
            let kept = counters.entry(key).or_insert(Failures {
                since: now,
                count: 0,
            });
            if now.duration_since(kept.since) >= WINDOW {
                *kept = Failures {
                    since: now,
                    count: 0,
                };
            }
            kept.count = kept.count.saturating_add(1);
        }
        Ok(())
    }

    /// The try was none of a guesser: takes it back, and forgets what was failed from there.
    pub(crate) fn succeeded(&self, name: &str, address: Option<IpAddr>) {
        let mut counters = self.0.lock();
        for (key, _) in keys(name, address) {
            match key {
                Key::Pair(..) => drop(counters.remove(&key)),
                Key::Address(_) | Key::Name(_) => {
                    if let Some(kept) = counters.get_mut(&key) {
                        kept.count = kept.count.saturating_sub(1);
                    }
                }
            }
        }
    }
}

fn keys(name: &str, address: Option<IpAddr>) -> [(Key, u32); 3] {
    // What is longer is nobody's name.
    let name: String = name.chars().take(64).collect::<String>().to_lowercase();
    let network = address.map(network);
    [
        (Key::Pair(name.clone(), network), 5),
        (Key::Address(network), 30),
        (Key::Name(name), 100),
    ]
}

/// Whoever has one address of an IPv6 network has all of its /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

const WINDOW: SignedDuration = SignedDuration::from_mins(15);
/// Some megabytes.
const MOST: usize = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + seconds).unwrap()
    }

    #[test]
    fn five_failures_wait_and_others_do_not() {
        let limits = SignInLimits::default();
        let (here, there) = (Some([192, 0, 2, 1].into()), Some([192, 0, 2, 2].into()));
        for _ in 0..5 {
            limits.attempt("ana", here, at(0)).unwrap();
        }
        assert_eq!(limits.attempt("ANA", here, at(60)), Err(14 * 60));
        limits.attempt("ben", here, at(60)).unwrap();
        limits.attempt("ana", there, at(60)).unwrap();
        limits.attempt("ana", here, at(15 * 60)).unwrap();
    }

    #[test]
    fn success_forgets_and_many_names_from_one_place_wait() {
        let limits = SignInLimits::default();
        let here = Some("2001:db8::1".parse().unwrap());
        for _ in 0..20 {
            limits.attempt("ana", here, at(0)).unwrap();
            limits.succeeded("ana", here);
        }
        for n in 0..30_u16 {
            let neighbour = Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]));
            limits
                .attempt(&format!("user{n}"), neighbour, at(0))
                .unwrap();
        }
        assert!(limits.attempt("other", here, at(1)).is_err());
    }
}
