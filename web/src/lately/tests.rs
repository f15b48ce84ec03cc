//! What the overview says of counts.

use gig_audit::counts::Extent;

use super::*;

fn host(host: &str, allowed: u64, first: &str, known_before: bool) -> HostCount {
    HostCount {
        host: host.to_owned(),
        server: "docs".to_owned(),
        allowed,
        denied: 1,
        would_deny: 1,
        first: first.to_owned(),
        last: first.to_owned(),
        known_before,
    }
}

#[test]
fn counts_stand_in_their_hour_and_new_hosts_are_the_newest_first() {
    let count = |hour: &str, verdict: &str, count| HourCount {
        hour: hour.to_owned(),
        server: "docs".to_owned(),
        verdict: verdict.to_owned(),
        count,
    };
    let decided = Decided {
        hours: vec![
            count("2026-11-21T08", "allow", 2_000_000),
            count("2026-11-21T08", "would_deny", 3),
            count("2026-11-21T09", "deny", 4),
        ],
        hosts: vec![
            host("old.example", 9, "2026-11-16T10:00:00.000000Z", true),
            host("a.example", 5, "2026-11-17T10:00:00.000000Z", false),
            host("b.example", 1, "2026-11-20T10:30:00.000000Z", false),
        ],
        ..Decided::default()
    };
    let hours = ["2026-11-21T08", "2026-11-21T09"].map(str::to_owned);
    let lately = Lately::of(&decided, &hours, "2026-11-15");
    let [eight, nine] = lately.hours.as_slice() else {
        panic!("hours")
    };
    assert_eq!(
        (eight.begins.as_str(), eight.allowed, eight.would_deny),
        ("2026-11-21 08:00", 2_000_000, 3)
    );
    assert_eq!((nine.denied, nine.sum()), (4, 4));
    let names =
        |all: &[Destination]| -> Vec<String> { all.iter().map(|one| one.host.clone()).collect() };
    assert_eq!(names(&lately.busiest)[0], "old.example");
    assert_eq!(lately.busiest[0].denied, 2);
    assert_eq!(names(&lately.new), ["b.example", "a.example"]);
    assert_eq!(lately.new[0].first, "2026-11-20 10:30");
    assert!(lately.notes.is_empty());
}

#[test]
fn who_asks_for_new_names_without_end_hides_nobody_elses() {
    let mut hosts: Vec<HostCount> = (0..100)
        .map(|n| {
            let time = format!("2026-11-20T10:{:02}:00.000000Z", n % 60);
            host(&format!("n{n}.example"), 0, &time, false)
        })
        .collect();
    let of = |server: &str, name: &str, allowed| HostCount {
        server: server.to_owned(),
        ..host(name, allowed, "2026-11-15T10:00:00.000000Z", false)
    };
    hosts.push(of("docs", "went.example", 1));
    hosts.push(of("calm", "calm.example", 0));
    hosts.push(host("old.example", 9, "2026-11-20T11:00:00.000000Z", true));
    let decided = Decided {
        hosts,
        ..Decided::default()
    };
    let lately = Lately::of(&decided, &[], "2026-11-15");
    let names: Vec<&str> = lately.new.iter().map(|one| one.host.as_str()).collect();
    assert_eq!(names[0], "went.example", "what went out comes first");
    assert!(names.contains(&"calm.example"), "{names:?}");
    assert_eq!((names.len(), lately.more_new), (LISTED, 102 - LISTED));
    assert_eq!(lately.more_busy, 103 - LISTED);
}

#[test]
fn what_is_forgotten_soon_is_said_to_be_new_again() {
    assert_eq!((forgotten(None), forgotten(Some(90))), (None, None));
    assert!(forgotten(Some(7)).unwrap().contains("for 7 days"));
}

#[test]
fn a_record_that_does_not_answer_is_asked_once_and_keeps_nobody_for_long() {
    let lab = crate::app::tests::Lab::new();
    // There is none yet.
    assert_eq!(
        lately(&lab.app).unwrap_err().status(),
        StatusCode::INTERNAL_SERVER_ERROR
    );
    let again = lately(&lab.app).unwrap_err();
    assert_eq!(
        again.status(),
        StatusCode::SERVICE_UNAVAILABLE,
        "it is not read again"
    );
    let held = lab.app.lately.lock();
    let begun = std::thread::spawn({
        let app = Arc::clone(&lab.app);
        move || lately(&app).map(drop).unwrap_err().status()
    });
    assert_eq!(begun.join().unwrap(), StatusCode::SERVICE_UNAVAILABLE);
    drop(held);
}

#[test]
fn what_is_left_out_is_said() {
    let mut decided = Decided {
        other_names: 12,
        ..Decided::default()
    };
    assert!(notes(&decided, "2026-11-15")[0].starts_with("12 decisions"));
    decided.extent = Extent {
        since: Some("2026-11-20T10:30:00.000000Z".to_owned()),
        behind: 5,
        cut: false,
    };
    let told = notes(&decided, "2026-11-15").join(" ");
    assert!(
        told.contains("since 2026-11-20 10:30 is counted yet"),
        "{told}"
    );
    assert!(told.contains("5 new records"), "{told}");
    let told = notes(&decided, "2026-11-21").join(" ");
    assert!(told.contains("may be called new"), "{told}");
}
