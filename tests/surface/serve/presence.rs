//! Nodes of a fleet tell each other that they live; what ran on one that does not is told as lost, once.

use gig_tests::lab::postgres::Postgres;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{Appliance, Ask, nodes::node};

const NOTHING: &str = "version: 1\negress: []\n";

impl Appliance {
    fn listed(&self, token: &str, sandbox: &str) -> Option<Value> {
        let all = Ask::new("GET", "/api/v1/sandboxes").token(token);
        let all = all.send(self).json()["items"].as_array()?.clone();
        all.into_iter().find(|one| one["id"] == *sandbox)
    }

    fn nodes(&self, token: &str) -> Vec<Value> {
        let all = Ask::new("GET", "/api/v1/nodes").token(token).send(self);
        assert_eq!(all.status, 200, "{all:?}");
        all.json()["items"].as_array().expect("nodes").clone()
    }

    /// What was recorded of what was lost: deed, node and sandbox.
    fn lost(&self, token: &str) -> Vec<(Value, Value, Value)> {
        let found = self.records(token, "event=admin&text=lost&limit=50");
        let of = |one: &Value, field: &str| one[field].clone();
        let found = found.into_iter().filter(|one| {
            let deed = one["deed"].as_str().unwrap_or_default();
            deed.ends_with(".lost")
        });
        found
            .map(|one| (of(&one, "deed"), of(&one, "subject"), of(&one, "sandbox")))
            .collect()
    }

    /// In figures and console.
    fn shows_as_gone(&self, token: &str, name: &str) {
        let figures = Ask::new("GET", "/metrics").token(token).send(self).body;
        assert!(figures.contains("gig_nodes{state=\"gone\"} 1"), "{figures}");
        let cookie = self.first_admin();
        let page = Ask::new("GET", "/settings").cookie(&cookie).send(self).body;
        assert!(page.contains(name) && page.contains(">gone<"), "{page}");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        kill_process(Pid::from_raw(pid).expect("a pid"), signal).expect("signal it");
    }
}

#[test]
fn a_node_that_is_silent_for_a_minute_is_lost_once_and_what_it_ran_does_not_run_on() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    one.policy(&token, NOTHING);
    one.server("sleeper", "exec sleep 600");
    let sandbox = one.run("sleeper");
    two.until("it is told that it runs", |two| {
        two.listed(&token, &sandbox).is_some()
    });
    let shown = two.listed(&token, &sandbox).expect("it runs");
    assert_eq!(shown["state"], "elsewhere");
    assert_eq!(
        (&shown["policy"], &shown["policy_version"]),
        (&json!("web"), &json!(1))
    );
    let of = |here: bool| {
        let nodes = two.nodes(&token);
        assert_eq!(nodes.len(), 2, "{nodes:?}");
        nodes
            .into_iter()
            .find(|one| one["here"] == here)
            .expect("a node")
    };
    let (name, judge) = (of(false)["name"].clone(), of(true)["name"].clone());
    assert_eq!(
        (&of(false)["state"], &of(false)["sandboxes"]),
        (&json!("lives"), &json!(1))
    );
    // One is silent from here on; a minute goes by at once, and the other has been there for longer.
    one.signal(Signal::STOP);
    server.sql(
        "postgres",
        &format!(
            "UPDATE gig.nodes SET seen = seen - 61 WHERE name = '{}';
         UPDATE gig.nodes SET steady = steady - 120 WHERE name = '{}'",
            name.as_str().expect("a name"),
            judge.as_str().expect("a name"),
        ),
    );
    let told = [
        (json!("sandbox.lost"), name.clone(), json!(sandbox)),
        (json!("node.lost"), name.clone(), Value::Null),
    ];
    two.until("it is told as lost", |two| two.lost(&token) == told);
    two.until("it is listed no more", |two| {
        two.listed(&token, &sandbox).is_none()
    });
    assert!(!two.gig(&["ps"], "").output.contains(&sandbox));
    let path = format!("/api/v1/sandboxes/{sandbox}");
    let state =
        |node: &Appliance| Ask::new("GET", &path).token(&token).send(node).json()["state"].clone();
    assert_eq!(state(&two), "lost");
    assert_eq!(of(false)["state"], "gone");
    two.shows_as_gone(&token, name.as_str().expect("a name"));
    // It was only cut off: what was told as lost ends, and the node goes on.
    one.signal(Signal::CONT);
    one.until("it ends", |one| state(one) == "ended");
    let ended = Ask::new("GET", &path).token(&token).send(&two).json();
    assert_eq!(ended["state"], "ended");
    assert!(
        ended["ended_by"].to_string().contains("told as lost"),
        "{ended}"
    );
    let again = one.run("sleeper");
    two.until("another runs there", |two| {
        two.listed(&token, &again).is_some()
    });
    assert_eq!(of(false)["state"], "lives");
    assert_eq!(two.lost(&token), told, "once");
    // Killed and started again it tells its own itself, and nobody a second time.
    let one = one.kill_and_start_again();
    let lost = |node: &Appliance| node.lost(&token).len();
    one.until("it is told", |one| lost(one) == 3);
    assert_eq!(
        one.lost(&token)[0],
        (json!("sandbox.lost"), name, json!(again))
    );
    assert_eq!(state(&one), "ended");
    let whole = one.gig(&["audit", "verify", "postgres:"], "");
    assert_eq!(whole.status, 0, "{whole:?}");
}

#[test]
fn of_a_server_and_a_profile_a_fleet_runs_one_sandbox_and_each_who_attaches_has_their_own() {
    let server = Postgres::start();
    let (one, two) = (node(&server), node(&server));
    let token = one.token("admin");
    one.policy(&token, NOTHING);
    one.server("sleeper", "exec sleep 600");
    let start = |node: &Appliance| {
        let started = Ask::new("POST", "/api/v1/servers/sleeper/start").token(&token);
        let started = started.send(node);
        (started.status, started.json())
    };
    // Both at once, twice: one of them starts it.
    let at_once: Vec<_> = std::thread::scope(|scope| {
        let asked = [&one, &two, &one, &two].map(|node| scope.spawn(move || start(node)));
        asked
            .into_iter()
            .map(|one| one.join().expect("an answer"))
            .collect()
    });
    let ids: std::collections::BTreeSet<_> = at_once
        .iter()
        .map(|(_, view)| view["id"].to_string())
        .collect();
    assert_eq!(ids.len(), 1, "{at_once:?}");
    let made = at_once.iter().filter(|(status, _)| *status == 201);
    assert_eq!(made.count(), 1, "{at_once:?}");
    let sandbox = at_once[0].1["id"].as_str().expect("an id").to_owned();
    let (has, other) = match one.listed(&token, &sandbox).expect("it runs")["state"] == "running" {
        true => (&one, &two),
        false => (&two, &one),
    };
    let (status, view) = start(other);
    assert_eq!(
        (status, &view["state"]),
        (200, &json!("elsewhere")),
        "{view}"
    );
    // Who attaches has one of their own, on the node that they ask.
    let piped = std::process::Stdio::piped;
    let mut client = other.mcp(&["sleeper"]);
    let client = client.stdin(piped()).stdout(piped()).stderr(piped());
    let mut client = client.spawn().expect("start gig mcp");
    let own = |node: &Appliance| {
        let all = node.gig(&["ps", "--json"], "");
        let all: Value = serde_json::from_str(&all.output).expect("JSON");
        let all = all["items"].as_array().expect("a list").clone();
        all.into_iter()
            .find(|one| one["attached"] == true && one["state"] == "running")
    };
    other.until("theirs runs", |node| own(node).is_some());
    assert!(own(has).is_none());
    drop(client.stdin.take());
    client.kill().expect("kill it");
    client.wait().expect("its end");
    // What the server was before ends there, and what it is now starts here.
    one.server("sleeper", "exec sleep 601");
    let (status, newer) = start(other);
    assert_eq!(status, 201, "{newer}");
    let state = |id: &str| {
        let path = format!("/api/v1/sandboxes/{id}");
        Ask::new("GET", &path).token(&token).send(has).json()["state"].clone()
    };
    assert_eq!(state(&sandbox), "ended");
    // Stopped from the other node it is free for both.
    let newer = newer["id"].as_str().expect("an id").to_owned();
    has.until("it is told that it runs there", |has| {
        has.listed(&token, &newer).is_some()
    });
    let stopped = has.gig(&["stop", "sleeper"], "");
    assert_eq!(stopped.status, 0, "{stopped:?}");
    has.until("it is over", |has| has.listed(&token, &newer).is_none());
    let (status, last) = start(has);
    assert_eq!((status, &last["state"]), (201, &json!("running")), "{last}");
}
