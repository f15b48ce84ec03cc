//! OpenTelemetry traces: an `ExportTraceServiceRequest` of OTLP in its JSON encoding.
//!
//! Made of what is recorded, so that tracing costs a request nothing and a span is what the record proves: each
//! outcome of a request or connection is a span that ended when it was recorded, each denial one that took no
//! time, and each sandbox one from its start to its end. A request has a trace of its own with a link to its
//! sandbox's; ids are hashes of what the record calls them, so that a batch that is sent twice holds the same
//! spans. Nothing here is what a program says its trace is.

use serde_json::{Value, json};

use super::{
    has_failed, moment,
    ocsf::ascii,
    otlp::{attributes, by_node},
};
use crate::{row::Row, search::Found, sha256::sha256};

/// One request with the spans of `records`; one line of JSON in ASCII. `None` where there are none.
#[must_use]
pub fn request(records: &[Found]) -> Option<String> {
    let resources = by_node(records, ("scopeSpans", "spans"), |found| span(&found.row));
    (!resources.is_empty()).then(|| ascii(&json!({ "resourceSpans": resources })))
}

fn span(row: &Row) -> Option<Value> {
    let sandbox = row.sandbox.as_deref()?;
    let denied = row.verdict.as_deref() == Some("deny");
    let name = match row.event.as_str() {
        "response" => name(row),
        "connect" | "request" | "dns" | "secret.misuse" if denied => name(row),
        "sandbox.exit" => "sandbox",
        _ => return None,
    };
    let own = own(row);
    let (trace, id) = ids(row, sandbox, &own);
    let end = moment(row).as_nanosecond();
    let took = i128::from(row.duration_ms.unwrap_or_default()) * 1_000_000;
    let mut span = json!({
        "traceId": trace,
        "spanId": id,
        "name": name,
        "kind": if own.is_empty() { INTERNAL } else { CLIENT },
        "startTimeUnixNano": end.saturating_sub(took).max(0).to_string(),
        "endTimeUnixNano": end.max(0).to_string(),
        "attributes": attributes(row),
        "status": status(row, denied),
    });
    if !own.is_empty()
        && let Some(fields) = span.as_object_mut()
    {
        let (trace, id) = ids(row, sandbox, "");
        let links = json!([{ "traceId": trace, "spanId": id }]);
        fields.insert("links".to_owned(), links);
    }
    Some(span)
}

/// In which trace and span a record is, where it is of a sandbox: of its request or connection, of what was denied, or of
/// the sandbox itself.
pub(super) fn place(row: &Row) -> Option<(String, String)> {
    Some(ids(row, row.sandbox.as_deref()?, &own(row)))
}

/// What tells its span from others of the sandbox; empty for the sandbox's own.
fn own(row: &Row) -> String {
    match (row.verdict.as_deref(), row.event.as_str()) {
        (_, "sandbox.start" | "sandbox.exit") => String::new(),
        // What was denied is of itself alone.
        (Some("deny"), "connect" | "request" | "dns" | "secret.misuse") => {
            format!("denied {}", row.seq)
        }
        (_, "response") => asked(row),
        _ if row.request.is_some() || row.conn.is_some() => asked(row),
        _ => String::new(),
    }
}

/// What an outcome is of.
fn asked(row: &Row) -> String {
    match (&row.request, row.conn) {
        (Some(request), _) => format!("request {request}"),
        (None, Some(conn)) => format!("connection {conn}"),
        (None, None) => format!("record {}", row.seq),
    }
}

/// Of few different ones: a method, or what is spoken.
fn name(row: &Row) -> &str {
    let spoken = row.protocol.as_deref().unwrap_or(&row.event);
    match row.method.as_deref() {
        Some(method) if METHODS.contains(&method) && spoken != "dns" => method,
        _ => spoken,
    }
}

/// A trace and the one span in it, in hexadecimal.
fn ids(row: &Row, sandbox: &str, own: &str) -> (String, String) {
    let hash = sha256(format!("{}\n{sandbox}\n{own}", row.node).as_bytes());
    let mut digits = hash.iter().map(|octet| format!("{octet:02x}"));
    let trace = digits.by_ref().take(16).collect();
    (trace, digits.take(8).collect())
}

/// As a client sees it: what is refused or broken, and what the origin answers from 400 on, is an error.
fn status(row: &Row, denied: bool) -> Value {
    let failed = row.status.is_some_and(|status| status >= 400);
    match (row.event.as_str(), &row.reason) {
        ("sandbox.exit", _) => json!({}),
        (_, Some(reason)) if denied || has_failed(row) => {
            json!({ "code": ERROR, "message": reason })
        }
        _ if denied || failed => json!({ "code": ERROR }),
        _ => json!({}),
    }
}

const INTERNAL: u8 = 1;
const CLIENT: u8 = 3;
const ERROR: u8 = 2;
/// RFC 9110 §9.1, RFC 5789, and what WebDAV and caches are asked with most; what else is sent is anybody's text.
const METHODS: [&str; 9] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Position;

    fn found(row: Row) -> Found {
        Found {
            at: Position {
                chain: 0,
                seq: row.seq,
            },
            line: String::new(),
            row: Row {
                time: "2026-11-21T09:30:00.123456Z".into(),
                node: "m".into(),
                sandbox: Some("box".into()),
                ..row
            },
        }
    }

    fn spans(rows: &[Row]) -> Vec<Value> {
        let records: Vec<Found> = rows.iter().cloned().map(found).collect();
        let Some(text) = request(&records) else {
            return Vec::new();
        };
        let request: Value = serde_json::from_str(&text).unwrap();
        request["resourceSpans"][0]["scopeSpans"][0]["spans"]
            .as_array()
            .unwrap()
            .clone()
    }

    fn row(seq: u64, event: &str, verdict: &str) -> Row {
        Row {
            seq,
            event: event.into(),
            verdict: Some(verdict.into()),
            protocol: Some("https".into()),
            method: Some("GET".into()),
            ..Row::default()
        }
    }

    fn row_of_request() -> Row {
        Row {
            request: Some("r-1".into()),
            ..row(3, "request", "allow")
        }
    }

    #[test]
    fn an_outcome_is_a_span_that_ended_when_it_was_recorded() {
        let outcome = Row {
            request: Some("r-1".into()),
            duration_ms: Some(33),
            status: Some(200),
            ..row(4, "response", "allow")
        };
        let end = Row {
            duration_ms: Some(167),
            status: Some(0),
            ..row(5, "sandbox.exit", "")
        };
        let spans = spans(&[row(3, "request", "allow"), outcome.clone(), end]);
        assert_eq!(spans.len(), 2);
        let [request, whole] = &spans[..] else {
            panic!("{spans:?}")
        };
        assert_eq!(request["endTimeUnixNano"], "1795253400123456000");
        assert_eq!(request["startTimeUnixNano"], "1795253400090456000");
        assert_eq!(
            (&request["name"], &request["kind"]),
            (&"GET".into(), &3.into())
        );
        assert_eq!(request["status"], json!({}));
        assert_eq!(
            (&whole["name"], &whole["kind"]),
            (&"sandbox".into(), &1.into())
        );
        // What leads to the sandbox.
        for id in ["traceId", "spanId"] {
            assert_eq!(request["links"][0][id], whole[id]);
            assert_ne!(request[id], whole[id]);
        }
        assert_eq!(request["traceId"].as_str().unwrap().len(), 32);
        assert_eq!(request["spanId"].as_str().unwrap().len(), 16);
        // A log record of it is in that span.
        let of = |row: Row| place(&found(row).row).unwrap();
        for row in [row_of_request(), outcome.clone()] {
            let (trace, span) = of(row);
            assert_eq!(
                (&trace.into(), &span.into()),
                (&request["traceId"], &request["spanId"])
            );
        }
        let (trace, span) = of(row(6, "sandbox.start", ""));
        assert_eq!(
            (&trace.into(), &span.into()),
            (&whole["traceId"], &whole["spanId"])
        );
        // Sent twice, it is the same span.
        assert_eq!(self::spans(&[outcome])[0], *request);
    }

    #[test]
    fn what_is_denied_or_fails_is_an_error_and_a_method_of_ones_own_names_nothing() {
        let denied = Row {
            reason: Some("no_rule".into()),
            method: Some("A\u{202e}B".into()),
            ..row(1, "request", "deny")
        };
        let failed = Row {
            status: Some(404),
            ..row(2, "response", "allow")
        };
        let spans = spans(&[denied, failed, row(3, "dns", "allow")]);
        assert_eq!(spans.len(), 2);
        assert_eq!(
            spans[0]["status"],
            json!({ "code": 2, "message": "no_rule" })
        );
        assert_eq!(spans[0]["name"], "https");
        assert_eq!(spans[0]["startTimeUnixNano"], spans[0]["endTimeUnixNano"]);
        assert_eq!(spans[1]["status"], json!({ "code": 2 }));
        assert!(self::spans(&[row(1, "dns", "allow")]).is_empty());
        // Only observed: it went its way, or came to nothing beyond gig.
        let observed = |reason: &str| Row {
            reason: Some(reason.into()),
            ..row(4, "response", "would_deny")
        };
        let passed = &self::spans(&[observed("host_not_allowed")])[0];
        assert_eq!(passed["status"], json!({}));
        let broken = &self::spans(&[observed("origin_timeout")])[0];
        assert_eq!(broken["status"]["code"], 2);
    }
}
