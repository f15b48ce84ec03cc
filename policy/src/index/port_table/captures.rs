//! What captures an answer, by the loose form of the request's path: a server may merge slashes, cut
//! parameters off or forgive letter case, and a rule beside the one that captures may let such a spelling go.
//!
//! It lets nothing go and grants nothing: what a request carries is found by its path as it is.

use std::{collections::HashMap, sync::Arc};

use super::{SharedUnion, merge_list};
use crate::{
    http_match::trie::PathTrie,
    path,
    rule::{RequestRule, Rule},
    secret_grant::SecretGrant,
};

/// The captures of rules that name paths.
#[derive(Debug, Default)]
pub(super) struct LooseCaptures(PathTrie<Leaf>);

#[derive(Debug, Default)]
struct Leaf {
    any_method: Arc<[SecretGrant]>,
    methods: HashMap<Box<str>, Arc<[SecretGrant]>>,
}

impl LooseCaptures {
    /// Takes in a request rule of one that captures.
    pub(super) fn add(&mut self, rule: &Rule, request: &RequestRule) {
        let capturing = rule.secrets.iter().filter(|grant| grant.captures);
        let capturing: Arc<[SecretGrant]> = capturing.cloned().collect();
        let paths = request.paths.iter().flatten();
        for path in paths.filter_map(|path| path.loosely()) {
            let Some(leaf) = self.0.leaf_mut(&path) else {
                continue;
            };
            match &request.methods {
                None => merge_list(&mut leaf.any_method, &capturing),
                Some(methods) => {
                    for method in methods {
                        let known = leaf.methods.entry(method.as_str().into()).or_default();
                        merge_list(known, &capturing);
                    }
                }
            }
        }
    }

    /// Adds what captures such a request's answer.
    pub(super) fn find<'a>(
        &'a self,
        method: &str,
        path: &str,
        secrets: &mut SharedUnion<'a, SecretGrant>,
    ) {
        if self.0.is_empty() {
            return;
        }
        self.0.visit(&path::loosely(path), |leaf| {
            secrets.add(&leaf.any_method);
            if let Some(capturing) = leaf.methods.get(method) {
                secrets.add(capturing);
            }
        });
    }
}
