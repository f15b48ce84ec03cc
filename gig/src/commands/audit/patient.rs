//! A record that is followed: while its database does not answer it is asked again, and why is said once.
//!
//! Of a file this changes nothing: what is wrong with that time does not mend. The first look is nobody's to wait for
//! either, so that a name that was mistyped is told at once.

use std::{collections::BTreeMap, time::Duration};

use gig_audit::{
    log::{ChainProof, Log, LogVerdict, ReadLogError},
    search::{Found, Marks, Page, Position, Query},
    verify::Expected,
};

use crate::output;

/// Reads what another reads, for as long as that takes.
pub(super) struct Patient {
    log: Box<dyn Log>,
}

impl Patient {
    /// A record of a database that others use, too.
    pub(super) fn new(log: Box<dyn Log>) -> Self {
        Self { log }
    }

    /// Asks until there is an answer; one that is no matter of time is an answer.
    fn ask<T>(
        &mut self,
        ask: impl Fn(&mut dyn Log) -> Result<T, ReadLogError>,
    ) -> Result<T, ReadLogError> {
        let mut pause = FIRST_PAUSE;
        let mut said = String::new();
        loop {
            let answer = ask(self.log.as_mut());
            let Err(ReadLogError::Store(error)) = &answer else {
                if !said.is_empty() {
                    remark("the record is read again".to_owned());
                }
                return answer;
            };
            // Once, and again where it is something else by now.
            let words = format!("{error} ({}): trying again", error.source);
            if words != said {
                remark(words.clone());
                said = words;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// What nobody reads holds nothing up.
fn remark(words: String) {
    let _unread = output::remark([words]);
}

impl Log for Patient {
    fn search_until(
        &mut self,
        query: &Query,
        stop: &dyn Fn() -> bool,
    ) -> Result<Page, ReadLogError> {
        self.ask(|log| log.search_until(query, stop))
    }

    fn after(&mut self, marks: &Marks, most: usize) -> Result<Vec<Found>, ReadLogError> {
        self.ask(|log| log.after(marks, most))
    }

    fn found_at(&mut self, at: Position) -> Result<Option<Found>, ReadLogError> {
        self.ask(|log| log.found_at(at))
    }

    fn end(&mut self) -> Result<Marks, ReadLogError> {
        self.ask(|log| log.end())
    }

    fn kept_until(&mut self, marks: &Marks) -> Result<BTreeMap<u32, u64>, ReadLogError> {
        self.ask(|log| log.kept_until(marks))
    }

    fn verify(&mut self, expected: Expected<'_>) -> Result<LogVerdict, ReadLogError> {
        self.log.verify(expected)
    }

    fn proof(&mut self) -> Result<Vec<ChainProof>, ReadLogError> {
        self.log.proof()
    }

    fn replaced(&mut self, marks: &Marks) -> Result<bool, ReadLogError> {
        self.ask(|log| log.replaced(marks))
    }
}

const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// A database that is back is read from again within this.
const LAST_PAUSE: Duration = Duration::from_secs(5);
