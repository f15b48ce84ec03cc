//! What would allow a denied destination: an option, or a line for the policy document.
//!
//! Promises that what is printed works where it came from: `--allow-private` speaks of `--allow` rules
//! alone, so a document's rule is mended in the document; and one port of a host is treated in one way,
//! so another way comes in place of the old one. Leaves the counting and the layout to the summary.

use std::net::{IpAddr, Ipv6Addr};

use gig_policy::special_purpose::{AddressClass, classify, to_open};
use gig_policy::{DenyReason, Port, is_metadata_service, rule_for};
use gig_proxy::dns::synthetic::is_synthetic;

use super::{Denied, shown, shown_up_to};

/// Where a run's rules come from.
#[derive(Debug, Clone, Default)]
pub(crate) struct RulesFrom {
    /// The document's path.
    pub(crate) document: Option<String>,
    /// Where gig's own proxy is inside.
    pub(crate) proxy: Option<IpAddr>,
    /// Where the sandbox itself is.
    pub(crate) sandbox: Option<IpAddr>,
}

/// The option or rule that would allow it, or why nothing does.
pub(super) fn cure(denied: &Denied, from: &RulesFrom) -> String {
    let host = bracketed(&denied.host);
    let told = inside(denied, from).or_else(|| unopened(denied));
    if let Some(told) = told.or_else(|| unanswered(denied)) {
        return told;
    }
    let is_metadata = |host: &str| host.parse().is_ok_and(|name| is_metadata_service(&name));
    match denied.reason {
        DenyReason::HostNotAllowed if is_metadata(&denied.host) => {
            "a cloud serves its credentials by that name: nothing opens its address".to_owned()
        }
        DenyReason::HostNotAllowed if denied.port.is_none() => format!(
            "allow it with: --allow {host} (https and http; another port: --allow {host}:PORT; what is no HTTP: \
             --allow tcp:{host}:PORT)"
        ),
        DenyReason::HostNotAllowed | DenyReason::PortNotAllowed | DenyReason::IpNotAllowed => {
            format!(
                "allow it with: --allow {}{}",
                option(denied),
                private(denied)
            )
        }
        DenyReason::ProtocolNotAllowed if denied.is_connect() => any_bytes(
            denied,
            from,
            "a proxy behind it would hide where requests go: have the program use gig's own (its variables name \
             it), or",
        ),
        DenyReason::UnsupportedProtocol
            if denied.port.is_some() && denied.protocol.as_deref() == Some("https") =>
        {
            any_bytes(
                denied,
                from,
                "its TLS is older than 1.2 or carries no HTTP (ALPN), so that gig cannot open it:",
            )
        }
        DenyReason::ProtocolNotAllowed | DenyReason::UnsupportedProtocol
            if denied.port.is_some() =>
        {
            protocol(denied, from)
        }
        // A connection on which nothing came.
        DenyReason::RequestTimeout
            if denied.request.is_none() && denied.protocol.as_deref() == Some("tcp") =>
        {
            silent(denied, from)
        }
        DenyReason::MethodNotAllowed | DenyReason::PathNotAllowed => request(denied, from),
        DenyReason::PrivateAddress => private_address(denied, from),
        DenyReason::NeverOpenable => "nothing opens that address".to_owned(),
        DenyReason::NameMissing if denied.request.is_some() => {
            "the request named no host: have the program send a Host field, as HTTP/1.1 wants it"
                .to_owned()
        }
        DenyReason::NameMissing if denied.port.is_some() => format!(
            "its TLS hello may hide another name (ECH, or GREASE that looks the same) and is not to be opened: \
             switch that off in the program, leave passthrough (tls:) out, or allow any bytes in its place: \
             --allow tcp:{}:{}",
            host,
            denied.port.unwrap_or_default()
        ),
        DenyReason::NamesDisagree if denied.why.is_none() => {
            "the destination, the TLS name and the Host named different hosts".to_owned()
        }
        DenyReason::SecretMisuse
        | DenyReason::SecretUnplaceable
        | DenyReason::SecretUnavailable
        | DenyReason::NamesDisagree
            if denied.why.is_some() =>
        {
            shown_up_to(denied.why.as_deref().unwrap_or_default(), MOST_TOLD)
        }
        DenyReason::SecretMisuse => misused(denied),
        reason => without_a_rule(reason).to_owned(),
    }
}

/// Of a secret on its way to where it is not bound, where no record says more.
fn misused(denied: &Denied) -> String {
    match denied.protocol.as_deref() {
        Some("http") => {
            "in clear text a secret goes nowhere, unless a policy's rule says `protocol: http`: use https"
                .to_owned()
        }
        // What is in the place of a value in a name.
        _ if denied.host.contains('[') => {
            "a host's name is no place for a secret: have the program send it in a field or a body".to_owned()
        }
        Some("tcp") => {
            "what passes unopened (`protocol: tcp`, `tls: passthrough`) takes no sentinel, and a value only where the \
             rule of that host and port entrusts it: `secrets: [{name: NAME, entrusted: true}]`"
                .to_owned()
        }
        _ => format!(
            "only if the secret belongs there, bind it: --secret NAME@{}{} (where it is, the audit record has the \
             place that does not take it)",
            bracketed(&denied.host),
            denied
                .port
                .filter(|p| *p != 443)
                .map_or_else(String::new, |p| format!(":{p}"))
        ),
    }
}

/// Of what is not outside at all, or of no destination's doing.
fn inside(denied: &Denied, from: &RulesFrom) -> Option<String> {
    use DenyReason::{
        ConnectionLimit, HostNotAllowed, IpNotAllowed, NeverOpenable, PortNotAllowed,
    };
    if denied.reason == ConnectionLimit {
        return Some("more at once than may be: raise `connections` in the policy's limits".into());
    }
    let ip: Option<IpAddr> = denied.host.parse().ok();
    if ip.is_some() && ip == from.proxy {
        return Some(
            "that is gig's own proxy, which takes CONNECT host:port and requests for http://… and https://…"
                .into(),
        );
    }
    if !matches!(
        denied.reason,
        HostNotAllowed | PortNotAllowed | IpNotAllowed | NeverOpenable
    ) {
        return None;
    }
    if matches!(ip, Some(IpAddr::V4(ip)) if is_synthetic(ip)) {
        return Some(
            "that is an address of those that gig makes up inside for names, and stands for none now: have the \
             program look its name up again"
                .into(),
        );
    }
    let own = gig_policy::own_loopback(&denied.host).is_some()
        || *denied.host == *gig_sandbox::NAME
        // What a server prints that listens everywhere; dialled, it is the own machine.
        || ip.is_some_and(|ip| ip.is_unspecified())
        || (ip.is_some() && ip == from.sandbox);
    own.then(|| {
        format!(
            "inside, that is the sandbox itself, and from gig's proxy it would be another machine: have the program \
             go there without its proxy (NO_PROXY={})",
            shown(&denied.host)
        )
    })
}

/// Of what the kernel refused, whatever the rules say.
fn unopened(denied: &Denied) -> Option<String> {
    let told = match denied.protocol.as_deref()? {
        "udp" if denied.port == Some(443) => {
            "QUIC (HTTP/3) is UDP, of which nothing leaves a sandbox: the program takes TCP in its place if it is let \
             there, or should be told to"
        }
        "udp" => {
            "UDP does not leave a sandbox, and no rule opens it: names are asked of gig, all else goes by TCP"
        }
        "icmp" => "ping does not leave a sandbox, and no rule opens it: try the port by TCP",
        "https" | "http" | "tcp" | "dns" => return None,
        _ => "nothing but TCP leaves a sandbox, and no rule opens it",
    };
    Some(told.to_owned())
}

/// Of questions to DNS that get no data, whatever the rules say.
fn unanswered(denied: &Denied) -> Option<String> {
    if denied.protocol.as_deref() != Some("dns") || denied.port.is_some() {
        return None;
    }
    let kind = denied.request.as_ref().map_or("", |(kind, _)| &**kind);
    match denied.reason {
        DenyReason::HostNotAllowed | DenyReason::MalformedName if &*denied.host == "." => Some(
            "the root of DNS was asked about, which is no host: gig answers for the hosts that its rules name"
                .to_owned(),
        ),
        DenyReason::HostNotAllowed if !kind.is_empty() && !ASKED_FOR_A_HOST.contains(&kind) => Some(format!(
            "gig answers with addresses (A) alone and asks nobody for {}: have the program go to a host by its \
             name, and allow that one",
            shown(kind)
        )),
        DenyReason::UnsupportedProtocol if !kind.is_empty() && denied.why.is_none() => Some(format!(
            "gig answers with addresses (A) alone: {} is asked of nobody",
            shown(kind)
        )),
        DenyReason::UnsupportedProtocol | DenyReason::MalformedRequest => {
            let why = denied.why.as_deref()?;
            Some(format!("no server was asked: {why}"))
        }
        _ => None,
    }
}

/// What no rule changes.
fn without_a_rule(reason: DenyReason) -> &'static str {
    match reason {
        DenyReason::PublicAddress => {
            "its address is public, and --profile local reaches private ones alone"
        }
        DenyReason::SecretUnavailable => {
            "the secret cannot be had: revoked, expired, or its provider does not answer"
        }
        DenyReason::SecretUnplaceable => {
            "the secret's value cannot stand where its sentinel does, for line breaks, marks or its length: the \
             audit record has the place; or AWS was asked for credentials, which takes `hands_out: true` in its \
             definition"
        }
        DenyReason::TokenUnreadable => {
            "the answer holds tokens nowhere where they are known, or is no token answer: is the \
             captured path the token endpoint's?"
        }
        DenyReason::DecoderLimit => {
            "gig looks into bodies where secrets are, and they held all the memory that they may: \
             fewer at once, or without a content coding"
        }
        DenyReason::DecompressionBomb => {
            "gig looks into bodies where secrets are, and this one decodes to more than a thousand \
             times what was sent: without a content coding it passes"
        }
        DenyReason::RecordUnavailable => "the audit record could not be written; see --audit",
        DenyReason::TooLarge => {
            "more fields, or frames that carry nothing, than gig takes of anybody: no limit of a policy changes that"
        }
        reason if reason.http_status() == 429 || reason.http_status() == 413 => {
            "raise it in the policy's limits"
        }
        _ => "the audit record has the details",
    }
}

/// A value of `--allow`, as narrow as it is short.
fn option(denied: &Denied) -> String {
    let host = bracketed(&denied.host);
    let named = denied.reason == DenyReason::HostNotAllowed;
    match (denied.port, denied.protocol.as_deref()) {
        (None, _) => host,
        (Some(port), Some("tcp")) => format!("tcp:{host}:{port}"),
        // 443 and 80 mean https and http: the other one has to be written.
        (Some(443), Some("http")) => format!("http:{host}:443"),
        (Some(80), Some("https")) => format!("https:{host}:80"),
        (Some(80 | 443), _) if named => host,
        (Some(port), _) => format!("{host}:{port}"),
    }
}

/// What an address needs beside its `--allow`.
fn private(denied: &Denied) -> String {
    match denied.host.parse::<IpAddr>() {
        Ok(ip) if matches!(classify(ip), AddressClass::Special { .. }) => {
            format!(" {}", opening(ip))
        }
        _ => String::new(),
    }
}

fn protocol(denied: &Denied, from: &RulesFrom) -> String {
    let host = bracketed(&denied.host);
    let port = denied.port.unwrap_or_default();
    let web = denied.protocol.as_deref().filter(|word| *word != "tcp");
    match (&from.document, web) {
        (None, Some(word)) => format!("allow it with: --allow {word}:{host}:{port}"),
        (None, None) => {
            let old = match denied.rule.as_deref().filter(|rule| is_option(rule)) {
                Some(rule) => format!(" (in place of {})", shown(rule)),
                None if denied.reason == DenyReason::ProtocolNotAllowed => {
                    " (in place of what allows that port now)".to_owned()
                }
                // Nothing does: the policy only observes.
                None => String::new(),
            };
            format!("allow it with: --allow tcp:{host}:{port}{old}")
        }
        (Some(document), web) => format!(
            "allow it in {document} with this in place of that port of the host: {{{}, ports: [{port}], \
             protocol: {}}}",
            target(&denied.host),
            web.unwrap_or("tcp"),
        ),
    }
}

/// What only passes unopened.
fn any_bytes(denied: &Denied, from: &RulesFrom, why: &str) -> String {
    let bytes = Denied {
        protocol: Some("tcp".into()),
        request: None,
        ..denied.clone()
    };
    format!("{why} {}", protocol(&bytes, from))
}

/// Clients of the web open spare connections: theirs is no reason to let any bytes pass.
fn silent(denied: &Denied, from: &RulesFrom) -> String {
    let port = denied.port.and_then(Port::new);
    if port.is_none_or(Port::is_of_the_web) {
        return "the program opened a connection and asked for nothing on it".to_owned();
    }
    format!(
        "the program waited for the server to speak first; {}",
        protocol(denied, from)
    )
}

fn request(denied: &Denied, from: &RulesFrom) -> String {
    let place = from
        .document
        .as_ref()
        .map_or_else(String::new, |document| format!(" in {document}"));
    let known = denied.request.as_ref();
    let known = known.and_then(|(method, path)| Some((method, path.as_deref()?)));
    match known.map(|(method, path)| rule_for(method, path)) {
        Some(Ok(rule)) => format!("allow it with this under the host's rules{place}: {rule}"),
        Some(Err(why)) => shown_up_to(&format!("no rule is offered for it: {why}"), MOST_TOLD),
        None => format!("allow it with a rule for that method and path{place}"),
    }
}

fn private_address(denied: &Denied, from: &RulesFrom) -> String {
    let ip = denied.dst_ip.or_else(|| denied.host.parse().ok());
    let by_option = match &denied.rule {
        Some(rule) => is_option(rule),
        None => from.document.is_none(),
    };
    if let (Some(ip), None, Some(_)) = (ip, &denied.rule, denied.port) {
        return unruled_private(denied, from, ip);
    }
    match (ip, &from.document) {
        (Some(ip), Some(document)) if !by_option => format!(
            "it is at {ip}; allow that in {document} with this under the host: allow_private: [{}]",
            opened(ip)
        ),
        (None, Some(document)) if !by_option => {
            format!("its address is not public; name the range in {document}: allow_private")
        }
        (Some(ip), _) => format!("it is at {ip}; allow that with: {}", opening(ip)),
        (None, _) => "its address is not public; name the range with --allow-private".to_owned(),
    }
}

/// Of what no rule lets go and a policy that observes would have let go, had its address been public: what opens the
/// address of another port of the host opens nothing here.
fn unruled_private(denied: &Denied, from: &RulesFrom, ip: IpAddr) -> String {
    let Some(document) = &from.document else {
        let option = option(denied);
        return format!(
            "it is at {ip}; allow that with: --allow {option} {}",
            opening(ip)
        );
    };
    let protocol = denied.protocol.as_deref();
    let protocol = protocol.map_or_else(String::new, |protocol| format!("protocol: {protocol}, "));
    format!(
        "it is at {ip}, and no rule names that port of the host; allow it in {document} with: {{{}, ports: [{}], \
         {protocol}allow_private: [{}]}}",
        target(&denied.host),
        denied.port.unwrap_or_default(),
        opened(ip)
    )
}

/// The options that open an address: one that carries another takes two.
fn opening(ip: IpAddr) -> String {
    let options = to_open(ip).into_iter();
    let options = options.map(|ip| format!("--allow-private {ip}"));
    options.collect::<Vec<_>>().join(" ")
}

/// The same as a document's list.
fn opened(ip: IpAddr) -> String {
    let list: Vec<_> = to_open(ip).into_iter().map(quoted).collect();
    list.join(", ")
}

fn target(host: &str) -> String {
    match host.parse::<IpAddr>() {
        Ok(ip) => format!("ip: {}", quoted(ip)),
        Err(_) => format!("host: {}", shown(host)),
    }
}

/// Colons have a meaning of their own in a document.
fn quoted(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("\"{ip}\""),
    }
}

/// Whether a rule came by `--allow` and not from a document.
fn is_option(rule: &str) -> bool {
    rule.starts_with("--allow ")
}

/// An IPv6 address in brackets, so that a port can follow.
pub(super) fn bracketed(host: &str) -> String {
    match host.parse::<Ipv6Addr>() {
        Ok(ip) => format!("[{ip}]"),
        Err(_) => shown(host),
    }
}

/// The types of DNS that a client asks for who wants to connect to the host.
const ASKED_FOR_A_HOST: [&str; 4] = ["A", "AAAA", "HTTPS", "SVCB"];
/// Why a secret did not go, with some of the hosts that it is bound to.
const MOST_TOLD: usize = 800;

#[cfg(test)]
mod tests;
