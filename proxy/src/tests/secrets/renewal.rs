//! Values that a provider gives for a while, asked for by what is open for longer: with the real keeper
//! and a clock that the test moves.

use std::{path::PathBuf, time::Duration};

use gig_vault::{
    Definition, Fetch, FetchError, FetchFuture, FetchRequest, RunKeeper, StoppedClock, Vault,
    master_key::{FILE, MasterKeySource},
    store::sqlite::SqliteStore,
    vault::NewVersion,
};
use tokio::io::AsyncWriteExt;

use super::{
    socket::{hear, listening, open, say},
    *,
};
use crate::tests::lab::Way;

/// A secret whose value is in a file, good for a minute.
struct Provided {
    folder: tempfile::TempDir,
    clock: Arc<StoppedClock>,
    real: Arc<RunKeeper>,
    keeper: Arc<Keeper>,
}

/// There is no network.
#[derive(Debug)]
struct Nowhere;

impl Fetch for Nowhere {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(std::future::ready(Err(FetchError::Connect {
            host: request.url,
            why: "there is no network".to_owned(),
        })))
    }
}

impl Provided {
    async fn new(value: &str, more: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = gig_vault::Clock::now(&gig_vault::SystemClock);
        let clock = Arc::new(StoppedClock::at(at));
        let store = SqliteStore::open(&folder.path().join("gig.db")).unwrap();
        let source = MasterKeySource::Default(folder.path().join(FILE));
        let vault = Vault::open(Arc::new(store), source, clock.clone()).unwrap();
        let file = folder.path().join("value");
        std::fs::write(&file, value).unwrap();
        let text = format!(
            "{{provider: {{file: {{path: '{}'}}}}{more}}}",
            file.display()
        );
        let new = NewVersion {
            value: None,
            expires: None,
            grace: Duration::ZERO,
            custody: false,
        };
        let name = "TOKEN".parse().unwrap();
        vault
            .set(&name, &Definition::parse(&text).unwrap(), &new)
            .unwrap();
        let keeper = RunKeeper::builder(Arc::new(Nowhere), clock.clone());
        let keeper = keeper.vault(Arc::new(vault)).build().unwrap();
        let real = Arc::new(keeper);
        let keeper = Keeper::real(Arc::clone(&real) as Arc<dyn gig_vault::Keeper>, &["TOKEN"]);
        Self {
            folder,
            clock,
            keeper: keeper.await,
            real,
        }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("value")
    }

    fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }
}

#[tokio::test]
async fn a_value_goes_into_a_message_however_long_nobody_asked_for_it() {
    let (origin, mut heard) = listening().await;
    let provided = Provided::new("first-value-of-it", "").await;
    let lab = Arrangement::new(POLICY)
        .origin("api.test:443", &origin)
        .keeper(&provided.keeper)
        .lab();
    let sentinel = lab.subject.wallet().unwrap().held()[0].sentinel.to_string();
    let mut stream = open(&lab).await;
    // Due for renewal, then long past its end with another in its place.
    for (seconds, value) in [
        (0, "first-value-of-it"),
        (49, "first-value-of-it"),
        (100_000, "second-value-of-it"),
    ] {
        provided.pass(seconds);
        std::fs::write(provided.file(), value).unwrap();
        say(&mut stream, &sentinel).await;
        assert_eq!(heard.recv().await.unwrap(), value, "{seconds}");
        assert_eq!(
            hear(&mut stream).await,
            (0x81, sentinel.clone().into_bytes()),
            "{seconds}"
        );
        // What is renewed beside is renewed before the clock moves on.
        assert!(provided.real.landed(Duration::from_secs(600)));
    }
    // What cannot be had any more goes nowhere.
    std::fs::write(provided.file(), "").unwrap();
    provided.pass(100_000);
    say(&mut stream, &sentinel).await;
    assert_eq!(hear(&mut stream).await.0, 0x88);
    assert_eq!(heard.recv().await.unwrap(), "closed");
}

#[tokio::test]
async fn an_entrusted_value_passes_however_long_nobody_asked_for_it() {
    let value = "the-value-that-was-handed-in";
    for seconds in [0, 49, 100_000] {
        let provided = Provided::new(value, ", entrusted: true").await;
        provided.pass(seconds);
        let origin = Origin::raw(|mut stream, seen| async move {
            let mut octets = [0; 1024];
            while let Ok(n) = tokio::io::AsyncReadExt::read(&mut stream, &mut octets).await
                && n > 0
            {
                seen.octets.lock().extend(octets.iter().take(n));
            }
        })
        .await;
        let lab = Arrangement::new(opaque::ENTRUSTING)
            .origin("db.test:5432", &origin)
            .keeper(&provided.keeper)
            .lab();
        let mut stream = lab.connect(Way::to("db.test", 5432)).await;
        stream.write_all(value.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let ended = lab.until_records(Event::Response, 1).await;
        assert_eq!(ended[0].entry.reason, None, "{seconds}");
        assert_eq!(origin.seen.text(), value, "{seconds}");
    }
}
