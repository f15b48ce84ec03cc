//! That the text is what Prometheus reads, and that what is denied is counted under its reason.

use std::collections::{BTreeMap, BTreeSet};

use axum::body::to_bytes;
use gig_audit::{Entry, Event, VerdictWord};
use gig_policy::DenyReason;

use super::*;
use crate::app::tests::Lab;

/// Every sample by its name and labels; panics at what is no exposition (version 0.0.4).
fn read(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with('\n'));
    let is_name = |name: &str| {
        let mut letters = name.chars();
        let first = letters
            .next()
            .is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        first && letters.all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (mut samples, mut families) = (BTreeMap::new(), BTreeSet::new());
    let mut family: Option<(String, String)> = None;
    let mut helped = String::new();
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').unwrap();
            assert!(is_name(name) && !words.is_empty(), "{line}");
            assert!(families.insert(name.to_owned()), "twice: {line}");
            name.clone_into(&mut helped);
            continue;
        }
        if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(["counter", "gauge", "summary"].contains(&kind), "{line}");
            assert_eq!(name, helped, "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            family = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let value: f64 = value.parse().unwrap_or_else(|_| panic!("{line}"));
        let (name, labels) = match sample.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}').unwrap()),
            None => (sample, ""),
        };
        for pair in labels.split(',').filter(|pair| !pair.is_empty()) {
            let (label, quoted) = pair.split_once('=').unwrap();
            let value = quoted
                .strip_prefix('"')
                .and_then(|rest| rest.strip_suffix('"'));
            assert!(
                is_name(label) && !value.unwrap().contains(['"', '\\']),
                "{line}"
            );
        }
        let (family, kind) = family.as_ref().unwrap();
        let theirs = match kind.as_str() {
            "summary" => name == format!("{family}_sum") || name == format!("{family}_count"),
            _ => name == family,
        };
        assert!(theirs && value.is_finite(), "{line} below {family}");
        assert_eq!(
            samples.insert(sample.to_owned(), value),
            None,
            "twice: {line}"
        );
    }
    samples
}

async fn shown(lab: &Lab) -> BTreeMap<String, f64> {
    let app = State(Arc::clone(&lab.app));
    let answer = show(app, Caller::itself("ana")).await.unwrap();
    let octets = to_bytes(answer.into_body(), 1 << 20).await.unwrap();
    read(std::str::from_utf8(&octets).unwrap())
}

#[tokio::test]
async fn a_store_and_a_record_that_cannot_be_written_are_down() {
    let (well, lab) = (Lab::new(), Lab::new());
    let parts = [r#"gig_up{part="store"}"#, r#"gig_up{part="record"}"#];
    let told = shown(&well).await;
    assert_eq!(parts.map(|part| told[part]), [1.0, 1.0]);
    lab.store
        .read_only
        .store(true, std::sync::atomic::Ordering::SeqCst);
    lab.log.fail(true);
    let told = shown(&lab).await;
    assert_eq!(parts.map(|part| told[part]), [0.0, 0.0]);
    assert_eq!(told["gig_denials_total{reason=\"host_not_allowed\"}"], 0.0);
}

fn decided(verdict: VerdictWord, reason: Option<DenyReason>) -> Entry {
    let mut entry = Entry::new(Event::Request);
    entry.host = Some("a.example".into());
    entry.verdict = Some(verdict);
    entry.reason = reason;
    entry
}

#[tokio::test]
async fn a_denial_is_counted_under_its_reason_and_all_of_it_is_an_exposition() {
    let lab = Lab::with(&["docs"]);
    let _record = gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
    lab.control.run("docs", "p");
    let before = shown(&lab).await;
    for reason in DenyReason::ALL {
        let sample = format!("gig_denials_total{{reason=\"{}\"}}", reason.as_str());
        assert_eq!(before.get(&sample), Some(&0.0), "{sample}");
    }
    let denied = decided(VerdictWord::Deny, Some(DenyReason::HostNotAllowed));
    lab.app.traffic.count(&denied);
    lab.app.traffic.count(&decided(VerdictWord::Allow, None));
    // Observed, it went; and what a person is refused is no denial of a sandbox.
    let observed = decided(VerdictWord::WouldDeny, Some(DenyReason::HostNotAllowed));
    lab.app.traffic.count(&observed);
    let mut person = Entry::new(Event::Auth);
    person.verdict = Some(VerdictWord::Deny);
    lab.app.traffic.count(&person);
    // What has no record of its own is counted as well.
    let mut folded = decided(VerdictWord::Deny, Some(DenyReason::HostNotAllowed));
    folded.host = None;
    folded.findings = vec!["folded:4000".into(), "host:a.example".into()];
    lab.app.traffic.count(&folded);
    let after = shown(&lab).await;
    assert_eq!(
        after["gig_denials_total{reason=\"host_not_allowed\"}"],
        4001.0
    );
    let denials = after
        .iter()
        .filter(|(name, _)| name.starts_with("gig_denials_total"));
    assert_eq!(denials.map(|(_, count)| count).sum::<f64>(), 4001.0);
    for (sample, value) in [
        ("gig_decisions_total{verdict=\"deny\"}", 4001.0),
        ("gig_decisions_total{verdict=\"would_deny\"}", 1.0),
        ("gig_records_total", 5.0),
        ("gig_record_refused_total", 0.0),
        ("gig_record_queue", 0.0),
        ("gig_record_unindexed", 0.0),
        ("gig_held_requests", 0.0),
        ("gig_sandboxes", 1.0),
    ] {
        assert_eq!(after.get(sample), Some(&value), "{sample}");
    }
    let build = format!(
        "gig_build_info{{version=\"{}\"}}",
        env!("CARGO_PKG_VERSION")
    );
    assert_eq!(after.get(&build), Some(&1.0));
    // What was handed to the recorder is in its figures.
    lab.app
        .recorder
        .record(decided(VerdictWord::Allow, None))
        .await
        .unwrap();
    let groups = shown(&lab).await["gig_record_commit_seconds_count"];
    assert_eq!(groups, after["gig_record_commit_seconds_count"] + 1.0);
}
