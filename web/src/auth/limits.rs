//! How often somebody may fail to sign in: counted by name and address, by address, and by name.
//!
//! The first stops guessing at one account, the second guessing at many, the third guessing from many
//! places; its bound is the highest, so that nobody is locked out by a stranger in a moment, and a browser that
//! somebody signed in with before is counted by itself, so that its owner is locked out by no stranger at all. Where nothing
//! tells one place from another only names are counted. The set-up link has a counter of its own, which no
//! name can be, and so have answers of a sign-on provider. Kept in memory, bounded; what is failed by a name is counted in
//! the store as well ([`counters`]), so that several nodes give nobody several times the tries.

use std::{collections::HashMap, net::IpAddr};

use aws_lc_rs::hmac;
use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

use crate::{
    credential::Digest,
    store::{Counter, Name, TRIES_WINDOW},
};

/// The counters.
#[derive(Debug, Default)]
pub(crate) struct SignInLimits(Mutex<HashMap<Key, Failures>>);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    Pair(String, IpAddr),
    Address(IpAddr),
    Name(String),
    Known(String),
    SetUp(Option<IpAddr>),
    Provider(Option<IpAddr>),
    Asked(Option<IpAddr>),
}

/// What is tried.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Tried<'a> {
    /// A password for this name.
    Name(&'a str),
    /// The same from a browser that was here before, by its id.
    Known(&'a str),
    /// The set-up link.
    SetUp,
    /// A sign-on provider's answer.
    Provider,
    /// The same, also where the provider fails: it is asked each time.
    Asked,
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
        tried: Tried<'_>,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<(), u64> {
        let mut counters = self.0.lock();
        if counters.len() >= MOST {
            counters.retain(|_, kept| now.duration_since(kept.since) < WINDOW);
        }
        let keys = keys(tried, address);
        for (key, most) in &keys {
            let Some(kept) = counters.get(key) else {
                // Full of counters that run: strangers flood. Who is known by none of them waits.
                // Browsers that were here are few.
                let most = match key {
                    Key::Known(_) => 2 * MOST,
                    _ => MOST,
                };
                if counters.len() >= most {
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

    /// Whether the next try has to wait for a while, after one that failed.
    pub(crate) fn is_over(
        &self,
        tried: Tried<'_>,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> bool {
        let counters = self.0.lock();
        let is_full = |(key, most): &(Key, u32)| {
            let kept = counters.get(key);
            kept.is_some_and(|kept| kept.count >= *most && now.duration_since(kept.since) < WINDOW)
        };
        keys(tried, address).iter().any(is_full)
    }

    /// The try was not made: takes it back, and nothing else.
    pub(crate) fn unmade(&self, tried: Tried<'_>, address: Option<IpAddr>) {
        let mut counters = self.0.lock();
        for (key, _) in keys(tried, address) {
            if let Some(kept) = counters.get_mut(&key) {
                kept.count = kept.count.saturating_sub(1);
            }
        }
    }

    /// The try was none of a guesser: takes it back, and forgets what was failed from there.
    pub(crate) fn succeeded(&self, tried: Tried<'_>, address: Option<IpAddr>) {
        let mut counters = self.0.lock();
        for (key, _) in keys(tried, address) {
            match key {
                Key::Pair(..)
                | Key::Known(_)
                | Key::SetUp(_)
                | Key::Provider(_)
                | Key::Asked(_) => {
                    counters.remove(&key);
                }
                Key::Address(_) | Key::Name(_) => {
                    if let Some(kept) = counters.get_mut(&key) {
                        kept.count = kept.count.saturating_sub(1);
                    }
                }
            }
        }
    }
}

/// The same for the store, which learns no name and no address by it: what is typed as a name may be a password. Without
/// a key, and of what is nobody's name, it is given nothing: that is counted here alone.
pub(crate) fn counters(
    tried: Tried<'_>,
    address: Option<IpAddr>,
    key: Option<&hmac::Key>,
) -> Vec<Counter> {
    let Some(secret) = key else {
        return Vec::new();
    };
    let could_be = match tried {
        Tried::Name(name) => name.parse::<Name>().is_ok(),
        Tried::Known(_) | Tried::SetUp | Tried::Provider | Tried::Asked => true,
    };
    let of = |(key, most): (Key, u32)| {
        let told = match key {
            Key::Pair(..) | Key::Name(_) => could_be,
            Key::Address(_) | Key::Known(_) | Key::SetUp(_) => true,
            Key::Provider(_) | Key::Asked(_) => true,
        };
        let tag = hmac::sign(secret, format!("{key:?}").as_bytes());
        let octets = tag.as_ref().try_into().ok()?;
        told.then_some(Counter {
            what: Digest::from_octets(octets),
            most,
            forgets: !matches!(key, Key::Address(_) | Key::Name(_)),
        })
    };
    keys(tried, address).into_iter().filter_map(of).collect()
}

fn keys(tried: Tried<'_>, address: Option<IpAddr>) -> Vec<(Key, u32)> {
    let network = address.map(network);
    let name = match tried {
        Tried::Name(name) => name,
        Tried::Known(id) => return vec![(Key::Known(id.to_owned()), 5)],
        Tried::SetUp => return vec![(Key::SetUp(network), 30)],
        // Where nobody is told apart it is everybody's.
        Tried::Provider => {
            let most = if network.is_some() { 30 } else { 1000 };
            return vec![(Key::Provider(network), most)];
        }
        Tried::Asked => {
            let most = if network.is_some() { 300 } else { 10_000 };
            return vec![(Key::Asked(network), most)];
        }
    };
    // What is longer is nobody's name.
    let name: String = name.chars().take(64).collect::<String>().to_lowercase();
    let mut keys = Vec::new();
    if let Some(network) = network {
        keys.push((Key::Pair(name.clone(), network), 5));
        keys.push((Key::Address(network), 30));
    }
    keys.push((Key::Name(name), 100));
    keys
}

/// Whoever has one address of an IPv6 network has all of its /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            IpAddr::from([a, b, c, d, 0, 0, 0, 0])
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

const WINDOW: SignedDuration = TRIES_WINDOW;
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
            limits.attempt(Tried::Name("ana"), here, at(0)).unwrap();
        }
        assert_eq!(
            limits.attempt(Tried::Name("ANA"), here, at(60)),
            Err(14 * 60)
        );
        limits.attempt(Tried::Name("ben"), here, at(60)).unwrap();
        limits.attempt(Tried::Name("ana"), there, at(60)).unwrap();
        limits
            .attempt(Tried::Name("ana"), here, at(15 * 60))
            .unwrap();
    }

    #[test]
    fn a_browser_that_was_here_has_tries_of_its_own_whoever_guesses_at_the_name() {
        let limits = SignInLimits::default();
        for n in 0..100_u8 {
            let from = Some(IpAddr::from([198, 51, 100, n]));
            limits.attempt(Tried::Name("ana"), from, at(0)).unwrap();
        }
        // Three counters each, until there is room for no more.
        let each = u32::try_from(MOST / 3 + 1).unwrap();
        for n in 0..each {
            let from = Some(IpAddr::from(n.to_be_bytes()));
            let _refused = limits.attempt(Tried::Name(&n.to_string()), from, at(0));
        }
        assert!(limits.0.lock().len() >= MOST);
        let here = Some([192, 0, 2, 1].into());
        assert!(limits.attempt(Tried::Name("ana"), here, at(1)).is_err());
        for _ in 0..5 {
            limits.attempt(Tried::Known("one"), here, at(1)).unwrap();
        }
        assert!(limits.attempt(Tried::Known("one"), here, at(1)).is_err());
        limits.attempt(Tried::Known("two"), here, at(1)).unwrap();
        limits.succeeded(Tried::Known("one"), here);
        limits.attempt(Tried::Known("one"), here, at(1)).unwrap();
    }

    #[test]
    fn success_forgets_and_many_names_from_one_place_wait() {
        let limits = SignInLimits::default();
        let here = Some("2001:db8::1".parse().unwrap());
        for _ in 0..20 {
            limits.attempt(Tried::Name("ana"), here, at(0)).unwrap();
            limits.succeeded(Tried::Name("ana"), here);
        }
        for n in 0..30_u16 {
            let neighbour = Some(IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, n]));
            limits
                .attempt(Tried::Name(&format!("user{n}")), neighbour, at(0))
                .unwrap();
        }
        assert!(limits.attempt(Tried::Name("other"), here, at(1)).is_err());
    }

    #[test]
    fn where_nobody_is_told_apart_no_address_locks_all_names_out() {
        let limits = SignInLimits::default();
        for n in 0..200 {
            let name = format!("user{n}");
            limits.attempt(Tried::Name(&name), None, at(0)).unwrap();
        }
        limits.attempt(Tried::Name("ana"), None, at(1)).unwrap();
        for _ in 0..99 {
            limits.attempt(Tried::Name("ana"), None, at(1)).unwrap();
        }
        assert!(limits.attempt(Tried::Name("ana"), None, at(2)).is_err());
        limits.attempt(Tried::Name("ben"), None, at(2)).unwrap();
    }

    #[test]
    fn the_store_is_given_no_digest_that_is_found_by_trying_words() {
        let (here, key) = (
            Some([192, 0, 2, 1].into()),
            hmac::Key::new(hmac::HMAC_SHA256, b"one"),
        );
        let other = hmac::Key::new(hmac::HMAC_SHA256, b"other");
        let of = |name, key| -> Vec<_> {
            let all = counters(Tried::Name(name), here, key);
            all.iter().map(|one| one.what.octets()).collect()
        };
        let mine = of("ana", Some(&key));
        assert_eq!(mine.len(), 3);
        assert_eq!(mine, of("ANA", Some(&key)), "the same on every node");
        let others = of("ana", Some(&other));
        assert!(mine.iter().all(|one| !others.contains(one)));
        let plain = Digest::of(&format!("{:?}", Key::Name("ana".to_owned())));
        assert!(!mine.contains(&plain.octets()));
        // What is no name may be a password: of that only where it comes from is counted there.
        let typed = of("correct horse battery!", Some(&key));
        assert_eq!(typed.len(), 1);
        assert!(mine.contains(&typed[0]));
        assert!(of("ana", None).is_empty());
    }

    #[test]
    fn no_name_uses_up_the_tries_of_the_set_up_link() {
        let limits = SignInLimits::default();
        let here = Some([192, 0, 2, 1].into());
        for n in 0..200_u8 {
            let from = Some([192, 0, 2, n].into());
            // Refused when its own tries are used up, which is the point.
            let _refused = limits.attempt(Tried::Name("set-up link"), from, at(0));
        }
        for _ in 0..30 {
            limits.attempt(Tried::SetUp, here, at(1)).unwrap();
        }
        assert!(limits.attempt(Tried::SetUp, here, at(1)).is_err());
        limits.succeeded(Tried::SetUp, here);
        limits.attempt(Tried::SetUp, here, at(1)).unwrap();
    }
}
