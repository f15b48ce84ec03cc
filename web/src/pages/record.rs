//! One record: what it says, its place in the chain, and what would let it pass.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use gig_audit::{Event, row::Row};
use gig_policy::DenyReason;

use super::{
    Answer, Frame, Path, allow_levels, in_query,
    records::{ONCE, RecordRow, at_rule, cut, is_held, lead_nowhere_unbegun, lookalike, rule_link},
    scripted, shown,
};
use crate::{
    allow::{address, can_be_allowed, has_path, method_alone},
    api::{
        audit,
        audit_chain::{self, ChainView, NeighbourView},
    },
    api_error::Problem,
    app::App,
    auth::Caller,
    document,
    remedy::{NoRule, Passing, Remedies, Remedy},
    role::Permission,
    store::StoreError,
};

#[derive(Template)]
#[template(path = "record.html")]
struct RecordPage {
    frame: Frame,
    id: String,
    record: RecordRow,
    /// Rules that would let it pass: where to click, and the words.
    offers: Vec<(String, &'static str)>,
    /// The floor that denies it now; empty: none.
    floor: String,
    /// Every document that does.
    levels: String,
    /// What is offered goes into all of them.
    several: bool,
    /// Where the version that decided stands, and the words.
    decided: Option<(String, &'static str)>,
    /// The rule by which it would pass now: where it stands, the words, and when it would be denied again, where it would.
    passes: Option<(String, String, String)>,
    /// What lacks for who looks, where nothing is offered; empty: nothing.
    lacks: String,
    /// Whether it waits for somebody's answer still.
    waits: bool,
    facts: Vec<Fact>,
    /// What the reason says, in a sentence.
    meaning: &'static str,
    /// What else belongs to it: the query, and the words.
    same: Vec<(String, &'static str)>,
    line: String,
    chain: ChainView,
}

/// A field of a record.
struct Fact {
    name: &'static str,
    value: String,
    /// Its page; empty where it has none for who looks.
    link: String,
}

impl RecordPage {
    /// Where the floor is looked at.
    fn floor_link(&self) -> String {
        format!("/policies/{}", in_query(&self.floor))
    }

    /// What stands on either side.
    fn neighbours(&self) -> [(&'static str, Option<&NeighbourView>); 2] {
        [
            ("The one before", self.chain.before.as_ref()),
            ("The one behind", self.chain.behind.as_ref()),
        ]
    }
}

/// `GET /audit/{id}`.
pub(crate) async fn show(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    let found = audit::record(&app, &caller, &id).await?;
    let row = &found.row;
    let Cure {
        remedy,
        floor,
        levels,
        passes,
    } = cure(&app, row).await?;
    let remedy = remedy.or_else(|| in_floor(&caller, floor.as_deref()));
    let lacks = lacks(&caller, row, remedy.as_ref());
    let several = levels.len() > 1 && allow_levels::may(&caller);
    let offers = match several {
        true => widths(row, |width| format!("/audit/{id}/allow?width={width}")),
        false => remedy
            .map(|remedy| offers(&caller, row, (&id, &remedy)))
            .map(|offers| match &passes {
                // For an hour it may pass as it is.
                Some(_) => for_ever(offers),
                None => offers,
            })
            .unwrap_or_default(),
    };
    let offers_none = offers.is_empty();
    let server = row.server.clone().filter(|name| caller.reaches(name));
    let server = match server {
        // Others have gone since.
        Some(name) => app.ask(move |store| store.server(&name)).await?,
        None => None,
    };
    let mut record = RecordRow::of(&caller, &found);
    lead_nowhere_unbegun(&app, std::slice::from_mut(&mut record)).await?;
    let facts = linked(facts(row), row, (&record.sandbox, server.is_some()));
    let waits = is_held(row) && waits(&app, row).await?;
    let page = RecordPage {
        chain: audit_chain::of(&app, &caller, &id).await?,
        frame: Frame::new(&caller, "/audit"),
        record,
        offers,
        levels: levels.join(" and "),
        floor: floor.unwrap_or_default(),
        decided: decided(row),
        facts,
        meaning: reason(row).map_or("", DenyReason::meaning),
        several,
        passes: passes.map(|one| {
            let Passing {
                policy,
                version,
                rule,
                until,
            } = &one;
            let words = format!("{rule} of policy {policy}, version {version}");
            let until = until.map_or_else(String::new, |end| end.to_string());
            (at_rule(policy, *version, rule), words, until)
        }),
        lacks: if offers_none { lacks } else { String::new() },
        waits,
        same: same(row),
        line: found.line,
        id,
    };
    Ok(scripted(shown(&page)))
}

/// Its facts, each with its page where that is there for who looks.
fn linked(mut facts: Vec<Fact>, row: &Row, (sandbox, server): (&str, bool)) -> Vec<Fact> {
    for fact in &mut facts {
        let of = |place: &str| format!("{place}{}", in_query(&fact.value));
        fact.link = match fact.name {
            SANDBOX if !sandbox.is_empty() => format!("/sandboxes/{}", in_query(sandbox)),
            SERVER if server => of("/servers/"),
            POLICY if row.policy_version.is_some_and(|version| version > 0) => of("/policies/"),
            RULE => rule_link(row),
            HOST => of("/audit?host="),
            // Of several, each is on the list.
            SECRETS if row.secrets.len() == 1 => of("/secrets/"),
            SECRETS => "/secrets".to_owned(),
            PERSON => of("/audit?profile="),
            REQUEST => of("/audit?request="),
            _ => String::new(),
        };
    }
    facts
}

/// Whether that request waits still.
async fn waits(app: &App, row: &Row) -> Result<bool, Problem> {
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await?;
    let request = row.request.as_deref();
    Ok(held
        .iter()
        .any(|one| !one.lost && Some(one.id.as_str()) == request))
}

/// Why who looks is offered nothing; empty where nothing could be, or everything is said.
fn lacks(caller: &Caller, row: &Row, remedy: Option<&Remedy>) -> String {
    let denied = row.verdict.as_deref() == Some("deny");
    if denied && reason(row) == Some(DenyReason::SecretMisuse) {
        return format!("{}.", NoRule::Secret);
    }
    let Some(remedy) = remedy else {
        return String::new();
    };
    let policy = &remedy.policy;
    match &remedy.assign {
        Some(server) => format!(
            "nothing is in force for server {server}: whoever may write policies and put them in force lets it pass.",
        ),
        None if !caller.may(Permission::EditPolicies) => format!(
            "a rule in policy {policy} would let it pass: whoever may write policies adds it from this page.",
        ),
        None => String::new(),
    }
}

/// Its request, its connection, its sandbox: numbers of connections are a sandbox's own.
fn same(row: &Row) -> Vec<(String, &'static str)> {
    let sandbox = row.sandbox.as_deref().map(in_query);
    let conn = row.conn.zip(sandbox.as_ref());
    let request = row.request.as_deref().map(in_query);
    let all = [
        request.map(|id| (format!("request={id}"), "Everything of the same request")),
        conn.map(|(conn, sandbox)| {
            let query = format!("sandbox={sandbox}&conn={conn}");
            (query, "Everything of the same connection")
        }),
        sandbox.map(|id| (format!("sandbox={id}"), "Everything of the same sandbox")),
    ];
    all.into_iter().flatten().collect()
}

/// One click to the version that decided, at its rule.
fn decided(row: &Row) -> Option<(String, &'static str)> {
    let words = match (row.verdict.as_deref(), row.rule.as_deref()) {
        _ if is_held(row) => "The policy that asked",
        (_, Some(rule)) if rule.starts_with(ONCE) => "Who let it pass",
        (Some("allow"), _) => "The rule that let it pass",
        _ => "The rule that came nearest",
    };
    let version = row.policy.as_deref().zip(row.policy_version);
    let version = version.filter(|(_, version)| *version > 0);
    let version = version.map(|(policy, version)| {
        let policy = in_query(policy);
        format!("/policies/{policy}/versions/{version}")
    });
    if let Some((limit, version)) = limit(row).zip(version.as_ref()) {
        let link = format!("{version}?rule={limit}#rule");
        return Some((link, "The limit that it was over"));
    }
    let link = rule_link(row);
    if !link.is_empty() {
        return Some((link, words));
    }
    let version = version?;
    Some(match row.event == Event::PolicyChange.as_str() {
        true => (format!("{version}#changed"), "What this version changed"),
        false => (version, "The policy's version that decided"),
    })
}

fn reason(row: &Row) -> Option<DenyReason> {
    DenyReason::of_word(row.reason.as_deref()?)
}

/// The limit for which it was denied, as documents call it.
fn limit(row: &Row) -> Option<&'static str> {
    match reason(row)? {
        DenyReason::RequestRate => Some("limits.requests_per_minute"),
        DenyReason::ConnectionLimit => Some("limits.connections"),
        DenyReason::RequestBodyLimit => Some("limits.request_body"),
        DenyReason::UploadLimit => Some("limits.upload_per_hour"),
        _ => None,
    }
}

/// What would let a record pass now.
#[derive(Default)]
struct Cure {
    /// Where a rule goes.
    remedy: Option<Remedy>,
    /// The floor beneath which no rule helps.
    floor: Option<String>,
    /// Where a floor denies it, every document that does.
    levels: Vec<String>,
    /// What lets it pass already.
    passes: Option<Passing>,
}

async fn cure(app: &Arc<App>, row: &Row) -> Result<Cure, Problem> {
    if !can_be_allowed(row) {
        return Ok(Cure::default());
    }
    let (theirs, row) = (Arc::clone(app), row.clone());
    let found = app.aside(move || {
        let now = document::moment(theirs.now());
        let mut remedies = Remedies::read(theirs.store.as_ref(), now)?;
        let floor = remedies.floor(&row)?;
        Ok::<_, StoreError>(Cure {
            levels: match floor {
                Some(_) => remedies.levels(&row)?,
                None => Vec::new(),
            },
            floor,
            passes: remedies.passes(&row)?,
            remedy: remedies.for_ever(&row)?,
        })
    });
    found.await?.map_err(Problem::internal)
}

/// The rule goes into the floor itself, for who may say what floors allow.
fn in_floor(caller: &Caller, floor: Option<&str>) -> Option<Remedy> {
    let floor = floor.filter(|_| caller.may(Permission::SetFloors))?;
    Some(Remedy {
        policy: floor.to_owned(),
        assign: None,
    })
}

/// One click to the editor with the rule in it; the second saves it.
pub(super) fn offers(
    caller: &Caller,
    row: &Row,
    (id, remedy): (&str, &Remedy),
) -> Vec<(String, &'static str)> {
    if !caller.may(Permission::EditPolicies) || !can_be_allowed(row) {
        return Vec::new();
    }
    let assign = match &remedy.assign {
        Some(_) if !caller.may(Permission::AssignPolicies) => return Vec::new(),
        Some(server) => format!("&assign={}", in_query(server)),
        None => String::new(),
    };
    let edit = |width: &str| {
        let (policy, id) = (in_query(&remedy.policy), in_query(id));
        format!("/policies/{policy}/edit?record={id}&width={width}{assign}")
    };
    widths(row, edit)
}

/// Of these, what is for ever.
fn for_ever(mut offers: Vec<(String, &'static str)>) -> Vec<(String, &'static str)> {
    offers.retain(|(to, _)| !to.ends_with(AN_HOUR));
    offers
}

/// What can be opened of a record, each for ever and for an hour: where to click, and the words.
fn widths(row: &Row, edit: impl Fn(&str) -> String) -> Vec<(String, &'static str)> {
    let hour = |width: &str| format!("{}{AN_HOUR}", edit(width));
    let mut offers = Vec::new();
    if has_path(row) {
        offers.push((edit("path"), "Allow this path"));
        offers.push((hour("path"), "This path for an hour"));
    }
    let (ever, an_hour) = match (address(row), method_alone(row)) {
        (Some(_), _) => ("Open its address for this host", "Its address for an hour"),
        (None, Some(_)) => ("Allow this method of this host", "This method for an hour"),
        (None, None) => ("Allow this host", "This host for an hour"),
    };
    offers.push((edit("host"), ever));
    offers.push((hour("host"), an_hour));
    offers
}

fn facts(row: &Row) -> Vec<Fact> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let number = |number: Option<u64>| number.map(|n| n.to_string()).unwrap_or_default();
    let tls = row.tls.clone().unwrap_or_default();
    let all = [
        ("Time (UTC)", row.time.clone()),
        ("Machine", row.node.clone()),
        ("What was done", text(&row.deed)),
        ("To what", text(&row.subject)),
        (SANDBOX, text(&row.sandbox)),
        (SERVER, text(&row.server)),
        (PERSON, text(&row.profile)),
        (POLICY, text(&row.policy)),
        ("Policy's version", number(row.policy_version)),
        (RULE, text(&row.rule)),
        ("Reason", text(&row.reason)),
        (HOST, text(&row.host)),
        ("Looks like another", lookalike(row.host.as_deref())),
        ("Port", number(row.port.map(u64::from))),
        ("Address dialled", text(&row.dst_ip)),
        ("From", text(&row.src)),
        ("Protocol", text(&row.protocol)),
        (
            "TLS",
            [tls.version, tls.alpn, tls.sni]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(", "),
        ),
        ("Method", text(&row.method)),
        ("Path", text(&row.path)),
        ("Status", number(row.status.map(u64::from))),
        ("Octets out", number(row.bytes_out)),
        ("Octets in", number(row.bytes_in)),
        ("Milliseconds", number(row.duration_ms)),
        (SECRETS, row.secrets.join(", ")),
        ("Connection", number(row.conn)),
        (REQUEST, text(&row.request)),
        ("Place in the chain", row.seq.to_string()),
    ];
    // A row each: a reason that somebody gave is not taken for what gig found.
    let findings = row.findings.iter().map(|one| ("Finding", one.clone()));
    let said = all.into_iter().chain(findings);
    let said = said.filter(|(_, value)| !value.is_empty());
    let fact = |(name, value): (&'static str, String)| Fact {
        name,
        value: cut(&value, 2000),
        link: String::new(),
    };
    said.map(fact).collect()
}

/// What ends a place where a rule is offered for an hour.
const AN_HOUR: &str = "&for=hour";
const SANDBOX: &str = "Sandbox";
const SERVER: &str = "Server";
const PERSON: &str = "User or profile";
const POLICY: &str = "Policy";
const RULE: &str = "Rule";
const HOST: &str = "Host";
const SECRETS: &str = "Secrets";
const REQUEST: &str = "Request";
