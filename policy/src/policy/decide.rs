//! The three questions: of the policy itself, and of each floor that bounds it.
//!
//! Allowed is what the policy *and* each floor allow. A floor that refuses is named, whatever the policy
//! says: nothing beneath it would change the answer. What passes is treated as narrowly as the narrowest
//! of them wants.

use std::sync::Arc;

use super::Policy;
use crate::{
    deny_reason::DenyReason,
    fqdn::Fqdn,
    hint,
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
    verdict::{
        ConnectPermit, DecidedOn, Denial, Grant, Handling, Mode, NamePermit, RequestPermit,
        RuleRef, Verdict,
    },
};

impl Policy {
    /// May the sandbox learn an address for `name`? Asked before anything is sent upstream.
    ///
    /// Where what is denied waits for a person, a name that no rule allows gets its address, so that
    /// what is asked of it can wait: the permit then says what was denied. Nothing goes upstream for it.
    pub fn decide_name(&self, name: &Fqdn) -> Verdict<NamePermit> {
        let mut grant = self.own_name(name);
        if let Err(denial) = &grant
            && self.hold().is_some()
            && denial.reason.is_of_rules()
        {
            grant = Ok(Grant {
                policy: self.reference().clone(),
                rule: None,
                would_deny: Some(denial.clone()),
                released: false,
            });
        }
        for floor in self.floors() {
            match floor.own_name(name) {
                Ok(bound) => {
                    if let Ok(grant) = &mut grant {
                        grant.note(bound);
                    }
                }
                Err(denial) => return Verdict::Deny(by_floor(denial)),
            }
        }
        verdict(grant.map(|grant| NamePermit {
            name: name.clone(),
            grant,
        }))
    }

    /// May the sandbox connect to `host` at `port`? `protocol` is `None` while nothing was read yet:
    /// the answer then says how to treat the bytes; with `Some`, a protocol that no rule of this host
    /// and port allows is denied.
    ///
    /// In observe mode a connection that no rule allows is inspected while its protocol is unknown,
    /// and opaque once it is known to be `Tcp`.
    pub fn decide_connect(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
    ) -> Verdict<ConnectPermit> {
        verdict(self.connect(host, port, protocol, None))
    }

    /// May this request go, on a connection to `host` and `port`? Decided afresh for each request,
    /// so that a changed policy holds from the next one on.
    pub fn decide_request(
        &self,
        host: &Host,
        port: Port,
        request: &RequestIntent<'_>,
    ) -> Verdict<RequestPermit> {
        verdict(self.request(host, port, request, None))
    }

    /// `word`: what stands for a rule where only a rule is lacking.
    pub(super) fn connect(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
        word: Option<&RuleRef>,
    ) -> Result<ConnectPermit, Box<Denial>> {
        let mut permit = self.own_connect(host, port, protocol);
        if let (Err(denial), Some(word)) = (&permit, word)
            && self.hears(denial)
        {
            permit = Ok(ConnectPermit {
                host: host.clone(),
                port,
                handling: observed_handling(protocol),
                allow_private: Arc::clone(&self.own.no_nets),
                reach: self.reach(),
                grant: self.released(word),
            });
        }
        for floor in self.floors() {
            let bound = floor.own_connect(host, port, protocol).map_err(by_floor)?;
            if let Ok(permit) = &mut permit {
                let seen = (bound.handling, bound.grant.rule.clone());
                if !permit.narrow(bound) {
                    let wider = DenyReason::ProtocolNotAllowed;
                    let words = hint::for_connection(host, port, protocol);
                    let denial = floor.denial(wider, seen.1, words);
                    return Err(by_floor(Box::new(denial)));
                }
            }
        }
        permit
    }

    /// The same for a request.
    pub(super) fn request(
        &self,
        host: &Host,
        port: Port,
        request: &RequestIntent<'_>,
        word: Option<&RuleRef>,
    ) -> Result<RequestPermit, Box<Denial>> {
        let mut permit = self.own_request(host, port, request);
        if let (Err(denial), Some(word)) = (&permit, word)
            && self.hears(denial)
        {
            // A secret goes where a rule says so, and there is none; what comes is captured all the same.
            permit = Ok(RequestPermit {
                secrets: self
                    .capturing(host, port, request)
                    .into_shared(&self.own.no_secrets),
                bound: self.bound(host, port),
                // A person saw both.
                decided_on: DecidedOn::of(true, true),
                observed_on: DecidedOn::default(),
                grant: self.released(word),
            });
        }
        for floor in self.floors() {
            let bound = floor.own_request(host, port, request).map_err(by_floor)?;
            if let Ok(permit) = &mut permit {
                permit.grant.note(bound.grant);
                permit.decided_on = permit.decided_on.and(bound.decided_on);
                permit.observed_on = permit.observed_on.and(bound.observed_on);
            }
        }
        permit
    }

    fn own_name(&self, name: &Fqdn) -> Result<Grant, Box<Denial>> {
        match self.own.index.nodes_of_name(name).next() {
            Some(node) => Ok(self.grant(&node.rule)),
            None => {
                let near = self.own.index.wildcard_on(name).cloned();
                let denial = self.denial(DenyReason::HostNotAllowed, near, hint::for_name(name));
                self.observed(denial)
            }
        }
    }

    fn own_connect(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
    ) -> Result<ConnectPermit, Box<Denial>> {
        let (handling, allow_private, grant) = match self.find_connection(host, port, protocol) {
            Ok((handling, rule, allow_private)) => (handling, allow_private, self.grant(rule)),
            Err(denial) => {
                let grant = self.observed(denial)?;
                let none = Arc::clone(&self.own.no_nets);
                (observed_handling(protocol), none, grant)
            }
        };
        Ok(ConnectPermit {
            host: host.clone(),
            port,
            handling,
            allow_private,
            reach: self.reach(),
            grant,
        })
    }

    fn own_request(
        &self,
        host: &Host,
        port: Port,
        request: &RequestIntent<'_>,
    ) -> Result<RequestPermit, Box<Denial>> {
        let (secrets, decided_on, grant) = match self.find_request(host, port, request) {
            Ok((rule, secrets, decided_on)) => (secrets, decided_on, self.grant(rule)),
            Err(denial) => {
                let grant = self.observed(denial)?;
                let mut secrets = self.capturing(host, port, request);
                let encrypted = request.protocol == AppProtocol::Https;
                let by_path = self.add_bound((host, port), encrypted, request.path, &mut secrets);
                let secrets = secrets.into_shared(&self.own.no_secrets);
                (secrets, DecidedOn::of(false, by_path), grant)
            }
        };
        let (decided_on, observed_on) = match self.own.settings.mode {
            Mode::Enforce => (decided_on, DecidedOn::default()),
            Mode::Observe => (DecidedOn::default(), decided_on),
        };
        Ok(RequestPermit {
            secrets,
            bound: self.bound(host, port),
            decided_on,
            observed_on,
            grant,
        })
    }

    fn released(&self, word: &RuleRef) -> Grant {
        Grant {
            policy: self.reference().clone(),
            rule: Some(word.clone()),
            would_deny: None,
            released: true,
        }
    }
}

fn verdict<P>(permit: Result<P, Box<Denial>>) -> Verdict<P> {
    match permit {
        Ok(permit) => Verdict::Allow(permit),
        Err(denial) => Verdict::Deny(denial),
    }
}

fn by_floor(mut denial: Box<Denial>) -> Box<Denial> {
    denial.floor = true;
    denial
}

const fn observed_handling(protocol: Option<AppProtocol>) -> Handling {
    match protocol {
        Some(AppProtocol::Tcp) => Handling::Opaque,
        Some(AppProtocol::Https | AppProtocol::Http) | None => Handling::Inspect,
    }
}
