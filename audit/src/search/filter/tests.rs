//! What a filter matches, and that the index and the quick tests never disagree with it.

use std::sync::Arc;

use proptest::prelude::*;

use super::*;
use crate::{
    chain::{Head, Stamp, seal},
    entry::{Entry, VerdictWord},
    event::Event,
    search::term::terms_of,
};

fn row(host: &str) -> Row {
    Row {
        time: "2026-11-21T09:30:00.000001Z".into(),
        event: "request".into(),
        host: Some(host.into()),
        status: Some(403),
        path: Some("/acme/Widgets.git/info".into()),
        ..Row::default()
    }
}

fn hosts(wanted: &[&str]) -> Filter {
    Filter {
        host: wanted.iter().map(|host| (*host).to_owned()).collect(),
        ..Filter::default()
    }
}

#[test]
fn a_host_is_one_name_and_a_star_is_all_below_but_not_the_name_itself() {
    assert!(hosts(&["api.example.com"]).matches(&row("API.example.com")));
    assert!(hosts(&["*.example.com"]).matches(&row("a.b.example.com")));
    assert!(!hosts(&["*.example.com"]).matches(&row("example.com")));
    assert!(!hosts(&["*.example.com"]).matches(&row("badexample.com")));
    assert!(hosts(&["x.net", "*.com"]).matches(&row("api.example.com")));
    assert!(Filter::default().matches(&row("anything")));
}

#[test]
fn times_statuses_and_words_are_matched() {
    let at = |since: Option<&str>, until: Option<&str>| Filter {
        since: since.map(str::to_owned),
        until: until.map(str::to_owned),
        ..Filter::default()
    };
    let row = row("a");
    assert!(at(Some("2026-11-21T09:30:00.000001Z"), None).matches(&row));
    assert!(!at(None, Some("2026-11-21T09:30:00.000001Z")).matches(&row));
    let status = |status: &str| Filter {
        status: vec![status.to_owned()],
        ..Filter::default()
    };
    assert!(status("4xx").matches(&row) && status("403").matches(&row));
    assert!(!status("5xx").matches(&row) && !status("40").matches(&row));
    let text = |text: &str| Filter {
        text: vec![text.to_owned()],
        ..Filter::default()
    };
    assert!(text("widgets ACME").matches(&row));
    assert!(!text("widgets gadgets").matches(&row));
}

#[test]
fn words_are_found_as_paths_and_names_spell_them() {
    let mut row = row("xn--mnchen-3ya.example");
    row.path = Some("/Stra%C3%9Fe/%E6%9D%B1%E4%BA%AC".into());
    let mut terms = Vec::new();
    terms_of(&row, &mut terms);
    let is_found = |text: &str| {
        let filter = Filter {
            text: vec![text.to_owned()],
            ..Filter::default()
        };
        let proposed = filter
            .groups(Known::All)
            .iter()
            .all(|group| group.iter().any(|term| terms.contains(term)));
        assert!(proposed || !filter.matches(&row), "{text}");
        filter.matches(&row)
    };
    for text in ["straße", "Straße", "münchen.example", "東京 MÜNCHEN"] {
        assert!(is_found(text), "{text}");
    }
    for text in ["straßen", "strae", "köln", "münchen köln"] {
        assert!(!is_found(text), "{text}");
    }
}

fn texts() -> impl Strategy<Value = Option<Arc<str>>> {
    let word = prop_oneof![
        Just("api.example.com"),
        Just("b.api.example.com"),
        Just("example.com"),
        Just("ünï\"code\\.example"),
        Just("/a/b"),
        Just("\u{1b}[2J"),
    ];
    proptest::option::of(word.prop_map(Into::into))
}

proptest! {
    /// Whatever a filter matches, the index proposes and the quick test lets pass.
    #[test]
    fn nothing_that_matches_is_missed(
        host in texts(), path in texts(), rule in texts(), request in texts(),
        conn in proptest::option::of(0_u64..3), status in proptest::option::of(200_u16..205),
        asked in texts(), asked_rule in texts(), asked_conn in proptest::option::of(0_u64..3),
        class in any::<bool>(), star in any::<bool>(),
    ) {
        let mut entry = Entry::new(Event::Request);
        (entry.host, entry.path, entry.rule) = (host, path, rule);
        (entry.request, entry.conn, entry.status) = (request, conn, status);
        entry.verdict = Some(VerdictWord::Deny);
        let node: Arc<str> = "n".into();
        let stamp = Stamp { time: "2026-11-21T09:30:00.000001Z", node: &node };
        let mut line = Vec::new();
        seal(Head::START, entry, stamp, &mut line);
        let row = Row::read(std::str::from_utf8(&line).unwrap()).unwrap();
        let mut filter = Filter { verdict: vec!["deny".into()], ..Filter::default() };
        if let Some(asked) = asked {
            filter.host = vec![if star { format!("*.{asked}") } else { asked.to_string() }];
        }
        filter.rule.extend(asked_rule.map(|rule| rule.to_string()));
        filter.conn.extend(asked_conn.map(|conn| conn.to_string()));
        if class { filter.status = vec!["2xx".into()]; }
        let mut terms = Vec::new();
        terms_of(&row, &mut terms);
        let groups = filter.groups(Known::All);
        let proposed = groups.iter().all(|group| group.iter().any(|term| terms.contains(term)));
        if filter.matches(&row) {
            prop_assert!(proposed);
            prop_assert!(filter.needles().may_match(&line));
        } else {
            prop_assert!(!proposed, "these fields are matched by their terms alone");
        }
    }
}

#[test]
fn an_alarm_is_what_people_are_called_for() {
    let alarms = Filter {
        alarm: true,
        ..Filter::default()
    };
    let of = |event: &str, verdict: Option<&str>| Row {
        event: event.to_owned(),
        verdict: verdict.map(str::to_owned),
        ..row("a.example")
    };
    assert!(alarms.matches(&of("secret.misuse", Some("deny"))));
    assert!(alarms.matches(&of("finding", Some("deny"))));
    assert!(alarms.matches(&of("audit.gap", None)));
    assert!(!alarms.matches(&of("finding", None)), "it waits");
    assert!(!alarms.matches(&of("request", Some("deny"))));
    assert!(alarms.needles().may_match(b"{\"event\":\"audit.gap\"}"));
    assert!(!alarms.needles().may_match(b"{\"event\":\"request\"}"));
    assert_eq!(alarms.groups(Known::All).len(), 1);
}

#[test]
fn a_status_is_a_number_or_a_class() {
    for (text, kept) in [("403", "403"), ("007", "7"), ("4xx", "4xx"), ("0", "0")] {
        assert_eq!(status(text).as_deref(), Some(kept));
    }
    for text in ["", "9xx", "0xx", "44xx", "xx", "1000", "-1", "+4", "ok"] {
        assert_eq!(status(text), None, "{text}");
    }
}

#[test]
fn a_host_is_looked_for_as_the_record_has_it() {
    for (text, kept) in [
        ("API.example.com.", "api.example.com"),
        ("*.Example.com.", "*.example.com"),
        ("m\u{fc}nchen.example", "xn--mnchen-3ya.example"),
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8::1", "[2001:db8::1]"),
        ("[2001:db8::1]", "[2001:db8::1]"),
        // What a program asked for may be no host.
        ("[value of TOK].example", "[value of TOK].example"),
        ("a_b.", "a_b"),
    ] {
        assert_eq!(host(text).as_deref(), Ok(kept), "{text}");
    }
    for text in [
        "api.example.com:443",
        "https://api.example.com/",
        ".example.com",
    ] {
        assert!(host(text).is_err(), "{text}");
    }
}

#[test]
fn an_id_and_an_address_are_found_by_words_and_by_the_index_of_their_fields() {
    let (id, request) = (
        "0193b4a2-7c1e-7a52-9f3b-2c4d5e6f7a8b",
        "00ff00ff00ff00ff-a1",
    );
    let mut row = row("a.example");
    row.sandbox = Some(id.into());
    row.request = Some(request.into());
    row.src = Some("[::ffff:10.200.0.2]:40000".into());
    let mut terms = Vec::new();
    terms_of(&row, &mut terms);
    let of = |text: &str| Filter {
        text: vec![text.to_owned()],
        ..Filter::default()
    };
    let proposed = |filter: &Filter, known| {
        let groups = filter.groups(known);
        groups
            .iter()
            .all(|group| group.iter().any(|term| terms.contains(term)))
    };
    for text in [
        id,
        request,
        "10.200.0.2",
        "acme 10.200.0.2",
        &format!("{request} widgets"),
    ] {
        assert!(of(text).matches(&row), "{text}");
        assert!(proposed(&of(text), Known::All), "{text}");
    }
    for text in [
        "10.200.0.3",
        "0193b4a2-7c1e-7a52-9f3b-2c4d5e6f7a8c",
        "00ff00ff00ff00ff-a",
        &format!("{id} gadgets"),
    ] {
        assert!(!of(text).matches(&row), "{text}");
        assert!(!proposed(&of(text), Known::All), "{text}");
    }
    let from = |src: &str| Filter {
        src: vec![source(src).unwrap()],
        ..Filter::default()
    };
    let line = br#"{"src":"[::ffff:10.200.0.2]:40000","host":"a.example"}"#;
    assert!(from("10.200.0.2").matches(&row) && proposed(&from("10.200.0.2"), Known::All));
    assert!(from("10.200.0.2").needles().may_match(line));
    assert!(!from("10.200.0.20").matches(&row) && !from("10.200.0.20").needles().may_match(line));
    assert!(!from("10.200.0.3").matches(&row) && !proposed(&from("10.200.0.3"), Known::All));
    // What the index does not know is looked at.
    assert!(
        proposed(&from("10.200.0.2"), Known::Deeds) && proposed(&from("10.200.0.2"), Known::Old)
    );
    assert!(source("10.200.0.2:80").is_err() && source("a.example").is_err());
    row.src = None;
    assert!(!from("10.200.0.2").matches(&row));
}
