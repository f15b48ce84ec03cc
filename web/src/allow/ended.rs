//! Rules that have ended, taken out when the next rule is put in: else a policy by which people are asked grows by a line for
//! each answer. Only entries of one line that end with their time, as gig itself writes them; a document that means anything
//! else without them keeps them.

use gig_policy::Moment;

use crate::document;

/// `document` without those that ended before `now`; as it is where that would mean anything else.
pub(crate) fn without_ended(name: &str, document: &str, now: Moment) -> String {
    let is_kept = |line: &&str| !is_ended(line, now);
    let kept: Vec<&str> = document.lines().filter(is_kept).collect();
    let ended = document.lines().count() - kept.len();
    let without = kept.join("\n") + "\n";
    match ended > 0 && loses_no_more(name, (document, &without), ended) {
        true => without,
        false => document.to_owned(),
    }
}

/// `- {…, expires: "2026-11-22T10:00:00Z"}`, of a moment that has passed.
fn is_ended(line: &str, now: Moment) -> bool {
    let entry = line.trim_start().strip_prefix("- {");
    let end = entry.and_then(|entry| entry.rsplit_once(", expires: \""));
    let end = end.and_then(|(_, end)| end.strip_suffix("\"}"));
    let end = end.and_then(|end| end.parse::<Moment>().ok());
    end.is_some_and(|end| end < now)
}

/// Whether so many rules go at most (where another says the same none does), and nothing else is different.
fn loses_no_more(name: &str, (before, after): (&str, &str), ended: usize) -> bool {
    let compiled = |text: &str| document::compile(name, 0, text, None);
    let (Ok(before), Ok(after)) = (compiled(before), compiled(after)) else {
        return false;
    };
    let change = before.difference(&after);
    let same = change.settings.is_empty() && change.handling.is_empty();
    same && change.added.is_empty() && change.removed.len() <= ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_ended_goes_and_nothing_else() {
        let now: Moment = "2026-11-22T10:00:00Z".parse().unwrap();
        let past = "{host: \"a.example\", ports: [443], expires: \"2026-11-22T09:00:00Z\"}";
        let later = past.replace("T09", "T11");
        let kept = format!(
            "version: 1\negress:\n  # mine\n  - host: b.example\n  - {later}\n  - host: c.example\n    expires: \
             2026-11-01T00:00:00Z\n"
        );
        assert_eq!(without_ended("p", &kept, now), kept);
        let grown = kept.replace(
            "  - host: c",
            &format!("  - {past}\n  - {past}\n  - host: c"),
        );
        assert_eq!(without_ended("p", &grown, now), kept);
        // What is no policy stays as it is.
        let broken = format!("not: [a document\n  - {past}\n");
        assert_eq!(without_ended("p", &broken, now), broken);
        let alone = format!("version: 1\negress:\n  - {past}\n");
        let without = without_ended("p", &alone, now);
        assert!(
            document::compile("p", 0, &without, None).is_ok(),
            "{without}"
        );
    }
}
