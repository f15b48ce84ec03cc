//! What was allowed and came to nothing: an origin that does not answer or is not trusted, and a program that
//! does not trust gig.
//!
//! No rule changes any of it. What helps is said in the words that the answer to the program has, of which
//! programs show a status at most.

use std::{fmt::Write as _, net::IpAddr, sync::Arc};

use gig_audit::{Entry, VerdictWord};
use gig_policy::DenyReason;
use gig_proxy::{
    enforce::connect::CLIENT_DISTRUSTS, http::refuse::standing_hint,
    upstream::connect_proxy::ProxyFault,
};

use super::{RulesFrom, at_port, bracketed, lines::Lines, shown, times};

/// How often what failed.
#[derive(Debug, Default)]
pub(super) struct Failures(Lines<Failed>);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Failed {
    host: Arc<str>,
    port: Option<u16>,
    why: Why,
    /// Where a name was dialled, if it was.
    at: Option<IpAddr>,
    /// That the host's proxy did it.
    by_proxy: Option<ProxyFault>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Why {
    /// The program's TLS refused the leaf that it was shown.
    Distrusts,
    Reason(DenyReason),
}

impl Failures {
    /// Counts a record of how something ended.
    pub(super) fn note(&mut self, entry: &Entry) {
        let Some(host) = entry.host.clone() else {
            return;
        };
        let Some(why) = why(entry) else {
            return;
        };
        let port = entry.port;
        let mut findings = entry.findings.iter();
        let by_proxy = findings.find_map(|finding| ProxyFault::of_finding(finding));
        let at = entry.dst_ip.filter(|_| host.parse::<IpAddr>().is_err());
        let failed = Failed {
            host,
            port,
            why,
            at,
            by_proxy,
        };
        self.0.add(failed, 1);
    }

    /// Nothing where nothing failed.
    pub(super) fn text(&self, from: &RulesFrom) -> String {
        let mut text = String::new();
        if self.0.is_empty() {
            return text;
        }
        text.push_str("gig: failed during this run\n");
        for (failed, count) in self.0.iter() {
            let port = at_port(failed.port);
            let word = match failed.why {
                Why::Distrusts => CLIENT_DISTRUSTS,
                Why::Reason(reason) => reason.as_str(),
            };
            let (host, times) = (shown(&failed.host), times(count));
            let at = failed.at.map_or_else(String::new, |at| format!(" at {at}"));
            // Writing to a String cannot fail.
            writeln!(text, "  {host}{port}  {word}{at}{times}").ok();
            if let Some(cure) = failed.cure(from) {
                writeln!(text, "      {cure}").ok();
            }
        }
        text + &self.0.rest()
    }
}

impl Failed {
    fn cure(&self, from: &RulesFrom) -> Option<String> {
        if let Some(fault) = self.by_proxy {
            let proxy = "the proxy that gig's own environment names (HTTPS_PROXY or ALL_PROXY)";
            return Some(match fault {
                ProxyFault::Unreached => format!(
                    "{proxy} is not reached: start it, set the variable to where it is, or unset it"
                ),
                ProxyFault::Broken => {
                    format!("{proxy} ended the connection or did not answer in HTTP")
                }
                ProxyFault::Answered(status) => {
                    format!("{proxy} answered {status} in place of a tunnel")
                }
            });
        }
        let reason = match self.why {
            Why::Reason(DenyReason::NameNotResolved) => {
                return Some("this host's resolver has no address for that name".to_owned());
            }
            Why::Reason(reason) => return standing_hint(reason).map(str::to_owned),
            Why::Distrusts => {
                "the program does not trust this run's CA: have it read /etc/gig-ca.pem (its variables \
                               name it), or let it pass unopened"
            }
        };
        let host = bracketed(&self.host);
        let port = self.port.unwrap_or(443);
        Some(match &from.document {
            Some(document) => format!("{reason}: tls: passthrough for {host}:{port} in {document}"),
            None => {
                format!("{reason}: --allow tls:{host}:{port} in place of what allows that port now")
            }
        })
    }
}

/// The origin's fault, or the program's own will; what was refused after all is told as denied.
fn why(entry: &Entry) -> Option<Why> {
    let told = entry
        .findings
        .iter()
        .any(|word| **word == *CLIENT_DISTRUSTS);
    if told {
        return Some(Why::Distrusts);
    }
    let reason = entry.reason?;
    let ended = matches!(
        reason,
        DenyReason::ShuttingDown | DenyReason::RequestIncomplete
    );
    let denied = entry.verdict == Some(VerdictWord::Deny);
    (!ended && !denied && !reason.is_refusal()).then_some(Why::Reason(reason))
}

#[cfg(test)]
mod tests {
    use gig_audit::Event;

    use super::{super::Summary, *};

    fn ended(host: &str, reason: Option<DenyReason>, finding: Option<&str>) -> Entry {
        let mut entry = Entry::new(Event::Response);
        entry.verdict = Some(VerdictWord::Allow);
        entry.host = Some(host.into());
        entry.port = Some(443);
        entry.reason = reason;
        entry.findings = finding.into_iter().map(Into::into).collect();
        entry
    }

    #[test]
    fn what_failed_is_told_once_with_what_helps() {
        let summary = Summary::default();
        for _ in 0..2 {
            summary.note(&ended("git.test", Some(DenyReason::TlsCertificate), None));
        }
        let mut refused = ended("db.test", Some(DenyReason::ConnectionRefused), None);
        refused.dst_ip = Some(IpAddr::from([203, 0, 113, 7]));
        summary.note(&refused);
        summary.note(&ended("no.test", Some(DenyReason::NameNotResolved), None));
        summary.note(&ended("ok.test", None, None));
        summary.note(&ended(
            "cut.test",
            Some(DenyReason::RequestIncomplete),
            None,
        ));
        let text = summary.text(&RulesFrom::default()).unwrap();
        assert_eq!(
            text,
            "gig: failed during this run\n\
             \x20 db.test:443  connection_refused at 203.0.113.7\n\
             \x20 git.test:443  tls_certificate  (2 times)\n\
             \x20     the origin's certificate is not trusted for this host; --upstream-ca adds an authority\n\
             \x20 no.test:443  name_not_resolved\n\
             \x20     this host's resolver has no address for that name\n"
        );
    }

    #[test]
    fn what_the_hosts_own_proxy_did_is_told_as_its_doing() {
        for (finding, said) in [
            (ProxyFault::Unreached, "is not reached: start it"),
            (
                ProxyFault::Answered(407),
                "answered 407 in place of a tunnel",
            ),
            (ProxyFault::Broken, "did not answer in HTTP"),
        ] {
            let summary = Summary::default();
            let lost = Some(DenyReason::DestinationUnavailable);
            summary.note(&ended("a.test", lost, Some(&finding.to_string())));
            let text = summary.text(&RulesFrom::default()).unwrap();
            assert!(
                text.contains("a.test:443  destination_unavailable\n"),
                "{text}"
            );
            assert!(text.contains(said), "{text}");
        }
    }

    #[test]
    fn who_does_not_trust_the_runs_authority_is_told_where_it_is() {
        let summary = Summary::default();
        summary.note(&ended("git.test", None, Some(CLIENT_DISTRUSTS)));
        summary.note(&ended("git.test", None, Some(CLIENT_DISTRUSTS)));
        let text = summary.text(&RulesFrom::default()).unwrap();
        assert!(
            text.contains("git.test:443  tls_client_distrusts  (2 times)\n"),
            "{text}"
        );
        assert!(text.contains("/etc/gig-ca.pem"), "{text}");
        assert!(text.contains("--allow tls:git.test:443 "), "{text}");
        assert!(!text.contains("denied"), "{text}");
        let from = RulesFrom {
            document: Some("agent.yaml".into()),
            ..RulesFrom::default()
        };
        let text = summary.text(&from).unwrap();
        assert!(
            text.contains("tls: passthrough for git.test:443 in agent.yaml\n"),
            "{text}"
        );
    }
}
