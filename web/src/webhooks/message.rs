//! What a webhook is told: in JSON of gig's own, or as a message that Slack shows, with buttons.
//!
//! Host, method and path come from a sandbox: they are cut, unseen characters are written out, and in a
//! message they stand where nothing is formatted, linked or fetched. `&`, `<` and `>` are escaped as
//! Slack asks for; so no text of a sandbox calls anybody or leads anywhere.

use serde::Serialize;
use serde_json::{Value, json};

use crate::{
    allow::is_for_address,
    api::{
        held::{DeniedView, HeldView},
        time,
    },
    store::{HeldRow, Webhook, WebhookKind, shortened},
    visible::visible,
    webhooks::{News, alarms::AlarmView},
};

/// What somebody pressed, as the button's id has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Button {
    /// Allow this one.
    Once,
    /// Allow all like it for an hour.
    Hour,
    /// Allow all like it.
    Ever,
    /// Allow all of its host for an hour.
    HostHour,
    /// Allow all of its host.
    HostEver,
    /// Deny it.
    Deny,
}

/// Something to tell.
#[derive(Debug)]
pub(crate) struct Message<'a> {
    /// To which.
    pub(crate) webhook: &'a Webhook,
    /// What waits or was denied; `None`: nothing, somebody tries it out.
    pub(crate) news: Option<&'a News>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    denied: Option<DeniedView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alarm: Option<AlarmView>,
    /// Where a person answers.
    console: Option<String>,
    /// Where a program does, where it may.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<String>,
}

impl Button {
    /// All, as they stand in a message.
    const ALL: [Self; 6] = [
        Self::Once,
        Self::Hour,
        Self::HostHour,
        Self::Ever,
        Self::HostEver,
        Self::Deny,
    ];

    /// Its id in a message.
    pub(crate) const fn id(self) -> &'static str {
        match self {
            Self::Once => "gig_once",
            Self::Hour => "gig_hour",
            Self::Ever => "gig_ever",
            Self::HostHour => "gig_host_hour",
            Self::HostEver => "gig_host_ever",
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
            Self::Ever => "Allow for ever",
            Self::HostHour => "All of the host, an hour",
            Self::HostEver => "All of the host, for ever",
            Self::Deny => "Deny",
        }
    }

    /// Whether it says what is to be of others like it, and not of this one.
    const fn writes_a_rule(self) -> bool {
        !matches!(self, Self::Once | Self::Deny)
    }

    /// Whether it is as narrow as a method and path.
    const fn is_of_path(self) -> bool {
        matches!(self, Self::Hour | Self::Ever)
    }

    /// Whether only a user here may press it, who writes policies.
    const fn takes_a_user(self) -> bool {
        matches!(self, Self::Ever | Self::HostHour | Self::HostEver)
    }

    /// Whether what it says stands until somebody takes it back.
    const fn lasts(self) -> bool {
        matches!(self, Self::Ever | Self::HostEver)
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
            r#type: match self.news {
                Some(News::Held(_)) => "held.waiting",
                Some(News::Denied(..)) => "denied.waiting",
                Some(News::Alarm(..)) => "alarm",
                None => "webhook.test",
            },
            timestamp: time(self.now),
            data: Data {
                webhook: &self.webhook.name,
                request: match self.news {
                    Some(News::Held(row)) => Some(shown(row)),
                    _ => None,
                },
                denied: match self.news {
                    Some(News::Denied(one, _)) => Some(shown_denied(one)),
                    _ => None,
                },
                alarm: match self.news {
                    Some(News::Alarm(one, _)) => Some(shown_alarm(one)),
                    _ => None,
                },
                console: match self.news {
                    Some(News::Denied(one, _)) => at(&format!("/audit/{}", one.record)),
                    Some(News::Alarm(one, _)) => at(&format!("/audit/{}", one.record)),
                    _ => at("/approvals"),
                },
                // There is nothing to answer to an alarm.
                answer: at(&answer).filter(|_| {
                    let is_alarm = matches!(self.news, Some(News::Alarm(..)));
                    !is_alarm && !self.webhook.answerers.is_empty()
                }),
            },
        };
        // The types are ours and serialise.
        serde_json::to_string(&told).unwrap_or_default()
    }

    fn slack(&self) -> Value {
        let held = match self.news {
            None => return quiet("gig reaches this channel", &json!([])),
            Some(News::Denied(one, _)) => return self.slack_of_denied(&shown_denied(one)),
            Some(News::Alarm(one, _)) => return self.slack_of_alarm(&shown_alarm(one)),
            Some(News::Held(row)) => shown(row),
        };
        let until = &held.until;
        let text = format!("{} asks for {}, until {until}", held.server, held.asks);
        let field = |name: &str, words: &str| plain(&format!("{name}\n{words}"));
        let policy = format!("{} version {}", held.policy, held.policy_version);
        let mut blocks = vec![
            json!({"type": "header", "text": plain("A request waits for an answer")}),
            json!({"type": "section", "fields": [
                field("Server", &held.server),
                field("Host", &named(&held)),
                field("Asks for", &held.asks),
                field("For", &held.profile),
                field("Policy", &policy),
                field("Denied at", until),
            ]}),
        ];
        let of_address = is_for_address(Some(&held.reason));
        let fits = |button: Button| !(of_address && button.writes_a_rule());
        blocks.extend(self.buttons(held.by_path, &held.id, fits));
        blocks.extend(self.link("/approvals", "Answer in the console"));
        quiet(&text, &json!(blocks))
    }

    fn slack_of_denied(&self, one: &DeniedView) -> Value {
        let server = one.server.as_deref().unwrap_or_default();
        let text = format!("{server} was denied {}", one.asks);
        let field = |name: &str, words: &str| plain(&format!("{name}\n{words}"));
        let policy = match one.policy.as_str() {
            "" => "none is in force",
            policy => policy,
        };
        let mut blocks = vec![
            json!({"type": "header", "text": plain("A request was denied")}),
            json!({"type": "section", "fields": [
                field("Server", server),
                field("Host", one.host.as_deref().unwrap_or_default()),
                field("Asked for", &one.asks),
                field("Why", one.reason.as_deref().unwrap_or_default()),
                field("Policy", policy),
                field("Times the host was denied, since yesterday", &one.count.to_string()),
            ]}),
        ];
        // Where nothing is in force yet somebody who signs in begins.
        let about = format!("{OF_RECORD}{}", one.record);
        // A rule would open the address, too, which nobody sees here.
        if !one.policy.is_empty() && !is_for_address(one.reason.as_deref()) {
            blocks.extend(self.buttons(one.by_path, &about, Button::writes_a_rule));
        }
        let place = format!("/audit/{}", one.record);
        blocks.extend(self.link(&place, "Look at it in the console"));
        quiet(&text, &json!(blocks))
    }

    fn slack_of_alarm(&self, one: &AlarmView) -> Value {
        let (title, at) = (heading(one), one.server.as_deref().unwrap_or(&one.node));
        let found = one.findings.join("; ");
        let text = format!("{title}: {at}: {found}");
        let field = |name: &str, words: &str| plain(&format!("{name}\n{words}"));
        let to = match (&one.host, one.port) {
            (Some(host), Some(port)) => format!("{host}:{port}"),
            (host, _) => host.clone().unwrap_or_default(),
        };
        let fields = [
            ("Server", one.server.clone().unwrap_or_default()),
            ("For", one.profile.clone().unwrap_or_default()),
            ("Secret", one.secrets.join(", ")),
            ("Towards", to),
            ("Found", found),
            ("On", one.node.clone()),
            ("Times so far, in this hour", one.count.to_string()),
        ];
        let fields = fields.iter().filter(|(_, words)| !words.is_empty());
        let fields: Vec<_> = fields.map(|(name, words)| field(name, words)).collect();
        let mut blocks = vec![
            json!({"type": "header", "text": plain(title)}),
            json!({"type": "section", "fields": fields}),
        ];
        let place = format!("/audit/{}", one.record);
        blocks.extend(self.link(&place, "Look at it in the console"));
        quiet(&text, &json!(blocks))
    }

    /// A block of those that somebody here may press, of which `fits` says that they say something.
    fn buttons(&self, by_path: bool, about: &str, fits: impl Fn(Button) -> bool) -> Option<Value> {
        let users = self.webhook.rules;
        // A rule as narrow as a path that no rule can name is none.
        let offered = |button: &Button| {
            fits(*button) && (by_path || !button.is_of_path()) && (users || !button.takes_a_user())
        };
        let buttons = Button::ALL.into_iter().filter(offered);
        let buttons: Vec<Value> = buttons.map(|one| button(one, about)).collect();
        let any = !self.webhook.answerers.is_empty() && !buttons.is_empty();
        any.then(|| json!({"type": "actions", "block_id": "gig", "elements": buttons}))
    }

    /// A block that leads to a page of the console.
    fn link(&self, place: &str, words: &str) -> Option<Value> {
        let link = format!("<{}{place}|{words}>", escaped(self.console?));
        let link = json!({"type": "mrkdwn", "text": link});
        Some(json!({"type": "context", "elements": [link]}))
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

/// What one person alone is told, beside a message that stays as it is.
pub(crate) fn not_done(words: &str) -> String {
    let mut message = quiet(words, &json!([]));
    if let Some(fields) = message.as_object_mut() {
        fields.insert("response_type".to_owned(), "ephemeral".into());
        fields.insert("replace_original".to_owned(), Value::Bool(false));
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
        Button::Deny => Some("danger"),
        _ => None,
    };
    if let Some(fields) = element.as_object_mut() {
        if let Some(style) = style {
            fields.insert("style".to_owned(), style.into());
        }
        // One press in a channel is no decision for ever.
        if button.lasts() {
            let asked = json!({
                "title": plain("For ever?"),
                "text": plain("It writes a rule that stands until somebody takes it back."),
                "confirm": plain(button.words()),
                "deny": plain("Not now"),
            });
            fields.insert("confirm".to_owned(), asked);
        }
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

/// Of hostile text what may be shown: shorter and with nothing unseen.
fn clean(text: String) -> String {
    visible(shortened(&text, LONGEST)).replace(['\n', '\r', '\t'], " ")
}

/// What it is, as people say it.
fn heading(one: &AlarmView) -> &'static str {
    match one.event.as_str() {
        "secret.misuse" => "A secret was misused",
        "audit.gap" => "The record has a gap",
        _ => "Something was found",
    }
}

/// As the record has it, without what is not to be shown.
fn shown_alarm(one: &AlarmView) -> AlarmView {
    let mut view = one.clone();
    view.host = view.host.map(clean);
    let findings = view.findings.into_iter().take(MOST_FINDINGS);
    view.findings = findings.map(clean).collect();
    view
}

/// As the API shows it.
fn shown_denied(one: &DeniedView) -> DeniedView {
    let mut view = one.clone();
    view.asks = clean(view.asks);
    view.host = view.host.map(clean);
    view.method = view.method.map(clean);
    view.path = view.path.map(clean);
    view
}

/// As the API shows it.
fn shown(row: &HeldRow) -> HeldView {
    let mut view = HeldView::from(row.clone());
    view.asks = clean(view.asks);
    view.host = clean(view.host);
    view.lookalike = view.lookalike.map(clean);
    view.method = view.method.map(clean);
    view.path = view.path.map(clean);
    view
}

/// Its host, and how that may be taken for another one.
fn named(held: &HeldView) -> String {
    match &held.lookalike {
        Some(found) => format!("{}\n{found}", held.host),
        None => held.host.clone(),
    }
}

/// Before the id of a record, where a button's value is none of what waits.
pub(crate) const OF_RECORD: &str = "record:";
/// Of a text from a sandbox, in characters: what it asks for with the longest host, whose end is not cut off. A field of
/// Slack takes 2000, of which a path has few, also when all of it is escaped.
const LONGEST: usize = 450;
/// Of an alarm: the record has all.
const MOST_FINDINGS: usize = 10;

#[cfg(test)]
mod tests;
