//! The list of real values to watch for, made anew only when something changed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use gig_policy::SecretName;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{Kept, slot::Slot};
use crate::{
    clock::after,
    keeper::{Guarded, GuardedValue},
    secret_bytes::SecretBytes,
    vault::{UseVaultError, View},
};

/// The list that was handed out last.
#[derive(Debug, Default)]
pub(super) struct Guard {
    listed: Mutex<Option<Listed>>,
    /// Counts up with everything that is fetched.
    fetched: AtomicU64,
}

#[derive(Debug)]
struct Listed {
    seen: Seen,
    asked: Asked,
    /// When some version stops being usable by itself.
    until: Option<Timestamp>,
    guarded: Arc<Guarded>,
    /// What had been fetched when it was begun.
    fetched: u64,
}

/// What a list was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Of the store; `None` when it is silent or there is none.
    pub(super) generation: Option<u64>,
}

/// When the store was asked, and what this process had read and written of it before it was.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) now: Timestamp,
    pub(super) changes: u64,
}

/// A list, and when it is no longer right.
pub(super) struct List {
    values: Vec<GuardedValue>,
    until: Option<Timestamp>,
}

impl Guard {
    /// The last list, if it is still right. A silent store leaves the last one standing: it is better
    /// than none.
    pub(super) fn unchanged(&self, seen: Seen, asked: Asked) -> Option<Arc<Guarded>> {
        let mut listed = self.listed.lock();
        let listed = listed.as_mut()?;
        let same =
            listed.seen == seen || (seen.generation.is_none() && listed.seen.generation.is_some());
        if !same || !listed.is_all(self.fetched(), asked.now) {
            return None;
        }
        listed.asked = match seen == listed.seen {
            true => asked,
            // What was written here meanwhile is not in a list that the store did not speak of.
            false => Asked {
                changes: listed.asked.changes,
                ..asked
            },
        };
        Some(Arc::clone(&listed.guarded))
    }

    /// The last list, if the store was asked a moment ago and nothing was read, written or fetched here since.
    pub(super) fn recent(&self, Asked { now, changes }: Asked) -> Option<Arc<Guarded>> {
        let listed = self.listed.lock();
        let listed = listed.as_ref()?;
        let recent = listed.asked.now <= now && now < after(listed.asked.now, SOON);
        let right = recent && listed.asked.changes == changes && listed.is_all(self.fetched(), now);
        right.then(|| Arc::clone(&listed.guarded))
    }

    /// Something was fetched: the list is to be made anew.
    pub(super) fn forget(&self) {
        self.fetched.fetch_add(1, Ordering::AcqRel);
    }

    /// To be read before a list is begun: what is fetched meanwhile belongs to the next one.
    pub(super) fn fetched(&self) -> u64 {
        self.fetched.load(Ordering::Acquire)
    }

    /// Keeps a list that was begun when so much had been `fetched`.
    pub(super) fn renew(
        &self,
        (seen, asked): (Seen, Asked),
        (list, fetched): (List, u64),
        generation: impl FnOnce() -> u64,
    ) -> Arc<Guarded> {
        let guarded = Arc::new(Guarded {
            generation: generation(),
            values: list.values,
        });
        *self.listed.lock() = Some(Listed {
            seen,
            asked,
            until: list.until,
            guarded: Arc::clone(&guarded),
            fetched,
        });
        guarded
    }
}

impl Listed {
    /// Whether nothing was fetched since, and nothing in it came to its end.
    fn is_all(&self, fetched: u64, now: Timestamp) -> bool {
        self.fetched == fetched && self.until.is_none_or(|until| now < until)
    }
}

/// Every value that is known: given, stored (ended versions and removed secrets too), fetched, minted.
pub(super) fn list(
    keeper: &Kept,
    view: Option<&View>,
    slots: &[(SecretName, Arc<Slot>)],
    now: Timestamp,
) -> List {
    let mut list = List {
        values: Vec::new(),
        until: None,
    };
    for (name, value) in &keeper.given {
        list.add((name, Some(0)), 1, value, true);
    }
    for (name, slot) in slots {
        let (known, until) = slot.known(keeper.stamp(name, now).as_ref(), now);
        for known in known {
            list.add(
                (name, known.part),
                known.version,
                &known.value,
                known.current,
            );
        }
        list.ends(until);
    }
    if let (Some(vault), Some(view)) = (&keeper.vault, view) {
        for row in view.all_versions() {
            let Ok(name) = row.name.parse::<SecretName>() else {
                continue;
            };
            let value = match vault.open_version(view, row) {
                Ok(value) => value,
                // What is in custody and locked is known to nobody here.
                Err(UseVaultError::Locked { .. } | UseVaultError::PassphraseChanged { .. }) => {
                    continue;
                }
                Err(error) => {
                    tracing::error!(secret = %name, %error, "a stored value cannot be watched for");
                    continue;
                }
            };
            // A value that was given in its stead is what is meant by the name.
            let usable = row.is_usable(now) && !keeper.given.contains_key(&name);
            list.stored(view, &name, row.version, value, usable);
            let end = row.ends().and_then(|end| Timestamp::from_second(end).ok());
            list.ends(end.filter(|_| usable));
        }
    }
    list
}

impl List {
    /// Something that it says ends then.
    fn ends(&mut self, end: Option<Timestamp>) {
        self.until = [self.until, end].into_iter().flatten().min();
    }

    /// What is stored of a kind: the parts that are used, or else those that only gig uses.
    fn stored(
        &mut self,
        view: &View,
        name: &SecretName,
        version: u64,
        value: SecretBytes,
        usable: bool,
    ) {
        let definition = view.secret(name.as_str()).ok().flatten();
        let kind = definition.map(|(_, definition)| definition.kind.kind());
        let parts = kind.as_ref().and_then(|kind| kind.stored_parts(&value));
        match parts {
            Some(parts) => {
                for (number, part) in parts.into_iter().enumerate() {
                    self.add((name, Some(number)), version, &Arc::new(part), usable);
                }
            }
            // What only gig itself uses, such as a client's secret, goes nowhere from inside.
            None => {
                let watched = kind.map_or_else(
                    || vec![(None, value.duplicate())],
                    |kind| kind.watched_parts(&value),
                );
                for (number, part) in watched {
                    self.add((name, number), version, &Arc::new(part), false);
                }
            }
        }
    }

    fn add(
        &mut self,
        (name, part): (&SecretName, Option<usize>),
        version: u64,
        value: &Arc<SecretBytes>,
        current: bool,
    ) {
        let same = |known: &GuardedValue| known.name == *name && known.value == *value;
        if let Some(known) = self.values.iter_mut().find(|known| same(known)) {
            known.current |= current;
            known.part = known.part.or(part);
            return;
        }
        self.values.push(GuardedValue {
            name: name.clone(),
            version,
            part,
            value: Arc::clone(value),
            current,
        });
    }
}

/// Who is open for long hears this much later of what others wrote: an answer may come in thousands of pieces a
/// second, and each question takes a lock and a call.
const SOON: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_fetched_while_a_list_is_made_makes_it_anew() {
        let guard = Guard::default();
        let seen = Seen {
            generation: Some(1),
        };
        let list = || List {
            values: Vec::new(),
            until: None,
        };
        let asked = Asked {
            now: Timestamp::UNIX_EPOCH,
            changes: 0,
        };
        let begun = guard.fetched();
        guard.forget();
        drop(guard.renew((seen, asked), (list(), begun), || 1));
        assert!(guard.unchanged(seen, asked).is_none());
        let begun = guard.fetched();
        drop(guard.renew((seen, asked), (list(), begun), || 2));
        assert!(guard.unchanged(seen, asked).is_some());
        guard.forget();
        assert!(guard.unchanged(seen, asked).is_none());
    }

    #[test]
    fn a_silent_store_hides_nothing_that_was_written_here() {
        let guard = Guard::default();
        let list = List {
            values: Vec::new(),
            until: None,
        };
        let seen = |generation| Seen { generation };
        let asked = |changes| Asked {
            now: Timestamp::UNIX_EPOCH,
            changes,
        };
        drop(guard.renew((seen(Some(1)), asked(1)), (list, guard.fetched()), || 1));
        assert!(guard.recent(asked(1)).is_some());
        assert!(guard.unchanged(seen(None), asked(2)).is_some());
        assert!(guard.recent(asked(2)).is_none());
    }
}
