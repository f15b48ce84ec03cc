//! The record: searched, and one record with what would have let it pass.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, http::StatusCode};
use gig_audit::{Event, row::Row};
use gig_policy::DenyReason;

use super::{
    Answer, Form, Frame, InAddress, PageProblem, Path, allow_levels, in_query,
    records::{ONCE, RecordRow, cut, lead_nowhere_unbegun, lookalike, rows_of_all, rule_link},
    shown, shown_as, to,
};
use crate::{
    allow::{address, can_be_allowed, has_path, method_alone},
    api::{
        audit::{self, AuditAsked},
        audit_chain::{self, ChainView, NeighbourView},
        searches::{self, NewSearch, SearchView},
    },
    api_error::{AnswerStatus, Problem},
    app::App,
    auth::Caller,
    document,
    remedy::{Remedies, Remedy},
    role::Permission,
    store::StoreError,
};

#[derive(Template)]
#[template(path = "audit.html")]
struct AuditPage {
    frame: Frame,
    asked: AuditAsked,
    verdicts: [(&'static str, &'static str); 4],
    events: Vec<&'static str>,
    reasons: Vec<&'static str>,
    problem: String,
    denials: Vec<RecordRow>,
    /// The query of the next page.
    older: String,
    /// The same without a place to begin, for what is exported.
    these: String,
    exports: [(&'static str, &'static str); 3],
    /// Searches that are kept.
    saved: Vec<SearchView>,
}

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

impl AuditPage {
    /// Whether this caller may remove it.
    fn is_theirs(&self, saved: &SearchView) -> bool {
        saved.author == *self.frame.name || self.frame.may_people()
    }

    /// Whether an option is the one that was asked for.
    fn is(&self, asked: &str, value: &str) -> bool {
        asked == value
    }
}

/// `GET /audit`.
pub(crate) async fn search(
    State(app): State<Arc<App>>,
    caller: Caller,
    asked: Result<InAddress<AuditAsked>, PageProblem>,
) -> Answer {
    caller.require(Permission::ReadAudit)?;
    // What is wrong with a search is told beside the form that mends it.
    let (asked, found) = match asked {
        Ok(InAddress(asked)) => {
            let found = audit::find(&app, &caller, &asked).await;
            (asked, found)
        }
        Err(PageProblem(problem)) => (AuditAsked::default(), Err(problem)),
    };
    let (records, next, status, problem) = match found {
        Ok(page) => (page.records, page.next, AnswerStatus::OK, String::new()),
        Err(problem) if problem.status() == StatusCode::BAD_REQUEST => {
            (Vec::new(), None, problem.answer_status(), problem.detail)
        }
        Err(problem) => return Err(problem.into()),
    };
    let these = query(&asked, "");
    let older = next.map(|next| query(&asked, &next.to_string()));
    let reasons = DenyReason::ALL.iter().map(|reason| reason.as_str());
    let page = AuditPage {
        frame: Frame::new(&caller, "/audit"),
        asked,
        verdicts: VERDICTS,
        events: std::iter::once("").chain(audit::asked_events()).collect(),
        reasons: std::iter::once("").chain(reasons).collect(),
        problem,
        denials: rows_of_all(&app, &caller, &records).await?,
        older: older.unwrap_or_default(),
        these,
        exports: EXPORTS,
        saved: searches::kept(&app).await?,
    };
    Ok(shown_as(status, &page))
}

/// `POST /searches`: then what was kept is shown.
pub(crate) async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Form(new): Form<NewSearch>,
) -> Answer {
    let made = searches::save(&app, &caller, &new).await?;
    Ok(to(&format!("/audit?{}", made.query)))
}

/// `POST /searches/{id}/remove`.
pub(crate) async fn forget(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path(id): Path<String>,
) -> Answer {
    searches::forget(&app, &caller, id).await?;
    Ok(to("/audit"))
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
    } = cure(&app, row).await?;
    let remedy = remedy.or_else(|| in_floor(&caller, floor.as_deref()));
    let several = levels.len() > 1 && allow_levels::may(&caller);
    let offers = match several {
        true => widths(row, |width| format!("/audit/{id}/allow?width={width}")),
        false => remedy
            .map(|remedy| offers(&caller, row, (&id, &remedy)))
            .unwrap_or_default(),
    };
    let server = row.server.clone().filter(|name| caller.reaches(name));
    let server = match server {
        // Others have gone since.
        Some(name) => app.ask(move |store| store.server(&name)).await?,
        None => None,
    };
    let mut record = RecordRow::of(&caller, &found);
    lead_nowhere_unbegun(&app, std::slice::from_mut(&mut record)).await?;
    let mut facts = facts(row);
    for fact in &mut facts {
        let of = |place: &str| format!("{place}{}", in_query(&fact.value));
        fact.link = match fact.name {
            SANDBOX if !record.sandbox.is_empty() => {
                format!("/sandboxes/{}", in_query(&record.sandbox))
            }
            SERVER if server.is_some() => of("/servers/"),
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
        same: same(row),
        line: found.line,
        id,
    };
    Ok(shown(&page))
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
    let reason = row.reason.as_deref()?;
    let mut known = DenyReason::ALL.iter().copied();
    known.find(|known| known.as_str() == reason)
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
            remedy: remedies.of(&row)?,
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

/// What can be opened of a record, each for ever and for an hour: where to click, and the words.
fn widths(row: &Row, edit: impl Fn(&str) -> String) -> Vec<(String, &'static str)> {
    let hour = |width: &str| format!("{}&for=hour", edit(width));
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

/// What was asked, from another place on.
pub(crate) fn query(asked: &AuditAsked, cursor: &str) -> String {
    let fields = [
        ("since", asked.since.as_str()),
        ("until", &asked.until),
        ("event", &asked.event),
        ("verdict", &asked.verdict),
        ("reason", &asked.reason),
        ("rule", &asked.rule),
        ("sandbox", &asked.sandbox),
        ("server", &asked.server),
        ("profile", &asked.profile),
        ("node", &asked.node),
        ("policy", &asked.policy),
        ("host", &asked.host),
        ("method", &asked.method),
        ("status", &asked.status),
        ("alarm", &asked.alarm),
        ("secret", &asked.secret),
        ("request", &asked.request),
        ("conn", &asked.conn),
        ("src", &asked.src),
        ("text", &asked.text),
        ("cursor", cursor),
    ];
    let set = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let pairs = set.map(|(name, value)| format!("{name}={}", in_query(value)));
    pairs.collect::<Vec<_>>().join("&")
}

const SANDBOX: &str = "Sandbox";
const SERVER: &str = "Server";
const PERSON: &str = "User or profile";
const POLICY: &str = "Policy";
const RULE: &str = "Rule";
const HOST: &str = "Host";
const SECRETS: &str = "Secrets";
const REQUEST: &str = "Request";
/// What is asked for, and the words.
pub(super) const VERDICTS: [(&str, &str); 4] = [
    ("", "any"),
    ("allow", "allowed"),
    ("deny", "denied"),
    ("would_deny", "would be denied"),
];
const EXPORTS: [(&str, &str); 3] = [("jsonl", "JSON lines"), ("csv", "CSV"), ("ocsf", "OCSF")];
