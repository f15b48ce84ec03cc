//! How long records are kept, by what they tell of.

use std::{collections::BTreeMap, fmt, str::FromStr};

use jiff::{SignedDuration, Timestamp};
use thiserror::Error;

use crate::{event::Event, record::Record};

macro_rules! classes {
    ($($(#[$doc:meta])* $variant:ident = $word:literal, $days:literal;)*) => {
        /// Events that are kept equally long.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Class { $($(#[$doc])* $variant,)* }

        impl Class {
            /// Every class there is.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The stable word.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// How many days it is kept when nothing is said.
            #[must_use]
            pub const fn default_days(self) -> u32 {
                match self { $(Self::$variant => $days,)* }
            }
        }
    };
}

classes! {
    /// Questions for names: the most frequent, and what followed an answer is told by its connection.
    /// A week still shows what a sandbox looked for when it is looked into.
    Dns = "dns", 7;
    /// Connections that were decided: where to and when, for a month's billing or incident.
    Connect = "connect", 30;
    /// Requests and the outcomes of requests and connections: as long as the connections they explain.
    Request = "request", 30;
    /// Starts and ends of sandboxes, few and with every layer's word: a quarter, as auditors ask for.
    Sandbox = "sandbox", 90;
    /// Misused secrets and what scanners found: intrusions are found months after they happened.
    Alarm = "alarm", 90;
    /// Changes of policies and secrets: why something was allowed is asked long after it was.
    Change = "change", 90;
    /// Who signed in and administered: as long as what they changed.
    Access = "access", 90;
    /// Gaps in the record itself: as long as anything that may have been in them.
    Gap = "gap", 90;
}

impl Class {
    /// What sandboxes ask for, and what became of that.
    pub const TRAFFIC: &[Self] = &[Self::Dns, Self::Connect, Self::Request];

    /// Whose an event is.
    #[must_use]
    pub const fn of(event: Event) -> Self {
        match event {
            Event::Dns => Self::Dns,
            Event::Connect => Self::Connect,
            Event::Request | Event::Response | Event::SecretUse => Self::Request,
            Event::SandboxStart | Event::SandboxExit => Self::Sandbox,
            Event::SecretMisuse | Event::Finding => Self::Alarm,
            Event::PolicyChange | Event::SecretChange => Self::Change,
            Event::Auth | Event::Admin => Self::Access,
            Event::AuditGap => Self::Gap,
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `dns=7`, `alarm=forever`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keep {
    /// What.
    pub class: Class,
    /// How many days; `None` for ever.
    pub days: Option<u32>,
}

/// A text says nothing of retention.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ParseKeepError {
    /// No `=`.
    #[error("write CLASS=DAYS, as in dns=7, or CLASS=forever")]
    Shape,
    /// Unknown class.
    #[error(
        "there is no such class; there are dns, connect, request, sandbox, alarm, change, access, gap"
    )]
    Class,
    /// Not a number of days.
    #[error("days are a number from 1 to 36500, or `forever`")]
    Days,
}

impl FromStr for Keep {
    type Err = ParseKeepError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (class, days) = text.split_once('=').ok_or(ParseKeepError::Shape)?;
        let mut classes = Class::ALL.iter().copied();
        let class = classes
            .find(|known| known.as_str() == class)
            .ok_or(ParseKeepError::Class)?;
        if days == "forever" {
            return Ok(Self { class, days: None });
        }
        let days: u32 = days.parse().map_err(|_| ParseKeepError::Days)?;
        // A day at least: what happens now must not be removed under whoever looks at it.
        if !(1..=36_500).contains(&days) {
            return Err(ParseKeepError::Days);
        }
        Ok(Self {
            class,
            days: Some(days),
        })
    }
}

/// How many days each class is kept, `None` for ever: as was said, and otherwise the defaults.
#[must_use]
pub fn days_of_each(said: &[Keep]) -> BTreeMap<Class, Option<u32>> {
    let mut days: BTreeMap<Class, Option<u32>> = Class::ALL
        .iter()
        .map(|class| (*class, Some(class.default_days())))
        .collect();
    days.extend(said.iter().map(|keep| (keep.class, keep.days)));
    days
}

/// How many records of each class, in words: `dns 3, request 12`.
#[must_use]
pub fn counted(counts: &BTreeMap<Class, u64>) -> String {
    let each = counts
        .iter()
        .map(|(class, count)| format!("{class} {count}"));
    each.collect::<Vec<_>>().join(", ")
}

/// Until when each class is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Records before this moment go; a class that is kept for ever is not here.
    before: BTreeMap<Class, String>,
}

impl Retention {
    /// At the moment `now`, with what was said and otherwise the defaults.
    #[must_use]
    pub fn at(now: Timestamp, said: &[Keep]) -> Self {
        let before = days_of_each(said).into_iter().filter_map(|(class, days)| {
            let span = SignedDuration::from_hours(i64::from(days?) * 24);
            let moment = now.checked_sub(span).ok()?;
            Some((class, format!("{moment:.6}")))
        });
        Self {
            before: before.collect(),
        }
    }

    /// Whether a record is old enough to go.
    #[must_use]
    pub fn removes(&self, record: &Record) -> bool {
        let before = self.before.get(&Class::of(record.entry.event));
        before.is_some_and(|before| record.time < *before)
    }

    /// Before which moment each class goes; one that is kept for ever is not here.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Class, &str)> {
        self.before
            .iter()
            .map(|(class, before)| (*class, before.as_str()))
    }

    /// Nothing from this moment on goes.
    #[must_use]
    pub fn newest(&self) -> Option<&str> {
        self.before.values().max().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_lie_between_a_week_and_a_quarter() {
        assert!(
            Class::ALL
                .iter()
                .all(|class| (7..=90).contains(&class.default_days()))
        );
    }

    #[test]
    fn what_is_said_is_read_or_refused() {
        let keep: Keep = "alarm=365".parse().unwrap();
        assert_eq!((keep.class, keep.days), (Class::Alarm, Some(365)));
        assert_eq!("dns=forever".parse::<Keep>().unwrap().days, None);
        for wrong in [
            "dns",
            "dns=",
            "dns=0",
            "dns=-1",
            "dns=1.5",
            "all=7",
            "dns=99999",
        ] {
            assert!(wrong.parse::<Keep>().is_err(), "{wrong}");
        }
    }
}
