//! A compiled policy and the three questions it answers.
//!
//! What is allowed is the union of all matching entries. Where entries differ in how bytes are treated
//! (inspected, passed through, opaque), the most specific host pattern that has the port decides and
//! entries that treat them otherwise do not match. A denial names the last hurdle that was reached:
//! host, port, protocol, method, path, in that order.

use std::{fmt, sync::Arc, time::Duration};

use ipnet::IpNet;

use crate::{
    deny_reason::DenyReason,
    hint,
    host::{Host, Port},
    index::{Index, PatternNode, PortTable, RequestMatch, SharedUnion},
    intent::{AppProtocol, RequestIntent},
    limits::Limits,
    moment::Moment,
    rule::{Rule, Target},
    secret_grant::{Binding, SecretGrant},
    secret_name::SecretName,
    special_purpose::{AddressClass, classify},
    verdict::{DecidedOn, Denial, DenyStyle, Grant, Handling, Mode, PolicyRef, Reach, RuleRef},
};

mod bound;
mod decide;
mod expiry;
mod floor;
mod hold;
mod secret_places;

use floor::Floors;
pub use secret_places::{SecretUse, SecretWay};

/// A compiled policy, with the floors that bound it; cloning shares it. One clone is the snapshot of one
/// decision.
#[derive(Clone)]
pub struct Policy {
    own: Arc<Compiled>,
    floors: Option<Arc<Floors>>,
}

/// Name, version and size: a hundred thousand rules belong into no log line.
impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let PolicyRef { name, version } = &self.own.reference;
        write!(
            f,
            "Policy({name:?} version {version}, {} rules)",
            self.own.rules.len()
        )
    }
}

struct Compiled {
    reference: PolicyRef,
    settings: Settings,
    rules: Vec<Rule>,
    /// Those that hold no more; nothing that they kept closed opens.
    ended: Vec<Rule>,
    bindings: Vec<Binding>,
    index: Index,
    until: Option<Moment>,
    no_secrets: SecretGrants,
    no_nets: Arc<[IpNet]>,
}

/// Secrets, shared with the rule that has them.
type SecretGrants = Arc<[SecretGrant]>;

/// All of a policy but its rules.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) deny: DenyStyle,
    pub(crate) reach: Reach,
    pub(crate) limits: Limits,
    /// For how long what is denied for want of a rule waits for a person.
    pub(crate) hold: Option<Duration>,
}

impl Settings {
    /// What holds when a document says nothing: enforce (fail closed), explain (a person sees why),
    /// public addresses only (what is inside a company's network was not built to face strangers), and
    /// nobody is asked (somebody must be there to answer).
    pub(crate) const UNSTATED: Self = Self {
        mode: Mode::Enforce,
        deny: DenyStyle::Explain,
        reach: Reach::External,
        limits: Limits::UNSTATED,
        hold: None,
    };
}

impl Policy {
    /// Allows nothing.
    #[must_use]
    pub fn deny_all(name: &str) -> Self {
        let reference = PolicyRef {
            name: name.into(),
            version: 0,
        };
        let rules = (Vec::new(), Vec::new(), Vec::new());
        Self::assemble(reference, Settings::UNSTATED, rules, Index::default())
    }

    pub(crate) fn assemble(
        reference: PolicyRef,
        settings: Settings,
        (rules, ended, bindings): (Vec<Rule>, Vec<Rule>, Vec<Binding>),
        index: Index,
    ) -> Self {
        let own = Arc::new(Compiled {
            until: rules.iter().filter_map(|rule| rule.expires).min(),
            reference,
            settings,
            rules,
            ended,
            bindings,
            index,
            no_secrets: Arc::default(),
            no_nets: Arc::default(),
        });
        Self { own, floors: None }
    }

    /// Whether it is the very same: not read anew, and under the same floors.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        let floors = match (&self.floors, &other.floors) {
            (None, None) => true,
            (Some(ours), Some(theirs)) => Arc::ptr_eq(ours, theirs),
            _ => false,
        };
        floors && Arc::ptr_eq(&self.own, &other.own)
    }

    /// Name and version, as records carry them.
    #[must_use]
    pub fn reference(&self) -> &PolicyRef {
        &self.own.reference
    }

    /// Enforce or observe.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.own.settings.mode
    }

    /// Whether public or private addresses are reached.
    #[must_use]
    pub fn reach(&self) -> Reach {
        self.own.settings.reach
    }

    /// How a refusal is shown to the program.
    #[must_use]
    pub fn deny_style(&self) -> DenyStyle {
        self.own.settings.deny
    }

    /// How much the sandbox may do: of policy and floors, the least.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        match &self.floors {
            Some(floors) => floors.limits(),
            None => &self.own.settings.limits,
        }
    }

    pub(crate) fn rules(&self) -> &[Rule] {
        &self.own.rules
    }

    /// What `--secret` options bind.
    #[must_use]
    pub fn bindings(&self) -> &[Binding] {
        &self.own.bindings
    }

    /// Whether some rule lets a connection be opened and looked into where `binding` says.
    #[must_use]
    pub fn may_reach(&self, binding: &Binding) -> bool {
        self.mode() == Mode::Observe || self.ports_towards(binding).contains(&binding.port())
    }

    /// The ports, in order, at which some rule lets connections to the host of `binding` be opened and looked into.
    #[must_use]
    pub fn ports_towards(&self, binding: &Binding) -> Vec<Port> {
        let overlaps = |rule: &&Rule| {
            let Target::Names(pattern) = &rule.target else {
                return false;
            };
            let names = pattern.covers(binding.target()) || binding.target().covers(pattern);
            rule.handling == Handling::Inspect && names
        };
        let rules = self.own.rules.iter().filter(overlaps);
        let ports = rules.flat_map(|rule| rule.ports.iter().map(|port| port.port));
        let mut ports: Vec<_> = ports.collect();
        ports.sort_unstable();
        ports.dedup();
        ports
    }

    /// Whether some rule lets the program hold this secret's value itself.
    #[must_use]
    pub fn entrusts(&self, name: &SecretName) -> bool {
        let grants = self.own.rules.iter().flat_map(|rule| rule.secrets.iter());
        grants
            .into_iter()
            .any(|grant| grant.entrusted && grant.name == *name)
    }

    /// Every secret of which some rule or option says the places where it may stand, each once.
    #[must_use]
    pub fn placed_names(&self) -> Vec<SecretName> {
        self.names_of(|grant| grant.places.is_some() && !grant.captures)
    }

    /// Every secret that some rule or option grants, each once.
    #[must_use]
    pub fn secret_names(&self) -> Vec<SecretName> {
        self.names_of(|_| true)
    }

    /// Every secret that logins made inside become, each once.
    #[must_use]
    pub fn captured_names(&self) -> Vec<SecretName> {
        self.names_of(|grant| grant.captures)
    }

    fn names_of(&self, wanted: impl Fn(&SecretGrant) -> bool) -> Vec<SecretName> {
        let granted = self.own.rules.iter().flat_map(|rule| rule.secrets.iter());
        let bound = self.own.bindings.iter().map(|binding| &binding.grant);
        let wanted = granted.chain(bound).filter(|grant| wanted(grant));
        let mut names: Vec<_> = wanted.map(|grant| grant.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Whether some rule lets bytes pass unopened to where `binding` says.
    #[must_use]
    pub fn passes_unopened(&self, binding: &Binding) -> bool {
        let unopened = |rule: &&Rule| rule.handling != Handling::Inspect;
        self.own
            .rules
            .iter()
            .filter(unopened)
            .any(|rule| match &rule.target {
                Target::Names(pattern) => pattern.covers(binding.target()),
                Target::Addresses(_) => false,
            })
    }

    fn find_connection<'a>(
        &'a self,
        host: &'a Host,
        port: Port,
        protocol: Option<AppProtocol>,
    ) -> Result<(Handling, &'a RuleRef, Arc<[IpNet]>), Denial> {
        let first = self.first_table(host, port, protocol)?;
        let mut rule = None;
        let mut private = SharedUnion::default();
        for table in self.tables(host, port, first.handling) {
            if let Some(grant) = table.connection(protocol) {
                rule.get_or_insert(&grant.rule);
                private.add(&grant.allow_private);
            }
        }
        match rule {
            Some(rule) => Ok((first.handling, rule, private.into_shared(&self.own.no_nets))),
            None => Err(self.wrong_protocol(host, port, protocol, first)),
        }
    }

    fn find_request<'a>(
        &'a self,
        host: &'a Host,
        port: Port,
        request: &RequestIntent<'_>,
    ) -> Result<(&'a RuleRef, SecretGrants, DecidedOn), Denial> {
        let protocol = request.protocol;
        let first = self.first_table(host, port, Some(protocol))?;
        let mut spoken = None;
        let mut found = RequestMatch::default();
        for table in self.tables(host, port, first.handling) {
            let Some(connection) = table.connection(Some(protocol)) else {
                continue;
            };
            spoken.get_or_insert(&connection.rule);
            if first.handling == Handling::Inspect {
                table.find_request(protocol, request.method, request.path, &mut found);
                table.capture(request.path, &mut found.secrets);
            }
        }
        let Some(connection_rule) = spoken else {
            return Err(self.wrong_protocol(host, port, Some(protocol), first));
        };
        if first.handling != Handling::Inspect {
            // Bytes that are not looked into carry any request, and no secret.
            let none = Arc::clone(&self.own.no_secrets);
            return Ok((connection_rule, none, DecidedOn::default()));
        }
        let as_if_encrypted = found.clear_text || protocol == AppProtocol::Https;
        let secrets = &mut found.secrets;
        if self.add_bound((host, port), as_if_encrypted, request.path, secrets) {
            found.granted_by_path();
        }
        match found.rule {
            Some(rule) => {
                let decided_on = found.decided_on();
                let secrets = found.secrets.into_shared(&self.own.no_secrets);
                Ok((rule, secrets, decided_on))
            }
            None => Err(self.wrong_request(host, port, request, connection_rule)),
        }
    }

    /// What the command line binds to this host and port; in clear text it binds nothing. Tells whether any of it is
    /// bound to one path alone.
    fn add_bound<'a>(
        &'a self,
        (host, port): (&Host, Port),
        encrypted: bool,
        path: &str,
        secrets: &mut SharedUnion<'a, SecretGrant>,
    ) -> bool {
        let mut by_path = false;
        for binding in &self.own.bindings {
            if binding.covers(host, port, encrypted, path) {
                secrets.add_one(&binding.grant);
            }
            // Nor may a request that it does not speak of lead there: what is captured would come in.
            by_path |= binding.path.is_some() && binding.speaks_of(host, port);
        }
        by_path
    }

    /// What the most specific pattern with this port says of it.
    fn first_table<'a>(
        &'a self,
        host: &'a Host,
        port: Port,
        protocol: Option<AppProtocol>,
    ) -> Result<&'a PortTable, Denial> {
        if let Host::Ip(ip) = host
            && matches!(classify(*ip), AddressClass::NeverOpenable { .. })
        {
            // Before any rule is looked at: what nothing opens must not be hinted at as openable.
            return Err(self.denial(DenyReason::NeverOpenable, None, String::new()));
        }
        let mut nearest: Option<&PatternNode> = None;
        for node in self.own.index.nodes(host) {
            if let Some(table) = node.port(port) {
                return Ok(table);
            }
            nearest.get_or_insert(node);
        }
        let hint = hint::for_connection(host, port, protocol);
        let reason = match (nearest, host) {
            (Some(_), _) => DenyReason::PortNotAllowed,
            (None, Host::Name(_)) => DenyReason::HostNotAllowed,
            (None, Host::Ip(_)) => DenyReason::IpNotAllowed,
        };
        let apex = host
            .name()
            .and_then(|name| self.own.index.wildcard_on(name));
        let near = nearest.map(|node| &node.rule).or(apex);
        Err(self.denial(reason, near.cloned(), hint))
    }

    fn tables<'a>(
        &'a self,
        host: &'a Host,
        port: Port,
        handling: Handling,
    ) -> impl Iterator<Item = &'a PortTable> {
        let tables = self
            .own
            .index
            .nodes(host)
            .filter_map(move |node| node.port(port));
        tables.filter(move |table| table.handling == handling)
    }

    fn wrong_protocol(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
        near: &PortTable,
    ) -> Denial {
        let hint = hint::for_protocol(host, port, protocol);
        self.denial(
            DenyReason::ProtocolNotAllowed,
            Some(near.rule.clone()),
            hint,
        )
    }

    fn wrong_request(
        &self,
        host: &Host,
        port: Port,
        request: &RequestIntent<'_>,
        connection_rule: &RuleRef,
    ) -> Denial {
        let speaking = |table: &&PortTable| table.connection(Some(request.protocol)).is_some();
        let mut tables = self.tables(host, port, Handling::Inspect).filter(speaking);
        let with_method = tables.find_map(|table| table.rule_with_method(request.method));
        let mut tables = self.tables(host, port, Handling::Inspect).filter(speaking);
        let (reason, near) = match with_method {
            Some(rule) => (DenyReason::PathNotAllowed, rule),
            None => {
                let with_path = tables.find_map(|table| table.rule_with_path(request.path));
                (
                    DenyReason::MethodNotAllowed,
                    with_path.unwrap_or(connection_rule),
                )
            }
        };
        let hint = hint::for_request(host, port, request);
        self.denial(reason, Some(near.clone()), hint)
    }

    fn grant(&self, rule: &RuleRef) -> Grant {
        Grant {
            policy: self.own.reference.clone(),
            rule: Some(rule.clone()),
            would_deny: None,
            released: false,
        }
    }

    fn denial(&self, reason: DenyReason, rule: Option<RuleRef>, hint: String) -> Denial {
        Denial {
            reason,
            policy: self.own.reference.clone(),
            rule,
            hint,
            floor: false,
        }
    }

    /// What becomes of a denial: in observe mode a grant that remembers it. The core that nothing
    /// opens is not opened to be observed either.
    fn observed(&self, denial: Denial) -> Result<Grant, Box<Denial>> {
        let denial = Box::new(denial);
        match self.own.settings.mode {
            Mode::Enforce => Err(denial),
            Mode::Observe if denial.reason == DenyReason::NeverOpenable => Err(denial),
            Mode::Observe => Ok(Grant {
                policy: self.own.reference.clone(),
                rule: None,
                would_deny: Some(denial),
                released: false,
            }),
        }
    }
}

#[cfg(test)]
mod oracle;
#[cfg(test)]
mod tests;
