//! A rule for what a record's sandbox asked for, as narrow as it can be said.

use std::{fmt, net::IpAddr};

use gig_audit::row::Row;
use gig_policy::{
    Host, Moment,
    special_purpose::{AddressClass, classify},
};

use super::{Width, is_for_address};

/// One entry under `egress`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// `host` or `ip`, and which.
    target: (&'static str, String),
    port: Option<u16>,
    protocol: Option<&'static str>,
    /// Method and path; the method alone where no rule can name the path.
    request: Option<(String, Option<String>)>,
    /// The one address that is not public and may be dialled.
    private: Option<IpAddr>,
    until: Option<Moment>,
}

impl Entry {
    /// The method that it is for, where it is for any path.
    pub(super) fn of_method(&self) -> Option<&str> {
        let (method, path) = self.request.as_ref()?;
        path.is_none().then_some(method.as_str())
    }

    /// That lets a record's request pass; `None` for what nothing opens.
    pub(super) fn of(row: &Row, width: Width, until: Option<Moment>) -> Option<Self> {
        let host = Host::parse(row.host.as_deref()?).ok()?;
        let private = match private(row) {
            Private::None => None,
            Private::Open(ip) => Some(ip),
            Private::Never => return None,
        };
        let target = match &host {
            Host::Name(name) => ("host", name.to_string()),
            Host::Ip(ip) => ("ip", ip.to_string()),
        };
        // On 443 and 80 a rule that says nothing means the one that belongs there.
        let protocol = match (row.protocol.as_deref(), row.port) {
            (Some("tcp"), _) => Some("tcp"),
            (Some("http"), Some(443)) => Some("http"),
            (Some("https"), Some(80)) => Some("https"),
            _ => None,
        };
        let asked = row.method.as_deref().zip(row.path.as_deref());
        let literal = asked.filter(|(method, path)| is_literal(method, path));
        let by_method = asked.filter(|(method, path)| is_token(method) && !is_path(path));
        // What an address refused is let pass by rules already: theirs is all that it opens, and of its own only this
        // request, however wide it is asked for.
        let narrow = width == Width::Path || is_for_address(row.reason.as_deref());
        let request = literal.filter(|_| narrow);
        let request = request.map(|(method, path)| (method.to_owned(), Some(path.to_owned())));
        let by_method = by_method.map(|(method, _)| (method.to_owned(), None));
        let request = request.or(by_method);
        Some(Self {
            target,
            port: row.port,
            protocol,
            request,
            private,
            until,
        })
    }

    /// In braces, as documents in YAML have it.
    pub(super) fn yaml(&self) -> String {
        self.written(&|key| key.to_owned(), &|text| Quoted(text).to_string())
    }

    /// As documents in JSON have it.
    pub(super) fn json(&self) -> String {
        let quoted = |text: &str| serde_json::Value::from(text).to_string();
        self.written(&quoted, &quoted)
    }

    fn written(&self, key: &dyn Fn(&str) -> String, text: &dyn Fn(&str) -> String) -> String {
        let (kind, target) = &self.target;
        let mut parts = vec![format!("{}: {}", key(kind), text(target))];
        if let Some(port) = self.port {
            parts.push(format!("{}: [{port}]", key("ports")));
        }
        if let Some(protocol) = self.protocol {
            parts.push(format!("{}: {}", key("protocol"), text(protocol)));
        }
        if let Some((method, path)) = &self.request {
            let path = path.as_deref();
            let path = path.map(|path| format!(", {}: [{}]", key("paths"), text(path)));
            parts.push(format!(
                "{}: [{{{}: [{}]{}}}]",
                key("rules"),
                key("methods"),
                text(method),
                path.unwrap_or_default()
            ));
        }
        if let Some(ip) = self.private {
            let bits = if ip.is_ipv4() { 32 } else { 128 };
            let net = text(&format!("{ip}/{bits}"));
            parts.push(format!("{}: [{net}]", key("allow_private")));
        }
        if let Some(end) = self.until {
            parts.push(format!("{}: \"{end}\"", key("expires")));
        }
        format!("{{{}}}", parts.join(", "))
    }
}

/// What address that is not public stands in the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Private {
    None,
    /// A rule may name it.
    Open(IpAddr),
    /// No rule opens it.
    Never,
}

/// Of a record: the address that was asked for by itself, or that its name was found at and refused for.
pub(super) fn private(row: &Row) -> Private {
    let host = row.host.as_deref().and_then(|host| Host::parse(host).ok());
    let asked = host.and_then(|host| host.ip());
    let refused = is_for_address(row.reason.as_deref());
    let found = || {
        row.dst_ip
            .as_deref()
            .and_then(|ip| ip.parse::<IpAddr>().ok())
    };
    let Some(ip) = asked.or_else(|| found().filter(|_| refused)) else {
        // Refused for an address that nobody told of.
        return if refused {
            Private::Never
        } else {
            Private::None
        };
    };
    let ip = ip.to_canonical();
    match classify(ip) {
        AddressClass::Global => Private::None,
        AddressClass::Special { .. } => Private::Open(ip),
        AddressClass::NeverOpenable { .. } => Private::Never,
    }
}

/// A path that a pattern would read otherwise, or that was cut for the record, is no rule.
fn is_literal(method: &str, path: &str) -> bool {
    is_token(method) && is_path(path)
}

fn is_token(method: &str) -> bool {
    let token = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    !method.is_empty() && method.chars().all(token)
}

fn is_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '*' | '?' | '#');
    path.starts_with('/') && path.len() <= LONGEST_PATH && path.chars().all(plain)
}

/// A string of YAML: plain where that is safe, else double-quoted as in JSON.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | '.');
        let word = self
            .0
            .starts_with(|c: char| c == '/' || c.is_ascii_alphabetic());
        let said = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
        let special = said.iter().any(|word| self.0.eq_ignore_ascii_case(word));
        if word && !special && self.0.chars().all(plain) {
            return f.write_str(self.0);
        }
        f.write_str(&serde_json::to_string(self.0).map_err(|_| fmt::Error)?)
    }
}

/// A longer path is asked for by its host.
const LONGEST_PATH: usize = 1024;
