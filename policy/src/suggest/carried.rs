//! What a suggestion keeps of the document in whose place it is to stand.
//!
//! Records tell what was asked for, and nothing of how long that is allowed, under which limits, how a denial is
//! told or where in a request a secret may stand: that is carried over, so that a suggestion widens nothing in
//! silence. What cannot be carried over with certainty is a note. What was not tried is left out, as ever.

use crate::{
    document::{self, Document, Located, Scalar},
    draft::{Draft, DraftEntry, DraftTarget},
    host_pattern::HostPattern,
    moment::Moment,
    policy::Policy,
    rule::{Rule, Target},
    verdict::Handling,
};

/// The document that a suggestion is to replace.
#[derive(Debug, Clone, Copy)]
pub struct InPlaceOf<'a> {
    /// As it is kept.
    pub document: &'a str,
    /// What has ended before is not carried over.
    pub now: Moment,
}

/// Carries over what `old` says beside hosts and requests.
pub(super) fn carry(old: InPlaceOf<'_>, draft: &mut Draft, notes: &mut Vec<String>) {
    let read = document::read(old.document, &mut Vec::new());
    let (Some(read), Ok(policy)) = (read, Policy::compile(old.document, "old")) else {
        notes.push(
            "the document that is kept does not compile: nothing is carried over from it"
                .to_owned(),
        );
        return;
    };
    draft.head = head(&read);
    let policy = policy.as_of(old.now);
    for entry in &mut draft.entries {
        let rules = policy.rules().iter();
        let theirs: Vec<&Rule> = rules.filter(|rule| speaks_of(rule, entry)).collect();
        if !theirs.is_empty() {
            expiry(&theirs, entry, notes);
            unopened(&theirs, entry, notes);
            secrets(&theirs, entry, notes);
        }
    }
}

/// `deny`, `hold` and `limits`, as they are written.
fn head(document: &Document) -> Vec<String> {
    let mut lines = Vec::new();
    let mut text = |field: &str, value: &Option<Located<String>>| {
        lines.extend(
            value
                .iter()
                .map(|value| format!("{field}: {}", value.value)),
        );
    };
    text("deny", &document.deny);
    text("hold", &document.hold);
    let Some(limits) = &document.limits else {
        return lines;
    };
    let number = |value: &Option<Located<i128>>| value.as_ref().map(|n| n.value.to_string());
    let amount = |value: &Option<Located<Scalar>>| {
        value.as_ref().map(|value| match &value.value {
            Scalar::Number(number) => number.to_string(),
            Scalar::Text(text) => text.clone(),
        })
    };
    let fields = [
        ("requests_per_minute", number(&limits.requests_per_minute)),
        ("connections", number(&limits.connections)),
        ("request_body", amount(&limits.request_body)),
        ("upload_per_hour", amount(&limits.upload_per_hour)),
    ];
    let fields = fields.into_iter();
    let fields: Vec<_> = fields
        .filter_map(|(field, value)| Some(format!("  {field}: {}", value?)))
        .collect();
    if !fields.is_empty() {
        lines.push("limits:".to_owned());
        lines.extend(fields);
    }
    lines
}

/// Whether a rule is one by which this passed.
fn speaks_of(rule: &Rule, entry: &DraftEntry) -> bool {
    let target = match (&rule.target, &entry.target) {
        (Target::Names(pattern), DraftTarget::Host(host)) => {
            HostPattern::parse(host).is_ok_and(|host| pattern.covers(&host))
        }
        (Target::Addresses(net), DraftTarget::Ip(ip)) => ip
            .parse()
            .is_ok_and(|ip: std::net::IpAddr| net.contains(&ip)),
        (Target::Names(_), DraftTarget::Ip(_)) | (Target::Addresses(_), DraftTarget::Host(_)) => {
            false
        }
    };
    let mut ports = rule.ports.iter();
    target && ports.any(|port| entry.ports.contains(&port.port))
}

/// It ends with the first of them; where one of them lasts, which of them let it pass is not known.
fn expiry(theirs: &[&Rule], entry: &mut DraftEntry, notes: &mut Vec<String>) {
    let mut ends = theirs.iter().filter_map(|rule| rule.expires);
    if theirs.iter().all(|rule| rule.expires.is_some()) {
        entry.expires = ends.min();
    } else if let Some(end) = ends.next() {
        notes.push(format!(
            "{}: one of the rules for it ends ({end}), and another does not: `expires` is not carried over, so look \
             whether all of this is to last",
            entry.target.text()
        ));
    }
}

fn unopened(theirs: &[&Rule], entry: &mut DraftEntry, notes: &mut Vec<String>) {
    if entry.passthrough {
        return;
    }
    let is_unopened = |rule: &&Rule| rule.handling == Handling::Passthrough;
    let fits = entry.rules.is_none() && entry.secrets.is_empty();
    let fits = fits && matches!(entry.protocol, None | Some("https"));
    if fits && theirs.iter().all(is_unopened) {
        entry.passthrough = true;
        entry.protocol = None;
    } else if theirs.iter().any(is_unopened) {
        notes.push(format!(
            "{}: `tls: passthrough` is not carried over: what is spoken there is looked into",
            entry.target.text()
        ));
    }
}

/// Where in the request each may stand.
fn secrets(theirs: &[&Rule], entry: &mut DraftEntry, notes: &mut Vec<String>) {
    let target = entry.target.text().to_owned();
    for secret in &mut entry.secrets {
        let grants = theirs.iter().flat_map(|rule| rule.secrets.iter());
        let grants = grants.filter(|grant| !grant.captures && grant.name.as_str() == secret.name);
        let mut everywhere = false;
        for grant in grants {
            match &grant.places {
                Some(places) => secret.places.extend(places.iter().map(ToString::to_string)),
                None => everywhere = true,
            }
            if grant.entrusted && !secret.entrusted {
                notes.push(format!(
                    "{target}: that the program may hold the value of {} is not carried over",
                    grant.name
                ));
            }
        }
        if everywhere {
            secret.places.clear();
        }
        secret.places.sort_unstable();
        secret.places.dedup();
    }
    let grants = theirs.iter().flat_map(|rule| rule.secrets.iter());
    let mut captured: Vec<_> = grants.filter(|grant| grant.captures).collect();
    captured.dedup_by(|a, b| a.name == b.name);
    notes.extend(captured.into_iter().map(|grant| {
        format!(
            "{target}: that tokens in its answers become {} is not carried over",
            grant.name
        )
    }));
}
