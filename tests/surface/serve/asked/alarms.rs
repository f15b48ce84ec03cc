//! Alarms are told to a receiver of its own: signed, once an hour of those that are alike, and no other is hidden by
//! them.

use serde_json::json;

use super::{
    super::{Appliance, Ask},
    Origin, holding,
    webhooks::{OPEN, Receiver, SECRET, Taken},
};

/// Values of secrets that its server is not given.
const VALUES: [(&str, &str); 3] = [
    ("FIRST", "value-of-the-first-secret-7Qm2"),
    ("SECOND", "value-of-the-second-secret-9Kx4"),
    ("THIRD", "value-of-the-third-secret-3Wz8"),
];

/// Sends a value, put together by its program, to where requests are allowed.
fn ask(port: u16, value: &str) -> String {
    let value = value.replace("-of-", "-o''f-");
    format!(
        "NO_PROXY= no_proxy= curl -s -m 60 -o /dev/null -x \"$HTTPS_PROXY\" -H 'X-Token: {value}' \
         http://127.0.0.1:{port}/open"
    )
}

fn alarms(receiver: &Receiver) -> Vec<Taken> {
    let taken = receiver.taken().into_iter();
    taken
        .filter(|one| one.body.contains("\"type\":\"alarm\""))
        .collect()
}

/// Of which secrets it took an alarm, each message once.
fn secrets(receiver: &Receiver) -> Vec<String> {
    let mut told: Vec<_> = alarms(receiver)
        .iter()
        .map(|one| one.checked(&SECRET)["data"]["alarm"]["secrets"][0].to_string())
        .collect();
    told.sort();
    told.dedup();
    told
}

#[test]
fn an_alarm_is_told_signed_once_an_hour_and_hides_no_other_secrets() {
    let appliance = Appliance::start_in(tempfile::tempdir().expect("a folder"), &OPEN);
    let token = appliance.token("admin");
    let (origin, receiver) = (Origin::start(), Receiver::start(&[503, 200]));
    appliance.sign_with("ops", &SECRET);
    let wanted = json!({"kind": "generic", "url": receiver.url("/x"), "answerers": ["ana"]});
    assert_eq!(appliance.webhook(&token, "ops", &wanted), 201);
    for (name, value) in VALUES {
        let set = appliance.gig(&["secret", "set", name], value);
        assert_eq!(set.status, 0, "{set:?}");
    }
    appliance.policy(
        &token,
        &holding(origin.port, "5m").replace("hold: 5m\n", ""),
    );
    let [first, second, third] = VALUES.map(|(_, value)| value);
    let tried = [first, first, first, second].map(|value| ask(origin.port, value));
    appliance.server("thief", &format!("{}; echo over", tried.join("; ")));
    let sandbox = appliance.run("thief");
    appliance.until_printed(&sandbox, "over");
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
    let both = ["\"FIRST\"", "\"SECOND\""];
    appliance.until("both are told", |_| {
        alarms(&receiver).len() >= 3 && secrets(&receiver) == both
    });
    let taken = alarms(&receiver);
    // The first try was answered 503: the same message comes again.
    let again = |one: &&Taken| one.field("webhook-id") == taken[0].field("webhook-id");
    assert_eq!(taken.iter().filter(again).count(), 2, "{taken:?}");
    for one in &taken {
        let told = one.checked(&SECRET);
        let alarm = &told["data"]["alarm"];
        assert_eq!(alarm["event"], "secret.misuse", "{told}");
        assert_eq!(alarm["sandbox"], sandbox.as_str(), "{told}");
        assert!(told["data"].get("answer").is_none(), "{told}");
        assert!(VALUES.iter().all(|(_, value)| !one.body.contains(value)));
        // By its record it is looked at, and by nothing is it answered.
        let id = alarm["record"].as_str().expect("a record");
        let place = format!("/api/v1/audit/{id}");
        let record = Ask::new("GET", &place).token(&token).send(&appliance);
        assert!(record.body.contains("secret.misuse"), "{record:?}");
        for (place, body) in [
            (
                "alarm",
                json!({"id": format!("alarm:{id}"), "answer": "once", "user": "ana"}),
            ),
            (
                "record",
                json!({"record": id, "answer": "hour", "user": "ana"}),
            ),
        ] {
            let said = appliance.say((&format!("{place}-{id}"), &SECRET), &body);
            assert!((400..500).contains(&said.status), "{said:?}");
        }
    }
    // It knows what it told, and tells what is new.
    let before = alarms(&receiver).len();
    let appliance = appliance.end_and_start_again(&OPEN);
    appliance.server("other", &format!("{}; echo over", ask(origin.port, third)));
    appliance.until_printed(&appliance.run("other"), "over");
    appliance.until("the third is told", |_| {
        secrets(&receiver).contains(&"\"THIRD\"".to_owned())
    });
    assert_eq!(alarms(&receiver).len(), before + 1);
    assert!(origin.seen().is_empty(), "{:?}", origin.seen());
}
