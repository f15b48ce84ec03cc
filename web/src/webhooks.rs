//! Webhooks: people are told elsewhere what waits for them, and may answer from there.
//!
//! The node whose proxy has a request tells of it, once to each webhook, after it stands where people are
//! asked; nobody waits for that. What was denied at once is told once a day by one node (`denied`), alarms once an hour
//! (`alarms`). What cannot be delivered is tried again while it still waits, and is in the record and the log when it
//! was not. What each was told is in the store before it goes out: by that, and nothing else, it is answered. Places are asked as the
//! appliance asks all others, by vetted addresses; what signs is read from this node's files each time, so that a new
//! one needs no restart.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderName, HeaderValue};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, mpsc::Receiver},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;
use zeroize::Zeroizing;

pub(crate) mod alarms;
pub(crate) mod denied;
mod failures;
pub(crate) mod message;
pub(crate) mod signature;
mod tell_error;

use crate::{
    api::held::DeniedView,
    app::App,
    credential::Digest,
    outbound::OutboundRequest,
    store::{HeldRow, Telling, ToldState, Webhook},
};
use alarms::{AlarmView, Heard};
use denied::Looked;
use failures::{Failures, failed, told_of_more};
use message::{Message, OF_RECORD};
use signature::Key;
pub use signature::KeyRefused;
pub(crate) use tell_error::TellError;

/// The files of this node in which the secrets of webhooks are.
pub trait WebhookFiles: Send + Sync + 'static {
    /// What signs for this webhook. Blocks.
    ///
    /// # Errors
    /// In words for an admin, when it cannot be read; it tells nothing of what is in the file.
    fn secret(&self, webhook: &str) -> Result<Zeroizing<String>, String>;

    /// Where it is, when that is a secret itself. Blocks.
    ///
    /// # Errors
    /// The same.
    fn url(&self, webhook: &str) -> Result<Zeroizing<String>, String>;
}

/// What all of them stand on.
pub(crate) struct Webhooks {
    files: Arc<dyn WebhookFiles>,
    /// Who may be heard: strangers who sign nothing take no more of the store than these.
    pub(crate) hearing: Semaphore,
    told: Mutex<HashMap<String, Told>>,
    /// Of each webhook, who tells it, of what waits and of what was denied: one that does not answer keeps no other
    /// waiting, nor a denial a request.
    lines: Mutex<HashMap<(String, &'static str), Arc<Semaphore>>>,
    /// Records of denials of this day that a person decided on: they are looked at once.
    decided: Mutex<HashSet<String>>,
    failures: Failures,
}

/// What one webhook was told of in this minute.
struct Told {
    since: Instant,
    count: u32,
    by_server: HashMap<String, u32>,
}

/// What webhooks are told of.
#[derive(Debug)]
pub(crate) enum News {
    /// A request waits.
    Held(HeldRow),
    /// What was denied at once may be allowed from now on; with what tells its destination from others.
    Denied(DeniedView, String),
    /// Somebody should look at this; with what tells it from others.
    Alarm(AlarmView, String),
}

impl News {
    /// As a webhook is told of it, and answers.
    pub(crate) fn telling(&self, webhook: &Webhook) -> Telling {
        let (about, what) = match self {
            Self::Held(row) => (row.id.clone(), String::new()),
            Self::Denied(one, what) => (format!("{OF_RECORD}{}", one.record), what.clone()),
            Self::Alarm(one, what) => (alarms::about(&one.record), what.clone()),
        };
        Telling {
            webhook: webhook.name.clone(),
            about,
            what,
        }
    }
}

impl Webhooks {
    pub(crate) fn new(files: Arc<dyn WebhookFiles>) -> Self {
        Self {
            files,
            hearing: Semaphore::new(MOST_HEARD_AT_ONCE),
            told: Mutex::default(),
            lines: Mutex::default(),
            decided: Mutex::default(),
            failures: Failures::default(),
        }
    }

    /// Whether it may be told one more of this server: one that asks and asks fills no channel, nor takes the room of
    /// others.
    fn has_room(&self, webhook: &str, server: &str) -> bool {
        let now = Instant::now();
        let mut told = self.told.lock();
        told.retain(|_, one| now.duration_since(one.since) < MINUTE);
        let one = told.entry(webhook.to_owned()).or_insert_with(|| Told {
            since: now,
            count: 0,
            by_server: HashMap::new(),
        });
        let theirs = one.by_server.entry(server.to_owned()).or_default();
        if *theirs >= MOST_OF_SERVER || one.count >= MOST_A_MINUTE {
            return false;
        }
        *theirs += 1;
        one.count += 1;
        true
    }

    /// Who tells this webhook of such news at once.
    fn line(&self, webhook: &str, news: &News) -> Arc<Semaphore> {
        let (of, most) = match news {
            News::Held(_) => ("held", AT_ONCE),
            News::Denied(..) => ("denied", FEW_AT_ONCE),
            News::Alarm(..) => ("alarm", FEW_AT_ONCE),
        };
        let mut lines = self.lines.lock();
        let line = lines.entry((webhook.to_owned(), of));
        Arc::clone(line.or_insert_with(|| Arc::new(Semaphore::new(most))))
    }
}

/// Files show nothing.
impl fmt::Debug for Webhooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Webhooks").finish_non_exhaustive()
    }
}

/// What signs for a webhook at this node.
pub(crate) async fn key(app: &App, webhook: &Webhook) -> Result<Key, TellError> {
    let (files, name) = (Arc::clone(&app.webhooks.files), webhook.name.clone());
    let text = app.aside(move || files.secret(&name)).await;
    let text = text.map_err(|_| TellError::Unmade)?;
    Ok(Key::read(webhook.kind, &text.map_err(TellError::Files)?)?)
}

/// Tells webhooks what waits, until `stopping`. `fresh` brings it.
pub(crate) async fn tell(app: Arc<App>, mut fresh: Receiver<HeldRow>, stopping: CancellationToken) {
    let mut telling = JoinSet::new();
    let mut looking = JoinSet::<(Looked, Vec<News>)>::new();
    let mut listening = JoinSet::<(Heard, Vec<News>)>::new();
    // What was denied takes no place of what waits.
    let mut warning = JoinSet::new();
    let mut look = interval(denied::LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut looked, mut is_stale) = (Looked::default(), false);
    let (mut heard, mut is_unheard) = (Heard::default(), false);
    let (mut minute, mut warned, mut alarmed) = (Instant::now(), 0, 0);
    loop {
        tokio::select! {
            biased;
            () = stopping.cancelled() => break,
            Some(_) = telling.join_next() => {}
            row = fresh.recv() => {
                let Some(row) = row else { break };
                spread(&app, News::Held(row), &mut telling).await;
            }
            Some(found) = looking.join_next() => {
                // What panicked is looked at again.
                let Ok((upto, denials)) = found else { continue };
                looked = upto;
                warned += denials.len();
                for one in denials {
                    spread(&app, one, &mut warning).await;
                }
            }
            Some(found) = listening.join_next() => {
                // The same; what was told is in the store.
                let Ok((upto, alarms)) = found else { continue };
                heard = upto;
                alarmed += alarms.len();
                for one in alarms {
                    spread(&app, one, &mut warning).await;
                }
            }
            Some(told) = warning.join_next() => {
                let is_left = !told.unwrap_or_default();
                is_stale |= is_left;
                is_unheard |= is_left;
            }
            _ = look.tick(), if looking.is_empty() && listening.is_empty() => {
                told_of_more(&app).await;
                if minute.elapsed() >= MINUTE {
                    (minute, warned, alarmed) = (Instant::now(), 0, 0);
                }
                let most = alarms::MOST_A_MINUTE.saturating_sub(alarmed);
                if std::mem::take(&mut is_unheard) {
                    heard.again = Some(app.now());
                }
                let before = std::mem::take(&mut heard);
                listening.spawn(alarms::fresh(Arc::clone(&app), before, most));
                let most = denied::MOST_A_MINUTE.saturating_sub(warned);
                // When what failed is due again is read anew.
                if std::mem::take(&mut is_stale) {
                    looked.again = Some(app.now());
                }
                looking.spawn(denied::fresh(Arc::clone(&app), looked, most));
            }
        }
    }
    looking.shutdown().await;
    listening.shutdown().await;
    warning.shutdown().await;
    telling.shutdown().await;
}

async fn spread(app: &Arc<App>, news: News, telling: &mut JoinSet<bool>) {
    // What could not be read is in the log.
    let Ok(webhooks) = app.ask(|store| store.webhooks()).await else {
        return;
    };
    let news = Arc::new(news);
    for webhook in webhooks {
        // These are bounded before they come here.
        let has_room = match &*news {
            News::Denied(..) | News::Alarm(..) => true,
            News::Held(row) => app.webhooks.has_room(&webhook.name, &row.facts.server),
        };
        if has_room {
            telling.spawn(deliver(Arc::clone(app), webhook, Arc::clone(&news)));
        } else {
            let why = "it was told as much as it is in a minute";
            failed(app, &webhook, &news, why).await;
        }
    }
}

/// Tries until it is told, or waits no more; `false` where it could not be told. Of what was denied, and of alarms, nothing
/// is told that this webhook knows, or that cannot be noted.
async fn deliver(app: Arc<App>, webhook: Webhook, news: Arc<News>) -> bool {
    let (telling, now) = (news.telling(&webhook), app.now());
    let noted = telling.clone();
    let begun = app.ask(move |store| store.begin_telling(&noted, now)).await;
    let first = match (&*news, begun) {
        (_, Ok(Some(first))) => first,
        (News::Denied(..) | News::Alarm(..), Ok(None)) => return true,
        (News::Denied(..), Err(_)) => return true,
        // It is tried again.
        (News::Alarm(..), Err(_)) => return false,
        (News::Held(_), Ok(None)) => telling.about.clone(),
        (News::Held(_), Err(_)) => {
            tracing::warn!(
                webhook = webhook.name,
                "it is told what waits, and cannot answer"
            );
            telling.about.clone()
        }
    };
    let id = message_of(&webhook, &telling.what, &first);
    let told = tried(&app, &webhook, (&news, &id)).await;
    let (now, state) = match told {
        Ok(()) => (app.now(), ToldState::Told),
        Err(Untold {
            may_stand: true, ..
        }) => (app.now(), ToldState::Unsure),
        Err(_) => (app.now(), ToldState::Failed),
    };
    // What is not noted is given up later, and told again.
    let noted = app
        .ask(move |store| store.end_telling(&telling, state, now))
        .await;
    if noted.is_err() {
        tracing::warn!(webhook = webhook.name, "what it was told cannot be noted");
    }
    match told {
        Ok(()) => {
            let words = format!("{} was told what waits", webhook.name);
            app.watch.say(PART, true, words);
            true
        }
        Err(untold) => {
            if let Some(why) = untold.why {
                failed(&app, &webhook, &news, &why.to_string()).await;
            }
            false
        }
    }
}

/// What came of all tries of a message.
struct Untold {
    /// `None`: nobody waits any more.
    why: Option<TellError>,
    /// One of them may have been taken all the same.
    may_stand: bool,
}

/// As often as it is worth.
async fn tried(app: &App, webhook: &Webhook, (news, id): (&News, &str)) -> Result<(), Untold> {
    let (mut why, mut may_stand) = (None, false);
    let tries = match news {
        News::Held(_) => PAUSES.len(),
        News::Denied(..) | News::Alarm(..) => FEW_TRIES,
    };
    for pause in PAUSES.into_iter().take(tries) {
        sleep(pause).await;
        let line = app.webhooks.line(&webhook.name, news);
        let Ok(Ok(_line)) = timeout(IN_LINE, line.acquire()).await else {
            why = Some(TellError::Line);
            break;
        };
        // It may have waited in line for long.
        if !waits(app, news).await {
            break;
        }
        match once(app, webhook, (Some(news), id)).await {
            Ok(()) => return Ok(()),
            Err(error) => {
                let again = error.passes();
                may_stand |= error.may_stand();
                why = Some(error);
                if !again {
                    break;
                }
            }
        }
    }
    Err(Untold { why, may_stand })
}

/// Whether there is still somebody to be asked for. Where the store cannot say, its time does.
async fn waits(app: &App, news: &News) -> bool {
    let News::Held(row) = news else { return true };
    let now = app.now();
    let held = app.ask(move |store| store.held(now)).await;
    let listed = held.map(|held| held.iter().any(|one| one.id == row.id));
    listed.unwrap_or(now < row.expires)
}

/// Tells one webhook once. `None`: somebody tries it out.
pub(crate) async fn once(
    app: &App,
    webhook: &Webhook,
    (news, id): (Option<&News>, &str),
) -> Result<(), TellError> {
    let (key, now) = (key(app, webhook).await?, app.now());
    let message = Message {
        webhook,
        news,
        console: app
            .public_url
            .as_deref()
            .map(|url| url.trim_end_matches('/')),
        now,
    };
    let body = message.body();
    let field = |text: &str| HeaderValue::from_str(text).map_err(|_| TellError::Unmade);
    let signature = field(&key.sign(id, now, body.as_bytes()))?;
    let url = place(app, webhook).await?;
    let request = OutboundRequest::post(url.to_string(), "application/json", Bytes::from(body))
        .header(HeaderName::from_static("webhook-id"), field(id)?)
        .header(
            HeaderName::from_static("webhook-timestamp"),
            field(&now.as_second().to_string())?,
        )
        .header(HeaderName::from_static("webhook-signature"), signature);
    let answer = app.outbound().send(request).await?;
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(TellError::Status(answer.status)),
    }
}

/// Where it is.
pub(crate) async fn place(app: &App, webhook: &Webhook) -> Result<Zeroizing<String>, TellError> {
    if !webhook.url.is_empty() {
        return Ok(Zeroizing::new(webhook.url.clone()));
    }
    let (files, name) = (Arc::clone(&app.webhooks.files), webhook.name.clone());
    let url = app.aside(move || files.url(&name)).await;
    url.map_err(|_| TellError::Unmade)?
        .map_err(TellError::Files)
}

/// The same however often it is tried, in whichever round and by whichever node: who takes it twice shows it once. Of a
/// webhook that is set up anew it is another.
fn message_of(webhook: &Webhook, what: &str, first: &str) -> String {
    let (name, since) = (&webhook.name, webhook.changed.as_second());
    let digest = Digest::of(&format!("gig message\n{name}\n{since}\n{what}\n{first}"));
    format!("msg_{}", digest.words())
}

/// Of a message that stands for itself.
pub(crate) fn message_id() -> String {
    format!("msg_{}", Uuid::now_v7().simple())
}

/// What health calls them.
const PART: &str = "webhooks";
/// Before each try. A person has half a minute left where a policy holds for one.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(60),
];
/// It is in the console all the same.
const FEW_TRIES: usize = 3;
const MINUTE: Duration = Duration::from_secs(60);
/// As Slack takes them, of one webhook.
const MOST_A_MINUTE: u32 = 60;
/// Of those, about one server: others are told of, too.
const MOST_OF_SERVER: u32 = 20;
/// Connections to one webhook, for what waits.
const AT_ONCE: usize = 8;
/// For what was denied, and for alarms.
const FEW_AT_ONCE: usize = 2;
/// For one of them: whoever waits for longer gives up, so that those who wait are bounded by what is told in a few
/// minutes, and no other node takes a message for given up that is in line here (`told`).
const IN_LINE: Duration = Duration::from_secs(30);
/// People press buttons one by one.
const MOST_HEARD_AT_ONCE: usize = 2;

#[cfg(test)]
mod tests;
