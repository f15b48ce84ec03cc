//! The summary tells what the record holds, once, with what helps.

use gig_proxy::credential::misuse::{Literal, OF_ANOTHER_RUN};

use super::*;

fn denial(host: &str, port: Option<u16>, reason: DenyReason) -> Entry {
    let mut entry = Entry::new(Event::Connect);
    entry.verdict = Some(VerdictWord::Deny);
    entry.host = Some(host.into());
    entry.port = port;
    entry.reason = Some(reason);
    entry
}

#[test]
fn a_quiet_run_has_no_summary() {
    let summary = Summary::default();
    let mut allowed = denial("a.example", None, DenyReason::HostNotAllowed);
    allowed.verdict = Some(VerdictWord::Allow);
    summary.note(&allowed);
    assert_eq!(summary.text(&RulesFrom::default()), None);
}

#[test]
fn the_end_of_the_run_denied_nothing() {
    let summary = Summary::default();
    summary.note(&denial("a.example", None, DenyReason::ShuttingDown));
    assert_eq!(summary.text(&RulesFrom::default()), None);
}

#[test]
fn each_destination_stands_once_with_its_cure() {
    let summary = Summary::default();
    for _ in 0..3 {
        summary.note(&denial("a.example", Some(8443), DenyReason::PortNotAllowed));
    }
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert!(
        text.contains("a.example:8443  port_not_allowed  (3 times)"),
        "{text}"
    );
    assert!(text.contains("--allow a.example:8443"), "{text}");
}

/// What refused nothing and put nothing in leaves a program with a wrong password.
#[test]
fn a_sentinel_that_went_as_it_is_is_told_with_what_would_put_the_value_in() {
    let summary = Summary::default();
    let ended = |host: &str, port, verdict, finding: &str| {
        let mut entry = denial(host, Some(port), DenyReason::SecretMisuse);
        entry.event = Event::Response;
        entry.verdict = Some(verdict);
        entry.reason = None;
        entry.findings = vec![finding.into()];
        entry
    };
    let stream = "sentinel of PW in the stream (plain)";
    for _ in 0..2 {
        summary.note(&ended("db.test", 5432, VerdictWord::Allow, stream));
    }
    let json = "sentinel of KEY in JSON body (plain)";
    summary.note(&ended("a.test", 443, VerdictWord::Allow, json));
    let unplaced = format!("{json}, where the policy does not take it");
    summary.note(&ended("b.test", 443, VerdictWord::Allow, &unplaced));
    let binary = "sentinel of KEY in a part that is no text, where no value goes";
    summary.note(&ended("b.test", 443, VerdictWord::Allow, binary));
    for (host, why) in [("c.test", Literal::NoText), ("d.test", Literal::AwsChunks)] {
        let told = format!("sentinel of KEY in body (plain), {}", why.told());
        summary.note(&ended(host, 443, VerdictWord::Allow, &told));
    }
    let kept = format!("sentinel of another run in header authorization, {OF_ANOTHER_RUN}");
    summary.note(&ended("e.test", 443, VerdictWord::Allow, &kept));
    // Neither of these went as a sentinel.
    summary.note(&ended("no.test", 443, VerdictWord::Deny, json));
    summary.note(&ended(
        "c.test",
        443,
        VerdictWord::Allow,
        "secret KEY version 1",
    ));
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert_eq!(
        text,
        "gig: went out as sentinels during this run, with no value put in\n\
         \x20 a.test:443  KEY in JSON body (plain)\n\
         \x20     if it belongs there, bind it: --secret KEY@a.test:443, or under `secrets` of its rule\n\
         \x20 b.test:443  KEY in JSON body (plain), where the policy does not take it\n\
         \x20     if it belongs there, add the place to `in` of KEY (--secret KEY:PLACE@b.test:443)\n\
         \x20 b.test:443  KEY in a part that is no text, where no value goes\n\
         \x20     only text is looked into for where a value goes\n\
         \x20 c.test:443  KEY in body (plain), where no value goes: it is no text\n\
         \x20     it is bound there, but no value is put into what is no text: have the program send it as JSON, a \
         form or text, or in a header field (gRPC: metadata)\n\
         \x20 d.test:443  KEY in body (plain), where no value goes: it is sent in chunks of AWS's own\n\
         \x20     it is bound there, but no value is put into an upload in chunks: have the SDK send it in one piece, \
         --env AWS_REQUEST_CHECKSUM_CALCULATION=when_required (boto3: \
         Config(request_checksum_calculation='when_required'))\n\
         \x20 db.test:5432  PW in the stream (plain)  (2 times)\n\
         \x20     gig opens nothing there; if the program is to hold the value: gig secret set PW --entrusted, and \
         `secrets: [{name: PW, entrusted: true}]` in the rule for db.test:5432\n\
         \x20 e.test:443  another run in header authorization, which stands for nothing in this one\n\
         \x20     the program kept it in a file or setting of its own, and each run has others: have it read its \
         variable, or log it in anew in each run\n"
    );
}

#[test]
fn what_one_option_allows_stands_once() {
    let summary = Summary::default();
    let would = |event, path: Option<&str>| {
        let mut entry = denial("a.example", Some(443), DenyReason::HostNotAllowed);
        entry.event = event;
        entry.verdict = Some(VerdictWord::WouldDeny);
        entry.protocol = Some("https".into());
        entry.method = path.map(|_| "GET".into());
        entry.path = path.map(Into::into);
        entry
    };
    summary.note(&would(Event::Connect, None));
    summary.note(&would(Event::Request, Some("/one")));
    let mut failed = would(Event::Response, Some("/one"));
    failed.reason = Some(DenyReason::NameNotResolved);
    summary.note(&failed);
    let text = summary.text(&RulesFrom::default()).unwrap();
    let (text, failed) = text.split_once("gig: failed").unwrap();
    let line = "a.example:443  GET /one  would be denied: host_not_allowed\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
    assert!(
        failed.contains("a.example:443  name_not_resolved\n"),
        "{failed}"
    );
    summary.note(&would(Event::Request, Some("/two")));
    let text = summary.text(&RulesFrom::default()).unwrap();
    let (text, _) = text.split_once("gig: failed").unwrap();
    let line = "a.example:443  would be denied: host_not_allowed  (2 times)\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn who_waited_for_a_banner_is_told_which_bytes_to_allow() {
    let summary = Summary::default();
    for (host, port) in [("mail.example", 25), ("web.example", 443)] {
        let mut entry = denial(host, Some(port), DenyReason::RequestTimeout);
        entry.protocol = Some("tcp".into());
        entry.rule = Some(format!("--allow {host}:{port}").into());
        summary.note(&entry);
    }
    let text = summary.text(&RulesFrom::default()).unwrap();
    let cure = "--allow tcp:mail.example:25 (in place of --allow mail.example:25)";
    assert!(text.contains(cure), "{text}");
    assert!(!text.contains("tcp:web.example"), "{text}");
}

#[test]
fn a_denial_says_why_where_its_record_does() {
    let summary = Summary::default();
    let mut misuse = denial("evil.example", Some(443), DenyReason::SecretMisuse);
    let told = "T is bound to a.example:443, not to evil.example:443";
    misuse.findings = vec!["held".into(), gig_audit::why(told)];
    summary.note(&misuse);
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert!(text.contains(&format!("\n      {told}\n")), "{text}");
}

#[test]
fn what_passes_unopened_is_offered_no_binding() {
    let summary = Summary::default();
    let mut misuse = denial("db.example", Some(5432), DenyReason::SecretMisuse);
    misuse.protocol = Some("tcp".into());
    summary.note(&misuse);
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert!(text.contains("passes unopened"), "{text}");
    assert!(!text.contains("--secret"), "{text}");
}

#[test]
fn a_name_that_holds_a_value_is_no_place_for_one_whatever_is_spoken_there() {
    for protocol in ["https", "tcp"] {
        let summary = Summary::default();
        let host = "[value of T].example";
        let mut misuse = denial(host, Some(5432), DenyReason::SecretMisuse);
        misuse.protocol = Some(protocol.into());
        summary.note(&misuse);
        let text = summary.text(&RulesFrom::default()).unwrap();
        let words = "a host's name is no place for a secret";
        assert!(text.contains(words), "{protocol}: {text}");
    }
}

#[test]
fn a_misuse_of_a_secret_is_an_alarm_of_its_own() {
    let summary = Summary::default();
    let mut misuse = denial("evil.example", Some(443), DenyReason::SecretMisuse);
    misuse.event = Event::SecretMisuse;
    misuse.findings = vec!["sentinel of T in header x-key (hex)".into()];
    summary.note(&misuse);
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert_eq!(
        text,
        "gig: ALARM: secret misuse: sentinel of T in header x-key (hex) on its way \
         to evil.example:443, refused\n"
    );
}

#[test]
fn what_has_no_record_of_its_own_is_counted() {
    let summary = Summary::default();
    summary.note(&denial("a.example", None, DenyReason::HostNotAllowed));
    let mut folded = denial("", None, DenyReason::HostNotAllowed);
    folded.host = None;
    folded.findings = vec!["folded:400".into(), "host:b.example".into()];
    summary.note(&folded);
    summary.note(&folded);
    let mut repeated = denial("c.example", None, DenyReason::HostNotAllowed);
    repeated.findings = vec!["repeated:4".into()];
    summary.note(&repeated);
    let text = summary.text(&RulesFrom::default()).unwrap();
    assert!(
        text.contains(
            "and 800 more without a record each: host_not_allowed, among them b.example\n"
        ),
        "{text}"
    );
    assert!(
        text.contains("c.example  host_not_allowed  (4 times)"),
        "{text}"
    );
}

#[test]
fn a_hostile_name_cannot_write_to_the_terminal() {
    assert_eq!(shown("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
}

#[test]
fn a_look_up_of_the_sandboxs_own_name_asks_for_no_rule() {
    let summary = Summary::default();
    let own = gig_sandbox::NAME;
    summary.note(&denial(own, None, DenyReason::HostNotAllowed));
    assert_eq!(summary.text(&RulesFrom::default()), None);
    summary.note(&denial(own, Some(80), DenyReason::HostNotAllowed));
    assert!(summary.text(&RulesFrom::default()).is_some());
}
