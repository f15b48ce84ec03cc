//! `gig secret test`: where a secret would be placed in a request, and why it would not be.
//!
//! The policy decides and the proxy's own code places; nothing is sent, fetched or recorded, and what is
//! shown holds the sentinel, never the value.

use anyhow::{Context, bail};
use gig_policy::{Explanation, GrantConsidered, Policy, Reach, SecretName, SecretPlace};
use gig_vault::Treatment;
use serde_json::json;

mod kept;
mod places;
mod unclosed;

use self::{
    kept::Kept,
    places::{Place, Stage},
};
use crate::{
    args::{run::ProfileArg, secret::SecretTestArgs},
    exit_status::ExitStatus,
    output::{self, printable},
    run::policy,
    secrets,
};

/// `gig secret test NAME --url URL`: 0 when the secret would be placed, 1 when not.
///
/// # Errors
/// When the policy, the URL or a field is not valid, or the vault cannot be read.
pub(crate) fn test(args: &SecretTestArgs) -> anyhow::Result<ExitStatus> {
    let name = super::name(&args.name)?;
    let policy = policy_of(args)?;
    let kept = Kept::find(&name, args)?;
    let report = Report::of(args, name, &policy, kept)?;
    let placed = report.lack.is_none();
    output::print(args.output.json, &report.document(), &report.text())?;
    Ok(if placed {
        ExitStatus::SUCCESS
    } else {
        ExitStatus::NO
    })
}

fn policy_of(args: &SecretTestArgs) -> anyhow::Result<Policy> {
    let mut builder = policy::rules(args.policy.as_deref(), &args.allow)?.builder;
    for binding in args.secret.iter().flat_map(|secret| &secret.bindings) {
        builder = builder.bind(binding.clone());
    }
    builder = builder.reach(match args.profile {
        ProfileArg::External => Reach::External,
        ProfileArg::Local => Reach::Local,
        ProfileArg::Disconnected => bail!("a disconnected sandbox sends no request"),
    });
    Ok(builder.build()?.as_of(crate::commands::policy::now()))
}

/// What came of it.
#[derive(Debug)]
struct Report {
    name: SecretName,
    kept: Kept,
    explanation: Explanation,
    grants: Vec<GrantConsidered>,
    sentinel: Option<String>,
    places: Vec<Place>,
    /// What is done instead of placing a value.
    treatment: Option<String>,
    /// Why it would not be placed.
    lack: Option<String>,
}

impl Report {
    fn of(
        args: &SecretTestArgs,
        name: SecretName,
        policy: &Policy,
        kept: Kept,
    ) -> anyhow::Result<Self> {
        let stage = Stage::new(&name, &kept, args)?;
        stage.refuse_misspelt()?;
        let url = stage.filled(&args.url);
        let asked = || format!("cannot decide on {:?}", args.url);
        let explanation = policy.explain(&args.method, &url).with_context(asked)?;
        let grants = policy
            .explain_secret(&name, &args.method, &url)
            .with_context(asked)?;
        let is_handed = kept.secret.entrusted && policy.entrusts(&name);
        let mut report = Self {
            lack: lack(&name, &kept, &explanation, &grants)
                .or_else(|| secrets::misplaced(&kept.secret, policy))
                .or_else(|| unentrusted(&kept, is_handed)),
            sentinel: stage.sentinel(),
            name,
            kept,
            explanation,
            grants,
            places: Vec::new(),
            treatment: None,
        };
        if report.lack.is_none() && is_handed {
            (report.sentinel, report.treatment) = (None, Some(HANDED_IN.to_owned()));
        } else if report.lack.is_none() {
            let shown = stage.act(policy, &report.explanation)?;
            report.lack = shown.lack;
            report.places = shown.places;
            report.treatment = shown.treatment;
            report.kept.notes.extend(report.hint());
            let unclosed = stage.unclosed().filter(|_| report.lack.is_none());
            report.kept.notes.extend(unclosed);
        }
        Ok(report)
    }

    /// Where it could be narrowed, if its value may stand anywhere.
    fn hint(&self) -> Option<String> {
        let mut grants = self.grants.iter().filter(|grant| grant.matches);
        let anywhere = grants.any(|grant| grant.anywhere);
        let placed = self.places.iter().find(|place| place.placed)?;
        let is_replaced = matches!(self.kept.secret.treatment, Treatment::Replace);
        (anywhere && is_replaced && self.treatment.is_none()).then(|| {
            // Of a request that was written out the place has no name.
            let place = match placed.place.parse::<SecretPlace>() {
                Ok(place) => format!("\"{place}\""),
                Err(_) => "…".to_owned(),
            };
            format!(
                "it may stand anywhere in the request, also in a body that the host shows to others; \
                 in a policy, `{{name: {}, in: [{place}]}}` keeps it to one place (header:NAME, cookie:NAME, \
                 query:NAME, basic, path or body)",
                self.name
            )
        })
    }

    fn document(&self) -> serde_json::Value {
        json!({
            "name": self.name.as_str(),
            "placed": self.lack.is_none(),
            "why": self.lack,
            "source": self.kept.source,
            "kind": self.kept.kind,
            "provider": self.kept.provider,
            "version": self.kept.version,
            "sentinel": self.sentinel,
            "places": self.places,
            "treatment": self.treatment,
            "grants": self.grants,
            "request": self.explanation,
            "notes": self.kept.notes,
        })
    }

    fn text(&self) -> String {
        let Self {
            name,
            kept,
            explanation,
            ..
        } = self;
        let mut lines = Vec::new();
        lines.push(match &self.lack {
            None if self.treatment.is_some() => format!("USED: {}", kept.shown(name)),
            None => format!("PLACED: {}", kept.shown(name)),
            Some(lack) => format!("NOT PLACED: {lack}"),
        });
        let Explanation {
            method,
            protocol,
            host,
            port,
            path,
            ..
        } = explanation;
        lines.push(format!(
            "  asked    {method} {protocol}://{host}:{port}{}",
            printable(path)
        ));
        let rule = explanation.rule.as_ref();
        let rule = rule.map_or_else(String::new, |rule| format!(", {rule}"));
        lines.push(format!("  policy   {}{rule}", explanation.policy));
        if let Some(treatment) = &self.treatment {
            lines.push(format!("  does     {treatment}"));
        }
        if let Some(sentinel) = self.sentinel.as_ref().filter(|_| !self.places.is_empty()) {
            lines.push(format!(
                "  sentinel {sentinel} (another one in each run; the value goes in its place)"
            ));
        }
        for place in &self.places {
            let mark = if place.placed { '+' } else { '-' };
            let shown = printable(&place.shown);
            lines.push(format!("  {mark} {}: {shown}", place.place));
        }
        for grant in &self.grants {
            let mark = if grant.matches { '+' } else { '-' };
            let line = grant.line;
            let line = line.map_or_else(String::new, |line| format!(" (line {line})"));
            let GrantConsidered {
                rule,
                target,
                grant,
                outcome,
                ..
            } = grant;
            lines.push(format!(
                "  {mark} {rule}{line} grants {} on {target}: {outcome}",
                printable(grant)
            ));
        }
        if let Some(hint) = explanation.hint.as_ref().filter(|_| !explanation.passes()) {
            lines.push(format!("  ask for  {}", printable(hint)));
        }
        for note in &kept.notes {
            lines.push(format!("  note     {note}"));
        }
        lines.join("\n")
    }
}

/// What `gig run` refuses to start with.
fn unentrusted(kept: &Kept, is_handed: bool) -> Option<String> {
    (kept.secret.entrusted && !is_handed).then(|| {
        "it is marked entrusted, and no rule entrusts it: gig run does not start with it".to_owned()
    })
}

/// Of a secret that has no sentinel.
const HANDED_IN: &str = "the program is handed the value and sends it itself; to hosts whose rules do not entrust it, it is \
                         stopped where it is seen";

/// Why the secret goes into no part of the request, as far as policy and vault say.
fn lack(
    name: &SecretName,
    kept: &Kept,
    explanation: &Explanation,
    grants: &[GrantConsidered],
) -> Option<String> {
    if let Some(unusable) = &kept.unusable {
        return Some(unusable.clone());
    }
    if !explanation.passes() {
        let said = explanation.to_string();
        let reason = said.lines().next().unwrap_or_default();
        let reason = reason.trim_start_matches("DENY ");
        return Some(format!("the request is denied ({reason})"));
    }
    if grants.iter().any(|grant| grant.matches) {
        return None;
    }
    Some(match grants {
        [] => format!(
            "nothing binds {name}: write --secret {name}@{host}, or name it under `secrets` of the \
             host's rule",
            host = explanation.host
        ),
        [only] => format!("{name} does not go there: {}", only.outcome),
        _ => format!("{name} does not go there: no rule grants it to this request"),
    })
}
