//! The record as it is searched and listed: words that none can have, alarms, whom a list leads where, what was refused.

use gig_audit::{Entry, Event, VerdictWord};

use gig_policy::SandboxId;

use super::{console::signed_in, furnished::Furnished};
use crate::store::Change;

fn record(event: Event, verdict: Option<VerdictWord>, host: &str) -> Entry {
    let mut entry = Entry::new(event);
    (entry.verdict, entry.host) = (verdict, Some(host.into()));
    entry
}

#[tokio::test]
async fn a_word_that_no_record_can_have_is_refused_with_those_there_are() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    for (query, named) in [
        ("verdict=denied", "allow, deny, would_deny"),
        ("event=requests", "connect, request, response"),
        ("reason=foo", "host_not_allowed"),
        ("status=9xx", "403, 4xx"),
        ("alarm=no", "true"),
        ("host=api.example.com:443", "without scheme"),
        ("host=https://api.example.com/", "without scheme"),
        ("text=...", "letters or digits"),
        ("since=2026-11-22&until=2026-11-21", "not before"),
    ] {
        for path in ["/api/v1/audit", "/api/v1/audit/export/csv"] {
            let found = appliance.page(&format!("GET {path}?{query}"), admin).await;
            assert_eq!(found.status, 400, "{path} {query}: {}", found.body);
            assert!(found.body.contains(named), "{path} {query}: {}", found.body);
        }
        let page = appliance.page(&format!("GET /audit?{query}"), admin).await;
        assert!(page.body.contains(named), "{query}: {}", page.body);
        assert!(!page.body.contains("No record matches"), "{query}");
    }
    for (path, query, named) in [
        ("/api/v1/audit", "limit=0", "1 to 500"),
        ("/api/v1/audit", "limit=501", "1 to 500"),
        ("/api/v1/audit/export/csv", "limit=2", "everything"),
        ("/api/v1/audit/export/csv", "cursor=1:20", "everything"),
    ] {
        let found = appliance.page(&format!("GET {path}?{query}"), admin).await;
        assert_eq!(found.status, 400, "{path} {query}: {}", found.body);
        assert!(found.body.contains(named), "{path} {query}: {}", found.body);
    }
    for query in [
        "verdict=deny",
        "event=request",
        "reason=&status=",
        "status=4xx",
        "limit=500",
    ] {
        let found = appliance
            .page(&format!("GET /api/v1/audit?{query}"), admin)
            .await;
        assert_eq!(found.status, 200, "{query}: {}", found.body);
    }
    let document = appliance
        .page("GET /api/v1/openapi.json", admin)
        .await
        .json();
    let asked = document
        .pointer("/paths/~1api~1v1~1audit/get/parameters")
        .unwrap();
    let of = |name: &str| {
        let mut all = asked.as_array().unwrap().iter();
        let one = all.find(|one| one["name"] == name).unwrap();
        one["schema"]["enum"].as_array().map(Vec::len)
    };
    // And none.
    assert_eq!(of("verdict"), Some(4));
    // And all of traffic together.
    assert_eq!(of("event"), Some(Event::ALL.len() + 2));
    assert!(of("reason").unwrap() > 10);
}

#[tokio::test]
async fn what_the_overview_shows_twice_is_one_number() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let outcome = record(Event::Response, Some(VerdictWord::Deny), "late.example");
    let asked = record(Event::Request, Some(VerdictWord::Deny), "denied.example");
    let let_go = record(Event::Request, Some(VerdictWord::Allow), "late.example");
    appliance.record([let_go, outcome, asked]).await;
    let overview = appliance.page("GET /", &cookies[1]).await.body;
    let number = |behind: &str, before: &str| -> u64 {
        let text = overview.split(before).next().unwrap();
        let (_, text) = text.rsplit_once(behind).unwrap();
        let number = text.split('<').next().and_then(|text| text.parse().ok());
        number.unwrap_or_else(|| panic!("{text}: {overview}"))
    };
    for word in ["allowed", "denied"] {
        let tile = number("<b>", &format!(">{word} in the last 24 hours"));
        let chart = overview.split("Decisions of the last 24 hours: ").nth(1);
        let chart = chart.and_then(|words| words.split(&format!(" {word}")).next());
        let chart = chart.and_then(|words| words.rsplit(' ').next()).unwrap();
        assert_eq!(tile.to_string(), chart, "{word}");
        assert!(tile > 0, "{word}: {overview}");
    }
    // Who reads no record has no chart.
    let viewer = appliance.page("GET /", &cookies[0]).await.body;
    assert!(viewer.contains("denied since start"), "{viewer}");
    assert!(!viewer.contains("last 24 hours"), "{viewer}");
}

#[tokio::test]
async fn alarms_are_counted_on_the_overview_and_found_alone() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let mut waits = record(Event::Finding, None, "waits.example");
    waits.findings = vec!["held".into()];
    waits.reason = Some(gig_policy::DenyReason::HostNotAllowed);
    let misuse = record(
        Event::SecretMisuse,
        Some(VerdictWord::Deny),
        "misuse.example",
    );
    appliance.record([misuse, waits]).await;
    let overview = appliance.page("GET /", &cookies[1]).await;
    let tile = "<a href=\"/audit?alarm=true\">alarms since start</a>";
    assert!(overview.body.contains(tile), "{}", overview.body);
    let viewer = appliance.page("GET /", &cookies[0]).await;
    assert!(!viewer.body.contains(tile), "reads no record");
    let found = appliance.page("GET /audit?alarm=true", &cookies[1]).await;
    assert!(found.body.contains("misuse.example"), "{}", found.body);
    assert!(
        !found.body.contains("waits.example"),
        "it waits, and is none"
    );
    let found = appliance
        .page("GET /audit?event=finding", &cookies[1])
        .await;
    assert!(
        found.body.contains("held: host_not_allowed"),
        "{}",
        found.body
    );
}

#[tokio::test]
async fn a_list_leads_to_no_sandbox_that_is_not_there_for_who_reads_it() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let link = appliance.filled("href=\"/sandboxes/{sandbox}\"");
    for (place, leads) in [(2, false), (4, true)] {
        let page = appliance
            .page("GET /audit?verdict=deny", &cookies[place])
            .await;
        assert!(page.body.contains("<td class=\"who\""), "{}", page.body);
        assert_eq!(page.body.contains(&link), leads, "{place}: {}", page.body);
    }
}

#[tokio::test]
async fn what_another_site_sent_is_recorded_as_that_and_hidden_by_no_wrong_role() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    for (cookie, origin) in [
        (&cookies[0], "http://127.0.0.1"),
        (&cookies[4], "http://evil.example"),
    ] {
        let fields = [
            ("cookie", cookie.as_str()),
            ("origin", origin),
            ("content-type", "application/x-www-form-urlencoded"),
        ];
        let sent = appliance
            .send("POST /policies", &fields, "name=fresh")
            .await;
        assert_eq!(sent.status, 403, "{}", sent.body);
    }
    let records = appliance.lab.log.records().into_iter();
    let told: Vec<_> = records
        .filter_map(|record| Some(record.entry.findings.first()?.to_string()))
        .filter(|found| found.starts_with("refused"))
        .collect();
    let wanted = [
        "refused by role: POST /policies",
        "refused as from another site: POST /policies",
    ];
    assert_eq!(told, wanted);
}

/// Where a page leads.
fn leads(page: &str, to: &str) -> bool {
    page.contains(&format!("href=\"{to}\""))
}

#[tokio::test]
async fn a_record_leads_to_its_sandbox_its_server_its_limit_and_what_changed() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    let get = async |what: &str| appliance.page(&format!("GET {what}"), admin).await;
    let page = get(&format!("/audit/{}", appliance.record)).await.body;
    assert!(
        leads(&page, &format!("/sandboxes/{}", appliance.sandbox)),
        "{page}"
    );
    assert!(leads(&page, "/servers/docs"), "{page}");
    let mut over = record(Event::Request, Some(VerdictWord::Deny), "a.example");
    over.reason = Some(gig_policy::DenyReason::ConnectionLimit);
    (over.policy, over.policy_version) = (Some("p".into()), Some(2));
    over.server = Some("gone".into());
    let mut changed = Entry::new(Event::PolicyChange);
    (changed.policy, changed.policy_version) = (Some("p".into()), Some(2));
    appliance.record([over, changed]).await;
    let newest = async |query: &str| {
        let found = get(&format!("/api/v1/audit?limit=1&{query}")).await.json();
        let id = found["records"][0]["id"].as_str().unwrap().to_owned();
        get(&format!("/audit/{id}")).await.body
    };
    let page = newest("reason=connection_limit").await;
    let limit = "/policies/p/versions/2?rule=limits.connections#rule";
    assert!(page.contains("The limit that it was over"), "{page}");
    assert!(
        leads(&page, limit) && !leads(&page, "/servers/gone"),
        "{page}"
    );
    let version = get("/policies/p/versions/2?rule=limits.connections")
        .await
        .body;
    assert!(version.contains("64 is gig&#39;s own"), "{version}");
    let page = newest("event=policy.change").await;
    assert!(leads(&page, "/policies/p/versions/2#changed"), "{page}");
    let version = get("/policies/p/versions/2").await.body;
    assert!(version.contains("id=\"changed\""), "{version}");
}

#[tokio::test]
async fn a_start_that_failed_leads_to_no_sandbox_and_a_sandbox_to_no_server_that_is_gone() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let admin = &cookies[4];
    let get = async |what: &str| appliance.page(&format!("GET {what}"), admin).await.body;
    let own = format!("/sandboxes/{}", appliance.sandbox);
    assert!(leads(&get(&own).await, "/servers/docs"));
    let never = "01890000-0000-7000-8000-00000000dead";
    let asked = |sandbox: &str, words: &str| {
        let mut entry = Entry::new(Event::Admin);
        entry.profile = Some("ana".into());
        entry.server = Some("docs".into());
        entry.sandbox = Some(SandboxId::new(sandbox.parse().unwrap()));
        entry.findings = vec![words.into()];
        entry
    };
    appliance
        .record([
            asked(&appliance.sandbox, "sandbox start asked for"),
            asked(never, "sandbox start asked for"),
            asked(never, "sandbox not started: it cannot"),
        ])
        .await;
    let list = get("/audit?event=admin&server=docs").await;
    assert!(list.contains("not started: it cannot"), "{list}");
    assert!(leads(&list, &own), "{list}");
    let nowhere = format!("/sandboxes/{never}");
    assert!(!leads(&list, &nowhere), "{list}");
    let found = get(&format!("/api/v1/audit?sandbox={never}")).await;
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    let records = found["records"].as_array().unwrap();
    assert_eq!(records.len(), 2, "{found}");
    for one in records {
        let page = get(&format!("/audit/{}", one["id"].as_str().unwrap())).await;
        assert!(page.contains(never) && !leads(&page, &nowhere), "{page}");
    }
    appliance
        .lab
        .make(&Change::remove_server("docs".to_owned()));
    let page = get(&own).await;
    assert!(page.contains("registered no longer"), "{page}");
    assert!(!leads(&page, "/servers/docs"), "{page}");
}

#[tokio::test]
async fn what_is_wrong_with_a_search_is_told_beside_its_form() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    for query in ["verdict=maybe", "hosst=a", "host=a&host=b", "limit=zz"] {
        for page in ["/audit", "/live"] {
            let what = format!("GET {page}?{query}");
            let shown = appliance.page(&what, &cookies[4]).await;
            assert_eq!(shown.status, 400, "{what}: {shown:?}");
            for part in ["<form class=\"card\" method=\"get\"", "role=\"alert\""] {
                assert!(shown.body.contains(part), "{what}: {}", shown.body);
            }
        }
    }
    // What would be put in force for all, if a word that is none were passed over.
    for what in [
        "GET /policies/p/assign?team=x",
        "GET /policies/p/unassign?team=x",
        "GET /policies/p/floor?act=set&team=x",
    ] {
        let shown = appliance.page(what, &cookies[4]).await;
        assert_eq!(shown.status, 400, "{what}: {shown:?}");
    }
}

#[tokio::test]
async fn traffic_is_what_programs_asked_for_and_nothing_else() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let asked = [Event::Dns, Event::Connect];
    let asked = asked.map(|event| record(event, Some(VerdictWord::Allow), "a.example"));
    let others = [Event::Response, Event::Finding, Event::Admin, Event::Auth];
    let others = others.map(|event| record(event, Some(VerdictWord::Deny), "a.example"));
    appliance.record(asked.into_iter().chain(others)).await;
    let events = async |query: &str| {
        let what = format!("GET /api/v1/audit?{query}");
        let found = appliance.page(&what, &cookies[4]).await.json();
        let records = found["records"].as_array().unwrap().clone();
        let mut events: Vec<String> = records
            .iter()
            .map(|one| one["event"].as_str().unwrap().to_owned())
            .collect();
        events.sort();
        events
    };
    assert_eq!(events("event=traffic").await, ["connect", "dns", "request"]);
    // What was let and refused behind that is denied by its outcome alone.
    let denied = events("event=traffic&verdict=deny").await;
    assert_eq!(denied, ["request", "response"]);
    assert!(events("").await.len() > 7, "there is more");
}

#[tokio::test]
async fn a_span_before_now_and_a_whole_day_are_searched() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let found = async |query: &str| {
        let what = format!("GET /audit?event=request&{query}");
        let page = appliance.page(&what, &cookies[4]).await;
        assert_eq!(page.status, 200, "{query}: {}", page.body);
        page.body.contains("new.example")
    };
    let page = appliance
        .page("GET /api/v1/audit?event=request", &cookies[4])
        .await;
    let time = page.json()["records"][0]["time"].clone();
    let day = time.as_str().unwrap().split_once('T').unwrap().0.to_owned();
    assert!(found(&format!("since={day}&until={day}")).await);
    for span in ["1h", "7d"] {
        let query = format!("since={span}");
        let is_now = found(&query).await;
        let by_api = appliance
            .page(
                &format!("GET /api/v1/audit?event=request&{query}"),
                &cookies[4],
            )
            .await;
        let by_api = !by_api.json()["records"].as_array().unwrap().is_empty();
        assert_eq!(is_now, by_api, "{span}");
    }
    // A search that is kept goes with the time.
    let form = [
        ("cookie", cookies[4].as_str()),
        ("origin", "http://127.0.0.1"),
        ("content-type", "application/x-www-form-urlencoded"),
    ];
    let kept = appliance
        .send("POST /searches", &form, "title=lately&query=since%3D1h")
        .await;
    assert_eq!(kept.headers["location"], "/audit?since=1h", "{kept:?}");
    let none = appliance.page("GET /audit?since=soon", &cookies[4]).await;
    assert_eq!(none.status, 400);
    assert!(none.body.contains("90s, 30m, 12h, 7d"), "{}", none.body);
}

#[tokio::test]
async fn a_lookalike_is_marked_in_every_list() {
    let appliance = Furnished::new().await;
    let cookies = signed_in(&appliance);
    let host = "xn--pple-43d.com";
    let denied = super::furnished::denial(&appliance.sandbox, ("ana", host, "/x"));
    appliance.record([denied]).await;
    let tag = "it looks like apple.com and is another host\">lookalike</span>";
    for page in [
        "/audit",
        "/live",
        "/",
        "/servers/docs",
        "/sandboxes/{sandbox}",
    ] {
        let shown = appliance.page(&format!("GET {page}"), &cookies[4]).await;
        assert_eq!(shown.status, 200, "{page}: {shown:?}");
        assert!(shown.body.contains(tag), "{page}: {}", shown.body);
    }
}
