//! Two sandboxes of one appliance, and beside one of them a program that nothing confines, root in a user namespace of
//! its own: it gets nothing, and is written down nowhere, as the other.

use gig_tests::lab::{Lab, http_origin::greet, network::text};
use serde_json::Value;

use crate::{beside::Beside, foreign::appliance::Appliance};

const NEIGHBOURS: &str = "neighbour.example.com";
const NOBODYS: &str = "version: 1\negress: []\n";

/// Of `server`: its first record, which says who and where it is.
fn start_of(appliance: &Appliance<'_>, server: &str) -> Value {
    appliance.until("its start is recorded", || {
        let starts = appliance.records("event=sandbox.start");
        starts.into_iter().find(|start| start["server"] == server)
    })
}

fn start(appliance: &Appliance<'_>, server: &str, policy: &str, script: &str) -> Value {
    let words = [
        "server", "add", server, "--policy", policy, "--", "/bin/sh", "-c", script,
    ];
    appliance.does(&words);
    appliance.does(&["server", "start", server]);
    start_of(appliance, server)
}

#[test]
fn its_own_root_is_not_its_neighbour() {
    let lab = Lab::new();
    let origin = lab.https(NEIGHBOURS, greet);
    let address = origin.raw().address().ip().to_string();
    let policy = format!("version: 1\negress:\n  - {{host: {NEIGHBOURS}}}\n");
    let beside = Beside::new(&lab);
    let appliance = Appliance::start(&lab, &policy);
    let document = lab.file("none.yaml", NOBODYS);
    appliance.does(&["policy", "apply", "none", &text(&document)]);
    // It answers to what comes back in its name, were anything to come.
    let neighbour = start(&appliance, "neighbour", "web", "exec sleep 1000");
    let at = neighbour["src"].as_str().expect("its address");
    let at = at.rsplit_once(':').expect("a port").0;
    beside.go(&[
        ("LAB_ACT", "spoofs"),
        ("LAB_HOST", NEIGHBOURS),
        ("LAB_ADDRESS", &address),
        ("LAB_OTHER", at),
    ]);
    let own = start(&appliance, "own", "none", "exec sleep 1000");
    let said = beside.said();
    let mut lines = said.lines().filter(|line| *line != "END");
    assert!(
        said.lines().count() >= 5 && lines.all(|line| line.contains(": refused: ")),
        "{said}"
    );
    // Its own name is its own, and what that may not is written down as its.
    assert_eq!(origin.raw().wire_octets(), 0, "{said}");
    let records = |of: &Value, more: &str| {
        let id = of["sandbox"].as_str().expect("an id");
        appliance.records(&format!("sandbox={id}&{more}"))
    };
    let denied = records(&own, "verdict=deny");
    assert!(!denied.is_empty(), "{said}");
    for record in &denied {
        assert_eq!(record["reason"], "host_not_allowed", "{record}");
        assert_eq!(record["host"], NEIGHBOURS, "{record}");
    }
    for event in ["dns", "connect", "request"] {
        let heard = records(&neighbour, &format!("event={event}"));
        assert!(heard.is_empty(), "{heard:?}");
    }
}
