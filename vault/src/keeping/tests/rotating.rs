//! Refresh tokens that their server takes out of use with every answer: none is lost, and none is used
//! twice.

use super::*;

/// A token endpoint that takes a refresh token once: a second time is a thief's, and ends the login.
#[derive(Debug)]
pub(super) struct TokenServer {
    state: Mutex<Login>,
    pub(super) gate: tokio::sync::Semaphore,
}

#[derive(Debug)]
struct Login {
    /// Whatever it is asked with.
    anything: bool,
    takes: usize,
    asked: usize,
    stolen: bool,
}

impl TokenServer {
    pub(super) fn open() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(Login {
                anything: false,
                takes: 0,
                asked: 0,
                stolen: false,
            }),
            gate: tokio::sync::Semaphore::new(1000),
        })
    }

    pub(super) fn takes_anything(&self) {
        self.state.lock().anything = true;
    }

    pub(super) fn asked(&self) -> usize {
        self.state.lock().asked
    }
}

impl Fetch for TokenServer {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        Box::pin(async move {
            let form = String::from_utf8(request.body.expose().to_vec()).unwrap();
            let fresh = {
                let mut login = self.state.lock();
                login.asked += 1;
                let good = format!("refresh_token=refresh-{}", login.takes);
                login.stolen |= !login.anything && !form.split('&').any(|field| field == good);
                login.takes += 1;
                (!login.stolen).then_some(login.takes)
            };
            // It is out of use now, and the answer takes its time.
            self.gate.acquire().await.unwrap().forget();
            let (status, body) = match fresh {
                Some(number) => (
                    200,
                    format!(
                        r#"{{"access_token":"access-{number}","token_type":"Bearer","expires_in":3600,"refresh_token":"refresh-{number}"}}"#
                    ),
                ),
                None => (400, r#"{"error":"invalid_grant"}"#.to_owned()),
            };
            Ok(FetchAnswer {
                status,
                headers: vec![("content-type".to_owned(), "application/json".to_owned())],
                body: SecretBytes::new(body.into_bytes()),
            })
        })
    }
}

const ROTATING: &str = "kind: {oauth2_refresh_token: {endpoint: {token_url: 'https://id.example/token'}, \
                        client: {client_id: app, authentication: none}}}";

impl Lab {
    /// A keeper of another process, with its own look at the vault.
    pub(super) fn beside(&self, server: &Arc<TokenServer>) -> RunKeeper {
        let fetch: Arc<dyn Fetch> = server.clone();
        let clock: Arc<dyn Clock> = self.clock.clone();
        let vault = vault(self.dir.path(), &self.clock);
        RunKeeper::builder(fetch, clock)
            .vault(vault)
            .build()
            .unwrap()
    }

    pub(super) fn stored(&self, secret: &str) -> String {
        let view = self.vault.view().unwrap();
        let row = view.current(secret, self.clock.now()).unwrap();
        let value = self.vault.open_version(&view, row).unwrap();
        String::from_utf8(value.expose().to_vec()).unwrap()
    }
}

#[tokio::test]
async fn a_rotated_refresh_token_is_stored_though_whoever_asked_for_it_left() {
    let lab = Lab::new();
    let server = TokenServer::open();
    put(&lab.vault, "LOGIN", "refresh-0", ROTATING, 0);
    let keeper = lab.beside(&server);
    server.gate.forget_permits(1000);
    let login = name("LOGIN");
    {
        let mut waiting = keeper.current(&login);
        assert!(futures_poll(&mut waiting).is_none());
        while server.asked() == 0 {
            std::thread::yield_now();
        }
    }
    server.gate.add_permits(1000);
    assert!(keeper.settle(LONG));
    assert_eq!(lab.stored("LOGIN"), "refresh-1");
    assert_eq!(get(&keeper, "LOGIN").await.unwrap(), "access-1");
    assert_eq!(server.asked(), 1);
}

#[tokio::test]
async fn who_ends_while_another_process_asks_gives_up_and_asks_nobody() {
    let lab = Lab::new();
    let server = TokenServer::open();
    put(&lab.vault, "LOGIN", "refresh-0", ROTATING, 0);
    let (first, second) = (lab.beside(&server), lab.beside(&server));
    server.gate.forget_permits(1000);
    let login = name("LOGIN");
    let mut asking = first.current(&login);
    assert!(futures_poll(&mut asking).is_none());
    while server.asked() == 0 {
        std::thread::yield_now();
    }
    let mut waiting = second.current(&login);
    assert!(futures_poll(&mut waiting).is_none());
    assert!(second.settle(LONG));
    let given_up = waiting.await.unwrap_err().to_string();
    assert!(given_up.contains("it is ending"), "{given_up}");
    server.gate.add_permits(1000);
    assert!(first.settle(LONG));
    assert_eq!(server.asked(), 1);
    assert_eq!(lab.stored("LOGIN"), "refresh-1");
}

#[tokio::test]
async fn processes_that_begin_at_once_use_no_refresh_token_twice() {
    let lab = Lab::new();
    let server = TokenServer::open();
    put(&lab.vault, "LOGIN", "refresh-0", ROTATING, 0);
    let keepers: Vec<RunKeeper> = (0..4).map(|_| lab.beside(&server)).collect();
    server.gate.forget_permits(1000);
    let login = name("LOGIN");
    for keeper in &keepers {
        let mut waiting = keeper.current(&login);
        assert!(futures_poll(&mut waiting).is_none());
    }
    while server.asked() == 0 {
        std::thread::yield_now();
    }
    server.gate.add_permits(1000);
    let mut tokens = Vec::new();
    for keeper in &keepers {
        tokens.push(get(keeper, "LOGIN").await.unwrap());
    }
    tokens.sort();
    assert_eq!(tokens, ["access-1", "access-2", "access-3", "access-4"]);
    assert!(!server.state.lock().stolen);
    // None ends what the others have, nor sends them to the server again.
    for keeper in keepers.iter().rev() {
        assert!(keeper.at_hand(&login).is_some());
        let token = get(keeper, "LOGIN").await.unwrap();
        assert!(tokens.contains(&token));
    }
    assert_eq!(server.asked(), 4);
    assert_eq!(lab.stored("LOGIN"), "refresh-4");
    // What a person does ends what was minted, in every process.
    put(&lab.vault, "LOGIN", "another login", ROTATING, 0);
    assert!(
        keepers
            .iter()
            .all(|keeper| keeper.at_hand(&login).is_none())
    );
}

#[tokio::test]
async fn what_was_minted_stays_good_however_often_the_refresh_token_was_replaced_since() {
    let lab = Lab::new();
    let server = TokenServer::open();
    put(&lab.vault, "LOGIN", "refresh-0", ROTATING, 0);
    let first = lab.beside(&server);
    assert_eq!(get(&first, "LOGIN").await.unwrap(), "access-1");
    // More than are remembered.
    for number in 2..40 {
        let other = lab.beside(&server);
        let token = get(&other, "LOGIN").await.unwrap();
        assert_eq!(token, format!("access-{number}"));
    }
    assert_eq!(get(&first, "LOGIN").await.unwrap(), "access-1");
    assert_eq!(server.asked(), 39);
    // Rotated by a person, it is another login.
    put(&lab.vault, "LOGIN", "refresh-39", ROTATING, 60);
    assert_eq!(get(&first, "LOGIN").await.unwrap(), "access-40");
    lab.vault.remove(&name("LOGIN"), None, false).unwrap();
    assert!(get(&first, "LOGIN").await.is_err());
}
