//! What a webhook was not told, as the log, health and the record have it.
//!
//! No request was decided by it, so that such a record has no verdict. Of each request that waits there is a record of
//! its own; of what was denied and of alarms, which the record has anyhow, one a minute for each webhook and cause, with
//! how many more there were: a webhook that is away buries nothing.

use std::collections::HashMap;

use gig_audit::{Deed, Entry, Event};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{MINUTE, News, PART};
use crate::{app::App, store::Webhook};

/// What was recorded in the last minute.
#[derive(Default)]
pub(super) struct Failures(Mutex<HashMap<(String, String), Failing>>);

/// One webhook and cause.
struct Failing {
    since: Instant,
    /// Since then, without a record of their own.
    more: u64,
}

impl Failures {
    /// Whether it is the first of this webhook and cause in this minute. The others are counted.
    fn is_first(&self, webhook: &str, why: &str) -> bool {
        let mut known = self.0.lock();
        if let Some(failing) = known.get_mut(&(webhook.to_owned(), why.to_owned())) {
            failing.more += 1;
            return false;
        }
        let failing = Failing {
            since: Instant::now(),
            more: 0,
        };
        known.insert((webhook.to_owned(), why.to_owned()), failing);
        true
    }

    /// Those of which there were more, and whose minute is over: the webhook, the cause, and how many. The next minute begins.
    fn over(&self) -> Vec<(String, String, u64)> {
        let now = Instant::now();
        let mut known = self.0.lock();
        known.retain(|_, one| one.more > 0 || now.duration_since(one.since) < MINUTE);
        let over = known.iter_mut();
        let over = over.filter(|(_, one)| now.duration_since(one.since) >= MINUTE);
        over.map(|((webhook, why), one)| {
            one.since = now;
            (webhook.clone(), why.clone(), std::mem::take(&mut one.more))
        })
        .collect()
    }
}

/// It was not told; people still see it in the console.
pub(super) async fn failed(app: &App, webhook: &Webhook, news: &News, why: &str) {
    let name = &webhook.name;
    tracing::error!(webhook = name, why, "a webhook was not told what waits");
    let words = format!("{name} was not told what waits: the record says why");
    app.watch.say(PART, false, words);
    let mut entry = of(name);
    let what = match news {
        News::Held(row) => {
            entry.server = Some(row.facts.server.as_str().into());
            entry.request = Some(row.id.as_str().into());
            "waits"
        }
        News::Denied(one, _) => {
            entry.server = one.server.as_deref().map(Into::into);
            "was denied"
        }
        News::Alarm(one, _) => {
            entry.server = one.server.as_deref().map(Into::into);
            "is an alarm"
        }
    };
    if !matches!(news, News::Held(_)) && !app.webhooks.failures.is_first(name, why) {
        return;
    }
    entry.findings = vec![format!("webhook {name} was not told what {what}: {why}").into()];
    record(app, entry).await;
}

/// Records how many more there were, of those whose minute is over.
pub(super) async fn told_of_more(app: &App) {
    for (name, why, more) in app.webhooks.failures.over() {
        let mut entry = of(&name);
        let words = format!("webhook {name} was not told of {more} more in a minute: {why}");
        entry.findings = vec![words.into()];
        record(app, entry).await;
    }
}

fn of(webhook: &str) -> Entry {
    let mut entry = Entry::new(Event::Admin);
    (entry.deed, entry.subject) = (Some(Deed::WebhookFail), Some(webhook.into()));
    entry
}

async fn record(app: &App, entry: Entry) {
    if let Err(problem) = app.record(entry).await {
        tracing::error!(why = problem.detail, "that is not in the record either");
    }
}
