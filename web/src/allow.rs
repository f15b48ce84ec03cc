//! From a denied record to the rule that would have let it pass: the narrowest, put into the document.
//!
//! The document is edited as text, so that comments and order stay; the result is compiled and asked
//! whether it lets the request pass before anybody sees it. What cannot be put in with certainty is offered as a rule
//! to put in by hand. An address that is not public is opened by itself alone, and never one that nothing opens.

use std::net::IpAddr;

use gig_audit::row::Row;
use gig_policy::{DenyReason, Moment, Policy};
use serde::Deserialize;
use utoipa::ToSchema;

use self::entry::{Entry, Private};
use crate::{document, remedy::asked};

pub(crate) mod ended;
mod entry;
mod flow;

/// How much a rule opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Width {
    /// This method and path.
    #[default]
    Path,
    /// Every request to the host on this port; where no rule can name the path, of this method.
    Host,
}

/// For how long a rule opens it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Lasting {
    /// Until somebody takes it out.
    #[default]
    Ever,
    /// For an hour from when it is offered.
    Hour,
}

impl Lasting {
    /// When the rule ends.
    pub(crate) fn until(self, now: Moment) -> Option<Moment> {
        match self {
            Self::Ever => None,
            Self::Hour => Some(Moment::from_unix(now.unix() + HOUR)),
        }
    }
}

/// A rule, and a document that holds it.
pub(crate) struct Proposal {
    /// As an entry under `egress`.
    pub(crate) rule: String,
    /// The document with it; `None` where it is to be put in by hand.
    pub(crate) document: Option<String>,
}

/// The rule that lets a record's request pass; `None` for what no rule can open.
pub(crate) fn propose(
    name: &str,
    document: &str,
    row: &Row,
    (width, until): (Width, Option<Moment>),
) -> Option<Proposal> {
    let rule = Entry::of(row, width, until)?;
    asked(row)?;
    let with = insert(document, &rule).filter(|with| {
        let old = document::compile(name, 0, document, None);
        let new = document::compile(name, 0, with, None);
        match (old, new) {
            // Another rule may treat the host otherwise and decide all the same.
            (Ok(old), Ok(new)) => adds_one(&old, &new) && lets_pass(&new, row, until),
            _ => false,
        }
    });
    Some(Proposal {
        rule: match is_in_braces(document) {
            true => rule.json(),
            false => rule.yaml(),
        },
        document: with,
    })
}

/// Whether a policy lets a record's request pass to the last moment before `until`, or for ever: what ends sooner takes no
/// part.
pub(crate) fn lets_pass(policy: &Policy, row: &Row, until: Option<Moment>) -> bool {
    let last = until.map_or(i64::MAX, |end| end.unix() - 1);
    let policy = policy.as_of(Moment::from_unix(last));
    asked(row).is_some_and(|asked| policy.covers(&asked, address(row)).is_ok())
}

/// How a new document begins.
pub(crate) fn begin(name: &str) -> String {
    format!("version: 1\nname: {name}\nmode: enforce\n")
}

/// Whether a person can be offered a rule at all.
pub(crate) fn can_be_allowed(row: &Row) -> bool {
    let denied = matches!(row.verdict.as_deref(), Some("deny" | "would_deny"));
    let known = row.reason.as_deref().and_then(DenyReason::of_word);
    let by_rules =
        known.is_some_and(|known| known.is_of_rules() || known == DenyReason::PrivateAddress);
    denied && by_rules && asked(row).is_some() && Entry::of(row, Width::Host, None).is_some()
}

/// The address that stood in a record's way, where it is not public: a rule opens it for whatever is allowed of its host.
pub(crate) fn address(row: &Row) -> Option<IpAddr> {
    match entry::private(row) {
        _ if !is_for_address(row.reason.as_deref()) => None,
        Private::Open(ip) => Some(ip),
        Private::None | Private::Never => None,
    }
}

/// Whether this is why something was denied: where its name is, or what it is, and nothing else.
pub(crate) fn is_for_address(reason: Option<&str>) -> bool {
    reason == Some(DenyReason::PrivateAddress.as_str())
}

/// Whether the record names a request, so that a rule can be as narrow as that.
pub(crate) fn has_path(row: &Row) -> bool {
    Entry::of(row, Width::Path, None) != Entry::of(row, Width::Host, None)
}

/// The one method that a rule for its host opens, where the record's path is one that no rule can name.
pub(crate) fn method_alone(row: &Row) -> Option<String> {
    let rule = Entry::of(row, Width::Host, None)?;
    rule.of_method().map(str::to_owned)
}

fn adds_one(old: &Policy, new: &Policy) -> bool {
    let change = old.difference(new);
    change.settings.is_empty() && change.removed.is_empty() && change.added.len() == 1
}

/// `document` with one more entry at the end of `egress`.
fn insert(document: &str, rule: &Entry) -> Option<String> {
    if is_in_braces(document) {
        return flow::with_rule(document, &rule.json());
    }
    let rule = &rule.yaml();
    if let Some(open) = list_in_brackets(document) {
        return flow::with_entry(document, open, rule);
    }
    let lines: Vec<&str> = document.lines().collect();
    let is_key = |line: &&str| line.starts_with("egress:");
    let Some(key) = lines.iter().position(is_key) else {
        let end = if document.is_empty() || document.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        return Some(format!("{document}{end}egress:\n  - {rule}\n"));
    };
    let after = lines.get(key)?.strip_prefix("egress:")?;
    let after = after.split('#').next().unwrap_or_default().trim();
    let mut edited: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    if after == "[]" {
        // Whoever reads it reads lists in lines as a rule.
        *edited.get_mut(key)? = format!("egress:\n  - {rule}");
        return Some(edited.join("\n") + "\n");
    }
    if !after.is_empty() {
        return None;
    }
    let belongs = |line: &str| {
        line.is_empty() || line.starts_with([' ', '\t', '#']) || line.starts_with("- ")
    };
    let block = lines.iter().skip(key + 1).take_while(|line| belongs(line));
    let mut dash = None;
    let mut last = key;
    for (place, line) in block.enumerate() {
        let text = line.trim_start();
        if text.starts_with("- ") && dash.is_none() {
            dash = Some(line.len() - text.len());
        }
        if !text.is_empty() && !line.starts_with('#') {
            last = key + 1 + place;
        }
    }
    let indent = " ".repeat(dash.unwrap_or(2));
    edited.insert(last + 1, format!("{indent}- {rule}"));
    Some(edited.join("\n") + "\n")
}

/// Whether a document is one map in braces, as JSON is.
fn is_in_braces(document: &str) -> bool {
    document.trim_start().starts_with('{')
}

/// Where the list under `egress` opens, if it is written in brackets and has anything in it.
fn list_in_brackets(document: &str) -> Option<usize> {
    let mut at = 0;
    let mut is_found = false;
    for line in document.split_inclusive('\n') {
        let value = match is_found {
            true => line,
            false => line.strip_prefix("egress:").unwrap_or_default(),
        };
        is_found |= line.starts_with("egress:");
        let text = value.trim_start();
        if is_found && !text.is_empty() && !text.starts_with('#') {
            let open = at + line.len() - text.len();
            let is_empty = text.split('#').next().unwrap_or_default().trim() == "[]";
            return (text.starts_with('[') && !is_empty).then_some(open);
        }
        at += line.len();
    }
    None
}

/// In seconds.
const HOUR: i64 = 3600;
#[cfg(test)]
mod tests;
