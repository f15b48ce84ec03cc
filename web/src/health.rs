//! Whether each layer works that sandboxes, people and the record stand on: asked now, and told by what runs
//! beside. Whether gig is ready for others is `api::health`'s to say, by the few parts without which it is not.

use std::{collections::BTreeMap, sync::Arc};

use gig_audit::search::{Filter, Query};
use parking_lot::Mutex;

use crate::{api_error::Problem, app::App, control::Health};

/// What runs beside, as it said of itself last.
#[derive(Debug, Default)]
pub struct Watch(Mutex<BTreeMap<&'static str, (bool, Arc<str>)>>);

impl Watch {
    /// A part says how it is.
    pub fn say(&self, part: &'static str, works: bool, words: impl Into<Arc<str>>) {
        self.0.lock().insert(part, (works, words.into()));
    }

    fn told(&self) -> Vec<Health> {
        let told = self.0.lock();
        let of = |(part, (works, words)): (&&'static str, &(bool, Arc<str>))| Health {
            part: (*part).into(),
            works: *works,
            words: Arc::clone(words),
        };
        told.iter().map(of).collect()
    }
}

impl App {
    /// Each layer.
    pub(crate) async fn health(self: &Arc<Self>) -> Vec<Health> {
        let mut parts = self.control.health();
        parts.extend(self.control.layers());
        let store = match self.ask(|store| store.assignments()).await {
            Ok(_) if self.store_takes().await => {
                Ok("people, policies and servers are read and written".to_owned())
            }
            Ok(_) => Err(Problem::unavailable(NOT_WRITTEN)),
            Err(problem) => Err(problem),
        };
        parts.push(part("store", store));
        parts.push(part("record", self.record_health().await));
        parts.push(self.index_health().await);
        let vault = self.secrets().await;
        let vault = vault.map(|_| "secrets are sealed and read".to_owned());
        parts.push(part("vault", vault));
        if let Some(state) = self.spans.state() {
            let state = state.map_err(|words| Problem::unavailable(&words));
            parts.push(part("traces", state));
        }
        parts.extend(self.watch.told());
        parts
    }

    /// Read to its newest record, and how much waits to be written.
    async fn record_health(self: &Arc<Self>) -> Result<String, Problem> {
        let newest = Query {
            filter: Filter::default(),
            before: None,
            limit: 1,
        };
        let newest = self.search(newest).await?.records;
        let recorder = self.recorder.clone();
        let asked = self.ask(move |_| Ok((recorder.is_well(), recorder.backlog())));
        let (well, backlog) = asked.await?;
        if !well || backlog.refused > 0 {
            let words = format!(
                "not everything was written lately, and what could not be recorded was refused: {} since \
                 the last gap was told",
                backlog.refused
            );
            return Err(Problem::unavailable(&words));
        }
        let last = newest
            .first()
            .map_or("none yet", |found| found.row.time.as_str());
        Ok(format!(
            "every decision is written before it takes effect; {} wait to be written; the newest is of {last}",
            backlog.queued
        ))
    }

    async fn index_health(self: &Arc<Self>) -> Health {
        let words = match self.unindexed().await {
            Ok((left, chains)) if left <= usual(chains) => Ok(format!(
                "{left} of the newest records are searched line by line, as is usual"
            )),
            Ok((left, _)) => Err(Problem::unavailable(&format!(
                "{left} records are not indexed yet: searches take longer until they are"
            ))),
            Err(problem) => Err(problem),
        };
        part("index of the record", words)
    }
}

const NOT_WRITTEN: &str = "people, policies and servers are read, and nothing can be written: nobody new is let in and \
     nothing is changed; look whether the disk is full, gig's own log says why";

/// Each chain's newest block is not full, and the one before may be under way.
const fn usual(chains: u64) -> u64 {
    2 * 4096 * if chains == 0 { 1 } else { chains }
}

fn part(name: &str, state: Result<String, Problem>) -> Health {
    Health {
        part: name.into(),
        works: state.is_ok(),
        words: match state {
            Ok(words) => words.into(),
            Err(problem) => problem.detail.into(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::tests::Lab;

    #[tokio::test]
    async fn each_part_is_told_and_one_that_fails_is_told_to_fail() {
        let lab = Lab::new();
        let record = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        lab.app
            .watch
            .say("retention", false, "the chain does not hold");
        lab.app
            .watch
            .say("retention", true, "nothing was old enough");
        let told = lab.app.health().await;
        let of = |told: &[Health], name: &str| {
            let found = told.iter().find(|part| &*part.part == name);
            found.map(|part| (part.works, part.words.to_string()))
        };
        for name in ["store", "record", "index of the record", "vault"] {
            assert!(of(&told, name).unwrap().0, "{told:?}");
        }
        let retention = Some((true, "nothing was old enough".to_owned()));
        assert_eq!(of(&told, "retention"), retention, "what it said last");
        assert_eq!(of(&told, "webhooks"), None);
        lab.log.fail(true);
        let entry = gig_audit::Entry::new(gig_audit::Event::Admin);
        assert!(lab.app.recorder.record(entry).await.is_err());
        assert!(!of(&lab.app.health().await, "record").unwrap().0);
        lab.store
            .failing
            .store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(!of(&lab.app.health().await, "store").unwrap().0);
        drop(record);
    }
}
