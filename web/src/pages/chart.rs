//! Decisions over time as a drawing: bars of three parts, sized here, coloured by the sheet, and told in
//! words for who does not see them.

use jiff::SignedDuration;

use crate::lately::{Hour, Lately};

/// The drawing.
pub(super) struct Chart {
    pub(super) bars: Vec<Bar>,
    /// The drawing in words.
    pub(super) words: String,
    /// What its upper line stands for: one, two or five, ten times and so on.
    pub(super) top: u64,
    pub(super) hours: Vec<Hour>,
}

/// One hour.
pub(super) struct Bar {
    pub(super) x: u64,
    pub(super) label: String,
    pub(super) words: String,
    pub(super) parts: Vec<Part>,
}

/// A part of it.
pub(super) struct Part {
    pub(super) class: &'static str,
    pub(super) y: u64,
    pub(super) height: u64,
}

impl Chart {
    pub(super) fn of(lately: &Lately) -> Self {
        let hours = &lately.hours;
        let most = hours.iter().map(Hour::sum).max().unwrap_or_default();
        let Hour {
            allowed,
            denied,
            would_deny,
            ..
        } = lately.decisions();
        let words = format!(
            "Decisions of the last 24 hours: {allowed} allowed, {denied} denied, {would_deny} would be denied; at \
             most {most} an hour.",
        );
        let top = round(most);
        let bars = hours
            .iter()
            .zip(0..)
            .map(|(hour, place)| Bar::of(hour, place, top));
        Self {
            bars: bars.collect(),
            words,
            top,
            hours: hours.clone(),
        }
    }

    /// What the line between stands for, where that is a whole number.
    pub(super) fn half(&self) -> Option<u64> {
        (self.top > 1 && self.top.is_multiple_of(2)).then_some(self.top / 2)
    }

    /// The search for what was decided in that hour.
    pub(super) fn search(&self, hour: &Hour) -> String {
        let begins = format!("{}:00Z", hour.begins.replace(' ', "T"));
        let ends = begins
            .parse::<jiff::Timestamp>()
            .and_then(|at| at.checked_add(SignedDuration::from_hours(1)));
        let ends = ends.map(|at| format!("&until={at:.0}"));
        format!("event=traffic&since={begins}{}", ends.unwrap_or_default())
    }
}

/// The next number that people count by: 1, 2, 5, 10, 20, 50 …
fn round(most: u64) -> u64 {
    let mut step: u64 = 1;
    loop {
        for one in [1, 2, 5] {
            let line = step.saturating_mul(one);
            if line >= most || line == u64::MAX {
                return line;
            }
        }
        step = step.saturating_mul(10);
    }
}

impl Bar {
    fn of(hour: &Hour, place: u64, top_line: u64) -> Self {
        let mut parts = Vec::new();
        let mut top = HEIGHT;
        let all = [
            ("allow", hour.allowed),
            ("would", hour.would_deny),
            ("deny", hour.denied),
        ];
        for (class, count) in all {
            // What there is at all is seen.
            let height = match count {
                0 => continue,
                count => count.saturating_mul(ROOM).div_ceil(top_line.max(1)).max(2),
            };
            top = top.saturating_sub(height);
            parts.push(Part {
                class,
                y: top,
                height,
            });
        }
        let clock: String = hour.begins.chars().skip(11).collect();
        let words = format!(
            "{clock}: {} allowed, {} denied, {} would be denied",
            hour.allowed, hour.denied, hour.would_deny
        );
        Self {
            x: place * 30,
            label: if place % 4 == 3 { clock } else { String::new() },
            words,
            parts,
        }
    }
}

/// Of the drawing's own units, from its top to its floor.
const HEIGHT: u64 = 120;
/// What the highest bar takes of it; each part may be a little higher than its share.
const ROOM: u64 = 112;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_a_number_that_people_count_by_and_none_is_above_it() {
        for (most, line) in [
            (0, 1),
            (1, 1),
            (3, 5),
            (71, 100),
            (100, 100),
            (101, 200),
            (1_234_567, 2_000_000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(round(most), line, "{most}");
        }
    }

    #[test]
    fn an_hour_leads_to_what_was_decided_in_it() {
        let hour = Hour {
            begins: "2026-11-21 23:00".to_owned(),
            ..Hour::default()
        };
        let search = Chart::of(&Lately::default()).search(&hour);
        let want = "event=traffic&since=2026-11-21T23:00:00Z&until=2026-11-22T00:00:00Z";
        assert_eq!(search, want);
    }

    #[test]
    fn bars_stay_inside_and_what_there_is_is_seen() {
        let hour = |allowed, denied, would_deny| Hour {
            begins: "2026-11-21 09:00".to_owned(),
            allowed,
            denied,
            would_deny,
        };
        for hours in [
            vec![],
            vec![hour(0, 0, 0)],
            vec![hour(1_000_000, 1, 1), hour(0, 0, 1)],
        ] {
            let lately = Lately {
                hours: hours.clone(),
                ..Lately::default()
            };
            let chart = Chart::of(&lately);
            for (bar, hour) in chart.bars.iter().zip(&hours) {
                let seen = bar.parts.iter().map(|part| part.height).sum::<u64>();
                assert!(seen <= HEIGHT, "{seen}");
                let counts = [hour.allowed, hour.denied, hour.would_deny];
                let some = counts.iter().filter(|count| **count > 0).count();
                assert_eq!(bar.parts.len(), some);
                assert!(bar.parts.iter().all(|part| part.height >= 2));
            }
        }
    }
}
