//! What a secret is, beside its value: its kind, where the value comes from, how its sentinel looks.
//!
//! This is the definition file of `gig secret set --definition FILE` (YAML or JSON) and, as JSON, what
//! the store keeps beside a value. It holds nothing secret; unknown fields are errors.
//!
//! ```yaml
//! kind: static                # or basic, or {oauth2_client_credentials: {…}}
//! provider: embedded          # or {environment: {}}, {file: {…}}, {command: {…}}, {hashicorp: {…}}
//! shape: {like: {prefix: ghp_, length: 36, alphabet: alphanumeric}}
//! entrusted: false
//! ```

use serde::{Deserialize, Serialize};

use crate::{kind::KindDefinition, provider::ProviderDefinition, shape::ShapeDefinition};

/// All of it; every field may be left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Definition {
    /// What is made of the stored value.
    #[serde(default)]
    pub kind: KindDefinition,
    /// Where the value comes from.
    #[serde(default)]
    pub provider: ProviderDefinition,
    /// What its sentinel looks like; the kind's own choice when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<ShapeDefinition>,
    /// The real value is handed in, where the policy says so too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub entrusted: bool,
}

/// A definition cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the definition of a secret cannot be read: {why}{}", place(*.at))]
pub struct ParseDefinitionError {
    why: String,
    /// Line and column.
    at: Option<(u64, u64)>,
}

impl ParseDefinitionError {
    /// As compilers say it, `FILE:LINE:COLUMN: what is wrong`.
    #[must_use]
    pub fn in_file(&self, file: &str) -> String {
        match self.at {
            Some((line, column)) => format!("{file}:{line}:{column}: {}", self.why),
            None => format!("{file}: {}", self.why),
        }
    }
}

fn place(at: Option<(u64, u64)>) -> String {
    at.map_or_else(String::new, |(line, column)| {
        format!(" at line {line}, column {column}")
    })
}

impl Definition {
    /// The URLs that gig itself asks, for the value and for what is minted from it, as they are spelled here.
    #[must_use]
    pub fn services(&self) -> Vec<String> {
        let provider = match &self.provider {
            ProviderDefinition::Hashicorp(options) => Some(options.address.as_str()),
            ProviderDefinition::Embedded
            | ProviderDefinition::Environment(_)
            | ProviderDefinition::File(_)
            | ProviderDefinition::Command(_) => None,
        };
        let asked = provider.into_iter().chain(self.kind.service());
        asked.map(str::to_owned).collect()
    }

    /// Reads YAML or JSON.
    ///
    /// # Errors
    /// When it is neither, or holds a field that no definition has; says line and column.
    pub fn parse(text: &str) -> Result<Self, ParseDefinitionError> {
        serde_saphyr::from_str(text).map_err(|error| {
            let at = error.location().map(|at| (at.line(), at.column()));
            // Without the lines themselves: they may hold a value that is in the wrong place.
            let said = error.without_snippet().to_string();
            let said = said.strip_suffix(&place(at)).unwrap_or(&said);
            ParseDefinitionError {
                why: in_words(said),
                at,
            }
        })
    }

    /// As the store keeps it.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Plain data: strings, numbers and maps with string keys always serialise.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads what [`Definition::to_json`] wrote.
    ///
    /// # Errors
    /// When it was written by a later gig, or not by gig.
    pub fn from_json(text: &str) -> Result<Self, ParseDefinitionError> {
        serde_json::from_str(text).map_err(|error| ParseDefinitionError {
            why: error.to_string(),
            at: None,
        })
    }
}

/// What the reader says of a text, for who wrote it.
fn in_words(said: &str) -> String {
    if let Some(number) = said.strip_prefix("invalid ")
        && ["u8", "u16", "u32", "u64", "i64", "usize"].contains(&number)
    {
        return "a whole number is wanted here".to_owned();
    }
    // unknown field `x`, expected one of a, b
    let written = said.split('`').nth(1);
    let known = said.split_once("expected one of ");
    let known = known.filter(|_| said.starts_with("unknown "));
    let near = written.zip(known).and_then(|(written, (_, known))| {
        let words = known.split(", ").map(|word| word.trim_matches('`'));
        gig_policy::nearest(written, words)
    });
    match near {
        Some(near) => format!("{said}: did you mean `{near}`?"),
        None => said.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_is_told_with_its_place_and_with_what_was_meant() {
        for (text, told) in [
            (
                "provider: {comand: {program: /bin/true}}",
                "d.yaml:1:12: unknown variant `comand`",
            ),
            (
                "provider: {comand: {program: /bin/true}}",
                "did you mean `command`?",
            ),
            (
                "kind: static\nentrustd: true",
                "d.yaml:2:1: unknown field `entrustd`",
            ),
            ("kind: static\nentrustd: true", "did you mean `entrusted`?"),
            (
                "shape: {like: {prefix: a, length: long}}",
                "a whole number is wanted",
            ),
            ("kind: nonsense", "unknown variant `nonsense`"),
        ] {
            let error = Definition::parse(text).unwrap_err();
            let said = error.in_file("d.yaml");
            assert!(said.contains(told), "{said}");
            assert!(!said.contains("column"), "{said}");
        }
        let said = Definition::parse("surprise: 1").unwrap_err().to_string();
        assert!(said.ends_with("at line 1, column 1"), "{said}");
    }
}
