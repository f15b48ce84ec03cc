//! The Open Cybersecurity Schema Framework, version 1.3.0: one event a record.
//!
//! | record | class |
//! | --- | --- |
//! | `dns` | DNS Activity 4003 |
//! | `request`, `secret.use`, the outcome of a request | HTTP Activity 4002 |
//! | `connect`, the outcome of a connection | Network Activity 4001 |
//! | `secret.misuse`, `finding`, `audit.gap` | Detection Finding 2004 |
//! | `admin` about somebody's account | Account Change 3001 |
//! | `auth` about a session or a sign-in | Authentication 3002 |
//! | `policy.change`, `secret.change`, other `admin` | Entity Management 3004 |
//! | `auth` about a refusal | API Activity 6003 |
//! | `sandbox.start`, `sandbox.exit` | Application Lifecycle 6002 |
//!
//! What a person did is read from the record's `deed` and `subject`, not from its prose. Traffic carries the profile
//! `security_control`: whether it was allowed, by which rule of which policy; entities carry `host`, for who did it.
//! What the schema has no field for stands under `unmapped`.

use serde_json::{Map, Value, json};

mod class;
mod doing;

use class::{Class, OTHER};
use doing::Doing;

use super::{Gravity, gravity, has_failed, moment};
use crate::row::Row;

/// One event as one line of JSON in ASCII, without a newline.
#[must_use]
pub fn event(row: &Row) -> String {
    let class = Class::of(row);
    let (activity, name) = class.activity(row);
    let severity = match gravity(row) {
        Gravity::Ordinary => (1, "Informational"),
        Gravity::Notable => (2, "Low"),
        Gravity::Denied => (3, "Medium"),
        Gravity::Alarm => (4, "High"),
    };
    let uid = class.uid();
    let mut event = Map::new();
    put(
        &mut event,
        json!({
            "activity_id": activity,
            "activity_name": name,
            "category_uid": uid / 1000,
            "category_name": class.category(),
            "class_uid": uid,
            "class_name": class.name(),
            "type_uid": uid * 100 + activity,
            "type_name": format!("{}: {name}", class.name()),
            "severity_id": severity.0,
            "severity": severity.1,
            "time": moment(row).as_millisecond(),
            "metadata": metadata(row, class),
            "message": message(row),
            "count": crate::counted(&row.findings),
        }),
    );
    status(&mut event, row, class);
    let parts = match class {
        Class::Dns => dns(row),
        Class::Http => http(row),
        Class::Network => network(row),
        Class::Finding => finding(row),
        Class::Entity => entity(row),
        Class::Account => account(row),
        Class::Authentication => json!({
            "user": user(row),
            "service": { "name": "gig" },
            "src_endpoint": source(row),
        }),
        Class::Lifecycle => lifecycle(row),
        Class::Api => api(row),
        Class::Base => json!({}),
    };
    put(&mut event, parts);
    if class.is_traffic() {
        put(&mut event, control(row));
    }
    put(&mut event, json!({ "unmapped": unmapped(row, class) }));
    ascii(&without_nothing(Value::Object(event)))
}

fn metadata(row: &Row, class: Class) -> Value {
    json!({
        "version": "1.3.0",
        "uid": row.hash,
        "sequence": row.seq,
        "original_time": row.time,
        "log_name": "audit",
        "log_provider": row.node,
        "event_code": row.event,
        "correlation_uid": row.request,
        "profiles": class.profile().map(|profile| json!([profile])),
        "product": { "name": "gig", "vendor_name": "gig", "version": env!("CARGO_PKG_VERSION") },
    })
}

/// What was decided, in the words of the schema.
fn status(event: &mut Map<String, Value>, row: &Row, class: Class) {
    if class == Class::Finding {
        // There the field says how far somebody got with it: nobody has looked yet.
        put(
            event,
            json!({ "status_id": 1, "status": "New", "status_detail": row.reason }),
        );
        return;
    }
    let (id, status) = match row.verdict.as_deref() {
        _ if has_failed(row) => (2, "Failure"),
        Some("allow" | "would_deny") => (1, "Success"),
        Some("deny") => (2, "Failure"),
        _ => return,
    };
    put(
        event,
        json!({ "status_id": id, "status": status, "status_detail": row.reason }),
    );
}

fn control(row: &Row) -> Value {
    let (action, disposition) = match row.verdict.as_deref() {
        Some("allow") => ((1, "Allowed"), (1, "Allowed")),
        Some("would_deny") => ((1, "Allowed"), (17, "Logged")),
        Some("deny") => ((2, "Denied"), (2, "Blocked")),
        _ => ((0, "Unknown"), (0, "Unknown")),
    };
    let policy = row.policy.as_ref().map(|name| {
        let version = row.policy_version.map(|version| version.to_string());
        let policy = json!({ "name": name, "uid": name, "version": version });
        json!([{ "decision": row.verdict, "policy": policy }])
    });
    let rule = row
        .rule
        .as_ref()
        .map(|rule| json!({ "name": rule, "uid": rule }));
    json!({
        "action_id": action.0,
        "action": action.1,
        "disposition_id": disposition.0,
        "disposition": disposition.1,
        "authorizations": policy,
        "firewall_rule": rule,
    })
}

/// Both ends, and what went between.
fn network(row: &Row) -> Value {
    let address = row
        .host
        .as_deref()
        .filter(|host| host.parse::<std::net::IpAddr>().is_ok());
    let total = row.bytes_in.zip(row.bytes_out);
    let total = total.map(|(inward, outward)| inward.saturating_add(outward));
    let traffic = (row.bytes_in.or(row.bytes_out))
        .map(|_| json!({ "bytes_in": row.bytes_in, "bytes_out": row.bytes_out, "bytes": total }));
    let tls = row
        .tls
        .as_ref()
        .filter(|tls| tls.version.is_some())
        .map(|tls| json!({ "version": tls.version, "sni": tls.sni }));
    let (transport, number) = match row.protocol.as_deref() {
        Some("udp") => ("udp", 17),
        _ => ("tcp", 6),
    };
    json!({
        "src_endpoint": sandbox(row),
        "dst_endpoint": {
            "hostname": row.host.as_ref().filter(|_| address.is_none()),
            "ip": row.dst_ip.as_deref().or(address),
            "port": row.port,
            "svc_name": row.protocol,
            // The schema wants one of them at least.
            "name": (row.host.is_none() && row.dst_ip.is_none()).then_some("unknown"),
        },
        "connection_info": {
            "uid": row.conn.map(|conn| conn.to_string()),
            "direction": "Outbound",
            "direction_id": 2,
            "protocol_name": transport,
            "protocol_num": number,
        },
        "traffic": traffic,
        "tls": tls,
        "duration": row.duration_ms,
    })
}

fn dns(row: &Row) -> Value {
    let code = answered(row);
    let query = row.host.as_ref().map(|host| {
        json!({ "hostname": host, "type": row.method.as_deref().unwrap_or("A"), "class": "IN" })
    });
    let mut event = Map::new();
    put(&mut event, network(row));
    put(
        &mut event,
        json!({
            "query": query,
            "query_time": moment(row).as_millisecond(),
            "rcode": code.map(|(_, word)| word),
            "rcode_id": code.map(|(code, _)| code),
            // What answered is gig itself, not the host that was asked for.
            "dst_endpoint": { "svc_name": "dns", "port": 53 },
            "connection_info": { "direction": "Outbound", "direction_id": 2 },
        }),
    );
    Value::Object(event)
}

/// What gig's name server said (RFC 1035 §4.1.1); `None` where it said nothing.
fn answered(row: &Row) -> Option<(u8, &'static str)> {
    if crate::counted::is_dropped(&row.findings) {
        return None;
    }
    let refused = row.verdict.as_deref() == Some("deny");
    Some(match row.reason.as_deref().filter(|_| refused) {
        Some("unsupported_protocol") => (5, "Refused"),
        Some("record_unavailable" | "shutting_down" | "internal") => (2, "ServError"),
        _ if refused => (3, "NXDomain"),
        _ => (0, "NoError"),
    })
}

fn http(row: &Row) -> Value {
    let scheme = match row.protocol.as_deref() {
        Some("http") => "http",
        _ => "https",
    };
    let (host, path) = (
        row.host.as_deref().unwrap_or_default(),
        row.path.as_deref().unwrap_or("/"),
    );
    let port = row.port.map(|port| format!(":{port}")).unwrap_or_default();
    let bracketed = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    let mut event = Map::new();
    put(&mut event, network(row));
    put(
        &mut event,
        json!({
            "http_request": {
                "uid": row.request,
                "http_method": row.method.as_deref().filter(|method| METHODS.contains(method)),
                "url": {
                    "scheme": scheme,
                    "hostname": host,
                    "port": row.port,
                    "path": path,
                    "url_string": format!("{scheme}://{bracketed}{port}{path}"),
                },
            },
            // The schema wants one: 0 where nothing was answered yet.
            "http_response": { "code": row.status.unwrap_or_default() },
        }),
    );
    Value::Object(event)
}

fn finding(row: &Row) -> Value {
    let title = match row.event.as_str() {
        "secret.misuse" => "A secret was sent where it is not bound to",
        "audit.gap" => "Records are missing: egress was refused meanwhile, or the end was cut off",
        _ if row.verdict.as_deref() == Some("deny") => "Something was found and stopped",
        _ => "A request waits for a person",
    };
    let detail = super::joined(&row.findings);
    json!({
        "finding_info": {
            "uid": row.hash,
            "title": title,
            "desc": if detail.is_empty() { title } else { &detail },
            "created_time": moment(row).as_millisecond(),
            "types": [row.event],
        },
        "resources": row.sandbox.as_ref().map(|sandbox| {
            json!([{ "uid": sandbox, "name": row.server, "type": "sandbox" }])
        }),
        "evidences": [{
            "dst_endpoint": { "hostname": row.host, "ip": row.dst_ip, "port": row.port },
            "data": { "secrets": row.secrets, "findings": row.findings },
        }],
    })
}

/// Whose account was changed, and by whom.
fn account(row: &Row) -> Value {
    json!({
        "user": { "name": row.subject.as_deref().unwrap_or("unknown"), "type": "User", "type_id": 1 },
        "actor": { "user": user(row) },
        "src_endpoint": source(row),
    })
}

/// What somebody asked gig itself, and was refused.
fn api(row: &Row) -> Value {
    let mut from = source(row);
    if row.src.is_none()
        && let Value::Object(from) = &mut from
    {
        // The schema wants one of them at least.
        put(from, json!({ "name": "unknown" }));
    }
    json!({
        "actor": { "user": user(row) },
        "api": {
            "operation": row.subject.as_deref().unwrap_or("unknown"),
            "service": { "name": "gig" },
        },
        "src_endpoint": from,
    })
}

/// Whose traffic it is.
fn sandbox(row: &Row) -> Value {
    let mut end = source(row);
    if let Value::Object(end) = &mut end {
        put(
            end,
            json!({ "uid": row.sandbox, "name": row.server, "type": "Sandbox", "type_id": OTHER }),
        );
    }
    end
}

/// Where somebody sat, or a sandbox has its end.
fn source(row: &Row) -> Value {
    let source = row.src.as_deref();
    let source = source.and_then(|src| src.parse::<std::net::SocketAddr>().ok());
    json!({
        "ip": source.map(|source| source.ip().to_string()),
        "port": source.map(|source| source.port()).filter(|port| *port > 0),
    })
}

fn entity(row: &Row) -> Value {
    let kind = match Doing::of(row) {
        Some(Doing::Thing(kind, _)) => kind,
        _ => row.event.as_str(),
    };
    // Records of before there were subjects name what they are about elsewhere.
    let named = row
        .server
        .as_ref()
        .or(row.policy.as_ref())
        .or_else(|| row.secrets.first());
    let name = row.subject.as_ref().or(named).map(String::as_str);
    json!({
        "entity": {
            "name": name.unwrap_or(kind),
            "type": kind,
            "version": row.policy_version.map(|version| version.to_string()),
        },
        "comment": super::joined(&row.findings),
        "actor": { "user": user(row) },
    })
}

fn lifecycle(row: &Row) -> Value {
    json!({
        "app": {
            "name": row.server.as_deref().unwrap_or("sandbox"),
            "uid": row.sandbox,
            "vendor_name": "gig",
        },
        "status_code": row.status.map(|status| status.to_string()),
        "duration": row.duration_ms,
    })
}

fn user(row: &Row) -> Value {
    json!({ "name": row.profile.as_deref().unwrap_or("unknown"), "type": "User", "type_id": 1 })
}

/// What has no place in the class.
fn unmapped(row: &Row, class: Class) -> Value {
    // Traffic says by which rule of which policy it was allowed, and of which connection it is.
    let untold = |value: Option<&String>| value.filter(|_| !class.is_traffic()).cloned();
    json!({
        "policy": untold(row.policy.as_ref()),
        "rule": untold(row.rule.as_ref()),
        "conn": row.conn.filter(|_| !class.is_traffic() || class == Class::Dns),
        "verdict": row.verdict,
        "sandbox": row.sandbox,
        "profile": row.profile,
        "deed": row.deed,
        "subject": row.subject,
        "method": row.method.as_deref().filter(|method| !METHODS.contains(method)),
        "secrets": row.secrets,
        "findings": row.findings,
        "prev": row.prev,
        "server": row.server,
        "src": row.src,
        "policy_version": row.policy_version,
        "alpn": row.tls.as_ref().and_then(|tls| tls.alpn.clone()),
    })
}

fn message(row: &Row) -> String {
    let words = [
        Some(row.event.as_str()),
        row.verdict.as_deref(),
        row.reason.as_deref(),
        row.method.as_deref(),
        row.host.as_deref(),
        row.path.as_deref(),
    ];
    words.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Adds the fields of `more`; those that are there already are replaced.
fn put(event: &mut Map<String, Value>, more: Value) {
    if let Value::Object(more) = more {
        event.extend(more);
    }
}

/// Fields that say nothing are left out: the schema has no null.
fn without_nothing(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, without_nothing(value)));
            let told = fields.filter(|(_, value)| !says_nothing(value));
            Value::Object(told.collect())
        }
        Value::Array(items) => {
            let told = items.into_iter().map(without_nothing);
            Value::Array(told.filter(|item| !says_nothing(item)).collect())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value,
    }
}

fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// JSON in ASCII.
pub(super) fn ascii(value: &Value) -> String {
    let json = value.to_string();
    let mut out = String::with_capacity(json.len());
    for character in json.chars() {
        if matches!(character, ' '..='~') {
            out.push(character);
        } else {
            let mut units = [0; 2];
            for unit in character.encode_utf16(&mut units) {
                out += &format!("\\u{unit:04x}");
            }
        }
    }
    out
}

/// Those that the schema knows.
const METHODS: [&str; 8] = [
    "CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT", "TRACE",
];

#[cfg(test)]
mod schema;
#[cfg(test)]
mod tests;
