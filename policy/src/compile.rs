//! From a document to rules: what each field means, and what is refused.
//!
//! All mistakes of a document are reported at once. An entry with a mistake yields no rule, so that
//! nothing is ever allowed by half of what was written; a document with a mistake yields no policy.

use std::sync::Arc;

use crate::{
    compile_error::Problem,
    document::{self, Document, Located, RawLimits, Scalar},
    limits::{ByteCount, Limits},
    policy::Settings,
    rule::{Position, Rule},
    verdict::{DenyStyle, Mode},
};

mod entry;
mod hold;
mod range;

pub(crate) use range::{address_range, private_range};

/// What a document says.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) name: Option<Arc<str>>,
    pub(crate) settings: Settings,
    pub(crate) rules: Vec<Rule>,
}

/// Reads and checks a document; everything that is wrong is added to `problems`.
pub(crate) fn parts(text: &str, problems: &mut Vec<Problem>) -> Option<Parts> {
    let document = document::read(text, problems)?;
    let name = check_name(&document, problems);
    let settings = settings(&document, problems);
    let entries = document.egress.iter();
    let rules = entries
        .filter_map(|entry| entry::rule(entry, problems))
        .collect();
    Some(Parts {
        name,
        settings,
        rules,
    })
}

fn check_name(document: &Document, problems: &mut Vec<Problem>) -> Option<Arc<str>> {
    if let Some(version) = &document.version
        && version.value != 1
    {
        let message = format!(
            "`version: {}` is not known: this gig reads `version: 1`",
            version.value
        );
        problems.push(Problem::at(version.at, message));
    }
    let name = document.name.as_ref()?;
    let text = name.value.as_str();
    if text.is_empty() || text.chars().count() > LONGEST_NAME || text.chars().any(char::is_control)
    {
        let message = format!("`name` must be 1 to {LONGEST_NAME} printable characters");
        problems.push(Problem::at(name.at, message));
        return None;
    }
    Some(text.into())
}

fn settings(document: &Document, problems: &mut Vec<Problem>) -> Settings {
    let mut settings = Settings::UNSTATED;
    if let Some(mode) = &document.mode {
        let modes = [("enforce", Mode::Enforce), ("observe", Mode::Observe)];
        if let Some(mode) = one_of("mode", mode, &modes, problems) {
            settings.mode = mode;
        }
    }
    if let Some(deny) = &document.deny {
        let styles = [("explain", DenyStyle::Explain), ("reset", DenyStyle::Reset)];
        if let Some(deny) = one_of("deny", deny, &styles, problems) {
            settings.deny = deny;
        }
    }
    if let Some(raw) = &document.hold {
        settings.hold = hold::time(raw, &settings, problems);
    }
    if let Some(raw) = &document.limits {
        settings.limits = limits(raw, problems);
    }
    settings
}

fn one_of<T: Copy>(
    field: &str,
    value: &Located<String>,
    known: &[(&str, T)],
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let found = known.iter().find(|(word, _)| *word == value.value);
    if found.is_none() {
        let words: Vec<_> = known.iter().map(|(word, _)| *word).collect();
        let message = format!(
            "`{field}: {}` is not known: write {}",
            value.value,
            words.join(" or ")
        );
        problems.push(Problem::at(value.at, message));
    }
    found.map(|(_, meaning)| *meaning)
}

fn limits(raw: &RawLimits, problems: &mut Vec<Problem>) -> Limits {
    let mut count = |field: &str, value: &Option<Located<i128>>| {
        let value = value.as_ref()?;
        let number = u32::try_from(value.value).ok().filter(|n| *n > 0);
        if number.is_none() {
            let message = format!("`{field}` must be a number from 1 to {}", u32::MAX);
            problems.push(Problem::at(value.at, message));
        }
        number
    };
    let requests_per_minute = count("requests_per_minute", &raw.requests_per_minute);
    let connections = count("connections", &raw.connections);
    let mut amount = |field: &str, value: &Option<Located<Scalar>>| {
        let value = value.as_ref()?;
        let bytes = match &value.value {
            Scalar::Number(number) => u64::try_from(*number).ok().map(ByteCount),
            Scalar::Text(text) => ByteCount::parse(text).ok(),
        };
        if bytes.is_none() {
            let message = format!(
                "`{field}` must be a number of octets with a unit of kB, MB, GB, TB, KiB, MiB, GiB \
                 or TiB, as in 50MB"
            );
            problems.push(Problem::at(value.at, message));
        }
        bytes
    };
    Limits {
        requests_per_minute,
        connections: connections.unwrap_or(Limits::UNSTATED.connections),
        request_body: amount("request_body", &raw.request_body),
        upload_per_hour: amount("upload_per_hour", &raw.upload_per_hour),
    }
}

/// A rule's place, for a problem that is found later.
pub(crate) fn problem_of_rule(rule: &Rule, message: String) -> Problem {
    match rule.position {
        Some(Position { line, column }) => Problem {
            line,
            column,
            message,
        },
        None => Problem::nowhere(format!("{}: {message}", rule.reference)),
    }
}

/// Names go into records, headers and terminal lines.
const LONGEST_NAME: usize = 128;

#[cfg(test)]
mod tests;
