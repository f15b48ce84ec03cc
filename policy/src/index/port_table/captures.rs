//! What captures an answer, by the loose form of the request's path: a server may merge slashes, cut
//! parameters off or forgive letter case, and a rule beside the one that captures may let such a spelling go.
//! Whatever the request's method is: what hands tokens out to one method may hand them out to another.
//!
//! It lets nothing go and grants nothing: what a request carries is found by its path as it is.

use std::sync::Arc;

use super::{SharedUnion, merge_list};
use crate::{
    http_match::trie::PathTrie,
    path,
    rule::{RequestRule, Rule},
    secret_grant::SecretGrant,
};

/// The captures of rules that name paths.
#[derive(Debug, Default)]
pub(super) struct LooseCaptures(PathTrie<Arc<[SecretGrant]>>);

impl LooseCaptures {
    /// Takes in a request rule of one that captures.
    pub(super) fn add(&mut self, rule: &Rule, request: &RequestRule) {
        let capturing = rule.secrets.iter().filter(|grant| grant.captures);
        let capturing: Arc<[SecretGrant]> = capturing.cloned().collect();
        let paths = request.paths.iter().flatten();
        for path in paths.filter_map(|path| path.loosely()) {
            if let Some(known) = self.0.leaf_mut(&path) {
                merge_list(known, &capturing);
            }
        }
    }

    /// Adds what captures such a request's answer.
    pub(super) fn find<'a>(&'a self, path: &str, secrets: &mut SharedUnion<'a, SecretGrant>) {
        if self.0.is_empty() {
            return;
        }
        let loose = path::loosely(path);
        for form in path::undressed(&loose).iter().chain([&loose]) {
            self.0.visit(form, |capturing| secrets.add(capturing));
        }
    }
}
