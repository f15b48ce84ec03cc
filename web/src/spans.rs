//! Requests to the API as OpenTelemetry spans: what was asked, by whom, what came of it and how long it took.
//!
//! A span holds a method, the template of a route, a status and the name by which the record knows who asked; no address,
//! no body, no credential. Whoever is known may say by `traceparent` (W3C Trace Context) which span theirs is below;
//! what a stranger says is not taken. Whoever takes spans never holds a request up: what cannot be taken at once is dropped
//! and counted, and so is what a collector did not take in the end.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use axum::extract::{MatchedPath, Request};
use http::{HeaderMap, Method};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};

/// One request.
#[derive(Debug, Clone)]
pub struct ApiSpan {
    context: Context,
    parent: Option<[u8; 8]>,
    method: Method,
    route: Option<String>,
    status: u16,
    begun: Timestamp,
    took: Duration,
    who: Option<Arc<str>>,
}

/// A trace and a span in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Context {
    trace: [u8; 16],
    span: [u8; 8],
}

/// Who asked, put beside an answer by whoever found that out.
#[derive(Debug, Clone)]
pub(crate) struct AskedBy(pub(crate) Arc<str>);

/// What spans become of.
#[derive(Debug, Default)]
pub(crate) struct Spans {
    sink: OnceLock<mpsc::Sender<ApiSpan>>,
    dropped: AtomicU64,
    /// Why the last ones were not taken; nothing once some were.
    trouble: Mutex<Option<String>>,
}

/// A request that is being answered.
#[derive(Debug)]
pub(crate) struct Asked {
    method: Method,
    route: Option<String>,
    from: Option<Context>,
    begun: Timestamp,
    since: Instant,
}

impl Spans {
    /// From now on they are told here, as many as wait at most; who comes later is told none.
    pub(crate) fn taken(&self, most: usize) -> mpsc::Receiver<ApiSpan> {
        let (sink, taken) = mpsc::channel(most);
        // Of one whose sender is gone nothing comes.
        drop(self.sink.set(sink));
        taken
    }

    /// How many were dropped; `None` where nobody takes any.
    pub(crate) fn dropped(&self) -> Option<u64> {
        self.sink.get().map(|_| self.dropped.load(Relaxed))
    }

    /// Who takes them had these, and could not pass them on.
    pub(crate) fn lost(&self, count: u64, why: &str) {
        self.dropped.fetch_add(count, Relaxed);
        *self.trouble.lock() = Some(why.to_owned());
    }

    /// All of what was passed on last was taken.
    pub(crate) fn passed_on(&self) {
        *self.trouble.lock() = None;
    }

    /// Whether they arrive, in words; `None` where nobody takes any.
    pub(crate) fn state(&self) -> Option<Result<String, String>> {
        let dropped = self.dropped()?;
        let told = format!("{dropped} were dropped since the start");
        Some(match &*self.trouble.lock() {
            None => Ok(format!(
                "requests to the API are told to the collector; {told}"
            )),
            Some(why) => Err(format!(
                "the collector of --traces did not take the last ones ({why}); {told}"
            )),
        })
    }

    /// A request of the API begins; `None` where nobody wants to know.
    pub(crate) fn begin(&self, request: &Request, now: Timestamp) -> Option<Asked> {
        self.sink.get()?;
        let route = request.extensions().get::<MatchedPath>();
        Some(Asked {
            method: request.method().clone(),
            route: route.map(|route| route.as_str().to_owned()),
            from: named(request.headers()),
            begun: now,
            since: Instant::now(),
        })
    }

    /// It is answered.
    pub(crate) fn end(&self, asked: Asked, status: u16, who: Option<&AskedBy>) {
        let Some(sink) = self.sink.get() else { return };
        let Some(mut context) = Context::new() else {
            self.dropped.fetch_add(1, Relaxed);
            return;
        };
        let from = asked.from.filter(|_| who.is_some());
        if let Some(from) = from {
            context.trace = from.trace;
        }
        let span = ApiSpan {
            context,
            parent: from.map(|from| from.span),
            method: asked.method,
            route: asked.route,
            status,
            begun: asked.begun,
            took: asked.since.elapsed(),
            who: who.map(|who| Arc::clone(&who.0)),
        };
        if sink.try_send(span).is_err() {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

impl Context {
    /// `None` without random numbers.
    fn new() -> Option<Self> {
        let mut made = Self {
            trace: [0; 16],
            span: [0; 8],
        };
        aws_lc_rs::rand::fill(&mut made.trace).ok()?;
        aws_lc_rs::rand::fill(&mut made.span).ok()?;
        Some(made)
    }
}

/// What a caller says theirs is: one `traceparent` that can be read (W3C Trace Context §3.2), or nothing.
fn named(headers: &HeaderMap) -> Option<Context> {
    let mut all = headers.get_all("traceparent").iter();
    let text = all.next()?.to_str().ok()?;
    if all.next().is_some() {
        return None;
    }
    let mut parts = text.split('-');
    let (version, trace, span, flags) =
        (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    let [version] = octets(version)?;
    let [_] = octets(flags)?;
    // Of a later version more may follow, of this one nothing.
    if version == 0xff || (version == 0 && parts.next().is_some()) {
        return None;
    }
    let context = Context {
        trace: octets(trace)?,
        span: octets(span)?,
    };
    (context.trace != [0; 16] && context.span != [0; 8]).then_some(context)
}

/// Small hexadecimal digits, of exactly so many octets.
fn octets<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |octet: u8| match octet {
        b'0'..=b'9' => Some(octet - b'0'),
        b'a'..=b'f' => Some(octet - b'a' + 10),
        _ => None,
    };
    let mut digits = text.bytes().map(digit);
    let mut read = [0; N];
    for octet in &mut read {
        *octet = (digits.next()?? << 4) | digits.next()??;
    }
    digits.next().is_none().then_some(read)
}

/// Spans of the node `node` as an `ExportTraceServiceRequest` of OTLP in its JSON encoding.
#[must_use]
pub fn otlp(spans: &[ApiSpan], node: &str) -> String {
    let spans: Vec<Value> = spans.iter().map(ApiSpan::value).collect();
    let resource = [
        text("service.name", "gig"),
        text("service.version", env!("CARGO_PKG_VERSION")),
        text("service.instance.id", node),
    ];
    let request = json!({
        "resourceSpans": [{
            "resource": { "attributes": resource },
            "scopeSpans": [{ "scope": { "name": "gig.api" }, "spans": spans }],
        }],
    });
    request.to_string()
}

impl ApiSpan {
    fn value(&self) -> Value {
        let method = match METHODS.contains(&self.method) {
            true => self.method.as_str(),
            // As OpenTelemetry names what is none of the known ones.
            false => "_OTHER",
        };
        let name = match &self.route {
            Some(route) => format!("{method} {route}"),
            None => method.to_owned(),
        };
        let mut attributes = vec![
            text("http.request.method", method),
            json!({ "key": "http.response.status_code", "value": { "intValue": self.status.to_string() } }),
        ];
        attributes.extend(self.route.as_deref().map(|route| text("http.route", route)));
        attributes.extend(self.who.as_deref().map(|who| text("enduser.id", who)));
        // A server's span fails where it could not do it, not where it was asked for what it refuses.
        let failed = self.status >= 500;
        if failed {
            attributes.push(text("error.type", &self.status.to_string()));
        }
        let begun = self.begun.as_nanosecond();
        let took = i128::try_from(self.took.as_nanos()).unwrap_or_default();
        let mut span = json!({
            "traceId": hexadecimal(&self.context.trace),
            "spanId": hexadecimal(&self.context.span),
            "name": name,
            "kind": SERVER,
            "startTimeUnixNano": begun.max(0).to_string(),
            "endTimeUnixNano": begun.saturating_add(took).max(0).to_string(),
            "attributes": attributes,
            "status": if failed { json!({ "code": ERROR }) } else { json!({}) },
        });
        if let (Some(parent), Some(fields)) = (&self.parent, span.as_object_mut()) {
            fields.insert("parentSpanId".to_owned(), hexadecimal(parent).into());
        }
        span
    }
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

const SERVER: u8 = 2;
const ERROR: u8 = 2;
const METHODS: [Method; 9] = [
    Method::GET,
    Method::HEAD,
    Method::POST,
    Method::PUT,
    Method::DELETE,
    Method::CONNECT,
    Method::OPTIONS,
    Method::TRACE,
    Method::PATCH,
];

#[cfg(test)]
mod tests;
