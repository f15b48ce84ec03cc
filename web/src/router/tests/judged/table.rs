//! The operations: where each is asked, with what, and what each role is answered.

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation {
    /// As the document has it.
    pub(super) what: &'static str,
    /// Of what is there.
    pub(super) at: &'static str,
    /// What it takes, whole.
    pub(super) body: Option<&'static str>,
    /// A field of the request.
    pub(super) field: Option<(&'static str, &'static str)>,
    /// Where policies are changed by two people.
    pub(super) two: bool,
    /// To viewer, auditor, editor, approver and admin.
    pub(super) answers: [u16; 5],
}

const fn read(what: &'static str, at: &'static str, answers: [u16; 5]) -> Operation {
    Operation {
        what,
        at,
        body: None,
        field: None,
        two: false,
        answers,
    }
}

const fn make(
    what: &'static str,
    at: &'static str,
    body: &'static str,
    answers: [u16; 5],
) -> Operation {
    Operation {
        body: Some(body),
        ..read(what, at, answers)
    }
}

impl Operation {
    const fn on(self, tag: &'static str) -> Self {
        Self {
            field: Some(("if-match", tag)),
            ..self
        }
    }

    const fn fresh(self) -> Self {
        Self {
            field: Some(("if-none-match", "*")),
            ..self
        }
    }

    const fn by_two(self) -> Self {
        Self { two: true, ..self }
    }
}

/// Whoever may, by what they are answered; everybody else is refused.
const fn all(status: u16) -> [u16; 5] {
    [status; 5]
}

/// Who reads the record.
const fn readers(status: u16) -> [u16; 5] {
    [403, status, status, status, status]
}

/// Who writes policies and runs sandboxes.
const fn editors(status: u16) -> [u16; 5] {
    [403, 403, status, 403, status]
}

/// Who puts policies in force, and answers what waits.
const fn deciders(status: u16) -> [u16; 5] {
    [403, 403, status, status, status]
}

/// Who approves what others propose.
const fn approvers(status: u16) -> [u16; 5] {
    [403, 403, 403, status, status]
}

const fn admins(status: u16) -> [u16; 5] {
    [403, 403, 403, 403, status]
}

const DOCUMENT: &str =
    r#"{"document": "version: 1\negress: []\n", "reason": "none", "server": "docs"}"#;
const SERVER: &str = r#"{"command": ["/bin/true"], "env": {"A": "b"}, "secrets": ["MAIL_TOKEN"], "network": "external",
    "source": {"kind": "folder", "content": "sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "from": "/srv/docs"}, "memory": 1000000000, "pids": 10, "cpu_millis": 500, "idle_seconds": 60, "read_only": []}"#;
const WHY: &str = r#"{"why": "seen"}"#;

pub(super) const OPERATIONS: &[Operation] = &[
    read("GET /healthz", "GET /healthz", all(200)),
    read("GET /readyz", "GET /readyz", all(200)),
    read("GET /api/v1/health", "GET /api/v1/health", all(200)),
    read("GET /api/v1/nodes", "GET /api/v1/nodes", all(200)),
    read("POST /api/v1/doctor", "POST /api/v1/doctor", admins(200)),
    read("GET /api/v1/me", "GET /api/v1/me", all(200)),
    read("GET /api/v1/sessions", "GET /api/v1/sessions", all(200)),
    // Others' are not there.
    read(
        "DELETE /api/v1/sessions/{id}",
        "DELETE /api/v1/sessions/sess1",
        [404, 404, 404, 404, 204],
    ),
    read("GET /api/v1/users", "GET /api/v1/users", admins(200)),
    make(
        "POST /api/v1/users",
        "POST /api/v1/users",
        r#"{"name": "eve", "role": "viewer", "password": "correct horse battery"}"#,
        admins(201),
    ),
    make(
        "PATCH /api/v1/users/{name}",
        "PATCH /api/v1/users/cem",
        r#"{"role": "viewer"}"#,
        admins(204),
    ),
    read(
        "DELETE /api/v1/users/{name}",
        "DELETE /api/v1/users/cem",
        admins(204),
    ),
    read(
        "DELETE /api/v1/users/{name}/second-factor",
        "DELETE /api/v1/users/ben/second-factor",
        admins(204),
    ),
    read(
        "GET /api/v1/second-factor-rule",
        "GET /api/v1/second-factor-rule",
        admins(200),
    ),
    make(
        "PUT /api/v1/second-factor-rule",
        "PUT /api/v1/second-factor-rule",
        r#"{"roles": ["approver"]}"#,
        admins(200),
    ),
    read("GET /api/v1/teams", "GET /api/v1/teams", all(200)),
    read(
        "GET /api/v1/teams/{name}",
        "GET /api/v1/teams/data",
        all(200),
    ),
    make(
        "PUT /api/v1/teams/{name}",
        "PUT /api/v1/teams/data",
        r#"{"members": ["ben"]}"#,
        admins(200),
    )
    .on("*"),
    read(
        "DELETE /api/v1/teams/{name}",
        "DELETE /api/v1/teams/data",
        admins(204),
    ),
    read("GET /api/v1/tokens", "GET /api/v1/tokens", admins(200)),
    make(
        "POST /api/v1/tokens",
        "POST /api/v1/tokens",
        r#"{"name": "ci", "role": "viewer", "days": 1, "scopes": ["read"], "servers": ["docs"]}"#,
        admins(201),
    ),
    read(
        "DELETE /api/v1/tokens/{id}",
        "DELETE /api/v1/tokens/spare",
        admins(204),
    ),
    read("GET /api/v1/policies", "GET /api/v1/policies", all(200)),
    read(
        "GET /api/v1/policies/{name}",
        "GET /api/v1/policies/p",
        all(200),
    ),
    make(
        "PUT /api/v1/policies/{name}",
        "PUT /api/v1/policies/p",
        DOCUMENT,
        editors(200),
    )
    .on("*"),
    read(
        "DELETE /api/v1/policies/{name}",
        "DELETE /api/v1/policies/spare",
        editors(204),
    )
    .on("*"),
    read(
        "GET /api/v1/policies/{name}/versions",
        "GET /api/v1/policies/p/versions",
        all(200),
    ),
    read(
        "GET /api/v1/policies/{name}/versions/{version}",
        "GET /api/v1/policies/p/versions/1",
        all(200),
    ),
    make(
        "POST /api/v1/policies/{name}/rollback",
        "POST /api/v1/policies/p/rollback",
        r#"{"version": 1, "reason": "it was better"}"#,
        editors(200),
    )
    .on("*"),
    make(
        "POST /api/v1/policies/check",
        "POST /api/v1/policies/check",
        r#"{"name": "p", "document": "version: 1\n"}"#,
        editors(200),
    ),
    make(
        "POST /api/v1/policies/import",
        "POST /api/v1/policies/import",
        r#"{"format": "hosts", "text": "api.example.com\n"}"#,
        editors(200),
    ),
    make(
        "POST /api/v1/policies/{name}/simulate",
        "POST /api/v1/policies/p/simulate",
        r#"{"document": "version: 1\n", "days": 1, "server": "docs"}"#,
        deciders(200),
    ),
    make(
        "POST /api/v1/policies/{name}/suggest",
        "POST /api/v1/policies/p/suggest",
        r#"{"days": 1, "server": "docs", "width": "host"}"#,
        deciders(200),
    ),
    make(
        "POST /api/v1/assignments/simulate",
        "POST /api/v1/assignments/simulate",
        r#"{"server": "docs", "policy": "p", "days": 1}"#,
        deciders(200),
    ),
    make(
        "POST /api/v1/floors/simulate",
        "POST /api/v1/floors/simulate",
        r#"{"team": "data", "policy": "p", "days": 1}"#,
        deciders(200),
    ),
    make(
        "POST /api/v1/teams/{name}/simulate",
        "POST /api/v1/teams/data/simulate",
        r#"{"members": ["ana"], "days": 1}"#,
        deciders(200),
    ),
    read(
        "GET /api/v1/assignments",
        "GET /api/v1/assignments",
        all(200),
    ),
    make(
        "PUT /api/v1/assignments",
        "PUT /api/v1/assignments",
        r#"{"server": "docs", "policy": "p"}"#,
        deciders(204),
    )
    .on("*"),
    read("GET /api/v1/floors", "GET /api/v1/floors", all(200)),
    make(
        "PUT /api/v1/floors",
        "PUT /api/v1/floors",
        r#"{"profile": "ana", "policy": "p"}"#,
        admins(204),
    )
    .on("*"),
    read(
        "GET /api/v1/proposals",
        "GET /api/v1/proposals",
        readers(200),
    )
    .by_two(),
    read(
        "GET /api/v1/proposals/{id}",
        "GET /api/v1/proposals/1",
        readers(200),
    )
    .by_two(),
    read(
        "GET /api/v1/proposals/{id}/simulation",
        "GET /api/v1/proposals/1/simulation",
        deciders(200),
    )
    .by_two(),
    make(
        "POST /api/v1/proposals/{id}/approve",
        "POST /api/v1/proposals/1/approve",
        WHY,
        approvers(200),
    )
    .by_two(),
    make(
        "POST /api/v1/proposals/{id}/reject",
        "POST /api/v1/proposals/1/reject",
        WHY,
        approvers(200),
    )
    .by_two(),
    // Dan's, who made these tokens: whoever may read what they proposed takes it back.
    make(
        "POST /api/v1/proposals/{id}/withdraw",
        "POST /api/v1/proposals/2/withdraw",
        WHY,
        readers(200),
    )
    .by_two(),
    read(
        "GET /api/v1/two-person-rule",
        "GET /api/v1/two-person-rule",
        all(200),
    ),
    make(
        "PUT /api/v1/two-person-rule",
        "PUT /api/v1/two-person-rule",
        r#"{"on": true}"#,
        admins(204),
    ),
    read("GET /api/v1/held", "GET /api/v1/held", readers(200)),
    make(
        "POST /api/v1/held/{id}/allow",
        "POST /api/v1/held/h1/allow",
        r#"{"for": "once", "reason": "it may"}"#,
        deciders(204),
    ),
    make(
        "POST /api/v1/audit/{id}/allow",
        "POST /api/v1/audit/{record}/allow",
        r#"{"for": "hour", "width": "host", "reason": "it may"}"#,
        editors(200),
    ),
    read(
        "POST /api/v1/held/{id}/deny",
        "POST /api/v1/held/h1/deny",
        deciders(204),
    ),
    read("GET /api/v1/webhooks", "GET /api/v1/webhooks", admins(200)),
    make(
        "PUT /api/v1/webhooks/{name}",
        "PUT /api/v1/webhooks/ops",
        r#"{"kind": "generic", "url": "https://hooks.example/y", "answerers": ["ana"]}"#,
        admins(204),
    ),
    read(
        "DELETE /api/v1/webhooks/{name}",
        "DELETE /api/v1/webhooks/ops",
        admins(204),
    ),
    read(
        "POST /api/v1/webhooks/{name}/test",
        "POST /api/v1/webhooks/ops/test",
        admins(204),
    ),
    // Signed by who sends it: a token is nothing there.
    make(
        "POST /api/v1/webhooks/{name}/answer",
        "POST /api/v1/webhooks/ops/answer",
        r#"{"id": "h1", "answer": "once", "user": "ana"}"#,
        all(401),
    ),
    read("GET /api/v1/audit", "GET /api/v1/audit", readers(200)),
    read(
        "GET /api/v1/audit/{id}",
        "GET /api/v1/audit/{record}",
        readers(200),
    ),
    read(
        "GET /api/v1/audit/{id}/chain",
        "GET /api/v1/audit/{record}/chain",
        readers(200),
    ),
    read(
        "GET /api/v1/audit/export/{format}",
        "GET /api/v1/audit/export/csv",
        readers(200),
    ),
    read(
        "GET /api/v1/audit/proof",
        "GET /api/v1/audit/proof",
        readers(200),
    ),
    read("GET /api/v1/events", "GET /api/v1/events", readers(200)),
    read("GET /api/v1/searches", "GET /api/v1/searches", readers(200)),
    make(
        "POST /api/v1/searches",
        "POST /api/v1/searches",
        r#"{"title": "all", "query": "verdict=allow"}"#,
        readers(201),
    ),
    // Its author's to remove, or an admin's.
    read(
        "DELETE /api/v1/searches/{id}",
        "DELETE /api/v1/searches/s1",
        admins(204),
    ),
    read("GET /api/v1/secrets", "GET /api/v1/secrets", all(200)),
    read(
        "GET /api/v1/secrets/{name}",
        "GET /api/v1/secrets/MAIL_TOKEN",
        all(200),
    ),
    make(
        "PUT /api/v1/secrets/{name}",
        "PUT /api/v1/secrets/NEW_TOKEN",
        r#"{"value": "v", "kind": "static", "days": 1}"#,
        admins(201),
    ),
    make(
        "POST /api/v1/secrets/{name}/rotate",
        "POST /api/v1/secrets/MAIL_TOKEN/rotate",
        r#"{"value": "v", "days": 1, "grace_hours": 1}"#,
        admins(200),
    ),
    read(
        "DELETE /api/v1/secrets/{name}",
        "DELETE /api/v1/secrets/MAIL_TOKEN",
        admins(204),
    ),
    read("GET /api/v1/servers", "GET /api/v1/servers", all(200)),
    read(
        "GET /api/v1/servers/{name}",
        "GET /api/v1/servers/docs",
        all(200),
    ),
    make(
        "PUT /api/v1/servers/{name}",
        "PUT /api/v1/servers/mail",
        SERVER,
        admins(201),
    )
    .fresh(),
    read(
        "DELETE /api/v1/servers/{name}",
        "DELETE /api/v1/servers/docs",
        admins(204),
    ),
    read(
        "POST /api/v1/servers/{name}/start",
        "POST /api/v1/servers/docs/start",
        editors(201),
    ),
    // No WebSocket.
    read(
        "GET /api/v1/servers/{name}/attach",
        "GET /api/v1/servers/docs/attach",
        editors(426),
    ),
    read(
        "GET /api/v1/servers/{name}/log",
        "GET /api/v1/servers/docs/log",
        readers(200),
    ),
    // This machine's owner's, at its socket, and a token's that names it.
    make(
        "POST /api/v1/servers/{name}/register",
        "POST /api/v1/servers/box/register",
        r#"{"pid": 7, "ca_path": "/ca.pem"}"#,
        all(403),
    ),
    read("GET /api/v1/sandboxes", "GET /api/v1/sandboxes", all(200)),
    // Ana's: not there for who runs their own.
    read(
        "GET /api/v1/sandboxes/{id}",
        "GET /api/v1/sandboxes/{sandbox}",
        [200, 200, 404, 200, 200],
    ),
    read(
        "DELETE /api/v1/sandboxes/{id}",
        "DELETE /api/v1/sandboxes/{sandbox}",
        [403, 403, 404, 403, 202],
    ),
    read(
        "GET /api/v1/sandboxes/{id}/log",
        "GET /api/v1/sandboxes/{sandbox}/log",
        [403, 200, 404, 200, 200],
    ),
];
