//! What webhooks are told, and that the text of sandboxes does nothing there.

use jiff::Timestamp;

use super::*;
use crate::store::HeldFacts;

fn row(path: &str) -> HeldRow {
    let at = |second| Timestamp::from_second(second).unwrap();
    HeldRow {
        id: "01-ab".to_owned(),
        node: "n".to_owned(),
        facts: HeldFacts {
            sandbox: "s".to_owned(),
            server: "docs".to_owned(),
            profile: "ana".to_owned(),
            started_by: Vec::new(),
            host: "new.example".to_owned(),
            port: 443,
            protocol: "https".to_owned(),
            method: Some("GET".to_owned()),
            path: Some(path.to_owned()),
            policy: "web".to_owned(),
            policy_version: 3,
            reason: "host_not_allowed".to_owned(),
        },
        created: at(0),
        expires: at(30),
        lost: false,
    }
}

fn webhook(kind: WebhookKind, answerers: &[&str]) -> Webhook {
    Webhook {
        name: "ops".to_owned(),
        kind,
        url: "https://hooks.example/x".to_owned(),
        answerers: answerers.iter().map(|one| (*one).to_owned()).collect(),
        rules: false,
        author: "ana".to_owned(),
        changed: Timestamp::UNIX_EPOCH,
    }
}

fn told(webhook: &Webhook, held: Option<&HeldRow>) -> Value {
    let news = held.cloned().map(News::Held);
    told_of(webhook, news.as_ref())
}

fn told_of(webhook: &Webhook, news: Option<&News>) -> Value {
    let message = Message {
        webhook,
        news,
        console: Some("https://gig.example"),
        now: Timestamp::UNIX_EPOCH,
    };
    serde_json::from_str(&message.body()).unwrap()
}

#[test]
fn text_of_a_sandbox_calls_nobody_and_leads_nowhere() {
    let hostile = row("/<!channel>&<https://evil.example|ok>\u{202e}\n*x*");
    let slack = webhook(WebhookKind::Slack, &["U1"]);
    let message = told(&slack, Some(&hostile));
    let text = message.to_string();
    assert!(
        !text.contains("<!channel>") && !text.contains("<https://evil"),
        "{text}"
    );
    assert!(
        !text.contains('\u{202e}') && text.contains("⟨U+202E⟩"),
        "{text}"
    );
    assert!(
        text.contains("&lt;!channel&gt;&amp;&lt;https://evil.example|ok&gt;"),
        "{text}"
    );
    for quiet in ["mrkdwn", "unfurl_links", "unfurl_media", "link_names"] {
        assert_eq!(message[quiet], false, "{quiet}");
    }
    // It stands in plain text alone; what is formatted is ours.
    for block in message["blocks"].as_array().unwrap() {
        for field in block["fields"].as_array().into_iter().flatten() {
            assert_eq!(field["type"], "plain_text");
        }
    }
    let long = "/x".repeat(10_000);
    let whole = told(&slack, Some(&row(&long))).to_string();
    assert!(whole.len() < 4_000, "{}", whole.len());
}

#[test]
fn rules_for_ever_are_offered_where_somebody_may_press_them_and_asked_for_twice() {
    let buttons = |webhook: &Webhook, held: &HeldRow| {
        let message = told(webhook, Some(held));
        let blocks = message["blocks"].as_array().unwrap().clone();
        let actions = blocks.into_iter().find(|one| one["type"] == "actions");
        let actions = actions.map(|one| one["elements"].as_array().unwrap().clone());
        actions.unwrap_or_default()
    };
    let ids = |webhook: &Webhook, held: &HeldRow| -> Vec<String> {
        let buttons = buttons(webhook, held).into_iter();
        buttons
            .map(|one| one["action_id"].as_str().unwrap().to_owned())
            .collect()
    };
    let plain = webhook(WebhookKind::Slack, &["U1=ana"]);
    assert_eq!(
        ids(&plain, &row("/x")),
        ["gig_once", "gig_hour", "gig_deny"]
    );
    let rules = Webhook {
        rules: true,
        ..plain
    };
    let all = [
        "gig_once",
        "gig_hour",
        "gig_host_hour",
        "gig_ever",
        "gig_host_ever",
        "gig_deny",
    ];
    assert_eq!(ids(&rules, &row("/x")), all);
    for one in buttons(&rules, &row("/x")) {
        let lasts = one["action_id"].as_str().unwrap().ends_with("ever");
        assert_eq!(one["confirm"].is_object(), lasts, "{one}");
    }
    // What no rule can name is let go once, or all of its host.
    let connection = HeldRow {
        facts: HeldFacts {
            method: None,
            path: None,
            protocol: "tcp".to_owned(),
            ..row("/x").facts
        },
        ..row("/x")
    };
    assert_eq!(
        ids(&rules, &connection),
        ["gig_once", "gig_host_hour", "gig_host_ever", "gig_deny"]
    );
    // A rule would open the address, too, which is shown to nobody here.
    let mut inside = row("/x");
    inside.facts.reason = "private_address".to_owned();
    assert_eq!(ids(&rules, &inside), ["gig_once", "gig_deny"]);
    let nobody = Webhook {
        answerers: Vec::new(),
        ..rules
    };
    assert!(ids(&nobody, &row("/x")).is_empty());
}

#[test]
fn the_end_of_a_host_is_never_cut_off() {
    let label = "a".repeat(50);
    let host = format!("api.github.com.{label}.{label}.{label}.{label}.evil.example");
    let mut held = row(&"/x".repeat(500));
    held.facts.host.clone_from(&host);
    held.facts.method = Some("M".repeat(500));
    assert!(held.facts.words().contains(&format!("://{host}:443/x")));
    assert!(held.facts.words().chars().count() < 420);
    let slack = told(&webhook(WebhookKind::Slack, &["U1"]), Some(&held));
    let fields = slack["blocks"][1]["fields"].as_array().unwrap();
    let shown: Vec<_> = fields
        .iter()
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    assert!(
        shown.contains(&format!("Host\n{host}").as_str()),
        "{shown:?}"
    );
    assert!(
        shown
            .iter()
            .any(|one| one.contains("Asks for") && one.contains("evil.example:443/x"))
    );
    assert!(shown.contains(&"For\nana"), "for whom: {shown:?}");
    assert!(
        slack["text"].as_str().unwrap().contains("evil.example"),
        "{slack}"
    );
    let generic = told(&webhook(WebhookKind::Generic, &["ana"]), Some(&held));
    let asks = generic["data"]["request"]["asks"].as_str().unwrap();
    assert!(asks.contains("evil.example:443/x"), "{asks}");
}

#[test]
fn only_who_may_answer_has_buttons_and_none_for_a_path_that_no_rule_names() {
    let ids = |webhook: &Webhook, path: &str| {
        let message = told(webhook, Some(&row(path)));
        let blocks = message["blocks"].as_array().unwrap().clone();
        let actions = blocks.into_iter().find(|one| one["type"] == "actions");
        let elements = actions.map(|one| one["elements"].as_array().unwrap().clone());
        let ids = elements.into_iter().flatten().map(|one| {
            assert_eq!(one["value"], "01-ab");
            one["action_id"].as_str().unwrap().to_owned()
        });
        ids.collect::<Vec<_>>()
    };
    let answered = webhook(WebhookKind::Slack, &["U1"]);
    assert_eq!(ids(&answered, "/x"), ["gig_once", "gig_hour", "gig_deny"]);
    assert_eq!(ids(&answered, "/x*"), ["gig_once", "gig_deny"]);
    assert!(ids(&webhook(WebhookKind::Slack, &[]), "/x").is_empty());
    for button in Button::ALL {
        assert_eq!(Button::of(button.id()), Some(button));
    }
    assert_eq!(Button::of("gig_all"), None);
}

#[test]
fn a_program_is_told_what_waits_and_where_to_answer() {
    let answered = webhook(WebhookKind::Generic, &["ana"]);
    let message = told(&answered, Some(&row("/x")));
    assert_eq!(message["type"], "held.waiting");
    let request = &message["data"]["request"];
    assert_eq!(request["id"], "01-ab");
    assert_eq!(request["asks"], "GET https://new.example:443/x");
    assert_eq!(request["until"], "1970-01-01T00:00:30.000Z");
    assert_eq!(message["data"]["console"], "https://gig.example/approvals");
    let answer = "https://gig.example/api/v1/webhooks/ops/answer";
    assert_eq!(message["data"]["answer"], answer);
    let silent = webhook(WebhookKind::Generic, &[]);
    let tried = told(&silent, None);
    assert_eq!(tried["type"], "webhook.test");
    assert!(tried["data"].get("answer").is_none() && tried["data"].get("request").is_none());
}

fn denied(path: Option<&str>, policy: &str) -> News {
    let view = DeniedView {
        record: "7-42".to_owned(),
        allow: "/api/v1/audit/7-42/allow".to_owned(),
        server: Some("docs".to_owned()),
        profile: Some("ana".to_owned()),
        asks: format!("GET https://new.example:443{}", path.unwrap_or_default()),
        host: Some("new.example".to_owned()),
        port: Some(443),
        method: path.map(|_| "GET".to_owned()),
        path: path.map(str::to_owned),
        by_path: path.is_some_and(|path| !path.contains('*')),
        policy: policy.to_owned(),
        reason: Some("host_not_allowed".to_owned()),
        time: "2026-11-21T09:30:00Z".to_owned(),
        count: 3,
    };
    News::Denied(view, String::new())
}

#[test]
fn what_was_denied_is_told_with_its_record_and_where_it_is_allowed() {
    let answered = webhook(WebhookKind::Generic, &["ana"]);
    let message = told_of(&answered, Some(&denied(Some("/x\u{202e}"), "web")));
    assert_eq!(message["type"], "denied.waiting");
    let told = &message["data"]["denied"];
    assert_eq!(told["record"], "7-42");
    assert_eq!(told["path"], "/x⟨U+202E⟩");
    assert!(message["data"].get("request").is_none());
    assert_eq!(message["data"]["console"], "https://gig.example/audit/7-42");
    let answer = "https://gig.example/api/v1/webhooks/ops/answer";
    assert_eq!(message["data"]["answer"], answer);
}

#[test]
fn an_alarm_is_told_with_its_record_and_nothing_to_press() {
    let view = AlarmView {
        record: "7-43".to_owned(),
        event: "secret.misuse".to_owned(),
        time: "2026-11-21T09:30:00.000001Z".to_owned(),
        node: "n".to_owned(),
        server: Some("docs".to_owned()),
        profile: Some("ana".to_owned()),
        sandbox: Some("0193".to_owned()),
        secrets: vec!["TOKEN".to_owned()],
        host: Some("<!channel>.example\u{202e}".to_owned()),
        port: Some(443),
        findings: vec!["in a header <b>".to_owned(); 30],
        count: 3,
    };
    let news = News::Alarm(view, String::new());
    let told = told_of(&webhook(WebhookKind::Generic, &["ana"]), Some(&news));
    assert_eq!(told["type"], "alarm");
    let alarm = &told["data"]["alarm"];
    assert_eq!(
        (&alarm["record"], &alarm["count"]),
        (&json!("7-43"), &json!(3))
    );
    assert_eq!(alarm["host"], "<!channel>.example⟨U+202E⟩");
    assert_eq!(alarm["findings"].as_array().map(Vec::len), Some(10));
    assert_eq!(told["data"]["console"], "https://gig.example/audit/7-43");
    assert!(told["data"].get("answer").is_none(), "{told}");
    let slack = told_of(&webhook(WebhookKind::Slack, &["U1"]), Some(&news)).to_string();
    assert!(
        slack.contains("A secret was misused") && slack.contains("TOKEN"),
        "{slack}"
    );
    assert!(
        !slack.contains("actions") && !slack.contains("<!channel>"),
        "{slack}"
    );
}

#[test]
fn a_denial_has_one_button_where_a_rule_can_be_narrow_and_has_somewhere_to_go() {
    let buttons = |news: &News, answerers: &[&str]| {
        let message = told_of(&webhook(WebhookKind::Slack, answerers), Some(news));
        let blocks = message["blocks"].as_array().unwrap().clone();
        let actions = blocks.into_iter().find(|one| one["type"] == "actions");
        let elements = actions.map(|one| one["elements"].as_array().unwrap().clone());
        let elements = elements.into_iter().flatten();
        let told = elements.map(|one| format!("{} {}", one["action_id"], one["value"]));
        told.collect::<Vec<_>>()
    };
    let hour = ["\"gig_hour\" \"record:7-42\""];
    assert_eq!(buttons(&denied(Some("/x"), "web"), &["U1"]), hour);
    let none: [&str; 0] = [];
    assert_eq!(
        buttons(&denied(None, "web"), &["U1"]),
        none,
        "all of a host"
    );
    assert_eq!(buttons(&denied(Some("/x*"), "web"), &["U1"]), none);
    assert_eq!(
        buttons(&denied(Some("/x"), ""), &["U1"]),
        none,
        "a new policy takes more"
    );
    assert_eq!(buttons(&denied(Some("/x"), "web"), &[]), none);
}
