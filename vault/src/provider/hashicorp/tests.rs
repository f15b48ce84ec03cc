//! Against a server that answers as HashiCorp documents it and checks every path, field and body.
//!
//! No real server is among the packages that the tests may install; this one follows the HTTP API
//! documentation of the key-value engine v2, `AppRole`, Kubernetes and token methods. `tests/egress/hashicorp.rs`
//! has one over TLS, which the API's own client agrees with.

use std::{fs, sync::Mutex as StdMutex};

use super::*;
use crate::{
    clock::{Clock, StoppedClock},
    fetch::{Fetch, FetchFuture},
};

/// Logs in, renews, reads; holds tokens that end when they are told to.
#[derive(Debug, Default)]
struct Server {
    seen: StdMutex<Vec<String>>,
    state: StdMutex<State>,
}

#[derive(Debug, Default)]
struct State {
    tokens: Vec<String>,
    logins: usize,
    sealed: bool,
    roots: Option<Vec<u8>>,
}

impl Server {
    fn seen(&self) -> Vec<String> {
        std::mem::take(&mut *self.seen.lock().unwrap())
    }

    fn expire_tokens(&self) {
        self.state.lock().unwrap().tokens.clear();
    }

    fn answer(&self, request: &FetchRequest) -> (u16, String) {
        let header = |name: &str| {
            let found = request.headers.iter().find(|(field, _)| *field == name);
            found.map(|(_, value)| String::from_utf8(value.expose().to_vec()).unwrap())
        };
        let path = request
            .url
            .strip_prefix("https://kv.example:8200/v1/")
            .unwrap();
        self.seen
            .lock()
            .unwrap()
            .push(format!("{} {path}", request.method.as_str()));
        let mut state = self.state.lock().unwrap();
        state.roots = request.roots.as_ref().map(|roots| roots.to_vec());
        assert_eq!(header("x-vault-request").as_deref(), Some("true"));
        assert_eq!(header("x-vault-namespace").as_deref(), Some("team/a"));
        if state.sealed {
            return (503, r#"{"errors":["Vault is sealed"]}"#.to_owned());
        }
        let body: serde_json::Value =
            serde_json::from_slice(request.body.expose()).unwrap_or_default();
        let granted = |state: &mut State, word: &str| {
            state.logins += 1;
            let token = format!("hvs.{word}{}", state.logins);
            state.tokens.push(token.clone());
            grant(&token)
        };
        match (request.method, path) {
            (FetchMethod::Post, "auth/approle/login") => {
                let right = serde_json::json!({"role_id": "role-1", "secret_id": "sid-1"});
                if body == right {
                    return granted(&mut state, "approle");
                }
                (
                    400,
                    r#"{"errors":["invalid role or secret ID"]}"#.to_owned(),
                )
            }
            (FetchMethod::Post, "auth/k8s-east/login") => {
                assert_eq!(
                    body,
                    serde_json::json!({"role": "gig", "jwt": "eyJhbGciOi.a.b"})
                );
                granted(&mut state, "kubernetes")
            }
            (method, path) => {
                let token = header("x-vault-token").unwrap_or_default();
                if !state.tokens.contains(&token) {
                    return (403, r#"{"errors":["permission denied"]}"#.to_owned());
                }
                match (method, path) {
                    (FetchMethod::Post, "auth/token/renew-self") => grant(&token),
                    (FetchMethod::Get, "kv/data/team/app") => (
                        200,
                        r#"{"request_id":"1","lease_duration":0,"data":{"data":{"password":"p4ss\n","number":5,"list":["a",{"b":null}],"none":null,"half":0.5,"no":false},
                        "metadata":{"created_time":"2026-01-01T00:00:00Z","custom_metadata":null,
                        "deletion_time":"","destroyed":false,"version":7}}}"#
                            .to_owned(),
                    ),
                    (FetchMethod::Get, "kv/data/deleted") => (
                        404,
                        r#"{"data":{"data":null,"metadata":{"deletion_time":"2026-01-02T00:00:00Z",
                        "destroyed":false,"version":1}}}"#
                            .to_owned(),
                    ),
                    _ => (404, r#"{"errors":[]}"#.to_owned()),
                }
            }
        }
    }
}

fn grant(token: &str) -> (u16, String) {
    let answer = serde_json::json!({
        "auth": {
            "client_token": token, "accessor": "a", "policies": ["default"],
            "lease_duration": 1000, "renewable": true,
        }
    });
    (200, answer.to_string())
}

impl Fetch for Server {
    fn fetch(&self, request: FetchRequest) -> FetchFuture<'_> {
        let (status, body) = self.answer(&request);
        Box::pin(std::future::ready(Ok(FetchAnswer {
            status,
            headers: Vec::new(),
            body: SecretBytes::new(body.into_bytes()),
        })))
    }
}

struct Lab {
    dir: tempfile::TempDir,
    server: Arc<Server>,
    fetch: Arc<dyn Fetch>,
    clock: StoppedClock,
}

impl Lab {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (file, text) in [("sid", "sid-1\n"), ("jwt", "eyJhbGciOi.a.b"), ("ca", "PEM")] {
            fs::write(dir.path().join(file), text).unwrap();
        }
        let server = Arc::new(Server::default());
        Self {
            dir,
            fetch: server.clone(),
            server,
            clock: StoppedClock::at(Timestamp::from_second(1_800_000_000).unwrap()),
        }
    }

    fn options(&self, path: &str, auth: &str) -> HashicorpOptions {
        let dir = self.dir.path().display();
        let auth = auth.replace("DIR", &dir.to_string());
        let text = format!(
            "{{address: 'https://kv.example:8200/', mount: kv, path: {path}, field: password, \
             namespace: team/a, ca_file: '{dir}/ca', ttl: 30, auth: {auth}}}"
        );
        serde_saphyr::from_str(&text).unwrap()
    }

    fn provider(&self, auth: &str) -> Hashicorp {
        Hashicorp::new(&self.options("team/app", auth))
    }

    async fn ask(&self, provider: &Hashicorp) -> Result<Provided, ProvideError> {
        let name = "APP".parse().unwrap();
        let clock: &dyn Clock = &self.clock;
        provider
            .provide(ProvideRequest {
                name: &name,
                fetch: &self.fetch,
                clock,
            })
            .await
    }
}

const APPROLE: &str = "{approle: {role_id: role-1, secret_id: {file: 'DIR/sid'}}}";

#[tokio::test]
async fn an_approle_logs_in_once_reads_and_renews() {
    let lab = Lab::new();
    let provider = lab.provider(APPROLE);
    let provided = lab.ask(&provider).await.unwrap();
    assert_eq!(
        provided.value,
        SecretBytes::from("p4ss"),
        "a field is taken without its line end"
    );
    assert_eq!(
        (provided.version, provided.lifetime),
        (Some(7), Duration::from_secs(30))
    );
    assert_eq!(
        lab.server.seen(),
        ["POST auth/approle/login", "GET kv/data/team/app"]
    );
    assert_eq!(
        lab.server.state.lock().unwrap().roots.as_deref(),
        Some(&b"PEM"[..])
    );

    lab.clock.advance(Duration::from_secs(499));
    lab.ask(&provider).await.unwrap();
    assert_eq!(lab.server.seen(), ["GET kv/data/team/app"]);
    lab.clock.advance(Duration::from_secs(1));
    lab.ask(&provider).await.unwrap();
    assert_eq!(
        lab.server.seen(),
        ["POST auth/token/renew-self", "GET kv/data/team/app"]
    );
    lab.clock.advance(Duration::from_secs(1000));
    lab.ask(&provider).await.unwrap();
    assert_eq!(
        lab.server.seen(),
        ["POST auth/approle/login", "GET kv/data/team/app"]
    );
}

#[tokio::test]
async fn a_token_that_is_no_longer_taken_is_replaced_once() {
    let lab = Lab::new();
    let provider = lab.provider(APPROLE);
    lab.ask(&provider).await.unwrap();
    lab.server.seen();
    lab.server.expire_tokens();
    lab.ask(&provider).await.unwrap();
    assert_eq!(
        lab.server.seen(),
        [
            "GET kv/data/team/app",
            "POST auth/approle/login",
            "GET kv/data/team/app"
        ]
    );
}

#[tokio::test]
async fn a_pod_logs_in_with_its_service_account() {
    let lab = Lab::new();
    let auth = "{kubernetes: {role: gig, token_file: 'DIR/jwt', mount: k8s-east}}";
    lab.ask(&lab.provider(auth)).await.unwrap();
    assert_eq!(
        lab.server.seen(),
        ["POST auth/k8s-east/login", "GET kv/data/team/app"]
    );
}

#[tokio::test]
async fn a_token_of_ones_own_is_used_as_it_is() {
    let lab = Lab::new();
    fs::write(lab.dir.path().join("token"), "hvs.mine\n").unwrap();
    let provider = lab.provider("{token: {file: 'DIR/token'}}");
    assert!(matches!(
        lab.ask(&provider).await,
        Err(ProvideError::Refused(_))
    ));
    lab.server
        .state
        .lock()
        .unwrap()
        .tokens
        .push("hvs.mine".to_owned());
    lab.ask(&provider).await.unwrap();
    let seen = lab.server.seen();
    assert_eq!(seen, ["GET kv/data/team/app", "GET kv/data/team/app"]);
    // It is exchanged in its file before the server no longer takes the old one, or after it.
    for (number, first) in [(1, true), (2, false)] {
        let token = format!("hvs.exchanged-{number}");
        let exchange = || fs::write(lab.dir.path().join("token"), &token).unwrap();
        if first {
            exchange();
        }
        lab.ask(&provider).await.unwrap();
        lab.server.expire_tokens();
        lab.server.state.lock().unwrap().tokens.push(token.clone());
        if !first {
            let refused = lab.ask(&provider).await;
            assert!(matches!(refused, Err(ProvideError::Refused(_))));
            exchange();
        }
        lab.ask(&provider).await.unwrap();
        lab.ask(&provider).await.unwrap();
        lab.server.seen();
    }
}

#[tokio::test]
async fn what_is_not_there_is_refused_and_a_sealed_server_is_not() {
    let lab = Lab::new();
    for path in ["deleted", "nowhere"] {
        let provider = Hashicorp::new(&lab.options(path, APPROLE));
        let refused = lab.ask(&provider).await.unwrap_err();
        assert!(matches!(refused, ProvideError::Refused(_)), "{refused}");
    }
    let mut options = lab.options("team/app", APPROLE);
    for field in ["number", "absent", "list", "none", "half", "no"] {
        field.clone_into(&mut options.field);
        let refused = lab
            .ask(&Hashicorp::new(&options))
            .await
            .unwrap_err()
            .to_string();
        assert!(refused.contains(field), "{refused}");
    }
    lab.server.state.lock().unwrap().sealed = true;
    let sealed = lab.ask(&lab.provider(APPROLE)).await.unwrap_err();
    assert!(
        matches!(&sealed, ProvideError::Unavailable(why) if why.contains("sealed")),
        "{sealed}"
    );
    fs::write(lab.dir.path().join("sid"), "wrong").unwrap();
    lab.server.state.lock().unwrap().sealed = false;
    let refused = lab
        .ask(&lab.provider(APPROLE))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("invalid role") && !refused.contains("wrong"),
        "{refused}"
    );
}

#[tokio::test]
async fn a_line_end_belongs_to_a_field_where_the_definition_says_so() {
    let lab = Lab::new();
    let mut options = lab.options("team/app", APPROLE);
    options.keep_newline = true;
    let provided = lab.ask(&Hashicorp::new(&options)).await.unwrap();
    assert_eq!(provided.value, SecretBytes::from("p4ss\n"));
}

#[test]
fn what_a_standby_says_is_no_refusal() {
    let said = |status| {
        let answer = FetchAnswer {
            status,
            headers: Vec::new(),
            body: br#"{"errors":["required index state not present"]}"#.to_vec().into(),
        };
        answer::refusal(&answer, "kv/app")
    };
    for (status, shown) in [(412, "required index state"), (307, "active server")] {
        let error = said(status);
        let told = error.to_string();
        assert!(
            matches!(error, ProvideError::Unavailable(_)) && told.contains(shown),
            "{told}"
        );
    }
    assert!(matches!(said(400), ProvideError::Refused(_)));
}

#[test]
fn paths_that_could_lead_elsewhere_are_refused() {
    let lab = Lab::new();
    let good = lab.options("team/app", APPROLE);
    assert_eq!(good.check(), Ok(()));
    for path in [
        "", "/a", "a/", "a//b", "../sys", "a/../b", "a?b", "a#b", "a%2e", "a b",
    ] {
        let options = HashicorpOptions {
            path: path.to_owned(),
            ..good.clone()
        };
        assert!(options.check().is_err(), "{path}");
    }
    let options = HashicorpOptions {
        address: "ftp://kv.example".to_owned(),
        ..good
    };
    assert!(options.check().is_err());
}

#[test]
fn what_a_server_says_is_shown_in_known_words_alone() {
    let refused = |status, said: &str| {
        let body = serde_json::json!({"errors": [said, "had kv-value-0123456789"]}).to_string();
        let answer = FetchAnswer {
            status,
            headers: Vec::new(),
            body: body.into_bytes().into(),
        };
        answer::refusal(&answer, "kv/app").to_string()
    };
    for (status, said, shown) in [
        (
            403,
            "1 error occurred: permission denied",
            "permission denied",
        ),
        (403, "bad token hvs.REALTOKEN0123456789", "bad token"),
        (503, "Vault is sealed", "Vault is sealed"),
        (500, "hvs.REALTOKEN0123456789", ""),
    ] {
        let told = refused(status, said);
        assert!(told.contains(shown), "{told}");
        assert!(
            !told.contains("REAL") && !told.contains("kv-value"),
            "{told}"
        );
    }
}
