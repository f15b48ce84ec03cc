//! Rounds to a provider that answers as it is told to, honest and not.

use gig_audit::Entry;
use http::HeaderName;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{signer::Signer, *};
use crate::{
    app::tests::{Lab, owner},
    credential::{mint_token, read_session},
    outbound::{OutboundAnswer, OutboundError},
    store::User,
};

mod health;
mod teams;
mod tried;

const ISSUER: &str = "https://idp.example";
const DISCOVERY: &str = "https://idp.example/.well-known/openid-configuration";
const TOKEN: &str = "https://idp.example/token";
const KEYS: &str = "https://idp.example/keys";

struct Round {
    lab: Lab,
    signer: Arc<Signer>,
    sso: SingleSignOn,
}

fn settings() -> OidcSettings {
    OidcSettings {
        issuer: ISSUER.to_owned(),
        client_id: "gig".to_owned(),
        client_secret: Some(Zeroizing::new("s e".to_owned())),
        scopes: "openid profile".to_owned(),
        groups_claim: "groups".to_owned(),
        teams: Vec::new(),
        roles: vec![
            ("admins".to_owned(), Role::Admin),
            ("writers".to_owned(), Role::Editor),
        ],
        default_role: None,
        redirect: "https://gig.example/sign-in/oidc/callback".to_owned(),
    }
}

fn described() -> Value {
    json!({"issuer": ISSUER, "authorization_endpoint": "https://idp.example/authorize",
           "token_endpoint": TOKEN, "jwks_uri": KEYS,
           "code_challenge_methods_supported": ["plain", "S256"]})
}

/// The value of a parameter of a URL.
fn parameter(url: &str, name: &str) -> String {
    let mut pairs = url
        .split(['?', '&'])
        .filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| *key == name).unwrap().1.to_owned()
}

impl Round {
    fn new() -> Self {
        let lab = Lab::behind(Some("https://gig.example"), &[]);
        let signer = Arc::new(Signer::new());
        // Who ran what is looked up where it is recorded.
        gig_audit::SqliteStore::open(&lab.record(), "here").unwrap();
        lab.outbound.json(DISCOVERY, &described());
        lab.outbound.json(KEYS, &signer.published());
        let sso = SingleSignOn::new(settings());
        Self { lab, signer, sso }
    }

    /// Where the browser is sent, and with which cookie.
    async fn begin(&self) -> (String, String) {
        let (url, cookie) = self.sso.begin(&self.lab.app, "/audit").await.ok().unwrap();
        let cookie = cookie.to_str().unwrap().split(';').next().unwrap();
        (url, cookie.to_owned())
    }

    /// The provider answers the next code with these claims beside the usual.
    fn vouch(&self, url: &str, changes: &Value) {
        let now = Timestamp::now().as_second();
        let mut claims = json!({"iss": ISSUER, "aud": "gig", "sub": "u1", "iat": now, "exp": now + 60,
            "nonce": parameter(url, "nonce"), "preferred_username": "ana", "groups": ["writers"]});
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        let token = self.signer.token("RS256", "r", &claims);
        self.lab.outbound.json(TOKEN, &json!({"id_token": token}));
    }

    async fn back(&self, url: &str, cookie: &str) -> Result<SignedOn, Refused> {
        self.back_with(&parameter(url, "state"), cookie, None).await
    }

    async fn back_with(
        &self,
        state: &str,
        cookie: &str,
        issuer: Option<&str>,
    ) -> Result<SignedOn, Refused> {
        let mut headers = HeaderMap::new();
        let name = HeaderName::from_static("cookie");
        headers.insert(name, HeaderValue::from_str(cookie).unwrap());
        let back = Returned {
            headers: &headers,
            state,
            code: Some("c1"),
            issuer,
            error: None,
            address: None,
            agent: "a browser".to_owned(),
        };
        self.sso.finish(&self.lab.app, back).await
    }

    /// A whole round with these claims.
    async fn sign_on(&self, changes: Value) -> Result<SignedOn, Refused> {
        let (url, cookie) = self.begin().await;
        self.vouch(&url, &changes);
        self.back(&url, &cookie).await
    }

    fn user(&self, name: &str) -> Option<User> {
        use crate::store::Store as _;
        self.lab.store.user(name).unwrap()
    }

    fn told(&self) -> Vec<Entry> {
        self.lab
            .log
            .records()
            .into_iter()
            .map(|record| record.entry)
            .collect()
    }
}

fn words<T>(refused: Result<T, Refused>) -> String {
    refused.err().expect("it was refused").to_string()
}

#[tokio::test]
async fn who_the_provider_vouches_for_is_signed_in_with_the_role_of_their_groups() {
    use crate::store::Store as _;
    let round = Round::new();
    let (url, cookie) = round.begin().await;
    assert!(url.starts_with("https://idp.example/authorize?response_type=code&client_id=gig"));
    assert!(
        url.contains("&scope=openid%20profile&") && url.ends_with("code_challenge_method=S256")
    );
    assert!(cookie.starts_with("__Host-gig-sso-"), "{cookie}");
    round.vouch(&url, &json!({}));
    let done = round.back(&url, &cookie).await.ok().unwrap();
    assert_eq!(done.next, "/audit");
    let presented = read_session(&done.session).unwrap();
    let session = round
        .lab
        .store
        .session(&presented.id, Timestamp::now())
        .unwrap();
    let session = session.unwrap();
    assert!(session.digest.is(&presented.digest));
    assert_eq!((session.user.as_str(), session.role), ("ana", Role::Editor));
    assert_eq!(session.began, "single sign-on");
    let user = round.user("ana").unwrap();
    assert!(user.own_password && user.password.is_empty());
    assert_eq!(user.account.unwrap().subject, "u1");
    // What was sent for the code: the secret as in a form, and the verifier of the challenge.
    let seen = round.lab.outbound.seen.lock();
    let asked = seen.iter().find(|request| request.url == TOKEN).unwrap();
    let basic = asked
        .headers
        .iter()
        .find(|(name, _)| name == "authorization");
    assert_eq!(basic.unwrap().1, "Basic Z2lnOnMlMjBl");
    let body = String::from_utf8(asked.body.to_vec()).unwrap();
    let verifier = parameter(&format!("?{body}"), "code_verifier");
    let challenge = Sha256::digest(verifier.as_bytes());
    use base64::Engine as _;
    let challenge = base64::prelude::BASE64_URL_SAFE_NO_PAD.encode(challenge);
    assert_eq!(parameter(&url, "code_challenge"), challenge);
}

#[tokio::test]
async fn a_round_that_this_browser_did_not_begin_is_refused_before_anybody_is_asked() {
    let round = Round::new();
    let (url, cookie) = round.begin().await;
    let (other, others) = round.begin().await;
    round.vouch(&url, &json!({}));
    let state = parameter(&url, "state");
    for (state, cookie) in [
        (state.as_str(), "other=1"),
        (state.as_str(), others.as_str()),
        (&parameter(&other, "state"), &cookie),
        ("", &cookie),
        (&state, &format!("{cookie}; {cookie}")),
        ("short", &cookie),
    ] {
        let refused = words(round.back_with(state, cookie, None).await);
        assert!(refused.contains("not begun in this browser"), "{refused}");
    }
    assert_eq!(round.lab.outbound.asked(TOKEN), 0);
    // The token of another round of the same browser, which ended none by being begun, has another nonce.
    let both = format!("{cookie}; {others}");
    let refused = words(round.back(&other, &both).await);
    assert_eq!(refused, "claim nonce of the ID token is missing or wrong");
    assert!(round.user("ana").is_none());
}

#[tokio::test]
async fn another_provider_that_answers_in_its_place_is_refused() {
    let round = Round::new();
    let (url, cookie) = round.begin().await;
    round.vouch(&url, &json!({}));
    let state = parameter(&url, "state");
    let evil = Some("https://evil.example");
    let refused = words(round.back_with(&state, &cookie, evil).await);
    assert!(refused.contains("another sign-on provider"), "{refused}");
    assert_eq!(round.lab.outbound.asked(TOKEN), 0);
    round
        .back_with(&state, &cookie, Some(ISSUER))
        .await
        .ok()
        .unwrap();
    // One that says that it names itself, and does not.
    let round = Round::new();
    let mut named = described();
    named["authorization_response_iss_parameter_supported"] = json!(true);
    round.lab.outbound.json(DISCOVERY, &named);
    let refused = words(round.sign_on(json!({})).await);
    assert!(refused.contains("another sign-on provider"), "{refused}");
}

#[tokio::test]
async fn what_a_provider_says_of_itself_is_checked() {
    for (member, value) in [
        ("issuer", json!("https://idp.example/")),
        ("issuer", json!("https://evil.example")),
        ("token_endpoint", json!("http://idp.example/token")),
        ("jwks_uri", json!("file:///etc/passwd")),
        ("code_challenge_methods_supported", json!(["plain"])),
        ("jwks_uri", Value::Null),
    ] {
        let round = Round::new();
        let mut wrong = described();
        wrong[member] = value;
        round.lab.outbound.json(DISCOVERY, &wrong);
        let refused = words(round.sso.begin(&round.lab.app, "/").await);
        assert!(refused.contains("provider cannot be used"), "{refused}");
        // It is not asked again at once.
        let again = words(round.sso.begin(&round.lab.app, "/").await);
        assert!(again.contains("a moment ago"), "{again}");
        assert_eq!(round.lab.outbound.asked(DISCOVERY), 1);
    }
}

#[tokio::test]
async fn redirects_and_answers_without_bound_sign_nobody_in() {
    for url in [TOKEN, KEYS] {
        let round = Round::new();
        let (begun, cookie) = round.begin().await;
        round.vouch(&begun, &json!({}));
        round.lab.outbound.answer(url, |_| {
            let mut headers = HeaderMap::new();
            let to = HeaderValue::from_static("http://169.254.169.254/");
            headers.insert("location", to);
            Ok(OutboundAnswer {
                status: http::StatusCode::FOUND,
                headers,
                body: bytes::Bytes::new(),
            })
        });
        let refused = words(round.back(&begun, &cookie).await);
        assert!(refused.contains("provider cannot be used"), "{refused}");
        round.lab.outbound.answer(url, |request| {
            Err(OutboundError::Large {
                host: "idp.example".to_owned(),
                largest: request.largest,
            })
        });
        let refused = words(round.back(&begun, &cookie).await);
        assert!(refused.contains("more than 262144 octets"), "{refused}");
        let everything = round.lab.outbound.seen.lock();
        assert!(everything.iter().all(|one| one.url.starts_with(ISSUER)));
    }
}

#[tokio::test]
async fn keys_that_are_new_are_fetched_once_a_minute_at_most() {
    let mut round = Round::new();
    round.sign_on(json!({})).await.ok().unwrap();
    assert_eq!(round.lab.outbound.asked(KEYS), 1);
    // Known keys are not asked for again.
    round.sign_on(json!({})).await.ok().unwrap();
    assert_eq!(round.lab.outbound.asked(KEYS), 1);
    round.signer = Arc::new(Signer::new());
    for _ in 0..3 {
        let refused = words(round.sign_on(json!({})).await);
        assert_eq!(refused, "the ID token is not signed by the provider");
    }
    assert_eq!(round.lab.outbound.asked(KEYS), 1);
}

#[tokio::test]
async fn roles_follow_groups_and_who_has_none_is_refused_on_the_record() {
    use crate::store::Store as _;
    let round = Round::new();
    round
        .sign_on(json!({"groups": ["x", "writers", "admins"]}))
        .await
        .ok()
        .unwrap();
    assert_eq!(round.user("ana").unwrap().role, Role::Admin);
    let minted = mint_token().unwrap();
    let made = Actor {
        person: Some("ana".into()),
        owner: false,
        ..owner()
    };
    let token = Change::AddToken {
        id: minted.id.clone(),
        digest: minted.digest,
        name: "ci".parse().unwrap(),
        role: Role::Viewer,
        expires: None,
        narrowing: crate::Narrowing::default(),
    };
    round.lab.store.apply(&token, &made, &|_| Ok(())).unwrap();
    round.sign_on(json!({})).await.ok().unwrap();
    assert_eq!(round.user("ana").unwrap().role, Role::Editor);
    assert!(
        round.lab.store.tokens().unwrap().is_empty(),
        "tokens end with the role"
    );
    // Theirs again, and somebody else's.
    round
        .sign_on(json!({"groups": ["admins"]}))
        .await
        .ok()
        .unwrap();
    for (id, person) in [("hers", "Ana"), ("his", "ben")] {
        let token = Change::AddToken {
            id: id.to_owned(),
            digest: minted.digest,
            name: id.parse().unwrap(),
            role: Role::Viewer,
            expires: None,
            narrowing: crate::Narrowing::default(),
        };
        let made = Actor {
            person: Some(person.into()),
            ..made.clone()
        };
        round.lab.store.apply(&token, &made, &|_| Ok(())).unwrap();
    }
    let now = round.lab.app.now();
    assert!(!round.lab.store.sessions_of("ana", now).unwrap().is_empty());
    for again in [false, true] {
        let before = round.told().len();
        let refused = words(round.sign_on(json!({"groups": ["others"]})).await);
        assert!(refused.contains("none of your groups"), "{refused}");
        let told = round.told();
        let lost = told
            .iter()
            .skip(before)
            .filter(|one| one.deed == Some(Deed::UserRole));
        assert_eq!(lost.count(), usize::from(!again), "once");
    }
    let told = round.told();
    let last = told.last().unwrap();
    assert_eq!(last.profile.as_deref(), Some("ana"));
    assert_eq!(last.verdict, Some(VerdictWord::Deny));
    assert!(last.findings[0].starts_with("single sign-on refused: none of your groups"));
    // Nothing that they have goes on; what others have does.
    assert_eq!(round.user("ana").unwrap().role, Role::Viewer);
    assert!(round.lab.store.sessions_of("ana", now).unwrap().is_empty());
    let left = round.lab.store.tokens().unwrap();
    let left: Vec<_> = left.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(left, ["his"]);
}

#[tokio::test]
async fn nobody_gets_the_account_of_another_by_a_name() {
    let round = Round::new();
    round.lab.make(&Change::AddUser {
        name: "ana".parse().unwrap(),
        role: Role::Admin,
        password: "hash".to_owned(),
    });
    round
        .sign_on(json!({"groups": ["writers"]}))
        .await
        .ok()
        .unwrap();
    let second = json!({"sub": "u2", "preferred_username": "ANA"});
    round.sign_on(second.clone()).await.ok().unwrap();
    round.sign_on(second).await.ok().unwrap();
    let odd = json!({"sub": "u3", "preferred_username": "\u{202e}<b>ana/\u{e9}"});
    round.sign_on(odd).await.ok().unwrap();
    let local = round.user("ana").unwrap();
    assert!(local.account.is_none() && local.role == Role::Admin);
    let subject = |name: &str| round.user(name).unwrap().account.unwrap().subject;
    assert_eq!(
        (subject("ana-2"), subject("ANA-3")),
        ("u1".to_owned(), "u2".to_owned())
    );
    assert_eq!(subject("b-ana--"), "u3");
    use crate::store::Store as _;
    assert_eq!(round.lab.store.users().unwrap().len(), 4);
}

#[tokio::test]
async fn nobody_gets_what_ran_for_another_by_a_name() {
    let round = Round::new();
    round.lab.make(&crate::app::tests::saved("p"));
    // Somebody whom a gateway named, whose sandboxes still run or ended long ago.
    round.lab.control.run_for("docs", "p", "Zoe");
    let store = gig_audit::SqliteStore::open(&round.lab.record(), "here").unwrap();
    let settings = gig_audit::RecorderSettings::new("here");
    let (recorder, _owner) = gig_audit::Recorder::start(Box::new(store), settings).unwrap();
    for (event, profile) in [
        (Event::SandboxStart, "ben"),
        // Whoever types a name is nobody by that.
        (Event::Auth, "cem"),
    ] {
        let mut entry = Entry::new(event);
        entry.profile = Some(profile.into());
        recorder.record(entry).await.unwrap();
    }
    // Whom a gateway will name, and for whom something is in force already.
    round.lab.make(&Change::SaveTeam {
        name: "data".parse().unwrap(),
        members: vec!["dora".to_owned()],
        expected: None,
    });
    for change in [
        Change::Assign {
            place: Place::profile("Eva"),
            policy: Some("p".to_owned()),
            expected: None,
        },
        Change::SetFloor {
            place: Place::profile("flo"),
            policy: Some("p".to_owned()),
            expected: None,
        },
    ] {
        round.lab.make(&change);
    }
    for (subject, said, name) in [
        ("u8", "Dora", "Dora-2"),
        ("u9", "eva", "eva-2"),
        ("u10", "Flo", "Flo-2"),
        ("u5", "zoe", "zoe-2"),
        ("u6", "Ben", "Ben-2"),
        ("u7", "cem", "cem"),
    ] {
        let claims = json!({"sub": subject, "preferred_username": said});
        // Also when they come again, and something has run for them.
        for _ in 0..2 {
            round.sign_on(claims.clone()).await.ok().unwrap();
            let user = round.user(name).unwrap();
            assert_eq!(user.account.unwrap().subject, subject, "{said}");
            round.lab.control.run_for("docs", "p", name);
        }
    }
    use crate::store::Store as _;
    assert_eq!(round.lab.store.users().unwrap().len(), 6);
}
