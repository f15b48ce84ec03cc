//! Comma-separated values after RFC 4180, safe to open in a spreadsheet.
//!
//! A field that a spreadsheet would take for a formula begins with `'`; controls and invisible
//! characters are escaped, so that a record is one line.

use gig_policy::printable::printable;

use crate::row::Row;

/// The names of the columns, with the line's end.
#[must_use]
pub fn header() -> String {
    COLUMNS.join(",") + "\r\n"
}

/// One record, with the line's end.
#[must_use]
pub fn line(row: &Row) -> String {
    let tls = row.tls.as_ref();
    let fields = [
        row.seq.to_string(),
        text(Some(&row.time)),
        text(Some(&row.node)),
        text(Some(&row.event)),
        text(row.deed.as_ref()),
        text(row.subject.as_ref()),
        text(row.sandbox.as_ref()),
        text(row.server.as_ref()),
        text(row.profile.as_ref()),
        number(row.conn),
        text(row.request.as_ref()),
        text(row.policy.as_ref()),
        number(row.policy_version),
        text(row.rule.as_ref()),
        text(row.verdict.as_ref()),
        text(row.reason.as_ref()),
        text(row.src.as_ref()),
        text(row.host.as_ref()),
        number(row.port),
        text(row.dst_ip.as_ref()),
        text(row.protocol.as_ref()),
        text(tls.and_then(|tls| tls.version.as_ref())),
        text(tls.and_then(|tls| tls.alpn.as_ref())),
        text(tls.and_then(|tls| tls.sni.as_ref())),
        text(row.method.as_ref()),
        text(row.path.as_ref()),
        number(row.status),
        number(row.bytes_out),
        number(row.bytes_in),
        number(row.duration_ms),
        text(Some(&row.secrets.join(" "))),
        text(Some(&super::joined(&row.findings))),
        text(Some(&row.hash)),
    ];
    fields.join(",") + "\r\n"
}

fn number(value: Option<impl ToString>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

fn text(value: Option<&String>) -> String {
    let mut text = printable(value.map(String::as_str).unwrap_or_default());
    // Also behind blanks: a spreadsheet may trim them.
    if text.trim_start().starts_with(['=', '+', '-', '@']) {
        text.insert(0, '\'');
    }
    if text.contains([',', '"', '\'']) || text.starts_with(' ') || text.ends_with(' ') {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text
}

const COLUMNS: [&str; 33] = [
    "seq",
    "time",
    "node",
    "event",
    "deed",
    "subject",
    "sandbox",
    "server",
    "profile",
    "conn",
    "request",
    "policy",
    "policy_version",
    "rule",
    "verdict",
    "reason",
    "src",
    "host",
    "port",
    "dst_ip",
    "protocol",
    "tls_version",
    "tls_alpn",
    "tls_sni",
    "method",
    "path",
    "status",
    "bytes_out",
    "bytes_in",
    "duration_ms",
    "secrets",
    "findings",
    "hash",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_text_and_a_field_is_one_field() {
        for (given, expected) in [
            ("/a", "/a"),
            ("=cmd|' /C calc'!A0", "\"'=cmd|' /C calc'!A0\""),
            ("+1", "\"'+1\""),
            ("-2+3", "\"'-2+3\""),
            ("@SUM(A1)", "\"'@SUM(A1)\""),
            ("  =1", "\"'  =1\""),
            ("\t=1", "\\u{9}=1"),
            ("\r=1\n", "\\u{d}=1\\u{a}"),
            ("a,b \"c\"", "\"a,b \"\"c\"\"\""),
            ("ä\u{202e}", "ä\\u{202e}"),
            ("\u{ff1d}1", "\\u{ff1d}1"),
        ] {
            assert_eq!(text(Some(&given.to_owned())), expected, "{given:?}");
        }
    }

    #[test]
    fn a_record_has_every_column() {
        let row = Row {
            seq: 7,
            conn: Some(3),
            path: Some("/a,b".into()),
            ..Row::default()
        };
        let line = line(&row);
        assert!(
            line.starts_with("7,,,,,,,,,3,") && line.ends_with("\r\n"),
            "{line}"
        );
        let outside = line.split('"').step_by(2).collect::<String>();
        assert_eq!(outside.matches(',').count(), COLUMNS.len() - 1);
        assert_eq!(header().matches(',').count(), COLUMNS.len() - 1);
    }
}
