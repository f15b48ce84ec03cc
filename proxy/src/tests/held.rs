//! What lacks a rule waits for a person: nothing leaves before the word, and a word is for one thing.

use std::{sync::Arc, time::Duration};

use gig_audit::{Entry, Event, VerdictWord};
use gig_policy::{DenyReason, Policy};
use http::{Request, StatusCode};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::oneshot,
    task::JoinHandle,
};

use super::lab::{
    Arrangement, Lab, Way,
    client::{Answer, Body, Client, get},
    origin::{Origin, hello},
};
use crate::hold::{Desk, Held, Ticket, Word};

/// A desk that asks the test.
#[derive(Debug, Default)]
pub(super) struct FakeDesk {
    asked: Mutex<Vec<(Held, Option<oneshot::Sender<Word>>)>>,
    /// Held by each place.
    places: Arc<()>,
    full: bool,
}

impl Desk for FakeDesk {
    fn put_up(&self, held: Held) -> Option<Ticket> {
        if self.full {
            return None;
        }
        let (send, word) = oneshot::channel();
        self.asked.lock().push((held, Some(send)));
        Some(Ticket {
            word,
            place: Box::new(Arc::clone(&self.places)),
        })
    }
}

impl FakeDesk {
    async fn until_asked(&self, count: usize) -> Held {
        for _ in 0..4000 {
            if let Some((held, _)) = self.asked.lock().get(count - 1) {
                return held.clone();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("asked {} times", self.asked.lock().len());
    }

    fn say(&self, word: Word) {
        let mut asked = self.asked.lock();
        let send = asked.iter_mut().find_map(|(_, send)| send.take());
        send.expect("somebody who waits").send(word).unwrap();
    }

    /// Nothing waits any more.
    async fn until_empty(&self) {
        for _ in 0..4000 {
            if Arc::strong_count(&self.places) == 1 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("something still waits");
    }

    pub(super) fn asked(&self) -> usize {
        self.asked.lock().len()
    }
}

const HOLDING: &str = "
version: 1
name: asks
hold: 5m
egress:
  - {host: api.test, allow_private: [127.0.0.0/8], rules: [{paths: [/open]}]}
";

async fn lab_with(policy: &str, desk: &Arc<FakeDesk>) -> (Lab, Origin) {
    let origin = Origin::https("api.test", &["h2", "http/1.1"], hello).await;
    let lab = Arrangement::new(policy)
        .origin("api.test:443", &origin)
        .origin("new.test:443", &origin)
        .desk(desk)
        .lab();
    (lab, origin)
}

fn request(path: &str, host: &str, h2: bool) -> Request<Body> {
    if h2 {
        return get(&format!("https://{host}{path}"));
    }
    let mut request = get(path);
    request.headers_mut().insert("host", host.parse().unwrap());
    request
}

fn sending(lab: &Lab, mut client: Client, request: Request<Body>) -> JoinHandle<(Client, Answer)> {
    lab.tasks.spawn(async move {
        let answer = client.send(request).await;
        (client, answer)
    })
}

fn findings(entry: &Entry) -> Vec<&str> {
    entry.findings.iter().map(|finding| &**finding).collect()
}

fn allow(who: &str) -> Word {
    Word::Allow(who.into())
}

fn deny(who: &str) -> Word {
    Word::Deny(who.into())
}

#[tokio::test]
async fn a_word_lets_one_request_pass_and_the_same_again_waits_again() {
    for alpn in ["http/1.1", "h2"] {
        let h2 = alpn == "h2";
        let desk = Arc::default();
        let (lab, origin) = lab_with(HOLDING, &desk).await;
        let client = lab.https("api.test", alpn).await;
        let waiting = sending(&lab, client, request("/shut?q=1", "api.test", h2));
        let held = desk.until_asked(1).await;
        assert_eq!(
            (held.method.as_deref(), held.path.as_deref()),
            (Some("GET"), Some("/shut"))
        );
        assert_eq!(
            (&*held.host, held.port, held.reason),
            ("api.test", 443, DenyReason::PathNotAllowed)
        );
        assert_eq!(&*held.policy.0, "asks");
        // Nothing left, and that it waits is recorded before anybody is asked.
        assert_eq!(origin.seen.connections(), 0, "{alpn}");
        let begun = &lab.records(Event::Finding)[0].entry;
        assert_eq!(findings(begun), ["held"]);
        assert_eq!(
            (begun.verdict, begun.request.as_deref()),
            (None, Some(&*held.id))
        );
        desk.say(allow("ana"));
        let (client, answer) = waiting.await.unwrap();
        assert_eq!(answer.status, StatusCode::OK, "{alpn}");
        assert_eq!(origin.seen.requests().len(), 1);
        let went = lab.records(Event::Request).remove(0).entry;
        assert_eq!(went.verdict, Some(VerdictWord::Allow));
        assert_eq!(findings(&went), ["held", "allowed_by:ana"]);
        assert_eq!(went.rule.as_deref(), Some(&*format!("once:{}", held.id)));
        assert!(went.secrets.is_empty());
        // The same again.
        let waiting = sending(&lab, client, request("/shut?q=1", "api.test", h2));
        desk.until_asked(2).await;
        assert_eq!(origin.seen.requests().len(), 1);
        desk.say(deny("ben"));
        let (_, answer) = waiting.await.unwrap();
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{alpn}");
        assert_eq!(answer.json()["reason"], "path_not_allowed");
        let hint = answer.json()["hint"].as_str().unwrap().to_owned();
        assert!(hint.contains("a person was asked and denied it"), "{hint}");
        assert!(!hint.contains("ben"), "{hint}");
        assert_eq!(origin.seen.requests().len(), 1);
        lab.assert_denied_once(DenyReason::PathNotAllowed);
        let denied = lab.records(Event::Request).remove(1).entry;
        assert_eq!(findings(&denied), ["held", "denied_by:ben"]);
        desk.until_empty().await;
    }
}

#[tokio::test]
async fn what_nobody_answers_is_denied_as_ever() {
    let desk = Arc::default();
    let (lab, origin) = lab_with(&HOLDING.replace("5m", "1s"), &desk).await;
    let client = lab.https("api.test", "http/1.1").await;
    let (mut client, answer) = sending(&lab, client, request("/shut", "api.test", false))
        .await
        .unwrap();
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let hint = answer.json()["hint"].as_str().unwrap().to_owned();
    assert!(
        hint.starts_with("ask for: ") && hint.contains("within 1 seconds"),
        "{hint}"
    );
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::PathNotAllowed);
    let denied = lab.records(Event::Request).remove(0).entry;
    assert_eq!(findings(&denied), ["held", "unanswered:1s"]);
    // The connection goes on.
    let open = client.send(request("/open", "api.test", false)).await;
    assert_eq!(open.status, StatusCode::OK);
    assert_eq!(desk.asked(), 1);
}

#[tokio::test]
async fn a_rule_that_comes_meanwhile_lets_it_pass() {
    let desk = Arc::default();
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    let client = lab.https("api.test", "h2").await;
    let waiting = sending(&lab, client, request("/shut", "api.test", true));
    desk.until_asked(1).await;
    // One that changes nothing for it.
    lab.subject
        .set_policy(Policy::compile(HOLDING, "test").unwrap());
    let wide = HOLDING.replace("[/open]", "[/open, /shut]");
    lab.subject
        .set_policy(Policy::compile(&wide, "test").unwrap());
    let (_, answer) = waiting.await.unwrap();
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(origin.seen.requests().len(), 1);
    let went = lab.records(Event::Request).remove(0).entry;
    assert_eq!(findings(&went), ["held", "allowed_by:policy"]);
    assert!(went.rule.as_deref().unwrap().starts_with("egress[0]"));
    desk.until_empty().await;
}

#[tokio::test]
async fn a_policy_that_no_longer_asks_denies_what_waits() {
    let desk = Arc::default();
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    let client = lab.https("api.test", "h2").await;
    let waiting = sending(&lab, client, request("/shut", "api.test", true));
    desk.until_asked(1).await;
    let silent = HOLDING.replace("hold: 5m\n", "");
    lab.subject
        .set_policy(Policy::compile(&silent, "test").unwrap());
    let (_, answer) = waiting.await.unwrap();
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::PathNotAllowed);
    desk.until_empty().await;
}

#[tokio::test]
async fn who_goes_away_waits_no_more() {
    for alpn in ["http/1.1", "h2"] {
        let desk = Arc::default();
        let (lab, origin) = lab_with(HOLDING, &desk).await;
        let stream = lab.connect(Way::to("api.test", 443)).await;
        let stream = lab.tls(stream, "api.test", &[alpn]).await.unwrap();
        let client = lab.client(stream, alpn == "h2").await;
        let waiting = sending(&lab, client, request("/shut", "api.test", alpn == "h2"));
        desk.until_asked(1).await;
        waiting.abort();
        let _aborted = waiting.await;
        desk.until_empty().await;
        let denied = lab.until_records(Event::Request, 1).await.remove(0).entry;
        assert_eq!(denied.verdict, Some(VerdictWord::Deny), "{alpn}");
        assert_eq!(findings(&denied), ["held", "client_gone"]);
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::PathNotAllowed);
    }
}

#[tokio::test]
async fn nothing_waits_in_a_sandbox_that_ends() {
    let desk = Arc::default();
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let waiting = lab.tasks.spawn(async move {
        let started = client.start(request("/shut", "api.test", false)).await;
        started.map(|answer| answer.status())
    });
    desk.until_asked(1).await;
    lab.subject.close().await;
    desk.until_empty().await;
    let told = waiting.await.unwrap();
    assert!(told.is_err() || told.unwrap() != StatusCode::OK);
    assert_eq!(origin.seen.connections(), 0);
    lab.until_denied().await;
}

#[tokio::test]
async fn a_host_without_a_rule_waits_inside_its_tls_and_no_word_opens_a_private_address() {
    for way in [Way::to("203.0.114.9", 443), Way::Explicit] {
        let desk = Arc::default();
        let (lab, origin) = lab_with(HOLDING, &desk).await;
        let stream = match way {
            Way::Explicit => {
                let (stream, head) = lab.connect_by_proxy("new.test:443").await;
                assert!(head.starts_with("HTTP/1.1 200"), "{head}");
                stream
            }
            way => lab.connect(way).await,
        };
        let stream = lab.tls(stream, "new.test", &["http/1.1"]).await.unwrap();
        let client = lab.client(stream, false).await;
        let waiting = sending(&lab, client, request("/x", "new.test", false));
        let held = desk.until_asked(1).await;
        assert_eq!(
            (&*held.host, held.path.as_deref()),
            ("new.test", Some("/x"))
        );
        desk.say(allow("ana"));
        let (_, answer) = waiting.await.unwrap();
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        assert_eq!(answer.json()["reason"], "private_address");
        assert_eq!(origin.seen.connections(), 0);
        let connect = lab.records(Event::Connect).remove(0).entry;
        assert_eq!(connect.verdict, Some(VerdictWord::Allow));
        assert!(connect.rule.as_deref().unwrap().starts_with("once:"));
        // It was told of: the connection itself is not refused beside it.
        lab.until_records(Event::Response, 1).await;
        assert_eq!(lab.records(Event::Connect).len(), 1);
    }
}

#[tokio::test]
async fn what_a_word_could_not_change_is_not_asked_for() {
    let desk: Arc<FakeDesk> = Arc::default();
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    // Names that disagree, a limit, an address of a private network.
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request("/open", "evil.test", false)).await;
    assert_eq!(answer.status, StatusCode::MISDIRECTED_REQUEST);
    for target in ["10.1.2.3:443", "169.254.169.254:80"] {
        let (_, head) = lab.connect_by_proxy(target).await;
        assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    }
    // A floor.
    let floor = "version: 1\nname: company\negress:\n  - {host: other.test}\n";
    let floor = Policy::compile(floor, "floor").unwrap();
    let own = Policy::compile(HOLDING, "test").unwrap();
    lab.subject.set_policy(own.under(vec![floor]));
    let (_, head) = lab.connect_by_proxy("new.test:443").await;
    assert!(head.starts_with("HTTP/1.1 403"), "{head}");
    let denied = lab.records(Event::Connect).pop().unwrap().entry;
    assert_eq!(denied.policy.as_deref(), Some("company"));
    assert_eq!(desk.asked(), 0);
    assert_eq!(origin.seen.connections(), 0);
}

#[tokio::test]
async fn where_as_many_wait_as_may_it_is_denied_at_once() {
    let desk = Arc::new(FakeDesk {
        full: true,
        ..FakeDesk::default()
    });
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let answer = client.send(request("/shut", "api.test", false)).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    let hint = answer.json()["hint"].as_str().unwrap().to_owned();
    assert!(hint.contains("as many as may wait"), "{hint}");
    assert_eq!(origin.seen.connections(), 0);
    lab.assert_denied_once(DenyReason::PathNotAllowed);
}

#[tokio::test]
async fn what_waits_and_cannot_be_recorded_is_denied_and_nobody_is_asked() {
    let desk: Arc<FakeDesk> = Arc::default();
    let (lab, origin) = lab_with(HOLDING, &desk).await;
    let mut client = lab.https("api.test", "http/1.1").await;
    let open = client.send(request("/open", "api.test", false)).await;
    assert_eq!(open.status, StatusCode::OK);
    lab.log.fail(true);
    let answer = client.send(request("/shut", "api.test", false)).await;
    assert_eq!(answer.json()["reason"], "record_unavailable");
    assert_eq!((desk.asked(), origin.seen.requests().len()), (0, 1));
}

#[tokio::test]
async fn a_connection_of_an_unknown_protocol_waits_for_a_word_and_for_its_program() {
    for said in [true, false] {
        let desk = Arc::default();
        let (lab, origin) = lab_with(HOLDING, &desk).await;
        let mut stream = lab.connect(Way::to("new.test", 22)).await;
        stream.write_all(b"SSH-2.0-client\r\n").await.unwrap();
        let held = desk.until_asked(1).await;
        assert_eq!((held.protocol, held.port, held.path), ("tcp", 22, None));
        if said {
            desk.say(deny("ben"));
            let mut answer = Vec::new();
            assert!(stream.read_to_end(&mut answer).await.is_err() && answer.is_empty());
        } else {
            drop(stream);
        }
        desk.until_empty().await;
        let denied = lab.until_records(Event::Connect, 1).await.remove(0).entry;
        let how = if said { "denied_by:ben" } else { "client_gone" };
        assert_eq!(findings(&denied), ["held", how]);
        assert_eq!(origin.seen.connections(), 0);
        lab.assert_denied_once(DenyReason::HostNotAllowed);
    }
}

#[tokio::test]
async fn a_word_of_the_last_moment_is_heard() {
    let desk = Arc::default();
    let (lab, origin) = lab_with(&HOLDING.replace("5m", "1s"), &desk).await;
    let client = lab.https("api.test", "http/1.1").await;
    let waiting = sending(&lab, client, request("/shut", "api.test", false));
    let _held = desk.until_asked(1).await;
    // Taken at another node within the second, and heard here behind it.
    tokio::time::sleep(Duration::from_millis(1100)).await;
    desk.say(allow("ana"));
    let (_client, answer) = waiting.await.unwrap();
    assert_eq!(answer.status, StatusCode::OK, "{answer:?}");
    assert_eq!(origin.seen.requests().len(), 1);
}
