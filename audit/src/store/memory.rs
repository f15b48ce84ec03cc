//! Records in memory, for tests of what others record: it can be made to fail.

use std::{io, sync::Arc};

use parking_lot::Mutex;

use crate::{
    chain::Head,
    record::Record,
    store::{Appended, Group, Store, StoreError, Syncer, Tail},
};

/// The record of a [`crate::Recorder::in_memory`]; cloning shares it.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    records: Vec<Record>,
    failing: bool,
}

impl MemoryLog {
    /// Everything recorded so far.
    #[must_use]
    pub fn records(&self) -> Vec<Record> {
        self.0.lock().records.clone()
    }

    /// While true, every record is refused.
    pub fn fail(&self, failing: bool) {
        self.0.lock().failing = failing;
    }
}

impl Kept {
    fn takes(&self) -> Result<(), StoreError> {
        if self.failing {
            return Err(StoreError {
                attempted: "write",
                place: "memory".to_owned(),
                source: io::Error::other("made to fail"),
            });
        }
        Ok(())
    }
}

impl Store for MemoryLog {
    fn begin(&mut self) -> Result<Tail, StoreError> {
        let head = self
            .0
            .lock()
            .records
            .last()
            .map_or(Head::START, Record::head);
        Ok(Tail {
            head,
            repaired: None,
        })
    }

    fn append(&mut self, group: Group<'_>) -> Result<Appended, StoreError> {
        let mut kept = self.0.lock();
        kept.takes()?;
        kept.records.extend_from_slice(group.records);
        Ok(Appended::Written)
    }

    fn try_out(&mut self) -> Option<Result<(), StoreError>> {
        Some(self.0.lock().takes())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn syncer(&self) -> Option<Box<dyn Syncer>> {
        None
    }
}
