//! Why a request would be allowed or denied: one decision, told to a person.
//!
//! The verdict comes from `decide_*` and `special_purpose::admit`, the code that enforces; this file adds
//! which rules were looked at and what each lacked. It resolves no names: for a host name the addresses
//! are vetted when it is dialled, and the explanation says which ranges that would accept.

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    deny_reason::DenyReason,
    hint::can_be_asked_for,
    host::{Host, Port},
    intent::{AppProtocol, RequestIntent},
    policy::Policy,
    rule::{Rule, Target},
    verdict::{ConnectPermit, Denial, Handling, Mode, Reach, RuleRef, Verdict},
};

mod address;
mod consider;
mod ended;
mod secret;
mod text;
mod url;

pub use consider::Considered;
pub use ended::Ended;
pub use secret::GrantConsidered;
pub use url::ParseUrlError;

use url::{Hostless, Url};

/// Whether a permitted connection to this address would be dialled.
pub(crate) fn admits(permit: &ConnectPermit, ip: IpAddr) -> Result<(), DenyReason> {
    address::admitted(permit, ip).map_err(|(reason, _)| reason)
}

/// One decision with its grounds. `Display` is for people, `Serialize` for `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// `allow`, `deny` or `would_deny`.
    pub verdict: &'static str,
    /// Why not; `None` when it is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DenyReason>,
    /// The method that was asked for.
    pub method: String,
    /// The canonical host.
    pub host: String,
    /// The port.
    pub port: u16,
    /// `https`, `http` or `tcp`.
    pub protocol: &'static str,
    /// The normalised path.
    pub path: String,
    /// The policy's name.
    pub policy: String,
    /// The policy's version.
    pub policy_version: u64,
    /// The rule that matched or came nearest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The rule that let it pass until it ended; see [`Policy::explain_at`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// What to ask for, where it is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// `inspect`, `passthrough` or `opaque`, where the connection is allowed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handling: Option<&'static str>,
    /// Secrets that may be swapped in.
    pub secrets: Vec<String>,
    /// Special-purpose ranges that the connection may reach.
    pub allow_private: Vec<String>,
    /// The rules that speak of the host, and what came of each.
    pub considered: Vec<Considered>,
    /// How many more there are than `considered` holds.
    pub more: usize,
    /// What the policy and each floor above it say by themselves; empty where there is no floor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
    /// What else a person should know.
    pub notes: Vec<String>,
}

/// What one policy says by itself, of those that decide together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Level {
    /// Its name.
    pub policy: String,
    /// Its version.
    pub policy_version: u64,
    /// It is a floor: it bounds what the policy beneath it allows.
    pub floor: bool,
    /// `allow`, `deny` or `would_deny`.
    pub verdict: &'static str,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<DenyReason>,
    /// The rule that matched or came nearest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
}

impl Explanation {
    /// Whether the request goes out: it is allowed, or the policy only observes.
    #[must_use]
    pub fn passes(&self) -> bool {
        self.verdict != DENY
    }
}

impl Policy {
    /// Explains what becomes of a request. `url` is `https://…`, `http://…`, or `tcp://host:port` for
    /// bytes that are no HTTP (the method is not looked at then).
    ///
    /// # Errors
    /// [`ParseUrlError`], when the URL is none that a sandbox could ask for.
    pub fn explain(&self, method: &str, url: &str) -> Result<Explanation, ParseUrlError> {
        let mut told = self.explain_whole(method, url)?;
        if !self.floors().is_empty() {
            told.levels
                .push(Level::of(&self.alone(), false, (method, url))?);
        }
        for floor in self.floors() {
            told.levels.push(Level::of(floor, true, (method, url))?);
        }
        let by_floor = |level: &Level| level.floor && level.verdict == DENY;
        let upper = method.to_ascii_uppercase();
        if upper != method && METHODS.contains(&&*upper) {
            let note = format!(
                "methods are told apart by case: clients send {upper}, and {method} is another one"
            );
            told.notes.push(note);
        }
        if let Some(most) = self.hold()
            && told.reason.is_some_and(DenyReason::is_of_rules)
            && !told.levels.iter().any(by_floor)
        {
            let most = most.as_secs();
            let note = format!("a person is asked first: it waits for up to {most} seconds");
            told.notes.push(note);
        }
        Ok(told)
    }

    fn explain_whole(&self, method: &str, url: &str) -> Result<Explanation, ParseUrlError> {
        let url = match Url::parse(method, url)? {
            Ok(url) => url,
            Err(hostless) => return Ok(self.explain_hostless(method, *hostless)),
        };
        let mut told = self.frame(method, &url);
        if let Host::Name(name) = &url.host {
            match self.decide_name(name) {
                Verdict::Allow(permit) => told.grant(permit.rule(), permit.would_deny()),
                Verdict::Deny(denial) => {
                    told.deny(&denial);
                    // The name alone was refused; the hint knows port and protocol.
                    let hinted = self.decide_connect(&url.host, url.port, Some(url.protocol));
                    if let Verdict::Deny(denial) = hinted {
                        told.deny(&denial);
                    }
                    return Ok(told);
                }
            }
        }
        self.explain_connection(&url, method, &mut told);
        Ok(told)
    }

    fn explain_connection(&self, url: &Url, method: &str, told: &mut Explanation) {
        let permit = match self.decide_connect(&url.host, url.port, Some(url.protocol)) {
            Verdict::Allow(permit) => permit,
            Verdict::Deny(denial) => {
                told.deny(&denial);
                if let Host::Ip(ip) = url.host
                    && denial.reason != DenyReason::NeverOpenable
                    && self.reach() == Reach::External
                    && let Some(why) = address::needs(ip)
                {
                    told.notes.push(why);
                }
                return;
            }
        };
        told.grant(permit.rule(), permit.would_deny());
        told.handling = Some(handling_word(permit.handling()));
        let opened = address::opened(&permit);
        told.allow_private = opened.iter().map(ToString::to_string).collect();
        if let Host::Ip(ip) = url.host
            && let Err((reason, why)) = address::admitted(&permit, ip)
        {
            told.verdict = DENY;
            told.reason = Some(reason);
            let openable = reason == DenyReason::PrivateAddress;
            told.hint = openable.then(|| format!("allow_private: [{ip}]"));
            told.notes.push(why);
            return;
        }
        if url.protocol == AppProtocol::Tcp {
            return self.note(url, told);
        }
        if let Some(why) = &url.malformed
            && permit.handling() == Handling::Inspect
        {
            return told.deny_malformed(why.clone());
        }
        let intent = RequestIntent {
            protocol: url.protocol,
            method,
            path: &url.path,
        };
        match self.decide_request(&url.host, url.port, &intent) {
            Verdict::Allow(permit) => {
                told.grant(permit.rule(), permit.would_deny());
                told.secrets = permit.secrets().iter().map(ToString::to_string).collect();
            }
            Verdict::Deny(denial) => told.deny(&denial),
        }
        self.note(url, told);
    }

    fn note(&self, url: &Url, told: &mut Explanation) {
        if matches!(url.host, Host::Name(_)) && told.verdict != DENY {
            let ranges = told.allow_private.join(", ");
            let note = match self.reach() {
                Reach::Local => format!("the name is dialled only where it resolves to {ranges}"),
                Reach::External if ranges.is_empty() => {
                    "every address of the name must be public, or it is not dialled".to_owned()
                }
                Reach::External => format!("the name may also resolve to {ranges}"),
            };
            told.notes.push(note);
        }
        if matches!(told.handling, Some("passthrough" | "opaque")) {
            let note = "the bytes are not looked into: methods and paths are not decided";
            told.notes.push(note.to_owned());
        }
        if url.path.split('/').any(crate::path::is_ambiguous) {
            let note = "the path has a segment that servers read in two ways (an encoded slash, \
                        backslash or dot): no wildcard of a rule matches it";
            told.notes.push(note.to_owned());
        }
        if url.had_query {
            told.notes
                .push("the query takes no part in the decision".to_owned());
        }
    }

    /// Where nothing can be looked for: no rule is asked.
    fn explain_hostless(&self, method: &str, url: Hostless) -> Explanation {
        let mut told = self.bare(method);
        told.host = url.host;
        told.port = url.port.get();
        told.protocol = url.protocol.as_str();
        told.path = url.path;
        told.deny_malformed(url.why);
        told
    }

    fn frame(&self, method: &str, url: &Url) -> Explanation {
        let speaking = |rule: &&Rule| match (&rule.target, &url.host) {
            (Target::Names(pattern), Host::Name(name)) => {
                pattern.matches(name) || consider::is_apex(pattern, name)
            }
            (Target::Addresses(net), Host::Ip(ip)) => net.contains(ip),
            (Target::Names(_), Host::Ip(_)) | (Target::Addresses(_), Host::Name(_)) => false,
        };
        let rules: Vec<_> = self.rules().iter().filter(speaking).collect();
        let considered = rules.iter().take(MOST_TOLD);
        Explanation {
            host: url.host.to_string(),
            port: url.port.get(),
            protocol: url.protocol.as_str(),
            path: url.path.clone(),
            considered: considered
                .map(|rule| Considered::of(rule, &rules, method, url))
                .collect(),
            more: rules.len().saturating_sub(MOST_TOLD),
            ..self.bare(method)
        }
    }

    fn bare(&self, method: &str) -> Explanation {
        Explanation {
            verdict: ALLOW,
            reason: None,
            method: method.to_owned(),
            host: String::new(),
            port: 0,
            protocol: "",
            path: String::new(),
            policy: self.reference().name.to_string(),
            policy_version: self.reference().version,
            rule: None,
            ended: None,
            hint: None,
            handling: None,
            secrets: Vec::new(),
            allow_private: Vec::new(),
            considered: Vec::new(),
            more: 0,
            levels: Vec::new(),
            notes: match self.mode() {
                Mode::Enforce => Vec::new(),
                Mode::Observe => vec!["the policy only observes: `mode: observe`".to_owned()],
            },
        }
    }
}

impl Explanation {
    fn deny(&mut self, denial: &Denial) {
        self.verdict = DENY;
        self.tell(denial);
    }

    /// The proxy takes it for no request.
    fn deny_malformed(&mut self, why: String) {
        self.verdict = DENY;
        self.reason = Some(DenyReason::MalformedRequest);
        self.rule = None;
        self.hint = None;
        self.notes.push(why);
    }

    fn grant(&mut self, rule: Option<&RuleRef>, would_deny: Option<&Denial>) {
        if let Some(denial) = would_deny {
            self.verdict = WOULD_DENY;
            self.tell(denial);
        } else if self.verdict == ALLOW {
            self.rule = rule.map(ToString::to_string);
        }
    }

    fn tell(&mut self, denial: &Denial) {
        self.policy = denial.policy.name.to_string();
        self.policy_version = denial.policy.version;
        self.reason = Some(denial.reason);
        self.rule = denial.rule.as_ref().map(ToString::to_string);
        self.hint = Some(denial.hint.clone()).filter(|hint| !hint.is_empty());
        let hint = self.hint.take_if(|hint| !can_be_asked_for(hint));
        self.notes.extend(hint);
    }
}

impl Level {
    fn of(
        policy: &Policy,
        floor: bool,
        (method, url): (&str, &str),
    ) -> Result<Self, ParseUrlError> {
        let told = policy.explain_whole(method, url)?;
        Ok(Self {
            policy: told.policy,
            policy_version: told.policy_version,
            floor,
            verdict: told.verdict,
            reason: told.reason,
            rule: told.rule,
        })
    }
}

const fn handling_word(handling: Handling) -> &'static str {
    match handling {
        Handling::Inspect => "inspect",
        Handling::Passthrough => "passthrough",
        Handling::Opaque => "opaque",
    }
}

pub(crate) fn port_list<'a>(ports: impl Iterator<Item = &'a Port>) -> String {
    let ports: Vec<_> = ports.map(ToString::to_string).collect();
    if ports.is_empty() {
        "none".to_owned()
    } else {
        ports.join(", ")
    }
}

const ALLOW: &str = "allow";
/// RFC 9110 §9.3, and PATCH (RFC 5789).
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];
const DENY: &str = "deny";
const WOULD_DENY: &str = "would_deny";

/// A screenful.
const MOST_TOLD: usize = 20;

#[cfg(test)]
mod tests;
