//! What a policy answers to an attempt, asked of the code that enforces.
//!
//! A policy that only observes lets pass what no rule of it does, except what even it never opens: private addresses,
//! the core that nothing opens, a secret where it is not granted. Which of the two it was is told. Limits take no
//! part, nor does where in a request a secret stood.

use std::{net::IpAddr, sync::Arc};

use super::{Asked, Attempt};
use crate::{
    deny_reason::DenyReason,
    explain,
    host::Host,
    intent::RequestIntent,
    policy::Policy,
    verdict::{Denial, Handling, Mode, RuleRef, Verdict},
};

/// The answer.
#[derive(Debug)]
pub(crate) enum Decided {
    /// It passes.
    Passes(Passage),
    /// It does not.
    Denied(Box<Denial>),
    /// That depends on a path of which only a part is recorded: as if no rule spoke of it.
    PathUnknown(Box<Denial>),
}

/// By what something passes.
#[derive(Debug, Default)]
pub(crate) struct Passage {
    /// The rule, where one does.
    pub(crate) rule: Option<RuleRef>,
    /// By observing alone: why it would be denied. Of a path that was cut that says that a rule may let it pass.
    pub(crate) would_deny: Option<Box<Denial>>,
}

impl Policy {
    /// Whether a rule of this policy lets an attempt pass with the secrets that it carried, and which; `mode: observe`
    /// does not count, nor does what a rule may say of a path that is not known.
    ///
    /// Limits take no part, nor does where in the request a secret stood.
    ///
    /// # Errors
    /// The denial, as a program would have been told.
    pub fn covers_attempt(&self, attempt: &Attempt) -> Result<Option<RuleRef>, Box<Denial>> {
        match self.decided(attempt) {
            Decided::Passes(passage) => passage.by_rule(),
            Decided::Denied(denial) | Decided::PathUnknown(denial) => Err(denial),
        }
    }

    /// Whether a rule of this policy lets something pass, and which; `mode: observe` does not count.
    ///
    /// `address` is where the name was found, if it is known. Limits and secrets take no part.
    ///
    /// # Errors
    /// The denial, as a program would have been told.
    pub fn covers(
        &self,
        asked: &Asked,
        address: Option<IpAddr>,
    ) -> Result<Option<RuleRef>, Box<Denial>> {
        self.passage(asked, address, &[])?.by_rule()
    }

    /// Whether an attempt passes with the secrets that it carried, and by what.
    pub(crate) fn decided(&self, attempt: &Attempt) -> Decided {
        let (address, secrets) = (attempt.address, attempt.secrets.as_slice());
        let whole = match &attempt.asked {
            asked if !asked.is_cut() => self.passage(asked, address, secrets),
            // A rule that lets this pass says nothing of paths.
            asked => {
                let passage = self.passage(&asked.at_no_path(), address, secrets);
                let depends = |denial: &Denial| {
                    matches!(
                        denial.reason,
                        DenyReason::PathNotAllowed | DenyReason::SecretMisuse
                    )
                };
                match passage {
                    Err(denial) if depends(&denial) => return Decided::PathUnknown(denial),
                    passage => passage,
                }
            }
        };
        match whole {
            Ok(passage) => Decided::Passes(passage),
            Err(denial) => Decided::Denied(denial),
        }
    }

    fn passage(
        &self,
        asked: &Asked,
        address: Option<IpAddr>,
        secrets: &[Arc<str>],
    ) -> Result<Passage, Box<Denial>> {
        let host = asked.host();
        let mut passage = Passage::default();
        if let Host::Name(name) = &host {
            let permit = allowed(self.decide_name(name))?;
            if let Some(denial) = permit.would_deny().filter(|denial| self.waits(denial)) {
                return Err(Box::new(denial.clone()));
            }
            passage.go_on(permit.rule(), permit.would_deny());
        }
        let (port, protocol) = match asked {
            Asked::Name(_) => return Ok(passage),
            Asked::Connection { port, protocol, .. } => (*port, *protocol),
            Asked::Request { port, protocol, .. } => (*port, Some(*protocol)),
        };
        let permit = allowed(self.decide_connect(&host, port, protocol))?;
        passage.go_on(permit.rule(), permit.would_deny());
        if let Some(ip) = host.ip().or(address)
            && let Err(reason) = explain::admits(&permit, ip)
        {
            // Where a floor does not open it, no rule of the policy's own does.
            let refuses = |floor: &&Self| match floor.decide_connect(&host, port, protocol) {
                Verdict::Allow(permit) => {
                    permit.would_deny().is_none() && explain::admits(&permit, ip).is_err()
                }
                Verdict::Deny(_) => true,
            };
            let floor = self.floors().iter().find(refuses);
            return Err(Box::new(Denial {
                reason,
                policy: floor.unwrap_or(self).reference().clone(),
                rule: passage.rule.filter(|_| floor.is_none()),
                hint: String::new(),
                floor: floor.is_some(),
            }));
        }
        if permit.handling() != Handling::Inspect {
            // What is not looked into gets what the program is handed, and no other secret.
            let entrusted = self.entrusted_unopened(&host, port, permit.handling());
            let is_handed =
                |name: &Arc<str>| entrusted.iter().any(|grant| grant.name.as_str() == &**name);
            return match secrets.iter().all(is_handed) {
                true => Ok(passage),
                false => Err(self.misused(passage.rule)),
            };
        }
        let Asked::Request {
            protocol,
            method,
            path,
            ..
        } = asked
        else {
            return Ok(passage);
        };
        let intent = RequestIntent {
            protocol: *protocol,
            method,
            path,
        };
        let permit = allowed(self.decide_request(&host, port, &intent))?;
        passage.go_on(permit.rule(), permit.would_deny());
        let may_carry = |name: &Arc<str>| {
            let mut granted = permit.secrets().iter();
            granted.any(|grant| !grant.captures && grant.name.as_str() == &**name)
        };
        match secrets.iter().all(may_carry) {
            true => Ok(passage),
            false => Err(self.misused(passage.rule)),
        }
    }

    /// Whether a name gets an address only so that what is asked of it can wait: nobody observes.
    fn waits(&self, denial: &Denial) -> bool {
        self.mode() == Mode::Enforce && denial.policy == *self.reference()
    }

    /// It lets the request pass, and not with the secrets that it carried.
    fn misused(&self, rule: Option<RuleRef>) -> Box<Denial> {
        Box::new(Denial {
            reason: DenyReason::SecretMisuse,
            policy: self.reference().clone(),
            rule,
            hint: String::new(),
            floor: false,
        })
    }
}

impl Passage {
    /// The rule by which it passes, unless that is by observing.
    fn by_rule(self) -> Result<Option<RuleRef>, Box<Denial>> {
        match self.would_deny {
            Some(denial) => Err(denial),
            None => Ok(self.rule),
        }
    }

    /// One question further: the last rule lets it pass, the first denial stays.
    fn go_on(&mut self, rule: Option<&RuleRef>, would_deny: Option<&Denial>) {
        self.rule = rule.cloned();
        if self.would_deny.is_none() {
            self.would_deny = would_deny.cloned().map(Box::new);
        }
    }
}

impl Asked {
    /// The same at a path that no pattern matches: its segment is one that servers read in two ways.
    fn at_no_path(&self) -> Self {
        let mut asked = self.clone();
        if let Self::Request { path, .. } = &mut asked {
            *path = "/%2F…".into();
        }
        asked
    }
}

fn allowed<P>(verdict: Verdict<P>) -> Result<P, Box<Denial>> {
    match verdict {
        Verdict::Allow(permit) => Ok(permit),
        Verdict::Deny(denial) => Err(denial),
    }
}
