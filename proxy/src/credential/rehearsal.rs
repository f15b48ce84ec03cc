//! A request that is readied as every request is, and not sent: for `gig secret test`.
//!
//! It goes through what enforces: the agreement on one name, length and path, the decision, the look at
//! what it tells its origin to take it for, that at everything that must not go astray, the placing of
//! values, the passes of its body, the treatments. Nothing is recorded and nothing leaves.

use std::sync::Arc;

use gig_policy::{
    AppProtocol, Denial, DenyReason, Host, Policy, Port, RequestIntent, RequestPermit, Verdict,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header::HOST, uri::PathAndQuery};

use super::{
    body::BodyPlan,
    inject::{Carried, Head, Stopped, carry},
    rewrite::RewriteError,
    treat::Signable,
    wallet::Wallet,
    written::Written,
};
use crate::{
    authority::{Destination, agree_request},
    http::{
        headers,
        meant::{Decided, is_meant},
        target::{self, Reader},
    },
};

/// A request, as its program would send it.
#[derive(Debug, Clone)]
pub struct Rehearsal {
    /// The method.
    pub method: Method,
    /// `https` or `http`.
    pub scheme: &'static str,
    /// The host, with the port where one is written.
    pub authority: HeaderValue,
    /// Path and query.
    pub target: PathAndQuery,
    /// The header section. A `Host` in it is what it names beside its connection, and is not sent.
    pub headers: HeaderMap,
    /// The body, if it has one.
    pub body: Option<Vec<u8>>,
}

/// What was done to it.
#[derive(Debug, Default)]
pub struct Rehearsed {
    /// The secrets that are in it now.
    pub secrets: Vec<Arc<str>>,
    /// Fields that a treatment added or changed.
    pub treated: Vec<HeaderName>,
    /// Its connection would show the origin a client certificate.
    pub certificate: bool,
}

/// It would be refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {why}")]
pub struct Refused {
    /// The word that the program would be told.
    pub reason: DenyReason,
    /// What stands in the way; holds no value.
    pub why: String,
}

/// A text is no part of a request.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RehearsalError {
    /// Of the method.
    #[error("{0:?} is not a method")]
    Method(String),
    /// Of the host.
    #[error("{0:?} is not a host")]
    Authority(String),
    /// Of path and query.
    #[error("{0:?} is not a path with a query")]
    Target(String),
    /// Of a field.
    #[error("{0:?} is not a header field: write NAME: VALUE")]
    Field(String),
}

impl Rehearsal {
    /// A request of these texts.
    ///
    /// # Errors
    /// [`RehearsalError`], when one is no part of a request.
    pub fn new(
        method: &str,
        (scheme, authority): (&'static str, &str),
        target: &str,
    ) -> Result<Self, RehearsalError> {
        let of = str::to_owned;
        Ok(Self {
            method: Method::from_bytes(method.as_bytes())
                .map_err(|_| RehearsalError::Method(of(method)))?,
            scheme,
            authority: HeaderValue::from_str(authority)
                .map_err(|_| RehearsalError::Authority(of(authority)))?,
            target: PathAndQuery::try_from(target)
                .map_err(|_| RehearsalError::Target(of(target)))?,
            headers: HeaderMap::new(),
            body: None,
        })
    }

    /// Adds a field, `NAME: VALUE`.
    ///
    /// # Errors
    /// [`RehearsalError::Field`].
    pub fn field(&mut self, line: &str) -> Result<(), RehearsalError> {
        let wrong = || RehearsalError::Field(line.to_owned());
        let (name, value) = line.split_once(':').ok_or_else(wrong)?;
        let name = HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| wrong())?;
        let value = HeaderValue::from_str(value.trim()).map_err(|_| wrong())?;
        self.headers.append(name, value);
        Ok(())
    }

    /// The policy's word about it, sent to `host`.
    ///
    /// # Errors
    /// [`Refused`], where the real one would be: no rule lets it go, or it has no one meaning.
    pub fn decided(
        &self,
        policy: &Policy,
        host: &Host,
        port: Port,
    ) -> Result<RequestPermit, Refused> {
        if headers::framing_is_ambiguous(&self.headers) {
            let why = "its length is told in two ways, or in one that is not known";
            return Err(unlet(DenyReason::MalformedRequest, why));
        }
        let host = self.agreed(host, port)?;
        let path = target::path(&Uri::from(self.target.clone()));
        let (path, _) =
            path.map_err(|error| unlet(DenyReason::MalformedRequest, &error.to_string()))?;
        let decided = Decided {
            policy,
            host: &host,
            port,
            intent: RequestIntent {
                protocol: self.protocol(),
                method: self.method.as_str(),
                path: &path,
            },
        };
        match policy.decide_request(&host, port, &decided.intent) {
            Verdict::Allow(mut permit) => {
                is_meant(&self.headers, decided, &mut permit)
                    .map_err(|denial| not_meant(*denial))?;
                Ok(permit)
            }
            Verdict::Deny(denial) => Err(unlet(denial.reason, "no rule allows such a request")),
        }
    }

    /// The one host that its connection and its fields name.
    fn agreed(&self, host: &Host, port: Port) -> Result<Host, Refused> {
        let uri = Uri::from(self.target.clone());
        let mut fields = self.headers.clone();
        fields.entry(HOST).or_insert_with(|| self.authority.clone());
        let named = target::authority(&uri, &fields, &Reader::default());
        let named = named.map_err(|error| {
            let why = error.to_string();
            unlet(error.into(), &why)
        })?;
        let connection = Destination {
            host: host.clone(),
            port,
        };
        // To a bare address in clear text, the first name that is said counts.
        let is_named = matches!(host, Host::Name(_)) || self.protocol() == AppProtocol::Https;
        agree_request(&connection, is_named, &named)
            .map_err(|error| unlet(error.reason(), &error.to_string()))
    }

    fn protocol(&self) -> AppProtocol {
        match self.scheme {
            "http" => AppProtocol::Http,
            _ => AppProtocol::Https,
        }
    }

    /// Readies it as a request of the wallet's sandbox that was permitted so.
    ///
    /// # Errors
    /// [`Refused`], where the real one would be.
    pub async fn ready(
        &mut self,
        wallet: &Arc<Wallet>,
        permit: &RequestPermit,
    ) -> Result<Rehearsed, Refused> {
        self.headers.remove(HOST);
        let head = Head {
            method: &self.method,
            written: None,
            target: &mut self.target,
            headers: &mut self.headers,
            has_body: self.body.is_some(),
        };
        let carried = carry(wallet, (permit.secrets(), permit.bound()), head)
            .await
            .map_err(refused)?;
        let written = Written::of(self.body.as_deref().unwrap_or_default());
        if let (Some(plan), Some(body)) = (&carried.body, &mut self.body) {
            *body = passed(plan, body)?;
        }
        let treated = self.treat(&carried, &written)?;
        Ok(Rehearsed {
            secrets: carried.used().secrets,
            treated,
            certificate: carried.identity.is_some(),
        })
    }

    fn treat(&mut self, carried: &Carried, written: &str) -> Result<Vec<HeaderName>, Refused> {
        let before = self.headers.clone();
        for treat in &carried.treats {
            let signable = Signable {
                method: &self.method,
                scheme: self.scheme,
                authority: &self.authority,
                target: &mut self.target,
                headers: &mut self.headers,
                body: Some(self.body.as_deref().unwrap_or_default()),
                sent: carried.sent.as_deref(),
                changed: carried.tally.body_changed(),
                written: Some(written),
                memory: &carried.memory,
            };
            let after = treat.treat(signable).map_err(|error| Refused {
                reason: error.reason,
                why: error.to_string(),
            })?;
            if let (Some(mut after), Some(body)) = (after, &mut self.body) {
                let mut out = Vec::new();
                let pushed = after.push(body, &mut out);
                pushed.and_then(|()| after.finish(&mut out)).map_err(cut)?;
                *body = out;
            }
        }
        let names = self.headers.keys();
        let changed = names.filter(|name| {
            let (now, then) = (self.headers.get_all(*name), before.get_all(*name));
            !now.iter().eq(then.iter())
        });
        Ok(changed.cloned().collect())
    }
}

/// The whole body, through everything that a body passes through.
fn passed(plan: &BodyPlan, body: &[u8]) -> Result<Vec<u8>, Refused> {
    let told = |error| {
        let mut refused = cut(error);
        let misuses = plan.tally().take_misuses();
        if let Some(misuse) = misuses.first() {
            refused.why = misuse.text.to_string();
        }
        refused
    };
    let mut passes = plan.passes();
    if let Some(guard) = &mut passes.guard {
        guard.look(body).map_err(told)?;
    }
    let mut out = Vec::new();
    if let Some(aside) = &mut passes.aside {
        let looked = aside.push(body, &mut out);
        match looked.and_then(|()| aside.finish(&mut out)) {
            // To whom it is not what its coding says, a sentinel in it means nothing.
            Ok(()) | Err(RewriteError::Undecodable) => {}
            Err(error) => return Err(told(error)),
        }
        out.clear();
    }
    let Some(rewrite) = &mut passes.rewrite else {
        return Ok(body.to_vec());
    };
    rewrite.push(body, &mut out).map_err(told)?;
    rewrite.finish(&mut out).map_err(told)?;
    Ok(out)
}

fn unlet(reason: DenyReason, why: &str) -> Refused {
    Refused {
        reason,
        why: why.to_owned(),
    }
}

fn not_meant(denial: Denial) -> Refused {
    Refused {
        reason: denial.reason,
        why: denial.hint,
    }
}

fn refused(stopped: Stopped) -> Refused {
    match stopped {
        Stopped::Misuse(misuses) => {
            let texts: Vec<&str> = misuses.iter().map(|misuse| &*misuse.text).collect();
            Refused {
                reason: DenyReason::SecretMisuse,
                why: texts.join("; "),
            }
        }
        Stopped::Unavailable(why) => Refused {
            reason: DenyReason::SecretUnavailable,
            why: why.to_string(),
        },
        Stopped::Unplaceable(unplaced) => Refused {
            reason: DenyReason::SecretUnplaceable,
            why: unplaced.to_string(),
        },
    }
}

fn cut(error: RewriteError) -> Refused {
    Refused {
        reason: error.reason(),
        why: error.to_string(),
    }
}
