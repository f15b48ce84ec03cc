//! Telling webhooks, on a network and a clock that do as they are told.

use std::sync::atomic::{AtomicU32, Ordering};

use http::{HeaderMap, StatusCode};

use super::*;
use crate::{
    app::tests::Lab,
    outbound::{OutboundAnswer, OutboundError},
    store::{Change, HeldFacts, WebhookKind},
};

fn saved(lab: &Lab, name: &str, url: &str) -> Webhook {
    lab.make(&Change::SaveWebhook {
        name: name.parse().unwrap(),
        kind: WebhookKind::Generic,
        url: url.to_owned(),
        answerers: Vec::new(),
        rules: false,
        new: false,
    });
    let kept = lab.app.store.webhooks().unwrap();
    kept.into_iter().find(|one| one.name == name).unwrap()
}

fn row(lab: &Lab, id: &str) -> HeldRow {
    let created = lab.app.now();
    let row = HeldRow {
        id: id.to_owned(),
        node: "lab".to_owned(),
        facts: HeldFacts {
            sandbox: "s".to_owned(),
            server: "docs".to_owned(),
            profile: "ana".to_owned(),
            started_by: Vec::new(),
            host: "new.example".to_owned(),
            port: 443,
            protocol: "https".to_owned(),
            method: Some("GET".to_owned()),
            path: Some("/x".to_owned()),
            policy: "web".to_owned(),
            policy_version: 3,
            reason: "host_not_allowed".to_owned(),
        },
        created,
        expires: created + jiff::SignedDuration::from_mins(5),
        lost: false,
    };
    let rows = std::slice::from_ref(&row);
    lab.app.store.put_held(rows).unwrap();
    lab.store.held_seen(None);
    row
}

fn answers(lab: &Lab, url: &str, statuses: &'static [u16]) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let theirs = Arc::clone(&count);
    lab.outbound.answer(url, move |_| {
        let at = theirs.fetch_add(1, Ordering::Relaxed) as usize;
        let status = statuses.get(at).or_else(|| statuses.last()).unwrap();
        Ok(OutboundAnswer {
            status: StatusCode::from_u16(*status).unwrap(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        })
    });
    count
}

fn failures(lab: &Lab) -> Vec<String> {
    let records = lab.log.records().into_iter();
    let words = records.flat_map(|record| record.entry.findings);
    words
        .filter(|words| words.contains("was not told"))
        .map(|words| words.to_string())
        .collect()
}

const URL: &str = "https://hooks.example/x";

#[tokio::test(start_paused = true)]
async fn what_does_not_answer_is_tried_again_as_the_same_message() {
    let lab = Lab::new();
    let webhook = saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[503, 429, 200]);
    let news = Arc::new(News::Held(row(&lab, "a")));
    deliver(Arc::clone(&lab.app), webhook, news).await;
    assert_eq!(asked.load(Ordering::Relaxed), 3);
    assert!(failures(&lab).is_empty());
    let seen = lab.outbound.seen.lock();
    let ids: Vec<_> = seen.iter().map(|one| field(one, "webhook-id")).collect();
    assert!(
        ids.iter().all(|id| *id == ids[0] && id.starts_with("msg_")),
        "{ids:?}"
    );
    let key = Key::read(WebhookKind::Generic, crate::app::tests::WEBHOOK_SECRET).unwrap();
    for request in seen.iter() {
        let headers: HeaderMap = request.headers.iter().cloned().collect();
        let heard = key.check(
            WebhookKind::Generic,
            (&headers, &request.body),
            lab.app.now(),
        );
        assert!(heard.is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn what_went_out_and_was_not_answered_may_be_answered_from_there() {
    let lab = Lab::new();
    let webhook = saved(&lab, "ops", URL);
    let slow = || OutboundError::Slow {
        host: "hooks.example".to_owned(),
    };
    let count = AtomicU32::new(0);
    // Taken once, and then it is told that it cannot be.
    lab.outbound.answer(URL, move |_| {
        if count.fetch_add(1, Ordering::Relaxed) == 0 {
            return Err(slow());
        }
        Ok(OutboundAnswer {
            status: StatusCode::BAD_REQUEST,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        })
    });
    let news = Arc::new(News::Held(row(&lab, "a")));
    assert!(!deliver(Arc::clone(&lab.app), webhook, news).await);
    assert_eq!(failures(&lab).len(), 1);
    let may = lab.app.store.begin_answer("ops", "a", lab.app.now());
    assert_eq!(may.unwrap(), crate::store::Answerable::Yes);
}

fn field(request: &OutboundRequest, name: &str) -> String {
    let found = request.headers.iter().find(|(known, _)| known == name);
    found.unwrap().1.to_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_for_good_is_recorded_and_not_asked_again() {
    let lab = Lab::new();
    let webhook = saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[404]);
    deliver(
        Arc::clone(&lab.app),
        webhook,
        Arc::new(News::Held(row(&lab, "a"))),
    )
    .await;
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    let words = "webhook ops was not told what waits: it answered with status 404 Not Found";
    assert_eq!(failures(&lab), [words]);
    let record = lab.log.records().pop().unwrap().entry;
    assert_eq!(record.request.as_deref(), Some("a"));
    // Nothing answers at all: tried as often as it is worth, then recorded.
    let other = saved(&lab, "gone", "https://gone.example/");
    deliver(
        Arc::clone(&lab.app),
        other,
        Arc::new(News::Held(row(&lab, "b"))),
    )
    .await;
    assert_eq!(lab.outbound.asked("https://gone.example/"), PAUSES.len());
    assert_eq!(failures(&lab).len(), 2);
    // What was decided on meanwhile is nobody's to hear.
    let webhook = saved(&lab, "ops", "https://gone.example/");
    let over = row(&lab, "c");
    lab.app.store.end_held(&["c".to_owned()]).unwrap();
    deliver(Arc::clone(&lab.app), webhook, Arc::new(News::Held(over))).await;
    assert_eq!(lab.outbound.asked("https://gone.example/"), PAUSES.len());
}

#[tokio::test(start_paused = true)]
async fn a_webhook_without_a_secret_here_is_not_told() {
    let lab = Lab::new();
    let webhook = saved(&lab, "nosecret", URL);
    let asked = answers(&lab, URL, &[200]);
    deliver(
        Arc::clone(&lab.app),
        webhook,
        Arc::new(News::Held(row(&lab, "a"))),
    )
    .await;
    assert_eq!(
        asked.load(Ordering::Relaxed),
        0,
        "nothing goes out unsigned"
    );
    assert_eq!(failures(&lab).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_was_denied_takes_no_place_of_what_waits() {
    let lab = Lab::new();
    saved(&lab, "gone", "https://gone.example/");
    saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[200]);
    let mut warning = JoinSet::new();
    for number in 0..MOST_A_MINUTE {
        let denied = denied(number);
        let what = format!("what {number}");
        spread(&lab.app, News::Denied(denied, what), &mut warning).await;
    }
    let mut telling = JoinSet::new();
    spread(&lab.app, News::Held(row(&lab, "a")), &mut telling).await;
    assert_eq!(telling.len(), 2, "it has its own places");
    assert!(failures(&lab).is_empty(), "and its own count");
    while warning.join_next().await.is_some() {}
    assert_eq!(asked.load(Ordering::Relaxed), MOST_A_MINUTE + 1);
    let tries = FEW_TRIES * MOST_A_MINUTE as usize;
    let dead = lab.outbound.asked("https://gone.example/");
    assert!((tries..=tries + PAUSES.len()).contains(&dead), "{dead}");
    telling.shutdown().await;
}

#[tokio::test]
async fn a_flood_is_told_in_part_and_no_stop_waits_for_it() {
    let lab = Lab::new();
    saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[200]);
    let (send, fresh) = tokio::sync::mpsc::channel(128);
    // One server that asks and asks, and then another one, once.
    for number in 0..70 {
        send.send(row(&lab, &number.to_string())).await.unwrap();
    }
    let mut other = row(&lab, "other");
    other.facts.server = "mail".to_owned();
    send.send(other).await.unwrap();
    let stopping = CancellationToken::new();
    let telling = tell(Arc::clone(&lab.app), fresh, stopping.clone());
    let ends = async {
        while failures(&lab).len() < 50 {
            sleep(Duration::from_millis(10)).await;
        }
        sleep(Duration::from_millis(100)).await;
        stopping.cancel();
    };
    tokio::join!(telling, ends);
    assert_eq!(asked.load(Ordering::Relaxed), MOST_OF_SERVER + 1);
    assert_eq!(failures(&lab).len(), 50);
    let seen = lab.outbound.seen.lock();
    let of_other = |one: &OutboundRequest| String::from_utf8_lossy(&one.body).contains("\"mail\"");
    assert!(seen.iter().any(of_other), "the other server's is told");
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_keeps_no_other_waiting() {
    let lab = Lab::new();
    saved(&lab, "gone", "https://gone.example/");
    saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[200]);
    let (send, fresh) = tokio::sync::mpsc::channel(128);
    for number in 0..50 {
        let mut one = row(&lab, &number.to_string());
        one.facts.server = format!("server {}", number % 5);
        send.send(one).await.unwrap();
    }
    let stopping = CancellationToken::new();
    let telling = tell(Arc::clone(&lab.app), fresh, stopping.clone());
    let begun = Instant::now();
    let ends = async {
        while asked.load(Ordering::Relaxed) < 50 && begun.elapsed() < MINUTE {
            sleep(Duration::from_millis(10)).await;
        }
        stopping.cancel();
        begun.elapsed()
    };
    let ((), took) = tokio::join!(telling, ends);
    assert_eq!(asked.load(Ordering::Relaxed), 50);
    // The other one is tried for a minute and more.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

fn denied(number: u32) -> DeniedView {
    DeniedView {
        record: format!("1-{number}"),
        allow: String::new(),
        server: Some("docs".to_owned()),
        profile: None,
        asks: String::new(),
        host: None,
        port: None,
        method: None,
        path: None,
        by_path: false,
        policy: String::new(),
        reason: None,
        time: String::new(),
        count: 1,
    }
}

#[tokio::test(start_paused = true)]
async fn denials_in_line_keep_no_request_waiting_and_what_waits_no_more_is_not_sent() {
    let lab = Lab::new();
    let webhook = saved(&lab, "ops", URL);
    let asked = answers(&lab, URL, &[200]);
    let news = |news| Arc::new(news);
    let denial = news(News::Denied(denied(1), "x".to_owned()));
    let of_denials = lab.app.webhooks.line("ops", &denial);
    let hung = of_denials.acquire_many(2).await.unwrap();
    let tell = |news: &Arc<News>| deliver(Arc::clone(&lab.app), webhook.clone(), Arc::clone(news));
    let held = news(News::Held(row(&lab, "a")));
    assert!(tell(&held).await);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
    // A denial waits in line for so long, and is told again another time.
    assert!(!tell(&denial).await);
    assert!(
        failures(&lab)[0].contains("in line"),
        "{:?}",
        failures(&lab)
    );
    drop(hung);
    // Nobody waits any more when it is its turn.
    let line = lab.app.webhooks.line("ops", &held);
    let hung = line.acquire_many(8).await.unwrap();
    let over = news(News::Held(row(&lab, "b")));
    let free = async {
        sleep(Duration::from_secs(5)).await;
        lab.app.store.end_held(&["b".to_owned()]).unwrap();
        drop(hung);
    };
    let (told, ()) = tokio::join!(tell(&over), free);
    assert!(!told);
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_is_away_fills_no_record_and_its_failures_are_counted() {
    let lab = Lab::new();
    let webhook = saved(&lab, "gone", "https://gone.example/");
    let news = |number| News::Denied(denied(number), format!("what {number}"));
    for number in 0..12 {
        failed(&lab.app, &webhook, &news(number), "no answer").await;
    }
    failed(&lab.app, &webhook, &news(12), "another cause").await;
    let first = "webhook gone was not told what was denied: ";
    let two = ["no answer", "another cause"].map(|why| format!("{first}{why}"));
    assert_eq!(failures(&lab), two);
    told_of_more(&lab.app).await;
    assert_eq!(failures(&lab).len(), 2, "its minute is not over");
    sleep(MINUTE).await;
    told_of_more(&lab.app).await;
    told_of_more(&lab.app).await;
    let more = "webhook gone was not told of 11 more in a minute: no answer";
    assert_eq!(
        failures(&lab),
        [two.as_slice(), &[more.to_owned()]].concat()
    );
    failed(&lab.app, &webhook, &news(13), "no answer").await;
    assert_eq!(
        failures(&lab).len(),
        3,
        "one a minute, however long it is away"
    );
    sleep(MINUTE).await;
    told_of_more(&lab.app).await;
    assert_eq!(failures(&lab).len(), 4);
    sleep(MINUTE).await;
    told_of_more(&lab.app).await;
    assert_eq!(failures(&lab).len(), 4, "it was told since");
    // A request that waits has its own.
    for id in ["a", "b"] {
        failed(&lab.app, &webhook, &News::Held(row(&lab, id)), "no answer").await;
    }
    assert_eq!(failures(&lab).len(), 6);
    let records = lab.log.records();
    assert!(
        records.iter().all(|one| one.entry.verdict.is_none()),
        "nobody was denied anything by it"
    );
}
