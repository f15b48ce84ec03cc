//! One `egress` entry: what it speaks of, how its bytes are treated, what it lets pass.

use std::{collections::HashSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;

use crate::{
    compile::{address_range, one_of, private_range},
    compile_error::Problem,
    document::{Located, RawEntry, RawRequest, RawSecret},
    host::Port,
    host_pattern::HostPattern,
    http_match::{Method, PathPattern},
    intent::AppProtocol,
    moment::Moment,
    rule::{RequestRule, Rule, RulePort, Target},
    secret_grant::{SecretGrant, SecretPlace},
    secret_name::SecretName,
    verdict::{Handling, RuleRef},
};

/// Checks one entry; `None` when anything in it is wrong.
pub(super) fn rule(entry: &RawEntry, problems: &mut Vec<Problem>) -> Option<Rule> {
    let before = problems.len();
    let reference = format!("egress[{}]", entry.number);
    let target = target(entry, problems);
    let (handling, written) = handling(entry, problems)?;
    let ports = ports(entry, handling, written, problems);
    let allow_private = allow_private(entry, problems);
    let secrets = secrets(entry, problems);
    let expires = expires(entry, problems);
    let requests = entry.rules.as_ref().map(|rules| {
        let rules = rules.iter().enumerate();
        rules
            .map(|(i, raw)| request_rule(&reference, i, raw, problems))
            .collect()
    });
    if handling != Handling::Inspect {
        let word = if handling == Handling::Opaque {
            "protocol: tcp"
        } else {
            "tls: passthrough"
        };
        if entry.rules.is_some() {
            let message = format!(
                "`rules` needs to see requests, and `{word}` does not look into them: leave one of the two out"
            );
            problems.push(Problem::at(entry.rules_at, message));
        }
        let is_handed = |grant: &SecretGrant| grant.entrusted && grant.places.is_none();
        if !secrets.iter().all(is_handed) {
            let message = format!(
                "`secrets` needs to see requests, and `{word}` does not look into them: there goes only what the program \
                 is handed itself ({{name: NAME, entrusted: true}}, without `in`)"
            );
            problems.push(Problem::at(entry.secrets_at, message));
        }
    }
    if entry.broken || problems.len() > before {
        return None;
    }
    Some(Rule {
        reference: RuleRef(reference.into()),
        position: Some(entry.at),
        target: target?,
        ports,
        handling,
        requests,
        secrets,
        clear_text_secrets: written == Some(AppProtocol::Http),
        allow_private,
        expires,
    })
}

fn target(entry: &RawEntry, problems: &mut Vec<Problem>) -> Option<Target> {
    match (&entry.host, &entry.ip) {
        (Some(host), None) => match HostPattern::parse(&host.value) {
            Ok(pattern) => Some(Target::Names(pattern)),
            Err(error) => {
                let mut message = format!("`host`: {error}");
                if host.value.parse::<IpAddr>().is_ok() {
                    message.push_str(": write `ip:` instead of `host:`");
                }
                problems.push(Problem::at(host.at, message));
                None
            }
        },
        (None, Some(ip)) => match address_range(&ip.value) {
            Ok(net) => Some(Target::Addresses(net)),
            Err(message) => {
                problems.push(Problem::at(ip.at, format!("`ip`: {message}")));
                None
            }
        },
        (Some(_), Some(ip)) => {
            let message = "an entry has `host` or `ip`, not both: make two entries";
            problems.push(Problem::at(ip.at, message.to_owned()));
            None
        }
        (None, None) if entry.broken => None,
        (None, None) => {
            let message = "an egress entry needs `host` or `ip`: say where to, as in \
                           `host: api.example.com`";
            problems.push(Problem::at(entry.at, message.to_owned()));
            None
        }
    }
}

fn handling(
    entry: &RawEntry,
    problems: &mut Vec<Problem>,
) -> Option<(Handling, Option<AppProtocol>)> {
    let before = problems.len();
    let protocols = [
        ("https", AppProtocol::Https),
        ("http", AppProtocol::Http),
        ("tcp", AppProtocol::Tcp),
    ];
    let written = entry.protocol.as_ref();
    let written = written.and_then(|p| one_of("protocol", p, &protocols, problems));
    let passthrough = [("inspect", false), ("passthrough", true)];
    let tls = entry.tls.as_ref();
    let tls = tls.and_then(|t| one_of("tls", t, &passthrough, problems));
    if problems.len() > before {
        return None;
    }
    if let (Some(_), Some(AppProtocol::Tcp | AppProtocol::Http), Some(at)) =
        (tls, written, entry.tls.as_ref().map(|t| t.at))
    {
        let message = "`tls` speaks of https alone: leave it or `protocol` out";
        problems.push(Problem::at(at, message.to_owned()));
        return None;
    }
    let handling = match (tls, written) {
        (Some(true), _) => Handling::Passthrough,
        (_, Some(AppProtocol::Tcp)) => Handling::Opaque,
        (Some(false) | None, _) => Handling::Inspect,
    };
    Some((handling, written))
}

fn ports(
    entry: &RawEntry,
    handling: Handling,
    written: Option<AppProtocol>,
    problems: &mut Vec<Problem>,
) -> Vec<RulePort> {
    let Some(ports) = &entry.ports else {
        if handling == Handling::Opaque && !entry.broken {
            let message =
                "`protocol: tcp` has no port of its own: say which, as in `ports: [5432]`";
            problems.push(Problem::at(entry.at, message.to_owned()));
        }
        return RulePort::defaults(handling, written);
    };
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for port in ports {
        let Some(number) = u16::try_from(port.value).ok().and_then(Port::new) else {
            let message = format!("{} is not a port: ports are 1 to 65535", port.value);
            problems.push(Problem::at(port.at, message));
            continue;
        };
        if seen.insert(number) {
            out.push(RulePort::new(number, handling, written));
        }
    }
    out
}

fn allow_private(entry: &RawEntry, problems: &mut Vec<Problem>) -> Arc<[IpNet]> {
    let mut nets = Vec::new();
    for text in entry.allow_private.iter().flatten() {
        match private_range(&text.value) {
            Ok(net) => nets.push(net),
            Err(message) => {
                problems.push(Problem::at(text.at, format!("`allow_private`: {message}")));
            }
        }
    }
    nets.into()
}

fn expires(entry: &RawEntry, problems: &mut Vec<Problem>) -> Option<Moment> {
    let written = entry.expires.as_ref()?;
    let moment = written.value.parse::<Moment>();
    moment
        .map_err(|error| problems.push(Problem::at(written.at, format!("`expires`: {error}"))))
        .ok()
}

fn secrets(entry: &RawEntry, problems: &mut Vec<Problem>) -> Arc<[SecretGrant]> {
    let mut grants: Vec<SecretGrant> = Vec::new();
    for raw in entry.secrets.iter().flatten() {
        let places = raw.places.as_deref().and_then(|p| places(raw, p, problems));
        let name = match raw.name.value.parse::<SecretName>() {
            Ok(name) => name,
            Err(error) => {
                problems.push(Problem::at(raw.name.at, format!("`secrets`: {error}")));
                continue;
            }
        };
        let granted = if raw.capture {
            captured(&name, places, raw, problems)
        } else {
            if raw.from.is_some() {
                let message =
                    "`from` says where tokens stand in an answer: it goes with `capture: true`";
                problems.push(Problem::at(raw.name.at, message.to_owned()));
            }
            if raw.show.is_some() {
                let message = "`show` says which tokens of an answer the program gets as they are: it \
                               goes with `capture: true`";
                problems.push(Problem::at(raw.name.at, message.to_owned()));
            }
            vec![SecretGrant {
                places,
                entrusted: raw.entrusted,
                ..SecretGrant::everywhere(name)
            }]
        };
        for grant in granted {
            if !grants.contains(&grant) {
                grants.push(grant);
            }
        }
    }
    if grants.iter().filter(|grant| grant.captures).count() > 1 {
        let message = "an answer is captured for one secret: leave `capture` out of all but one";
        problems.push(Problem::at(entry.secrets_at, message.to_owned()));
    }
    grants.into()
}

/// What a token endpoint is granted.
fn captured(
    name: &SecretName,
    places: Option<Arc<[SecretPlace]>>,
    raw: &RawSecret,
    problems: &mut Vec<Problem>,
) -> Vec<SecretGrant> {
    if raw.entrusted {
        let message = "`capture` keeps tokens out of the program and `entrusted` hands them in: \
                       leave one of the two out";
        problems.push(Problem::at(raw.name.at, message.to_owned()));
    }
    match SecretGrant::of_endpoint(name, places) {
        Ok([capturing, token, grant]) => {
            let places = Some(from(raw, problems));
            let shows_identity = shows_identity(raw, problems);
            vec![
                SecretGrant {
                    places,
                    shows_identity,
                    ..capturing
                },
                token,
                grant,
            ]
        }
        Err(error) => {
            problems.push(Problem::at(raw.name.at, format!("`capture`: {error}")));
            Vec::new()
        }
    }
}

/// Whether ID tokens are shown. What opens an API is not: whom that is for is `entrusted`.
fn shows_identity(raw: &RawSecret, problems: &mut Vec<Problem>) -> bool {
    let mut shown = false;
    for text in raw.show.iter().flatten() {
        if text.value == "id_token" {
            shown = true;
            continue;
        }
        let message = format!(
            "`show`: {:?}: only `id_token` can be shown; other tokens stay out of the program",
            text.value
        );
        problems.push(Problem::at(text.at, message));
    }
    shown
}

/// Header fields, cookies and members of an answer that hold tokens.
fn from(raw: &RawSecret, problems: &mut Vec<Problem>) -> Arc<[SecretPlace]> {
    let mut from = Vec::new();
    for text in raw.from.iter().flatten() {
        match SecretPlace::of_answer(&text.value) {
            Ok(place) => from.push(place),
            Err(error) => problems.push(Problem::at(text.at, format!("`from`: {error}"))),
        }
    }
    from.into()
}

fn places(
    secret: &RawSecret,
    raw: &[Located<String>],
    problems: &mut Vec<Problem>,
) -> Option<Arc<[SecretPlace]>> {
    let mut places = Vec::new();
    for text in raw {
        match text.value.parse::<SecretPlace>() {
            Ok(place) if places.contains(&place) => {}
            Ok(place) => places.push(place),
            Err(error) => problems.push(Problem::at(text.at, format!("`in`: {error}"))),
        }
    }
    if raw.is_empty() {
        let message = "`in: []` is no place: leave `in` out for every place";
        problems.push(Problem::at(secret.name.at, message.to_owned()));
    }
    Some(places.into())
}

fn request_rule(
    entry: &str,
    number: usize,
    raw: &RawRequest,
    problems: &mut Vec<Problem>,
) -> RequestRule {
    fn each<T, E: std::fmt::Display>(
        list: Option<&Vec<Located<String>>>,
        parse: impl Fn(&str) -> Result<T, E>,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<T>> {
        let mut out = Vec::new();
        for text in list? {
            match parse(&text.value) {
                Ok(value) => out.push(value),
                Err(error) => problems.push(Problem::at(text.at, error.to_string())),
            }
        }
        Some(out)
    }
    RequestRule {
        reference: RuleRef(format!("{entry}.rules[{number}]").into()),
        methods: each(raw.methods.as_ref(), Method::parse, problems),
        paths: each(raw.paths.as_ref(), PathPattern::parse, problems),
    }
}
