//! What a sandbox may reach: the rules in force for it, with what floors leave of them, and where its secrets
//! may go. Of one that has ended: what the version said that it had.

use std::sync::Arc;

use gig_policy::{Leaves, Listed, Policy, Reach, SecretUse};
use serde::Serialize;
use utoipa::ToSchema;

use super::Known;
use crate::{
    api_error::Problem,
    app::App,
    document::{self, compile},
    in_force::InForce,
    store::{Network, Store, StoreError},
};

/// What a sandbox may reach.
#[derive(Debug, Default, Serialize, ToSchema)]
pub(crate) struct ReachView {
    /// Whether it is what is in force now; else what was when it ended.
    pub(crate) now: bool,
    pub(crate) policy: String,
    pub(crate) policy_version: u64,
    /// What puts it in force.
    pub(crate) policy_by: String,
    /// `external`, `local` or `disconnected`; of one that another node has, as its server is registered now. Null
    /// where it has ended and only the record knows it, or its server is not registered any more.
    pub(crate) network: Option<&'static str>,
    /// Policies that bound it. Of one that has ended they are not known.
    pub(crate) floors: Vec<String>,
    /// Mode, limits and the like, of policy and floors the least.
    pub(crate) settings: Vec<SettingView>,
    /// At most 200.
    pub(crate) rules: Vec<RuleView>,
    /// How many rules there are.
    pub(crate) rules_total: usize,
}

/// One setting.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SettingView {
    pub(crate) name: &'static str,
    pub(crate) value: String,
}

/// One rule.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct RuleView {
    /// Where it stands: `egress[2]`.
    pub(crate) rule: String,
    /// What it says, in one line.
    pub(crate) says: String,
    /// What floors leave of it, in words; empty for all of it.
    pub(crate) bounds: Vec<String>,
}

/// Where a secret may go.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SecretReach {
    pub(crate) name: String,
    /// Hosts and ports, in words.
    pub(crate) places: Vec<String>,
}

/// Both, beside the runtime: a policy of a hundred thousand rules takes its time.
pub(super) async fn of(
    app: &Arc<App>,
    known: &Known,
) -> Result<(ReachView, Vec<SecretReach>), Problem> {
    let given = known.given.as_ref();
    let asked = Asked {
        there: known.is_there(),
        server: known.view.server.clone(),
        profile: known.view.profile.clone(),
        policy: known.view.policy.clone(),
        version: known.view.policy_version,
        by: known.view.policy_by.clone(),
        given: given.map(|given| (given.network, given.secrets.clone())),
    };
    let theirs = Arc::clone(app);
    let read = app.aside(move || {
        let now = document::moment(theirs.now());
        read(theirs.store.as_ref(), asked, now)
    });
    read.await?.map_err(Problem::internal)
}

/// Of which sandbox.
struct Asked {
    there: bool,
    server: String,
    profile: String,
    policy: String,
    version: u64,
    by: String,
    given: Option<(Network, Vec<String>)>,
}

fn read(
    store: &dyn Store,
    asked: Asked,
    now: gig_policy::Moment,
) -> Result<(ReachView, Vec<SecretReach>), StoreError> {
    let given = match asked.given {
        Some(given) => Some(given),
        // What is registered today says nothing of what one that has ended was given.
        None if !asked.there => None,
        None => {
            let server = store.server(&asked.server)?.map(|server| server.spec);
            server.map(|spec| (spec.network, spec.secrets))
        }
    };
    let network = given.as_ref().map(|(network, _)| *network);
    let (policy, by) = if asked.there {
        let ruling = InForce::read(store)?.of(&asked.server, &asked.profile)?;
        (ruling.policy.as_of(now), ruling.by.to_string())
    } else {
        let kept = match asked.version {
            0 => None,
            version => store.policy(&asked.policy, Some(version))?,
        };
        let reach = match network {
            Some(Network::Local) => Reach::Local,
            _ => Reach::External,
        };
        let compiled = kept.and_then(|kept| {
            compile(&asked.policy, asked.version, &kept.document, Some(reach)).ok()
        });
        let policy = compiled.unwrap_or_else(|| Policy::deny_all(&asked.policy));
        (policy, asked.by)
    };
    let named = given.map(|(_, secrets)| secrets).unwrap_or_else(|| {
        let names = policy.secret_names().into_iter();
        names.map(|name| name.to_string()).collect()
    });
    let secrets = named.into_iter().map(|name| secret(&policy, name));
    let secrets = secrets.collect();
    let settings = policy.settings().into_iter();
    let reference = policy.reference();
    let view = ReachView {
        now: asked.there,
        policy: reference.name.to_string(),
        policy_version: reference.version,
        policy_by: by,
        network: network.map(Network::as_str),
        floors: policy
            .floors()
            .iter()
            .map(|floor| floor.reference().name.to_string())
            .collect(),
        settings: settings
            .map(|(name, value)| SettingView { name, value })
            .collect(),
        rules: policy.listed(MOST).into_iter().map(Into::into).collect(),
        rules_total: policy.rule_count(),
    };
    Ok((view, secrets))
}

fn secret(policy: &Policy, name: String) -> SecretReach {
    let uses = name.parse().map(|name| policy.uses_of(&name));
    let words = |one: SecretUse| match (one.unplaced, one.captures, one.entrusted) {
        (true, ..) => format!(
            "{}, never put in: clear text alone is allowed there",
            one.target
        ),
        (_, true, _) => format!("{} (tokens in its answers become it)", one.target),
        (_, _, true) => format!("{} (the program may hold the value)", one.target),
        _ => one.target,
    };
    let uses = uses.unwrap_or_default().into_iter().map(words);
    SecretReach {
        name,
        places: uses.collect(),
    }
}

impl From<Listed> for RuleView {
    fn from(one: Listed) -> Self {
        let bounds = one.bounds.into_iter().map(|bound| match bound.leaves {
            Leaves::Part => format!("only what {} allows, too", bound.floor),
            Leaves::Nothing => format!("closed by {}", bound.floor),
        });
        Self {
            rule: one.rule,
            says: one.says,
            bounds: bounds.collect(),
        }
    }
}

/// As many as somebody reads; the policy itself has all.
const MOST: usize = 200;
