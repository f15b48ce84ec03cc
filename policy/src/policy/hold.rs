//! What is denied for want of a rule may wait for a person, whose word stands for one thing and no more.

use std::time::Duration;

use super::Policy;
use crate::{
    deny_reason::DenyReason,
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
    special_purpose::admit,
    verdict::{ConnectPermit, Denial, Reach, RequestPermit, RuleRef, Verdict},
};

impl Policy {
    /// For how long what is denied for want of a rule waits for a person; `None`: nobody is asked.
    #[must_use]
    pub fn hold(&self) -> Option<Duration> {
        self.own.settings.hold
    }

    /// For how long this denial waits. One that a person's word could not change does not: a floor's, a
    /// limit's, a misused secret's, and that of an address which is refused when it is dialled.
    #[must_use]
    pub fn holds(&self, host: &Host, denial: &Denial) -> Option<Duration> {
        // Where only method or path lacks a rule, the address has one.
        let connects = matches!(
            denial.reason,
            DenyReason::MethodNotAllowed | DenyReason::PathNotAllowed
        );
        let openable = match (host, self.reach()) {
            (Host::Ip(ip), Reach::External) => connects || admit(*ip, &[]).is_ok(),
            (Host::Ip(_) | Host::Name(_), _) => true,
        };
        let lacks_a_rule = denial.reason.is_of_rules() && !denial.floor;
        self.hold().filter(|_| lacks_a_rule && openable)
    }

    /// Whether a person's word stands for the rule that is lacking. A policy that asks nobody hears nobody: a
    /// word does not outlive the policy that it was given under.
    pub(super) fn hears(&self, denial: &Denial) -> bool {
        denial.reason.is_of_rules() && self.hold().is_some()
    }

    /// As [`Policy::decide_connect`], with the word of a person for this one connection where only a rule is
    /// lacking. `word` is what the record names as the rule. No floor is passed, no private range opened.
    ///
    /// Who asks has the word, and has recorded it.
    pub fn release_connect(
        &self,
        host: &Host,
        port: Port,
        protocol: Option<AppProtocol>,
        word: &RuleRef,
    ) -> Verdict<ConnectPermit> {
        match self.connect(host, port, protocol, Some(word)) {
            Ok(permit) => Verdict::Allow(permit),
            Err(denial) => Verdict::Deny(denial),
        }
    }

    /// As [`Policy::decide_request`], with the word of a person for this one request where only a rule is
    /// lacking. No secret goes with it.
    pub fn release_request(
        &self,
        host: &Host,
        port: Port,
        request: &RequestIntent<'_>,
        word: &RuleRef,
    ) -> Verdict<RequestPermit> {
        match self.request(host, port, request, Some(word)) {
            Ok(permit) => Verdict::Allow(permit),
            Err(denial) => Verdict::Deny(denial),
        }
    }
}

#[cfg(test)]
mod tests;
