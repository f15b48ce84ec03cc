//! What the rules of one pattern say of one port: who may speak what, and which requests may go.
//!
//! Filled once, read on every decision. Rules that say the same are folded together, so that the size
//! of a table follows what can be told apart, not the number of rules.

use std::{collections::HashMap, sync::Arc};

use ipnet::IpNet;

use crate::{
    http_match::trie::PathTrie,
    intent::AppProtocol,
    rule::{Protocols, RequestRule, Rule},
    secret_grant::SecretGrant,
    verdict::{DecidedOn, Handling, RuleRef},
};

use self::captures::LooseCaptures;

mod captures;

/// All that is known of one port of one pattern.
#[derive(Debug)]
pub(crate) struct PortTable {
    /// How the bytes are treated.
    pub(crate) handling: Handling,
    /// The first rule of it.
    pub(crate) rule: RuleRef,
    /// What any of its rules grants to some request.
    pub(crate) secrets: Arc<[SecretGrant]>,
    /// For https, http, tcp, and for a connection whose protocol is not known yet.
    connections: [Option<ConnectionGrant>; 4],
    /// Rules without `rules`: every request.
    open: ByProtocol,
    /// Request rules without `paths`.
    any_path: PathLeaf,
    trie: PathTrie<PathLeaf>,
    /// The first request rule of each method, and of those that take any.
    methods: HashMap<Box<str>, RuleRef>,
    any_method: Option<RuleRef>,
    /// What request rules speak of whose answers are captured.
    capturing: DecidedOn,
    /// Where such a rule's path might be meant by another spelling, which another rule lets go.
    loose: LooseCaptures,
}

/// What a permitted connection carries.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionGrant {
    pub(crate) rule: RuleRef,
    pub(crate) allow_private: Arc<[IpNet]>,
}

/// What a permitted request carries.
#[derive(Debug, Clone)]
struct RequestGrant {
    rule: RuleRef,
    secrets: Arc<[SecretGrant]>,
    /// The rule says `protocol: http` itself.
    clear_text: bool,
}

/// For https and for http.
type ByProtocol = [Option<RequestGrant>; 2];

/// What the rules with one path pattern say.
#[derive(Debug, Default)]
struct PathLeaf {
    any_method: ByProtocol,
    methods: HashMap<Box<str>, ByProtocol>,
    /// The first rule with this path, for a denial that comes near.
    nearest: Option<RuleRef>,
}

/// What was found for one request, over all patterns that speak of the host.
#[derive(Debug, Default)]
pub(crate) struct RequestMatch<'a> {
    pub(crate) rule: Option<&'a RuleRef>,
    pub(crate) secrets: SharedUnion<'a, SecretGrant>,
    /// Some rule that lets it go takes secrets in clear text.
    pub(crate) clear_text: bool,
    free: Free,
    /// What the rules that grant secrets decided on, whatever else is open, and those that capture: as another
    /// request it would be granted others.
    for_secrets: DecidedOn,
}

/// Of what some rule that lets a request go takes every one.
#[derive(Debug, Default)]
struct Free {
    method: bool,
    path: bool,
    /// The same rule does both.
    both: bool,
}

/// A union of shared lists that copies only when two differ.
#[derive(Debug)]
pub(crate) struct SharedUnion<'a, T>(UnionState<'a, T>);

#[derive(Debug)]
enum UnionState<'a, T> {
    Empty,
    One(&'a Arc<[T]>),
    Merged(Vec<T>),
}

impl PortTable {
    pub(crate) fn new(handling: Handling, rule: RuleRef) -> Self {
        Self {
            handling,
            rule,
            secrets: Arc::default(),
            connections: Default::default(),
            open: Default::default(),
            any_path: PathLeaf::default(),
            trie: PathTrie::default(),
            methods: HashMap::new(),
            any_method: None,
            capturing: DecidedOn::default(),
            loose: LooseCaptures::default(),
        }
    }

    pub(crate) fn add(&mut self, rule: &Rule, protocols: Protocols) {
        let kinds = [
            protocols.has(AppProtocol::Https),
            protocols.has(AppProtocol::Http),
            protocols.has(AppProtocol::Tcp),
            true,
        ];
        for (grant, wanted) in self.connections.iter_mut().zip(kinds) {
            if wanted {
                merge_connection(grant, rule);
            }
        }
        // What is not looked into takes what the program is handed.
        let unopened = rule.handling != Handling::Inspect;
        if protocols.has(AppProtocol::Https) || rule.clear_text_secrets || unopened {
            merge_list(&mut self.secrets, &rule.secrets);
        }
        let Some(requests) = &rule.requests else {
            merge_request(&mut self.open, rule, &rule.reference, protocols);
            return;
        };
        for request in requests {
            self.add_request(rule, request, protocols);
        }
    }

    fn add_request(&mut self, rule: &Rule, request: &RequestRule, protocols: Protocols) {
        let reference = &request.reference;
        if rule.secrets.iter().any(|grant| grant.captures) {
            let by = DecidedOn::of(request.methods.is_some(), request.paths.is_some());
            self.capturing = self.capturing.and(by);
            self.loose.add(rule, request);
        }
        match &request.methods {
            None => {
                self.any_method.get_or_insert_with(|| reference.clone());
            }
            Some(methods) => {
                for method in methods {
                    let entry = self.methods.entry(method.as_str().into());
                    entry.or_insert_with(|| reference.clone());
                }
            }
        }
        let Some(paths) = &request.paths else {
            self.any_path.add(rule, request, protocols);
            return;
        };
        for path in paths {
            if let Some(leaf) = self.trie.leaf_mut(path) {
                leaf.add(rule, request, protocols);
            }
        }
    }

    /// What a connection that speaks `protocol` is given; `None` where no rule has it.
    pub(crate) const fn connection(
        &self,
        protocol: Option<AppProtocol>,
    ) -> Option<&ConnectionGrant> {
        let [https, http, tcp, unknown] = &self.connections;
        match protocol {
            Some(AppProtocol::Https) => https.as_ref(),
            Some(AppProtocol::Http) => http.as_ref(),
            Some(AppProtocol::Tcp) => tcp.as_ref(),
            None => unknown.as_ref(),
        }
    }

    /// Adds everything here that lets the request go.
    pub(crate) fn find_request<'a>(
        &'a self,
        protocol: AppProtocol,
        method: &str,
        path: &str,
        found: &mut RequestMatch<'a>,
    ) {
        // Nor may a request that is not captured lead to where one is: what comes would come in as it is.
        found.for_secrets = found.for_secrets.and(self.capturing);
        found.add(pick(&self.open, protocol), (true, true));
        self.any_path.find(protocol, (method, true), found);
        if !self.trie.is_empty() {
            self.trie
                .visit(path, |leaf| leaf.find(protocol, (method, false), found));
        }
    }

    /// Adds what captures the answer to a request that a server might take for one whose answer is captured.
    pub(crate) fn capture<'a>(&'a self, path: &str, secrets: &mut SharedUnion<'a, SecretGrant>) {
        self.loose.find(path, secrets);
    }

    /// The first request rule that takes this method.
    pub(crate) fn rule_with_method(&self, method: &str) -> Option<&RuleRef> {
        self.methods.get(method).or(self.any_method.as_ref())
    }

    /// A request rule that takes this path, with whatever method.
    pub(crate) fn rule_with_path(&self, path: &str) -> Option<&RuleRef> {
        let mut nearest = None;
        self.trie
            .visit(path, |leaf| nearest = nearest.or(leaf.nearest.as_ref()));
        nearest
    }
}

impl PathLeaf {
    fn add(&mut self, rule: &Rule, request: &RequestRule, protocols: Protocols) {
        let reference = &request.reference;
        self.nearest.get_or_insert_with(|| reference.clone());
        match &request.methods {
            None => merge_request(&mut self.any_method, rule, reference, protocols),
            Some(methods) => {
                for method in methods {
                    let grants = self.methods.entry(method.as_str().into()).or_default();
                    merge_request(grants, rule, reference, protocols);
                }
            }
        }
    }

    /// `any_path`: its rules take every path.
    fn find<'a>(
        &'a self,
        protocol: AppProtocol,
        (method, any_path): (&str, bool),
        found: &mut RequestMatch<'a>,
    ) {
        found.add(pick(&self.any_method, protocol), (true, any_path));
        if let Some(grants) = self.methods.get(method) {
            found.add(pick(grants, protocol), (false, any_path));
        }
    }
}

impl<'a> RequestMatch<'a> {
    /// What had to be as it is.
    pub(crate) const fn decided_on(&self) -> DecidedOn {
        DecidedOn {
            method: !self.free.method,
            path: !self.free.path,
            either: !self.free.both,
        }
        .and(self.for_secrets)
    }

    /// A secret is granted for one path alone, this or another.
    pub(crate) const fn granted_by_path(&mut self) {
        self.for_secrets = self.for_secrets.and(DecidedOn::of(false, true));
    }

    /// `any_method`, `any_path`: the grant's rule takes every one.
    fn add(&mut self, grant: Option<&'a RequestGrant>, (any_method, any_path): (bool, bool)) {
        if let Some(grant) = grant {
            self.free.method |= any_method;
            self.free.path |= any_path;
            self.free.both |= any_method && any_path;
            if !grant.secrets.is_empty() {
                let by = DecidedOn::of(!any_method, !any_path);
                self.for_secrets = self.for_secrets.and(by);
            }
            self.rule.get_or_insert(&grant.rule);
            self.secrets.add(&grant.secrets);
            self.clear_text |= grant.clear_text;
        }
    }
}

impl<T> Default for SharedUnion<'_, T> {
    fn default() -> Self {
        Self(UnionState::Empty)
    }
}

impl<'a, T: Clone + PartialEq> SharedUnion<'a, T> {
    pub(crate) fn add(&mut self, list: &'a Arc<[T]>) {
        if list.is_empty() {
            return;
        }
        match &mut self.0 {
            UnionState::Empty => self.0 = UnionState::One(list),
            UnionState::One(first) if first == &list => {}
            UnionState::One(first) => {
                let mut merged = first.to_vec();
                extend_new(&mut merged, list);
                self.0 = UnionState::Merged(merged);
            }
            UnionState::Merged(merged) => extend_new(merged, list),
        }
    }

    /// Adds what no rule shares.
    pub(crate) fn add_one(&mut self, item: &T) {
        let mut merged = match &mut self.0 {
            UnionState::Empty => Vec::new(),
            UnionState::One(list) => list.to_vec(),
            UnionState::Merged(merged) => std::mem::take(merged),
        };
        extend_new(&mut merged, std::slice::from_ref(item));
        self.0 = UnionState::Merged(merged);
    }

    /// The list; shared where only one was added.
    pub(crate) fn into_shared(self, empty: &Arc<[T]>) -> Arc<[T]> {
        match self.0 {
            UnionState::Empty => Arc::clone(empty),
            UnionState::One(list) => Arc::clone(list),
            UnionState::Merged(list) => list.into(),
        }
    }
}

const fn pick(grants: &ByProtocol, protocol: AppProtocol) -> Option<&RequestGrant> {
    let [https, http] = grants;
    match protocol {
        AppProtocol::Https => https.as_ref(),
        AppProtocol::Http => http.as_ref(),
        AppProtocol::Tcp => None,
    }
}

fn merge_connection(grant: &mut Option<ConnectionGrant>, rule: &Rule) {
    match grant {
        None => {
            *grant = Some(ConnectionGrant {
                rule: rule.reference.clone(),
                allow_private: Arc::clone(&rule.allow_private),
            });
        }
        Some(known) => merge_list(&mut known.allow_private, &rule.allow_private),
    }
}

fn merge_request(grants: &mut ByProtocol, rule: &Rule, reference: &RuleRef, protocols: Protocols) {
    // A secret goes in clear text only where the rule says `protocol: http` itself; what comes is
    // captured all the same.
    let capturing: Arc<[SecretGrant]>;
    let clear = if rule.clear_text_secrets {
        &rule.secrets
    } else {
        let grants = rule.secrets.iter();
        capturing = grants.filter(|grant| grant.captures).cloned().collect();
        &capturing
    };
    let secrets = [&rule.secrets, clear];
    let kinds = [AppProtocol::Https, AppProtocol::Http];
    for ((grant, protocol), secrets) in grants.iter_mut().zip(kinds).zip(secrets) {
        if !protocols.has(protocol) {
            continue;
        }
        match grant {
            None => {
                *grant = Some(RequestGrant {
                    rule: reference.clone(),
                    secrets: Arc::clone(secrets),
                    clear_text: rule.clear_text_secrets,
                });
            }
            Some(known) => {
                merge_list(&mut known.secrets, secrets);
                known.clear_text |= rule.clear_text_secrets;
            }
        }
    }
}

fn merge_list<T: Clone + PartialEq>(known: &mut Arc<[T]>, more: &Arc<[T]>) {
    if more.iter().all(|item| known.contains(item)) {
        return;
    }
    if known.is_empty() {
        *known = Arc::clone(more);
        return;
    }
    let mut merged = known.to_vec();
    extend_new(&mut merged, more);
    *known = merged.into();
}

fn extend_new<T: Clone + PartialEq>(list: &mut Vec<T>, more: &[T]) {
    for item in more {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}
