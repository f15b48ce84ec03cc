//! An appliance with something of each kind in it, asked as a connection asks it.

use std::{sync::Arc, time::Duration};

use axum::body::{Body, to_bytes};
use gig_audit::{Entry, Event, Recorder, RecorderSettings, SqliteStore, VerdictWord};
use gig_policy::{DenyReason, SandboxId};
use http::{HeaderMap, Request};
use jiff::SignedDuration;
use serde_json::Value;
use tower::ServiceExt as _;

use crate::{
    app::tests::{Lab, owner, registered, saved},
    connections::Peer,
    credential::{Digest, mint_token},
    narrowing::Narrowing,
    role::Role,
    router::router,
    secrets::{Described, SecretChange, SecretDoing, Secrets as _},
    store::{
        Actor, Change, HeldFacts, HeldRow, Place, ServerKind, ServerSpec, Store as _, WebhookKind,
    },
};

/// Server `docs` under policy `p` (two versions), which runs for ana; the foreign server `box`; `idle`, whose floor is policy
/// `base`; `spare` is used by nobody. Users ana, dan (admins), ben (editor, with a second factor) and cem (approver),
/// each with a password of their own; ana is signed in. Team `data`, webhook `ops`, search `s1`, token `spare`, secret
/// `MAIL_TOKEN`, the request `h1` that waits, and the record of a denial.
pub(super) struct Furnished {
    pub(super) lab: Lab,
    /// The id of what runs.
    pub(super) sandbox: String,
    /// The id of the denial.
    pub(super) record: String,
}

/// What was answered.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ask<'a> {
    /// `GET /api/v1/me`.
    pub(super) what: &'a str,
    pub(super) token: &'a str,
    pub(super) body: Option<&'a str>,
    pub(super) field: Option<(&'a str, &'a str)>,
}

impl Ask<'_> {
    /// By nobody yet.
    pub(super) fn of(what: &str) -> Ask<'_> {
        Ask {
            what,
            ..Ask::default()
        }
    }
}

impl Furnished {
    pub(super) async fn new() -> Self {
        let lab = Lab::with(&["docs"]);
        lab.control.gate.add_permits(100);
        people(&lab);
        for change in things() {
            lab.make(&change);
        }
        let value = "a value".to_owned().into();
        let secret = SecretChange {
            name: "MAIL_TOKEN".to_owned(),
            doing: SecretDoing::Add {
                value,
                described: Described::Kind("static".to_owned()),
                expires: None,
            },
        };
        lab.secrets.change(&secret, Arc::new(|_| Ok(()))).unwrap();
        lab.outbound.json(WEBHOOK, &Value::Null);
        let sandbox = lab.control.run("docs", "p").id.to_string();
        put_held(&lab, "h1", (&sandbox, "ana"), Some("/x"));
        let record = denied(&lab, &sandbox).await;
        Self {
            lab,
            sandbox,
            record,
        }
    }

    /// With the two-person rule, and what ben (1) and dan (2) proposed under it.
    pub(super) async fn ruled() -> Self {
        let made = Self::new().await;
        made.lab.make(&Change::TwoPersonRule { on: true });
        for (who, name) in [("ben", "p"), ("dan", "spare")] {
            let (store, change) = (&made.lab.store, saved(name));
            store.apply(&change, &by(who), &|_| Ok(())).unwrap();
        }
        made
    }

    /// A token of this role that `person` made, narrowed.
    pub(super) fn token(
        &self,
        person: &str,
        role: Role,
        (scopes, servers): (&str, &str),
    ) -> String {
        let minted = mint_token().unwrap();
        let change = Change::AddToken {
            name: format!("t{}", minted.id).parse().unwrap(),
            id: minted.id,
            digest: minted.digest,
            role,
            narrowing: Narrowing::kept(scopes, servers).unwrap(),
            expires: None,
        };
        let store = &self.lab.store;
        store.apply(&change, &by(person), &|_| Ok(())).unwrap();
        minted.text.to_string()
    }

    /// One more request of ana's waits; a connection where there is no path.
    pub(super) fn put_held(&self, id: &str, path: Option<&str>) {
        put_held(&self.lab, id, (&self.sandbox, "ana"), path);
    }

    /// These are in the record, too.
    pub(super) async fn record(&self, entries: impl IntoIterator<Item = Entry>) {
        recorded(&self.lab, entries).await;
    }

    /// So many hosts more were denied, some of them by a person.
    pub(super) async fn denied_hosts(&self, count: u32, is_by_person: impl Fn(u32) -> bool) {
        let one = |number| {
            let host = format!("n{number}.example");
            let mut entry = denial(&self.sandbox, ("ana", &host, "/x"));
            if is_by_person(number) {
                entry.findings = vec!["held".into(), "denied_by:ana".into()];
            }
            entry
        };
        self.record((0..count).map(one)).await;
    }

    /// `text` with the ids that are not known before.
    pub(super) fn filled(&self, text: &str) -> String {
        let text = text.replace("{sandbox}", &self.sandbox);
        text.replace("{record}", &self.record)
    }

    /// What is answered; of what goes on for ever no body.
    pub(super) async fn ask(&self, ask: Ask<'_>) -> Answer {
        let token = format!("Bearer {}", ask.token);
        let mut fields = vec![
            ("authorization", token.as_str()),
            ("content-type", "application/json"),
        ];
        fields.extend(ask.field);
        self.send(ask.what, &fields, ask.body.unwrap_or_default())
            .await
    }

    /// What a browser with this cookie is answered.
    pub(super) async fn page(&self, what: &str, cookie: &str) -> Answer {
        let fields = [
            ("cookie", cookie),
            ("origin", "http://127.0.0.1"),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        self.send(what, &fields, "").await
    }

    /// What is answered to these fields and this body.
    pub(super) async fn send(&self, what: &str, fields: &[(&str, &str)], body: &str) -> Answer {
        let what = self.filled(what);
        let (method, path) = what.split_once(' ').unwrap();
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header("host", "127.0.0.1")
            .extension(Peer::Network(([192, 0, 2, 1], 7).into()));
        for (name, value) in fields {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(self.filled(body))).unwrap();
        let router = router(Arc::clone(&self.lab.app));
        let answer = router.oneshot(request).await.unwrap();
        let (parts, body) = answer.into_parts();
        let goes_on = path.starts_with("/api/v1/events") && parts.status.is_success();
        let octets = match goes_on {
            true => Default::default(),
            false => to_bytes(body, 1 << 20).await.unwrap(),
        };
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            body: String::from_utf8_lossy(&octets).into_owned(),
        }
    }
}

/// Somebody, at this moment.
pub(super) fn by(person: &str) -> Actor {
    Actor {
        name: person.into(),
        person: Some(person.into()),
        owner: false,
        ..owner()
    }
}

fn people(lab: &Lab) {
    let users = [
        ("ana", Role::Admin),
        ("ben", Role::Editor),
        ("cem", Role::Approver),
        ("dan", Role::Admin),
    ];
    let own = |change: &Change, name: &str| {
        lab.store.apply(change, &by(name), &|_| Ok(())).unwrap();
    };
    for (name, role) in users {
        lab.make(&Change::AddUser {
            name: name.parse().unwrap(),
            role,
            password: "first".to_owned(),
        });
        let change = Change::SetPassword {
            name: name.to_owned(),
            password: "own".to_owned(),
            end_tokens: false,
            code: None,
        };
        own(&change, name);
    }
    let factor = Change::SetFactor {
        name: "ben".to_owned(),
        password: "own".to_owned(),
        sealed: vec![1],
        since: owner().at,
        step: 1,
        codes: Vec::new(),
    };
    own(&factor, "ben");
    let session = Change::StartSession {
        id: "sess1".to_owned(),
        digest: Digest::of("a cookie"),
        user: "ana".to_owned(),
        password: "own".to_owned(),
        code: None,
        expires: owner().at + SignedDuration::from_hours(1),
        agent: "a browser".to_owned(),
    };
    own(&session, "ana");
}

fn things() -> Vec<Change> {
    vec![
        saved("p"),
        saved("base"),
        saved("spare"),
        registered("idle", "/bin/true"),
        Change::SetFloor {
            place: Place::Server("idle".to_owned()),
            policy: Some("base".to_owned()),
            expected: None,
        },
        Change::SaveServer {
            name: "box".parse().unwrap(),
            spec: ServerSpec {
                kind: ServerKind::Foreign,
                ..ServerSpec::default()
            },
            new: true,
            expected: None,
        },
        Change::SaveTeam {
            name: "data".parse().unwrap(),
            members: vec!["ana".to_owned()],
            expected: None,
        },
        Change::SaveWebhook {
            name: "ops".parse().unwrap(),
            kind: WebhookKind::Generic,
            url: WEBHOOK.to_owned(),
            answerers: vec!["ana".to_owned()],
            rules: false,
            new: false,
        },
        Change::SaveSearch {
            id: "s1".to_owned(),
            title: "denials".to_owned(),
            query: "verdict=deny".to_owned(),
        },
        Change::AddToken {
            id: "spare".to_owned(),
            digest: Digest::of("nobody's"),
            name: "spare".parse().unwrap(),
            role: Role::Viewer,
            narrowing: Narrowing::default(),
            expires: None,
        },
    ]
}

/// A request of this sandbox waits.
fn put_held(lab: &Lab, id: &str, (sandbox, profile): (&str, &str), path: Option<&str>) {
    let created = lab.app.now();
    let row = HeldRow {
        id: id.to_owned(),
        node: "lab".to_owned(),
        facts: HeldFacts {
            sandbox: sandbox.to_owned(),
            server: "docs".to_owned(),
            profile: profile.to_owned(),
            started_by: Vec::new(),
            host: "new.example".to_owned(),
            port: 443,
            protocol: "https".to_owned(),
            method: path.map(|_| "GET".to_owned()),
            path: path.map(str::to_owned),
            policy: "p".to_owned(),
            policy_version: 2,
            reason: "host_not_allowed".to_owned(),
        },
        created,
        expires: created + SignedDuration::from_mins(5),
        lost: false,
    };
    lab.store.put_held(&[row]).unwrap();
    // However long a test takes.
    lab.store.held_seen(None);
}

/// What server docs did for this profile.
fn entry(sandbox: &str, profile: &str, event: Event) -> Entry {
    let mut entry = Entry::new(event);
    entry.sandbox = Some(SandboxId::new(sandbox.parse().unwrap()));
    entry.server = Some("docs".into());
    entry.profile = Some(profile.into());
    entry
}

/// That it was denied this path of this host.
pub(super) fn denial(sandbox: &str, (profile, host, path): (&str, &str, &str)) -> Entry {
    let mut entry = entry(sandbox, profile, Event::Request);
    entry.host = Some(host.into());
    entry.port = Some(443);
    entry.protocol = Some("https".into());
    entry.method = Some("GET".into());
    entry.path = Some(path.into());
    entry.policy = Some("p".into());
    entry.policy_version = Some(2);
    entry.verdict = Some(VerdictWord::Deny);
    entry.reason = Some(DenyReason::HostNotAllowed);
    entry
}

/// Puts these in the record.
async fn recorded(lab: &Lab, entries: impl IntoIterator<Item = Entry>) {
    let store = SqliteStore::open(&lab.record(), "here").unwrap();
    let settings = RecorderSettings::new("here");
    let (recorder, owner) = Recorder::start(Box::new(store), settings).unwrap();
    for entry in entries {
        recorder.record(entry).await.unwrap();
    }
    drop(recorder);
    owner.close(Duration::from_secs(5));
}

/// Records that this sandbox was denied something; the record's id.
async fn denied(lab: &Lab, sandbox: &str) -> String {
    let started = entry(sandbox, "ana", Event::SandboxStart);
    let denied = denial(sandbox, ("ana", "new.example", "/x"));
    recorded(lab, [started, denied]).await;
    let page = lab.app.search(gig_audit::search::Query {
        filter: gig_audit::search::Filter::default(),
        before: None,
        limit: 1,
    });
    let found = page.await.unwrap().records.remove(0);
    crate::api::audit::id(&found)
}

/// Where webhook `ops` is.
const WEBHOOK: &str = "https://hooks.example/x";
