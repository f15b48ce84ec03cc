//! Puts the values of one secret into a header section, and notes where a sentinel stands that may not.

use std::sync::Arc;

use gig_policy::SecretName;
use http::{HeaderMap, HeaderName, header, uri::PathAndQuery};

use super::{Stopped, fields, target};
use crate::credential::{
    misuse::hidden::named,
    place::{Replacement, Unplaceable, Unplaced},
    tally::Misuse,
    watch::Watch,
};

/// Places the values of one secret.
#[derive(Debug)]
pub(super) struct Placer {
    pub(super) replacements: Vec<Replacement>,
    /// Places where a sentinel stands that the policy does not take it in.
    pub(super) misplaced: Vec<String>,
    /// The field that is looked at; `None`: path and query are.
    pub(super) at: Option<HeaderName>,
    /// What no name may hold that is told; nothing is named without it.
    pub(super) watch: Option<Arc<Watch>>,
}

impl Placer {
    /// Whether anything was placed.
    pub(super) fn place(
        &mut self,
        target: &mut PathAndQuery,
        headers: &mut HeaderMap,
    ) -> Result<bool, Unplaceable> {
        let mut any = target::place(self, target)?;
        let names: Vec<_> = headers.keys().cloned().collect();
        for name in names {
            if name == header::HOST || name == header::PROXY_AUTHORIZATION {
                // Neither goes to the origin as the program wrote it.
                continue;
            }
            self.at = Some(name.clone());
            if let header::Entry::Occupied(mut entry) = headers.entry(&name) {
                for value in entry.iter_mut() {
                    any |= fields::place(self, &name, value)?;
                }
            }
        }
        Ok(any)
    }

    /// A sentinel stands in this field or cookie, which the policy does not take it in.
    pub(super) fn misplace(&mut self, kind: &str, name: &[u8]) {
        let place = named(self.watch.as_deref(), kind, name);
        self.misplaced.push(place);
    }

    /// It could not write a value where it looked last.
    pub(super) fn unplaced(&self, name: &SecretName, why: Unplaceable) -> Stopped {
        let place = match (&self.at, why) {
            (Some(field), _) => named(self.watch.as_deref(), "header", field.as_str().as_bytes()),
            (None, Unplaceable::Moves) => "the path".to_owned(),
            (None, _) => "path or query".to_owned(),
        };
        Stopped::Unplaceable(Unplaced {
            name: name.clone(),
            place,
            why,
        })
    }

    pub(super) fn misuses(&self, name: &SecretName) -> Vec<Misuse> {
        let misuse = |place: &String| {
            let text = format!("sentinel of {name} in {place}, where the policy does not take it");
            Misuse::of_own(name, text)
        };
        self.misplaced.iter().map(misuse).collect()
    }
}
