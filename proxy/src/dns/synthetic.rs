//! Addresses that stand for names inside one sandbox: 198.18.0.0/15, never routed anywhere.
//!
//! Stable: a name keeps its address while it is used. Bounded: an idle name may be forgotten, and a
//! connection to a forgotten address is refused like one to any address nobody was given. An address
//! is given to another name only after the whole range was handed out once, which the bound and the
//! hold time below stretch to hours, so that a program that caches an answer too long is refused
//! rather than taken to another host. A connection keeps the name it was accepted for.

use std::{
    collections::{BTreeMap, HashMap},
    net::Ipv4Addr,
    time::Duration,
};

use gig_policy::Fqdn;
use parking_lot::Mutex;
use tokio::time::Instant;

/// One sandbox's table of names and their stand-in addresses.
#[derive(Debug)]
pub struct SyntheticNames {
    table: Mutex<Table>,
}

impl SyntheticNames {
    /// An empty table.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "made once, by its sandbox")]
    pub fn new() -> Self {
        Self {
            table: Mutex::new(Table {
                addresses: HashMap::new(),
                entries: HashMap::new(),
                by_use: BTreeMap::new(),
                uses: 0,
                cursor: 0,
            }),
        }
    }

    /// The address for `name`: the same as last time, or a new one. `None` when the table is full of
    /// addresses that may still be in use.
    #[must_use]
    pub fn address_of(&self, name: &Fqdn) -> Option<Ipv4Addr> {
        let now = Instant::now();
        let mut table = self.table.lock();
        if let Some(offset) = table.addresses.get(name).copied() {
            table.touch(offset, now);
            return Some(address(offset));
        }
        if table.entries.len() >= CAPACITY && !table.forget_idlest(now) {
            return None;
        }
        let offset = table.free_offset()?;
        table.insert(offset, name.clone(), now);
        Some(address(offset))
    }

    /// The name that `address` stands for in this sandbox. Keeps the name from being forgotten.
    #[must_use]
    pub fn name_of(&self, address: Ipv4Addr) -> Option<Fqdn> {
        if !is_synthetic(address) {
            return None;
        }
        let offset = u32::from(address).wrapping_sub(FIRST);
        let mut table = self.table.lock();
        let name = table.entries.get(&offset)?.name.clone();
        table.touch(offset, Instant::now());
        Some(name)
    }
}

#[derive(Debug)]
struct Table {
    addresses: HashMap<Fqdn, u32>,
    entries: HashMap<u32, Entry>,
    /// Use number → offset, oldest use first.
    by_use: BTreeMap<u64, u32>,
    uses: u64,
    cursor: u32,
}

#[derive(Debug)]
struct Entry {
    name: Fqdn,
    used: Instant,
    use_number: u64,
}

impl Table {
    fn touch(&mut self, offset: u32, now: Instant) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(entry) = self.entries.get_mut(&offset) {
            self.by_use.remove(&entry.use_number);
            entry.used = now;
            entry.use_number = uses;
            self.by_use.insert(uses, offset);
        }
    }

    fn insert(&mut self, offset: u32, name: Fqdn, now: Instant) {
        self.uses += 1;
        self.addresses.insert(name.clone(), offset);
        self.by_use.insert(self.uses, offset);
        self.entries.insert(
            offset,
            Entry {
                name,
                used: now,
                use_number: self.uses,
            },
        );
    }

    fn forget_idlest(&mut self, now: Instant) -> bool {
        let Some((&use_number, &offset)) = self.by_use.first_key_value() else {
            return false;
        };
        let idle = self
            .entries
            .get(&offset)
            .map(|e| now.saturating_duration_since(e.used));
        if idle.is_some_and(|idle| idle < HOLD) {
            return false;
        }
        self.by_use.remove(&use_number);
        if let Some(entry) = self.entries.remove(&offset) {
            self.addresses.remove(&entry.name);
        }
        true
    }

    fn free_offset(&mut self) -> Option<u32> {
        // At most CAPACITY of SIZE are taken, so that this ends early.
        for _ in 0..SIZE {
            self.cursor = if self.cursor + 1 < SIZE {
                self.cursor + 1
            } else {
                1
            };
            if !self.entries.contains_key(&self.cursor) {
                return Some(self.cursor);
            }
        }
        None
    }
}

/// Whether `address` lies in the range that stand-ins come from.
#[must_use]
pub const fn is_synthetic(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 198 && (b == 18 || b == 19)
}

fn address(offset: u32) -> Ipv4Addr {
    Ipv4Addr::from(FIRST.wrapping_add(offset))
}

/// How long an answer may be cached by the program, in seconds. Short, because it costs nothing to
/// ask again; not zero, because some resolvers ask again for every packet then.
pub const TTL: u32 = 60;

/// 198.18.0.0 (RFC 2544: benchmarking, never routed).
const FIRST: u32 = 0xc612_0000;
/// A /15; the first address is left out because some programs take it for a network address.
const SIZE: u32 = 1 << 17;
/// Names held at once: 16,384 at about 150 octets bound a sandbox to 2.5 MB, and only one that uses
/// a wildcard heavily comes near.
const CAPACITY: usize = 1 << 14;
/// A name unused for this long may be forgotten: ten times the TTL, since programs over-cache.
const HOLD: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests {
    use super::*;

    fn name(i: usize) -> Fqdn {
        Fqdn::parse(&format!("n{i}.example.com")).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_keeps_its_address_and_an_address_its_name() {
        let names = SyntheticNames::new();
        let a = names.address_of(&name(1)).unwrap();
        let b = names.address_of(&name(2)).unwrap();
        assert_ne!(a, b);
        assert!(is_synthetic(a) && is_synthetic(b));
        assert_eq!(names.address_of(&name(1)), Some(a));
        assert_eq!(names.name_of(a), Some(name(1)));
        assert_eq!(names.name_of(b), Some(name(2)));
        assert_eq!(names.name_of(Ipv4Addr::new(198, 19, 255, 255)), None);
        assert_eq!(names.name_of(Ipv4Addr::new(192, 0, 2, 1)), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_table_refuses_until_a_name_was_idle_long_enough() {
        let names = SyntheticNames::new();
        let first = names.address_of(&name(0)).unwrap();
        for i in 1..CAPACITY {
            assert!(names.address_of(&name(i)).is_some());
        }
        assert_eq!(names.address_of(&name(CAPACITY)), None);
        tokio::time::advance(HOLD).await;
        assert_eq!(names.name_of(first), Some(name(0)));
        let late = names.address_of(&name(CAPACITY)).unwrap();
        // The one just used stays, the idlest went, and its address is not given again at once.
        assert_eq!(names.name_of(first), Some(name(0)));
        assert_eq!(names.name_of(address(2)), None);
        assert_ne!(late, address(2));
        assert!(names.table.lock().entries.len() <= CAPACITY);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_is_reused_only_after_the_whole_range_was_given() {
        let names = SyntheticNames::new();
        let first = names.address_of(&name(0)).unwrap();
        let mut given = 1;
        loop {
            if given % CAPACITY == 0 {
                tokio::time::advance(HOLD).await;
            }
            if names.address_of(&name(given)).unwrap() == first {
                break;
            }
            given += 1;
        }
        assert_eq!(given, SIZE as usize - 1);
    }
}
