//! The difference of two texts, line by line, as people read it.

/// A line of a difference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    /// In both.
    Same(String),
    /// In the new one.
    Added(String),
    /// In the old one.
    Removed(String),
    /// So many lines that are in both.
    Skipped(usize),
    /// So many lines more, which are not shown.
    Left(usize),
}

/// The difference, with three lines around each change. Where the changed middle is very long, all of it
/// is taken out and put in again. What is more than anybody reads is counted.
pub(crate) fn difference(old: &str, new: &str) -> Vec<Line> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let pairs = || old.iter().zip(&new);
    let head = pairs().take_while(|(a, b)| a == b).count();
    let most = old.len().min(new.len()) - head;
    let backwards = old.iter().rev().zip(new.iter().rev());
    let tail = backwards.take(most).take_while(|(a, b)| a == b).count();
    let same = |line: &&str| Line::Same((*line).to_owned());
    let middle = |all: &[&str]| -> Vec<String> {
        let kept = all.len() - head - tail;
        all.iter()
            .skip(head)
            .take(kept)
            .map(|line| (*line).to_owned())
            .collect()
    };
    let mut lines: Vec<Line> = old.iter().take(head).map(same).collect();
    lines.extend(between(middle(&old), middle(&new)));
    lines.extend(old.iter().skip(old.len() - tail).map(same));
    let mut shown = shorten(lines);
    if shown.len() > MOST_SHOWN {
        let left = shown.len() - MOST_SHOWN;
        shown.truncate(MOST_SHOWN);
        shown.push(Line::Left(left));
    }
    shown
}

/// By the longest common subsequence.
fn between(old: Vec<String>, new: Vec<String>) -> Vec<Line> {
    if old.len().saturating_mul(new.len()) > MOST_CELLS {
        let removed = old.into_iter().map(Line::Removed);
        return removed.chain(new.into_iter().map(Line::Added)).collect();
    }
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    let at = |longest: &[u32], a: usize, b: usize| longest.get(a * width + b).copied();
    for (a, one) in old.iter().enumerate().rev() {
        for (b, other) in new.iter().enumerate().rev() {
            let (right, below) = (at(&longest, a, b + 1), at(&longest, a + 1, b));
            let both = at(&longest, a + 1, b + 1).unwrap_or_default() + 1;
            let value = if one == other {
                Some(both)
            } else {
                right.max(below)
            };
            if let Some(cell) = longest.get_mut(a * width + b) {
                *cell = value.unwrap_or_default();
            }
        }
    }
    let mut lines = Vec::new();
    let (mut a, mut b) = (0, 0);
    loop {
        match (old.get(a), new.get(b)) {
            (Some(one), Some(other)) if one == other => {
                lines.push(Line::Same(one.clone()));
                (a, b) = (a + 1, b + 1);
            }
            (Some(one), other) => {
                let keeps_new = at(&longest, a, b + 1) > at(&longest, a + 1, b);
                match other {
                    Some(other) if keeps_new => {
                        lines.push(Line::Added(other.clone()));
                        b += 1;
                    }
                    _ => {
                        lines.push(Line::Removed(one.clone()));
                        a += 1;
                    }
                }
            }
            (None, Some(other)) => {
                lines.push(Line::Added(other.clone()));
                b += 1;
            }
            (None, None) => return lines,
        }
    }
}

/// Keeps what stands near a change.
fn shorten(lines: Vec<Line>) -> Vec<Line> {
    let changed: Vec<usize> = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| !matches!(line, Line::Same(_)))
        .map(|(place, _)| place)
        .collect();
    let mut shown = Vec::new();
    let mut skipped = 0;
    for (place, line) in lines.into_iter().enumerate() {
        let after = changed.partition_point(|at| at + AROUND < place);
        let near = changed.get(after).is_some_and(|at| *at <= place + AROUND);
        if near {
            if skipped > 0 {
                shown.push(Line::Skipped(std::mem::take(&mut skipped)));
            }
            shown.push(line);
        } else {
            skipped += 1;
        }
    }
    if skipped > 0 {
        shown.push(Line::Skipped(skipped));
    }
    shown
}

/// Of a page.
const MOST_SHOWN: usize = 5_000;
/// As diff(1) shows.
const AROUND: usize = 3;
/// Sixteen megabytes of counters, some ten milliseconds.
const MOST_CELLS: usize = 4_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_line_is_shown_with_three_around_it() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let new = "1\n2\n3\n4\nfive\n6\n7\n8\n9\n10\n";
        let shown = difference(old, new);
        let same = |text: &str| Line::Same(text.to_owned());
        let want = vec![
            Line::Skipped(1),
            same("2"),
            same("3"),
            same("4"),
            Line::Removed("5".to_owned()),
            Line::Added("five".to_owned()),
            same("6"),
            same("7"),
            same("8"),
            same("9"),
            Line::Added("10".to_owned()),
        ];
        assert_eq!(shown, want);
        assert_eq!(difference(old, old), vec![Line::Skipped(9)]);
        assert_eq!(difference("", "a"), vec![Line::Added("a".to_owned())]);
    }

    #[test]
    fn more_than_anybody_reads_is_counted() {
        let long = "a\n".repeat(MOST_SHOWN + 7);
        let shown = difference("", &long);
        assert_eq!(shown.len(), MOST_SHOWN + 1);
        assert_eq!(shown.last(), Some(&Line::Left(7)));
    }
}
