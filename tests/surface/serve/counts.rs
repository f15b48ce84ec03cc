//! The first page of a busy appliance: who asks for much hides nobody else, and its numbers are the record's.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Appliance, Ask};

/// More than were read of all sandboxes together before they were counted, of two programs: of one, denials have a
/// record of their own up to a thousand.
const NOISE: usize = 1300;
/// More than that.
const FLOOD: usize = 2500;

impl Appliance {
    /// Every record there is.
    pub(super) fn exported(&self) -> Vec<Value> {
        let exported = self.gig(&["audit", "export", &self.record()], "");
        assert_eq!(exported.status, 0, "{exported:?}");
        let lines = exported.output.lines();
        let records = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok());
        records.filter(|one| one["event"].is_string()).collect()
    }

    /// Decisions as they were recorded, each or as a count: allowed, denied, would be denied.
    pub(super) fn recorded_decisions(&self) -> [u64; 3] {
        let mut verdicts: BTreeMap<String, u64> = BTreeMap::new();
        for record in self.exported() {
            let event = record["event"].as_str().unwrap_or_default();
            let verdict = record["verdict"].as_str();
            if let ("dns" | "connect" | "request", Some(verdict)) = (event, verdict) {
                let finding = record["findings"][0].as_str().unwrap_or_default();
                let folded = finding.strip_prefix("folded:");
                let count = folded.map_or(1, |count| count.parse().expect("a number"));
                *verdicts.entry(verdict.to_owned()).or_default() += count;
            }
        }
        ["allow", "deny", "would_deny"]
            .map(|verdict| verdicts.get(verdict).copied().unwrap_or_default())
    }

    /// The same, as the first page draws them.
    pub(super) fn drawn_decisions(&self, cookie: &str) -> [u64; 3] {
        let page = Ask::new("GET", "/").cookie(cookie).send(self);
        assert_eq!(page.status, 200, "{page:?}");
        let words = page.body.split("Decisions of the last 24 hours: ").nth(1);
        let words = words.and_then(|rest| rest.split('"').next());
        let words = words.expect("the drawing's words");
        ["allowed", "denied,", "would be denied"].map(|what| number_before(words, what))
    }
}

/// `2,105 allowed` as a number: what stands before a word in the drawing's words.
fn number_before(words: &str, what: &str) -> u64 {
    let (before, _) = words.split_once(what).expect("the word");
    let number = before.trim_end().rsplit(' ').next().expect("a number");
    number.parse().expect("a number")
}

#[test]
fn a_noisy_program_hides_no_other_and_the_chart_counts_what_was_recorded() {
    let appliance = Appliance::start();
    let cookie = appliance.first_admin();
    let token = appliance.token("admin");
    let ask = |host: &str| {
        format!(
            "NO_PROXY= no_proxy= exec curl -s -m 60 -o /dev/null -x \"$HTTPS_PROXY\" 'http://{host}/'"
        )
    };
    let servers = [
        ("flood", ask(&format!("flood.test/[1-{FLOOD}]"))),
        ("calm", ask("wanted.test")),
        ("noisy", ask(&format!("h[1-{}].noise.test", NOISE / 2))),
        (
            "loud",
            ask(&format!("h[{}-{NOISE}].noise.test", NOISE / 2 + 1)),
        ),
    ];
    for (name, script) in &servers {
        let words = ["server", "add", name, "--", "/bin/sh", "-c", script];
        let added = appliance.gig(&words, "");
        assert_eq!(added.status, 0, "{added:?}");
        let sandbox = appliance.run(name);
        appliance.until("it ends", |one| one.ended(&sandbox).is_some());
    }
    let recorded = appliance.recorded_decisions();
    assert!(recorded[1] > (NOISE + FLOOD) as u64, "{recorded:?}");
    let of_flood = appliance.exported().into_iter();
    let of_flood = of_flood.filter(|one| one["server"] == "flood" && one["event"] == "request");
    let of_flood = of_flood.count();
    assert!((1000..FLOOD - 500).contains(&of_flood), "{of_flood}");

    let page = Ask::new("GET", "/").cookie(&cookie).send(&appliance);
    assert_eq!(page.status, 200, "{page:?}");
    let waiting = page.body.split("nobody has decided").nth(1);
    let waiting = waiting.and_then(|rest| rest.split("Latest denials").next());
    let waiting = waiting.expect("the denials that wait");
    assert!(waiting.contains("wanted.test"), "{waiting}");
    assert!(waiting.contains("h1300.noise.test"), "{waiting}");
    assert_eq!(appliance.drawn_decisions(&cookie), recorded);
    // A thousand names by themselves, and the rest together.
    assert!(
        page.body.contains("decisions were about other names"),
        "{page:?}"
    );

    let held = Ask::new("GET", "/api/v1/held")
        .token(&token)
        .send(&appliance);
    let denied = held.json()["denied"].clone();
    let denied = denied.as_array().expect("denials");
    let calm = denied.iter().find(|one| one["server"] == "calm");
    assert!(calm.is_some(), "{denied:?}");

    // A draft is held against all of it, not against the newest only.
    let document = "version: 1\negress:\n  - {host: \"*.noise.test\", ports: [80]}\n";
    for server in ["noisy", "loud"] {
        let body = json!({"document": document, "days": 1, "server": server});
        let ask = Ask::new("POST", "/api/v1/policies/web/simulate").token(&token);
        let simulated = ask.json(&body).send(&appliance).json();
        assert_eq!(simulated["newly_allowed_total"], NOISE / 2, "{simulated}");
        assert_eq!(simulated["complete"], true, "{simulated}");
        let covered = simulated["covered"].as_str().expect("words");
        assert!(covered.starts_with("All of the last day. "), "{covered}");
    }
}
