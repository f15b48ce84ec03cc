//! Sends records to where a company collects them: syslog over TCP or TLS, OpenTelemetry logs and traces over HTTP.
//!
//! At least once: what the other side did not acknowledge is sent again, by this run or the next, from
//! the place that the cursor file holds. Syslog has no acknowledgement of its own: a batch has a
//! connection of its own here, and counts when the receiver has read it to its end and closed.

use std::{net::IpAddr, path::Path, str::FromStr, sync::Arc, time::Duration};

use anyhow::{Context as _, bail};
use gig_audit::{
    export::{otlp, spans, syslog},
    search::Found,
};
use gig_policy::{Host, Port};
use gig_proxy::{UpstreamProxy, authority::Authority, tls::roots::Roots};
use gig_vault::{Fetch as _, FetchMethod, FetchRequest, SecretBytes};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

mod cursor;

pub(crate) use cursor::Cursor;

use crate::{fetch::NetworkFetch, secret_file};

/// Where records go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Destination {
    /// A receiver of RFC 5424 messages.
    Syslog {
        /// In TLS.
        tls: bool,
        /// Whose.
        host: Host,
        /// Which port.
        port: Port,
        /// As it was typed.
        url: Arc<str>,
    },
    /// A collector that takes OTLP/JSON.
    Otlp {
        /// With the path of its logs or traces.
        url: Arc<str>,
        /// Spans go there.
        traces: bool,
    },
}

/// What was not taken, and whether it may be later.
#[derive(Debug)]
pub(crate) struct NotDelivered {
    /// Why.
    pub(crate) why: String,
    /// What helps.
    pub(crate) again: Again,
}

/// What became of what was sent.
#[derive(Debug)]
pub(crate) enum Delivered {
    /// There was nothing to tell the other side of these records: it was not asked.
    Nothing,
    /// It has them, but for those that it says it rejected: they must not be sent again (OTLP, "Partial Success").
    Taken(Option<Rejected>),
}

/// What a collector took none of, of what it was sent and answered with success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rejected {
    /// How many; 0: it remarks something of what it took.
    pub(crate) count: u64,
    /// What it says, in a sentence.
    pub(crate) why: String,
}

/// What may help records that were not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Time; this much of it, where the other side said so.
    Later(Option<Duration>),
    /// Less at once.
    Less,
    /// Nothing for what is in it, which the other side does not read; of several it may be one alone.
    Refused,
    /// Nothing.
    Never,
}

impl Destination {
    /// As it was typed.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Syslog { url, .. } | Self::Otlp { url, .. } => url,
        }
    }

    /// The same as records tell it: without what may be a key, a query and what stands before the host.
    pub(crate) fn place(&self) -> String {
        let url = self.url().split(['?', '#']).next().unwrap_or_default();
        let Some((scheme, rest)) = url.split_once("://") else {
            return String::new();
        };
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let host = host.rsplit('@').next().unwrap_or_default();
        format!("{scheme}://{host}{path}")
    }

    /// Whether a token can be read on its way there: in clear text, and not within this machine or a network
    /// of one's own. Of a name nobody knows yet.
    pub(crate) fn shows_token(&self) -> bool {
        let Self::Otlp { url, .. } = self else {
            return false;
        };
        let Some(rest) = url.strip_prefix("http://") else {
            return false;
        };
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        match Authority::parse(place).map(|parsed| parsed.host) {
            Ok(Host::Ip(IpAddr::V4(ip))) => {
                !(ip.is_loopback() || ip.is_private() || ip.is_link_local())
            }
            Ok(Host::Ip(IpAddr::V6(ip))) => {
                !(ip.is_loopback() || ip.is_unique_local() || ip.is_unicast_link_local())
            }
            Ok(Host::Name(name)) => name.as_str() != "localhost",
            Err(_) => true,
        }
    }
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let url: Arc<str> = text.into();
        if text.starts_with("http://") || text.starts_with("https://") {
            let rest = text.split_once("://").map_or("", |(_, rest)| rest);
            if !rest.contains('/') {
                return Err(
                    "name the path of the collector's logs or traces, as in http://host:4318/v1/logs"
                        .to_owned(),
                );
            }
            // OTLP/HTTP: which signal it is, the path says.
            let path = rest.split(['?', '#']).next().unwrap_or_default();
            let traces = path.trim_end_matches('/').ends_with("/traces");
            return Ok(Self::Otlp { url, traces });
        }
        let (tls, rest, default) = match text.split_once("://") {
            Some(("syslog+tcp", rest)) => (false, rest, SYSLOG_TCP),
            Some(("syslog+tls", rest)) => (true, rest, SYSLOG_TLS),
            _ => {
                return Err("write syslog+tcp://HOST[:PORT], syslog+tls://HOST[:PORT] or the http(s):// URL \
                            of an OTLP collector"
                    .to_owned());
            }
        };
        let parsed = Authority::parse(rest.trim_end_matches('/'));
        let parsed = parsed.map_err(|_| format!("{rest:?} is no host with a port"))?;
        Ok(Self::Syslog {
            tls,
            host: parsed.host,
            port: parsed
                .port
                .or_else(|| Port::new(default))
                .ok_or("no port")?,
            url,
        })
    }
}

/// A way out for records.
pub(crate) struct Delivery {
    destination: Destination,
    network: NetworkFetch,
    /// The `Authorization` field for a collector.
    token: Option<SecretBytes>,
    /// For the whole of one batch.
    deadline: Duration,
}

impl Delivery {
    /// Trusts `roots`; goes through the host's proxy where there is one.
    pub(crate) fn new(
        destination: Destination,
        roots: Roots,
        proxy: Option<UpstreamProxy>,
        token: Option<SecretBytes>,
    ) -> Self {
        Self {
            destination,
            token,
            network: NetworkFetch::new(roots, proxy),
            deadline: DEADLINE,
        }
    }

    /// Whether there is anything to tell the other side of a record.
    pub(crate) fn tells(&self, found: &Found) -> bool {
        match &self.destination {
            Destination::Otlp { traces: true, .. } => {
                spans::request(std::slice::from_ref(found)).is_some()
            }
            Destination::Otlp { .. } | Destination::Syslog { .. } => true,
        }
    }

    /// Sends a batch and waits until it was taken. Dropping the future leaves open whether it was.
    pub(crate) async fn send(&self, batch: &[Found]) -> Result<Delivered, NotDelivered> {
        let sent = async {
            match &self.destination {
                Destination::Syslog {
                    tls, host, port, ..
                } => self.send_syslog(*tls, host, *port, batch).await,
                Destination::Otlp { url, traces } => {
                    let written = if *traces { spans::request } else { logs };
                    self.send_otlp(url, batch, written).await
                }
            }
        };
        let sent = tokio::time::timeout(self.deadline, sent).await;
        sent.unwrap_or_else(|_| Err(later(format!("not taken within {:?}", self.deadline))))
    }

    /// Sends a request that is written already to a collector, and waits until it was taken.
    pub(crate) async fn tell(&self, body: String) -> Result<Option<Rejected>, NotDelivered> {
        let Destination::Otlp { url, .. } = &self.destination else {
            return Err(later("this is no collector's place".to_owned()));
        };
        let sent = tokio::time::timeout(self.deadline, self.post(url, body)).await;
        sent.unwrap_or_else(|_| Err(later(format!("not taken within {:?}", self.deadline))))
    }

    async fn send_syslog(
        &self,
        tls: bool,
        host: &Host,
        port: Port,
        batch: &[Found],
    ) -> Result<Delivered, NotDelivered> {
        let frames: String = batch
            .iter()
            .map(|found| syslog::framed(&syslog::message(found)))
            .collect();
        let mut stream = self.network.stream(host, port, tls).await.map_err(later)?;
        let broke = |error: std::io::Error| later(format!("the connection broke: {error}"));
        stream.write_all(frames.as_bytes()).await.map_err(broke)?;
        stream.shutdown().await.map_err(broke)?;
        // The receiver's end: it has read ours. rsyslog ends TLS without a word, so that whoever can forge
        // packets on the way could say so for it: syslog knows no better.
        let mut ignored = [0; 512];
        loop {
            match stream.read(&mut ignored).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => break,
                Err(error) => return Err(broke(error)),
            }
        }
        Ok(Delivered::Taken(None))
    }

    async fn send_otlp(
        &self,
        url: &str,
        batch: &[Found],
        written: Written,
    ) -> Result<Delivered, NotDelivered> {
        // Of some records there is nothing to tell.
        let Some(body) = written(batch) else {
            return Ok(Delivered::Nothing);
        };
        let sent = match body.len() {
            ..=LARGEST => self.post(url, body).await,
            octets => Err(less(format!("{octets} octets are too many at once"))),
        };
        match (sent, batch) {
            // Nobody is kept from the rest of the record by one that is long.
            (Err(not), [one]) if matches!(not.again, Again::Less | Again::Refused) => {
                let body = written(&[otlp::shortened(one)]).unwrap_or_default();
                self.post(url, body).await.map(Delivered::Taken)
            }
            (sent, _) => sent.map(Delivered::Taken),
        }
    }

    async fn post(&self, url: &str, body: String) -> Result<Option<Rejected>, NotDelivered> {
        let mut request =
            FetchRequest::new(FetchMethod::Post, url).body("application/json", body.into_bytes());
        request.deadline = self.deadline;
        if let Some(token) = &self.token {
            request = request.header("authorization", token.expose().to_vec());
        }
        let answer = self.network.fetch(request).await;
        let answer = answer.map_err(|error| later(error.to_string()))?;
        let why = format!("the collector answered {}", answer.status);
        match answer.status {
            200..=299 => Ok(rejected(answer.body.expose())),
            413 => Err(less(why)),
            // OTLP/HTTP: what it holds cannot be read; collectors say so of all for one text in one record.
            400 | 422 => Err(NotDelivered {
                why,
                again: Again::Refused,
            }),
            // OTLP/HTTP: these may be sent again; and one that the collector did not hear to its end.
            408 | 429 | 502 | 503 | 504 => {
                let after = answer.header("retry-after");
                let after = after.and_then(|seconds| seconds.trim().parse().ok());
                Err(NotDelivered {
                    why,
                    again: Again::Later(after.map(Duration::from_secs)),
                })
            }
            _ => Err(NotDelivered {
                why,
                again: Again::Never,
            }),
        }
    }
}

/// What a collector asks for, from a file of its own: a command line is for everybody to read.
///
/// # Errors
/// When the file that this option names holds no token.
pub(crate) fn bearer(file: &Path, option: &'static str) -> anyhow::Result<SecretBytes> {
    let text = secret_file::line(file).context(option)?;
    if !text.bytes().all(|octet| octet.is_ascii_graphic()) {
        bail!(
            "{option}: {} holds no token: printable characters alone",
            file.display()
        );
    }
    Ok(SecretBytes::new([b"Bearer ", text.as_bytes()].concat()))
}

/// How records are written for a collector; `None` where there is nothing to tell it.
type Written = fn(&[Found]) -> Option<String>;

fn logs(batch: &[Found]) -> Option<String> {
    Some(otlp::request(batch))
}

/// What a collector says of records that it did not want: they must not be sent again.
fn rejected(body: &[u8]) -> Option<Rejected> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    let partial = answer.get("partialSuccess")?;
    let (count, what) = match (
        partial.get("rejectedLogRecords"),
        partial.get("rejectedSpans"),
    ) {
        (Some(count), _) => (count, "records"),
        (None, Some(count)) => (count, "spans"),
        // Proto3 leaves out what is 0.
        (None, None) => (&serde_json::Value::Null, "records"),
    };
    let count = match count {
        serde_json::Value::String(text) => text.parse().ok()?,
        other => other.as_i64().unwrap_or_default(),
    };
    let count = u64::try_from(count).unwrap_or_default();
    let why = partial.get("errorMessage").and_then(|why| why.as_str());
    let why = why.unwrap_or_default().chars();
    let why: String = why
        .filter(|one| !one.is_control())
        .take(LONGEST_WHY)
        .collect();
    match (count, why.is_empty()) {
        (0, true) => None,
        (0, false) => Some(Rejected {
            count,
            why: format!("the collector remarks: {why}"),
        }),
        (count, _) => Some(Rejected {
            count,
            why: format!("the collector rejected {count} {what}: {why}"),
        }),
    }
}

const fn later(why: String) -> NotDelivered {
    NotDelivered {
        why,
        again: Again::Later(None),
    }
}

const fn less(why: String) -> NotDelivered {
    NotDelivered {
        why,
        again: Again::Less,
    }
}

/// RFC 6587 names none; 601 is registered for syslog over connections.
const SYSLOG_TCP: u16 = 601;
/// RFC 5425 §4.1.
const SYSLOG_TLS: u16 = 6514;
/// Half of what web servers in front of collectors take by default.
const LARGEST: usize = 512 * 1024;
/// Of what a collector says, in characters.
const LONGEST_WHY: usize = 300;
/// A receiver that takes longer for a thousand records is not well.
const DEADLINE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_read_or_refused_with_what_to_write() {
        let port = |text: &str| match text.parse().unwrap() {
            Destination::Syslog { tls, port, .. } => (tls, port.get()),
            Destination::Otlp { .. } => panic!("{text}"),
        };
        assert_eq!(port("syslog+tcp://logs.example"), (false, 601));
        assert_eq!(port("syslog+tls://logs.example/"), (true, 6514));
        assert_eq!(port("syslog+tcp://[::1]:5140"), (false, 5140));
        let otlp = "https://otel.example/v1/logs".parse::<Destination>();
        assert_eq!(otlp.unwrap().url(), "https://otel.example/v1/logs");
        for wrong in [
            "logs.example",
            "syslog://x",
            "https://otel.example",
            "syslog+tcp://",
            "ftp://x/y",
        ] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_record_names_no_key_of_a_destination() {
        let place = |text: &str| text.parse::<Destination>().unwrap().place();
        assert_eq!(
            place("https://me:hunter2@otel.example:4318/v1/logs?api_key=hunter2#hunter2"),
            "https://otel.example:4318/v1/logs"
        );
        assert_eq!(
            place("syslog+tls://logs.example"),
            "syslog+tls://logs.example"
        );
    }

    #[test]
    fn a_token_in_clear_text_is_remarked_where_it_crosses_a_network() {
        let shows = |text: &str| text.parse::<Destination>().unwrap().shows_token();
        for shown in [
            "http://otel.example:4318/v1/logs",
            "http://192.0.2.7/v1/logs",
            "http://[2001:db8::1]:4318/v1/traces",
            "http://localhost.example/v1/logs",
        ] {
            assert!(shows(shown), "{shown}");
        }
        for kept in [
            "https://otel.example/v1/logs",
            "http://localhost:4318/v1/logs",
            "http://127.0.0.1:4318/v1/logs",
            "http://10.0.0.7/v1/logs",
            "http://[fd00::1]/v1/logs",
        ] {
            assert!(!shows(kept), "{kept}");
        }
    }

    #[test]
    fn what_a_collector_rejects_is_told() {
        assert_eq!(rejected(b""), None);
        assert_eq!(rejected(b"{}"), None);
        assert_eq!(rejected(br#"{"partialSuccess":{}}"#), None);
        assert_eq!(
            rejected(br#"{"partialSuccess":{"rejectedLogRecords":"0"}}"#),
            None
        );
        let told = |text: &str| rejected(text.as_bytes()).map(|one| (one.count, one.why));
        let some =
            r#"{"partialSuccess":{"rejectedLogRecords":"2","errorMessage":"too old\u001b[2J"}}"#;
        let why = "the collector rejected 2 records: too old[2J".to_owned();
        assert_eq!(told(some), Some((2, why)));
        let remark = r#"{"partialSuccess":{"errorMessage":"use v2"}}"#;
        let why = "the collector remarks: use v2".to_owned();
        assert_eq!(told(remark), Some((0, why)));
        let less = r#"{"partialSuccess":{"rejectedSpans":-4}}"#;
        assert_eq!(told(less), None);
    }
}
