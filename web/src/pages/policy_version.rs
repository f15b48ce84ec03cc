//! One version of a policy: the whole document with its lines numbered, the rule that a record named
//! marked in it, and below what changed against the version before. Also of a policy that was removed.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use gig_policy::{Limits, rule_lines};
use serde::Deserialize;

use super::{
    Answer, Done, Form, Frame, InAddress, Path, in_query,
    policies::{DiffLine, compared},
    proposed,
    records::cut,
    shown, told,
};
use crate::{
    api::policies::{PolicyView, Saved, roll_back_to, version_of},
    api_error::Problem,
    app::App,
    auth::Caller,
};

#[derive(Template)]
#[template(path = "policy_version.html")]
struct VersionPage {
    frame: Frame,
    policy: PolicyView,
    /// The newest version's number, 0 where the policy was removed; and whether this is it.
    on: u64,
    newest: bool,
    /// Where the rule that was asked for stands, in words; empty where none was.
    rule: String,
    /// That rule, as a search is asked for it; empty where none stands there.
    asked: String,
    source: Source,
    meaning: String,
    lines: Vec<DiffLine>,
}

/// A document, or so much of it as is shown.
struct Source {
    lines: Vec<SourceLine>,
    /// Lines that are left out before and behind.
    before: u64,
    behind: u64,
}

/// A line of a document.
struct SourceLine {
    number: u64,
    text: String,
    /// Of the rule that was asked for, of its very request rule, or of neither.
    mark: &'static str,
    /// The first of the rule: links lead here.
    first: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sought {
    /// A rule, as records name it, or a limit: `limits.connections`.
    #[serde(default)]
    rule: String,
}

/// `GET /policies/{name}/versions/{version}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, number)): Path<(String, u64)>,
    InAddress(sought): InAddress<Sought>,
) -> Answer {
    let kept = version_of(&app, &caller, name.clone(), Some(number)).await?;
    let wanted = name.clone();
    let newest = app.ask(move |store| store.policy(&wanted, None)).await?;
    let on = newest.map_or(0, |newest| newest.head.version);
    let wanted = name.clone();
    let before = app.ask(move |store| store.versions(&wanted, Some(number), 1));
    // The one before has not always the number before: see `store::transfer`.
    let old = match before.await?.first() {
        None => String::new(),
        Some(before) => {
            let before = version_of(&app, &caller, name.clone(), Some(before.version)).await;
            before.map(|before| before.document).unwrap_or_default()
        }
    };
    let new = kept.document.clone();
    let asked = in_query(&sought.rule);
    let (rule, source) = found(&app, new.clone(), sought.rule).await?;
    let (meaning, lines) = match number {
        0 | 1 => (String::new(), Vec::new()),
        _ => compared(&app, name, old, new).await?,
    };
    let page = VersionPage {
        frame: Frame::new(&caller, "/policies"),
        on,
        newest: on == kept.head.version,
        asked,
        rule,
        source,
        meaning,
        lines,
        policy: kept.head.into(),
    };
    Ok(shown(&page))
}

/// What somebody looked at when they went back.
#[derive(Deserialize)]
pub(crate) struct Back {
    on: u64,
}

/// `POST /policies/{name}/versions/{version}`: back to it.
pub(crate) async fn roll_back(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((name, version)): Path<(String, u64)>,
    Form(seen): Form<Back>,
) -> Answer {
    let back = format!("/policies/{}", in_query(&name));
    match roll_back_to(&app, &caller, name, (version, Some(seen.on)), String::new()).await? {
        Saved::Version(_) => Ok(told(Done::NewVersion, &back)),
        Saved::Proposed(proposal, before) => Ok(proposed(proposal.id, before)),
    }
}

/// The rule's place in words, and the document with the rule marked.
async fn found(app: &App, document: String, rule: String) -> Result<(String, Source), Problem> {
    app.aside(move || {
        let lines = match rule.is_empty() {
            true => None,
            false => rule_lines(&document, &rule),
        };
        let rule = cut(&rule, 80);
        let words = match &lines {
            _ if rule.is_empty() => String::new(),
            None => match rule.strip_prefix("limits.") {
                Some("connections") => format!(
                    "This version says nothing of {rule}: {} is gig's own, unless a floor has less.",
                    Limits::UNSTATED.connections
                ),
                Some(_) => format!("This version says nothing of {rule}: a floor has it."),
                None => format!("There is no rule {rule} in this version."),
            },
            Some(lines) => {
                let (from, to) = (lines.entry.start(), lines.entry.end());
                match from == to {
                    true if rule.starts_with("limits.") => {
                        format!("The limit {rule} stands in line {from}; a floor may have less.")
                    }
                    true => format!("Rule {rule} stands in line {from}."),
                    false => format!("Rule {rule} stands in lines {from} to {to}."),
                }
            }
        };
        let first = lines.as_ref().map_or(1, |lines| *lines.entry.start());
        let mark = |number: u64| {
            let lines = lines.as_ref()?;
            let exact = lines.request.as_ref();
            if exact.is_some_and(|exact| exact.contains(&number)) {
                return Some("exact");
            }
            lines.entry.contains(&number).then_some("rule")
        };
        let is_marked = lines.is_some();
        let source = part(&document, first, |number| SourceLine {
            number,
            text: String::new(),
            mark: mark(number).unwrap_or_default(),
            first: is_marked && number == first,
        });
        (words, source)
    })
    .await
}

/// The lines around the one that is looked for, all of them where nobody minds.
fn part(document: &str, sought: u64, line: impl Fn(u64) -> SourceLine) -> Source {
    let all = u64::try_from(document.lines().count()).unwrap_or(u64::MAX);
    let before = match all > MOST_SHOWN {
        true => sought.saturating_sub(MOST_SHOWN / 2).min(all - MOST_SHOWN),
        false => 0,
    };
    let numbered = (1_u64..).zip(document.lines());
    let wanted = numbered.filter(|(number, _)| (before + 1..=before + MOST_SHOWN).contains(number));
    let lines = wanted.map(|(number, text)| SourceLine {
        text: text.to_owned(),
        ..line(number)
    });
    Source {
        lines: lines.collect(),
        before,
        behind: all.saturating_sub(before + MOST_SHOWN),
    }
}

/// Of a page: some hundred kilobytes.
const MOST_SHOWN: u64 = 5_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(number: u64) -> SourceLine {
        SourceLine {
            number,
            text: String::new(),
            mark: "",
            first: false,
        }
    }

    #[test]
    fn of_a_very_long_document_the_part_around_the_rule_is_shown() {
        let part = |lines: u64, sought| {
            let text: String = (1..=lines).map(|number| format!("{number}\n")).collect();
            let source = part(&text, sought, plain);
            let numbers: Vec<u64> = source.lines.iter().map(|line| line.number).collect();
            for line in &source.lines {
                assert_eq!(line.text, line.number.to_string());
            }
            let ends = numbers.first().copied().zip(numbers.last().copied());
            (source.before, ends, source.behind)
        };
        assert_eq!(part(3, 2), (0, Some((1, 3)), 0));
        assert_eq!(part(MOST_SHOWN, 1), (0, Some((1, MOST_SHOWN)), 0));
        assert_eq!(part(MOST_SHOWN + 7, 1), (0, Some((1, MOST_SHOWN)), 7));
        let last = MOST_SHOWN + 7;
        assert_eq!(part(last, last), (7, Some((8, last)), 0));
        let (before, ends, behind) = part(20_000, 10_000);
        assert_eq!((before, behind), (7_500, 7_500));
        assert_eq!(ends, Some((7_501, 12_500)));
        assert_eq!(part(0, 1), (0, None, 0));
    }
}
