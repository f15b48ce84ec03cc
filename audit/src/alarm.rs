//! What people are called for: a misuse of a secret, what was found and stopped, a gap in the record.
//!
//! One answer for whoever counts alarms, sends them or says how grave a record is. It asks for the record's own words,
//! as a later gig may have written them.

use crate::event::Event;

/// Whether a record of this event is an alarm, that denies something or does not.
#[must_use]
pub fn is_alarm(event: &str, denies: bool) -> bool {
    let found = ALARMS.iter().find(|one| one.as_str() == event);
    // That a request waits for a person is found, too, and nothing is decided yet.
    found.is_some_and(|one| *one != Event::Finding || denies)
}

/// The events that may be one.
pub(crate) const ALARMS: [Event; 3] = [Event::SecretMisuse, Event::Finding, Event::AuditGap];
