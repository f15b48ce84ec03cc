//! One fetch for many, renewal in time, silence and refusal, revocation at the next look.

use std::{sync::atomic::AtomicUsize, time::Duration};

mod due;
mod forgotten;
mod rotating;
mod watched;

use super::*;
use crate::{
    clock::StoppedClock,
    fetch::{FetchAnswer, FetchError, FetchFuture, FetchRequest},
    master_key::{FILE, MasterKeySource},
    store::sqlite::SqliteStore,
    vault::NewVersion,
};

/// A key store with one value, which can be silent or refuse, and counts.
#[derive(Debug)]
struct KeyStore {
    asked: AtomicUsize,
    status: AtomicUsize,
    version: AtomicUsize,
    gate: tokio::sync::Semaphore,
}

impl KeyStore {
    fn open() -> Arc<Self> {
        Arc::new(Self {
            asked: AtomicUsize::new(0),
            status: AtomicUsize::new(200),
            version: AtomicUsize::new(1),
            gate: tokio::sync::Semaphore::new(1000),
        })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

impl Fetch for KeyStore {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(async move {
            assert_eq!(request.url, "https://kv.example/v1/secret/data/app");
            self.asked.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.unwrap().forget();
            let status = self.status.load(Ordering::SeqCst);
            if status == 0 {
                return Err(FetchError::Slow {
                    host: "kv.example".to_owned(),
                    deadline: request.deadline,
                });
            }
            let version = self.version.load(Ordering::SeqCst);
            let body = format!(
                r#"{{"data":{{"data":{{"value":"value {version}"}},"metadata":{{"version":{version}}}}}}}"#
            );
            Ok(FetchAnswer {
                status: u16::try_from(status).unwrap(),
                headers: Vec::new(),
                body: SecretBytes::new(body.into_bytes()),
            })
        })
    }
}

struct Lab {
    dir: tempfile::TempDir,
    clock: Arc<StoppedClock>,
    store: Arc<KeyStore>,
    vault: Arc<Vault>,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(StoppedClock::at(
            Timestamp::from_second(1_800_000_000).unwrap(),
        ));
        let vault = vault(dir.path(), &clock);
        Self {
            dir,
            clock,
            store: KeyStore::open(),
            vault,
        }
    }

    fn keeper(&self) -> RunKeeper {
        let fetch: Arc<dyn Fetch> = self.store.clone();
        let clock: Arc<dyn Clock> = self.clock.clone();
        RunKeeper::builder(fetch, clock)
            .vault(Arc::clone(&self.vault))
            .build()
            .unwrap()
    }

    /// A secret whose value the key store has, good for a hundred seconds.
    fn provided(&self) {
        let token = self.dir.path().join("token");
        std::fs::write(&token, "t\n").unwrap();
        let text = format!(
            "provider: {{hashicorp: {{address: 'https://kv.example', path: app, ttl: 100, \
             auth: {{token: {{file: '{}'}}}}}}}}",
            token.display()
        );
        self.defined("KV", &text);
    }

    /// A secret that has its value from a provider.
    fn defined(&self, secret: &str, text: &str) {
        let definition = Definition::parse(text).unwrap();
        let new = NewVersion {
            value: None,
            expires: None,
            grace: Duration::ZERO,
            custody: false,
        };
        self.vault.set(&name(secret), &definition, &new).unwrap();
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

fn vault(dir: &std::path::Path, clock: &Arc<StoppedClock>) -> Arc<Vault> {
    let store = Arc::new(SqliteStore::open(&dir.join("gig.db")).unwrap());
    let source = MasterKeySource::Default(dir.join(FILE));
    let clock: Arc<dyn Clock> = clock.clone();
    Arc::new(Vault::open(store, source, clock).unwrap())
}

fn name(text: &str) -> SecretName {
    text.parse().unwrap()
}

fn put(vault: &Vault, secret: &str, value: &str, definition: &str, grace: u64) {
    let value = SecretBytes::from(value);
    let definition = Definition::parse(definition).unwrap();
    let new = NewVersion {
        value: Some(&value),
        expires: None,
        grace: Duration::from_secs(grace),
        custody: false,
    };
    if grace == 0 {
        vault.set(&name(secret), &definition, &new).unwrap();
    } else {
        vault.rotate(&name(secret), &new).unwrap();
    }
}

fn text(secret: &Secret) -> String {
    String::from_utf8(secret.parts[0].value.expose().to_vec()).unwrap()
}

async fn get(keeper: &RunKeeper, secret: &str) -> Result<String, SecretUnavailable> {
    let name = name(secret);
    keeper.current(&name).await.map(|secret| text(&secret))
}

fn watched(keeper: &RunKeeper) -> Vec<(String, bool)> {
    let guarded = keeper.guarded();
    let mut list: Vec<_> = guarded
        .values
        .iter()
        .map(|known| {
            (
                String::from_utf8(known.value.expose().to_vec()).unwrap(),
                known.current,
            )
        })
        .collect();
    list.sort();
    list
}

#[tokio::test]
async fn a_given_value_goes_before_the_vaults() {
    let lab = Lab::new();
    put(&lab.vault, "A", "of the vault", "{}", 0);
    let fetch: Arc<dyn Fetch> = lab.store.clone();
    let clock: Arc<dyn Clock> = lab.clock.clone();
    let keeper = RunKeeper::builder(fetch, clock)
        .give(name("A"), SecretBytes::from("of the environment"))
        .vault(Arc::clone(&lab.vault))
        .build()
        .unwrap();
    assert_eq!(get(&keeper, "A").await.unwrap(), "of the environment");
    assert!(keeper.at_hand(&name("A")).is_some());
    assert!(matches!(
        get(&keeper, "B").await,
        Err(SecretUnavailable::Unknown { .. })
    ));
    // The vault's is watched for all the same, and may go nowhere: it is another secret of that name.
    assert_eq!(
        watched(&keeper),
        [
            ("of the environment".to_owned(), true),
            ("of the vault".to_owned(), false)
        ]
    );
    // Where both are one value it is that of the name.
    put(&lab.vault, "A", "of the environment", "{}", 0);
    assert!(watched(&keeper).contains(&("of the environment".to_owned(), true)));
}

#[tokio::test]
async fn a_revocation_by_another_process_shows_at_once() {
    let lab = Lab::new();
    put(&lab.vault, "A", "first value", "{}", 0);
    let keeper = lab.keeper();
    assert_eq!(get(&keeper, "A").await.unwrap(), "first value");
    assert!(keeper.at_hand(&name("A")).is_some());
    let before = keeper.guarded();
    assert!(
        Arc::ptr_eq(&before, &keeper.guarded()),
        "the same list until something changes"
    );

    let other = vault(lab.dir.path(), &lab.clock);
    other.remove(&name("A"), None, false).unwrap();
    assert!(keeper.at_hand(&name("A")).is_none());
    let why = keeper.current(&name("A")).await.unwrap_err().to_string();
    assert!(why.starts_with("secret A was removed at "), "{why}");
    assert_eq!(watched(&keeper), [("first value".to_owned(), false)]);
    assert!(keeper.guarded().generation > before.generation);
}

#[tokio::test]
async fn what_was_revoked_is_told_from_what_expired() {
    let lab = Lab::new();
    let keeper = lab.keeper();
    let value = SecretBytes::from("a value of some length");
    let new = NewVersion {
        value: Some(&value),
        expires: Some(Duration::from_secs(60)),
        grace: Duration::ZERO,
        custody: false,
    };
    for one in ["OLD", "CALLED_BACK"] {
        let set = lab.vault.set(&name(one), &Definition::default(), &new);
        assert_eq!(set.unwrap(), 1);
    }
    let removed = lab.vault.remove(&name("CALLED_BACK"), Some(1), false);
    assert_eq!(removed.unwrap().versions, 1);
    lab.pass(60);
    let why = async |one| keeper.current(&name(one)).await.unwrap_err().to_string();
    let (old, called_back) = (why("OLD").await, why("CALLED_BACK").await);
    assert!(
        old.contains("OLD expired at") && !old.contains("revoked"),
        "{old}"
    );
    assert!(
        called_back.contains("CALLED_BACK was revoked at") && !called_back.contains("expired"),
        "{called_back}"
    );
}

#[tokio::test]
async fn the_old_version_may_leave_in_its_grace_time_only() {
    let lab = Lab::new();
    put(&lab.vault, "A", "first value", "{}", 0);
    let keeper = lab.keeper();
    put(&lab.vault, "A", "second value", "{}", 60);
    assert_eq!(get(&keeper, "A").await.unwrap(), "second value");
    let list = |current| {
        [
            ("first value".to_owned(), current),
            ("second value".to_owned(), true),
        ]
    };
    assert_eq!(watched(&keeper), list(true));
    lab.pass(60);
    assert_eq!(watched(&keeper), list(false));
}

#[tokio::test]
async fn a_pairs_password_is_watched_for_and_its_user_is_not() {
    let lab = Lab::new();
    put(
        &lab.vault,
        "PAIR",
        "deployment:hunter2hunter2",
        "kind: basic",
        0,
    );
    let keeper = lab.keeper();
    let pair = name("PAIR");
    let secret = keeper.current(&pair).await.unwrap();
    let variables: Vec<&str> = secret.parts.iter().map(|part| &*part.variable).collect();
    assert_eq!(variables, ["PAIR", "PAIR_USER"]);
    assert_eq!(watched(&keeper), [("hunter2hunter2".to_owned(), true)]);
}

#[tokio::test]
async fn many_who_wait_share_one_fetch() {
    let lab = Lab::new();
    lab.provided();
    let keeper = Arc::new(lab.keeper());
    lab.store.gate.forget_permits(1000);
    let mut waiting = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let keeper = Arc::clone(&keeper);
        waiting.spawn(async move { get(&keeper, "KV").await });
    }
    while lab.store.asked() == 0 {
        tokio::task::yield_now().await;
    }
    lab.store.gate.add_permits(1000);
    while let Some(got) = waiting.join_next().await {
        assert_eq!(got.unwrap().unwrap(), "value 1");
    }
    assert_eq!(lab.store.asked(), 1);
}

#[tokio::test]
async fn a_fetch_goes_on_when_everybody_who_waits_for_it_leaves() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    lab.store.gate.forget_permits(1000);
    let kv = name("KV");
    for _ in 0..2 {
        let mut waiting = keeper.current(&kv);
        assert!(futures_poll(&mut waiting).is_none());
    }
    assert!(!keeper.landed(Duration::from_millis(1)), "it is under way");
    lab.store.gate.add_permits(1000);
    assert!(keeper.landed(LONG));
    assert_eq!(lab.store.asked(), 1);
    assert!(keeper.at_hand(&kv).is_some());
}

/// Waiting that only ends by a fault.
const LONG: Duration = Duration::from_secs(600);

/// Polls once.
fn futures_poll<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[tokio::test]
async fn a_value_is_renewed_before_its_end_and_old_ones_are_watched_for() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    lab.pass(79);
    assert!(keeper.at_hand(&name("KV")).is_some());
    assert_eq!(lab.store.asked(), 1);
    lab.store.version.store(2, Ordering::SeqCst);
    lab.pass(1);
    assert!(
        keeper.at_hand(&name("KV")).is_none(),
        "whoever comes first renews"
    );
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert!(keeper.landed(LONG));
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 2");
    assert_eq!(lab.store.asked(), 2);
    assert_eq!(
        watched(&keeper),
        [("value 1".to_owned(), false), ("value 2".to_owned(), true)]
    );
}

#[tokio::test]
async fn what_is_due_is_usable_to_its_end_and_renewed_meanwhile() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    let kv = name("KV");
    let usable = || keeper.usable(&kv).map(|secret| text(&secret));
    assert_eq!(usable(), None, "nothing was fetched yet");
    get(&keeper, "KV").await.unwrap();
    lab.store.version.store(2, Ordering::SeqCst);
    keeper.renew(&kv);
    assert!(keeper.landed(LONG));
    assert_eq!(lab.store.asked(), 1, "it is not due");
    lab.pass(80);
    assert!(keeper.at_hand(&kv).is_none());
    assert_eq!(usable().as_deref(), Some("value 1"));
    keeper.renew(&kv);
    assert!(keeper.landed(LONG));
    assert_eq!(usable().as_deref(), Some("value 2"));
    assert_eq!(lab.store.asked(), 2);
    lab.pass(500);
    assert_eq!(usable(), None, "its time is over five times");
    // A revocation ends it at once.
    get(&keeper, "KV").await.unwrap();
    lab.vault.remove(&kv, None, false).unwrap();
    assert_eq!(usable(), None);
}

#[tokio::test]
async fn a_silent_provider_is_borne_for_a_while_and_a_refusal_is_not() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    get(&keeper, "KV").await.unwrap();
    lab.store.status.store(0, Ordering::SeqCst);
    lab.pass(100);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert!(keeper.landed(LONG));
    assert_eq!(lab.store.asked(), 2);
    // Not asked again by everybody.
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert_eq!(lab.store.asked(), 2);
    lab.pass(400);
    assert!(
        get(&keeper, "KV").await.is_err(),
        "its time is over five times"
    );
    let asked = lab.store.asked();
    assert!(get(&keeper, "KV").await.is_err());
    assert_eq!(
        lab.store.asked(),
        asked,
        "a failure is remembered for some seconds"
    );
    lab.store.status.store(200, Ordering::SeqCst);
    lab.pass(5);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");

    lab.store.status.store(403, Ordering::SeqCst);
    lab.pass(90);
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    assert!(keeper.landed(LONG));
    let refused = get(&keeper, "KV").await.unwrap_err().to_string();
    assert!(refused.contains("403"), "{refused}");
}

#[tokio::test]
async fn a_value_that_a_host_refuses_is_renewed_with_its_next_use_once_in_a_while() {
    let lab = Lab::new();
    lab.provided();
    let keeper = lab.keeper();
    assert_eq!(get(&keeper, "KV").await.unwrap(), "value 1");
    let renewed = async |version: usize| {
        lab.store.version.store(version, Ordering::SeqCst);
        keeper.refused(&name("KV"));
        get(&keeper, "KV").await.unwrap()
    };
    assert_eq!(renewed(2).await, "value 2");
    // Said of the new one at once, it changes nothing, however often.
    for _ in 0..100 {
        assert_eq!(renewed(3).await, "value 2");
    }
    assert_eq!(lab.store.asked(), 2);
    lab.pass(31);
    assert_eq!(renewed(4).await, "value 4");
    // Silence leaves the old one in use.
    lab.pass(31);
    lab.store.status.store(0, Ordering::SeqCst);
    assert_eq!(renewed(5).await, "value 4");
    // What is stored has nobody to ask.
    put(&lab.vault, "T", "stored value", "", 0);
    assert_eq!(get(&keeper, "T").await.unwrap(), "stored value");
    keeper.refused(&name("T"));
    keeper.refused(&name("NOBODY"));
    assert_eq!(
        keeper
            .at_hand(&name("T"))
            .map(|secret| text(&secret))
            .unwrap(),
        "stored value"
    );
}
