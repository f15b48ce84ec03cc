//! OpenTelemetry logs: an `ExportLogsServiceRequest` of OTLP in its JSON encoding.
//!
//! The fields that OpenTelemetry has names for carry those (`server.address`, `http.request.method`),
//! all others begin with `gig.`; the body is the record's own line. Numbers of 64 bits are texts, as
//! the JSON encoding has them.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Gravity, gravity, moment, ocsf::ascii, spans};
use crate::{event::Event, row::Row, search::Found};

/// One request with all of `records`, in their order within each machine; one line of JSON in ASCII.
#[must_use]
pub fn request(records: &[Found]) -> String {
    let resources = by_node(records, ("scopeLogs", "logRecords"), |found| {
        Some(log_record(found))
    });
    ascii(&json!({ "resourceLogs": resources }))
}

/// What `made` makes of records, in their order within each machine; called by these two names.
pub(super) fn by_node(
    records: &[Found],
    (scopes, items): (&str, &str),
    made: impl Fn(&Found) -> Option<Value>,
) -> Vec<Value> {
    let mut by_node: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for found in records {
        if let Some(item) = made(found) {
            let node = found.row.node.as_str();
            by_node.entry(node).or_default().push(item);
        }
    }
    let resource = |(node, made): (&str, Vec<Value>)| {
        json!({
            "resource": { "attributes": [
                text("service.name", "gig"),
                text("service.version", env!("CARGO_PKG_VERSION")),
                text("host.name", node),
            ]},
            scopes: [{
                "scope": { "name": "gig.audit", "version": env!("CARGO_PKG_VERSION") },
                items: made,
            }],
        })
    };
    by_node.into_iter().map(resource).collect()
}

/// A record whose texts are so long that a collector may refuse it: they are cut, and what is left of its line
/// says so. Its hash leads to the whole of it.
#[must_use]
pub fn shortened(found: &Found) -> Found {
    let mut short = found.clone();
    let row = &mut short.row;
    let single = [
        &mut row.subject,
        &mut row.server,
        &mut row.profile,
        &mut row.request,
        &mut row.policy,
        &mut row.rule,
        &mut row.host,
        &mut row.protocol,
        &mut row.method,
        &mut row.path,
    ];
    let listed = row.secrets.iter_mut().chain(&mut row.findings);
    for text in single.into_iter().flatten().chain(listed) {
        cut(text);
    }
    for list in [&mut row.secrets, &mut row.findings] {
        let left_out = list.len().saturating_sub(MOST);
        if left_out > 0 {
            list.truncate(MOST);
            list.push(format!("({left_out} more left out)"));
        }
    }
    short.line = format!(
        "({} octets left out: the record with this hash has them)",
        found.line.len()
    );
    short
}

fn log_record(found: &Found) -> Value {
    let row = &found.row;
    let (number, word) = match gravity(row) {
        Gravity::Ordinary => (9, "INFO"),
        Gravity::Notable => (10, "INFO2"),
        Gravity::Denied => (13, "WARN"),
        Gravity::Alarm => (17, "ERROR"),
    };
    let nanoseconds = moment(row).as_nanosecond().to_string();
    let mut record = json!({
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": number,
        "severityText": word,
        "eventName": format!("gig.audit.{}", row.event),
        "body": { "stringValue": found.line },
        "attributes": attributes(row),
    });
    // As the traces that are made of the same record have them.
    if let (Some((trace, span)), Some(fields)) = (spans::place(row), record.as_object_mut()) {
        fields.insert("traceId".to_owned(), trace.into());
        fields.insert("spanId".to_owned(), span.into());
    }
    record
}

/// The fields of a record by the names that OpenTelemetry has for them.
pub(super) fn attributes(row: &Row) -> Vec<Value> {
    let source = row
        .src
        .as_deref()
        .and_then(|src| src.parse::<std::net::SocketAddr>().ok());
    let client = source.map(|source| source.ip().to_string());
    let mut attributes = vec![number("gig.seq", row.seq), text("gig.event", &row.event)];
    let spoken = row.protocol.as_deref();
    let scheme = spoken.filter(|spoken| matches!(*spoken, "http" | "https"));
    let transport = spoken.filter(|spoken| matches!(*spoken, "tcp" | "udp"));
    let protocol = scheme
        .map(|_| "http")
        .or(spoken)
        .filter(|_| transport.is_none());
    // Of a question for a name it is what is asked for, and no method.
    let method = row.method.as_deref();
    let (asked, method) = match row.event == Event::Dns.as_str() {
        true => (method, None),
        false => (None, method),
    };
    let names = [
        ("network.protocol.name", protocol),
        ("network.transport", transport),
        ("url.scheme", scheme),
        ("http.request.method", method),
        ("gig.dns.type", asked),
    ];
    let told = names.into_iter();
    attributes.extend(told.filter_map(|(key, value)| Some(text(key, value?))));
    let texts = [
        ("gig.verdict", &row.verdict),
        ("error.type", &row.reason),
        ("gig.sandbox", &row.sandbox),
        ("gig.server", &row.server),
        ("gig.profile", &row.profile),
        ("gig.deed", &row.deed),
        ("gig.subject", &row.subject),
        ("gig.request", &row.request),
        ("gig.policy.name", &row.policy),
        ("gig.policy.rule", &row.rule),
        ("server.address", &row.host),
        ("network.peer.address", &row.dst_ip),
        ("url.path", &row.path),
        ("client.address", &client),
    ];
    let told = texts.into_iter();
    attributes.extend(told.filter_map(|(key, value)| Some(text(key, value.as_deref()?))));
    let status = match row.event == Event::SandboxExit.as_str() {
        true => "process.exit.code",
        false => "http.response.status_code",
    };
    let numbers = [
        ("gig.connection", row.conn),
        ("gig.policy.version", row.policy_version),
        ("server.port", row.port.map(Into::into)),
        ("client.port", source.map(|source| source.port().into())),
        (status, row.status.map(Into::into)),
        ("gig.bytes_out", row.bytes_out),
        ("gig.bytes_in", row.bytes_in),
        ("gig.duration_ms", row.duration_ms),
    ];
    let told = numbers.into_iter();
    attributes.extend(told.filter_map(|(key, value)| Some(number(key, value?))));
    for (key, values) in [
        ("gig.secrets", &row.secrets),
        ("gig.findings", &row.findings),
    ] {
        if !values.is_empty() {
            let values: Vec<_> = values.iter().map(|v| json!({ "stringValue": v })).collect();
            attributes.push(json!({ "key": key, "value": { "arrayValue": { "values": values } } }));
        }
    }
    attributes.push(text("log.record.uid", &row.hash));
    attributes
}

/// To [`LONGEST`] octets, saying how many are left out.
fn cut(text: &mut String) {
    if text.len() <= LONGEST {
        return;
    }
    let octets = text.len();
    text.truncate(text.floor_char_boundary(LONGEST));
    *text += &format!("...({} octets cut)", octets - text.len());
}

/// Of a text in a record that is shortened.
const LONGEST: usize = 512;
/// Of a list in one.
const MOST: usize = 16;

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    // The encoding's integer has a sign.
    let value = i64::try_from(value).unwrap_or(i64::MAX);
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Position;

    #[test]
    fn a_record_of_any_length_is_shortened_to_what_a_collector_takes() {
        let long = || Some("\u{1f600}".repeat(2048));
        let found = Found {
            at: Position { chain: 0, seq: 7 },
            line: "x".repeat(1 << 20),
            row: Row {
                seq: 7,
                hash: "ab".repeat(32),
                host: long(),
                path: long(),
                findings: vec![long().unwrap_or_default(); 300],
                ..Row::default()
            },
        };
        assert!(request(std::slice::from_ref(&found)).len() > 4 << 20);
        let short = shortened(&found);
        let text = request(&[short]);
        assert!(text.len() < 64 * 1024, "{}", text.len());
        // What leads to the whole of it is there.
        assert!(text.contains(&found.row.hash) && text.contains("1048576 octets left out"));
        assert!(text.contains("octets cut") && text.contains("284 more left out"));
    }

    #[test]
    fn records_are_grouped_by_machine_and_keep_their_types() {
        let found = |node: &str, seq| Found {
            at: Position { chain: 0, seq },
            line: "{\"a\":\"\\u202e\"}".to_owned(),
            row: Row {
                seq,
                time: "2026-11-21T09:30:00.123456Z".into(),
                node: node.into(),
                event: "request".into(),
                verdict: Some("deny".into()),
                host: Some("a\u{202e}".into()),
                port: Some(443),
                protocol: Some("https".into()),
                bytes_out: Some(u64::MAX),
                findings: vec!["one".into()],
                ..Row::default()
            },
        };
        let text = request(&[found("m", 1), found("n", 1), found("m", 2)]);
        assert!(text.bytes().all(|octet| (b' '..=b'~').contains(&octet)));
        let request: Value = serde_json::from_str(&text).unwrap();
        let resources = request["resourceLogs"].as_array().unwrap();
        assert_eq!(resources.len(), 2);
        let records = &resources[0]["scopeLogs"][0]["logRecords"];
        assert_eq!(records.as_array().unwrap().len(), 2);
        let first = &records[0];
        assert_eq!(first["timeUnixNano"], "1795253400123456000");
        assert_eq!(first["severityNumber"], 13);
        let value = |key: &str| {
            let attributes = first["attributes"].as_array().unwrap();
            let found = attributes.iter().find(|one| one["key"] == key).unwrap();
            found["value"].clone()
        };
        assert_eq!(value("server.port"), json!({ "intValue": "443" }));
        assert_eq!(
            value("server.address"),
            json!({ "stringValue": "a\u{202e}" })
        );
        assert_eq!(
            value("gig.bytes_out"),
            json!({ "intValue": i64::MAX.to_string() })
        );
    }

    #[test]
    fn what_is_spoken_and_what_came_of_it_have_the_names_that_collectors_know() {
        let told = |row: Row| -> BTreeMap<String, Value> {
            let each = attributes(&row).into_iter();
            let each = each.map(|one| {
                let Value::Object(value) = &one["value"] else {
                    panic!("{one}")
                };
                let value = value.values().next().unwrap().clone();
                (one["key"].as_str().unwrap().to_owned(), value)
            });
            each.collect()
        };
        let row = |event: &str, protocol: &str| Row {
            event: event.into(),
            protocol: Some(protocol.into()),
            method: Some("A".into()),
            status: Some(7),
            ..Row::default()
        };
        let web = told(row("response", "https"));
        assert_eq!(web["network.protocol.name"], "http");
        assert_eq!(web["url.scheme"], "https");
        assert_eq!(web["http.request.method"], "A");
        assert_eq!(web["http.response.status_code"], "7");
        let asked = told(row("dns", "dns"));
        assert_eq!(asked["network.protocol.name"], "dns");
        assert_eq!(asked["gig.dns.type"], "A");
        assert!(!asked.contains_key("http.request.method") && !asked.contains_key("url.scheme"));
        let opaque = told(row("connect", "tcp"));
        assert_eq!(opaque["network.transport"], "tcp");
        assert!(!opaque.contains_key("network.protocol.name"));
        let exit = told(Row {
            protocol: None,
            ..row("sandbox.exit", "")
        });
        assert_eq!(exit["process.exit.code"], "7");
        assert!(!exit.contains_key("http.response.status_code"));
    }
}
