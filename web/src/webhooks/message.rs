//! What a webhook is told: in JSON of gig's own, or as a message that Slack shows, with buttons.
//!
//! Host, method and path come from a sandbox: they are cut, unseen characters are written out, and in a
//! message they stand where nothing is formatted, linked or fetched. `&`, `<` and `>` are escaped as
//! Slack asks for; so no text of a sandbox calls anybody or leads anywhere.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    api::{held::HeldView, time},
    store::{HeldRow, Webhook, WebhookKind, shortened},
    visible::visible,
};

/// What somebody pressed, as the button's id has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Button {
    /// Allow this one.
    Once,
    /// Allow all like it for an hour.
    Hour,
    /// Deny it.
    Deny,
}

/// Something to tell.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    /// To which.
    pub(crate) webhook: &'a Webhook,
    /// What waits; `None`: nothing does, somebody tries it out.
    pub(crate) held: Option<&'a HeldRow>,
    /// Where people reach the console.
    pub(crate) console: Option<&'a str>,
    /// When it is told.
    pub(crate) now: jiff::Timestamp,
}

/// Of gig's own.
#[derive(Serialize)]
struct Told<'a> {
    r#type: &'static str,
    timestamp: String,
    data: Data<'a>,
}

#[derive(Serialize)]
struct Data<'a> {
    webhook: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<HeldView>,
    /// Where a person answers.
    console: Option<String>,
    /// Where a program does, where it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl Button {
    /// All, as they stand in a message.
    const ALL: [Self; 3] = [Self::Once, Self::Hour, Self::Deny];

    /// Its id in a message.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Once => "gig_once",
            Self::Hour => "gig_hour",
            Self::Deny => "gig_deny",
        }
    }

    /// The one of this id.
    pub(crate) fn of(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|button| button.id() == id)
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Once => "Allow once",
            Self::Hour => "Allow for an hour",
            Self::Deny => "Deny",
        }
    }
}

impl Message<'_> {
    /// Its octets.
    pub(crate) fn body(&self) -> String {
        match self.webhook.kind {
            WebhookKind::Generic => self.generic(),
            WebhookKind::Slack => self.slack().to_string(),
        }
    }

    fn generic(&self) -> String {
        let at = |path: &str| self.console.map(|console| format!("{console}{path}"));
        let answer = format!("/api/v1/webhooks/{}/answer", self.webhook.name);
        let told = Told {
            r#type: match self.held {
                Some(_) => "held.waiting",
                None => "webhook.test",
            },
            timestamp: time(self.now),
            data: Data {
                webhook: &self.webhook.name,
                request: self.held.map(shown),
                console: at("/approvals"),
                answer: at(&answer).filter(|_| !self.webhook.answerers.is_empty()),
            },
        };
        // The types are ours and serialise.
        serde_json::to_string(&told).unwrap_or_default()
    }

    fn slack(&self) -> Value {
        let Some(held) = self.held.map(shown) else {
            return quiet("gig reaches this channel", &json!([]));
        };
        let until = &held.until;
        let text = format!("{} asks for {}, until {until}", held.server, held.asks);
        let field = |name: &str, words: &str| plain(&format!("{name}\n{words}"));
        let policy = format!("{} version {}", held.policy, held.policy_version);
        let mut blocks = vec![
            json!({"type": "header", "text": plain("A request waits for an answer")}),
            json!({"type": "section", "fields": [
                field("Server", &held.server),
                field("Asks for", &held.asks),
                field("Policy", &policy),
                field("Denied at", until),
            ]}),
        ];
        if !self.webhook.answerers.is_empty() {
            // An hour's rule is as narrow as its path; of what has none that a rule can name, there is none.
            let offered =
                |button: &Button| *button != Button::Hour || held.by_path || held.path.is_none();
            let buttons = Button::ALL.into_iter().filter(offered);
            let buttons: Vec<Value> = buttons.map(|one| button(one, &held.id)).collect();
            blocks.push(json!({"type": "actions", "block_id": "gig", "elements": buttons}));
        }
        if let Some(console) = self.console {
            let link = format!("<{}/approvals|Answer in the console>", escaped(console));
            let link = json!({"type": "mrkdwn", "text": link});
            blocks.push(json!({"type": "context", "elements": [link]}));
        }
        quiet(&text, &json!(blocks))
    }
}

/// What stands in the place of a message that was answered.
pub(crate) fn answered(words: &str) -> String {
    let section = json!([{"type": "section", "text": plain(words)}]);
    let mut message = quiet(words, &section);
    if let Some(fields) = message.as_object_mut() {
        fields.insert("replace_original".to_owned(), Value::Bool(true));
    }
    message.to_string()
}

/// A message of which nothing is formatted, linked or fetched but what stands in its blocks.
fn quiet(text: &str, blocks: &Value) -> Value {
    let mut message = json!({
        "text": escaped(&shortened(text, LONGEST)),
        "mrkdwn": false,
        "parse": "none",
        "link_names": false,
        "unfurl_links": false,
        "unfurl_media": false,
    });
    let some = blocks.as_array().is_some_and(|blocks| !blocks.is_empty());
    if let Some(fields) = message.as_object_mut().filter(|_| some) {
        fields.insert("blocks".to_owned(), blocks.clone());
    }
    message
}

fn button(button: Button, held: &str) -> Value {
    let mut element = json!({
        "type": "button",
        "action_id": button.id(),
        "value": held,
        "text": plain(button.words()),
    });
    let style = match button {
        Button::Once => Some("primary"),
        Button::Hour => None,
        Button::Deny => Some("danger"),
    };
    if let (Some(style), Some(fields)) = (style, element.as_object_mut()) {
        fields.insert("style".to_owned(), style.into());
    }
    element
}

/// Text that is shown as it is.
fn plain(text: &str) -> Value {
    json!({"type": "plain_text", "text": escaped(&shortened(text, LONGEST)), "emoji": false})
}

/// As Slack's messages write the three characters by which links and calls begin and end.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// As the API shows it, shorter and with nothing unseen.
fn shown(row: &HeldRow) -> HeldView {
    let clean = |text: String| visible(shortened(&text, LONGEST)).replace(['\n', '\r', '\t'], " ");
    let mut view = HeldView::from(row.clone());
    view.asks = clean(view.asks);
    view.host = clean(view.host);
    view.method = view.method.map(clean);
    view.path = view.path.map(clean);
    view
}

/// Of a text from a sandbox, in characters; blocks of Slack take more, also when all of it is escaped.
const LONGEST: usize = 300;

#[cfg(test)]
mod tests {
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
        }
    }

    fn webhook(kind: WebhookKind, answerers: &[&str]) -> Webhook {
        Webhook {
            name: "ops".to_owned(),
            kind,
            url: "https://hooks.example/x".to_owned(),
            answerers: answerers.iter().map(|one| (*one).to_owned()).collect(),
            author: "ana".to_owned(),
            changed: Timestamp::UNIX_EPOCH,
        }
    }

    fn told(webhook: &Webhook, held: Option<&HeldRow>) -> Value {
        let message = Message {
            webhook,
            held,
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
        assert_eq!(Button::of("gig_ever"), None, "for that somebody signs in");
    }

    #[test]
    fn a_program_is_told_what_waits_and_where_to_answer() {
        let answered = webhook(WebhookKind::Generic, &["ana"]);
        let message = told(&answered, Some(&row("/x")));
        assert_eq!(message["type"], "held.waiting");
        let request = &message["data"]["request"];
        assert_eq!(request["id"], "01-ab");
        assert_eq!(request["asks"], "GET https://new.example:443/x");
        assert_eq!(request["until"], "1970-01-01T00:00:30Z");
        assert_eq!(message["data"]["console"], "https://gig.example/approvals");
        let answer = "https://gig.example/api/v1/webhooks/ops/answer";
        assert_eq!(message["data"]["answer"], answer);
        let silent = webhook(WebhookKind::Generic, &[]);
        let tried = told(&silent, None);
        assert_eq!(tried["type"], "webhook.test");
        assert!(tried["data"].get("answer").is_none() && tried["data"].get("request").is_none());
    }
}
