//! A record as it is read back: texts and numbers, for search, display and export.
//!
//! Reading is lenient where writing is strict: words that this gig does not know (a later version's
//! event or reason) are kept as they stand. Whether the line is what was written is
//! [`mod@crate::verify`]'s to say; every text here may come from a sandbox and is to be escaped by
//! whoever shows it.

use serde::Deserialize;
use thiserror::Error;

/// One record's fields. What does not apply is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Row {
    /// Its place in its chain.
    pub seq: u64,
    /// RFC 3339, UTC, microseconds: compares as text.
    pub time: String,
    /// The machine that wrote it.
    #[serde(default)]
    pub node: String,
    /// What happened.
    pub event: String,
    /// What a person did: a word of [`crate::Deed`].
    pub deed: Option<String>,
    /// To what.
    pub subject: Option<String>,
    /// Whose sandbox.
    pub sandbox: Option<String>,
    /// The registered server.
    pub server: Option<String>,
    /// The user or profile.
    pub profile: Option<String>,
    /// The connection, counted per gig process.
    pub conn: Option<u64>,
    /// The request.
    pub request: Option<String>,
    /// Name of the policy that decided.
    pub policy: Option<String>,
    /// Its version.
    pub policy_version: Option<u64>,
    /// The rule that matched or came nearest.
    pub rule: Option<String>,
    /// `allow`, `deny` or `would_deny`.
    pub verdict: Option<String>,
    /// Why it was refused.
    pub reason: Option<String>,
    /// The sandbox's end of the connection.
    pub src: Option<String>,
    /// The host asked for.
    pub host: Option<String>,
    /// The port asked for.
    pub port: Option<u16>,
    /// The address that was dialled.
    pub dst_ip: Option<String>,
    /// `https`, `http`, `tcp`, `dns`, `udp`.
    pub protocol: Option<String>,
    /// The TLS session towards the sandbox.
    pub tls: Option<RowTls>,
    /// The request method; for DNS the query type.
    pub method: Option<String>,
    /// The normalised path.
    pub path: Option<String>,
    /// The status the program got.
    pub status: Option<u16>,
    /// Octets towards the origin.
    pub bytes_out: Option<u64>,
    /// Octets from the origin.
    pub bytes_in: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Names of secrets that were swapped in or misused.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Findings and notes.
    #[serde(default)]
    pub findings: Vec<String>,
    /// Hash of the record before, as hex.
    #[serde(default)]
    pub prev: String,
    /// Its own hash, as hex.
    #[serde(default)]
    pub hash: String,
}

/// What is known of a TLS session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct RowTls {
    /// `1.2` or `1.3`.
    pub version: Option<String>,
    /// The application protocol.
    pub alpn: Option<String>,
    /// The name in the ClientHello.
    pub sni: Option<String>,
}

/// A kept line is no record.
#[derive(Debug, Error)]
#[error("a kept line is no audit record: `gig audit verify` says which")]
pub struct ReadRowError(#[source] serde_json::Error);

impl Row {
    /// Reads a line, with or without its newline.
    ///
    /// # Errors
    /// When it is not JSON or has no place, time and event.
    pub fn read(line: &str) -> Result<Self, ReadRowError> {
        serde_json::from_str(line).map_err(ReadRowError)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        chain::{Head, Stamp, seal},
        entry::{Entry, TlsFacts, VerdictWord},
        event::Event,
    };

    #[test]
    fn every_field_of_a_record_is_read_back() {
        let mut entry = Entry::new(Event::Request);
        entry.deed = Some(crate::Deed::UserAdd);
        entry.subject = Some("ana".into());
        entry.host = Some("a.example\u{202e}".into());
        entry.verdict = Some(VerdictWord::WouldDeny);
        entry.reason = Some(gig_policy::DenyReason::HostNotAllowed);
        entry.conn = Some(7);
        entry.status = Some(503);
        entry.tls = Some(TlsFacts {
            sni: Some("a.example".into()),
            ..TlsFacts::default()
        });
        entry.findings = vec!["one".into()];
        let node: Arc<str> = "n".into();
        let stamp = Stamp {
            time: "2026-11-21T09:30:00.000001Z",
            node: &node,
        };
        let mut line = Vec::new();
        let record = seal(Head::START, entry, stamp, &mut line);
        let row = Row::read(std::str::from_utf8(&line).unwrap()).unwrap();
        assert_eq!((row.seq, row.conn, row.status), (1, Some(7), Some(503)));
        let deed = (row.deed.as_deref(), row.subject.as_deref());
        assert_eq!(deed, (Some("user.add"), Some("ana")));
        assert_eq!(row.host.as_deref(), Some("a.example\u{202e}"));
        assert_eq!(row.verdict.as_deref(), Some("would_deny"));
        assert_eq!(row.reason.as_deref(), Some("host_not_allowed"));
        assert_eq!(row.tls.unwrap().sni.as_deref(), Some("a.example"));
        assert_eq!(row.hash, record.hash.to_string());
        assert_eq!(row.findings, ["one"]);
    }

    #[test]
    fn words_of_a_later_gig_are_kept_and_nonsense_is_refused() {
        let row = Row::read(r#"{"seq":1,"time":"t","event":"quantum.leap","new":1}"#).unwrap();
        assert_eq!(row.event, "quantum.leap");
        assert!(Row::read(r#"{"seq":1}"#).is_err());
        assert!(Row::read("nonsense").is_err());
    }
}
