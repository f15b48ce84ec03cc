//! Findings that one rule gives by itself.

use std::net::IpAddr;

use crate::{
    findings::{Finding, FindingKind, push},
    host::Port,
    host_pattern::HostPattern,
    http_match::{Method, PathPattern},
    intent::AppProtocol,
    lookalike::Lookalike,
    metadata::is_metadata_service,
    rule::{RequestRule, Rule, Target},
    special_purpose::{self, AddressClass},
    verdict::Handling,
};

pub(super) fn look(rule: &Rule, findings: &mut Vec<Finding>) {
    unreachable(rule, findings);
    metadata(rule, findings);
    too_wide(rule, findings);
    lookalike(rule, findings);
    secrets(rule, findings);
    private(rule, findings);
}

fn unreachable(rule: &Rule, findings: &mut Vec<Finding>) {
    let kind = FindingKind::Unreachable;
    if rule.ports.is_empty() {
        let message = "`ports: []` allows no port: leave `ports` out for 443 and 80";
        push(findings, kind, rule, message.to_owned());
    }
    let Some(requests) = &rule.requests else {
        return;
    };
    if requests.is_empty() {
        let message = "`rules: []` allows no request: leave `rules` out to allow every one";
        push(findings, kind, rule, message.to_owned());
    }
    for request in requests {
        let RequestRule {
            reference,
            methods,
            paths,
        } = request;
        let lists = [
            ("methods", methods.as_ref().is_some_and(Vec::is_empty)),
            ("paths", paths.as_ref().is_some_and(Vec::is_empty)),
        ];
        for (list, _) in lists.into_iter().filter(|(_, empty)| *empty) {
            let message =
                format!("{reference} has `{list}: []`, which no request matches: leave it out");
            push(findings, kind, rule, message);
        }
        let asterisk = |path: &PathPattern| path.as_str() == "*";
        let is_options = |method: &Method| method.as_str() == "OPTIONS";
        let means_it = methods
            .as_deref()
            .is_some_and(|all| all.iter().any(is_options));
        if paths.iter().flatten().any(asterisk) && !means_it {
            let message = format!(
                "{reference} has the path `*`, which is that of `OPTIONS *` alone: leave `paths` out to allow every \
                 path"
            );
            push(findings, kind, rule, message);
        }
    }
}

fn metadata(rule: &Rule, findings: &mut Vec<Finding>) {
    let Target::Names(HostPattern::Exact(name) | HostPattern::Below(name)) = &rule.target else {
        return;
    };
    if is_metadata_service(name) {
        let message = format!(
            "a cloud serves its credentials as {}, at addresses that no rule opens: leave the entry out",
            rule.target
        );
        push(findings, FindingKind::Unreachable, rule, message);
    }
}

fn too_wide(rule: &Rule, findings: &mut Vec<Finding>) {
    let kind = FindingKind::TooWide;
    match &rule.target {
        Target::Names(HostPattern::Below(base)) if SHARED.contains(&base.as_str()) => {
            let message = format!(
                "*.{base} covers hosts of every customer of that provider, to which anybody can \
                 send: name the hosts that are needed"
            );
            push(findings, kind, rule, message);
        }
        Target::Names(HostPattern::Below(_)) if rule.handling == Handling::Opaque => {
            let message = format!(
                "{} is opened for any bytes: name the hosts, since nothing looks into them",
                rule.target
            );
            push(findings, kind, rule, message);
        }
        Target::Addresses(net) => {
            let wide = match net {
                ipnet::IpNet::V4(_) => net.prefix_len() < 16,
                ipnet::IpNet::V6(_) => net.prefix_len() < 48,
            };
            if wide {
                let message =
                    format!("{net} is a very large range: name the addresses that are needed");
                push(findings, kind, rule, message);
            }
        }
        Target::Names(_) => {}
    }
    let web = rule
        .ports
        .iter()
        .find(|p| p.port == Port::HTTPS || p.port == Port::HTTP);
    if let (Handling::Opaque, Some(web)) = (rule.handling, web) {
        let message = format!(
            "`protocol: tcp` on port {} lets web traffic pass unseen: leave `protocol` out, or write \
             `tls: passthrough` for a program that pins certificates",
            web.port
        );
        push(findings, kind, rule, message);
    }
}

fn lookalike(rule: &Rule, findings: &mut Vec<Finding>) {
    let Target::Names(HostPattern::Exact(name) | HostPattern::Below(name)) = &rule.target else {
        return;
    };
    if let Some(found) = Lookalike::of(name) {
        let message = format!("{found}: name the one that is meant");
        push(findings, FindingKind::Lookalike, rule, message);
    }
}

fn secrets(rule: &Rule, findings: &mut Vec<Finding>) {
    if rule.secrets.is_empty() || rule.ports.is_empty() {
        return;
    }
    let swapped = rule.secrets.iter().filter(|grant| !grant.captures);
    let names: Vec<_> = swapped.map(|s| s.name.as_str()).collect();
    let names = names.join(", ");
    for grant in rule.secrets.iter().filter(|grant| grant.entrusted) {
        let message = format!(
            "the program is handed the value of {}, and can send it disguised wherever it may send anything{}",
            grant.name,
            match rule.handling {
                Handling::Inspect => ": leave `entrusted` out, so that it holds a sentinel",
                // Nothing is swapped there.
                Handling::Passthrough | Handling::Opaque => "",
            }
        );
        push(findings, FindingKind::SecretEntrusted, rule, message);
    }
    if rule.clear_text_secrets {
        let message = format!(
            "{names} may be sent to {} in clear text, where everybody on the way can read it: use https",
            rule.target
        );
        push(findings, FindingKind::SecretInClearText, rule, message);
    } else if rule.handling == Handling::Inspect
        && !rule
            .ports
            .iter()
            .any(|p| p.protocols.has(AppProtocol::Https))
    {
        let message = format!(
            "{names} is never swapped in, since the entry allows clear text alone: add an https \
             port, or write `protocol: http` if it must go in clear text"
        );
        push(findings, FindingKind::SecretUnused, rule, message);
    }
}

fn private(rule: &Rule, findings: &mut Vec<Finding>) {
    let opens = |ip: IpAddr| rule.allow_private.iter().any(|net| net.contains(&ip));
    if let Target::Addresses(net) = &rule.target {
        let ends = [net.network(), net.broadcast()];
        let closed = ends
            .iter()
            .all(|ip| special_purpose::admit(*ip, &rule.allow_private).is_err());
        if let (true, Some(name)) = (closed, special_purpose::classify(net.addr()).name()) {
            let message = format!(
                "{net} is not public ({name}) and stays refused: add `allow_private: [{net}]`"
            );
            push(findings, FindingKind::Unreachable, rule, message);
        }
        let idle = !rule.allow_private.is_empty() && rule.position.is_some();
        if idle
            && !ends.iter().any(|ip| opens(*ip))
            && rule.allow_private.iter().all(|p| !net.contains(p))
        {
            let message = format!("`allow_private` names nothing of {net}: leave it out");
            push(findings, FindingKind::OpensNothing, rule, message);
        }
    }
    for net in rule.allow_private.iter() {
        let public = |ip| special_purpose::classify(ip) == AddressClass::Global;
        if public(net.network()) && public(net.broadcast()) && rule.position.is_some() {
            let message = format!(
                "`allow_private: [{net}]` names public addresses, which need no opening: leave it out"
            );
            push(findings, FindingKind::OpensNothing, rule, message);
        }
    }
}

/// Names under which every customer of a provider has hosts, and which are no public suffixes
/// themselves (their narrower forms are, and are refused).
const SHARED: &[&str] = &[
    "amazonaws.com",
    "azure.com",
    "azure.net",
    "cloudapp.net",
    "googleapis.com",
    "googleusercontent.com",
    "windows.net",
    "aliyuncs.com",
    "oraclecloud.com",
    "myqcloud.com",
    "digitaloceanspaces.com",
    "backblazeb2.com",
    "slack.com",
    "sharepoint.com",
];
